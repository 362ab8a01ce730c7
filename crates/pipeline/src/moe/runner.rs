//! Runs trials and keeps their verdicts: the emulator's result for the same PTX and the same data never changes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use emulator::device::Device as _;
use emulator::{EmulatorDevice, Options};
use numerics::tensor_core::Model;
use ptx::arch::Target;

use super::checkpoint::Layer;
use super::checks::{self, Checked, TrialChecks};
use super::compile::Compiler;
use super::kept::Kept;
use super::pipeline::{self, Compiled, PipelineError};
use super::plan::{self, Trial};
use super::readings::{self, Asked, Readings};
use super::tile::{Blocked, Config};
use super::trial::{self, Outcome, TrialError};
use super::{Contract, Dims, Problem, Settings, known, problem, slots};
use crate::case::Regime;
use crate::kernel::Library;
use gpu::{Chain, GpuDevice, Turn};
use record::{Check, CodeBy, EMULATOR, Stage, StageResult, TrialRow, Verdict};
use toolchain::store::Store;
use toolchain::toolkit::Nvrtc;

/// The kind of cache entry; it changes with [`StageResult`] and with the basis of a verdict.
const KIND: &str = "trial-2";

/// Everything a run of trials needs: kernels, compiler, cache and options.
pub struct Runner<'a> {
    /// Kernels.
    pub library: &'a Library,
    /// The NVRTC that compiles them.
    pub nvrtc: &'a Nvrtc,
    /// Keeps PTX and verdicts.
    pub store: Option<&'a Store>,
    /// This tool's binary, whose hidden verb compiles.
    pub program: PathBuf,
    /// The seed of the data; the case's own if `None`.
    pub seed: Option<u64>,
    /// Schedules of each trial.
    pub schedules: u64,
    /// The hardware whose results the emulator computes; that of the target if `None`.
    pub model: Option<Model>,
    /// The checkpoint layer that supplies the weights; generated weights if `None`.
    pub layer: Option<Layer>,
    /// How the emulator treats products and sums whose contraction PTX leaves open; `None` runs them as written.
    pub contract: Option<Asked>,
    gpu: Option<OnGpu>,
    memo: trial::Memo,
    kept: Kept<'a>,
}

/// The GPU that runs the trials one at a time, its name in the rows, and the tool that assembles its code.
struct OnGpu {
    device: Arc<Mutex<GpuDevice>>,
    name: String,
    chain: Chain,
    /// Bytes of free memory when it was opened.
    free: u64,
}

