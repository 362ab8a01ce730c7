//! Functions that host code compiled by CuTe DSL calls: CUDA functions under its own names (most are additional names of an entry
//! point), and
//! the one-time loading of its kernel library. CuTe DSL's own runtime links a static CUDA runtime, so `exec` makes it load this library
//! instead (`CUTE_DSL_LIBS`).
#![expect(unsafe_code, reason = "exported names, and callbacks of a C program")]

use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use crate::api::launch_parameters::shape;
use crate::api::table::{entry_points, exported};
use crate::device::arguments::Pointers;
use crate::device::results::say;
use crate::device::submit::{launch, wait};
use crate::program::pointers::In;
use crate::status::Status;

/// Loads a library and stores its handle.
type Load = extern "C" fn(*mut u64) -> c_int;
/// Loads a library's kernels for a device.
type LoadToDevice = Option<extern "C" fn(*mut u64, c_int) -> c_int>;
/// Receives the kind and the message of an error.
type Raise = extern "C" fn(*const c_char, *const c_char);

entry_points! {
    CUTE_DSL, CUTE_DSL_CALLS;

    [_cudaLaunchKernel: (Primary, zeros INVALID_DEVICE_FUNCTION)]
    fn (
        symbol: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, arguments: In<u64>, shared: usize, stream: u64,
    ) { launch(stream, symbol, shape([gx, gy, gz], [bx, by, bz], shared)?, &Pointers::from_array(arguments)) }
    [_cudaStreamWaitEvent: (Primary, zeros INVALID_HANDLE)]
    fn (stream: u64, event: u64) { wait(stream, event, 0) }
}

fn message(code: c_int) -> String {
    let text = |text: &str| text.trim_end_matches('\0').to_owned();
    let status = Status(code);
    format!("{}: {}", text(status.runtime_name()), text(status.sentence()))
}

fn raise_with(raise: Option<Raise>, code: c_int) {
    let Some(raise) = raise else { return };
    let text = CString::new(format!("CUDA error {}", message(code))).unwrap_or_default();
    raise(c"RuntimeError".as_ptr(), text.as_ptr());
}

exported! {
    DIALECT, DIALECT_CALLS;

    [cuda_dialect_get_error_name: (Nothing, zeros SUCCESS)] fn (code: c_int);
    [cuda_dialect_print_on_error: (Nothing, zeros SUCCESS)] fn (code: c_int);
    [cuda_dialect_assert_success: (Nothing, zeros SUCCESS)] fn (code: c_int);
    [cuda_dialect_init_library_once: (Nothing, zeros INVALID_VALUE)]
    fn (slot: *mut u64, load: Option<Load>, load_to_device: LoadToDevice, raise: Option<Raise>);
    [cuda_dialect_unload_library_once: (Nothing, zeros SUCCESS)] fn (slot: *mut u64);
    [CuteDSLRT_TVMFFISetRaisedCudaError: (Nothing, zeros SUCCESS)] fn (raise: Option<Raise>, code: c_int);
}

#[unsafe(no_mangle)]
extern "C" fn cuda_dialect_get_error_name(code: c_int) -> *const c_char {
    Status(code).runtime_name().as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn cuda_dialect_print_on_error(code: c_int) {
    if code != 0 {
        say(&message(code));
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuda_dialect_assert_success(code: c_int) {
    if code != 0 {
        say(&message(code));
        std::process::abort();
    }
}

static LOADING: Mutex<()> = Mutex::new(());

/// Loads a library unless `slot` already holds one; returns -1 after an error, which is passed to `raise`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_dialect_init_library_once(
    slot: *mut u64,
    load: Option<Load>,
    load_to_device: LoadToDevice,
    raise: Option<Raise>,
) -> c_int {
    let (false, Some(load)) = (slot.is_null(), load) else { return Status::INVALID_VALUE.0 };
    let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: a variable of the caller, which only this function and the next one write.
    if unsafe { slot.read() } != 0 {
        return 0;
    }
    let mut library = 0;
    let mut code = load(&raw mut library);
    if let Some(load_to_device) = load_to_device
        && code == 0
    {
        code = load_to_device(&raw mut library, 0);
    }
    if code != 0 {
        raise_with(raise, code);
        return -1;
    }
    // SAFETY: as above.
    unsafe { slot.write(library) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_dialect_unload_library_once(slot: *mut u64) {
    let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if !slot.is_null() {
        // SAFETY: as above. The module stays loaded until the process ends.
        unsafe { slot.write(0) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn CuteDSLRT_TVMFFISetRaisedCudaError(raise: Option<Raise>, code: c_int) {
    raise_with(raise, code);
}
