//! The interface between a family of kernels and everything that runs, judges and reports trials without knowing the family.
//!
//! A family is one folder of this crate with its cases and kernels: it says what its problems are, which kernels solve them, and
//! whether a result is right. `families` lists them; adding one there is all that the rest of the tool needs.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use emulator::Options;
use emulator::device::Device;
use numerics::tensor_core::Model;
use ptx::arch::Target;
use record::{
    CheckResult, ConfigurationName, ExerciseRow, FamilyRow, FaultCoverageRow, FaultRow, StageName,
    StageResult, TileRow, TileTable, TrialRow, Verdict,
};

use super::admission::{Limits, Toolchain};
use super::code::{Assembler, CodeError};
use super::compile::{Compiled, KernelSource};
use super::diagnosis::Diagnosis;
use super::kept::Kept;
use super::known::KnownFailure;
use super::{Memo, TrialError};
use crate::kernel::{Kernel, KernelError, Library};

/// A trial of any family.
pub type SharedTrial = Arc<dyn Trial>;

/// A built-in case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseName {
    /// Its name, which no other case of any family has.
    pub name: String,
    /// One sentence on what it tests.
    pub about: String,
}

/// The configurations of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Every configuration.
    Every,
    /// Those that the case names or that the family chooses for it.
    Own,
    /// Those that have these words.
    Named(&'a str),
}

/// One value of a configuration, for sentences on what distinguishes some configurations from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    /// What is chosen: `K tile`, `load`.
    pub axis: &'static str,
    /// Its place among the values of the axis.
    pub order: u32,
    /// The value.
    pub value: String,
}

/// What a trial covers, as phrases: a few trials that cover every phrase stand for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// What kernels see that are compiled once for all configurations.
    pub beside: BTreeSet<String>,
    /// What only kernels see that are compiled for each configuration.
    pub configured: BTreeSet<String>,
    /// The features that must be covered at any cost.
    pub required: BTreeSet<String>,
    /// The features that further trials must cover at any cost.
    pub required_further: BTreeSet<String>,
}

/// The inputs of a table of configurations.
pub struct TableQuestion<'a> {
    /// The kernels.
    pub library: &'a Library,
    /// The ptxas and its capabilities; `None` if the machine has no ptxas.
    pub toolchain: Option<Toolchain<'a>>,
    /// Compiles and assembles; `None` if the machine lacks a compiler, so that registers and spills are unknown.
    pub assembler: Option<&'a Assembler<'a>>,
    /// The target of the kernels.
    pub target: Target,
}

impl TableQuestion<'_> {
    /// Returns the row of a configuration of which nothing is known yet.
    #[must_use]
    pub fn row(&self, family: &str, configuration: ConfigurationName) -> TileRow {
        TileRow {
            family: family.to_owned(),
            configuration,
            target: self.target.into(),
            toolkit: self.toolchain.map(|toolchain| toolchain.toolkit.into()),
            depth: None,
            shared: None,
            shared_limit: Limits::SM12X.shared,
            registers: None,
            spills: None,
            blocked: None,
            remark: String::new(),
        }
    }
}

/// A family of kernels.
pub trait Family: Send + Sync {
    /// Returns its name in records, headers and JUnit.
    fn name(&self) -> &'static str;

    /// Returns the words of its reports.
    fn row(&self) -> FamilyRow;

    /// Whether kernels of a stage of headers are compiled for each configuration.
    fn is_configured(&self, kernel: &Kernel) -> bool;

    /// Checks what a kernel's header declares.
    ///
    /// # Errors
    /// The key of the header that is wrong, and what is wrong with it, in a sentence.
    fn check_kernel(&self, kernel: &Kernel) -> Result<(), (&'static str, String)>;

    /// Returns the kernel that a configuration runs for a stage of the record.
    fn kernel_of<'l>(
        &self,
        library: &'l Library,
        configuration: &ConfigurationName,
        stage: &StageName,
    ) -> Option<&'l Kernel>;

    /// Returns the built-in cases.
    fn cases(&self) -> Vec<CaseName>;

    /// Returns what is wrong with files of built-in cases, in sentences.
    fn problems(&self) -> Vec<String>;

