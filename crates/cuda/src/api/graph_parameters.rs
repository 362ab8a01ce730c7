//! Arguments of calls on graphs: handles, lists of nodes, and the work that a struct describes.
#![expect(unsafe_code, reason = "structs of a C program")]

use crate::api::parameters::{Copy3D, KernelParameters, Memcpy3D};
use crate::api::refusals::refuse_as_cuda;
use crate::device::handles::Handle;
use crate::device::state::device;
use crate::device::work::{KernelWork, Work};
use crate::program::pointers::In;
use crate::status::Status;

/// The graph of a handle.
pub(crate) fn graph_of(handle: u64) -> Result<u64, Status> {
    Handle::Graph.index(handle).map(|n| n as u64).ok_or(Status::INVALID_VALUE)
}

/// The node of a handle.
pub(crate) fn node_of(handle: u64) -> Result<u64, Status> {
    Handle::Node.index(handle).map(|n| n as u64).ok_or(Status::INVALID_VALUE)
}

/// Reads a list of node handles.
pub(crate) fn nodes(list: In<u64>, count: usize) -> Result<Vec<u64>, Status> {
    // SAFETY: the caller says that there are so many.
    let handles = (0..count).map(|n| unsafe { list.nth(n) });
    handles.map(|node| Handle::Node.index(node?).map(|n| n as u64).ok_or(Status::INVALID_VALUE)).collect()
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` extends the first form by a kernel handle.
///
/// # Safety
/// The struct is of the second form.
pub(crate) unsafe fn kernel_handle(of: In<KernelParameters>) -> Result<u64, Status> {
    if of.get()?.function == 0 {
        // SAFETY: as promised by the caller.
        unsafe { In::<u64>::at(of.address() + size_of::<KernelParameters>() as u64) }.get()
    } else {
        Ok(0)
    }
}

/// The copy that a struct of the runtime describes.
pub(crate) fn copied(of: In<Memcpy3D>) -> Result<Work, Status> {
    Ok(Work::Copy(of.get()?.work()?))
}

/// The copy that a struct of the driver describes.
pub(crate) fn driver_copied(of: In<Copy3D>) -> Result<Work, Status> {
    Ok(Work::Copy(of.get()?.work()?))
}

/// Work that records an event.
pub(crate) fn recorded(event: u64) -> Result<Work, Status> {
    device()?.streams.known_event(event)?;
    Ok(Work::Record(event))
}

/// Work that waits for an event.
pub(crate) fn awaited(event: u64) -> Result<Work, Status> {
    device()?.streams.known_event(event)?;
    Ok(Work::Wait(event))
}

/// The launch of a kernel node.
pub(crate) fn kernel_of(node: u64) -> Result<KernelWork, Status> {
    match &device()?.graphs.node(node_of(node)?)?.work {
        Work::Launch(kernel) => Ok((**kernel).clone()),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Says why CUDA refuses a call on a graph with conditional nodes, if it does.
pub(crate) fn with_conditions(status: Status) -> Status {
    if status == Status::NOT_SUPPORTED {
        return refuse_as_cuda(
            "a graph with handles of conditional nodes is neither cloned nor a child graph, has one instance at a time, and \
             the body of a conditional node has none",
        );
    }
    status
}
