//! Runs trials of the pipeline: admission, execution and fault coverage.

use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use ptx::arch::Target;

use super::context::Context;
use super::error::JobError;
use super::toolchain::Toolchain;
use super::whole::Options;
use crate::case::{self, Case};
use crate::event::{Event, Sink};
use crate::kernel::Library;
use crate::moe::admission::{self, Limits, Question};
use crate::moe::code::{Assembler, CodeError};
use crate::moe::compile::Compiler;
use crate::moe::plan::{self, Trial};
use crate::moe::runner::Runner;
use crate::moe::witness::single_byte;
use crate::moe::{Dims, Settings, coverage, exercise, sources};
use crate::record::{ExerciseRow, FaultCoverageRow, PIPELINE, Record, SkippedRow, TrialRow};
use crate::store::Store;
use crate::toolkit::Nvrtc;

/// The default targets of the pipeline's kernels.
pub const TARGETS: [&str; 2] = ["sm_121a", "sm_121f"];

/// The number of single-byte faults that the whole job draws.
const REPORTED_FAULTS: u64 = 1000;

/// Runs the pipeline part of the whole job and adds it to `record`: the default set for those of [`TARGETS`] that are selected,
/// its fault coverage, and the tile table. If none of them is selected, the part is skipped with a reason.
pub(super) fn default_set(
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
        record.skipped.push(SkippedRow { part: PIPELINE.to_owned(), reason, needed: false });
        return Ok(());
    }
    let library = case::library();
    if !library.problems.is_empty() {
        for problem in &library.problems {
            context.sink.emit(Event::Problem { text: problem.to_string() });
        }
        return Err(JobError::UnusableCases(library.problems.len()));
    }
    let cases: Vec<&Case> = library.cases.iter().collect();
    let kernels = Library::embedded()?;
    let toolchain = Toolchain::find(None, &targets, store, context.sink)?;
    let runner = Runner::new(&kernels, nvrtc, store, context.program.clone());
    let set = plan::default_set(&cases);
    let mut trials = plan::for_targets(&set, &targets, &kernels);
    if let Some(shard) = options.shard {
        trials.iter_mut().for_each(|(_, of_target)| shard.of_trials(of_target));
    }
    // One ptxas run per kernel is enough to determine its cost. The report names the target: that of the tile table.
    let tiles = super::tiles::target()?;
    let assembled = |target| target == tiles;
    let ran = run(&runner, &trials, toolchain.as_ref(), Limits::SM12X, assembled, (None, context.sink))?;
    // The other targets run a subset, because their PTX differs only in `.target`.
    let first = ran.of_target(targets.first());
    record.fault_coverage = first.fault_coverage(&runner)?;
    record.exercised = first.exercised(&runner);
    record.pipeline = ran.rows;
    record.tiles = super::tiles::of_job(&set, &kernels, toolchain.as_ref(), nvrtc, (store, context))?;
    let first = options.shard.is_none_or(|shard| shard.is_first());
    if let Some(shard) = options.shard {
        shard.of_rows(&mut record.tiles.rows);
    }
    // Work that belongs to no shard is done by the first one.
    if first {
        record.faults = vec![single_byte::faults(case::FormatPair::default(), REPORTED_FAULTS)?];
    }
    Ok(())
}

/// The trials of a run as they were admitted, grouped by target, and their rows.
pub struct Ran<'a> {
    /// The admitted trials.
    pub trials: Vec<Trial<'a>>,
    /// Their rows, in the same order.
    pub rows: Vec<TrialRow>,
}

impl<'a> Ran<'a> {
    /// Returns the trials for one target.
    fn of_target(&self, target: Option<&Target>) -> Self {
        let of = |(_, row): &(&Trial<'a>, &TrialRow)| row.target.known() == target;
        let (trials, rows) =
            self.trials.iter().zip(&self.rows).filter(of).map(|(t, r)| (t.clone(), r.clone())).unzip();
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
            let (Ok(config), true) = (&trial.config, row.is_judged()) else { continue };
            let config = *config;
            let setup = plan::setup(&trial.case, config);
            let used = sources::of_run(library, &Settings::from_case(&trial.case), &setup)?;
            if used.iter().any(|source| source.kernel.own) {
                return Ok(None);
            }
        }
        Ok(Some(own))
    }

    /// Returns what the trials exercise in each configuration.
    #[must_use]
    pub fn exercised(&self, runner: &Runner<'_>) -> Vec<ExerciseRow> {
        let pairs: Vec<_> = self.trials.iter().zip(&self.rows).collect();
        exercise::of_run(&pairs, runner.seed)
    }