    /// Returns the trials of these cases that run unless something else is asked for.
    fn default_set(&self, cases: &[&str]) -> Vec<SharedTrial>;

    /// Returns the part of a set that a further target runs, if kernels do not test their target: their PTX differs in `.target` alone.
    fn for_further_target(&self, set: &[SharedTrial]) -> Vec<SharedTrial> {
        set.to_vec()
    }

    /// Returns the trials of a case on some of its configurations; none if there is no such case.
    fn trials(&self, case: &str, part: Part<'_>) -> Vec<SharedTrial>;

    /// Returns the trials of the case in a file.
    ///
    /// # Errors
    /// What is wrong with the file, in a sentence.
    fn trials_of_file(&self, path: &Path, _text: &str, _part: Part<'_>) -> Result<Vec<SharedTrial>, String> {
        Err(format!("{}: {} reads no case from a file", path.display(), self.name()))
    }

    /// Returns those of the cases that together compile kernels with every option, cheap ones first.
    fn representatives(&self, cases: &[&str]) -> Vec<String>;

    /// Returns what the trials exercise in each configuration.
    fn exercised(&self, trials: &[(&dyn Trial, &TrialRow)], seed: Option<u64>) -> Vec<ExerciseRow>;

    /// Returns the fault coverage of each kernel: the share of its faults that the data of passed trials expose.
    ///
    /// # Errors
    /// [`TrialError`] if the data cannot be generated.
    fn fault_coverage(
        &self,
        library: &Library,
        trials: &[(&dyn Trial, &TrialRow)],
        seed: Option<u64>,
        kept: &Kept<'_>,
    ) -> Result<Vec<FaultCoverageRow>, TrialError>;

    /// Plants random single-byte faults and returns how many of them each kind of data exposes.
    ///
    /// # Errors
    /// [`TrialError`] if the data cannot be generated.
    fn faults(&self, count: u64) -> Result<Vec<FaultRow>, TrialError>;

    /// Returns the resources of configurations; those of `set` are compiled and assembled.
    ///
    /// # Errors
    /// [`CodeError`] if a kernel is missing or does not compile.
    fn table(&self, set: &[SharedTrial], question: &TableQuestion<'_>) -> Result<TileTable, CodeError>;
}

/// A case on a configuration.
pub trait Trial: Any + Send + Sync + fmt::Debug {
    /// Returns its family.
    fn family(&self) -> &'static dyn Family;

    /// Returns the name of its case.
    fn case(&self) -> &str;

    /// Returns its configuration.
    fn configuration(&self) -> ConfigurationName;

    /// Returns the values of its configuration.
    fn choices(&self) -> Vec<Choice>;

    /// Returns the tiles in flight in its main loop; 0 if it has none, or if it is blocked.
    fn depth(&self) -> u32 {
        0
    }

    /// Returns why it cannot run, with the stage that would fail; `None` if it can.
    fn blocked(&self) -> Option<(StageName, &str)>;

    /// Returns why a device with this much free memory cannot run it; `None` if it can.
    fn too_large(&self, _free: u64) -> Option<String> {
        None
    }

    /// Whether the default set runs its case on every configuration.
    fn is_swept(&self) -> bool;

    /// Returns an estimate of its run time, in operations.
    fn cost(&self) -> u64;

    /// Returns how many schedules must agree on the emulator.
    fn schedules(&self) -> u64;

    /// Returns what it covers.
    fn features(&self) -> Features;

    /// Returns the known failures of its case that speak of its configuration.
    fn known_failures(&self) -> Vec<KnownFailure>;

    /// Returns its kernels in the order of their first launch, and the macros of each.
    ///
    /// # Errors
    /// [`KernelError::Missing`] if a stage has no kernel.
    fn sources<'l>(&self, library: &'l Library) -> Result<Vec<KernelSource<'l>>, KernelError>;

    /// Returns the trial as a toolchain and a device admit it: blocked if they lack something that its kernels need.
    ///
    /// # Errors
    /// [`KernelError::Missing`] if a stage has no kernel.
    fn admitted(
        &self,
        library: &Library,
        toolchain: Option<Toolchain<'_>>,
        limits: Limits,
    ) -> Result<SharedTrial, KernelError>;

    /// Assembles the kernel of its configuration; returns the trial, blocked if the machine code is not admitted, and a remark on the
    /// cost of the code (empty if there is none).
    ///
    /// # Errors
    /// [`CodeError`]; a kernel that does not compile is reported when the trial runs.
    fn assembled(
        &self,
        library: &Library,
        assembler: &Assembler<'_>,
    ) -> Result<(SharedTrial, String), CodeError>;

    /// Returns everything but the code, the seed and the schedules that its verdicts depend on; `None` if that has no text, so that no
    /// verdict is kept.
    fn key(&self, library: &Library, model: Option<Model>) -> Option<String>;

    /// Generates its data; everything that does not depend on the code of kernels. `seed` and `model` replace those of the case.
    ///
    /// # Errors
    /// [`TrialError`] if the data cannot be generated.
    fn prepared(
        &self,
        library: &Library,
        seed: Option<u64>,
        model: Option<Model>,
        memo: &Memo,
    ) -> Result<Box<dyn Prepared>, TrialError>;

    /// Returns the trials of its configuration whose cases are one step smaller, the largest steps first; none if the family has no steps.
    fn smaller(&self) -> Vec<SharedTrial> {
        Vec::new()
    }

    /// Returns the file of its case, as the family reads it; `None` if the family writes none.
    fn case_text(&self) -> Option<String> {
        None
    }

    /// Returns what explains the wrong results of a run; `None` if the family has no hypotheses, or nothing is wrong.
    fn explained(
        &self,
        _library: &Library,
        _outcome: &Outcome,
        _seed: Option<u64>,
        _target: Target,
    ) -> Option<Diagnosis> {
        None
    }

    /// Returns trials of its configuration on other data of the same kind, which tell more explanations apart, each with its data in words.
    fn more_telling(&self) -> Vec<(String, SharedTrial)> {
        Vec::new()
    }
}

impl dyn Trial {
    /// Returns its case and configuration: `tiny-exact 8x64x128 swap_ab native cp_async`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.case(), self.configuration())
    }

