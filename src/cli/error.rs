//! Errors as users see them: the message, the help, the exit code.

use emulator::device::Failure;
use miette::Diagnostic;

use super::exit;
use super::ptx_error::PtxError;
use crate::frame::code::CodeError;
use crate::job::JobError;
use crate::matrix::{MatrixError, PlanError};
use crate::record::{Incomplete, RecordError};
use crate::report::{ExplainError, ReportError};
use crate::snippet::{FilterError, NewSnippetError, SnippetError};
use crate::store::StoreError;
use crate::toolkit::{CubinError, InstallError, NvrtcError, PinError, RemoveError, SelectError};

/// A job's error, with help for the command line.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct JobFailed(pub(super) JobError);

impl Diagnostic for JobFailed {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        let help = match &self.0 {
            JobError::Offline => {
                "run `sm121probe toolkit install latest 12.9` on a machine with a network, or set CUDA_HOME to an installed \
                 CUDA toolkit"
            }
            JobError::Device(..) => {
                "`sm121probe doctor` shows what this machine has; without --device the emulator is used"
            }
            _ => return None,
        };
        Some(Box::new(help))
    }
}

/// An error that ends a command.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum CliError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Job(Box<JobFailed>),
    #[error(transparent)]
    NewSnippet(#[from] NewSnippetError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error(transparent)]
    Remove(#[from] RemoveError),
    #[error(transparent)]
    Vectors(#[from] vectors::VectorsError),
    #[error("{0} recorded instructions fail")]
    Selftest(usize),
    #[error("{0} snippet files cannot be used; the others were judged")]
    UnusableFiles(usize),
    #[error("no file: name PTX files, folders with .ptx files, or --stdin")]
    NothingToLint,
    #[error("no source below {0}: C++, CUDA, Python, TOML, CMake and Bazel files are read")]
    NoSources(String),
    #[error("architecture tests that contradict what SM12x supports: {0}")]
    #[diagnostic(help("the lines above list each one with its replacement"))]
    Gates(usize),
    #[error("{0} files cannot be used")]
    #[diagnostic(help("the lines above name them; the other files were linted"))]
    UnusableSources(usize),
    #[error("{0} modules do not meet --require")]
    #[diagnostic(help(
        "`--require newest`, `any` or `rewritten` is less strict; --toolkit and --target narrow the check"
    ))]
    Lint(usize),
    #[error("batch and isolated verdicts differ on {0} cells")]
    #[diagnostic(help("this is a defect of sm121probe: please report it with the cells above"))]
    VerdictsDiffer(usize),
    #[error("{0} claims differ from their recorded status")]
    #[diagnostic(help(
        "the report names them; mark a claim that is known to be wrong with `stands: refuted` in its snippet"
    ))]
    Claims(usize),
    #[error("the result cannot be written: {0}")]
    Output(std::io::Error),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Predicates(#[from] crate::report::PredicateError),
    #[error(transparent)]
    Cubin(#[from] CubinError),
    #[error(transparent)]
    Checkpoint(#[from] crate::moe::checkpoint::CheckpointError),
    #[error("no ptxas on this machine, and --cubin needs one")]
    #[diagnostic(help("run `sm121probe toolkit install latest` on a machine with a network"))]
    NoPtxas,
    #[error(transparent)]
    Bench(#[from] crate::bench::BenchError),
    #[error(transparent)]
    Exec(#[from] crate::job::ExecError),
    #[error("{0} violations by the program's kernels and calls")]
    Violations(usize),
    #[error("no kernel trapped, and no assertion of a kernel failed, as --expect-trap expects")]
    NoTrap,
    #[error(
        "results of {0} of the program's kernels are not determined, which --require-equal or --strict demands"
    )]
    Differing(usize),
    #[error(transparent)]
    Launch(crate::job::launch::LaunchError),
    #[error("{0} cannot be used with a launch file, which specifies it itself")]
    #[diagnostic(help("write it into the file; docs/emulator.md lists the fields"))]
    InLaunchFile(&'static str),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Ptx(#[from] Box<PtxError>),
    #[error("{0} trials do not conform")]
    Trials(usize),
    #[error("{0} results contradict the architecture rules")]
    #[diagnostic(help("please report them: finding such results is the purpose of this tool"))]
    Doctor(usize),
    #[error("no selected variant specifies how it is run")]
    NothingToRun,
    #[error("{0} variants do not conform")]
    Runs(usize),
    #[error("--table is for --format csv: the other formats contain every table")]
    TableForm,
    #[error("--bench is for --format html: the other formats of a record have no times")]
    BenchForm,
    #[error("this command has no format {0}; it has {1}")]
    NoFormat(&'static str, String),
    #[error("--format {0} and --format {1}: the output has one format")]
    FormatTwice(&'static str, &'static str),
    #[error("times are measured on a GPU: name it with --device gpu:0")]
    NoClock,
    #[error("a profile has no plot: --format svg is for times, with --device")]
    NoPlot,
    #[error("{0} was not written by `bench --format json`: {1}")]
    BenchTable(String, String),
    #[error(transparent)]
    Timing(#[from] crate::bench::TimingError),
    #[error("answers are recorded on a GPU: name it with --device gpu:0")]
    NoGpuNamed,
    #[error("{0}: {1}")]
    Answer(String, Failure),
    #[error(transparent)]
    OperandKind(#[from] numerics::UnknownKind),
    #[error("--dump writes one case: name it with --case")]
    Dump,
    #[error("worse than before: {0}")]
    #[diagnostic(help("the lines above name what is worse or missing"))]
    Worse(String),
    #[error("{1}")]
    #[diagnostic(help(
        "the lines above name each finding; use `gate --bless` to accept correct answers into the baseline, and \
        expectations for known failures"
    ))]
    Gate(crate::record::Ground, String),
    #[error("{0}")]
    #[diagnostic(help(
        "the lines above name each mutant; add a case that detects the fault, or an entry with the reason to \
        mutants.yaml next to the kernels"
    ))]
    Mutants(String),
    #[error("the records disagree about {0} answers")]
    #[diagnostic(help("they are listed, and the merged record omits them; find out which record is right"))]
    Conflicts(usize),
    #[error("{0}: no record found; in a folder, the .json files are read")]
    NoRecords(String),
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    #[error("{0}")]
    NothingChecked(Incomplete, #[help] Option<String>),
    #[error("no GPU code found in the given paths")]
    #[diagnostic(help(
        "a package without GPU code uses that of other packages, or compiles it at run time: audit the environment"
    ))]
    NothingAudited,
    #[error("no such file or folder: {0}")]
    AuditPaths(String),
    #[error("{0} of {1} kernels do not meet the requirement, such as {2}")]
    #[diagnostic(help("use --kernel GLOB to check only the kernels that this device needs"))]
    AuditRequire(usize, usize, String),
    #[error("the requirement cannot be verified: {0}")]
    #[diagnostic(help("name only the files that matter, or leave out those that cannot be read"))]
    AuditUnread(String),
    #[error("there is no assumption `{0}`; the assumptions are: {1}")]
    NoAssumption(String, String),
    #[error("{0} assumptions differ from what the emulator does")]
    #[diagnostic(help("this is a defect of sm121probe: please report it with the lines above"))]
    Assumptions(usize),
}