    /// Returns the fault coverage of each kernel: the share of its faults that the data expose.
    ///
    /// # Errors
    /// [`JobError::Moe`] if the reference cannot be computed.
    pub fn fault_coverage(&self, runner: &Runner<'_>) -> Result<Vec<FaultCoverageRow>, JobError> {
        let pairs: Vec<_> = self.trials.iter().zip(&self.rows).collect();
        Ok(coverage::of_run(runner.library, &pairs, runner.seed, runner.kept())?)
    }
}

/// Runs the trials of every target, in order, if the toolchain admits them. For targets that `assembled` accepts, ptxas also
/// assembles the kernel and its machine code must be admitted. Trials that have not started at the `deadline` are left out; these
/// are the last in order.
///
/// # Errors
/// Failures that are not a verdict: a kernel that does not compile, data that cannot be generated.
pub fn run<'a>(
    runner: &Runner<'_>,
    trials: &[(Target, Vec<Trial<'a>>)],
    toolchain: Option<&Toolchain>,
    limits: Limits,
    assembled: impl Fn(Target) -> bool,
    (deadline, sink): (Option<Instant>, &dyn Sink),
) -> Result<Ran<'a>, JobError> {
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
    let one = |(n, (assembler, target, trial)): (usize, (usize, Target, Trial<'a>))| {
        let assembler: Option<&Assembler<'_>> = assemblers.get(assembler).and_then(Option::as_ref);
        let done = (|| {
            let (trial, remark) = match assembler {
                Some(assembler) => of_code(assembler, kernels, trial)?,
                None => (trial, String::new()),
            };
            let mut row = runner.run(&trial, target)?;
            row.remark = match (row.remark.is_empty(), remark.is_empty()) {
                (true, _) => remark,
                (false, true) => row.remark,
                (false, false) => format!("{}; {remark}", row.remark),
            };
            Ok::<_, JobError>((trial, row))
        })();
        sink.emit(Event::TrialFinished);
        (n, done)
    };
    let mut work: Vec<_> = work.into_iter().enumerate().collect();
    if deadline.is_none() {
        // A long trial that starts last leaves the other cores idle. Targets run one after the other, so that results of the same PTX
        // for the first target are in the cache.
        work.sort_by_key(|(_, (target, _, trial))| (*target, std::cmp::Reverse(products(trial))));
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
    Ok(ran)
}

/// Returns the number of products in both GEMMs of a trial, an estimate of its run time.
fn products(trial: &Trial<'_>) -> usize {
    let dims = Dims::from_case(&trial.case);
    3 * dims.tokens * dims.top_k * dims.hidden * dims.inter
}

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

/// Assembles the trial's GEMM. Returns the trial, blocked if its machine code is not admitted, and a remark on the code's cost.
fn of_code<'a>(
    assembler: &Assembler<'_>,
    kernels: &Library,
    trial: Trial<'a>,
) -> Result<(Trial<'a>, String), JobError> {
    let Ok(config) = trial.config else { return Ok((trial, String::new())) };
    let (settings, setup) = (Settings::from_case(&trial.case), plan::setup(&trial.case, config));
    let pair = trial.case.pair;
    let question = Question {
        pair,
        tile: trial.tile,
        swap_ab: trial.swap_ab,
        kernel: kernels.gemm(pair, trial.path, trial.load)?,
        path: trial.path,
        toolchain: None,
        limits: assembler.limits,
    };
    let Ok(admitted) = admission::admit(&question) else { return Ok((trial, String::new())) };
    let code = match assembler.gemm(kernels, &settings, &setup, &admitted) {
        // The trial itself reports a compilation failure, with its stage.
        Err(CodeError::Nvrtc(_)) => return Ok((trial, String::new())),
        other => other?,
    };
    Ok(match code.verdict {
        Ok(remark) => (trial, remark),
        Err(blocked) => (Trial { config: Err(blocked), ..trial }, String::new()),
    })
}

/// Returns the trials as the toolchain admits them for a target.
///
/// # Errors
/// [`JobError::Trial`] if no kernel has a trial's configuration.
pub fn admitted<'a>(
    trials: &[Trial<'a>],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    target: Target,
    limits: Limits,
) -> Result<Vec<Trial<'a>>, JobError> {
    let chain = toolchain.map(|t| t.for_target(target));
    Ok(trials.iter().map(|t| t.admitted_on(kernels, chain, limits)).collect::<Result<_, _>>()?)
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
