//! Entry points for errors: the last error, names, descriptions.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_char, c_int};

use crate::api::{Out, last_error};
use crate::status::Status;

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> c_int {
    last_error(true)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> c_int {
    last_error(false)
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    Status(code).sentence().as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    Status(code).runtime_name().as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: c_int, name: Out<*const c_char>) -> c_int {
    let known = Status(code).driver_name();
    let set = name.set(known.map_or(std::ptr::null(), |name| name.as_ptr().cast()));
    if known.is_some() && set.is_ok() { 0 } else { Status::INVALID_VALUE.0 }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: c_int, text: Out<*const c_char>) -> c_int {
    let known = Status(code).driver_name().map(|_| Status(code).sentence());
    let set = text.set(known.map_or(std::ptr::null(), |text| text.as_ptr().cast()));
    if known.is_some() && set.is_ok() { 0 } else { Status::INVALID_VALUE.0 }
}

/// The function with a given name.
pub(crate) fn error_function(name: &str) -> Option<*const std::ffi::c_void> {
    Some(match name {
        "cudaGetLastError" => cudaGetLastError as *const _,
        "cudaPeekAtLastError" => cudaPeekAtLastError as *const _,
        "cudaGetErrorString" => cudaGetErrorString as *const _,
        "cudaGetErrorName" => cudaGetErrorName as *const _,
        "cuGetErrorName" => cuGetErrorName as *const _,
        "cuGetErrorString" => cuGetErrorString as *const _,
        _ => return None,
    })
}
