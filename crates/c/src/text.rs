//! Modules, and strings that callers must free.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use emulator::{Program, Stop};

/// A PTX module whose kernels are decoded on first launch.
pub struct Module {
    text: String,
    /// The names of its entries.
    pub(crate) entries: Vec<String>,
    decoded: Mutex<HashMap<String, Arc<Program>>>,
}

impl Module {
    /// Reads the names of the entries.
    ///
    /// # Errors
    /// [`Stop`] if the text is not PTX, or if the emulator does not support its only entry.
    pub(crate) fn read(text: String) -> Result<Self, Stop> {
        let entries = emulator::load_only(&text, &[])?.entries;
        Ok(Self { text, entries, decoded: Mutex::default() })
    }

    /// Returns the program with this entry.
    ///
    /// # Errors
    /// [`Stop`] if the emulator does not support something that it uses.
    pub(crate) fn decoded(&self, entry: &str) -> Result<Arc<Program>, Stop> {
        // A thread that panicked leaves the map consistent, since it only inserts.
        let mut decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = decoded.get(entry) {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(emulator::load_only(&self.text, &[entry])?);
        decoded.insert(entry.to_owned(), Arc::clone(&program));
        Ok(program)
    }
}

/// Passes a string to the caller, or null for `None`.
///
/// # Safety
/// `to` is null or writable.
pub(crate) unsafe fn give(to: *mut *mut c_char, text: Option<String>) {
    if to.is_null() {
        return;
    }
    // A zero byte inside would end the string early.
    let text = text.map(|text| CString::new(text.replace('\0', " ")).unwrap_or_default());
    // SAFETY: the caller of this function promises that `to` is writable.
    unsafe { *to = text.map_or(std::ptr::null_mut(), CString::into_raw) };
}

/// Returns the string of `bytes` bytes at `at`; `None` if it is null or not UTF-8.
///
/// # Safety
/// `at` is null, or `bytes` bytes can be read there.
pub(crate) unsafe fn text<'a>(at: *const c_char, bytes: usize) -> Option<&'a str> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller promises `bytes` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), bytes) };
    // A terminating zero byte is ignored.
    std::str::from_utf8(bytes).ok().map(|text| text.trim_end_matches('\0'))
}

/// See the header.
///
/// # Safety
/// `ptx` is null or has `bytes` bytes; `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_load(
    ptx: *const c_char,
    bytes: usize,
    error: *mut *mut c_char,
) -> *mut Module {
    // SAFETY: as promised to this function.
    let read = match unsafe { text(ptx, bytes) } {
        // A panic must not unwind into C.
        Some(text) => match catch_unwind(|| Module::read(text.to_owned())) {
            Ok(read) => read.map_err(|stop| stop.to_string()),
            Err(_) => Err("the emulator failed; please report it".to_owned()),
        },
        None => Err("the PTX is null, or not UTF-8".to_owned()),
    };
    let (module, why) = match read {
        Ok(module) => (Box::into_raw(Box::new(module)), None),
        Err(why) => (std::ptr::null_mut(), Some(why)),
    };
    // SAFETY: as promised to this function.
    unsafe { give(error, why) };
    module
}

/// See the header.
///
/// # Safety
/// `module` is null, or came from [`sm121probe_load`] and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_module_free(module: *mut Module) {
    if !module.is_null() {
        // SAFETY: it came from a box, and there is no other reference to it.
        drop(unsafe { Box::from_raw(module) });
    }
}

/// See the header.
///
/// # Safety
/// `text` is null, or came from this library and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sm121probe_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it came from `CString::into_raw`.
        drop(unsafe { CString::from_raw(text) });
    }
}
