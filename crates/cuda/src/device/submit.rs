//! Work that the program submits to a stream: run at once, or kept as a node of the graph into which the stream is captured.
#![expect(unsafe_code, reason = "memory of the program")]

use std::ffi::c_void;

use crate::device::arguments::Arguments;
use crate::device::contexts;
use crate::device::registry;
use crate::device::state::{Device, device};
use crate::device::work::{FillWork, KernelWork, Shape, Work};
use crate::program::caller::print;
use crate::status::{Answer, Status};

/// `cudaEventRecordExternal` and `cudaEventWaitExternal`: during a capture, add a node for the event.
pub(crate) const EXTERNAL: u32 = 1;

/// Runs work now, or adds it to the graph into which the stream is captured.
///
/// # Safety
/// The addresses of a copy or a fill are of device memory, or of memory of the program that is there when the work runs.
pub(crate) unsafe fn submit(stream: u64, work: Work) -> Answer {
    {
        let mut device = device()?;
        device.healthy()?;
        let Device { streams, graphs, .. } = &mut *device;
        if let Some(capture) = streams.capturing(stream)? {
            let node = graphs.add(capture.graph, work.clone(), capture.heads(stream))?;
            capture.advance(stream, node);
            return Ok(());
        }
    }
    // SAFETY: as promised by the caller.
    unsafe { perform(&work) }
}

/// Runs work. The device is not locked while a host function runs and while text is printed.
///
/// # Safety
/// As [`submit`].
pub(crate) unsafe fn perform(work: &Work) -> Answer {
    match work {
        Work::Launch(kernel) => {
            let launched = device()?.launch(kernel);
            print(&launched.printed);
            launched.status
        }
        // SAFETY: as promised by the caller.
        Work::Copy(copy) => unsafe { device()?.copy_box(copy) },
        // SAFETY: as above.
        Work::Fill(fill) => unsafe { device()?.fill_box(fill) },
        Work::Host { function, data } => {
            function.ok_or(Status::INVALID_VALUE)?(*data as *mut c_void);
            Ok(())
        }
        Work::Record(event) => device()?.streams.record(*event),
        Work::Words(words) => {
            let mut device = device()?;
            words.iter().try_for_each(|work| device.perform_on_word(*work))
        }
        Work::Library(work) => work.run(),
        // The nodes of an inner graph run by themselves.
        Work::Child(_) | Work::Conditional(_) => Ok(()),
        Work::Wait(_) | Work::Empty | Work::Allocate(..) | Work::Free(_) => Ok(()),
    }
}

/// Submits a launch to a stream.
pub(crate) fn launch(stream: u64, symbol: u64, shape: Shape, arguments: &dyn Arguments) -> Answer {
    let work = kernel_work(symbol, shape, arguments)?;
    // A stream of another GPU than that of the kernel.
    if device()?.streams.gpu(stream) != work.gpu {
        return Err(Status::INVALID_HANDLE);
    }
    // SAFETY: a launch has its arguments, and accesses memory by itself.
    unsafe { submit(stream, Work::Launch(Box::new(work))) }
}

/// A launch with the current values of its arguments.
pub(crate) fn kernel_work(
    symbol: u64,
    shape: Shape,
    arguments: &dyn Arguments,
) -> Result<KernelWork, Status> {
    let mut device = device()?;
    device.healthy()?;
    let function = registry::kernel(&mut device, symbol)?;
    let params = device.gather(&function, arguments)?.into();
    let gpu = device.gpu_of_module(function.module).unwrap_or_else(contexts::current_gpu);
    let set_shared = device.dynamic_shared.get(&function).copied();
    Ok(KernelWork { symbol, function, gpu, shape, set_shared, params })
}

/// Submits a fill to a stream.
///
/// # Safety
/// As [`submit`].
pub(crate) unsafe fn fill(stream: u64, to: u64, value: u32, element: usize, count: usize) -> Answer {
    // SAFETY: as promised by the caller.
    unsafe { submit(stream, Work::Fill(FillWork::plain(to, value, element, count)?)) }
}

/// Makes a stream wait for an event.
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
