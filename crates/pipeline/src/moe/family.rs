//! The pipeline as a family: its words, its cases and trials, and what runs and judges one.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use emulator::Options;
use emulator::device::Device;
use numerics::tensor_core::Model;

use super::admission::{self, Question};
use super::case::{self, Case, FormatPair, Regime};
use super::checkpoint::Layer;
use super::checks::TrialChecks;
use super::configuration::Configuration;
use super::pipeline::{Overwritten, Ran, Setup, run_and_compare};
use super::plan::{self, Trial};
use super::shrink;
use super::stage::Stage;
use super::trial::{self, Outcome};
use super::witness::single_byte;
use super::{
    Contract, Dims, MoeError, Problem, Settings, coverage, exercise, features, kernels, problem, slots,
    sources, table,
};
use crate::frame::admission::{Limits, Toolchain};
use crate::frame::code::{Assembler, CodeError};
use crate::frame::compile::{Compiled, KernelSource};
use crate::frame::diagnosis::Diagnosis;
use crate::frame::family::{
    self, CaseName, Checked, Choice, Family, Features, Part, Prepared, SharedTrial, TableQuestion,
};
use crate::frame::kept::Kept;
use crate::frame::known::KnownFailure;
use crate::frame::runner::Runner;
use crate::frame::{Memo, RunError, TrialError};
use crate::kernel::{Kernel, KernelError, Library, Load};
use ptx::arch::Target;
use record::{
    ConfigurationName, ExerciseRow, FamilyRow, FaultCoverageRow, FaultRow, StageName, StageRow, TileTable,
    TrialRow,
};

/// The name of the family.
pub(super) const FAMILY: &str = "moe";

/// The family.
pub static MOE: Moe = Moe;

/// The fused mixture-of-experts pipeline.
#[derive(Debug)]
pub struct Moe;

/// The built-in cases, read once.
fn library() -> &'static case::Library {
    static LIBRARY: OnceLock<case::Library> = OnceLock::new();
    LIBRARY.get_or_init(case::library)
}

/// The built-in cases of these names, in the order of the library.
fn cases(names: &[&str]) -> Vec<&'static Case> {
    library().cases.iter().filter(|case| names.contains(&case.name.as_str())).collect()
}

/// Shares trials with what knows no family.
#[must_use]
pub fn shared(trials: Vec<Trial>) -> Vec<SharedTrial> {
    trials.into_iter().map(|trial| Arc::new(trial) as SharedTrial).collect()
}

/// The trials of this family.
fn own<'a>(trials: impl IntoIterator<Item = &'a SharedTrial>) -> Vec<Trial> {
    trials.into_iter().filter_map(|trial| trial.as_family::<Trial>().cloned()).collect()
}

