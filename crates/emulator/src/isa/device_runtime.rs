//! Functions of the device runtime (`libcudadevrt`) with which kernels launch others, copy and fill (CUDA C++ Programming Guide, "Device-Side Launch
//! from PTX"). The launches are kept, and run when the grid has ended (`run/device_launch.rs`). And the one that sets the value of a
//! conditional node of a graph.

use super::system_call::{System, address, allocate, argument, free, put_result};
use crate::api::trap::{Fault, Rule};
use crate::front::program::{Exec, Row};
use crate::run::device_launch::{DeviceLaunch, PARAMETER_BYTES, Requested, Rows, Work};
use crate::run::machine::{Flow, Machine, Space, lanes};

/// `cudaErrorMemoryAllocation`.
const OUT_OF_MEMORY: u32 = 2;
/// `CUDART_VERSION` of the runtime whose functions these are.
const RUNTIME_VERSION: u32 = 13_000;
/// Handles of streams and events begin here, above those with a meaning of their own.
const FIRST_HANDLE: u64 = 1 << 16;

const fn system(name: &'static str, arguments: usize, exec: Exec) -> System {
    System { name, arguments, result: true, exec }
}

pub(super) const FUNCTIONS: [System; 33] = [
    system("__cudaCDP2GetParameterBufferV2", 4, get_parameter_buffer),
    system("__cudaCDP2LaunchDeviceV2", 2, launch_device),
    system("__cudaCDP2LaunchDeviceV2_ptsz", 2, launch_device),
    system("__cudaCDP2StreamCreateWithFlags", 2, create),
    system("__cudaCDP2EventCreateWithFlags", 2, create),
    system("__cudaCDP2StreamDestroy", 1, succeed::<1>),
    system("__cudaCDP2EventDestroy", 1, succeed::<1>),
    system("__cudaCDP2EventRecord", 2, record::<2>),
    system("__cudaCDP2EventRecord_ptsz", 2, record::<2>),
    system("__cudaCDP2EventRecordWithFlags", 3, record::<3>),
    system("__cudaCDP2EventRecordWithFlags_ptsz", 3, record::<3>),
    system("__cudaCDP2StreamWaitEvent", 3, succeed::<3>),
    system("__cudaCDP2StreamWaitEvent_ptsz", 3, succeed::<3>),
    system("__cudaCDP2GetLastError", 0, succeed::<0>),
    system("__cudaCDP2PeekAtLastError", 0, succeed::<0>),
    system("__cudaCDP2GetErrorString", 1, |m, row| {
        text_of_error(m, row, ["no error", "out of memory", "unrecognized error code"])
    }),
    system("__cudaCDP2GetErrorName", 1, |m, row| {
        text_of_error(m, row, ["cudaSuccess", "cudaErrorMemoryAllocation", "unrecognized error code"])
    }),
    system("__cudaCDP2GetDevice", 1, |m, row| put_number(m, row, 0)),
    system("__cudaCDP2GetDeviceCount", 1, |m, row| put_number(m, row, 1)),
    system("__cudaCDP2RuntimeGetVersion", 1, |m, row| put_number(m, row, RUNTIME_VERSION)),
    system("__cudaCDP2DeviceGetCacheConfig", 1, |m, row| put_number(m, row, 0)),
    system("__cudaCDP2Malloc", 2, malloc),
    system("__cudaCDP2Free", 1, release),
    system("__cudaCDP2DeviceGetSharedMemConfig", 1, |m, row| put_number(m, row, 0)),
    system("__cudaCDP2MemcpyAsync", 5, copy),
    system("__cudaCDP2MemcpyAsync_ptsz", 5, copy),
    system("__cudaCDP2Memcpy2DAsync", 8, copy_rows),
    system("__cudaCDP2Memcpy2DAsync_ptsz", 8, copy_rows),
    system("__cudaCDP2MemsetAsync", 4, fill),
    system("__cudaCDP2MemsetAsync_ptsz", 4, fill),
    system("__cudaCDP2Memset2DAsync", 6, fill_rows),
    system("__cudaCDP2Memset2DAsync_ptsz", 6, fill_rows),
    System { name: "cudaGraphSetConditional", arguments: 2, result: false, exec: set_conditional },
];

