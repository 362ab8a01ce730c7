//! Entry points of both APIs for graphs; the APIs differ only in the structs of a few nodes.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::{Answer, In, Out, entry_points, runtime_is_12};
use crate::device::{Handle, Kind, device};
use crate::graph_parameters::{
    Api, Copy3D, FillParameters, HostParameters, KernelParameters, Memcpy3D, any_work,
};
use crate::launch_calls::{LaunchAttribute, attributed};
use crate::status::Status;
use crate::stream_calls::nodes;
use crate::work::{CopyWork, KernelWork, Work, perform};

fn graph_of(handle: u64) -> Result<u64, Status> {
    Handle::Graph.index(handle).map(|n| n as u64).ok_or(Status::INVALID_VALUE)
}

fn node_of(handle: u64) -> Result<u64, Status> {
    Handle::Node.index(handle).map(|n| n as u64).ok_or(Status::INVALID_VALUE)
}

fn instance_of(handle: u64) -> Result<u64, Status> {
    Handle::Instance.index(handle).map(|n| n as u64).ok_or(Status::INVALID_VALUE)
}

fn add(node: Out<u64>, graph: u64, after: In<u64>, count: usize, work: Work) -> Answer {
    let after = nodes(after, count)?;
    let made = device()?.graphs.add(graph_of(graph)?, work, after)?;
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

/// `CUDA_KERNEL_NODE_PARAMS_v2` extends the first form by a kernel handle.
///
/// # Safety
/// The struct is of the second form.
unsafe fn kernel_handle(of: In<KernelParameters>) -> Result<u64, Status> {
    if of.get()?.function == 0 {
        // SAFETY: as promised by the caller.
        unsafe { In::<u64>::at(of.address() + size_of::<KernelParameters>() as u64) }.get()
    } else {
        Ok(0)
    }
}

fn copied(of: In<Memcpy3D>) -> Result<Work, Status> {
    Ok(Work::Copy(of.get()?.work()?))
}

fn driver_copied(of: In<Copy3D>) -> Result<Work, Status> {
    Ok(Work::Copy(of.get()?.work()?))
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

/// Replaces the work of a node in an instance.
fn replace_step(instance: u64, node: u64, work: Work) -> Answer {
    let mut device = device()?;
    let step = device.graphs.step(instance_of(instance)?, node_of(node)?)?;
    if step.work.node_type() != work.node_type() {
        return Err(Status::INVALID_VALUE);
    }
    step.work = work;
    Ok(())
}

fn kernel_of(node: u64) -> Result<KernelWork, Status> {
    match &device()?.graphs.node(node_of(node)?)?.work {
        Work::Launch(kernel) => Ok((**kernel).clone()),
        _ => Err(Status::INVALID_VALUE),
    }
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
    let attribute = LaunchAttribute::of(id, unsafe { In::at(value) }.get()?);
    let mut kernel = kernel_of(node)?;
    // SAFETY: a list of one.
    unsafe { attributed(&mut kernel.shape, In::of(&attribute), 1)? };
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

fn connect(from: In<u64>, to: In<u64>, count: usize, add: bool) -> Answer {
    let (from, to) = (nodes(from, count)?, nodes(to, count)?);
    let mut device = device()?;
    from.iter().zip(&to).try_for_each(|(from, to)| device.graphs.connect(*from, *to, add))
}

fn instantiate(instance: Out<u64>, graph: u64, flags: u64) -> Answer {
    let made = device()?.graphs.instantiate(graph_of(graph)?, flags)?;
    instance.set(Handle::Instance.make(made as usize))
}

/// `cudaGraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UpdateResult {
    result: u32,
    node: u64,
    from: u64,
}

fn update(instance: u64, graph: u64) -> Result<UpdateResult, Status> {
    let wrong = device()?.graphs.update(instance_of(instance)?, graph_of(graph)?)?;
    // 2: the topology or the type of a node changed.
    Ok(match wrong {
        None => UpdateResult { result: 0, node: 0, from: 0 },
        Some(node) => UpdateResult { result: 2, node: Handle::Node.make(node as usize), from: 0 },
    })
}

fn updated(result: u32) -> Answer {
    if result == 0 { Ok(()) } else { Err(Status::GRAPH_UPDATE) }
}

/// Runs an instance, or adds its work to the graph into which the stream is captured.
///
/// # Safety
/// The memory of the program that its nodes name is there.
unsafe fn run(instance: u64, stream: u64) -> Answer {
    let steps = {
        let mut device = device()?;
        device.healthy()?;
        let steps = device.graphs.instance(instance_of(instance)?)?.steps.clone();
        if device.streams.capturing(stream)?.is_some() {
            return Err(Status::CAPTURE_UNSUPPORTED);
        }
        steps
    };
    // SAFETY: as promised by the caller.
    steps.iter().filter(|step| step.enabled).try_for_each(|step| unsafe { perform(&step.work) })
}

entry_points! {
    graph_function;

    fn cudaGraphCreate | cuGraphCreate(graph: Out<u64>, _flags: u32) {
        let made = device()?.graphs.create();
        graph.set(Handle::Graph.make(made as usize))
    }
    fn cudaGraphDestroy | cuGraphDestroy | _cudaGraphDestroy(graph: u64) { device()?.graphs.destroy(graph_of(graph)?) }
    fn cudaGraphClone | cuGraphClone(to: Out<u64>, graph: u64) {
        let made = device()?.graphs.clone_graph(graph_of(graph)?)?;
        to.set(Handle::Graph.make(made as usize))
    }
    fn cudaGraphNodeFindInClone | cuGraphNodeFindInClone(to: Out<u64>, node: u64, graph: u64) {
        let found = device()?.graphs.in_clone(node_of(node)?, graph_of(graph)?)?;
        to.set(Handle::Node.make(found as usize))
    }
    fn cudaGraphDestroyNode | cuGraphDestroyNode(node: u64) { device()?.graphs.destroy_node(node_of(node)?) }

    fn cudaGraphAddKernelNode | cuGraphAddKernelNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<KernelParameters>) {
        add_kernel(node, graph, after, count, of, 0)
    }
    fn cuGraphAddKernelNode_v2(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<KernelParameters>) {
        add_kernel(node, graph, after, count, of, kernel_handle(of)?)
    }
    fn cudaGraphAddMemcpyNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<Memcpy3D>) {
        add(node, graph, after, count, copied(of)?)
    }
    fn cuGraphAddMemcpyNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<Copy3D>, _context: u64) {
        add(node, graph, after, count, driver_copied(of)?)
    }
    fn cudaGraphAddMemcpyNode1D(
        node: Out<u64>, graph: u64, after: In<u64>, count: usize, to: u64, from: u64, len: usize, _kind: c_int,
    ) { add(node, graph, after, count, Work::Copy(CopyWork::plain(to, from, len))) }
    fn cudaGraphAddMemsetNode | cuGraphAddMemsetNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<FillParameters>) {
        add(node, graph, after, count, of.get()?.work()?)
    }
    fn cudaGraphAddHostNode | cuGraphAddHostNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: In<HostParameters>) {
        add(node, graph, after, count, of.get()?.work())
    }
    fn cudaGraphAddChildGraphNode | cuGraphAddChildGraphNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, child: u64) {
        add(node, graph, after, count, Work::Child(graph_of(child)?))
    }
    fn cudaGraphAddEmptyNode | cuGraphAddEmptyNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize) {
        add(node, graph, after, count, Work::Empty)
    }
    fn cudaGraphAddEventRecordNode | cuGraphAddEventRecordNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, event: u64) {
        add(node, graph, after, count, Work::Record(event))
    }
    fn cudaGraphAddEventWaitNode | cuGraphAddEventWaitNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, event: u64) {
        add(node, graph, after, count, Work::Wait(event))
    }
    fn cudaGraphAddMemAllocNode | cuGraphAddMemAllocNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: u64) {
        // The pool, the accesses and their number occupy 104 bytes; the size and the place for the address follow.
        let len = In::<usize>::at(of + 104).get()?;
        let address = graph_memory(len)?;
        Out::<u64>::at(of + 112).set(address)?;
        add(node, graph, after, count, Work::Allocate(address, len))
    }
    fn cudaGraphAddMemFreeNode | cuGraphAddMemFreeNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, address: u64) {
        add(node, graph, after, count, Work::Free(address))
    }
    fn cudaGraphAddNode_v2(node: Out<u64>, graph: u64, after: In<u64>, _edges: u64, count: usize, of: u64) {
        add_any(node, graph, after, count, of, Api::Runtime)
    }
    // In CUDA 12 this function takes no list of edges.
    fn cudaGraphAddNode(node: Out<u64>, graph: u64, after: In<u64>, fourth: u64, fifth: u64, of: u64) {
        if runtime_is_12() {
            add_any(node, graph, after, fourth as usize, fifth, Api::Runtime)
        } else {
            add_any(node, graph, after, fifth as usize, of, Api::Runtime)
        }
    }
    fn cuGraphAddNode(node: Out<u64>, graph: u64, after: In<u64>, count: usize, of: u64) {
        add_any(node, graph, after, count, of, Api::Driver)
    }
    fn cuGraphAddNode_v2 | cuGraphAddNode_v3(node: Out<u64>, graph: u64, after: In<u64>, _edges: u64, count: usize, of: u64) {
        add_any(node, graph, after, count, of, Api::Driver)
    }

    fn cudaGraphKernelNodeGetParams | cuGraphKernelNodeGetParams(node: u64, to: Out<KernelParameters>) { shown_kernel(node, to) }
    fn cuGraphKernelNodeGetParams_v2(node: u64, to: Out<KernelParameters>) {
        shown_kernel(node, to)?;
        // The kernel handle and the context.
        Out::<[u64; 2]>::at(to.address() + size_of::<KernelParameters>() as u64).set([0; 2])
    }
    fn cudaGraphKernelNodeSetParams | cuGraphKernelNodeSetParams(node: u64, of: In<KernelParameters>) {
        let work = of.get()?.work(Some(&kernel_of(node)?), 0)?;
        replace(node, Work::Launch(Box::new(work)))
    }
    fn cuGraphKernelNodeSetParams_v2(node: u64, of: In<KernelParameters>) {
        let work = of.get()?.work(Some(&kernel_of(node)?), kernel_handle(of)?)?;
        replace(node, Work::Launch(Box::new(work)))
    }
    fn cudaGraphKernelNodeCopyAttributes | cuGraphKernelNodeCopyAttributes(to: u64, from: u64) {
        let (mut kernel, from) = (kernel_of(to)?, kernel_of(from)?.shape);
        (kernel.shape.cluster, kernel.shape.cooperative) = (from.cluster, from.cooperative);
        replace(to, Work::Launch(Box::new(kernel)))
    }
    fn cudaGraphKernelNodeSetAttribute | cuGraphKernelNodeSetAttribute(node: u64, id: u32, value: u64) { attribute(node, id, value) }
    fn cudaGraphKernelNodeGetAttribute | cuGraphKernelNodeGetAttribute(node: u64, id: u32, value: Out<[u32; 16]>) {
        shown_attribute(node, id, value)
    }
    fn cudaGraphMemcpyNodeGetParams(node: u64, to: Out<Memcpy3D>) {
        let Work::Copy(copy) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        to.set(Memcpy3D::of(&copy))
    }
    fn cuGraphMemcpyNodeGetParams(node: u64, to: Out<Copy3D>) {
        let Work::Copy(copy) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        to.set(Copy3D::of(&copy))
    }
    fn cudaGraphMemcpyNodeSetParams(node: u64, of: In<Memcpy3D>) { replace(node, copied(of)?) }
    fn cuGraphMemcpyNodeSetParams(node: u64, of: In<Copy3D>) { replace(node, driver_copied(of)?) }
    fn cudaGraphMemcpyNodeSetParams1D(node: u64, to: u64, from: u64, len: usize, _kind: c_int) {
        replace(node, Work::Copy(CopyWork::plain(to, from, len)))
    }
    fn cudaGraphMemsetNodeGetParams | cuGraphMemsetNodeGetParams(node: u64, to: Out<FillParameters>) {
        let Work::Fill(fill) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        to.set(FillParameters::of(&fill))
    }
    fn cudaGraphMemsetNodeSetParams | cuGraphMemsetNodeSetParams(node: u64, of: In<FillParameters>) { replace(node, of.get()?.work()?) }
    fn cudaGraphHostNodeGetParams | cuGraphHostNodeGetParams(node: u64, to: Out<HostParameters>) {
        let Work::Host { function, data } = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        to.set(HostParameters { function, data })
    }
    fn cudaGraphHostNodeSetParams | cuGraphHostNodeSetParams(node: u64, of: In<HostParameters>) { replace(node, of.get()?.work()) }
    fn cudaGraphEventRecordNodeGetEvent | cuGraphEventRecordNodeGetEvent | cudaGraphEventWaitNodeGetEvent | cuGraphEventWaitNodeGetEvent(
        node: u64, event: Out<u64>,
    ) {
        let (Work::Record(held) | Work::Wait(held)) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        event.set(held)
    }
    fn cudaGraphEventRecordNodeSetEvent | cuGraphEventRecordNodeSetEvent(node: u64, event: u64) { replace(node, Work::Record(event)) }
    fn cudaGraphEventWaitNodeSetEvent | cuGraphEventWaitNodeSetEvent(node: u64, event: u64) { replace(node, Work::Wait(event)) }
    fn cudaGraphMemAllocNodeGetParams | cuGraphMemAllocNodeGetParams(node: u64, to: u64) {
        let Work::Allocate(address, len) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        Out::<[u64; 13]>::at(to).set([0; 13])?;
        Out::<[u64; 2]>::at(to + 104).set([len as u64, address])
    }
    fn cudaGraphMemFreeNodeGetParams | cuGraphMemFreeNodeGetParams(node: u64, address: Out<u64>) {
        let Work::Free(held) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        address.set(held)
    }
    fn cudaGraphChildGraphNodeGetGraph | cuGraphChildGraphNodeGetGraph(node: u64, graph: Out<u64>) {
        let Work::Child(held) = device()?.graphs.node(node_of(node)?)?.work else { return Err(Status::INVALID_VALUE) };
        graph.set(Handle::Graph.make(held as usize))
    }
    fn cudaGraphNodeSetParams(node: u64, of: u64) { replace(node, any_work(of, Api::Runtime, |_| Err(Status::NOT_SUPPORTED))?.0) }
    fn cuGraphNodeSetParams | cuGraphNodeSetParams_v2(node: u64, of: u64) {
        replace(node, any_work(of, Api::Driver, |_| Err(Status::NOT_SUPPORTED))?.0)
    }

    fn cudaGraphNodeGetType | cuGraphNodeGetType(node: u64, kind: Out<u32>) {
        let held = device()?.graphs.node(node_of(node)?)?.work.node_type();
        kind.set(held)
    }
    fn cudaGraphNodeGetContainingGraph | cuGraphNodeGetContainingGraph(node: u64, graph: Out<u64>) {
        let held = device()?.graphs.node(node_of(node)?)?.graph;
        graph.set(Handle::Graph.make(held as usize))
    }
    fn cudaGraphGetNodes | cuGraphGetNodes(graph: u64, list: Out<u64>, count: Out<usize>) {
        let all = device()?.graphs.nodes(graph_of(graph)?)?.to_vec();
        listed(list, count, &all)
    }
    fn cudaGraphGetRootNodes | cuGraphGetRootNodes(graph: u64, list: Out<u64>, count: Out<usize>) {
        let device = device()?;
        let all = device.graphs.nodes(graph_of(graph)?)?;
        let root = |node: &&u64| device.graphs.node(**node).is_ok_and(|n| n.after.is_empty());
        let roots: Vec<u64> = all.iter().filter(root).copied().collect();
        listed(list, count, &roots)
    }
    fn cuGraphGetEdges(graph: u64, from: Out<u64>, to: Out<u64>, count: Out<usize>) { edges(graph, from, to, count) }
    fn cudaGraphGetEdges_v2 | cuGraphGetEdges_v2(graph: u64, from: Out<u64>, to: Out<u64>, _edges: u64, count: Out<usize>) {
        edges(graph, from, to, count)
    }
    fn cudaGraphGetEdges(graph: u64, from: Out<u64>, to: Out<u64>, fourth: Out<usize>, fifth: Out<usize>) {
        edges(graph, from, to, if runtime_is_12() { fourth } else { fifth })
    }
    fn cuGraphNodeGetDependencies(node: u64, list: Out<u64>, count: Out<usize>) { ahead(node, list, count) }
    fn cudaGraphNodeGetDependencies_v2 | cuGraphNodeGetDependencies_v2(node: u64, list: Out<u64>, _edges: u64, count: Out<usize>) {
        ahead(node, list, count)
    }
    fn cudaGraphNodeGetDependencies(node: u64, list: Out<u64>, third: Out<usize>, fourth: Out<usize>) {
        ahead(node, list, if runtime_is_12() { third } else { fourth })
    }
    fn cuGraphNodeGetDependentNodes(node: u64, list: Out<u64>, count: Out<usize>) { behind(node, list, count) }
    fn cudaGraphNodeGetDependentNodes_v2 | cuGraphNodeGetDependentNodes_v2(node: u64, list: Out<u64>, _edges: u64, count: Out<usize>) {
        behind(node, list, count)
    }
    fn cudaGraphNodeGetDependentNodes(node: u64, list: Out<u64>, third: Out<usize>, fourth: Out<usize>) {
        behind(node, list, if runtime_is_12() { third } else { fourth })
    }
    fn cuGraphAddDependencies(_graph: u64, from: In<u64>, to: In<u64>, count: usize) { connect(from, to, count, true) }
    fn cudaGraphAddDependencies_v2 | cuGraphAddDependencies_v2(_graph: u64, from: In<u64>, to: In<u64>, _edges: u64, count: usize) {
        connect(from, to, count, true)
    }
    fn cudaGraphAddDependencies(_graph: u64, from: In<u64>, to: In<u64>, fourth: u64, fifth: usize) {
        connect(from, to, if runtime_is_12() { fourth as usize } else { fifth }, true)
    }
    fn cuGraphRemoveDependencies(_graph: u64, from: In<u64>, to: In<u64>, count: usize) { connect(from, to, count, false) }
    fn cudaGraphRemoveDependencies_v2 | cuGraphRemoveDependencies_v2(_graph: u64, from: In<u64>, to: In<u64>, _edges: u64, count: usize) {
        connect(from, to, count, false)
    }
    fn cudaGraphRemoveDependencies(_graph: u64, from: In<u64>, to: In<u64>, fourth: u64, fifth: usize) {
        connect(from, to, if runtime_is_12() { fourth as usize } else { fifth }, false)
    }

    fn cudaGraphInstantiate | cudaGraphInstantiateWithFlags | cuGraphInstantiateWithFlags | _cudaGraphInstantiate(instance: Out<u64>, graph: u64, flags: u64) {
        instantiate(instance, graph, flags)
    }
    fn cuGraphInstantiate | cuGraphInstantiate_v2(instance: Out<u64>, graph: u64, node: Out<u64>, _log: u64, _size: usize) {
        node.set_if(0);
        instantiate(instance, graph, 0)
    }
    fn cudaGraphInstantiateWithParams | cudaGraphInstantiateWithParams_ptsz | cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz(
        instance: Out<u64>, graph: u64, of: u64,
    ) {
        instantiate(instance, graph, In::at(of).get()?)?;
        // No node is at fault, and the result is success.
        Out::<u64>::at(of + 16).set(0)?;
        Out::<u32>::at(of + 24).set(0)
    }
    fn cudaGraphExecGetFlags | cuGraphExecGetFlags(instance: u64, flags: Out<u64>) {
        let held = device()?.graphs.instance(instance_of(instance)?)?.flags;
        flags.set(held)
    }
    fn cudaGraphExecDestroy | cuGraphExecDestroy | _cudaGraphExecDestroy(instance: u64) { device()?.graphs.destroy_instance(instance_of(instance)?) }
    fn cudaGraphUpload | cudaGraphUpload_ptsz | cuGraphUpload | cuGraphUpload_ptsz(instance: u64, stream: u64) {
        device()?.graphs.instance(instance_of(instance)?).map(drop)
    }
    fn cudaGraphLaunch | cudaGraphLaunch_ptsz | cuGraphLaunch | cuGraphLaunch_ptsz | _cudaGraphLaunch(instance: u64, stream: u64) { run(instance, stream) }

    fn cudaGraphExecKernelNodeSetParams | cuGraphExecKernelNodeSetParams(instance: u64, node: u64, of: In<KernelParameters>) {
        let work = of.get()?.work(Some(&kernel_of(node)?), 0)?;
        replace_step(instance, node, Work::Launch(Box::new(work)))
    }
    fn cuGraphExecKernelNodeSetParams_v2(instance: u64, node: u64, of: In<KernelParameters>) {
        let work = of.get()?.work(Some(&kernel_of(node)?), kernel_handle(of)?)?;
        replace_step(instance, node, Work::Launch(Box::new(work)))
    }
    fn cudaGraphExecMemcpyNodeSetParams(instance: u64, node: u64, of: In<Memcpy3D>) { replace_step(instance, node, copied(of)?) }
    fn cuGraphExecMemcpyNodeSetParams(instance: u64, node: u64, of: In<Copy3D>, _context: u64) { replace_step(instance, node, driver_copied(of)?) }
    fn cudaGraphExecMemcpyNodeSetParams1D(instance: u64, node: u64, to: u64, from: u64, len: usize, _kind: c_int) {
        replace_step(instance, node, Work::Copy(CopyWork::plain(to, from, len)))
    }
    fn cudaGraphExecMemsetNodeSetParams | cuGraphExecMemsetNodeSetParams(instance: u64, node: u64, of: In<FillParameters>) {
        replace_step(instance, node, of.get()?.work()?)
    }
    fn cudaGraphExecHostNodeSetParams | cuGraphExecHostNodeSetParams(instance: u64, node: u64, of: In<HostParameters>) {
        replace_step(instance, node, of.get()?.work())
    }
    fn cudaGraphExecEventRecordNodeSetEvent | cuGraphExecEventRecordNodeSetEvent(instance: u64, node: u64, event: u64) {
        replace_step(instance, node, Work::Record(event))
    }
    fn cudaGraphExecEventWaitNodeSetEvent | cuGraphExecEventWaitNodeSetEvent(instance: u64, node: u64, event: u64) {
        replace_step(instance, node, Work::Wait(event))
    }
    fn cudaGraphExecChildGraphNodeSetParams | cuGraphExecChildGraphNodeSetParams(instance: u64, node: u64, child: u64) {
        device()?.graphs.update_child(instance_of(instance)?, node_of(node)?, graph_of(child)?)
    }
    fn cudaGraphExecNodeSetParams(instance: u64, node: u64, of: u64) {
        replace_step(instance, node, any_work(of, Api::Runtime, |_| Err(Status::NOT_SUPPORTED))?.0)
    }
    fn cuGraphExecNodeSetParams(instance: u64, node: u64, of: u64) {
        replace_step(instance, node, any_work(of, Api::Driver, |_| Err(Status::NOT_SUPPORTED))?.0)
    }
    fn cudaGraphNodeSetEnabled | cuGraphNodeSetEnabled(instance: u64, node: u64, enabled: u32) {
        let mut device = device()?;
        device.graphs.step(instance_of(instance)?, node_of(node)?)?.enabled = enabled != 0;
        Ok(())
    }
    fn cudaGraphNodeGetEnabled | cuGraphNodeGetEnabled(instance: u64, node: u64, enabled: Out<u32>) {
        let held = device()?.graphs.step(instance_of(instance)?, node_of(node)?)?.enabled;
        enabled.set(u32::from(held))
    }
    fn cudaGraphExecUpdate | cuGraphExecUpdate_v2(instance: u64, graph: u64, result: Out<UpdateResult>) {
        let done = update(instance, graph)?;
        result.set_if(done);
        updated(done.result)
    }
    fn cuGraphExecUpdate(instance: u64, graph: u64, node: Out<u64>, result: Out<u32>) {
        let done = update(instance, graph)?;
        node.set_if(done.node);
        result.set_if(done.result);
        updated(done.result)
    }
    fn cudaDeviceGraphMemTrim | cuDeviceGraphMemTrim(_number: c_int) { Ok(()) }
}