impl Family for Moe {
    fn name(&self) -> &'static str {
        FAMILY
    }

    fn row(&self) -> FamilyRow {
        let stage = |stage: &Stage| StageRow { name: (*stage).into(), about: stage.about().to_owned() };
        FamilyRow {
            name: FAMILY.to_owned(),
            title: "MXFP4 fused-MoE pipeline".to_owned(),
            leading: "tile".to_owned(),
            stages: Stage::ALL.iter().map(stage).collect(),
            all: "sm121probe moe --all".to_owned(),
        }
    }

    fn is_configured(&self, kernel: &Kernel) -> bool {
        kernel.stage == kernels::KernelStage::Gemm.word()
    }

    fn check_kernel(&self, kernel: &Kernel) -> Result<(), (&'static str, String)> {
        kernels::check(kernel)
    }

    fn kernel_of<'l>(
        &self,
        library: &'l Library,
        configuration: &ConfigurationName,
        stage: &StageName,
    ) -> Option<&'l Kernel> {
        use kernels::KernelStage::{Activation, Finalize, Gemm, Permute, Quantize, Route};
        let of = Configuration::from_name(configuration)?;
        let kind = match Stage::from_name(stage)? {
            Stage::Route => Route,
            Stage::Permute => Permute,
            Stage::Quantize => Quantize,
            Stage::Fc1 | Stage::Fc2 => Gemm,
            Stage::Activation | Stage::Requantize => Activation,
            Stage::Finalize => Finalize,
        };
        let of_gemm = |k: &Kernel| k.load == Some(of.load) && k.paths.contains(&of.path);
        let fits = |k: &&Kernel| k.family == FAMILY && k.stage == kind.word() && (kind != Gemm || of_gemm(k));
        library.kernels.iter().find(fits)
    }

    fn cases(&self) -> Vec<CaseName> {
        let name = |case: &Case| CaseName { name: case.name.clone(), about: case.about.clone() };
        library().cases.iter().map(name).collect()
    }

    fn problems(&self) -> Vec<String> {
        library().problems.iter().map(ToString::to_string).collect()
    }

    fn default_set(&self, names: &[&str]) -> Vec<SharedTrial> {
        shared(plan::default_set(&cases(names)))
    }

    fn for_further_target(&self, set: &[SharedTrial]) -> Vec<SharedTrial> {
        shared(plan::part_of(&own(set)))
    }

    fn trials(&self, case: &str, part: Part<'_>) -> Vec<SharedTrial> {
        let Some(case) = library().cases.iter().find(|c| c.name == case) else { return Vec::new() };
        let of = |tiles: &[_]| plan::trials(case, tiles, &plan::LOADS, &plan::PATHS);
        let trials = match part {
            Part::Every => of(&plan::tiles_of(case, &[], true)),
            Part::Own => of(&plan::own_tiles(case)),
            Part::Named(words) => {
                let mut trials = of(&plan::tiles());
                trials.retain(|trial| trial.configuration().name().has(words));
                trials
            }
        };
        shared(trials)
    }

    fn representatives(&self, names: &[&str]) -> Vec<String> {
        plan::representatives(&cases(names)).into_iter().map(|case| case.name.clone()).collect()
    }

    fn exercised(&self, trials: &[(&dyn family::Trial, &TrialRow)], seed: Option<u64>) -> Vec<ExerciseRow> {
        exercise::of_run(&paired(trials), seed)
    }

    fn fault_coverage(
        &self,
        library: &Library,
        trials: &[(&dyn family::Trial, &TrialRow)],
        seed: Option<u64>,
        kept: &Kept<'_>,
    ) -> Result<Vec<FaultCoverageRow>, TrialError> {
        coverage::of_run(library, &paired(trials), seed, kept)
    }

    fn faults(&self, count: u64) -> Result<Vec<FaultRow>, TrialError> {
        Ok(vec![single_byte::faults(FormatPair::default(), count)?])
    }

    fn table(&self, set: &[SharedTrial], question: &TableQuestion<'_>) -> Result<TileTable, CodeError> {
        let runs: BTreeSet<Configuration> = own(set).iter().map(Trial::configuration).collect();
        let mut all = plan::configurations(&plan::tiles(), &plan::LOADS, &plan::PATHS);
        // Configurations that edit tensor maps are listed only if they run.
        all.retain(|of| of.load != Load::TmaReplace || runs.contains(of));
        table::table(question, &all, |of| runs.contains(of))
    }
}

/// The trials of this family with their rows.
fn paired<'a>(trials: &[(&'a dyn family::Trial, &'a TrialRow)]) -> Vec<(&'a Trial, &'a TrialRow)> {
    trials.iter().filter_map(|(trial, row)| Some((trial.as_family::<Trial>()?, *row))).collect()
}

