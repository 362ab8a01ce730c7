//! Times every stage of the pipeline for every kernel and number of tokens.

use std::collections::BTreeMap;

use emulator::device::{Failure, Launch, LaunchFailure, Timer};
use ptx::arch::{PtxIsa, Target};
use rayon::prelude::*;

use super::ceiling::{self, Effort};
use super::count::work;
use crate::case::{Case, Routing, Slots};
use crate::kernel::Library;
use crate::moe::compile::Compiler;
use crate::moe::pipeline::{self, Compiled, PipelineError, Session, Setup};
use crate::moe::plan::{self, Trial};
use crate::moe::{MoeError, Problem, Settings, problem};
use crate::record::{BenchRow, RateRow, Stage};

/// Why nothing was timed.
#[derive(Debug, thiserror::Error)]
pub enum TimingError {
    /// The problem cannot be made.
    #[error(transparent)]
    Moe(#[from] MoeError),
    /// The pipeline cannot begin.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The device cannot do what is measured beside the pipeline.
    #[error("the device cannot be measured: {0}")]
    Device(#[from] Failure),
    /// A kernel did not end well.
    #[error("{kernel} with {tokens} tokens: {stage}: {failure}", stage = stage.word())]
    Stage {
        /// The kernel.
        kernel: String,
        /// Tokens of the batch.
        tokens: usize,
        /// The stage.
        stage: Stage,
        /// What happened.
        failure: Failure,
    },
}

/// What is timed.
#[derive(Debug)]
pub struct Bench<'a> {
    /// Dimensions and settings; its tokens and routing give way to those of the batches.
    pub case: &'a Case,
    /// Tokens of the batches.
    pub tokens: &'a [usize],
    /// How they choose experts.
    pub routing: Routing,
    /// The kernels, as they are admitted; those that are blocked are left out.
    pub trials: &'a [Trial<'a>],
    /// Kernels.
    pub library: &'a Library,
    /// Compiles them.
    pub compiler: &'a Compiler<'a>,
    /// The PTX version and target of what is measured beside them.
    pub code: (PtxIsa, Target),
    /// Bytes to read in front of every launch: more than caches hold.
    pub flush: usize,
    /// How much is done to know a time.
    pub effort: Effort,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// Bytes that were read in front of every launch.
    pub flushed: usize,
    /// Bytes per second from memory.
    pub bandwidth: f64,
    /// Operations per second by path.
    pub rates: Vec<RateRow>,
    /// The times.
    pub rows: Vec<BenchRow>,
    /// Rows of every expert, by tokens.
    pub counts: BTreeMap<usize, Vec<usize>>,
}

/// A batch: its problem and the rows of every expert.
struct Batch {
    problem: Problem,
    counts: Vec<usize>,
}

impl Bench<'_> {
    /// Measures the device, then every kernel with every batch.
    ///
    /// # Errors
    /// [`TimingError`] at the first that cannot be measured.
    pub fn on(&self, device: &mut dyn Timer) -> Result<Measured, TimingError> {
        let bandwidth = ceiling::bandwidth(device, self.code, self.effort)?;
        let mut rates: Vec<RateRow> = Vec::new();
        let free = || self.trials.iter().filter(|t| t.config.is_ok());
        for trial in free() {
            if rates.iter().any(|r| r.path == trial.path) {
                continue;
            }
            if let Some((name, operations)) = ceiling::rate(device, self.code, trial.path, self.effort)? {
                let instruction = name.to_owned();
                rates.push(RateRow { path: trial.path.into(), instruction, operations });
            }
        }
        let mut batches = BTreeMap::new();
        for tokens in self.tokens {
            let (tokens, routing) = (*tokens, self.routing);
            let case = Case { tokens, routing, expert_rows: Vec::new(), ..self.case.clone() };
            let (problem, counts) = problem::for_timing(&case, self.case.seed)?;
            batches.insert(tokens, Batch { problem, counts });
        }
        let mut measured = Measured {
            flushed: 0,
            bandwidth,
            rates,
            rows: Vec::new(),
            counts: batches.iter().map(|(tokens, batch)| (*tokens, batch.counts.clone())).collect(),
        };
        // Compiled side by side; timed one after the other.
        let all: Vec<(&Trial<'_>, Setup)> = free().filter_map(|t| Some((t, self.setup(t)?))).collect();
        let settings = Settings::of(self.case);
        let compiled: Vec<Compiled<'_>> = all
            .par_iter()
            .map(|(_, setup)| pipeline::compile(self.compiler, self.library, &settings, setup))
            .collect::<Result<_, _>>()?;
        for ((trial, setup), compiled) in all.iter().zip(&compiled) {
            for batch in batches.values() {
                self.one(device, (trial, setup, compiled), batch, &mut measured)?;
            }
        }
        Ok(measured)
    }

    /// How a kernel is run: one after the other.
    fn setup(&self, trial: &Trial<'_>) -> Option<Setup> {
        let config = trial.config.as_ref().ok()?;
        Some(Setup { pdl: false, slots: Slots::Packed, ..plan::setup(self.case, *config) })
    }

    /// One kernel with one batch.
    fn one(
        &self,
        device: &mut dyn Timer,
        (trial, setup, compiled): (&Trial<'_>, &Setup, &Compiled<'_>),
        batch: &Batch,
        measured: &mut Measured,
    ) -> Result<(), TimingError> {
        let tokens = batch.problem.dims.tokens;
        device.reset()?;
        let launches = Session::drawn(device, compiled, &batch.problem, setup)?.launches()?;
        let (stages, launches): (Vec<Stage>, Vec<Launch>) = launches.into_iter().unzip();
        let (before, flushed) = ceiling::reader(device, self.code, self.flush, self.effort.ctas)?;
        measured.flushed = flushed;
        let failed = |LaunchFailure { launch, failure }| TimingError::Stage {
            kernel: format!("{} {} {}", trial.tile, trial.path.word(), trial.load.word()),
            tokens,
            stage: stages.get(launch).copied().unwrap_or(Stage::Route),
            failure,
        };
        // In order once, so that every stage has its inputs.
        device.run(&launches).map_err(failed)?;
        let times =
            device.time(&launches, &before, self.effort.warm_up, self.effort.samples).map_err(failed)?;
        let rate = measured.rates.iter().find(|r| r.path == trial.path).map(|r| r.operations);
        for (stage, times) in stages.iter().zip(&times) {
            let pair = batch.problem.settings.pair;
            let work = work(*stage, pair, batch.problem.dims, &batch.counts, trial.tile.m as usize);
            let milliseconds = ceiling::median(times);
            let seconds = milliseconds / 1e3;
            let of = |time: Option<f32>| time.map_or(f64::INFINITY, |t| 1e3 * f64::from(t));
            measured.rows.push(BenchRow {
                configuration: trial.configuration().key(),
                tokens,
                experts: batch.counts.iter().filter(|rows| **rows > 0).count(),
                stage: *stage,
                microseconds: 1e3 * milliseconds,
                range: [
                    of(times.iter().copied().min_by(f32::total_cmp)),
                    of(times.iter().copied().max_by(f32::total_cmp)),
                ],
                bytes: work.bytes,
                weights: work.weights,
                operations: work.operations,
                multiplied: work.multiplied,
                of_bandwidth: work.bytes as f64 / seconds / measured.bandwidth,
                of_rate: rate
                    .filter(|_| work.multiplied > 0)
                    .map(|rate| work.multiplied as f64 / seconds / rate),
            });
        }
        Ok(())
    }
}
