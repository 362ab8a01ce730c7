//! Functions that host code compiled by CuTe DSL calls: CUDA functions under its own names (most are additional names of an entry
//! point), and
//! the one-time loading of its kernel library. CuTe DSL's own runtime links a static CUDA runtime, so `exec` makes it load this library
//! instead (`CUTE_DSL_LIBS`).
#![expect(unsafe_code, reason = "exported names, and callbacks of a C program")]

use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::api::{In, Pointers, entry_points};
use crate::launch_calls::shape;
use crate::status::Status;
use crate::stream_calls::wait;
use crate::work::launch;

/// Loads a library and stores its handle.
type Load = extern "C" fn(*mut u64) -> c_int;
/// Loads a library's kernels for a device.
type LoadToDevice = Option<extern "C" fn(*mut u64, c_int) -> c_int>;
/// Receives the kind and the message of an error.
type Raise = extern "C" fn(*const c_char, *const c_char);

entry_points! {
    cute_dsl_function;

    fn _cudaLaunchKernel(
        symbol: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, arguments: In<u64>, shared: usize, stream: u64,
    ) { launch(stream, symbol, shape([gx, gy, gz], [bx, by, bz], shared)?, &Pointers::from_array(arguments)) }
    fn _cudaStreamWaitEvent(stream: u64, event: u64) { wait(stream, event, 0) }
}

fn message(code: c_int) -> String {
    let text = |text: &str| text.trim_end_matches('\0').to_owned();
    let status = Status(code);
    format!("{}: {}", text(status.runtime_name()), text(status.sentence()))
}

fn raise_with(raise: Raise, code: c_int) {
    let text = CString::new(format!("CUDA error {}", message(code))).unwrap_or_default();
    raise(c"RuntimeError".as_ptr(), text.as_ptr());
}

#[unsafe(no_mangle)]
extern "C" fn cuda_dialect_get_error_name(code: c_int) -> *const c_char {
    Status(code).runtime_name().as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn cuda_dialect_print_on_error(code: c_int) {
    if code != 0 {
        crate::results::say(&message(code));
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuda_dialect_assert_success(code: c_int) {
    if code != 0 {
        crate::results::say(&message(code));
        std::process::abort();
    }
}

static LOADING: Mutex<()> = Mutex::new(());

/// Loads a library unless `slot` already holds one; returns -1 after an error, which is passed to `raise`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuda_dialect_init_library_once(
    slot: *mut u64,
    load: Load,
    load_to_device: LoadToDevice,
    raise: Raise,
) -> c_int {
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
    // SAFETY: as above. The module stays loaded until the process ends.
    unsafe { slot.write(0) };
}

#[unsafe(no_mangle)]
extern "C" fn CuteDSLRT_TVMFFISetRaisedCudaError(raise: Raise, code: c_int) {
    raise_with(raise, code);
}

/// The PTX of a cubin that CuTe DSL compiled; `exec` makes it keep both files side by side.
pub(crate) fn kept_ptx(cubin: &[u8]) -> Option<String> {
    kept_in(Path::new(&std::env::var_os("CUTE_DSL_DUMP_DIR")?), cubin)
}

/// Compares the bytes, because a later kernel of the same name replaces both files.
fn kept_in(folder: &Path, cubin: &[u8]) -> Option<String> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut cubins = files.filter(|file| file.extension().is_some_and(|ending| ending == "cubin"));
    let kept = cubins.find(|file| std::fs::read(file).is_ok_and(|bytes| bytes.starts_with(cubin)))?;
    std::fs::read_to_string(kept.with_extension("ptx")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubin_has_the_ptx_that_lies_beside_it() {
        let folder = std::env::temp_dir().join(format!("sm121probe-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["one", "two"] {
            std::fs::write(folder.join(format!("{name}.sm_121a.cubin")), format!("cubin {name}")).unwrap();
            std::fs::write(folder.join(format!("{name}.sm_121a.ptx")), format!("ptx {name}")).unwrap();
        }
        assert_eq!(kept_in(&folder, b"cubin two").as_deref(), Some("ptx two"));
        assert_eq!(kept_in(&folder, b"cubin three"), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
