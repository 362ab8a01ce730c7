//! Entry points of both APIs for instances of graphs: their creation, their launch, and changes of their nodes.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::graph_parameters::{
    awaited, copied, driver_copied, graph_of, kernel_handle, kernel_of, node_of, recorded, with_conditions,
};
use crate::api::parameters::{
    Api, Copy3D, FillParameters, HostParameters, KernelParameters, Memcpy3D, any_work,
};
use crate::api::table::entry_points;
use crate::device::allocations::Kind;
use crate::device::contexts::gpu;
use crate::device::graphs::{Mismatch, Step};
use crate::device::handles::Handle;
use crate::device::instances::perform_instance;
use crate::device::state::device;
use crate::device::user_objects::Gone;
use crate::device::work::{CopyWork, Work};
use crate::program::pointers::{In, Out};
use crate::status::{Answer, Status};

fn instance_of(handle: u64) -> Result<u64, Status> {
    Handle::Instance.index(handle).map(|n| n as u64).ok_or(Status::INVALID_VALUE)
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

fn instantiate(instance: Out<u64>, graph: u64, flags: u64) -> Answer {
    let made = device()?.graphs.instantiate(graph_of(graph)?, flags);
    let made = made.map_err(with_conditions)?;
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
    // 2: the topology or the type of a node changed. 6: this change is not supported.
    Ok(match wrong {
        None => UpdateResult { result: 0, node: 0, from: 0 },
        Some(Mismatch { node, is_conditional }) => UpdateResult {
            result: if is_conditional { 6 } else { 2 },
            node: Handle::Node.make(node as usize),
            from: 0,
        },
    })
}

/// A step that may be disabled: that of a conditional node may not.
fn switchable(step: &mut Step) -> Result<&mut Step, Status> {
    if matches!(step.work, Work::Conditional(_)) { Err(Status::INVALID_VALUE) } else { Ok(step) }
}

fn updated(result: u32) -> Answer {
    if result == 0 { Ok(()) } else { Err(Status::GRAPH_UPDATE) }
}

/// Runs an instance, or adds its work to the graph into which the stream is captured.
///
/// # Safety
/// The memory of the program that its nodes name is there.
unsafe fn run(instance: u64, stream: u64) -> Answer {
    let (steps, conditions) = {
        let mut device = device()?;
        device.healthy()?;
        let number = instance_of(instance)?;
        device.graphs.instance(number)?;
        if device.streams.capturing(stream)?.is_some() {
            return Err(Status::CAPTURE_UNSUPPORTED);
        }
        device.graphs.launched(number)?
    };
    // SAFETY: as promised by the caller.
    unsafe { perform_instance(&steps, &conditions) }
}

entry_points! {
    GRAPH_INSTANCE, GRAPH_INSTANCE_CALLS;

    [cudaGraphInstantiate, cudaGraphInstantiateWithFlags, _cudaGraphInstantiate: (Primary, zeros INVALID_VALUE)]
    [cuGraphInstantiateWithFlags: (Current, zeros INVALID_VALUE, since 11_040)]
    fn (instance: Out<u64>, graph: u64, flags: u64) {
        instantiate(instance, graph, flags)
    }
    [cuGraphInstantiate: (Current, zeros INVALID_VALUE, since 10_000)]
    [cuGraphInstantiate_v2: (Current, zeros INVALID_VALUE, since 11_000)]
    fn (instance: Out<u64>, graph: u64, node: Out<u64>, _log: u64, _size: usize) {
        node.set_if(0);
        instantiate(instance, graph, 0)
    }
    [cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (
        instance: Out<u64>, graph: u64, of: u64,
    ) {
        let made = instantiate(instance, graph, In::at(of).get()?);
        let is_unused = made.is_err() && device()?.graphs.has_unused_condition(graph_of(graph)?);
        // No node is at fault. 0: success; 1: an error; 5: a handle without a conditional node.
        Out::<u64>::at(of + 16).set(0)?;
        Out::<u32>::at(of + 24).set(if is_unused { 5 } else { u32::from(made.is_err()) })?;
        made
    }
    [cudaGraphExecGetFlags: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecGetFlags: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (instance: u64, flags: Out<u64>) {
        let held = device()?.graphs.instance(instance_of(instance)?)?.flags;
        flags.set(held)
    }
    [cudaGraphExecDestroy, _cudaGraphExecDestroy: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecDestroy: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (instance: u64) {
        let gone = device()?.destroy_instance(instance_of(instance)?)?;
        gone.into_iter().for_each(Gone::destroy);
        Ok(())
    }
    [cudaGraphUpload, cudaGraphUpload_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuGraphUpload, cuGraphUpload_ptsz: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (instance: u64, stream: u64) {
        device()?.graphs.instance(instance_of(instance)?).map(drop)
    }
    [cudaGraphLaunch, cudaGraphLaunch_ptsz, _cudaGraphLaunch: (Primary, zeros INVALID_VALUE)]
    [cuGraphLaunch, cuGraphLaunch_ptsz: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (instance: u64, stream: u64) { run(instance, stream) }

    [cudaGraphExecKernelNodeSetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecKernelNodeSetParams: (Init, zeros INVALID_VALUE, since 10_010)]
    fn (instance: u64, node: u64, of: In<KernelParameters>) {
        let work = of.get()?.work(Some(&kernel_of(node)?), 0)?;
        replace_step(instance, node, Work::Launch(Box::new(work)))
    }
    [cuGraphExecKernelNodeSetParams_v2: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (instance: u64, node: u64, of: In<KernelParameters>) {
        let work = of.get()?.work(Some(&kernel_of(node)?), kernel_handle(of)?)?;
        replace_step(instance, node, Work::Launch(Box::new(work)))
    }
    [cudaGraphExecMemcpyNodeSetParams: (Primary, zeros INVALID_VALUE)]
    fn (instance: u64, node: u64, of: In<Memcpy3D>) { replace_step(instance, node, copied(of)?) }
    [cuGraphExecMemcpyNodeSetParams: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (instance: u64, node: u64, of: In<Copy3D>, _context: u64) { replace_step(instance, node, driver_copied(of)?) }
    [cudaGraphExecMemcpyNodeSetParams1D: (Primary, zeros INVALID_VALUE)]
    fn (instance: u64, node: u64, to: u64, from: u64, len: usize, _kind: c_int) {
        replace_step(instance, node, Work::Copy(CopyWork::plain(to, from, len)))
    }
    [cudaGraphExecMemsetNodeSetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecMemsetNodeSetParams: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (instance: u64, node: u64, of: In<FillParameters>) {
        replace_step(instance, node, of.get()?.work()?)
    }
    [cudaGraphExecHostNodeSetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecHostNodeSetParams: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (instance: u64, node: u64, of: In<HostParameters>) {
        replace_step(instance, node, of.get()?.work())
    }
    [cudaGraphExecEventRecordNodeSetEvent: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecEventRecordNodeSetEvent: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (instance: u64, node: u64, event: u64) {
        replace_step(instance, node, recorded(event)?)
    }
    [cudaGraphExecEventWaitNodeSetEvent: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecEventWaitNodeSetEvent: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (instance: u64, node: u64, event: u64) {
        replace_step(instance, node, awaited(event)?)
    }
    [cudaGraphExecChildGraphNodeSetParams: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecChildGraphNodeSetParams: (Init, zeros INVALID_VALUE, since 11_010)]
    fn (instance: u64, node: u64, child: u64) {
        let done = device()?.graphs.update_child(instance_of(instance)?, node_of(node)?, graph_of(child)?);
        done.map_err(with_conditions)
    }
    [cudaGraphExecNodeSetParams: (Primary, zeros INVALID_VALUE)]
    fn (instance: u64, node: u64, of: u64) {
        replace_step(instance, node, any_work(of, Api::Runtime, |_| Err(Status::NOT_SUPPORTED))?.0)
    }
    [cuGraphExecNodeSetParams: (Init, zeros INVALID_VALUE, since 12_020)]
    fn (instance: u64, node: u64, of: u64) {
        replace_step(instance, node, any_work(of, Api::Driver, |_| Err(Status::NOT_SUPPORTED))?.0)
    }
    [cudaGraphNodeSetEnabled: (Primary, zeros INVALID_VALUE)]
    [cuGraphNodeSetEnabled: (Init, zeros INVALID_VALUE, since 11_060)]
    fn (instance: u64, node: u64, enabled: u32) {
        let mut device = device()?;
        switchable(device.graphs.step(instance_of(instance)?, node_of(node)?)?)?.enabled = enabled != 0;
        Ok(())
    }
    [cudaGraphNodeGetEnabled: (Primary, zeros INVALID_VALUE)]
    [cuGraphNodeGetEnabled: (Init, zeros INVALID_VALUE, since 11_060)]
    fn (instance: u64, node: u64, enabled: Out<u32>) {
        let held = switchable(device()?.graphs.step(instance_of(instance)?, node_of(node)?)?)?.enabled;
        enabled.set(u32::from(held))
    }
    [cudaGraphExecUpdate: (Primary, zeros INVALID_VALUE)]
    [cuGraphExecUpdate_v2: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (instance: u64, graph: u64, result: Out<UpdateResult>) {
        let done = update(instance, graph)?;
        result.set_if(done);
        updated(done.result)
    }
    [cuGraphExecUpdate: (Init, zeros INVALID_VALUE, since 10_020)]
    fn (instance: u64, graph: u64, node: Out<u64>, result: Out<u32>) {
        let done = update(instance, graph)?;
        node.set_if(done.node);
        result.set_if(done.result);
        updated(done.result)
    }
    // Memory of graphs lives as long as the process: what is reserved is used, now and at most.
    [cudaDeviceGetGraphMemAttribute: (Primary, zeros INVALID_VALUE)]
    [cuDeviceGetGraphMemAttribute: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (number: c_int, attribute: c_int, value: Out<u64>) {
        let of = gpu(number)?;
        if !matches!(attribute, 0..=3) { return Err(Status::INVALID_VALUE); }
        let device = device()?;
        let held = device.allocations.values().filter(|a| a.kind == Kind::Graph && a.gpu == of);
        value.set(held.map(|a| a.len as u64).sum())
    }
    // The highest values may be set to zero, from which they rise to what is in use.
    [cudaDeviceSetGraphMemAttribute: (Primary, zeros INVALID_VALUE)]
    [cuDeviceSetGraphMemAttribute: (Init, zeros INVALID_VALUE, since 11_040)]
    fn (number: c_int, attribute: c_int, value: In<u64>) {
        gpu(number)?;
        if !matches!(attribute, 1 | 3) || value.get()? != 0 { return Err(Status::INVALID_VALUE); }
        Ok(())
    }
    [cudaDeviceGraphMemTrim: (Primary, zeros SUCCESS)]
    [cuDeviceGraphMemTrim: (Init, zeros SUCCESS, since 11_040)]
    fn (_number: c_int) { Ok(()) }
}