impl family::Trial for Trial {
    fn family(&self) -> &'static dyn Family {
        &MOE
    }

    fn case(&self) -> &str {
        &self.case.name
    }

    fn configuration(&self) -> ConfigurationName {
        Self::configuration(self).name()
    }

    fn choices(&self) -> Vec<Choice> {
        let number = |axis, value: u32| Choice { axis, order: value, value: value.to_string() };
        let word = |axis, value: &str| Choice { axis, order: 0, value: value.to_owned() };
        vec![
            number("K tile", self.tile.k),
            number("M tile", self.tile.m),
            number("N tile", self.tile.n),
            word("side", if self.swap_ab { "swap_ab" } else { "no swap_ab" }),
            word("path", self.path.word()),
            word("load", self.load.word()),
        ]
    }

    fn depth(&self) -> u32 {
        self.config.as_ref().map_or(0, |config| config.stages)
    }

    fn blocked(&self) -> Option<(StageName, &str)> {
        self.config.as_ref().err().map(|blocked| (Stage::Fc1.into(), blocked.0.as_str()))
    }

    fn too_large(&self, free: u64) -> Option<String> {
        let setup = plan::setup(&self.case, *self.config.as_ref().ok()?);
        slots::too_large(&setup, Dims::from_case(&self.case), free).map(|blocked| blocked.0)
    }

    fn is_swept(&self) -> bool {
        plan::is_swept(&self.case)
    }

    fn cost(&self) -> u64 {
        features::cost(self)
    }

    fn schedules(&self) -> u64 {
        self.case.schedules
    }

    fn features(&self) -> Features {
        features::features(self)
    }

    fn known_failures(&self) -> Vec<KnownFailure> {
        let known = |known: &case::KnownFailure| KnownFailure {
            url: known.url.clone(),
            stage: known.stage.into(),
            device: known.device.clone(),
            configuration: known.tile.map(|tile| tile.to_string()).unwrap_or_default(),
        };
        self.case.known_failures.iter().map(known).collect()
    }

    fn sources<'l>(&self, library: &'l Library) -> Result<Vec<KernelSource<'l>>, KernelError> {
        let Ok(config) = self.config else { return Ok(Vec::new()) };
        let setup = plan::setup(&self.case, config);
        Ok(sources::of_run(library, &Settings::from_case(&self.case), &setup)?.into())
    }

    fn admitted(
        &self,
        library: &Library,
        toolchain: Option<Toolchain<'_>>,
        limits: Limits,
    ) -> Result<SharedTrial, KernelError> {
        Ok(Arc::new(self.admitted_on(library, toolchain, limits)?))
    }

    fn assembled(
        &self,
        library: &Library,
        assembler: &Assembler<'_>,
    ) -> Result<(SharedTrial, String), CodeError> {
        let (trial, remark) = self.assembled_by(library, assembler)?;
        Ok((Arc::new(trial), remark))
    }

    fn key(&self, library: &Library, model: Option<Model>) -> Option<String> {
        // Weights of a file have no text.
        if self.layer.is_some() {
            return None;
        }
        let setup = plan::setup(&self.case, *self.config.as_ref().ok()?);
        let contract = self.contract(library, &setup, model).ok()?;
        Some(format!("{:?} {setup:?} {contract:?}", self.case))
    }

    fn prepared(
        &self,
        library: &Library,
        seed: Option<u64>,
        model: Option<Model>,
        memo: &Memo,
    ) -> Result<Box<dyn Prepared>, TrialError> {
        let Ok(config) = self.config else {
            return Err(MoeError::Invalid(format!("{} is blocked", self.case.name)).into());
        };
        let setup = plan::setup(&self.case, config);
        let contract = self.contract(library, &setup, model)?;
        let seed = seed.unwrap_or(self.case.seed);
        let problem = match &self.layer {
            Some(layer) => Arc::new(problem::of_layer(&self.case, seed, layer)?),
            // The dimensions of a case depend on the configuration, so its name does not identify the data.
            None => memo.value(&format!("moe problem {:?} {seed}", self.case), || {
                problem::generate(&self.case, seed)
            })?,
        };
        let (case, layer) = (Arc::clone(&self.case), self.layer.clone());
        Ok(Box::new(PreparedTrial { case, setup, contract, problem, layer, seed }))
    }

    fn smaller(&self) -> Vec<SharedTrial> {
        let of = |case: Case| Arc::new(self.of_case(case)) as SharedTrial;
        shrink::steps(&self.case).into_iter().map(of).collect()
    }

    fn case_text(&self) -> Option<String> {
        Some(case::to_yaml(&self.case))
    }

    fn explained(
        &self,
        _: &Library,
        outcome: &family::Outcome,
        _: Option<u64>,
        _: Target,
    ) -> Option<Diagnosis> {
        let Outcome { contract, tensors, stages, .. } = outcome.stored.downcast_ref::<Outcome>()?;
        super::explain(contract, tensors, stages)
    }

    fn more_telling(&self) -> Vec<(String, SharedTrial)> {
        let of = |(data, case)| (data, Arc::new(self.of_case(case)) as SharedTrial);
        shrink::more_telling(&self.case).into_iter().map(of).collect()
    }
}

impl Trial {
    /// The trial of another case on its configuration.
    fn of_case(&self, case: Case) -> Self {
        Self { case: Arc::new(Case { minimum: None, ..case }), ..self.clone() }
    }

    fn contract(&self, library: &Library, setup: &Setup, model: Option<Model>) -> Result<Contract, RunError> {
        trial::contract(library, Dims::from_case(&self.case), Settings::from_case(&self.case), setup, model)
    }