/// A dimension that a call passes as a struct of three words.
fn dimension(m: &Machine<'_>, row: &Row, n: usize, lane: usize) -> [u32; 3] {
    let bytes = argument::<12>(m, row, n, lane);
    std::array::from_fn(|i| {
        bytes[4 * i..][..4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
    })
}

fn get_parameter_buffer(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let requested = Requested {
            function: address(m, row, 0, lane),
            grid: dimension(m, row, 1, lane),
            block: dimension(m, row, 2, lane),
            shared_bytes: u32::from_le_bytes(argument(m, row, 3, lane)),
        };
        let buffer = m.world.global.allocate(PARAMETER_BYTES);
        if buffer != 0 {
            m.world.device_launches.requested.insert(buffer, requested);
        }
        put_result(m, row, 4, lane, &buffer.to_le_bytes());
    }
    Flow::Next
}

fn launch_device(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let (buffer, stream) = (address(m, row, 0, lane), address(m, row, 1, lane));
        let requested = m.world.device_launches.requested.remove(&buffer);
        let params = m.world.global.range(buffer, PARAMETER_BYTES).map(<[u8]>::to_vec);
        let (Some(requested), Some(params)) = (requested, params) else {
            let what = format!(
                "a launch with parameters at {buffer:#x}, where cudaGetParameterBuffer returned no buffer"
            );
            return m.fail(Fault::new(Rule::WrongSpace, what).at(lane));
        };
        m.world.global.free(buffer);
        let cta = m.cta.id;
        m.world.device_launches.made.push(DeviceLaunch {
            work: Work::Kernel { requested, params },
            stream,
            cta,
        });
        put_result(m, row, 2, lane, &0u32.to_le_bytes());
    }
    Flow::Next
}

/// `cudaMemcpyAsync(to, from, count, kind, stream)`.
fn copy(m: &mut Machine<'_>, row: &Row) -> Flow {
    submit::<5>(m, row, 4, |word, _| {
        let rows = |n| Rows { at: word(n), pitch: 0 };
        Work::Copy { to: rows(0), from: rows(1), width: word(2) as usize, height: 1 }
    })
}

/// `cudaMemcpy2DAsync(to, pitch, from, pitch, width, height, kind, stream)`.
fn copy_rows(m: &mut Machine<'_>, row: &Row) -> Flow {
    submit::<8>(m, row, 7, |word, _| {
        let rows = |n| Rows { at: word(n), pitch: word(n + 1) };
        Work::Copy { to: rows(0), from: rows(2), width: word(4) as usize, height: word(5) }
    })
}

/// `cudaMemsetAsync(to, value, count, stream)`.
fn fill(m: &mut Machine<'_>, row: &Row) -> Flow {
    submit::<4>(m, row, 3, |word, byte| {
        let to = Rows { at: word(0), pitch: 0 };
        Work::Set { to, value: byte(1), width: word(2) as usize, height: 1 }
    })
}

/// `cudaMemset2DAsync(to, pitch, value, width, height, stream)`.
fn fill_rows(m: &mut Machine<'_>, row: &Row) -> Flow {
    submit::<6>(m, row, 5, |word, byte| {
        let to = Rows { at: word(0), pitch: word(1) };
        Work::Set { to, value: byte(2), width: word(3) as usize, height: word(4) }
    })
}

/// Submits what a call of `N` arguments describes, to the stream that one of them names. `of` reads an argument as a word of 64 bits, or
/// the lowest byte of one of 32.
fn submit<const N: usize>(
    m: &mut Machine<'_>,
    row: &Row,
    stream: usize,
    of: impl Fn(&dyn Fn(usize) -> u64, &dyn Fn(usize) -> u8) -> Work,
) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let work = of(&|n| address(m, row, n, lane), &|n| argument::<1>(m, row, n, lane)[0]);
        if let Err(fault) = reach(m, &work) {
            return m.fail(fault.at(lane));
        }
        let stream = address(m, row, stream, lane);
        let cta = m.cta.id;
        m.world.device_launches.made.push(DeviceLaunch { work, stream, cta });
        put_result(m, row, N, lane, &0u32.to_le_bytes());
    }
    Flow::Next
}

