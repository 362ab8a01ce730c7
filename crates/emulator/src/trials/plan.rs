//! Which trials are run, and what is checked in them.

use numerics::tensor_core::Model;

use crate::api::trap::Judge;
use crate::run::launch::{KeptLane, Options};
use crate::run::turns::Turns;

/// Which rules are checked, and what a violation does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rules {
    /// All rules; the first violation stops the launch.
    #[default]
    All,
    /// All rules; races and undefined values are listed, and the results of several schedules and fillings decide.
    Values,
    /// Only what stops a GPU too, such as an access outside every allocation: no race and no undefined value is looked for.
    None,
}

impl Rules {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::All, Self::Values, Self::None];

    /// The word for options and reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Values => "values",
            Self::None => "none",
        }
    }

    /// Reads a word; `strict` is an older word for `all`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        if word == "strict" {
            return Some(Self::All);
        }
        Self::ALL.into_iter().find(|rules| rules.word() == word)
    }
}

/// How a trial settles what PTX leaves open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reading {
    /// Products and sums as the caller chose; of lanes that store to one address, the highest.
    #[default]
    Chosen,
    /// Every pair of an unqualified product and sum rounds once.
    Contracted,
    /// Of lanes that store to one address, the lowest.
    LowestLane,
}

/// One run of all launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The seed of the schedule.
    pub seed: u64,
    /// Whether the seed also shifts the base of dynamic shared memory, within the alignment that kernels declare.
    pub shifted: bool,
    /// The byte that unwritten memory and registers hold.
    pub filling: u8,
    /// How it settles what PTX leaves open.
    pub reading: Reading,
    /// Who goes first where earlier trials recorded a conflict, if it is directed.
    pub turns: Option<Turns>,
}

/// The numbers of schedules and of fillings under [`Rules::Values`], unless others are given.
const SCHEDULES: u64 = 4;
const FILLINGS: u8 = 2;

/// The trials to run and the rules of their verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Which rules are checked.
    pub rules: Rules,
    /// Whether races and undefined values are listed under [`Rules::All`], too, instead of stopping the launch. They are failures
    /// all the same.
    pub keep_going: bool,
    /// Whether results that PTX leaves open are a failure.
    pub strict: bool,
    /// Whether results that differ between schedules are a failure although nothing races.
    pub require_equal: bool,
    /// The seed of the schedule; ignored if `schedules` is given.
    pub seed: u64,
    /// The number of schedules, with seeds from 0; if `None`, the default of the rules and `seed`.
    pub schedules: Option<u64>,
    /// The number of fillings; if `None`, the default of the rules.
    pub fillings: Option<u8>,
    /// The filling of the first trial.
    pub first_filling: u8,
    /// Whether any result is read after the launches ([`ResultBuffer::is_read`](super::ResultBuffer::is_read)).
    pub results_are_read: bool,
    /// Whether the memory before the launches is kept for the reading of the lowest lane even if the plan has only one trial.
    pub keep_before: bool,
    /// Whether a schedule may shift dynamic shared memory within the alignment that a kernel declares.
    pub shift_shared: bool,
    /// The limit of warp instructions in each launch.
    pub fuel: u64,
    /// The tensor core model whose results are computed; that of the module's target if `None`.
    pub model: Option<Model>,
    /// The number of threads of a launch.
    pub threads: usize,
}

impl Default for Plan {
    fn default() -> Self {
        let Options { poison, fuel, threads, .. } = Options::default();
        Self {
            rules: Rules::default(),
            keep_going: false,
            strict: false,
            require_equal: false,
            seed: 0,
            schedules: None,
            fillings: None,
            first_filling: poison,
            results_are_read: true,
            keep_before: true,
            shift_shared: true,
            fuel,
            model: None,
            threads,
        }
    }
}

impl Plan {
    /// The number of fillings.
    #[must_use]
    pub fn fillings(&self) -> u8 {
        self.fillings.unwrap_or(if self.rules == Rules::Values { FILLINGS } else { 1 })
    }

    /// The number of schedules.
    #[must_use]
    pub fn schedules(&self) -> u64 {
        let by_values = self.rules == Rules::Values && self.seed == 0;
        self.schedules.unwrap_or(if by_values { SCHEDULES } else { 1 })
    }

