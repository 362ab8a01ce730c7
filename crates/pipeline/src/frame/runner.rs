//! Runs trials and keeps their verdicts: the emulator's result for the same PTX and the same data never changes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use emulator::{EmulatorDevice, Options};
use numerics::tensor_core::Model;
use ptx::arch::Target;

use super::compile::{Compiled, Compiler};
use super::diagnosis::Diagnosis;
use super::kept::Kept;
use super::known;
use super::readings::{self, Asked, Readings};
use super::{Memo, RunError, TrialError};
use crate::frame::family::{self, Checked, Outcome, Prepared, Trial};
use crate::kernel::Library;
use emulator::device::Device as _;
use gpu::{Chain, GpuDevice, Turn};
use record::{Check, CodeBy, EMULATOR, Elapsed, StageResult, TrialRow, Verdict};
use toolchain::store::Store;
use toolchain::toolkit::Nvrtc;

/// The kind of cache entry; it changes with [`StageResult`] and with the basis of a verdict.
const KIND: &str = "trial-3";

/// Replays that must store the same bits on a GPU.
pub const REPLAYS: usize = 100;

/// Minimum launches of a trial on the emulator, on the same memory: the second one finds the state that the first one left.
pub const LAUNCHES: u64 = 2;

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
    /// How the emulator treats products and sums whose contraction PTX leaves open; `None` runs them as written.
    pub contract: Option<Asked>,
    gpu: Option<OnGpu>,
    memo: Memo,
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

    /// Returns what its trials share on the emulator.
    #[must_use]
    pub const fn memo(&self) -> &Memo {
        &self.memo
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
            contract: None,
            gpu: None,
            memo: Memo::default(),
            kept: Kept::in_store(store),
        }
    }

    /// Returns the verdicts of a trial, from the cache if present.
    ///
    /// # Errors
    /// [`TrialError`]; a wrong kernel yields a verdict, not an error.
    pub fn run(&self, trial: &dyn Trial, target: Target) -> Result<TrialRow, TrialError> {
        let mut row = self.row(trial, target);
        let free = self.gpu.as_ref().map_or(u64::MAX, |gpu| gpu.free);
        let blocked = trial.blocked().map(|(stage, reason)| (stage, reason.to_owned()));
        let large = || trial.too_large(free).map(|reason| (self.first_stage(trial), reason));
        if let Some((stage, reason)) = blocked.or_else(large) {
            row.results.push(family::blocked(stage, &reason));
            return Ok(row);
        }
        row.depth = trial.depth();
        match &self.gpu {
            Some(gpu) => {
                let mut turn = Turn::on_gpu(&gpu.device, &gpu.name, &gpu.chain);
                let Checked { stages, checks } = self.checked(trial, target, &mut turn, REPLAYS)?;
                (row.results, row.checks) = (stages, checks);
            }
            None => (row.results, row.remark) = self.results(trial, target)?,
        }
        known::assert_known(&trial.known_failures(), &row.configuration, &row.device, &mut row.results);
        // A known failure of a stage makes the check of correctness a known failure, too.
        if row.results.iter().any(|r| r.verdict == Verdict::KnownFail) {
            for result in row.checks.iter_mut().filter(|r| r.check == Check::Correct) {
                result.verdict = Verdict::KnownFail;
            }
        }
        Ok(row)
    }

    /// The first stage of a trial's family: a problem that does not fit a device stops there.
    fn first_stage(&self, trial: &dyn Trial) -> record::StageName {
        trial.family().row().stages.into_iter().next().map(|stage| stage.name).unwrap_or_default()
    }

    fn row(&self, trial: &dyn Trial, target: Target) -> TrialRow {
        TrialRow {
            family: trial.family().name().to_owned(),
            case: trial.case().to_owned(),
            configuration: trial.configuration(),
            depth: 0,
            target: target.into(),
            device: self.gpu.as_ref().map_or_else(|| EMULATOR.to_owned(), |gpu| gpu.name.clone()),
            remark: String::new(),
            results: Vec::new(),
            code: self.gpu.as_ref().map_or(CodeBy::Nobody, |gpu| gpu.chain.code_by()),
            checks: Vec::new(),
            seconds: Elapsed::default(),
        }
    }

    /// Runs the checks of a trial on the emulator: proving that a graph of these kernels is right for every input needs no GPU.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn checks_on_emulator(
        &self,
        trial: &dyn Trial,
        target: Target,
        replays: usize,
    ) -> Result<Checked, TrialError> {
        let mut device = EmulatorDevice::new(Arc::clone(&self.memo.programs), self.options());
        self.checked(trial, target, &mut device, replays)
    }

    /// Prepares what the checks need, and runs them.
    fn checked(
        &self,
        trial: &dyn Trial,
        target: Target,
        device: &mut dyn emulator::device::Device,
        replays: usize,
    ) -> Result<Checked, TrialError> {
        let compiled = self.compiled(trial, target)?;
        let prepared = self.prepared(trial)?;
        let readings = self.readings(&compiled)?;
        let memo = readings.as_ref().map_or(&self.memo, |readings| &readings.memo);
        prepared.checked(memo, &compiled, device, replays, self.options())
    }

    /// Runs a trial on the emulator in the requested reading, even if the cache has its verdicts.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn outcome(&self, trial: &dyn Trial, target: Target) -> Result<Outcome, TrialError> {
        self.outcome_of_seed(trial, target, self.seed)
    }

    /// As [`Self::outcome`], with another seed; that of the case if there is none.
    fn outcome_of_seed(
        &self,
        trial: &dyn Trial,
        target: Target,
        seed: Option<u64>,
    ) -> Result<Outcome, TrialError> {
        let compiled = self.compiled(trial, target)?;
        let readings = self.readings(&compiled)?;
        let memo = readings.as_ref().map_or(&self.memo, |readings| &readings.memo);
        let prepared = trial.prepared(self.library, seed, self.model, &self.memo)?;
        self.emulated(memo, trial, prepared.as_ref(), &compiled)
    }

    /// Returns what explains the wrong results of a trial on the emulator; `None` if the family has no hypotheses, or the emulator finds
    /// nothing wrong. Where the trial's data leave several explanations, or none, the same kernels run on other data.
    pub fn explained(&self, trial: &dyn Trial, target: Target) -> Option<Diagnosis> {
        let mut diagnosis =
            trial.explained(self.library, &self.outcome(trial, target).ok()?, self.seed, target)?;
        for (data, other) in trial.more_telling() {
            if diagnosis.is_unique() {
                break;
            }
            // A run that cannot begin, and one without a wrong result, settle nothing.
            let outcome = self.outcome_of_seed(other.as_ref(), target, None).ok();
            let of_other = outcome.and_then(|outcome| other.explained(self.library, &outcome, None, target));
            if let Some(of_other) = of_other {
                diagnosis.narrow_by(&of_other, &data);
            }
        }
        Some(diagnosis)
    }

    /// Calls `run` with the GPU, once it is free; `None` if trials run on the emulator.
    pub fn with_gpu<R>(&self, run: impl FnOnce(&mut Turn<'_>, &str) -> R) -> Option<R> {
        let gpu = self.gpu.as_ref()?;
        Some(run(&mut Turn::on_gpu(&gpu.device, &gpu.name, &gpu.chain), &gpu.name))
    }

    /// Compiles the kernels of a trial.
    ///
    /// # Errors
    /// [`TrialError::Run`] if a kernel is missing or does not compile.
    pub fn compiled(&self, trial: &dyn Trial, target: Target) -> Result<Compiled<'a>, TrialError> {
        let compiler =
            Compiler { nvrtc: self.nvrtc, store: self.store, program: self.program.clone(), target };
        let sources = trial.sources(self.library)?;
        Ok(compiler.compiled(self.library, &sources).map_err(RunError::from)?)
    }

    fn prepared(&self, trial: &dyn Trial) -> Result<Box<dyn Prepared>, TrialError> {
        trial.prepared(self.library, self.seed, self.model, &self.memo)
    }

    /// The emulator's options.
    fn options(&self) -> Options {
        Options { model: self.model, ..Options::default() }
    }

    /// The kernels in the requested reading.
    fn readings(&self, compiled: &Compiled<'_>) -> Result<Option<Readings>, TrialError> {
        let of = |asked| Readings::from_compiled(compiled, asked, self.store);
        self.contract.as_ref().map(of).transpose()
    }

    fn emulated(
        &self,
        memo: &Memo,
        trial: &dyn Trial,
        prepared: &dyn Prepared,
        compiled: &Compiled<'_>,
    ) -> Result<Outcome, TrialError> {
        let schedules = self.schedules.max(trial.schedules()).max(LAUNCHES);
        prepared.emulate(memo, compiled, 0..schedules, self.options())
    }

    /// Returns the verdicts, and the reading that they apply to.
    fn results(&self, trial: &dyn Trial, target: Target) -> Result<(Vec<StageResult>, String), TrialError> {
        let compiled = self.compiled(trial, target)?;
        let readings = self.readings(&compiled)?;
        if let Some(Readings { memo, other: Some(other), remark }) = &readings {
            let prepared = self.prepared(trial)?;
            let run = |memo| self.emulated(memo, trial, prepared.as_ref(), &compiled);
            let (chosen, other) = (run(memo)?, run(other)?);
            let differing = prepared.differing(&chosen, &other);
            let (stages, said) = readings::compared(chosen, &other, &differing);
            return Ok((stages, format!("{remark}{said}")));
        }
        // If nothing is open, all readings are the same.
        let remark = readings.map(|readings| readings.remark).unwrap_or_default();
        let key = self.key(trial, &compiled);
        if let Some(results) = self.kept.get(KIND, key.as_ref()) {
            return Ok((results, remark));
        }
        let prepared = self.prepared(trial)?;
        let results = self.emulated(&self.memo, trial, prepared.as_ref(), &compiled)?.stages;
        self.kept.put(KIND, key.as_ref(), &results);
        Ok((results, remark))
    }

    /// Returns the key of what the verdicts depend on. PTX that differs only in its `.target` is the same to the emulator, so both targets
    /// share one run. `None` if the build or the data cannot be identified: then nothing is kept.
    fn key(&self, trial: &dyn Trial, compiled: &Compiled<'_>) -> Option<String> {
        let mut parts = vec![
            trial.key(self.library, self.model)?,
            format!("{:?} {} {:?}", self.seed, self.schedules, self.model),
        ];
        for (kernel, ptx) in &compiled.kernels {
            let text = ptx.lines().filter(|l| !l.starts_with(".target"));
            parts.push(format!("{kernel:?}\n{}", text.collect::<Vec<_>>().join("\n")));
        }
        self.kept.key(&parts)
    }
}
