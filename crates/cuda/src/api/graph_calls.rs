//! Entry points of both APIs for graphs; the APIs differ only in the structs of a few nodes.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::conditional_calls::add_conditional;
use crate::api::graph_parameters::{
    awaited, copied, driver_copied, graph_of, kernel_handle, kernel_of, node_of, nodes, recorded,
    with_conditions,
};
use crate::api::launch_parameters::{LaunchAttribute, attributed};
use crate::api::parameters::{
    Api, Copy3D, FillParameters, HostParameters, KernelParameters, Memcpy3D, any_work,
};
use crate::api::table::entry_points;
use crate::device::allocations::Kind;
use crate::device::conditionals::CONDITIONAL;
use crate::device::handles::Handle;
use crate::device::state::device;
use crate::device::user_objects::Gone;
use crate::device::work::{CopyWork, Work};
use crate::program::caller::runtime_is_12;
use crate::program::pointers::{In, Out};
use crate::status::{Answer, Status};

fn add(node: Out<u64>, graph: u64, after: In<u64>, count: usize, work: Work) -> Answer {
    let after = nodes(after, count)?;
    let made = device()?.graphs.add(graph_of(graph)?, work, after);
    let made = made.map_err(with_conditions)?;
    node.set(Handle::Node.make(made as usize))
}

fn add_kernel(
    node: Out<u64>,
    graph: u64,
    after: In<u64>,
    count: usize,
    of: In<KernelParameters>,
    kernel: u64,
) -> Answer {
    // SAFETY: the struct that the header demands has the arguments of the kernel.
    let work = unsafe { of.get()?.work(None, kernel)? };
    add(node, graph, after, count, Work::Launch(Box::new(work)))
}

/// Allocates memory that a graph owns; it lives until the process ends.
fn graph_memory(len: usize) -> Result<u64, Status> {
    device()?.allocate(len, Kind::Graph)
}

/// Adds a node of any type.
///
/// # Safety
/// As [`any_work`].
unsafe fn add_any(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: u64, api: Api) -> Answer {
    // SAFETY: the type precedes everything else.
    if unsafe { In::<u32>::at(of) }.get()? == CONDITIONAL {
        // SAFETY: as promised by the caller, for this type.
        return unsafe { add_conditional(node, graph, nodes(after, count)?, of, api) };
    }
    // SAFETY: as promised by the caller.
    let (work, place) = unsafe { any_work(of, api, graph_memory) }?;
    if let (Some(place), Work::Allocate(address, _)) = (place, &work) {
        // SAFETY: a field of the caller's struct.
        unsafe { Out::<u64>::at(place) }.set(*address)?;
    }
    add(node, graph, after, count, work)
}

/// Replaces the work of a node by work of the same type.
fn replace(node: u64, work: Work) -> Answer {
    let mut device = device()?;
    let held = device.graphs.node_mut(node_of(node)?)?;
    if held.work.node_type() != work.node_type() {
        return Err(Status::INVALID_VALUE);
    }
    held.work = work;
    Ok(())
}

fn shown_kernel(node: u64, to: Out<KernelParameters>) -> Answer {
    let kernel = kernel_of(node)?;
    let mut device = device()?;
    let places = device.parameters(&kernel.function)?;
    let held = device.graphs.node_mut(node_of(node)?)?;
    let bytes: Box<[u8]> = kernel.params.to_vec().into();
    let pointers: Box<[u64]> = places.iter().map(|(at, _)| bytes.as_ptr() as u64 + *at as u64).collect();
    let (grid, block, shared) = (kernel.shape.grid, kernel.shape.block, kernel.shape.shared_bytes);
    // SAFETY: the node keeps the list, as CUDA does.
    let list = unsafe { In::at(pointers.as_ptr() as u64) };
    held.shown = Some((bytes, pointers));
    to.set(KernelParameters { function: kernel.symbol, grid, block, shared, pointers: list, extra: 0 })
}

