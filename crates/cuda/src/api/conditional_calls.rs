//! Entry points of both APIs for the handles of conditional nodes, and the nodes themselves, which are added as nodes of any type.
#![expect(unsafe_code, reason = "exported names")]

use crate::api::graph_parameters::graph_of;
use crate::api::parameters::{Api, UNION};
use crate::api::table::entry_points;
use crate::device::conditionals::Choice;
use crate::device::contexts;
use crate::device::handles::Handle;
use crate::device::state::device;
use crate::program::pointers::{In, Out};
use crate::status::{Answer, Status};

/// `cudaGraphCondAssignDefault`.
const ASSIGN_DEFAULT: u32 = 1;

/// `CUDA_CONDITIONAL_NODE_PARAMS`, and `cudaConditionalNodeParams`, whose last field is reserved before CUDA 13.1.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct ConditionalParameters {
    handle: u64,
    choice: u32,
    size: u32,
    /// Where the caller finds the list of bodies; the node keeps it.
    bodies: u64,
    context: u64,
}

/// Adds a conditional node, and tells the caller where its bodies are.
///
/// # Safety
/// The address is that of the `cudaGraphNodeParams` or `CUgraphNodeParams` of such a node.
pub(crate) unsafe fn add_conditional(
    node: Out<u64>,
    graph: u64,
    after: Vec<u64>,
    of: u64,
    api: Api,
) -> Answer {
    // SAFETY: as promised by the caller.
    let given = unsafe { In::<ConditionalParameters>::at(of + UNION) }.get()?;
    let graph = graph_of(graph)?;
    let choice = Choice::from_number(given.choice, given.size)?;
    let context = match api {
        Api::Runtime => 0,
        Api::Driver if given.context == 0 => return Err(Status::INVALID_CONTEXT),
        Api::Driver => given.context,
    };
    if node.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let (made, list) = {
        let graphs = &mut device()?.graphs;
        let (made, bodies) =
            graphs.add_conditional(graph, (given.handle, context), (choice, given.size), after)?;
        let handles: Box<[u64]> = bodies.iter().map(|body| Handle::Graph.make(*body as usize)).collect();
        let list = handles.as_ptr() as u64;
        graphs.node_mut(made)?.shown = Some((Box::default(), handles));
        (made, list)
    };
    // SAFETY: a field of the caller's struct.
    unsafe { Out::<ConditionalParameters>::at(of + UNION) }
        .set(ConditionalParameters { bodies: list, ..given })?;
    node.set(Handle::Node.make(made as usize))
}

fn create(handle: Out<u64>, graph: u64, context: u64, value: u32, flags: u32) -> Answer {
    let graph = graph_of(graph)?;
    if handle.is_null() || flags & !ASSIGN_DEFAULT != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let mut device = device()?;
    device.graphs.nodes(graph)?;
    if context == 0 {
        return Err(Status::INVALID_CONTEXT);
    }
    let default = (flags == ASSIGN_DEFAULT).then_some(value);
    handle.set(device.condition_handle(graph, context, default)?)
}

entry_points! {
    CONDITIONAL_HANDLE, CONDITIONAL_HANDLE_CALLS;

    [cudaGraphConditionalHandleCreate: (Primary, zeros INVALID_VALUE)]
    fn (handle: Out<u64>, graph: u64, value: u32, flags: u32) {
        create(handle, graph, contexts::owner(), value, flags)
    }
    [cudaGraphConditionalHandleCreate_v2: (Primary, zeros INVALID_VALUE)]
    fn (handle: Out<u64>, graph: u64, execution: u64, value: u32, flags: u32) {
        if execution != 0 {
            device()?.miss("cudaGraphConditionalHandleCreate_v2 with an execution context: multiprocessors are not partitioned; pass NULL");
            return Err(Status::NOT_SUPPORTED);
        }
        create(handle, graph, contexts::owner(), value, flags)
    }
    [cuGraphConditionalHandleCreate: (Init, zeros INVALID_VALUE, since 12_030)]
    fn (handle: Out<u64>, graph: u64, context: u64, value: u32, flags: u32) {
        create(handle, graph, context, value, flags)
    }
}
