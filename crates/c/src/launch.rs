//! Launches a kernel under the trials of a plan and reports the verdict.

use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use emulator::trials::{
    ContractedPrograms, Door, Failure, Launched, Launching, Plan, ResultBuffer, Rules, Step, judge,
};
use emulator::{Contraction, GlobalMemory, Options};
use numerics::tensor_core::Model;
use serde_json::Value;

use crate::Status;
use crate::device::{Device, bytes};
use crate::report::{failed, stopped, violated, with_verdict};
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
    rules: u32,
    fillings: u32,
    require_equal: u32,
    strict: u32,
    reserved: [u64; 5],
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
    pub(crate) plan: Plan,
    pub(crate) contracts: bool,
}

/// What performs launches, with the buffers of a device as results.
struct Launcher {
    results: Vec<ResultBuffer>,
    printed: String,
}

impl Door for Launcher {
    type Error = Infallible;

    fn results(&self) -> Vec<ResultBuffer> {
        self.results.clone()
    }

    fn launch(
        &mut self,
        launching: &Launching<'_>,
        memory: &mut GlobalMemory,
    ) -> Result<Launched, Infallible> {
        let (launched, printed) = launching.collect(memory);
        if launching.is_first {
            self.printed.extend(printed);
        }
        Ok(launched)
    }
}

/// Runs all trials; returns the report, and the memory after the first trial if its results mean something.
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
    let step = Step {
        program: &program,
        kernel: name,
        launch,
        cluster: wanted.cluster,
        cooperative: false,
        shift_shared: true,
    };
    let buffers = memory.buffers();
    let results = buffers.map(|(at, len)| ResultBuffer::untyped(format!("{at:#x}"), at, len)).collect();
    // A violation leaves the device's memory as it is.
    memory.share();
    let mut after = memory.clone();
    let mut launcher = Launcher { results, printed: String::new() };
    let mut contracted = ContractedPrograms::default();
    let Ok(verdict) = judge(&mut launcher, &[step], &mut after, &wanted.plan, &mut contracted);
    let failure = verdict.failure(&wanted.plan);
    let kept = failure.as_ref().is_none_or(Failure::has_results).then_some(after);
    let (status, mut report) = match failure {
        None => (Status::Ok, failed(Status::Ok, "")),
        Some(Failure::Stopped(why)) => stopped(&why.stop),
        Some(Failure::Violated(trap)) => violated(trap),
        Some(Failure::Differs(difference)) => {
            (Status::Disagreement, failed(Status::Disagreement, &difference.to_string()))
        }
        Some(Failure::Undetermined(open)) => {
            (Status::Disagreement, failed(Status::Disagreement, &open.to_string()))
        }
    };
    with_verdict(&mut report, &verdict, &launcher.printed);
    (status, report, kept)
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
        if launch.reserved != [0; 5] {
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
        let Some(rules) = Rules::ALL.get(launch.rules as usize).copied() else {
            return (Status::Usage, failed(Status::Usage, "rules is none of 0, 1 and 2"));
        };
        let Ok(fillings) = u8::try_from(launch.fillings) else {
            return (Status::Usage, failed(Status::Usage, "there are at most 255 fillings"));
        };
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
            plan: Plan {
                rules,
                strict: launch.strict != 0,
                require_equal: launch.require_equal != 0,
                results_are_read: false,
                schedules: (launch.schedules > 0).then_some(launch.schedules.into()),
                fillings: (fillings > 0).then_some(fillings),
                fuel: if launch.fuel > 0 { launch.fuel } else { Options::default().fuel },
                model,
                threads: std::thread::available_parallelism().map_or(1, usize::from),
                ..Plan::default()
            },
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
