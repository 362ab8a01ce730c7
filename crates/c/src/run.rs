//! `ptx_run`, the gpuocelot entry point that tinygrad's CUDA emulation calls: arguments are pointers into this process.
//!
//! The length of the memory behind a pointer is unknown. A launch first gets a small part of it, and more when the kernel accesses memory
//! beyond that, up to the end of the mapping in `/proc/self/maps`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;

use emulator::trials::Plan;
use emulator::{GlobalMemory, Kernel, Parameter};
use serde_json::Value;

use crate::Status;
use crate::launch::{Wanted, guarded, run};
use crate::report::failed;
use crate::text::Module;

/// Initial size in bytes of the memory at a pointer argument, and the factor by which it grows.
const FIRST: usize = 1 << 16;
const MORE: usize = 16;

/// A range of the process's memory to which arguments point.
struct Window {
    start: usize,
    /// Maximum number of bytes, up to the end of the mapping.
    most: usize,
    len: usize,
    writable: bool,
}

/// A mapping of this process.
struct Mapping {
    range: Range<usize>,
    writable: bool,
}

fn mappings() -> Vec<Mapping> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let line = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |n: &str| usize::from_str_radix(n, 16).ok();
        let flags = rest.as_bytes();
        (flags.first() == Some(&b'r')).then(|| {
            Some(Mapping { range: number(start)?..number(end)?, writable: flags.get(1) == Some(&b'w') })
        })?
    };
    text.lines().filter_map(line).collect()
}

/// See the header.
///
/// # Safety
/// `ptx` is null or ends with a zero byte; `args` has `count` pointers or numbers; memory behind pointers belongs to the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptx_run(
    ptx: *const c_char,
    count: c_int,
    args: *const *mut c_void,
    lx: c_int,
    ly: c_int,
    lz: c_int,
    gx: c_int,
    gy: c_int,
    gz: c_int,
    shared_bytes: c_int,
) -> c_int {
    let (status, report) = guarded(|| {
        let usage = |what: &str| (Status::Usage, failed(Status::Usage, what));
        if ptx.is_null() || count > 0 && args.is_null() {
            return usage("a null pointer");
        }
        // SAFETY: the caller promises a string that ends with a zero byte.
        let Ok(text) = (unsafe { CStr::from_ptr(ptx) }).to_str() else {
            return usage("the PTX is not UTF-8");
        };
        let count = usize::try_from(count).unwrap_or_default();
        // SAFETY: the caller promises `count` arguments.
        let args = if count == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(args, count) } };
        let args: Vec<usize> = args.iter().map(|arg| *arg as usize).collect();
        let dims = |all: [c_int; 3]| all.map(|n| u32::try_from(n).unwrap_or_default().max(1));
        let module = match Module::read(text.to_owned()) {
            Ok(module) => module,
            Err(stop) => return crate::report::stopped(&stop),
        };
        let shared_bytes = u32::try_from(shared_bytes).unwrap_or_default();
        launch(&module, &args, dims([gx, gy, gz]), dims([lx, ly, lz]), shared_bytes)
    });
    if status != Status::Ok {
        let what = report.get("message").and_then(Value::as_str).unwrap_or_default();
        // gpuocelot's interface has no other channel for messages.
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("sm121probe: {what}\n"));
    }
    status as c_int
}

