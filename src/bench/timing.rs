//! Times every stage of the pipeline for every configuration and number of tokens.

use std::collections::BTreeMap;

use emulator::device::{Failure, Launch, LaunchFailure, Timer};
use ptx::arch::{PtxIsa, Target};
use rayon::prelude::*;

use super::ceiling::{self, Effort};
use super::count::work;
use crate::frame::RunError;
use crate::frame::compile::{Compiled, Compiler};
use crate::kernel::Library;
use crate::moe::case::{Case, Routing, Slots};
use crate::moe::pipeline::{Session, Setup};
use crate::moe::plan::{self, Trial};
use crate::moe::{MoeError, Problem, Settings, Stage, problem, sources};
use crate::record::{BenchRow, RateRow};

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum TimingError {
    /// The input data cannot be generated.
    #[error(transparent)]
    Moe(#[from] MoeError),
    /// The pipeline cannot be set up.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The device's peak rates cannot be measured.
    #[error("the device cannot be measured: {0}")]
    Device(#[from] Failure),
    /// A kernel failed.
    #[error("{kernel} with {tokens} tokens: {stage}: {failure}", stage = stage.word())]
    Stage {
        /// The configuration.
        kernel: String,
        /// Tokens of the batch.
        tokens: usize,
        /// The stage.
        stage: Stage,
        /// The device's error.
        failure: Failure,
    },
    /// A decode step of attention failed.
    #[error("{kernel} with a batch of {batch}: {failure}")]
    Decode {
        /// The configuration.
        kernel: String,
        /// Requests of the batch.
        batch: usize,
        /// The device's error.
        failure: Failure,
    },
}

/// The least and the most of times in milliseconds, in microseconds; infinity if there are none.
pub(super) fn range(times: &[f32]) -> [f64; 2] {
    let of = |time: Option<f32>| time.map_or(f64::INFINITY, |time| 1e3 * f64::from(time));
    [of(times.iter().copied().min_by(f32::total_cmp)), of(times.iter().copied().max_by(f32::total_cmp))]
}

/// A benchmark: everything that is timed, and how.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The dimensions and settings; `tokens` and `routing` below override its own.
    pub case: &'a Case,
    /// The number of tokens of each batch.
    pub tokens: &'a [usize],
    /// The routing of the batches.
    pub routing: Routing,
    /// The trials whose configurations are timed; blocked trials are skipped.
    pub trials: &'a [Trial],
    /// The kernel library.
    pub library: &'a Library,
    /// The compiler of the kernels.
    pub compiler: &'a Compiler<'a>,
    /// The PTX version and target of the kernels that measure peak rates.
    pub code: (PtxIsa, Target),
    /// Bytes to read before every launch, to flush the caches; must exceed their size.
    pub flush: usize,
    /// The warm-up runs, samples and problem sizes of a measurement.
    pub effort: Effort,
}

/// The measurements.
#[derive(Debug)]
pub struct Measured {
    /// Bytes read before every launch to flush the caches.
    pub flushed: usize,
    /// The measured read bandwidth, in bytes per second.
    pub bandwidth: f64,
    /// The measured MMA throughput of each path, in operations per second.
    pub rates: Vec<RateRow>,
    /// The time of every stage.
    pub rows: Vec<BenchRow>,
    /// The rows of every expert, by number of tokens.
    pub counts: BTreeMap<usize, Vec<usize>>,
}

/// A batch: its input data and the rows of every expert.
struct Batch {
    problem: Problem,
    counts: Vec<usize>,
}

impl Bench<'_> {
    /// Measures the peak rates of the device, then times every configuration with every batch.
    ///
    /// # Errors
    /// [`TimingError`] of the first measurement that fails.
    pub fn on(&self, device: &mut dyn Timer) -> Result<Measured, TimingError> {
        let bandwidth = ceiling::bandwidth(device, self.code, self.effort)?;
        let mut rates: Vec<RateRow> = Vec::new();
        let free = || self.trials.iter().filter(|t| t.config.is_ok());
        for trial in free() {
            if rates.iter().any(|r| r.path == trial.path.word()) {
                continue;
            }
            if let Some((name, operations)) = ceiling::rate(device, self.code, trial.path, self.effort)? {
                let instruction = name.to_owned();
                rates.push(RateRow { path: trial.path.word().to_owned(), instruction, operations });
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
        // Compiles in parallel; times sequentially.
        let all: Vec<(&Trial, Setup)> = free().filter_map(|t| Some((t, self.setup(t)?))).collect();
        let settings = Settings::from_case(self.case);
        let compiled: Vec<Compiled<'_>> = all
            .par_iter()
            .map(|(_, setup)| {
                let sources = sources::of_run(self.library, &settings, setup)?;
                Ok(self.compiler.compiled(self.library, &sources)?)
            })
            .collect::<Result<_, RunError>>()?;
        for ((trial, setup), compiled) in all.iter().zip(&compiled) {
            for batch in batches.values() {
                self.one(device, (trial, setup, compiled), batch, &mut measured)?;
            }
        }
        Ok(measured)
    }

    /// Returns the setup of a trial, with packed slots and without programmatic dependent launch; `None` if
    /// the trial is blocked.
    fn setup(&self, trial: &Trial) -> Option<Setup> {
        let config = trial.config.as_ref().ok()?;
        Some(Setup { pdl: false, slots: Slots::Packed, ..plan::setup(self.case, *config) })
    }

    /// Times one configuration with one batch.
    fn one(
        &self,
        device: &mut dyn Timer,
        (trial, setup, compiled): (&Trial, &Setup, &Compiled<'_>),
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
        // Runs the whole pipeline once, so that every stage has its inputs.
        device.run(&launches).map_err(failed)?;
        let times =
            device.time(&launches, &before, self.effort.warm_up, self.effort.samples).map_err(failed)?;
        let rate = measured.rates.iter().find(|r| r.path == trial.path.word()).map(|r| r.operations);
        for (stage, times) in stages.iter().zip(&times) {
            let pair = batch.problem.settings.pair;
            let work = work(*stage, pair, batch.problem.dims, &batch.counts, trial.tile.m as usize);
            let milliseconds = ceiling::median(times);
            let seconds = milliseconds / 1e3;
            measured.rows.push(BenchRow {
                configuration: trial.configuration().name(),
                tokens,
                experts: batch.counts.iter().filter(|rows| **rows > 0).count(),
                stage: (*stage).into(),
                microseconds: 1e3 * milliseconds,
                range: range(times),
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
