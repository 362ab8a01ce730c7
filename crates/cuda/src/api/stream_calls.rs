//! Entry points of both APIs for streams, events and captures.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_int, c_void};

use crate::api::graph_parameters::nodes;
use crate::api::launch_parameters::PERSISTENCE;
use crate::api::table::entry_points;
use crate::device::handles::Handle;
use crate::device::state::{Device, device};
use crate::device::stream_attributes::StreamAttribute;
use crate::device::streams::Mode;
use crate::device::submit::{EXTERNAL, submit, wait};
use crate::device::work::{HostFunction, Work};
use crate::program::caller::runtime_is_12;
use crate::program::pointers::{In, Out, host_bytes, put_host_bytes};
use crate::status::{Answer, Status};

fn created(stream: Out<u64>, flags: u32, priority: c_int) -> Answer {
    let handle = device()?.streams.stream(flags, priority);
    stream.set(handle)
}

/// `cudaEventDisableTiming`.
const DISABLE_TIMING: u32 = 2;

fn new_event(event: Out<u64>, flags: u32) -> Answer {
    let handle = device()?.streams.event(flags & DISABLE_TIMING != 0);
    event.set(handle)
}

fn waits(stream: u64) -> Answer {
    let mut device = device()?;
    device.streams.may_wait(stream)?;
    device.healthy()
}

fn record(event: u64, stream: u64, flags: u32) -> Answer {
    let mut device = device()?;
    device.healthy()?;
    if flags & EXTERNAL == 0 && device.streams.mark(event, stream)? {
        return Ok(());
    }
    drop(device);
    // SAFETY: neither a copy nor a fill.
    unsafe { submit(stream, Work::Record(event)) }
}

fn ended(event: u64) -> Answer {
    let device = device()?;
    device.healthy()?;
    device.streams.ended(event)
}

fn begin(stream: u64, mode: u32, graph: Option<(u64, Vec<u64>)>) -> Answer {
    let mut device = device()?;
    let Device { streams, graphs, .. } = &mut *device;
    let (graph, heads) = match graph {
        Some(given) => given,
        None => (graphs.create(), Vec::new()),
    };
    streams.begin(stream, Mode::from_number(mode)?, graph, heads)
}

fn end(stream: u64, graph: Out<u64>) -> Answer {
    let mut device = device()?;
    let Device { streams, graphs, .. } = &mut *device;
    let made = streams.end(stream, |heads| graphs.reached(heads));
    match made {
        Ok(made) => {
            graph.set_if(Handle::Graph.make(made as usize));
            Ok(())
        }
        Err(status) => {
            // A failed capture returns a null graph.
            graph.set_if(0);
            Err(status)
        }
    }
}

/// Where the caller wants the graph and the nodes that the stream's next work depends on.
struct Shown {
    graph: Out<u64>,
    nodes: Out<u64>,
    edges: Out<u64>,
    count: Out<usize>,
}

fn info(stream: u64, status: Out<c_int>, id: Out<u64>, shown: Option<Shown>) -> Answer {
    let mut device = device()?;
    let (now, capture) = device.streams.status(stream);
    status.set(now as c_int)?;
    let Some(capture) = capture else { return Ok(()) };
    id.set_if(capture.id);
    if let Some(Shown { graph, nodes, edges, count }) = shown {
        capture.shown = capture.heads(stream).iter().map(|n| Handle::Node.make(*n as usize)).collect();
        graph.set_if(Handle::Graph.make(capture.graph as usize));
        nodes.set_if(capture.shown.as_ptr() as u64);
        edges.set_if(0);
        count.set_if(capture.shown.len());
    }
    Ok(())
}

fn update(stream: u64, list: In<u64>, count: usize, flags: u32) -> Answer {
    let nodes = nodes(list, count)?;
    let mut device = device()?;
    let capture = device.streams.capturing(stream)?.ok_or(Status::ILLEGAL_STATE)?;
    capture.set_heads(stream, &nodes, flags == 1);
    Ok(())
}

