//! The loop over the trials of a plan, and the attribution of differences to their causes.

use super::plan::{Plan, Trial};
use super::verdict::{Cause, Difference, Sums, Verdict};

/// What a trial leaves.
pub struct Ended<L> {
    /// What it leaves, such as memory.
    pub left: L,
    /// Whether it ran to its end.
    pub finished: bool,
}

/// A result that differs between two trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Unequal {
    /// The buffer.
    pub buffer: String,
    /// The first byte that differs.
    pub byte: usize,
    /// The index of its element.
    pub index: Vec<usize>,
    /// The element in each trial.
    pub values: [String; 2],
    /// If it is a sum of float atomics: its terms, and the bound that the difference exceeds.
    pub sum: Option<(u64, f64)>,
}

/// What is tried.
pub trait Subject {
    /// What a trial leaves.
    type Left;
    /// Why a trial cannot run.
    type Error;

    /// Runs a trial and adds what it shows to the verdict.
    ///
    /// # Errors
    /// Only if the trial cannot run. A kernel that violates a rule ends it: [`Ended::finished`] is false.
    fn run(&mut self, trial: &Trial, verdict: &mut Verdict) -> Result<Ended<Self::Left>, Self::Error>;

    /// The first result that differs between two trials.
    fn first_difference(&self, left: [&Self::Left; 2], sums: &mut Sums) -> Option<Unequal>;
}

/// Runs the trials of a plan in the chosen reading; returns what the first one leaves.
///
/// The loop ends early at a trial that does not reach its end, and once a difference is a failure whatever else is found.
///
/// # Errors
/// Those of [`Subject::run`].
pub fn compare_trials<S: Subject>(
    subject: &mut S,
    plan: &Plan,
    verdict: &mut Verdict,
) -> Result<S::Left, S::Error> {
    let first = plan.first();
    let Ended { left: base, finished } = subject.run(&first, verdict)?;
    verdict.finished = finished;
    for trial in plan.all().skip(1).take_while(|_| finished) {
        let ended = subject.run(&trial, verdict)?;
        if !ended.finished || !attribute(subject, (&first, &base), (&trial, ended.left), verdict)? {
            break;
        }
        verdict.blame_races();
        if !verdict.differences.is_empty() && verdict.failure(plan).is_some() {
            break;
        }
    }
    verdict.blame_races();
    Ok(base)
}

/// Records how a trial differs from the first, and why. Returns false if a trial that was needed for that did not reach its end.
///
/// Between the two lie trials that change one coordinate each: the seed, the base of shared memory, the filling. Neighbours are
/// compared, from the end on, and those that have not run yet are run.
fn attribute<S: Subject>(
    subject: &mut S,
    (first, base): (&Trial, &S::Left),
    (trial, left): (&Trial, S::Left),
    verdict: &mut Verdict,
) -> Result<bool, S::Error> {
    let Some(all) = subject.first_difference([base, &left], &mut verdict.sums) else { return Ok(true) };
    let scheduled = Trial { seed: trial.seed, ..*first };
    let shifted = Trial { shifted: trial.shifted, ..scheduled };
    let changes = [
        (Cause::Filling, shifted, *trial),
        (Cause::SharedBase, scheduled, shifted),
        (Cause::Schedule, *first, scheduled),
    ];
    let mut now = left;
    for (cause, before, after) in changes.into_iter().filter(|(_, before, after)| before != after) {
        if before == *first {
            if let Some(unequal) = subject.first_difference([base, &now], &mut Sums::default()) {
                verdict.add_difference(cause, [before, after], unequal);
            }
            break;
        }
        if verdict.difference(cause).is_some() && verdict.difference(Cause::Schedule).is_some() {
            // Nothing new can be learned.
            break;
        }
        let between = subject.run(&before, verdict)?;
        if !between.finished {
            return Ok(false);
        }
        if let Some(unequal) = subject.first_difference([&between.left, &now], &mut Sums::default()) {
            verdict.add_difference(cause, [before, after], unequal);
        }
        now = between.left;
    }
    if verdict.differences.is_empty() {
        // Each change alone stays within the bounds of float-atomic sums, all of them together do not.
        verdict.add_difference(Cause::Schedule, [*first, *trial], all);
    }
    Ok(true)
}

