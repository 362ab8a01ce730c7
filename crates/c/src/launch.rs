//! Launches a kernel under one or more schedules and reports the result.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use emulator::{Contraction, GlobalMemory, InStream, Options};
use numerics::tensor_core::Model;
use serde_json::Value;

use crate::Status;
use crate::device::{Device, bytes};
use crate::report::{Heard, ended, failed, stopped};
use crate::text::{Module, give};

/// `sm121probe_launch` of the header.
#[repr(C)]
pub struct Launch {
    kernel: *const c_char,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    shared_bytes: u32,
    params: *const c_void,
    param_bytes: usize,
    schedules: u32,
    fuel: u64,
    model: u32,
    contract: u32,
    reserved: [u64; 7],
}

/// A launch, with its arguments as Rust types.
pub(crate) struct Wanted<'a> {
    /// The kernel; if `None`, the only one of the module.
    pub(crate) kernel: Option<&'a str>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared_bytes: u32,
    pub(crate) params: &'a [u8],
    pub(crate) schedules: u64,
    pub(crate) fuel: Option<u64>,
    pub(crate) model: Option<Model>,
    pub(crate) contracts: bool,
}

/// Runs all schedules; returns the memory after the first one and the report.
pub(crate) fn run(
    module: &Module,
    wanted: &Wanted<'_>,
    memory: &mut GlobalMemory,
) -> (Status, Value, Option<GlobalMemory>) {
    let name = match (wanted.kernel, module.entries.as_slice()) {
        (Some(name), _) if module.entries.iter().any(|entry| entry == name) => name,
        (None, [only]) => only,
        (name, entries) => {
            let what =
                name.map_or_else(|| "name a kernel".to_owned(), |n| format!("there is no kernel `{n}`"));
            let what = format!("{what}; the module has {}", entries.join(", "));
            return (Status::Usage, failed(Status::Usage, &what), None);
        }
    };
    let program = match module.decoded(name) {
        Ok(program) => program,
        Err(stop) => {
            let (status, report) = stopped(&stop);
            return (status, report, None);
        }
    };
    let program = match wanted.contracts.then(|| program.contracted(&Contraction::Every)) {
        None => program,
        Some(Ok(contracted)) => Arc::new(contracted),
        Some(Err(stop)) => {
            let (status, report) = stopped(&stop);
            return (status, report, None);
        }
    };
    let Some(kernel) = program.kernel(name) else {
        return (Status::Failed, failed(Status::Failed, "the kernel is gone"), None);
    };
    if wanted.params.len() != kernel.param_bytes {
        let what =
            format!("{name} has {} bytes of parameters, not {}", kernel.param_bytes, wanted.params.len());
        return (Status::Usage, failed(Status::Usage, &what), None);
    }
    let launch = emulator::Launch {
        grid: wanted.grid,
        block: wanted.block,
        shared_bytes: wanted.shared_bytes,
        params: wanted.params.to_vec(),
    };
    let step = InStream { cluster: wanted.cluster, ..InStream::new(&program, kernel, &launch) };
    memory.share();
    let mut first: Option<(GlobalMemory, Value)> = None;
    for seed in 0..wanted.schedules.max(1) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Options { seed, threads, model: wanted.model, ..Options::default() };
        options.fuel = wanted.fuel.unwrap_or(options.fuel);
        let mut after = memory.clone();
        let mut heard = Heard::default();
        let counts = match emulator::launch_with(&step, &mut after, &options, &mut heard) {
            Ok(counts) => counts,
            Err(stop) => {
                let (status, report) = stopped(&stop);
                return (status, report, None);
            }
        };
        match &first {
            None => {
                first = Some((after, ended(&heard, counts.warp_instructions, wanted.schedules.max(1))));
            }
            Some((same, _)) => {
                if let Some(address) = same.first_difference(&after) {
                    let what = format!(
                        "the byte at global address {address:#x} differs between seed 0 and seed {seed}"
                    );
                    return (Status::Disagreement, failed(Status::Disagreement, &what), None);
                }
            }
        }
    }
    match first {
        Some((after, report)) => (Status::Ok, report, Some(after)),
        None => (Status::Failed, failed(Status::Failed, "nothing ran"), None),
    }
}

/// Converts a panic into a status, because it must not unwind into C.
pub(crate) fn guarded(f: impl FnOnce() -> (Status, Value)) -> (Status, Value) {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|_| (Status::Failed, failed(Status::Failed, "the emulator failed; please report it")))
}

/// See the header.
///
/// # Safety
/// Pointers are null or as the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_run(
    device: *const Device,
    module: *const Module,
    launch: *const Launch,
    report: *mut *mut c_char,
) -> Status {
    // SAFETY: the header requires that each is null or valid.
    let (device, module, launch) = unsafe { (device.as_ref(), module.as_ref(), launch.as_ref()) };
    let (status, json) = guarded(|| {
        let (Some(device), Some(module), Some(launch)) = (device, module, launch) else {
            return (Status::Usage, failed(Status::Usage, "device, module or launch is null"));
        };
        if launch.reserved != [0; 7] {
            let what = "the reserved fields of the launch are not 0; set all of it to zero first";
            return (Status::Usage, failed(Status::Usage, what));
        }
        let model = match launch.model {
            0 => None,
            number => match Model::parse(&format!("sm_{number}")) {
                Some(model) => Some(model),
                None => {
                    return (
                        Status::Usage,
                        failed(Status::Usage, "the model is none of 80, 89, 90, 100 and 120"),
                    );
                }
            },
        };
        if launch.contract > 1 {
            return (Status::Usage, failed(Status::Usage, "contract is neither 0 nor 1"));
        }
        // SAFETY: the header requires `param_bytes` bytes.
        let Some(params) = (unsafe { bytes(launch.params, launch.param_bytes) }) else {
            return (Status::Usage, failed(Status::Usage, "the parameters are null"));
        };
        let name = if launch.kernel.is_null() {
            None
        } else {
            // SAFETY: the header requires a string that ends with a zero byte.
            match unsafe { CStr::from_ptr(launch.kernel) }.to_str() {
                Ok(name) => Some(name),
                Err(_) => return (Status::Usage, failed(Status::Usage, "the kernel's name is not UTF-8")),
            }
        };
        let at_least_one = |dims: [u32; 3]| dims.map(|n| n.max(1));
        let wanted = Wanted {
            kernel: name,
            grid: at_least_one(launch.grid),
            block: at_least_one(launch.block),
            cluster: (launch.cluster != [0; 3]).then(|| at_least_one(launch.cluster)),
            shared_bytes: launch.shared_bytes,
            params,
            schedules: launch.schedules.into(),
            fuel: (launch.fuel > 0).then_some(launch.fuel),
            model,
            contracts: launch.contract == 1,
        };
        let mut memory = device.lock();
        let (status, json, after) = run(module, &wanted, &mut memory);
        if let Some(after) = after {
            *memory = after;
        }
        (status, json)
    });
    // SAFETY: as promised to this function.
    unsafe { give(report, Some(json.to_string())) };
    status
}
