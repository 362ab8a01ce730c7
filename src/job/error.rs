//! Errors of jobs.

use emulator::device::Failure;

use crate::frame::TrialError;
use crate::frame::code::CodeError;
use crate::header::EntriesError;
use crate::kernel::KernelError;
use crate::matrix::{MatrixError, PlanError};
use crate::moe::MoeError;
use crate::moe::case::CaseError;
use crate::mutants::MutantError;
use crate::near;
use crate::snippet::{FilterError, SnippetError};
use crate::store::StoreError;
use crate::toolkit::{InstallError, NvrtcError, PinError, SelectError};

impl JobError {
    /// Says that no case has this name, with similar ones of those `known`.
    pub fn no_case<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let near = near::matches(name, known);
        let hint = match near.as_slice() {
            [] => "`sm121probe trials FAMILY --list` lists those of a family".to_owned(),
            near => format!("did you mean {}?", near.join(", ")),
        };
        Self::NoCase(name.to_owned(), hint)
    }
}

/// The reason why a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A name is not a target.
    #[error(transparent)]
    Target(#[from] ptx::arch::UnknownTarget),
    /// A filter is not a glob.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The snippets cannot be read.
    #[error(transparent)]
    Snippet(#[from] SnippetError),
    /// No family has a case of this name: the name and a hint.
    #[error("no case `{0}`; {1}")]
    NoCase(String, String),
    /// No plan can be made from the options.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The matrix cannot be computed.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// A toolkit is not found.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// A release is not pinned, or the pins cannot be read.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// A release cannot be fetched.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The cache cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine has no toolkit, and `--offline` forbids fetching one.
    #[error("no toolkit on this machine, and --offline forbids fetching one")]
    Offline,
    /// The thread pool cannot be created.
    #[error("the thread pool cannot be created: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// NVRTC fails or is not found.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// A kernel cannot be assembled.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// A case cannot be used.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// A kernel cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A trial cannot be run.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The data or the reference cannot be computed.
    #[error(transparent)]
    Moe(#[from] MoeError),
    /// Case files cannot be used: their number.
    #[error("{0} case files cannot be used; the other cases were run")]
    UnusableCases(usize),
    /// Nothing was selected, or everything is blocked.
    #[error("nothing is selected, or everything is blocked")]
    NothingRan,
    /// A device cannot be used: its name and the failure.
    #[error("{0} cannot be used: {1}")]
    Device(String, Failure),
    /// Code for a target does not run on the GPU: the target and the GPU's architecture.
    #[error("code for {0} does not run on this GPU ({1})")]
    DeviceTarget(String, String),
    /// The PTX version of a driver is unknown: its CUDA version.
    #[error(
        "no PTX version is known for CUDA {0}; install a toolkit with `sm121probe toolkit install latest`"
    )]
    NoPtxIsa(String),
    /// A model does not exist: its name and the available models.
    #[error("there is no model `{0}`; the models are: {1}")]
    NoModel(String, String),
    /// A Git revision cannot be read: its name and the reason.
    #[error("--base {0}: {1}")]
    Base(String, String),
    /// The file of explained mutants cannot be used.
    #[error(transparent)]
    Entries(#[from] EntriesError),
    /// A mutant cannot be run.
    #[error(transparent)]
    Mutant(#[from] MutantError),
    /// The packages of a Python cannot be listed.
    #[error(transparent)]
    Sites(#[from] crate::audit::SitesError),
    /// A scratch folder cannot be created.
    #[error("a temporary folder cannot be created: {0}; free some space, or set TMPDIR to a writable folder")]
    Scratch(std::io::Error),
}
