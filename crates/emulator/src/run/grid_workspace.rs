//! The workspace that the driver provides for a cooperative launch; `cooperative_groups::this_grid().sync()` keeps its barrier there.

use crate::front::program::{Kernel, Special};
use crate::memory::global::GlobalMemory;
use crate::run::stream::{InStream, Stream};

/// `grid_workspace` of `cooperative_groups/details/driver_abi.h`: its size in bytes, and a barrier with no arrivals.
const CONTENTS: [u32; 2] = [8, 0];

/// Allocates a workspace for each cooperative launch.
pub(crate) fn provide(launches: &[InStream<'_>], stream: &mut Stream, memory: &mut GlobalMemory) {
    let grids = stream.grids.iter_mut().zip(launches).filter(|(_, launch)| launch.cooperative);
    for (grid, _) in grids {
        grid.workspace = memory.allocate_with(CONTENTS.iter().flat_map(|word| word.to_le_bytes()).collect());
    }
}

/// Removes the workspaces from memory.
pub(crate) fn take_back(stream: &Stream, memory: &mut GlobalMemory) {
    for grid in stream.grids.iter().filter(|grid| grid.workspace != 0) {
        memory.remove(grid.workspace);
    }
}

/// Whether a kernel reads the workspace address.
pub(crate) fn used_by(kernel: &Kernel) -> bool {
    kernel.specials_w.iter().any(|(_, special)| matches!(special, Special::GridWorkspace { .. }))
}
