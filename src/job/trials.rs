//! Runs trials of families: admission, execution and fault coverage.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use ptx::arch::Target;

use super::context::Context;
use super::error::JobError;
use super::toolchain::Toolchain;
use super::whole::Options;
use crate::event::{Event, Sink};
use crate::families;
use crate::frame::admission::Limits;
use crate::frame::code::Assembler;
use crate::frame::compile::Compiler;
use crate::frame::family::{Family, SharedTrial, Trial};
use crate::frame::runner::Runner;
use crate::kernel::Library;
use crate::record::{ExerciseRow, FaultCoverageRow, Record, SkippedRow, TileTable, TrialRow, Verdict};
use crate::store::Store;
use crate::toolkit::Nvrtc;

/// The default targets of kernels.
pub const TARGETS: [&str; 2] = ["sm_121a", "sm_121f"];

/// The number of single-byte faults that the whole job draws.
const REPORTED_FAULTS: u64 = 1000;

/// The trials of one target.
pub type OfTarget = (Target, Vec<SharedTrial>);

/// Records every family as skipped, for this reason.
pub(super) fn skip_all(reason: &str, needed: bool, record: &mut Record) {
    for family in families::FAMILIES {
        let (part, reason) = (family.row().title, reason.to_owned());
        record.skipped.push(SkippedRow { part, reason, needed });
    }
}

/// Returns a set of trials for each of these targets: the whole set for the first, and for the others what a further target runs.
#[must_use]
pub fn for_targets(
    family: &dyn Family,
    set: &[SharedTrial],
    targets: &[Target],
    kernels: &Library,
) -> Vec<OfTarget> {
    // PTX for another target of the same chip differs only in `.target`, unless kernels test the target that they are compiled for.
    let further = if kernels.asks_for_target() { set.to_vec() } else { family.for_further_target(set) };
    let of = |n| if n == 0 { set.to_vec() } else { further.clone() };
    targets.iter().enumerate().map(|(n, target)| (*target, of(n))).collect()
}

