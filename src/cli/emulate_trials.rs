//! The launches that `emulate` compares, and the violations that they find.

use emulator::{Options, Violation};

/// What a violation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum JudgeBy {
    Strict,
    Values,
}

/// Schedules and contents of unwritten memory by which `--judge values` judges.
const SCHEDULES: u64 = 4;
pub(super) const POISONS: u8 = 2;

/// One launch of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) seed: u64,
    /// What memory holds that nobody has written, byte by byte.
    pub(super) poison: u8,
}

/// The launches to compare, the one that is reported first.
pub(super) fn trials(judge: JudgeBy, seed: u64, schedules: Option<u64>, poison: Option<u8>) -> Vec<Trial> {
    let values = judge == JudgeBy::Values;
    let schedules = schedules.or((values && seed == 0).then_some(SCHEDULES));
    let seeds = schedules.map_or(seed..seed + 1, |n| 0..n);
    let poisons = poison.unwrap_or(if values { POISONS } else { 1 });
    // An odd step gives every byte once.
    let byte = |n: u8| Options::default().poison.wrapping_add(n.wrapping_mul(0x69));
    (0..poisons).flat_map(|n| seeds.clone().map(move |seed| Trial { seed, poison: byte(n) })).collect()
}

/// Adds up what launches found, by rule and line.
pub(super) fn gather(all: &mut Vec<Violation>, more: Vec<Violation>) {
    for found in more {
        let same = |known: &&mut Violation| {
            let (a, b) = (&known.trap, &found.trap);
            (a.law, a.place.line, &a.place.kernel) == (b.law, b.place.line, &b.place.kernel)
        };
        match all.iter_mut().find(same) {
            Some(known) => known.times += found.times,
            None => all.push(found),
        }
    }
}

/// The violations, a line each.
pub(super) fn listed(violations: &[Violation]) -> String {
    let line = |v: &Violation| format!("violation: {}; {} times\n", v.trap, v.times);
    violations.iter().map(line).collect()
}
