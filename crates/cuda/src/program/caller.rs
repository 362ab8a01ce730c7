//! The program around a call: which function it has called, which CUDA runtime it is linked with, and its standard output.
#![expect(unsafe_code, reason = "functions of C")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::program::image::library_at;

thread_local! {
    /// The entry point that this thread has called last.
    static CALL: Cell<&'static str> = const { Cell::new("") };
}

/// Records the name of the entry point that this thread calls.
pub(crate) fn set_called_function(name: &'static str) {
    CALL.set(name);
}

/// The name of the entry point in which this thread is, as the program called it.
pub(crate) fn called_function() -> &'static str {
    CALL.get().trim_start_matches('_')
}

/// The library that has called the entry point in which this thread is; `None` if the program has.
pub(crate) fn calling_library() -> Option<String> {
    let mut frames = [ptr::null_mut(); 32];
    // SAFETY: there is room for as many addresses as the call says.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    let own = library_at(calling_library as *const () as u64);
    let frames = frames.iter().take(usize::try_from(count).unwrap_or(0));
    frames.map(|at| library_at(*at as u64)).find(|library| *library != own).flatten()
}

/// Whether the program's runtime is that of CUDA 12, once it is known.
static IS_12: OnceLock<bool> = OnceLock::new();

/// Sets the version of CUDA whose static runtime the program contains; the first one counts.
pub(crate) fn set_runtime_version(version: u32) {
    let _ = IS_12.set(version == 12);
}

/// Whether the program is linked with the runtime of CUDA 12: some functions of CUDA 13 have additional arguments under the same name.
pub(crate) fn runtime_is_12() -> bool {
    unsafe extern "C" {
        fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    }
    /// RTLD_NOLOAD | RTLD_LAZY: only what is already loaded.
    const LOADED: c_int = 4 | 1;
    // SAFETY: the names end in NUL, and nothing is loaded.
    let loaded = |name: &CStr| !unsafe { dlopen(name.as_ptr(), LOADED) }.is_null();
    *IS_12.get_or_init(|| loaded(c"libcudart.so.12") && !loaded(c"libcudart.so.13"))
}

/// Writes the output of kernels through C's stdout, so that it keeps its order with the program's own output.
pub(crate) fn print(texts: &[String]) {
    unsafe extern "C" {
        fn printf(format: *const c_char, ...) -> c_int;
    }
    for text in texts {
        let bytes = text.as_bytes();
        // SAFETY: `%.*s` reads exactly this many bytes.
        unsafe { printf(c"%.*s".as_ptr(), bytes.len() as c_int, bytes.as_ptr()) };
    }
}
