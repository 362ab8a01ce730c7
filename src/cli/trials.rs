//! Trials for `moe` and for the whole job: admitted, run, and what they would have noticed.

use rayon::prelude::*;

use super::args::JobArgs;
use super::error::CliError;
use super::toolchain::Toolchain;
use super::ways::TARGETS;
use crate::arch::Target;
use crate::case::{self, Case};
use crate::kernel::Library;
use crate::moe::admission::{self, Limits, Question};
use crate::moe::code::{Assembler, CodeError};
use crate::moe::compile::Compiler;
use crate::moe::plan::{self, Trial};
use crate::moe::runner::Runner;
use crate::moe::witness::single_byte;
use crate::moe::{Settings, coverage};
use crate::record::{PIPELINE, Record, SkippedRow, TrialRow, WitnessRow};
use crate::store::Store;
use crate::toolkit::{self, Nvrtc};

/// Faults of one byte that the whole job draws.
const REPORTED_FAULTS: u64 = 1000;

/// The pipeline of the whole job, filled into `record`: the default set for those of its targets that are SM121's own, what
/// it would have noticed, and the tiles. Targets that it is not made for are skipped with the reason.
pub(super) fn default_set(
    nvrtc: &Nvrtc,
    store: Option<&Store>,
    args: &JobArgs,
    record: &mut Record,
) -> Result<(), CliError> {
    let mut targets: Vec<Target> = TARGETS.iter().map(|t| t.parse()).collect::<Result<_, _>>()?;
    let asked = super::job::selection(args)?.targets;
    targets.retain(|t| asked.contains(t));
    if targets.is_empty() {
        let reason = format!("it runs for {}, and neither target is asked", TARGETS.join(" and "));
        record.skipped.push(SkippedRow { part: PIPELINE.to_owned(), reason });
        return Ok(());
    }
    let library = case::library();
    if !library.problems.is_empty() {
        library.problems.iter().for_each(|problem| eprintln!("error: {problem}"));
        return Err(CliError::UnusableCases(library.problems.len()));
    }
    let cases: Vec<&Case> = library.cases.iter().collect();
    let kernels = Library::embedded()?;
    let toolchain = Toolchain::find(None, &targets, store)?;
    let program = std::env::current_exe().map_err(toolkit::NvrtcError::Worker)?;
    let runner = Runner::new(&kernels, nvrtc, store, program);
    let set = plan::default_set(&cases);
    let mut trials = plan::for_targets(&set, &targets);
    if let Some(shard) = args.shard {
        trials.iter_mut().for_each(|(_, of_target)| shard.of_trials(of_target));
    }
    // One ptxas run per kernel is enough to say what it costs: the tiles' target is asked, as the report says.
    let tiles = super::tiles::target()?;
    let ran = run(&runner, &trials, &kernels, toolchain.as_ref(), Limits::SM12X, |target| target == tiles)?;
    record.witness = ran.witness(&runner)?;
    record.pipeline = ran.rows;
    record.tiles = super::tiles::of_job(&set, &kernels, toolchain.as_ref(), nvrtc, store)?;
    let first = args.shard.is_none_or(|shard| shard.is_first());
    if let Some(shard) = args.shard {
        shard.of_rows(&mut record.tiles.rows);
    }
    // What no part of the work stands for is done by the first part.
    if first {
        record.faults = vec![single_byte::faults(REPORTED_FAULTS)?];
    }
    Ok(())
}

/// What trials gave: the trials as they were admitted, target by target, and their rows.
pub(super) struct Ran<'a> {
    pub(super) trials: Vec<Trial<'a>>,
    pub(super) rows: Vec<TrialRow>,
}

impl Ran<'_> {
    /// What the data would have shown of each kernel.
    pub(super) fn witness(&self, runner: &Runner<'_>) -> Result<Vec<WitnessRow>, CliError> {
        let pairs: Vec<_> = self.trials.iter().zip(&self.rows).collect();
        Ok(coverage::of_run(runner.library, &pairs, runner.seed)?)
    }
}

/// Every target's trials, in order, where the toolchain admits it and, for targets that `assembled` names, the code
/// that ptxas makes of it.
pub(super) fn run<'a>(
    runner: &Runner<'_>,
    trials: &[(Target, Vec<Trial<'a>>)],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    limits: Limits,
    assembled: impl Fn(Target) -> bool,
) -> Result<Ran<'a>, CliError> {
    let mut ran = Ran { trials: Vec::new(), rows: Vec::new() };
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
        let one = |trial: Trial<'a>| -> Result<(Trial<'a>, TrialRow), CliError> {
            let (trial, remark) = match &assembler {
                Some(assembler) => of_code(assembler, kernels, trial)?,
                None => (trial, String::new()),
            };
            let mut row = runner.run(&trial, *target)?;
            row.remark = remark;
            Ok((trial, row))
        };
        for done in trials.into_par_iter().map(one).collect::<Vec<_>>() {
            let (trial, row) = done?;
            ran.trials.push(trial);
            ran.rows.push(row);
        }
    }
    Ok(ran)
}

/// The trial as the code of its GEMM is admitted, and what that costs.
fn of_code<'a>(
    assembler: &Assembler<'_>,
    kernels: &Library,
    trial: Trial<'a>,
) -> Result<(Trial<'a>, String), CliError> {
    let Ok(config) = trial.config else { return Ok((trial, String::new())) };
    let (settings, setup) = (Settings::of(trial.case), plan::setup(trial.case, config));
    let question = Question {
        tile: trial.tile,
        swap_ab: trial.swap_ab,
        kernel: kernels.gemm(trial.path, trial.load)?,
        path: trial.path,
        toolchain: None,
        limits: assembler.limits,
    };
    let Ok(admitted) = admission::admit(&question) else { return Ok((trial, String::new())) };
    let code = match assembler.gemm(kernels, &settings, &setup, &admitted) {
        // What does not compile is told by the trial itself, with its stage.
        Err(CodeError::Nvrtc(_)) => return Ok((trial, String::new())),
        other => other?,
    };
    Ok(match code.verdict {
        Ok(remark) => (trial, remark),
        Err(blocked) => (Trial { config: Err(blocked), ..trial }, String::new()),
    })
}

/// The trials as the toolchain admits them for a target.
pub(super) fn admitted<'a>(
    trials: &[Trial<'a>],
    kernels: &Library,
    toolchain: Option<&Toolchain>,
    target: Target,
    limits: Limits,
) -> Result<Vec<Trial<'a>>, CliError> {
    let chain = toolchain.map(|t| t.of(target));
    Ok(trials.iter().map(|t| t.admitted_on(kernels, chain, limits)).collect::<Result<_, _>>()?)
}
