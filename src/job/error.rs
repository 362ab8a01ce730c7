//! Why a job cannot be done.

use emulator::device::Failure;

use crate::case::CaseError;
use crate::header::EntriesError;
use crate::kernel::KernelError;
use crate::matrix::{MatrixError, PlanError};
use crate::moe::MoeError;
use crate::moe::code::CodeError;
use crate::moe::trial::TrialError;
use crate::mutants::MutantError;
use crate::snippet::{FilterError, SnippetError};
use crate::store::StoreError;
use crate::toolkit::{InstallError, NvrtcError, PinError, SelectError};

/// Why a job cannot be done.
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
    /// Nothing is planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The matrix cannot be made.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// No such toolkit.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// No such pinned release.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// A release cannot be fetched.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The cache cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no toolkit, and none may be fetched.
    #[error("no toolkit on this machine, and --offline forbids fetching one")]
    Offline,
    /// The threads cannot be started.
    #[error("the thread pool cannot be created: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// NVRTC fails, or there is none.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// Machine code cannot be made of a kernel.
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
    /// Data or reference cannot be made.
    #[error(transparent)]
    Moe(#[from] MoeError),
    /// So many files of cases cannot be used.
    #[error("{0} case files cannot be used; the other cases were run")]
    UnusableCases(usize),
    /// Nothing was selected.
    #[error("nothing was run: nothing is selected, or everything is blocked")]
    NothingRan,
    /// A device cannot be used: its name, and why.
    #[error("{0} cannot be used: {1}")]
    Device(String, Failure),
    /// Code for this target does not run on a GPU of this architecture.
    #[error("code for {0} does not run on this GPU ({1})")]
    DeviceTarget(String, String),
    /// No PTX version is known for a driver of this CUDA version.
    #[error(
        "no PTX version is known for CUDA {0}; install a toolkit with `sm121probe toolkit install latest`"
    )]
    NoPtxIsa(String),
    /// There is no such model; the models there are.
    #[error("there is no model `{0}`; the models are: {1}")]
    NoModel(String, String),
    /// A revision cannot be read.
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
    /// A scratch folder cannot be made.
    #[error("the result cannot be written: {0}")]
    Scratch(std::io::Error),
}
