//! C's own `dlopen` and `dlsym`, behind those of this library.
#![expect(unsafe_code, reason = "functions of C")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
type Symbol = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// C's own functions; null until the first use.
static OPEN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
pub(crate) static SYMBOL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The versions of C's interface in which these functions appeared, per architecture and since they are part of `libc.so`.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

/// The function of C behind this library's own.
fn of_c(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = place.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: names end in NUL; `RTLD_NEXT` starts behind this library.
    let find = |version: &&CStr| unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) };
    let found = VERSIONS.iter().map(find).find(|at| !at.is_null()).unwrap_or(ptr::null_mut());
    place.store(found, Ordering::Release);
    found
}

/// Looks C's `dlsym` up, for code that jumps to it.
pub(crate) fn find_symbol_of_c() {
    of_c(&SYMBOL, c"dlsym");
}

/// The address of a function of a library, or in all that is loaded.
pub(crate) fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    let found = of_c(&SYMBOL, c"dlsym");
    if found.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: C's `dlsym`.
    let symbol: Symbol = unsafe { std::mem::transmute(found) };
    // SAFETY: a handle of `dlopen` or one of its constants, and a name.
    unsafe { symbol(library, name.as_ptr()) }
}

/// A library that is loaded already, by the name that it has for the dynamic linker.
pub(crate) fn loaded_library(name: &CStr) -> Option<*mut c_void> {
    let found = open_of_c(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
    (!found.is_null()).then_some(found)
}

/// Opens a library as C does.
pub(crate) fn open_of_c(path: *const c_char, flags: c_int) -> *mut c_void {
    let found = of_c(&OPEN, c"dlopen");
    if found.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: C's `dlopen`.
    let open: Open = unsafe { std::mem::transmute(found) };
    // SAFETY: the path is null or ends in NUL.
    unsafe { open(path, flags) }
}