impl Verdict {
    /// Blames the race for a difference between schedules if one is listed: whether it decides is not known, and it is the graver.
    fn blame_races(&mut self) {
        if self.races().next().is_some() {
            let by_schedule = self.differences.iter_mut().filter(|d| d.cause == Cause::Schedule);
            by_schedule.for_each(|difference| difference.cause = Cause::Race);
        }
    }

    /// Records a difference, unless there is one by the same cause.
    pub(super) fn add_difference(&mut self, cause: Cause, trials: [Trial; 2], unequal: Unequal) {
        if self.difference(cause).is_none() {
            let Unequal { buffer, byte, index, values, sum } = unequal;
            self.differences.push(Difference { cause, buffer, byte, index, trials, values, sum });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::super::plan::Rules;
    use super::*;

    /// A number that a trial computes from its seed and filling; counts the trials.
    struct Number(fn(u64, u8) -> u64, usize);

    impl Subject for Number {
        type Left = u64;
        type Error = Infallible;

        fn run(&mut self, trial: &Trial, _: &mut Verdict) -> Result<Ended<u64>, Infallible> {
            self.1 += 1;
            Ok(Ended { left: self.0(trial.seed, trial.filling), finished: true })
        }

        fn first_difference(&self, [a, b]: [&u64; 2], _: &mut Sums) -> Option<Unequal> {
            let values = [a.to_string(), b.to_string()];
            (a != b).then(|| Unequal { buffer: "n".to_owned(), byte: 0, index: vec![0], values, sum: None })
        }
    }

    fn causes(number: fn(u64, u8) -> u64, plan: &Plan) -> (Vec<Cause>, usize) {
        let (mut subject, mut verdict) = (Number(number, 0), Verdict::new(plan));
        let Ok(_) = compare_trials(&mut subject, plan, &mut verdict);
        (verdict.differences.iter().map(|d| d.cause).collect(), subject.1)
    }

    #[test]
    fn a_kernel_that_relies_on_the_base_of_shared_memory_is_no_nondeterministic_one() {
        let plan = Plan { schedules: Some(3), ..Plan::default() };
        let mut verdict = Verdict::new(&plan);
        let mut subject = Shifted;
        let Ok(_) = compare_trials(&mut subject, &plan, &mut verdict);
        assert_eq!(verdict.differences.iter().map(|d| d.cause).collect::<Vec<_>>(), [Cause::SharedBase]);
        assert!(verdict.failure(&plan).is_some());
    }

    /// Something whose result is whether the base of shared memory is shifted.
    struct Shifted;

    impl Subject for Shifted {
        type Left = bool;
        type Error = Infallible;

        fn run(&mut self, trial: &Trial, _: &mut Verdict) -> Result<Ended<bool>, Infallible> {
            Ok(Ended { left: trial.shifted, finished: true })
        }

        fn first_difference(&self, [a, b]: [&bool; 2], _: &mut Sums) -> Option<Unequal> {
            let values = [a.to_string(), b.to_string()];
            (a != b).then(|| Unequal { buffer: "n".to_owned(), byte: 0, index: vec![0], values, sum: None })
        }
    }

    #[test]
    fn a_difference_is_attributed_to_the_one_coordinate_that_makes_it() {
        let plan = Plan { rules: Rules::Values, ..Plan::default() };
        assert_eq!(causes(|_, _| 7, &plan), (vec![], 8));
        assert_eq!(causes(|seed, _| seed, &plan), (vec![Cause::Schedule], 8 + 3));
        assert_eq!(causes(|_, filling| filling.into(), &plan).0, [Cause::Filling]);
        assert_eq!(
            causes(|seed, filling| seed + 16 * u64::from(filling), &plan).0,
            [Cause::Schedule, Cause::Filling]
        );
        // Unwritten memory matters in one schedule only, whose results differ from the first's anyway.
        let hidden = |seed, filling| if seed == 2 { u64::from(filling) + 1 } else { 0 };
        assert_eq!(causes(hidden, &plan).0, [Cause::Schedule, Cause::Filling]);
        // Where equality is required, the first difference ends the trials.
        let plan = Plan { require_equal: true, schedules: Some(50), shift_shared: false, ..Plan::default() };
        assert_eq!(causes(|seed, _| seed / 2, &plan), (vec![Cause::Schedule], 3));
    }
}
