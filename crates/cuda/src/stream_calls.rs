//! Entry points of both APIs for streams, events and captures.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_int, c_void};

use crate::api::{Answer, In, Out, entry_points, runtime_is_12};
use crate::device::{Device, Handle, device};
use crate::status::Status;
use crate::streams::Mode;
use crate::work::{HostFunction, Work, submit};

/// `cudaEventRecordExternal` and `cudaEventWaitExternal`: during a capture, add a node for the event.
const EXTERNAL: u32 = 1;

fn created(stream: Out<u64>, flags: u32) -> Answer {
    let handle = device()?.streams.stream(flags);
    stream.set(handle)
}

fn new_event(event: Out<u64>) -> Answer {
    let handle = device()?.streams.event();
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

pub(crate) fn wait(stream: u64, event: u64, flags: u32) -> Answer {
    let mut device = device()?;
    device.healthy()?;
    if flags & EXTERNAL == 0 {
        return device.streams.wait(stream, event);
    }
    drop(device);
    // SAFETY: neither a copy nor a fill.
    unsafe { submit(stream, Work::Wait(event)) }
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
    streams.begin(stream, Mode::of(mode)?, graph, heads)
}

fn end(stream: u64, graph: Out<u64>) -> Answer {
    let mut device = device()?;
    let Device { streams, graphs, .. } = &mut *device;
    let made = streams.end(stream, |heads| graphs.reached(heads));
    // A failed capture returns a null graph.
    graph.set(made.as_ref().map_or(0, |graph| Handle::Graph.make(*graph as usize)))?;
    made.map(drop)
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

/// Reads a list of node handles.
pub(crate) fn nodes(list: In<u64>, count: usize) -> Result<Vec<u64>, Status> {
    // SAFETY: the caller says that there are so many.
    let handles = (0..count).map(|n| unsafe { list.nth(n) });
    handles.map(|node| Handle::Node.index(node?).map(|n| n as u64).ok_or(Status::INVALID_VALUE)).collect()
}

fn update(stream: u64, list: In<u64>, count: usize, flags: u32) -> Answer {
    let nodes = nodes(list, count)?;
    let mut device = device()?;
    let capture = device.streams.capturing(stream)?.ok_or(Status::ILLEGAL_STATE)?;
    capture.set_heads(stream, &nodes, flags == 1);
    Ok(())
}

entry_points! {
    stream_function;

    fn cudaStreamCreate | _cudaStreamCreate(to: Out<u64>) { created(to, 0) }
    fn cudaStreamCreateWithFlags | cuStreamCreate(to: Out<u64>, flags: u32) { created(to, flags) }
    fn cudaStreamCreateWithPriority | cuStreamCreateWithPriority(to: Out<u64>, flags: u32, _priority: c_int) { created(to, flags) }
    fn cudaStreamDestroy | cuStreamDestroy_v2 | _cudaStreamDestroy(stream: u64) { device()?.streams.end_stream(stream) }
    fn cudaStreamSynchronize | cudaStreamSynchronize_ptsz | cuStreamSynchronize | cuStreamSynchronize_ptsz | _cudaStreamSynchronize(stream: u64) { waits(stream) }
    fn cudaStreamQuery | cudaStreamQuery_ptsz | cuStreamQuery | cuStreamQuery_ptsz(stream: u64) { waits(stream) }
    fn cudaStreamWaitEvent | cudaStreamWaitEvent_ptsz | cuStreamWaitEvent | cuStreamWaitEvent_ptsz(stream: u64, event: u64, flags: u32) {
        wait(stream, event, flags)
    }
    fn cudaStreamGetPriority | cudaStreamGetPriority_ptsz | cuStreamGetPriority | cuStreamGetPriority_ptsz(stream: u64, priority: Out<c_int>) {
        priority.set(0)
    }
    fn cudaStreamGetFlags | cudaStreamGetFlags_ptsz | cuStreamGetFlags | cuStreamGetFlags_ptsz(stream: u64, flags: Out<u32>) {
        let held = device()?.streams.flags_of(stream);
        flags.set(held)
    }
    fn cudaStreamGetDevice | cudaStreamGetDevice_ptsz | cuStreamGetDevice | cuStreamGetDevice_ptsz(stream: u64, number: Out<c_int>) { number.set(0) }
    fn cudaStreamGetId | cudaStreamGetId_ptsz | cuStreamGetId | cuStreamGetId_ptsz(stream: u64, id: Out<u64>) { id.set(stream) }
    fn cudaStreamAttachMemAsync | cudaStreamAttachMemAsync_ptsz | cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz(
        stream: u64, _at: u64, _len: usize, _flags: u32,
    ) { Ok(()) }
    // Attributes concern caches, priorities and synchronisation; none changes a result.
    fn cudaStreamSetAttribute | cudaStreamSetAttribute_ptsz | cuStreamSetAttribute | cuStreamSetAttribute_ptsz(
        stream: u64, _attribute: c_int, _value: u64,
    ) { Ok(()) }
    fn cudaStreamCopyAttributes | cudaStreamCopyAttributes_ptsz | cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz(_to: u64, _from: u64) { Ok(()) }
    fn cudaStreamAddCallback | cudaStreamAddCallback_ptsz | cuStreamAddCallback | cuStreamAddCallback_ptsz | _cudaStreamAddCallback(
        stream: u64, function: Option<extern "C" fn(u64, c_int, *mut c_void)>, data: *mut c_void, _flags: u32,
    ) {
        waits(stream)?;
        function.ok_or(Status::INVALID_VALUE)?(stream, 0, data);
        Ok(())
    }
    fn cudaLaunchHostFunc | cudaLaunchHostFunc_ptsz | cuLaunchHostFunc | cuLaunchHostFunc_ptsz | cuLaunchHostFunc_v2(stream: u64, function: HostFunction, data: u64) {
        submit(stream, Work::Host { function, data })
    }

    fn cudaEventCreate | _cudaEventCreate(event: Out<u64>) { new_event(event) }
    fn cudaEventCreateWithFlags | cuEventCreate(event: Out<u64>, _flags: u32) { new_event(event) }
    fn cudaEventDestroy | cuEventDestroy_v2 | _cudaEventDestroy(event: u64) { device()?.streams.forget(event) }
    fn cudaEventRecord | cudaEventRecord_ptsz | cuEventRecord | cuEventRecord_ptsz | _cudaEventRecord(event: u64, stream: u64) { record(event, stream, 0) }
    fn cudaEventRecordWithFlags | cudaEventRecordWithFlags_ptsz | cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz(
        event: u64, stream: u64, flags: u32,
    ) { record(event, stream, flags) }
    fn cudaEventSynchronize | cudaEventQuery | cuEventSynchronize | cuEventQuery(event: u64) { ended(event) }
    fn cudaEventElapsedTime | cudaEventElapsedTime_v2 | cuEventElapsedTime | cuEventElapsedTime_v2 | _cudaEventElapsedTime(ms: Out<f32>, start: u64, end: u64) {
        let time = device()?.streams.between(start, end)?;
        ms.set(time)
    }

    fn cudaStreamBeginCapture | cudaStreamBeginCapture_ptsz | cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz | _cudaStreamBeginCapture(stream: u64, mode: u32) {
        begin(stream, mode, None)
    }
    fn cuStreamBeginCapture(stream: u64) { begin(stream, 0, None) }
    fn cudaStreamBeginCaptureToGraph | cudaStreamBeginCaptureToGraph_ptsz | cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz(
        stream: u64, graph: u64, list: In<u64>, _edges: u64, count: usize, mode: u32,
    ) {
        let graph = Handle::Graph.index(graph).ok_or(Status::INVALID_VALUE)?;
        begin(stream, mode, Some((graph as u64, nodes(list, count)?)))
    }
    fn cudaStreamEndCapture | cudaStreamEndCapture_ptsz | cuStreamEndCapture | cuStreamEndCapture_ptsz | _cudaStreamEndCapture(stream: u64, graph: Out<u64>) {
        end(stream, graph)
    }
    fn cudaStreamIsCapturing | cudaStreamIsCapturing_ptsz | cuStreamIsCapturing | cuStreamIsCapturing_ptsz(stream: u64, status: Out<c_int>) {
        info(stream, status, Out::none(), None)
    }
    fn cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz(stream: u64, status: Out<c_int>, id: Out<u64>) { info(stream, status, id, None) }
    fn cudaStreamGetCaptureInfo_v2 | cudaStreamGetCaptureInfo_v2_ptsz | cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz(
        stream: u64, status: Out<c_int>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, count: Out<usize>,
    ) { info(stream, status, id, Some(Shown { graph, nodes, edges: Out::none(), count })) }
    fn cudaStreamGetCaptureInfo_v3 | cudaStreamGetCaptureInfo_v3_ptsz | cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz(
        stream: u64, status: Out<c_int>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, edges: Out<u64>, count: Out<usize>,
    ) { info(stream, status, id, Some(Shown { graph, nodes, edges, count })) }
    // CUDA 12 passes three arguments, CUDA 13 seven.
    fn cudaStreamGetCaptureInfo | cudaStreamGetCaptureInfo_ptsz(
        stream: u64, status: Out<c_int>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, edges: Out<u64>, count: Out<usize>,
    ) { info(stream, status, id, (!runtime_is_12()).then_some(Shown { graph, nodes, edges, count })) }
    fn cudaStreamUpdateCaptureDependencies | cudaStreamUpdateCaptureDependencies_ptsz(
        stream: u64, list: In<u64>, second: u64, third: usize, flags: u32,
    ) {
        // CUDA 13 passes a list of edges before the count.
        if runtime_is_12() { update(stream, list, second as usize, third as u32) } else { update(stream, list, third, flags) }
    }
    fn cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz(stream: u64, list: In<u64>, count: usize, flags: u32) {
        update(stream, list, count, flags)
    }
    fn cudaStreamUpdateCaptureDependencies_v2 | cudaStreamUpdateCaptureDependencies_v2_ptsz | cuStreamUpdateCaptureDependencies_v2
        | cuStreamUpdateCaptureDependencies_v2_ptsz(stream: u64, list: In<u64>, _edges: u64, count: usize, flags: u32) {
        update(stream, list, count, flags)
    }
    fn cudaThreadExchangeStreamCaptureMode | cuThreadExchangeStreamCaptureMode(mode: Out<u32>) {
        let wanted = mode.input().get()?;
        let before = device()?.streams.exchange(wanted)?;
        mode.set(before)
    }
}