entry_points! {
    STREAM, STREAM_CALLS;

    [cudaStreamCreate, _cudaStreamCreate: (Primary, zeros INVALID_VALUE)]
    fn (to: Out<u64>) { created(to, 0, 0) }
    [cudaStreamCreateWithFlags: (Primary, zeros INVALID_VALUE)]
    [cuStreamCreate: (Current, zeros INVALID_VALUE, since 2_000)]
    fn (to: Out<u64>, flags: u32) { created(to, flags, 0) }
    [cudaStreamCreateWithPriority: (Primary, zeros INVALID_VALUE)]
    [cuStreamCreateWithPriority: (Current, zeros INVALID_VALUE, since 5_050)]
    fn (to: Out<u64>, flags: u32, priority: c_int) { created(to, flags, priority) }
    [cudaStreamDestroy, _cudaStreamDestroy: (Primary, zeros INVALID_HANDLE)]
    [cuStreamDestroy: (Init, zeros INVALID_HANDLE, since 2_000)]
    [cuStreamDestroy_v2: (Init, zeros INVALID_HANDLE, since 4_000)]
    fn (stream: u64) { device()?.streams.end_stream(stream) }
    [cudaStreamSynchronize, cudaStreamSynchronize_ptsz, _cudaStreamSynchronize: (Primary, zeros SUCCESS)]
    [cuStreamSynchronize, cuStreamSynchronize_ptsz: (Init, zeros SUCCESS, since 2_000)]
    fn (stream: u64) { waits(stream) }
    [cudaStreamQuery, cudaStreamQuery_ptsz: (Primary, zeros SUCCESS)]
    [cuStreamQuery, cuStreamQuery_ptsz: (Init, zeros SUCCESS, since 2_000)]
    fn (stream: u64) { waits(stream) }
    [cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz: (Primary, zeros INVALID_HANDLE)]
    [cuStreamWaitEvent, cuStreamWaitEvent_ptsz: (Init, zeros INVALID_HANDLE, since 3_020)]
    fn (stream: u64, event: u64, flags: u32) {
        wait(stream, event, flags)
    }
    [cudaStreamGetPriority, cudaStreamGetPriority_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamGetPriority, cuStreamGetPriority_ptsz: (Init, zeros INVALID_VALUE, since 5_050)]
    fn (stream: u64, priority: Out<c_int>) {
        let held = device()?.streams.priority_of(stream);
        priority.set(held)
    }
    [cudaStreamGetFlags, cudaStreamGetFlags_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamGetFlags, cuStreamGetFlags_ptsz: (Init, zeros INVALID_VALUE, since 5_050)]
    fn (stream: u64, flags: Out<u32>) {
        let held = device()?.streams.flags_of(stream);
        flags.set(held)
    }
    [cudaStreamGetDevice, cudaStreamGetDevice_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamGetDevice, cuStreamGetDevice_ptsz: (Init, zeros INVALID_VALUE, since 12_080)]
    fn (stream: u64, number: Out<c_int>) {
        let gpu = device()?.streams.gpu(stream);
        number.set(c_int::from(gpu))
    }
    [cudaStreamGetId, cudaStreamGetId_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamGetId, cuStreamGetId_ptsz: (Init, zeros INVALID_VALUE, since 12_000)]
    fn (stream: u64, id: Out<u64>) { id.set(stream) }
    [cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz: (Init, zeros INVALID_VALUE, since 6_000)]
    fn (
        stream: u64, at: u64, _len: usize, _flags: u32,
    ) { if at == 0 { Err(Status::INVALID_VALUE) } else { Ok(()) } }
    [cudaStreamSetAttribute, cudaStreamSetAttribute_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamSetAttribute, cuStreamSetAttribute_ptsz: (Init, zeros INVALID_VALUE, since 11_000)]
    fn (stream: u64, attribute: u32, value: u64) {
        let attribute = StreamAttribute::from_number(attribute)?;
        let bytes = host_bytes(value, attribute.size())?;
        let mut device = device()?;
        if attribute == StreamAttribute::AccessPolicyWindow { device.results.remark(PERSISTENCE.to_owned()); }
        device.streams.set_attribute(stream, attribute, bytes)
    }
    [cudaStreamGetAttribute, cudaStreamGetAttribute_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamGetAttribute, cuStreamGetAttribute_ptsz: (Init, zeros INVALID_VALUE, since 11_000)]
    fn (stream: u64, attribute: u32, to: Out<u8>) {
        let held = device()?.streams.attribute(stream, StreamAttribute::from_number(attribute)?);
        put_host_bytes(to.address(), &held)
    }
    [cudaStreamCopyAttributes, cudaStreamCopyAttributes_ptsz: (Primary, zeros SUCCESS)]
    [cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz: (Current, zeros SUCCESS, since 11_000)]
    fn (target: u64, source: u64) { device()?.streams.copy_attributes(target, source) }
    [cudaStreamAddCallback, cudaStreamAddCallback_ptsz, _cudaStreamAddCallback: (Primary, zeros INVALID_VALUE)]
    [cuStreamAddCallback, cuStreamAddCallback_ptsz: (Init, zeros INVALID_VALUE, since 5_000)]
    fn (
        stream: u64, function: Option<extern "C" fn(u64, c_int, *mut c_void)>, data: *mut c_void, _flags: u32,
    ) {
        waits(stream)?;
        function.ok_or(Status::INVALID_VALUE)?(stream, 0, data);
        Ok(())
    }
    [cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuLaunchHostFunc, cuLaunchHostFunc_ptsz: (Init, zeros INVALID_VALUE, since 10_000)]
    [cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz: (Init, zeros INVALID_VALUE, since 13_010)]
    [cudaLaunchHostFunc_v2, cudaLaunchHostFunc_v2_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (stream: u64, function: HostFunction, data: u64) {
        submit(stream, Work::Host { function, data })
    }

    [cudaEventCreate, _cudaEventCreate: (Primary, zeros INVALID_VALUE)]
    fn (event: Out<u64>) { new_event(event, 0) }
    [cudaEventCreateWithFlags: (Primary, zeros INVALID_VALUE)]
    [cuEventCreate: (Current, zeros INVALID_VALUE, since 2_000)]
    fn (event: Out<u64>, flags: u32) { new_event(event, flags) }
    [cudaEventDestroy, _cudaEventDestroy: (Primary, zeros INVALID_HANDLE)]
    [cuEventDestroy: (Init, zeros INVALID_HANDLE, since 2_000)]
    [cuEventDestroy_v2: (Init, zeros INVALID_HANDLE, since 4_000)]
    fn (event: u64) { device()?.streams.forget(event) }
    [cudaEventRecord, cudaEventRecord_ptsz, _cudaEventRecord: (Primary, zeros INVALID_HANDLE)]
    [cuEventRecord, cuEventRecord_ptsz: (Init, zeros INVALID_HANDLE, since 2_000)]
    fn (event: u64, stream: u64) { record(event, stream, 0) }
    [cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz: (Primary, zeros INVALID_HANDLE)]
    [cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz: (Init, zeros INVALID_HANDLE, since 11_010)]
    fn (
        event: u64, stream: u64, flags: u32,
    ) { record(event, stream, flags) }
    [cudaEventSynchronize, cudaEventQuery: (Primary, zeros INVALID_HANDLE)]
    [cuEventSynchronize, cuEventQuery: (Init, zeros INVALID_HANDLE, since 2_000)]
    fn (event: u64) { ended(event) }
    [cudaEventElapsedTime, cudaEventElapsedTime_v2, _cudaEventElapsedTime: (Primary, zeros INVALID_HANDLE)]
    [cuEventElapsedTime: (Init, zeros INVALID_HANDLE, since 2_000)]
    [cuEventElapsedTime_v2: (Init, zeros INVALID_HANDLE, since 12_080)]
    fn (ms: Out<f32>, start: u64, end: u64) {
        let time = device()?.streams.between(start, end)?;
        ms.set(time)
    }

    [cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz, _cudaStreamBeginCapture: (Primary, zeros CAPTURE_UNSUPPORTED)]
    [cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz: (Init, zeros CAPTURE_UNSUPPORTED, since 10_010)]
    fn (stream: u64, mode: u32) {
        begin(stream, mode, None)
    }
    [cuStreamBeginCapture, cuStreamBeginCapture_ptsz: (Init, zeros CAPTURE_UNSUPPORTED, since 10_000)]
    fn (stream: u64) { begin(stream, 0, None) }
    [cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz: (Init, zeros INVALID_VALUE, since 12_030)]
    fn (
        stream: u64, graph: u64, list: In<u64>, _edges: u64, count: usize, mode: u32,
    ) {
        let graph = Handle::Graph.index(graph).ok_or(Status::INVALID_VALUE)?;
        begin(stream, mode, Some((graph as u64, nodes(list, count)?)))
    }
    [cudaStreamEndCapture, cudaStreamEndCapture_ptsz, _cudaStreamEndCapture: (Primary, zeros ILLEGAL_STATE)]
    [cuStreamEndCapture, cuStreamEndCapture_ptsz: (Init, zeros ILLEGAL_STATE, since 10_000)]
    fn (stream: u64, graph: Out<u64>) {
        end(stream, graph)
    }
    [cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamIsCapturing, cuStreamIsCapturing_ptsz: (Init, zeros INVALID_VALUE, since 10_000)]
    fn (stream: u64, status: Out<c_int>) {
        info(stream, status, Out::none(), None)
    }
    [cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz: (Init, zeros INVALID_VALUE, since 10_010)]
    fn (stream: u64, status: Out<c_int>, id: Out<u64>) { info(stream, status, id, None) }
    [cudaStreamGetCaptureInfo_v2, cudaStreamGetCaptureInfo_v2_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz: (Init, zeros INVALID_VALUE, since 11_030)]
    fn (
        stream: u64, status: Out<c_int>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, count: Out<usize>,
    ) { info(stream, status, id, Some(Shown { graph, nodes, edges: Out::none(), count })) }
    [cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo_v3_ptsz: (Primary, zeros INVALID_VALUE)]
    [cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz: (Init, zeros INVALID_VALUE, since 12_030)]
    fn (
        stream: u64, status: Out<c_int>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, edges: Out<u64>, count: Out<usize>,
    ) { info(stream, status, id, Some(Shown { graph, nodes, edges, count })) }
    // CUDA 12 passes three arguments, CUDA 13 seven.
    [cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz: (Primary, zeros INVALID_VALUE)]
    fn (
        stream: u64, status: Out<c_int>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, edges: Out<u64>, count: Out<usize>,
    ) { info(stream, status, id, (!runtime_is_12()).then_some(Shown { graph, nodes, edges, count })) }
    [cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz: (Primary, zeros ILLEGAL_STATE)]
    fn (
        stream: u64, list: In<u64>, second: u64, third: usize, flags: u32,
    ) {
        // CUDA 13 passes a list of edges before the count.
        if runtime_is_12() { update(stream, list, second as usize, third as u32) } else { update(stream, list, third, flags) }
    }
    [cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz: (Init, zeros ILLEGAL_STATE, since 11_030)]
    fn (stream: u64, list: In<u64>, count: usize, flags: u32) {
        update(stream, list, count, flags)
    }
    [cudaStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies_v2_ptsz: (Primary, zeros ILLEGAL_STATE)]
    [cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz: (Init, zeros ILLEGAL_STATE, since 12_030)]
    fn (stream: u64, list: In<u64>, _edges: u64, count: usize, flags: u32) {
        update(stream, list, count, flags)
    }
    [cudaThreadExchangeStreamCaptureMode: (Primary, zeros INVALID_VALUE)]
    [cuThreadExchangeStreamCaptureMode: (Init, zeros INVALID_VALUE, since 10_010)]
    fn (mode: Out<u32>) {
        let wanted = mode.input().get()?;
        let before = device()?.streams.exchange(wanted)?;
        mode.set(before)
    }
}