    /// The first trial, whose results are those of the launches.
    #[must_use]
    pub fn first(&self) -> Trial {
        let seed = if self.schedules.is_some() { 0 } else { self.seed };
        let shifted = self.shifts() && seed != 0;
        Trial { seed, shifted, filling: self.first_filling, reading: Reading::Chosen, turns: None }
    }

    /// Whether schedules other than 0 shift dynamic shared memory. Where results decide, they are to be those of a GPU.
    fn shifts(&self) -> bool {
        self.shift_shared && !self.lists()
    }

    /// Whether a launch continues after races and undefined values.
    const fn lists(&self) -> bool {
        matches!(self.rules, Rules::Values) || self.keep_going
    }

    /// Whether there are several schedules or fillings.
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.all().nth(1).is_some()
    }

    /// All trials of the chosen reading, starting with the first.
    pub fn all(&self) -> impl Iterator<Item = Trial> + use<> {
        let first = self.first();
        let (seed, filling) = (first.seed, first.filling);
        let (schedules, shifts) = (self.schedules(), self.shifts());
        // Fresh device memory is mostly zero, so that zero comes first or second. An odd step visits every other byte once.
        let second = if filling == 0 { Options::default().poison } else { 0 };
        let others = (1..=u8::MAX)
            .map(move |n| filling.wrapping_add(n.wrapping_mul(0x69)))
            .filter(move |byte| *byte != second);
        let fillings = [filling, second].into_iter().chain(others).take(self.fillings().into());
        fillings.flat_map(move |filling| {
            (0..schedules).map(move |n| {
                let seed = seed.wrapping_add(n);
                Trial { seed, shifted: shifts && seed != 0, filling, ..first }
            })
        })
    }

    /// Whether the reading with contracted products is tried: where results decide, or are to be determined.
    #[must_use]
    pub fn tries_contraction(&self) -> bool {
        self.rules == Rules::Values || self.strict
    }

    /// The emulator's options for a launch of a trial.
    #[must_use]
    pub fn options(&self, trial: &Trial) -> Options {
        let checked = self.rules != Rules::None;
        Options {
            seed: trial.seed,
            poison: trial.filling,
            kept_lane: if trial.reading == Reading::LowestLane {
                KeptLane::Lowest
            } else {
                KeptLane::Highest
            },
            judge: if self.lists() { Judge::Values } else { Judge::Strict },
            check_init: checked,
            check_races: checked,
            fuel: self.fuel,
            model: self.model,
            // A directed schedule holds one CTA for another.
            threads: if trial.turns.is_some() { 1 } else { self.threads },
            shift_shared: trial.shifted,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_seed_leaves_nothing_to_run() {
        for rules in Rules::ALL {
            assert_eq!(Rules::parse(rules.word()), Some(rules));
            for seed in [0, 1, u64::MAX] {
                let plan = Plan { rules, seed, ..Plan::default() };
                assert_eq!(plan.all().next(), Some(plan.first()));
                assert_eq!(plan.all().count() as u64, plan.schedules() * u64::from(plan.fillings()));
            }
        }
    }

    #[test]
    fn fillings_differ_and_zero_is_among_the_first_two() {
        let bytes = |first_filling, fillings| {
            let plan = Plan { fillings: Some(fillings), first_filling, ..Plan::default() };
            plan.all().map(|trial| trial.filling).collect::<Vec<_>>()
        };
        assert_eq!((bytes(0xCD, 1), bytes(0xCD, 3)), (vec![0xCD], vec![0xCD, 0, 0x36]));
        assert_eq!(bytes(0, 2), [0, 0xCD]);
        for first in [0xCD, 0] {
            let all: BTreeSet<u8> = bytes(first, u8::MAX).into_iter().collect();
            assert_eq!(all.len(), usize::from(u8::MAX));
        }
    }

    #[test]
    fn no_rule_is_checked_where_none_is_asked_for() {
        let options = |rules| Plan { rules, ..Plan::default() }.options(&Plan::default().first());
        let none = options(Rules::None);
        assert!(!none.check_races && !none.check_init);
        let (all, values) = (options(Rules::All), options(Rules::Values));
        assert!(all.check_races && all.check_init && all.judge == Judge::Strict);
        assert!(values.check_races && values.check_init && values.judge == Judge::Values);
    }
}