/// Sets a launch attribute of a kernel node.
///
/// # Safety
/// The address is null or that of a value of an attribute.
unsafe fn attribute(node: u64, id: u32, value: u64) -> Answer {
    // SAFETY: as promised by the caller.
    let attribute = LaunchAttribute::with_id(id, unsafe { In::at(value) }.get()?);
    let mut kernel = kernel_of(node)?;
    // SAFETY: a list of one.
    unsafe { attributed(&mut kernel.shape, In::from_value(&attribute), 1)? };
    replace(node, Work::Launch(Box::new(kernel)))
}

fn shown_attribute(node: u64, id: u32, value: Out<[u32; 16]>) -> Answer {
    let shape = kernel_of(node)?.shape;
    let mut words = [0; 16];
    match id {
        2 => words[0] = u32::from(shape.cooperative),
        4 => words[..3].copy_from_slice(&shape.cluster.unwrap_or([0; 3])),
        _ => {}
    }
    value.set(words)
}

/// Fills the caller's list as far as it reaches; without a list, returns the number of nodes.
fn listed(list: Out<u64>, count: Out<usize>, nodes: &[u64]) -> Answer {
    if !list.is_null() {
        let room = count.input().get()?;
        for n in 0..room {
            // SAFETY: the caller says that there is room for so many.
            unsafe { list.nth(n) }.set(nodes.get(n).map_or(0, |node| Handle::Node.make(*node as usize)))?;
        }
        return count.set(room.min(nodes.len()));
    }
    count.set(nodes.len())
}

fn edges(graph: u64, from: Out<u64>, to: Out<u64>, count: Out<usize>) -> Answer {
    let device = device()?;
    let mut all = Vec::new();
    for node in device.graphs.nodes(graph_of(graph)?)? {
        all.extend(device.graphs.node(*node)?.after.iter().map(|a| (*a, *node)));
    }
    let (ahead, behind): (Vec<u64>, Vec<u64>) = all.into_iter().unzip();
    if !from.is_null() && !to.is_null() {
        let room = count.input().get()?;
        listed(from, count, &ahead)?;
        count.set(room)?;
    }
    listed(to, count, &behind)
}

fn ahead(node: u64, list: Out<u64>, count: Out<usize>) -> Answer {
    let after = device()?.graphs.node(node_of(node)?)?.after.clone();
    listed(list, count, &after)
}

fn behind(node: u64, list: Out<u64>, count: Out<usize>) -> Answer {
    let behind = device()?.graphs.behind(node_of(node)?)?;
    listed(list, count, &behind)
}

fn connect(graph: u64, from: In<u64>, to: In<u64>, count: usize, add: bool) -> Answer {
    device()?.graphs.nodes(graph_of(graph)?)?;
    let (from, to) = (nodes(from, count)?, nodes(to, count)?);
    let mut device = device()?;
    from.iter().zip(&to).try_for_each(|(from, to)| device.graphs.connect(*from, *to, add))
}

