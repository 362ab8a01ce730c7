//! Assembles a kernel with ptxas and decides whether the code is admitted.
//!
//! The rule: a kernel that needs more registers or shared memory than a CTA may have is blocked, with ptxas's numbers. A kernel
//! that spills runs, with a remark: spills go to local memory, which costs time but changes no result, and only a GPU shows how
//! much time. A kernel that ptxas rejects is blocked, with the message of ptxas.

use std::time::Duration;

use record::TileRow;

use super::admission::{self, Blocked, LaunchSize, Limits};
use super::compile::{Compiler, KernelSource};
use crate::kernel::{KernelError, Library};
use toolchain::toolkit::{self, CubinError, NvrtcError, Resources, ResourcesError, Toolkit};

/// How long ptxas may take for one kernel.
const LIMIT: Duration = Duration::from_secs(300);

/// Why the code could not be examined.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The kernel is missing, unreadable or invalid.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It does not compile.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// ptxas cannot be run, or does not report resources.
    #[error(transparent)]
    Resources(#[from] ResourcesError),
}

/// The result of assembling a kernel with ptxas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// The resources it uses; `None` if ptxas rejects it.
    pub resources: Option<Resources>,
    /// Whether it may be launched, with a remark on its cost (empty if there is none).
    pub verdict: Result<String, Blocked>,
}

impl Code {
    /// Enters what ptxas says of a kernel whose CTAs have this much dynamic shared memory.
    pub fn enter(self, row: &mut TileRow, dynamic_shared: u32) {
        if let Some(used) = self.resources {
            row.shared = Some(dynamic_shared + used.static_shared);
            row.registers = Some(used.registers);
            row.spills = Some((used.spill_stores, used.spill_loads));
        }
        match self.verdict {
            Ok(remark) => row.remark = remark,
            Err(blocked) => row.blocked = Some(blocked.0),
        }
    }
}

/// A compiler and a ptxas, for one device.
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
    /// Compiles and assembles a kernel, of which a CTA has this size.
    ///
    /// # Errors
    /// [`CodeError`]; a kernel that ptxas rejects is a verdict, not an error.
    pub fn code(
        &self,
        library: &Library,
        source: &KernelSource<'_>,
        size: LaunchSize,
    ) -> Result<Code, CodeError> {
        let ptx = self.compiler.ptx(library, source.kernel, &source.defines)?;
        let (entry, store) = (&source.kernel.entry, self.compiler.store);
        match toolkit::resources(self.toolkit, self.compiler.target, &ptx, entry, store, LIMIT) {
            Ok(resources) => {
                let verdict = admission::admit_code(size, &resources, self.limits);
                Ok(Code { resources: Some(resources), verdict: verdict.map(Option::unwrap_or_default) })
            }
            Err(ResourcesError::Cubin(refused @ CubinError::Refused { .. })) => {
                Ok(Code { resources: None, verdict: Err(Blocked(refused.to_string())) })
            }
            Err(error) => Err(error.into()),
        }
    }
}
