//! The trials whose results are compared: combinations of a schedule and a fill byte for uninitialized memory.

use emulator::{Options, Violation};
use numerics::tensor_core::Model;

/// How a violation is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JudgeBy {
    /// The first violation ends the launch.
    Strict,
    /// Races and undefined values are listed; the results decide.
    Values,
}

/// The default numbers of schedules and of fill bytes under [`JudgeBy::Values`].
const SCHEDULES: u64 = 4;
const POISONS: u8 = 2;

/// One run of all launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The seed of the schedule.
    pub seed: u64,
    /// The fill byte of uninitialized memory.
    pub poison: u8,
}

/// The options of trials: judging, schedules, fill bytes and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trials {
    /// How a violation is treated.
    pub judge: JudgeBy,
    /// The seed of the schedule; ignored if `schedules` is given.
    pub seed: u64,
    /// The number of schedules, with seeds from 0; if `None`, the default for `judge` and `seed`.
    pub schedules: Option<u64>,
    /// The number of fill bytes of uninitialized memory; if `None`, the default for `judge`.
    pub poisons: Option<u8>,
    /// The limit of warp instructions in each launch.
    pub fuel: u64,
    /// The tensor core model whose results are computed; that of the module's target if `None`.
    pub model: Option<Model>,
}

impl Trials {
    /// Returns the number of fill bytes of uninitialized memory to try.
    #[must_use]
    pub fn poisons(&self) -> u8 {
        self.poisons.unwrap_or(if self.judge == JudgeBy::Values { POISONS } else { 1 })
    }

    /// Returns the number of schedules to try.
    #[must_use]
    pub fn schedules(&self) -> u64 {
        let by_values = self.judge == JudgeBy::Values && self.seed == 0;
        self.schedules.unwrap_or(if by_values { SCHEDULES } else { 1 })
    }

    /// Returns the first trial, whose results are reported.
    #[must_use]
    pub fn first(&self) -> Trial {
        let seed = if self.schedules.is_some() { 0 } else { self.seed };
        Trial { seed, poison: Options::default().poison }
    }

    /// Whether there are several trials.
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.all().nth(1).is_some()
    }

    /// Returns all trials, starting with the first.
    pub fn all(&self) -> impl Iterator<Item = Trial> + use<> {
        let Trial { seed, poison } = self.first();
        let schedules = self.schedules();
        // Fresh device memory is mostly zero. An odd step visits every other byte once.
        let others =
            (1..=u8::MAX).map(move |n| poison.wrapping_add(n.wrapping_mul(0x69))).filter(|byte| *byte != 0);
        let seeds = move |n: u64| seed.wrapping_add(n);
        let fillings = [poison, 0].into_iter().chain(others).take(self.poisons().into());
        fillings.flat_map(move |poison| (0..schedules).map(move |m| Trial { seed: seeds(m), poison }))
    }
}

/// The violations of several trials.
#[derive(Debug, Default)]
pub struct Findings(pub Vec<Violation>);

impl Findings {
    /// Adds the violations of a trial; merges those with the same rule, kernel and line.
    pub fn gather(&mut self, more: Vec<Violation>) {
        for found in more {
            let same = |known: &&mut Violation| {
                let (a, b) = (&known.trap, &found.trap);
                (a.rule, a.place.line, &a.place.kernel) == (b.rule, b.place.line, &b.place.kernel)
            };
            match self.0.iter_mut().find(same) {
                Some(known) => known.times += found.times,
                None => self.0.push(found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_seed_leaves_nothing_to_run() {
        for judge in [JudgeBy::Strict, JudgeBy::Values] {
            for seed in [0, 1, u64::MAX] {
                let trials = Trials { judge, seed, schedules: None, poisons: None, fuel: 1, model: None };
                assert_eq!(trials.all().next(), Some(trials.first()));
                assert_eq!(trials.all().count() as u64, trials.schedules() * u64::from(trials.poisons()));
            }
        }
    }
    #[test]
    fn contents_of_unwritten_memory_differ_and_the_second_is_zero() {
        let bytes = |poisons| {
            let (judge, poisons) = (JudgeBy::Strict, Some(poisons));
            let trials = Trials { judge, seed: 0, schedules: None, poisons, fuel: 1, model: None };
            trials.all().map(|t| t.poison).collect::<Vec<_>>()
        };
        assert_eq!((bytes(1), bytes(3)), (vec![0xCD], vec![0xCD, 0, 0x36]));
        let all: std::collections::BTreeSet<u8> = bytes(u8::MAX).into_iter().collect();
        assert_eq!(all.len(), usize::from(u8::MAX));
    }
}