entry_points! {
    GRAPH, GRAPH_CALLS;

    [cudaGraphCreate: (Primary, zeros INVALID_VALUE)]
    [cuGraphCreate: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (graph: Out<u64>, _flags: u32) {
        let made = device()?.graphs.create();
        graph.set(Handle::Graph.make(made as usize))
    }
    [cudaGraphDestroy, _cudaGraphDestroy: (Primary, zeros INVALID_VALUE)]
    [cuGraphDestroy: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (graph: u64) {
        let gone = device()?.destroy_graph(graph_of(graph)?)?;
        gone.into_iter().for_each(Gone::destroy);
        Ok(())
    }
    [cudaGraphClone: (Primary, zeros INVALID_VALUE)]
    [cuGraphClone: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (to: Out<u64>, graph: u64) {
        let made = device()?.graphs.clone_graph(graph_of(graph)?);
        let made = made.map_err(with_conditions)?;
        to.set(Handle::Graph.make(made as usize))
    }
    [cudaGraphNodeFindInClone: (Primary, zeros INVALID_VALUE)]
    [cuGraphNodeFindInClone: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (to: Out<u64>, node: u64, graph: u64) {
        let found = device()?.graphs.in_clone(node_of(node)?, graph_of(graph)?)?;
        to.set(Handle::Node.make(found as usize))
    }
    [cudaGraphDestroyNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphDestroyNode: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64) { device()?.graphs.destroy_node(node_of(node)?) }

    [cudaGraphAddKernelNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddKernelNode: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<KernelParameters>) {
        add_kernel(node, graph, after, count, of, 0)
    }
    [cuGraphAddKernelNode_v2: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<KernelParameters>) {
        add_kernel(node, graph, after, count, of, kernel_handle(of)?)
    }
    [cudaGraphAddMemcpyNode: (Primary, zeros INVALID_VALUE)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<Memcpy3D>) {
        add(node, graph, after, count, copied(of)?)
    }
    [cuGraphAddMemcpyNode: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<Copy3D>, _context: u64) {
        add(node, graph, after, count, driver_copied(of)?)
    }
    [cudaGraphAddMemcpyNode1D: (Primary, zeros INVALID_VALUE)]
    fn (
        node: Out<u64>, graph: u64, after: In<u64>, count: usize, to: u64, from: u64, len: usize, _kind: c_int,
    ) { add(node, graph, after, count, Work::Copy(CopyWork::plain(to, from, len))) }
    [cudaGraphAddMemsetNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddMemsetNode: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<FillParameters>) {
        add(node, graph, after, count, of.get()?.work()?)
    }
    [cudaGraphAddHostNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddHostNode: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<HostParameters>) {
        add(node, graph, after, count, of.get()?.work())
    }
    [cudaGraphAddChildGraphNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddChildGraphNode: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, child: u64) {
        add(node, graph, after, count, Work::Child(graph_of(child)?))
    }
    [cudaGraphAddEmptyNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddEmptyNode: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize) {
        add(node, graph, after, count, Work::Empty)
    }
    [cudaGraphAddEventRecordNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddEventRecordNode: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, event: u64) {
        add(node, graph, after, count, recorded(event)?)
    }
    [cudaGraphAddEventWaitNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddEventWaitNode: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, event: u64) {
        add(node, graph, after, count, awaited(event)?)
    }
    [cudaGraphAddMemAllocNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddMemAllocNode: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: u64) {
        // The pool, the accesses and their number occupy 104 bytes; the size and the place for the address follow.
        let len = In::<[u64; 15]>::at(of).get()?[13] as usize;
        let address = graph_memory(len)?;
        Out::<u64>::at(of + 112).set(address)?;
        add(node, graph, after, count, Work::Allocate(address, len))
    }
    [cudaGraphAddMemFreeNode: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddMemFreeNode: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, address: u64) {
        add(node, graph, after, count, Work::Free(address))
    }
    [cudaGraphAddNode_v2: (Primary, zeros INVALID_VALUE)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, _edges: u64, count: usize, of: u64) {
        add_any(node, graph, after, count, of, Api::Runtime)
    }
    // In CUDA 12 this function takes no list of edges.
    [cudaGraphAddNode: (Primary, zeros INVALID_VALUE)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, fourth: u64, fifth: u64, of: u64) {
        if runtime_is_12() {
            add_any(node, graph, after, fourth as usize, fifth, Api::Runtime)
        } else {
            add_any(node, graph, after, fifth as usize, of, Api::Runtime)
        }
    }
    [cuGraphAddNode: (Init, zeros INVALID_VALUE, since 12_020)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: u64) {
        add_any(node, graph, after, count, of, Api::Driver)
    }
    [cuGraphAddNode_v2: (Init, zeros INVALID_VALUE, since 12_030)]
    [cuGraphAddNode_v3: (Init, zeros INVALID_VALUE, since 13_040)]
    fn (node: Out<u64>, graph: u64, after: In<u64>, _edges: u64, count: usize, of: u64) {
        add_any(node, graph, after, count, of, Api::Driver)
    }

    [cudaGraphKernelNodeGetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphKernelNodeGetParams: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, to: Out<KernelParameters>) { shown_kernel(node, to) }
    [cuGraphKernelNodeGetParams_v2: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (node: u64, to: Out<KernelParameters>) {
        shown_kernel(node, to)?;
        // The kernel handle and the context.
        Out::<[u64; 2]>::at(to.address() + size_of::<KernelParameters>() as u64).set([0; 2])
    }
    [cudaGraphKernelNodeSetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphKernelNodeSetParams: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, of: In<KernelParameters>) {
        let work = of.get()?.work(Some(&kernel_of(node)?), 0)?;
        replace(node, Work::Launch(Box::new(work)))
    }
    [cuGraphKernelNodeSetParams_v2: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (node: u64, of: In<KernelParameters>) {
        let work = of.get()?.work(Some(&kernel_of(node)?), kernel_handle(of)?)?;
        replace(node, Work::Launch(Box::new(work)))
    }
    [cudaGraphKernelNodeCopyAttributes: (Primary, zeros INVALID_VALUE)]
    [cuGraphKernelNodeCopyAttributes: (Init, zeros INVALID_VALUE, since 11_000)]
    fn (to: u64, from: u64) {
        let (mut kernel, from) = (kernel_of(to)?, kernel_of(from)?.shape);
        (kernel.shape.cluster, kernel.shape.cooperative) = (from.cluster, from.cooperative);
        replace(to, Work::Launch(Box::new(kernel)))
    }
    [cudaGraphKernelNodeSetAttribute: (Primary, zeros INVALID_VALUE)]
    [cuGraphKernelNodeSetAttribute: (Init, zeros INVALID_VALUE, since 11_000)]
    fn (node: u64, id: u32, value: u64) { attribute(node, id, value) }
    [cudaGraphKernelNodeGetAttribute: (Primary, zeros INVALID_VALUE)]
    [cuGraphKernelNodeGetAttribute: (Init, zeros INVALID_VALUE, since 11_000)]
    fn (node: u64, id: u32, value: Out<[u32; 16]>) {
        shown_attribute(node, id, value)
    }
    [cudaGraphMemcpyNodeGetParams: (Primary, zeros INVALID_VALUE)]
    fn (node: u64, to: Out<Memcpy3D>) {
        let Work::Copy(copy) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        to.set(Memcpy3D::from_work(&copy))
    }
    [cuGraphMemcpyNodeGetParams: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, to: Out<Copy3D>) {
        let Work::Copy(copy) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        to.set(Copy3D::from_work(&copy))
    }
    [cudaGraphMemcpyNodeSetParams: (Primary, zeros INVALID_VALUE)]
    fn (node: u64, of: In<Memcpy3D>) { replace(node, copied(of)?) }
    [cuGraphMemcpyNodeSetParams: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, of: In<Copy3D>) { replace(node, driver_copied(of)?) }
    [cudaGraphMemcpyNodeSetParams1D: (Primary, zeros INVALID_VALUE)]
    fn (node: u64, to: u64, from: u64, len: usize, _kind: c_int) {
        replace(node, Work::Copy(CopyWork::plain(to, from, len)))
    }
    [cudaGraphMemsetNodeGetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphMemsetNodeGetParams: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, to: Out<FillParameters>) {
        let Work::Fill(fill) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        to.set(FillParameters::from_work(&fill))
    }
    [cudaGraphMemsetNodeSetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphMemsetNodeSetParams: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, of: In<FillParameters>) { replace(node, of.get()?.work()?) }
    [cudaGraphHostNodeGetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphHostNodeGetParams: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, to: Out<HostParameters>) {
        let Work::Host { function, data } = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        to.set(HostParameters { function, data })
    }
    [cudaGraphHostNodeSetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphHostNodeSetParams: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, of: In<HostParameters>) { replace(node, of.get()?.work()) }
    [cudaGraphEventRecordNodeGetEvent, cudaGraphEventWaitNodeGetEvent: (Primary, zeros INVALID_VALUE)]
    [cuGraphEventRecordNodeGetEvent, cuGraphEventWaitNodeGetEvent: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (
        node: u64, event: Out<u64>,
    ) {
        let (Work::Record(held) | Work::Wait(held)) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        event.set(held)
    }
    [cudaGraphEventRecordNodeSetEvent: (Primary, zeros INVALID_VALUE)]
    [cuGraphEventRecordNodeSetEvent: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (node: u64, event: u64) { replace(node, recorded(event)?) }
    [cudaGraphEventWaitNodeSetEvent: (Primary, zeros INVALID_VALUE)]
    [cuGraphEventWaitNodeSetEvent: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (node: u64, event: u64) { replace(node, awaited(event)?) }
    [cudaGraphMemAllocNodeGetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphMemAllocNodeGetParams: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (node: u64, to: Out<[u64; 15]>) {
        let Work::Allocate(address, len) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        let mut words = [0; 15];
        words[13..].copy_from_slice(&[len as u64, address]);
        to.set(words)
    }
    [cudaGraphMemFreeNodeGetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphMemFreeNodeGetParams: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (node: u64, address: Out<u64>) {
        let Work::Free(held) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        address.set(held)
    }
    [cudaGraphChildGraphNodeGetGraph: (Primary, zeros INVALID_VALUE)]
    [cuGraphChildGraphNodeGetGraph: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, graph: Out<u64>) {
        let Work::Child(held) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        graph.set(Handle::Graph.make(held as usize))
    }
    [cudaGraphNodeSetParams: (Primary, zeros INVALID_VALUE)]
    fn (node: u64, of: u64) { replace(node, any_work(of, Api::Runtime, |_| Err(Status::NOT_SUPPORTED))?.0) }
    [cuGraphNodeSetParams: (Init, zeros INVALID_VALUE, since 12_020)]
    [cuGraphNodeSetParams_v2: (Init, zeros INVALID_VALUE, since 13_040)]
    fn (node: u64, of: u64) {
        replace(node, any_work(of, Api::Driver, |_| Err(Status::NOT_SUPPORTED))?.0)
    }

    [cudaGraphNodeGetType: (Primary, zeros INVALID_VALUE)]
    [cuGraphNodeGetType: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, kind: Out<u32>) {
        let held = device()?.graphs.node(node_of(node)?)?.work.node_type();
        kind.set(held)
    }
    [cudaGraphNodeGetContainingGraph: (Primary, zeros INVALID_VALUE)]
    [cuGraphNodeGetContainingGraph: (Init, zeros INVALID_VALUE, since 13_010)]
    fn (node: u64, graph: Out<u64>) {
        let held = device()?.graphs.node(node_of(node)?)?.graph;
        graph.set(Handle::Graph.make(held as usize))
    }
    [cudaGraphGetNodes: (Primary, zeros INVALID_VALUE)]
    [cuGraphGetNodes: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (graph: u64, list: Out<u64>, count: Out<usize>) {
        let all = device()?.graphs.nodes(graph_of(graph)?)?.to_vec();
        listed(list, count, &all)
    }
    [cudaGraphGetRootNodes: (Primary, zeros INVALID_VALUE)]
    [cuGraphGetRootNodes: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (graph: u64, list: Out<u64>, count: Out<usize>) {
        let device = device()?;
        let all = device.graphs.nodes(graph_of(graph)?)?;
        let root = |node: &&u64| device.graphs.node(**node).is_ok_and(|n| n.after.is_empty());
        let roots: Vec<u64> = all.iter().filter(root).copied().collect();
        listed(list, count, &roots)
    }
    [cuGraphGetEdges: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (graph: u64, from: Out<u64>, to: Out<u64>, count: Out<usize>) { edges(graph, from, to, count) }
    [cudaGraphGetEdges_v2: (Primary, zeros INVALID_VALUE)]
    [cuGraphGetEdges_v2: (Init, zeros INVALID_VALUE, since 12_030)]
    fn (graph: u64, from: Out<u64>, to: Out<u64>, _edges: u64, count: Out<usize>) {
        edges(graph, from, to, count)
    }
    [cudaGraphGetEdges: (Primary, zeros INVALID_VALUE)]
    fn (graph: u64, from: Out<u64>, to: Out<u64>, fourth: Out<usize>, fifth: Out<usize>) {
        edges(graph, from, to, if runtime_is_12() { fourth } else { fifth })
    }
    [cuGraphNodeGetDependencies: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, list: Out<u64>, count: Out<usize>) { ahead(node, list, count) }
    [cudaGraphNodeGetDependencies_v2: (Primary, zeros INVALID_VALUE)]
    [cuGraphNodeGetDependencies_v2: (Init, zeros INVALID_VALUE, since 12_030)]
    fn (node: u64, list: Out<u64>, _edges: u64, count: Out<usize>) {
        ahead(node, list, count)
    }
    [cudaGraphNodeGetDependencies: (Primary, zeros INVALID_VALUE)]
    fn (node: u64, list: Out<u64>, third: Out<usize>, fourth: Out<usize>) {
        ahead(node, list, if runtime_is_12() { third } else { fourth })
    }
    [cuGraphNodeGetDependentNodes: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (node: u64, list: Out<u64>, count: Out<usize>) { behind(node, list, count) }
    [cudaGraphNodeGetDependentNodes_v2: (Primary, zeros INVALID_VALUE)]
    [cuGraphNodeGetDependentNodes_v2: (Init, zeros INVALID_VALUE, since 12_030)]
    fn (node: u64, list: Out<u64>, _edges: u64, count: Out<usize>) {
        behind(node, list, count)
    }
    [cudaGraphNodeGetDependentNodes: (Primary, zeros INVALID_VALUE)]
    fn (node: u64, list: Out<u64>, third: Out<usize>, fourth: Out<usize>) {
        behind(node, list, if runtime_is_12() { third } else { fourth })
    }
    [cuGraphAddDependencies: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (graph: u64, from: In<u64>, to: In<u64>, count: usize) { connect(graph, from, to, count, true) }
    [cudaGraphAddDependencies_v2: (Primary, zeros INVALID_VALUE)]
    [cuGraphAddDependencies_v2: (Init, zeros INVALID_VALUE, since 12_030)]
    fn (graph: u64, from: In<u64>, to: In<u64>, _edges: u64, count: usize) {
        connect(graph, from, to, count, true)
    }
    [cudaGraphAddDependencies: (Primary, zeros INVALID_VALUE)]
    fn (graph: u64, from: In<u64>, to: In<u64>, fourth: u64, fifth: usize) {
        connect(graph, from, to, if runtime_is_12() { fourth as usize } else { fifth }, true)
    }
    [cuGraphRemoveDependencies: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (graph: u64, from: In<u64>, to: In<u64>, count: usize) { connect(graph, from, to, count, false) }
    [cudaGraphRemoveDependencies_v2: (Primary, zeros INVALID_VALUE)]
    [cuGraphRemoveDependencies_v2: (Init, zeros INVALID_VALUE, since 12_030)]
    fn (graph: u64, from: In<u64>, to: In<u64>, _edges: u64, count: usize) {
        connect(graph, from, to, count, false)
    }
    [cudaGraphRemoveDependencies: (Primary, zeros INVALID_VALUE)]
    fn (graph: u64, from: In<u64>, to: In<u64>, fourth: u64, fifth: usize) {
        connect(graph, from, to, if runtime_is_12() { fourth as usize } else { fifth }, false)
    }
}