    /// Returns the trial as that of its family.
    #[must_use]
    pub fn as_family<T: Trial>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// A trial with its data: runs kernels and judges what they store.
pub trait Prepared: Send + Sync {
    /// Runs the kernels once under each of these schedules on the emulator, on the same memory, and judges every run.
    ///
    /// # Errors
    /// [`TrialError`]; a kernel that traps or is wrong yields a verdict, not an error.
    fn emulate(
        &self,
        memo: &Memo,
        compiled: &Compiled<'_>,
        schedules: Range<u64>,
        options: Options,
    ) -> Result<Outcome, TrialError>;

    /// Runs the checks of a device.
    ///
    /// # Errors
    /// [`TrialError`] if the trial cannot begin; failures on the device are verdicts.
    fn checked(
        &self,
        memo: &Memo,
        compiled: &Compiled<'_>,
        device: &mut dyn Device,
        replays: usize,
        options: Options,
    ) -> Result<Checked, TrialError>;

    /// Returns the stages that stored different values in two runs.
    fn differing(&self, one: &Outcome, other: &Outcome) -> Vec<StageName>;
}

/// The result of a run.
pub struct Outcome {
    /// Every stage, in order.
    pub stages: Vec<StageResult>,
    /// Warp instructions executed by the emulator.
    pub warp_instructions: u64,
    /// What the run stored, in the family's own form.
    pub stored: Box<dyn Any + Send>,
}

impl Outcome {
    /// Returns the first stage that does not conform.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&StageResult> {
        self.stages.iter().find(|s| !s.verdict.conforms())
    }
}

/// The results of a device's checks.
#[derive(Debug)]
pub struct Checked {
    /// The stages of the first run; empty if the code does not load.
    pub stages: Vec<StageResult>,
    /// The result of every check.
    pub checks: Vec<CheckResult>,
}

/// Returns the result of a trial that is blocked at this stage.
#[must_use]
pub fn blocked(stage: StageName, reason: &str) -> StageResult {
    StageResult { verdict: Verdict::Blocked, ..StageResult::skipped(stage, reason) }
}