/// Checks that the rows of a copy or a fill exist in global memory.
fn reach(m: &mut Machine<'_>, work: &Work) -> Result<(), Fault> {
    let (to, from, width, height) = match work {
        Work::Kernel { .. } => return Ok(()),
        Work::Copy { to, from, width, height } => (to, Some(from), *width, *height),
        Work::Set { to, width, height, .. } => (to, None, *width, *height),
    };
    if width == 0 {
        return Ok(());
    }
    for rows in [Some(to), from].into_iter().flatten() {
        (0..height).try_for_each(|n| m.world.global.reach(rows.row(n), width))?;
    }
    Ok(())
}

/// Writes a new handle of a stream or an event to the address of the first argument.
fn create(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let handle = FIRST_HANDLE + m.world.device_launches.created;
        m.world.device_launches.created += 1;
        let to = address(m, row, 0, lane);
        if let Err(fault) = m.write(Space::Generic, to, lane, handle.to_le_bytes()) {
            return m.fail(fault.at(lane));
        }
        put_result(m, row, 2, lane, &0u32.to_le_bytes());
    }
    Flow::Next
}

/// A call of `N` arguments that has nothing to do: launches run in the order in which they are made.
fn succeed<const N: usize>(m: &mut Machine<'_>, row: &Row) -> Flow {
    for lane in lanes(m.mask) {
        put_result(m, row, N, lane, &0u32.to_le_bytes());
    }
    Flow::Next
}

/// Records an event: from now on streams may wait for each other.
fn record<const N: usize>(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    m.world.device_launches.has_events = true;
    succeed::<N>(m, row)
}

/// Writes a number to the address of the first argument.
fn put_number(m: &mut Machine<'_>, row: &Row, number: u32) -> Flow {
    for lane in lanes(m.mask) {
        let to = address(m, row, 0, lane);
        if let Err(fault) = m.write(Space::Generic, to, lane, number.to_le_bytes()) {
            return m.fail(fault.at(lane));
        }
        put_result(m, row, 1, lane, &0u32.to_le_bytes());
    }
    Flow::Next
}

/// The address of a text: for success, for `cudaErrorMemoryAllocation`, the only other error that these functions return, and for others.
fn text_of_error(m: &mut Machine<'_>, row: &Row, texts: [&str; 3]) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let text = match u32::from_le_bytes(argument(m, row, 0, lane)) {
            0 => texts[0],
            OUT_OF_MEMORY => texts[1],
            _ => texts[2],
        };
        let address = m.world.global.allocate_with([text.as_bytes(), &[0]].concat());
        put_result(m, row, 1, lane, &address.to_le_bytes());
    }
    Flow::Next
}

fn malloc(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let (to, size) = (address(m, row, 0, lane), address(m, row, 1, lane));
        let base = allocate(m, size);
        if let Err(fault) = m.write(Space::Generic, to, lane, base.to_le_bytes()) {
            return m.fail(fault.at(lane));
        }
        let status = if base == 0 { OUT_OF_MEMORY } else { 0 };
        put_result(m, row, 2, lane, &status.to_le_bytes());
    }
    Flow::Next
}

fn release(m: &mut Machine<'_>, row: &Row) -> Flow {
    match free(m, row) {
        Flow::Next => succeed::<1>(m, row),
        other => other,
    }
}

/// Sets the value of a conditional node. Its handle is the address of a word, which the node reads when the kernel has ended.
fn set_conditional(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let (handle, value) = (address(m, row, 0, lane), argument::<4>(m, row, 1, lane));
        if let Err(mut fault) = m.write(Space::Global, handle, lane, value) {
            fault.what = format!("cudaGraphSetConditional of the handle {handle:#x}: {}", fault.what);
            return m.fail(fault.at(lane));
        }
    }
    Flow::Next
}
