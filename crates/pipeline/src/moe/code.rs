//! What ptxas makes of the GEMM of a run, and whether that is admitted.
//!
//! The rule: a kernel that needs more registers or shared memory than a CTA may have is blocked, with ptxas's numbers. A kernel
//! that spills runs, with a remark: what it spills lies in local memory, which costs time and changes no number, and how much
//! time only a GPU says. A GEMM that ptxas refuses is blocked with its words.

use std::time::Duration;

use super::admission::{self, Admitted, Limits};
use super::compile::Compiler;
use super::contract::Settings;
use super::pipeline::Setup;
use super::sources;
use super::tile::Blocked;
use crate::kernel::{KernelError, Library};
use toolchain::toolkit::{self, CubinError, NvrtcError, Resources, ResourcesError, Toolkit};

/// How long ptxas may take for one kernel.
const LIMIT: Duration = Duration::from_secs(300);

/// Why nothing can be said of the code.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// There is no kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It does not compile.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// ptxas cannot be run, or says nothing.
    #[error(transparent)]
    Resources(#[from] ResourcesError),
}

/// A kernel that ptxas has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// What it uses; none where ptxas refuses it.
    pub resources: Option<Resources>,
    /// Whether it may be launched, with what it costs as a remark (empty where nothing).
    pub verdict: Result<String, Blocked>,
}

/// What asks ptxas.
#[derive(Debug)]
pub struct Assembler<'a> {
    /// NVRTC, the cache and the target.
    pub compiler: Compiler<'a>,
    /// The ptxas.
    pub toolkit: &'a Toolkit,
    /// The device.
    pub limits: Limits,
}

impl Assembler<'_> {
    /// What ptxas makes of the GEMM of a run with an admitted tile.
    ///
    /// # Errors
    /// [`CodeError`]; that ptxas refuses the kernel is no error but a verdict.
    pub fn gemm(
        &self,
        library: &Library,
        settings: &Settings,
        setup: &Setup,
        admitted: &Admitted,
    ) -> Result<Code, CodeError> {
        let [_, _, _, gemm, _, _] = sources::of_run(library, settings, setup)?;
        let ptx = self.compiler.ptx(library, gemm.kernel, &gemm.defines)?;
        let (entry, store) = (&gemm.kernel.entry, self.compiler.store);
        match toolkit::resources(self.toolkit, self.compiler.target, &ptx, entry, store, LIMIT) {
            Ok(resources) => {
                let verdict = admission::admit_code(admitted, &resources, self.limits);
                Ok(Code { resources: Some(resources), verdict: verdict.map(Option::unwrap_or_default) })
            }
            Err(ResourcesError::Cubin(refused @ CubinError::Refused { .. })) => {
                Ok(Code { resources: None, verdict: Err(Blocked(refused.to_string())) })
            }
            Err(error) => Err(error.into()),
        }
    }
}
