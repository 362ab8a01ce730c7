//! Errors as users see them: the message, the help, the exit code.

use miette::Diagnostic;

use super::exit;
use super::ptx_error::PtxError;
use crate::frame::code::CodeError;
use crate::job::JobError;
use crate::job::launch::LaunchError;
use crate::lookup::LookupError;
use crate::matrix::{MatrixError, PlanError};
use crate::record::{Incomplete, RecordError, counted};
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

/// The error of one command, which is defined beside the command.
pub(super) trait CommandError: Diagnostic + Send + Sync + 'static {
    /// The exit code.
    fn exit_code(&self) -> u8;

    /// Whether its message says by itself that the run is incomplete.
    fn names_gaps(&self) -> bool {
        false
    }
}

/// An error of a command.
#[derive(Debug)]
pub(super) struct CommandFailed(Box<dyn CommandError>);

impl std::fmt::Display for CommandFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CommandFailed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Diagnostic for CommandFailed {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.0.help()
    }
}

impl<E: CommandError> From<E> for CliError {
    fn from(error: E) -> Self {
        Self::Command(CommandFailed(Box::new(error)))
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
    /// The table of names cannot be used.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    #[error(transparent)]
    Remove(#[from] RemoveError),
    #[error(transparent)]
    Vectors(#[from] vectors::VectorsError),
    #[error("{} cannot be used; the others were judged", counted(*.0, "snippet file"))]
    UnusableFiles(usize),
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
    #[error(transparent)]
    Bench(#[from] crate::bench::BenchError),
    #[error(transparent)]
    Exec(#[from] crate::job::ExecError),
    #[error(transparent)]
    Launch(Box<LaunchError>),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Ptx(#[from] Box<PtxError>),
    #[error(transparent)]
    Timing(#[from] crate::bench::TimingError),
    #[error(transparent)]
    OperandKind(#[from] numerics::UnknownKind),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Command(CommandFailed),
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    #[error("{0}")]
    NothingChecked(Incomplete, #[help] Option<String>),
}

impl CliError {
    /// Returns the error of a command that could not check anything in the words of every other incomplete run.
    pub(super) fn in_words_of_incomplete(self) -> Self {
        match self {
            // They say it already.
            Self::Incomplete(_) | Self::NothingChecked(..) | Self::Ptx(_) => self,
            Self::Command(CommandFailed(error)) if error.names_gaps() => Self::Command(CommandFailed(error)),
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
            | Self::Lookup(_)
            | Self::Predicates(_)
            | Self::UnusableFiles(_)
            | Self::Remove(_)
            | Self::Vectors(_)
            | Self::Output(_)
            | Self::Bench(_)
            | Self::Checkpoint(_)
            | Self::OperandKind(_)
            | Self::Exec(_) => exit::USAGE,
            Self::Launch(error) if error.is_finding() => exit::DOES_NOT_CONFORM,
            Self::Launch(_) => exit::USAGE,
            // A kernel of the user's folder does not compile.
            Self::Cubin(CubinError::Refused { .. }) => exit::USAGE,
            Self::Cubin(_) => exit::TOOLKIT_MISSING,
            // A kernel's fault on the GPU is a finding; a case that is too large is not.
            Self::Timing(crate::bench::TimingError::Moe(_) | crate::bench::TimingError::Run(_)) => {
                exit::USAGE
            }
            Self::Timing(_) => exit::DOES_NOT_CONFORM,
            Self::Ptx(error) => error.exit_code(),
            Self::Command(CommandFailed(error)) => error.exit_code(),
            Self::Incomplete(_) | Self::NothingChecked(..) => exit::INCOMPLETE,
            Self::Report(_) => exit::INTERNAL,
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