fn launch(
    module: &Module,
    args: &[usize],
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
) -> (Status, Value) {
    let usage = |what: &str| (Status::Usage, failed(Status::Usage, what));
    let [name] = module.entries.as_slice() else { return usage("the module must have exactly one kernel") };
    let program = match module.decoded(name) {
        Ok(program) => program,
        Err(stop) => return crate::report::stopped(&stop),
    };
    let Some(kernel) = program.kernel(name) else { return usage("the kernel is gone") };
    if args.len() != kernel.params.len() {
        return usage(&format!("{name} takes {} arguments, not {}", kernel.params.len(), args.len()));
    }
    let mut windows = windows(kernel, args);
    loop {
        let mut memory = GlobalMemory::default();
        let bases: Vec<u64> = windows.iter().map(|w| memory.allocate_with(copied(w))).collect();
        let address = |at: usize| {
            let found = windows.iter().zip(&bases).find(|(w, _)| (w.start..w.start + w.most).contains(&at));
            found.map(|(w, base)| base + (at - w.start) as u64)
        };
        let mut params = vec![0; kernel.param_bytes];
        for (param, arg) in kernel.params.iter().zip(args) {
            let value = if is_pointer(param) { address(*arg).unwrap_or(*arg as u64) } else { *arg as u64 };
            let size = param.size.min(8);
            params[param.offset..param.offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        let wanted = Wanted {
            kernel: Some(name),
            grid,
            block,
            cluster: None,
            shared_bytes,
            params: &params,
            plan: Plan {
                threads: std::thread::available_parallelism().map_or(1, usize::from),
                ..Plan::default()
            },
            contracts: false,
        };
        let (status, report, after) = run(module, &wanted, &mut memory);
        let beyond = report["violation"]["rule"] == "out_of_bounds";
        if beyond && windows.iter().any(|w| w.len < w.most) {
            windows.iter_mut().for_each(|w| w.len = w.len.saturating_mul(MORE).min(w.most));
            continue;
        }
        for ((window, base), now) in
            windows.iter().zip(&bases).filter_map(|(w, b)| Some(((w, b), after.as_ref()?.bytes(*b)?)))
        {
            let before = memory.bytes(*base).unwrap_or_default();
            if before != now && !window.writable {
                return usage("the kernel wrote memory that this process may only read");
            }
            store(window, before, now);
        }
        return (status, report);
    }
}

fn is_pointer(param: &Parameter) -> bool {
    param.size == 8
}

/// The memory at those 8-byte arguments that are pointers into this process; overlapping ranges become one window.
fn windows(kernel: &Kernel, args: &[usize]) -> Vec<Window> {
    let mappings = mappings();
    let mut starts: Vec<usize> =
        kernel.params.iter().zip(args).filter(|(p, _)| is_pointer(p)).map(|(_, a)| *a).collect();
    starts.sort_unstable();
    starts.dedup();
    let mut windows: Vec<Window> = Vec::new();
    for start in starts {
        let Some(n) = mappings.iter().position(|m| m.range.contains(&start)) else { continue };
        if windows.last().is_some_and(|w| start < w.start + w.most) {
            // This pointer lies within the previous window, which must therefore extend at least past it.
            if let Some(last) = windows.last_mut() {
                last.len = last.len.max((start - last.start + FIRST).min(last.most));
            }
            continue;
        }
        // Adjacent mappings may belong to one allocation.
        let mut end = mappings[n].range.end;
        for next in &mappings[n + 1..] {
            if next.range.start != end || next.writable != mappings[n].writable {
                break;
            }
            end = next.range.end;
        }
        let most = end - start;
        windows.push(Window { start, most, len: FIRST.min(most), writable: mappings[n].writable });
    }
    windows
}

fn copied(window: &Window) -> Vec<u8> {
    // SAFETY: the system reports that these bytes are mapped and readable, and the caller owns the memory behind its pointers.
    unsafe { std::slice::from_raw_parts(window.start as *const u8, window.len) }.to_vec()
}

/// Stores only the bytes that differ, because other bytes of the mapping may belong to another thread.
fn store(window: &Window, before: &[u8], now: &[u8]) {
    let mut at = 0;
    while let Some(n) = emulator::device::first_difference(&before[at..], &now[at..]) {
        let from = at + n;
        let run = before[from..].iter().zip(&now[from..]).take_while(|(a, b)| a != b).count();
        // SAFETY: as for reading; the system reports that they are writable.
        unsafe {
            std::ptr::copy_nonoverlapping(now[from..].as_ptr(), (window.start + from) as *mut u8, run);
        }
        at = from + run;
    }
}