impl<'a> Runner<'a> {
    /// Returns the results that are kept from run to run.
    #[must_use]
    pub const fn kept(&self) -> &Kept<'a> {
        &self.kept
    }

    /// Returns this runner with trials on this GPU instead of the emulator alone. The emulator's results are computed while other
    /// trials use the GPU.
    #[must_use]
    pub fn on(self, device: Arc<Mutex<GpuDevice>>) -> Self {
        let (name, chain, free) = {
            let gpu = device.lock().unwrap_or_else(PoisonError::into_inner);
            (gpu.name(), gpu.chain().clone(), gpu.about().free)
        };
        Self { gpu: Some(OnGpu { device, name, chain, free }), ..self }
    }

    /// Returns a runner with one schedule and the cases' own seeds.
    #[must_use]
    pub fn new(library: &'a Library, nvrtc: &'a Nvrtc, store: Option<&'a Store>, program: PathBuf) -> Self {
        Self {
            library,
            nvrtc,
            store,
            program,
            seed: None,
            schedules: 1,
            model: None,
            layer: None,
            contract: None,
            gpu: None,
            memo: trial::Memo::default(),
            kept: Kept::in_store(store),
        }
    }

    /// Returns the verdicts of a trial, from the cache if present.
    ///
    /// # Errors
    /// [`TrialError`]; a wrong kernel yields a verdict, not an error.
    pub fn run(&self, trial: &Trial<'_>, target: Target) -> Result<TrialRow, TrialError> {
        let mut row = self.row(trial, target);
        let config = trial.config.clone().and_then(|config| self.fits(trial, config));
        match config {
            Ok(config) => {
                row.stages = config.stages;
                match &self.gpu {
                    Some(gpu) => self.check(trial, config, target, gpu, &mut row)?,
                    None => (row.results, row.remark) = self.results(trial, config, target)?,
                }
                known::assert_known(&trial.case, trial.tile, &row.device, &mut row.results);
                // A known failure of a stage makes the check of correctness a known failure, too.
                if row.results.iter().any(|r| r.verdict == Verdict::KnownFail) {
                    for result in row.checks.iter_mut().filter(|r| r.check == Check::Correct) {
                        result.verdict = Verdict::KnownFail;
                    }
                }
            }
            Err(blocked) => {
                let mut result = StageResult::skipped(Stage::Fc1, blocked.0);
                result.verdict = Verdict::Blocked;
                row.results.push(result);
            }
        }
        Ok(row)
    }

    /// Returns the trial's kernel if the GPU can hold its weights.
    fn fits(&self, trial: &Trial<'_>, config: Config) -> Result<Config, Blocked> {
        let setup = plan::setup(&trial.case, config);
        let free = self.gpu.as_ref().map_or(u64::MAX, |gpu| gpu.free);
        slots::too_large(&setup, Dims::from_case(&trial.case), free).map_or(Ok(config), Err)
    }

    fn row(&self, trial: &Trial<'_>, target: Target) -> TrialRow {
        TrialRow {
            case: trial.case.name.clone(),
            configuration: trial.configuration().key(),
            stages: 0,
            target: target.into(),
            device: self.gpu.as_ref().map_or_else(|| EMULATOR.to_owned(), |gpu| gpu.name.clone()),
            remark: String::new(),
            results: Vec::new(),
            code: self.gpu.as_ref().map_or(CodeBy::Nobody, |gpu| gpu.chain.code_by()),
            checks: Vec::new(),
        }
    }

    /// Runs the checks of a trial on the GPU, with the emulator's results computed alongside.
    fn check(
        &self,
        trial: &Trial<'_>,
        config: Config,
        target: Target,
        gpu: &OnGpu,
        row: &mut TrialRow,
    ) -> Result<(), TrialError> {
        let mut turn = Turn::on_gpu(&gpu.device, &gpu.name, &gpu.chain);
        let checked = self.checked(trial, config, target, checks::REPLAYS, |checks| checks.on(&mut turn))?;
        row.checks = checked.checks;
        row.results = checked.outcome.map(|outcome| outcome.stages).unwrap_or_default();
        Ok(())
    }

    /// Runs the checks of a trial on the emulator: proving that a graph of these kernels is right for every routing needs no GPU.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn checks_on_emulator(
        &self,
        trial: &Trial<'_>,
        config: Config,
        target: Target,
        replays: usize,
    ) -> Result<Checked, TrialError> {
        let mut device = EmulatorDevice::new(Arc::clone(&self.memo.programs), self.options());
        self.checked(trial, config, target, replays, |checks| checks.on(&mut device))
    }

    /// Prepares what the checks need, and runs them.
    fn checked(
        &self,
        trial: &Trial<'_>,
        config: Config,
        target: Target,
        replays: usize,
        run: impl FnOnce(&TrialChecks<'_>) -> Result<Checked, TrialError>,
    ) -> Result<Checked, TrialError> {
        let (compiled, contract) = self.compiled(trial, config, target)?;
        let seed = self.seed.unwrap_or(trial.case.seed);
        let problem = self.problem(trial)?;
        let variants = problem::variants(&trial.case, seed, self.layer.as_ref())?;
        let setup = plan::setup(&trial.case, config);
        let readings = self.readings(&compiled)?;
        let emulated = trial::on_emulator_with(
            readings.as_ref().map_or(&self.memo, |readings| &readings.memo),
            &compiled,
            &contract,
            &problem,
            &setup,
            0..1,
            self.options(),
        )?;
        run(&TrialChecks {
            compiled: &compiled,
            contract: &contract,
            problem: &problem,
            variants: &variants,
            setup: &setup,
            replays,
            emulated: emulated.first_wrong().is_none().then_some(&emulated.tensors),
            sums_open: matches!(trial.case.regime, Regime::Real | Regime::Special),
        })
    }

    /// Runs a trial, even if the cache has its verdicts.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn outcome(&self, trial: &Trial<'_>, config: Config, target: Target) -> Result<Outcome, TrialError> {
        let (compiled, contract) = self.compiled(trial, config, target)?;
        let Some(gpu) = &self.gpu else {
            let readings = self.readings(&compiled)?;
            let memo = readings.as_ref().map_or(&self.memo, |readings| &readings.memo);
            return self.emulate(memo, (trial, config), &compiled, &contract);
        };
        let problem = self.problem(trial)?;
        let mut turn = Turn::on_gpu(&gpu.device, &gpu.name, &gpu.chain);
        turn.reset().map_err(PipelineError::from)?;
        let setup = plan::setup(&trial.case, config);
        let (ran, overwritten) = pipeline::run_and_compare(&mut turn, &compiled, &problem, &setup)?;
        turn.rest();
        let mut outcome = trial::judged(ran, &contract, &gpu.name, 0)?;
        overwritten.iter().for_each(|overwritten| trial::blame(overwritten, &mut outcome.stages));
        Ok(outcome)
    }

    fn compiled(
        &self,
        trial: &Trial<'_>,
        config: Config,
        target: Target,
    ) -> Result<(Compiled<'a>, Contract), TrialError> {
        let compiler =
            Compiler { nvrtc: self.nvrtc, store: self.store, program: self.program.clone(), target };
        let (settings, setup) = (Settings::from_case(&trial.case), plan::setup(&trial.case, config));
        let compiled = pipeline::compile(&compiler, self.library, &settings, &setup)?;
        let contract =
            trial::contract(self.library, Dims::from_case(&trial.case), settings, &setup, self.model)?;
        Ok((compiled, contract))
    }

    /// The emulator's options.
    fn options(&self) -> Options {
        Options { model: self.model, ..Options::default() }
    }

    /// The data of a trial.
    fn problem(&self, trial: &Trial<'_>) -> Result<Problem, TrialError> {
        let seed = self.seed.unwrap_or(trial.case.seed);
        Ok(match &self.layer {
            Some(layer) => problem::of_layer(&trial.case, seed, layer)?,
            None => problem::generate(&trial.case, seed)?,
        })
    }

    /// The kernels in the requested reading.
    fn readings(&self, compiled: &Compiled<'_>) -> Result<Option<Readings>, TrialError> {
        let of = |asked| Readings::from_compiled(compiled, asked, self.store);
        self.contract.as_ref().map(of).transpose()
    }

    fn emulate(
        &self,
        memo: &trial::Memo,
        (trial, config): (&Trial<'_>, Config),
        compiled: &Compiled<'_>,
        contract: &Contract,
    ) -> Result<Outcome, TrialError> {
        let problem = self.problem(trial)?;
        let setup = plan::setup(&trial.case, config);
        trial::on_emulator_with(
            memo,
            compiled,
            contract,
            &problem,
            &setup,
            0..self.schedules.max(trial.case.schedules).max(trial::LAUNCHES),
            self.options(),
        )
    }

    /// Returns the verdicts, and the reading that they apply to.
    fn results(
        &self,
        trial: &Trial<'_>,
        config: Config,
        target: Target,
    ) -> Result<(Vec<StageResult>, String), TrialError> {
        let (compiled, contract) = self.compiled(trial, config, target)?;
        let readings = self.readings(&compiled)?;
        if let Some(Readings { memo, other: Some(other), remark }) = &readings {
            let run = |memo| self.emulate(memo, (trial, config), &compiled, &contract);
            let (stages, said) = readings::compared(run(memo)?, &run(other)?);
            return Ok((stages, format!("{remark}{said}")));
        }
        // If nothing is open, all readings are the same.
        let remark = readings.map(|readings| readings.remark).unwrap_or_default();
        let key = self.key(trial, config, &compiled, &contract);
        if let Some(results) = self.kept.get(KIND, key.as_ref()) {
            return Ok((results, remark));
        }
        let results = self.emulate(&self.memo, (trial, config), &compiled, &contract)?.stages;
        self.kept.put(KIND, key.as_ref(), &results);
        Ok((results, remark))
    }

    /// Returns the key of what the verdicts depend on. PTX that differs only in its `.target` is the same to the emulator, so both targets
    /// share one run. `None` if the build cannot be identified or if weights come from a file: then nothing
    /// is kept.
    fn key(
        &self,
        trial: &Trial<'_>,
        config: Config,
        compiled: &Compiled<'_>,
        contract: &Contract,
    ) -> Option<String> {
        if self.layer.is_some() {
            return None;
        }
        let mut parts = vec![
            format!("{:?} {:?} {} {:?}", trial.case, self.seed, self.schedules, self.model),
            format!("{:?} {contract:?}", plan::setup(&trial.case, config)),
        ];
        for (kernel, ptx) in &compiled.kernels {
            let text = ptx.lines().filter(|l| !l.starts_with(".target"));
            parts.push(format!("{kernel:?}\n{}", text.collect::<Vec<_>>().join("\n")));
        }
        self.kept.key(&parts)
    }
}