/// Runs the default set of every family for those of [`TARGETS`] that are selected, and adds to `record` the trials, their fault coverage
/// and the table of configurations. If none of the targets is selected, the parts are skipped with a reason.
pub(super) fn default_sets(
    nvrtc: &Nvrtc,
    store: Option<&Store>,
    (options, context): (&Options, &Context<'_>),
    record: &mut Record,
) -> Result<(), JobError> {
    let mut targets: Vec<Target> = TARGETS.iter().map(|t| t.parse()).collect::<Result<_, _>>()?;
    let asked = options.selection()?.targets;
    targets.retain(|t| asked.contains(t));
    if targets.is_empty() {
        let reason = format!("it runs for {}, but neither target is selected", TARGETS.join(" and "));
        skip_all(&reason, false, record);
        return Ok(());
    }
    let problems: Vec<String> = families::FAMILIES.iter().flat_map(|family| family.problems()).collect();
    if !problems.is_empty() {
        let count = problems.len();
        for text in problems {
            context.sink.emit(Event::Problem { text });
        }
        return Err(JobError::UnusableCases(count));
    }
    let kernels = Library::embedded()?;
    let toolchain = Toolchain::find(None, &targets, store, context.sink)?;
    let runner = Runner::new(&kernels, nvrtc, store, context.program.clone());
    let mut sets: Vec<(&dyn Family, Vec<SharedTrial>)> = Vec::new();
    let mut trials: BTreeMap<Target, Vec<SharedTrial>> = BTreeMap::new();
    for family in families::FAMILIES {
        let set = default_set(family);
        for (target, of_target) in for_targets(family, &set, &targets, &kernels) {
            trials.entry(target).or_default().extend(of_target);
        }
        sets.push((family, set));
    }
    // In the order of the targets.
    let mut trials: Vec<OfTarget> =
        targets.iter().filter_map(|target| Some((*target, trials.remove(target)?))).collect();
    if let Some(shard) = options.shard {
        trials.iter_mut().for_each(|(_, of_target)| shard.of_trials(of_target));
    }
    // One ptxas run per kernel is enough to determine its cost. The report names the target: that of the table.
    let table_target = super::tiles::target()?;
    let assembled = |target| target == table_target;
    let ran = run(&runner, &trials, toolchain.as_ref(), Limits::SM12X, assembled, (None, context.sink))?;
    // The other targets run a subset, because their PTX differs only in `.target`.
    let first = ran.of_target(targets.first());
    record.fault_coverage = first.fault_coverage(&runner)?;
    record.exercised = first.exercised(&runner);
    record.families = families::FAMILIES.iter().map(|family| family.row()).collect();
    record.trials = ran.rows;
    record.tiles = TileTable::default();
    for (family, set) in sets {
        let table =
            super::tiles::of_job(family, &set, &kernels, toolchain.as_ref(), nvrtc, (store, context))?;
        record.tiles.rows.extend(table.rows);
        record.tiles.peers.extend(table.peers);
    }
    record.tiles.policies = super::tiles::policies(super::tiles::POLICY_MODEL)?;
    if let Some(shard) = options.shard {
        shard.of_rows(&mut record.tiles.rows);
    }
    // Work that belongs to no shard is done by the first one.
    if options.shard.is_none_or(|shard| shard.is_first()) {
        for family in families::FAMILIES {
            record.faults.extend(family.faults(REPORTED_FAULTS)?);
        }
    }
    Ok(())
}

/// The trials of a family that run unless something else is asked for.
pub(super) fn default_set(family: &dyn Family) -> Vec<SharedTrial> {
    let names: Vec<String> = family.cases().into_iter().map(|case| case.name).collect();
    family.default_set(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The trials of a run as they were admitted, grouped by target, and their rows.
pub struct Ran {
    /// The admitted trials.
    pub trials: Vec<SharedTrial>,
    /// Their rows, in the same order.
    pub rows: Vec<TrialRow>,
}

impl Ran {
    /// Returns the trials for one target.
    fn of_target(&self, target: Option<&Target>) -> Self {
        let of = |(_, row): &(&SharedTrial, &TrialRow)| row.target.known() == target;
        let (trials, rows) = self
            .trials
            .iter()
            .zip(&self.rows)
            .filter(of)
            .map(|(t, r)| (SharedTrial::clone(t), r.clone()))
            .unzip();
        Self { trials, rows }
    }

    /// Returns the files of a folder's kernels if there are some and no judged trial ran any of them.
    ///
    /// # Errors
    /// [`JobError::Kernel`] if a stage has no kernel.
    pub fn idle_folder(&self, library: &Library) -> Result<Option<Vec<String>>, JobError> {
        let own: Vec<String> = library.kernels.iter().filter(|k| k.own).map(|k| k.file.clone()).collect();
        if own.is_empty() {
            return Ok(None);
        }
        for (trial, row) in self.trials.iter().zip(&self.rows) {
            if trial.blocked().is_none()
                && row.is_judged()
                && trial.sources(library)?.iter().any(|source| source.kernel.own)
            {
                return Ok(None);
            }
        }
        Ok(Some(own))
    }

    /// The trials of a family, with their rows.
    fn of_family(&self, family: &dyn Family) -> Vec<(&dyn Trial, &TrialRow)> {
        let all = self.trials.iter().zip(&self.rows);
        let of = all.filter(|(trial, _)| trial.family().name() == family.name());
        of.map(|(trial, row)| (trial.as_ref(), row)).collect()
    }

    /// Adds to the first wrong results of each family what explains them.
    fn explain(&mut self, runner: &Runner<'_>) {
        let mut explained: BTreeMap<&str, usize> = BTreeMap::new();
        for (trial, row) in self.trials.iter().zip(&mut self.rows) {
            let (Some(target), Some(wrong)) =
                (row.target.known().copied(), row.results.iter_mut().find(|r| !r.verdict.conforms()))
            else {
                continue;
            };
            let count = explained.entry(trial.family().name()).or_default();
            // A violated rule says by itself what is wrong.
            if wrong.verdict != Verdict::Fail || wrong.mismatches == 0 || *count == EXPLAINED {
                continue;
            }
            *count += 1;
            if let Some(mut found) = runner.explained(trial.as_ref(), target) {
                // A note is one line; `--shrink` prints the program.
                found.arithmetic = None;
                wrong.note = format!("{}; {}", wrong.note, found.text().trim_end().replace('\n', "; "));
            }
        }
    }

    /// Returns what the trials exercise in each configuration.
    #[must_use]
    pub fn exercised(&self, runner: &Runner<'_>) -> Vec<ExerciseRow> {
        let of = |family: &&'static dyn Family| family.exercised(&self.of_family(*family), runner.seed);
        families::FAMILIES.iter().flat_map(of).collect()
    }

    /// Returns the fault coverage of each kernel: the share of its faults that the data expose.
    ///
    /// # Errors
    /// [`JobError::Trial`] if the data cannot be generated.
    pub fn fault_coverage(&self, runner: &Runner<'_>) -> Result<Vec<FaultCoverageRow>, JobError> {
        let mut out = Vec::new();
        for family in families::FAMILIES {
            let trials = self.of_family(family);
            out.extend(family.fault_coverage(runner.library, &trials, runner.seed, runner.kept())?);
        }
        Ok(out)
    }
}

/// Runs the trials of every target, in order, if the toolchain admits them. For targets that `assembled` accepts, ptxas also
/// assembles the kernel and its machine code must be admitted. Trials that have not started at the `deadline` are left out; these
/// are the last in order.
///
/// # Errors
/// Failures that are not a verdict: a kernel that does not compile, data that cannot be generated.
pub fn run(
    runner: &Runner<'_>,
    trials: &[OfTarget],
    toolchain: Option<&Toolchain>,
    limits: Limits,
    assembled: impl Fn(Target) -> bool,
    (deadline, sink): (Option<Instant>, &dyn Sink),
) -> Result<Ran, JobError> {
    let kernels = runner.library;
    let mut assemblers = Vec::new();
    let mut work = Vec::new();
    for (target, trials) in trials {
        let trials = admitted(trials, kernels, toolchain, *target, limits)?;
        let assembler = toolchain.filter(|_| assembled(*target)).map(|toolchain| Assembler {
            compiler: Compiler {
                nvrtc: runner.nvrtc,
                store: runner.store,
                program: runner.program.clone(),
                target: *target,
            },
            toolkit: &toolchain.toolkit,
            limits,
        });
        work.extend(trials.into_iter().map(|trial| (assemblers.len(), *target, trial)));
        assemblers.push(assembler);
    }
    sink.emit(Event::TrialsStarted { trials: work.len() });
    let one = |(n, (assembler, target, trial)): (usize, (usize, Target, SharedTrial))| {
        let assembler: Option<&Assembler<'_>> = assemblers.get(assembler).and_then(Option::as_ref);
        let begun = Instant::now();
        let done = (|| {
            let (trial, remark) = match assembler {
                Some(assembler) => trial.assembled(kernels, assembler)?,
                None => (trial, String::new()),
            };
            let mut row = runner.run(trial.as_ref(), target)?;
            row.remark = match (row.remark.is_empty(), remark.is_empty()) {
                (true, _) => remark,
                (false, true) => row.remark,
                (false, false) => format!("{}; {remark}", row.remark),
            };
            row.seconds = begun.elapsed().into();
            Ok::<_, JobError>((trial, row))
        })();
        sink.emit(Event::TrialFinished);
        (n, done)
    };
    let mut work: Vec<_> = work.into_iter().enumerate().collect();
    if deadline.is_none() {
        // A long trial that starts last leaves the other cores idle. Targets run one after the other, so that results of the same PTX
        // for the first target are in the cache.
        work.sort_by_key(|(_, (target, _, trial))| (*target, std::cmp::Reverse(trial.cost())));
    }
    let mut done = in_turn(work, deadline, one);
    sink.emit(Event::TrialsFinished);
    done.sort_by_key(|(n, _)| *n);
    let mut ran = Ran { trials: Vec::new(), rows: Vec::new() };
    for (_, done) in done {
        let (trial, row) = done?;
        ran.trials.push(trial);
        ran.rows.push(row);
    }
    ran.explain(runner);
    Ok(ran)
}

/// The most trials of a family whose wrong results are explained: each is run once more.
const EXPLAINED: usize = 2;

/// Processes items in order on parallel workers and starts none after the deadline. Returns the results in order.
fn in_turn<T: Send, R: Send>(
    items: Vec<T>,
    deadline: Option<Instant>,
    one: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let left = Mutex::new(items.into_iter().enumerate());
    let over = || deadline.is_some_and(|end| Instant::now() >= end);
    // The lock is held only to take an item, not to process it.
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut done = Vec::new();
        while !over()
            && let Some((n, item)) = next()
        {
            done.push((n, one(item)));
        }
        done
    };
    // Not rayon's pool: a pool thread that waits inside an item that holds the GPU could start another item that needs the GPU.
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..rayon::current_num_threads()).map(|_| scope.spawn(work)).collect();
        let joined = |thread: ScopedJoinHandle<'_, Vec<(usize, R)>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(joined).collect()
    });
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns the trials as the toolchain admits them for a target.
///
/// # Errors
/// [`JobError::Trial`] if no kernel has a trial's configuration.
pub fn admitted(
    trials: &[SharedTrial],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    target: Target,
    limits: Limits,
) -> Result<Vec<SharedTrial>, JobError> {
    let chain = toolchain.map(|t| t.for_target(target));
    Ok(trials.iter().map(|t| t.admitted(kernels, chain, limits)).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_turn_stays_in_order_and_ends_with_its_time() {
        let all: Vec<usize> = (0..200).collect();
        assert_eq!(in_turn(all.clone(), None, |n| n), all);
        let some = in_turn(all.clone(), Some(Instant::now() + std::time::Duration::from_millis(60)), |n| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            n
        });
        assert!(!some.is_empty() && some.len() < 200 && some == all[..some.len()], "{some:?}");
        assert!(in_turn(all, Some(Instant::now()), |n| n).is_empty());
    }
}