impl CliError {
    /// Returns the error of a command that could not check anything in the words of every other incomplete run.
    pub(super) fn in_words_of_incomplete(self) -> Self {
        match self {
            // They say it already.
            Self::Incomplete(_) | Self::NothingChecked(..) | Self::Gate(..) | Self::Ptx(_) => self,
            _ if self.exit_code() != exit::INCOMPLETE => self,
            other => {
                let help = other.help().map(|help| help.to_string());
                Self::NothingChecked(Incomplete::nothing(other.to_string()), help)
            }
        }
    }

    /// Returns what was not checked, unless the command has annotated it itself.
    pub(super) fn incomplete(&self) -> Option<String> {
        match self {
            Self::Incomplete(incomplete) | Self::NothingChecked(incomplete, _) => {
                Some(incomplete.to_string())
            }
            _ => None,
        }
    }

    /// The exit code of the error.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Job(error) => of_job(&error.0),
            Self::NewSnippet(_)
            | Self::Record(_)
            | Self::Explain(_)
            | Self::Predicates(_)
            | Self::UnusableFiles(_)
            | Self::UnusableSources(_)
            | Self::Remove(_)
            | Self::Vectors(_)
            | Self::Output(_)
            | Self::NoAssumption(..)
            | Self::Bench(_)
            | Self::Checkpoint(_)
            | Self::Dump
            | Self::TableForm
            | Self::BenchForm
            | Self::NoFormat(..)
            | Self::FormatTwice(..)
            | Self::NoClock
            | Self::NoPlot
            | Self::BenchTable(..)
            | Self::NoGpuNamed
            | Self::OperandKind(_)
            | Self::AuditPaths(_)
            | Self::Exec(_)
            | Self::InLaunchFile(_) => exit::USAGE,
            Self::Launch(error) if error.is_finding() => exit::DOES_NOT_CONFORM,
            Self::Launch(_) => exit::USAGE,
            // A kernel of the user's folder does not compile.
            Self::Cubin(CubinError::Refused { .. }) => exit::USAGE,
            Self::Cubin(_) | Self::NoPtxas => exit::TOOLKIT_MISSING,
            // A kernel's fault on the GPU is a finding; a case that is too large is not.
            Self::Timing(crate::bench::TimingError::Moe(_) | crate::bench::TimingError::Run(_)) => {
                exit::USAGE
            }
            Self::Ptx(error) => error.exit_code(),
            Self::NothingToRun
            | Self::NothingAudited
            | Self::NothingToLint
            | Self::NoSources(_)
            | Self::Incomplete(_)
            | Self::NothingChecked(..)
            | Self::NoRecords(_) => exit::INCOMPLETE,
            Self::Timing(_)
            | Self::AuditRequire(..)
            | Self::AuditUnread(_)
            | Self::Violations(_)
            | Self::NoTrap
            | Self::Differing(_)
            | Self::Answer(..)
            | Self::Runs(_)
            | Self::Doctor(_)
            | Self::Lint(_)
            | Self::Gates(_)
            | Self::Trials(_)
            | Self::VerdictsDiffer(_)
            | Self::Selftest(_)
            | Self::Mutants(_)
            | Self::Conflicts(_) => exit::DOES_NOT_CONFORM,
            Self::Gate(ground, _) => super::gate::exit_code(*ground),
            Self::Worse(_) => exit::BASELINE_CONTRADICTED,
            Self::Claims(_) => exit::CLAIMS_CONTRADICTED,
            Self::Report(_) | Self::Assumptions(_) => exit::INTERNAL,
        }
    }
}