    /// Assembles its GEMM, unless it is blocked or does not compile.
    fn assembled_by(
        &self,
        library: &Library,
        assembler: &Assembler<'_>,
    ) -> Result<(Self, String), CodeError> {
        let unchanged = || Ok((self.clone(), String::new()));
        let Ok(config) = self.config else { return unchanged() };
        let (settings, setup) = (Settings::from_case(&self.case), plan::setup(&self.case, config));
        let question = Question {
            pair: self.case.pair,
            tile: self.tile,
            swap_ab: self.swap_ab,
            kernel: library.gemm(self.case.pair, self.path, self.load)?,
            path: self.path,
            toolchain: None,
            limits: assembler.limits,
        };
        let Ok(admitted) = admission::admit(&question) else { return unchanged() };
        let [_, _, _, gemm, _, _] = sources::of_run(library, &settings, &setup)?;
        let code = match assembler.code(library, &gemm, admitted.size) {
            // The trial itself reports a compilation failure, with its stage.
            Err(CodeError::Nvrtc(_)) => return unchanged(),
            other => other?,
        };
        Ok(match code.verdict {
            Ok(remark) => (self.clone(), remark),
            Err(blocked) => (Self { config: Err(blocked), ..self.clone() }, String::new()),
        })
    }
}

/// A trial with its data.
struct PreparedTrial {
    case: Arc<Case>,
    setup: Setup,
    contract: Contract,
    problem: Arc<Problem>,
    layer: Option<Arc<Layer>>,
    seed: u64,
}

impl PreparedTrial {
    fn run(
        &self,
        memo: &Memo,
        compiled: &Compiled<'_>,
        schedules: Range<u64>,
        options: Options,
    ) -> Result<Outcome, TrialError> {
        trial::on_emulator(memo, compiled, &self.contract, &self.problem, &self.setup, schedules, options)
    }
}

impl Prepared for PreparedTrial {
    fn emulate(
        &self,
        memo: &Memo,
        compiled: &Compiled<'_>,
        schedules: Range<u64>,
        options: Options,
    ) -> Result<family::Outcome, TrialError> {
        let outcome = self.run(memo, compiled, schedules, options)?;
        Ok(family::Outcome {
            stages: outcome.stages.clone(),
            warp_instructions: outcome.warp_instructions,
            stored: Box::new(outcome),
        })
    }

    fn checked(
        &self,
        memo: &Memo,
        compiled: &Compiled<'_>,
        device: &mut dyn Device,
        replays: usize,
        options: Options,
    ) -> Result<Checked, TrialError> {
        let variants = problem::variants(&self.case, self.seed, self.layer.as_deref())?;
        let emulated = self.run(memo, compiled, 0..1, options)?;
        let checks = TrialChecks {
            compiled,
            contract: &self.contract,
            problem: &self.problem,
            variants: &variants,
            setup: &self.setup,
            replays,
            emulated: emulated.first_wrong().is_none().then_some(&emulated.tensors),
            sums_open: matches!(self.case.regime, Regime::Real | Regime::Special),
        };
        checks.on(device)
    }

    fn differing(&self, one: &family::Outcome, other: &family::Outcome) -> Vec<StageName> {
        let (Some(one), Some(other)) = (tensors_of(one), tensors_of(other)) else { return Vec::new() };
        trial::differences(one, other).map(StageName::from).collect()
    }
}

fn tensors_of(outcome: &family::Outcome) -> Option<&super::Tensors> {
    Some(&outcome.stored.downcast_ref::<Outcome>()?.tensors)
}

/// Runs a trial of this family on the runner's device, even if the cache has its verdicts; returns its verdicts and all its tensors.
///
/// # Errors
/// [`TrialError`].
pub fn outcome(runner: &Runner<'_>, trial: &Trial, target: Target) -> Result<Outcome, TrialError> {
    let on_gpu = runner.with_gpu(|turn, name| {
        let compiled = runner.compiled(trial, target)?;
        let Ok(config) = trial.config else {
            return Err(MoeError::Invalid(format!("{} is blocked", trial.case.name)).into());
        };
        let setup = plan::setup(&trial.case, config);
        let contract = trial.contract(runner.library, &setup, runner.model)?;
        let seed = runner.seed.unwrap_or(trial.case.seed);
        let problem = match &trial.layer {
            Some(layer) => problem::of_layer(&trial.case, seed, layer)?,
            None => problem::generate(&trial.case, seed)?,
        };
        turn.reset().map_err(RunError::from)?;
        let (ran, overwritten): (Ran, Option<Overwritten>) =
            run_and_compare(turn, &compiled, &problem, &setup)?;
        turn.rest();
        let mut outcome = trial::judged(ran, &contract, name, 0)?;
        overwritten.iter().for_each(|overwritten| trial::blame(overwritten, &mut outcome.stages));
        Ok(outcome)
    });
    if let Some(outcome) = on_gpu {
        return outcome;
    }
    let outcome = runner.outcome(trial, target)?;
    let stored = outcome.stored.downcast::<Outcome>();
    stored
        .map(|stored| *stored)
        .map_err(|_| MoeError::Invalid("the trial is of another family".to_owned()).into())
}
