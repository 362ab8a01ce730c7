//! Entry points for errors: the last error, names, descriptions.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_char, c_int};

use crate::api::call::last_error;
use crate::api::table::exported;
use crate::program::pointers::Out;
use crate::status::Status;

exported! {
    ERROR, ERROR_CALLS;

    [cudaGetLastError: (Runtime, zeros SUCCESS)] fn ();
    [cudaPeekAtLastError: (Runtime, zeros SUCCESS)] fn ();
    [cudaGetErrorString: (Nothing, zeros SUCCESS)] fn (code: c_int);
    [cudaGetErrorName: (Nothing, zeros SUCCESS)] fn (code: c_int);
    [cuGetErrorName: (Nothing, zeros INVALID_VALUE, since 6_000)] fn (code: c_int, name: Out<*const c_char>);
    [cuGetErrorString: (Nothing, zeros INVALID_VALUE, since 6_000)] fn (code: c_int, text: Out<*const c_char>);
}

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