/// The exit code of a job's error.
fn of_job(error: &JobError) -> u8 {
    match error {
        JobError::Snippet(SnippetError::Empty(_)) | JobError::Plan(_) | JobError::NothingRan => {
            exit::INCOMPLETE
        }
        // A kernel of the user's folder does not compile.
        JobError::Nvrtc(NvrtcError::Rejected { .. })
        | JobError::Code(CodeError::Kernel(_) | CodeError::Nvrtc(NvrtcError::Rejected { .. })) => exit::USAGE,
        JobError::Nvrtc(_)
        | JobError::Code(_)
        | JobError::Select(_)
        | JobError::Install(_)
        | JobError::Pins(_)
        | JobError::Offline => exit::TOOLKIT_MISSING,
        JobError::Device(..) => exit::DEVICE_MISSING,
        JobError::Threads(_) => exit::INTERNAL,
        JobError::Target(_)
        | JobError::Filter(_)
        | JobError::Snippet(_)
        | JobError::Matrix(_)
        | JobError::Store(_)
        | JobError::Case(_)
        | JobError::Kernel(_)
        | JobError::Trial(_)
        | JobError::Moe(_)
        | JobError::UnusableCases(_)
        | JobError::DeviceTarget(..)
        | JobError::NoPtxIsa(_)
        | JobError::NoModel(..)
        | JobError::NoCase(..)
        | JobError::Base(..)
        | JobError::Entries(_)
        | JobError::Mutant(_)
        | JobError::Sites(_)
        | JobError::Scratch(_) => exit::USAGE,
    }
}

impl From<JobError> for CliError {
    fn from(error: JobError) -> Self {
        Self::Job(Box::new(JobFailed(error)))
    }
}

/// Commands meet these errors in jobs and outside them: they are the same to the user.
macro_rules! through_job {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                JobError::from(error).into()
            }
        })*
    };
}

through_job!(
    ptx::arch::UnknownTarget,
    FilterError,
    SnippetError,
    PlanError,
    MatrixError,
    SelectError,
    PinError,
    InstallError,
    StoreError,
    NvrtcError,
    CodeError,
    crate::moe::case::CaseError,
    crate::kernel::KernelError,
    crate::frame::TrialError,
    crate::moe::MoeError,
    crate::header::EntriesError,
    crate::mutants::MutantError,
    crate::audit::SitesError,
);
