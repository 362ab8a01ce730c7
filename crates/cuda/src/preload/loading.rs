//! `dlopen` and `dlsym`, as the program finds them: what is loaded is served ([`super::static_runtime`]), and functions of run-time compilers
//! lead to [`super::run_time_compilers`].
//!
//! Both functions of C look at their caller: `dlopen` searches the folders that the calling file names (`RUNPATH`), and `dlsym` starts
//! behind it (`RTLD_NEXT`). So `dlsym` jumps to C's function, whose caller is then the program, and `dlopen` reads the folders itself.
#![expect(unsafe_code, reason = "functions of C, and their callers")]

use std::arch::naked_asm;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;

use super::{run_time_compilers, static_runtime};
use crate::program::linker::{SYMBOL, find_symbol_of_c, loaded_library, open_of_c, symbol};

/// Whether the program finds this library's `dlopen`: it was loaded before C's library.
pub(super) fn is_preloaded() -> bool {
    symbol(libc::RTLD_DEFAULT, c"dlopen") == dlopen as *mut c_void
}

/// `dlopen` for a caller in the file at `caller`.
extern "C" fn open(path: *const c_char, flags: c_int, caller: *const c_void) -> *mut c_void {
    let found = match searched(path, flags, caller) {
        Some(found) => found,
        None => open_of_c(path, flags),
    };
    if !found.is_null() {
        static_runtime::serve();
    }
    found
}

/// Opens a library by a name without a folder, in the folders of the calling file; `None` if it is not there, or is loaded already.
fn searched(path: *const c_char, flags: c_int, caller: *const c_void) -> Option<*mut c_void> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller of `dlopen` passes a name that ends in NUL.
    let name = unsafe { CStr::from_ptr(path) };
    if name.is_empty() || name.to_bytes().contains(&b'/') || loaded_library(name).is_some() {
        return None;
    }
    let file = OsStr::from_bytes(name.to_bytes());
    for folder in folders_of(caller) {
        let file = folder.join(file);
        let Ok(text) = CString::new(file.as_os_str().as_bytes()) else { continue };
        if file.is_file() {
            // A file of another architecture is passed over, as the dynamic linker does.
            let found = open_of_c(text.as_ptr(), flags);
            if !found.is_null() {
                return Some(found);
            }
        }
    }
    None
}

/// The folders in which the dynamic linker searches for the file that contains an address, the file's own among them.
fn folders_of(address: *const c_void) -> Vec<PathBuf> {
    const LINK_MAP: c_int = 2;
    const SEARCH: c_int = 4;
    const SEARCH_SIZE: c_int = 5;
    /// `Dl_serinfo`, and a folder of it.
    #[repr(C)]
    struct Search {
        size: usize,
        count: u32,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Folder {
        name: *const c_char,
        flags: u32,
    }
    unsafe extern "C" {
        fn dladdr1(
            at: *const c_void,
            info: *mut libc::Dl_info,
            extra: *mut *mut c_void,
            flags: c_int,
        ) -> c_int;
        fn dlinfo(library: *mut c_void, request: c_int, result: *mut c_void) -> c_int;
    }
    let (mut info, mut map) = (MaybeUninit::<libc::Dl_info>::uninit(), ptr::null_mut());
    // SAFETY: the results have the types that the flag asks for.
    if unsafe { dladdr1(address, info.as_mut_ptr(), &raw mut map, LINK_MAP) } == 0 || map.is_null() {
        return Vec::new();
    }
    let mut search = Search { size: 0, count: 0 };
    // SAFETY: a `link_map` is a handle; this request writes a size and a count.
    if unsafe { dlinfo(map, SEARCH_SIZE, (&raw mut search).cast()) } != 0 {
        return Vec::new();
    }
    let mut words = vec![0u64; search.size.div_ceil(8).max(size_of::<Search>() / 8)];
    let list = words.as_mut_ptr().cast::<Search>();
    // SAFETY: the buffer has the size that the first request gave, and is aligned as a list is. Its head must hold that size and count.
    let is_filled = unsafe {
        list.write(search);
        dlinfo(map, SEARCH, list.cast()) == 0
    };
    if !is_filled {
        return Vec::new();
    }
    // SAFETY: the request filled the head and as many folders as it says, whose names lie in the same buffer.
    unsafe {
        let count = (*list).count as usize;
        let first = list.add(1).cast::<Folder>();
        let name = |n: usize| CStr::from_ptr((*first.add(n)).name).to_bytes();
        (0..count).map(|n| Path::new(OsStr::from_bytes(name(n))).to_owned()).collect()
    }
}

/// Whether this library has the function of a library of kernels with a name, as the first one in which a name is searched.
fn is_of_library(name: &CStr) -> bool {
    let Ok(name) = name.to_str() else { return false };
    ["cublas", "cufft", "curand", "cusparse"].iter().any(|library| name.starts_with(library))
        && crate::library_functions().any(|function| function.name == name)
}

/// What `dlsym` returns instead of C's answer; null if C answers.
extern "C" fn substitute(library: *mut c_void, name: *const c_char) -> *const c_void {
    // The jump behind this call needs it.
    find_symbol_of_c();
    if name.is_null() || library == libc::RTLD_NEXT {
        return ptr::null();
    }
    // SAFETY: the caller of `dlsym` passes a name that ends in NUL.
    let name = unsafe { CStr::from_ptr(name) };
    let of_library = || is_of_library(name).then(|| symbol(libc::RTLD_DEFAULT, name).cast_const());
    run_time_compilers::substitute(library, name).or_else(of_library).unwrap_or(ptr::null())
}

/// C's `dlopen`, which also serves what it has loaded.
///
/// # Safety
/// As for C's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen(_path: *const c_char, _flags: c_int) -> *mut c_void {
    // The return address says who calls.
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov rdx, [rsp]", "jmp {open}", open = sym open);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov x2, x30", "b {open}", open = sym open);
}

/// C's `dlsym`, but for functions of run-time compilers.
///
/// # Safety
/// As for C's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {substitute}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jne 2f",
        "jmp [rip + {symbol}]",
        "2:",
        "ret",
        substitute = sym substitute,
        symbol = sym SYMBOL,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x29, x30, [sp, -32]!",
        "stp x0, x1, [sp, 16]",
        "bl {substitute}",
        "mov x9, x0",
        "ldp x0, x1, [sp, 16]",
        "ldp x29, x30, [sp], 32",
        "cbz x9, 2f",
        "mov x0, x9",
        "ret",
        "2:",
        "adrp x16, {symbol}",
        "ldr x16, [x16, :lo12:{symbol}]",
        "br x16",
        substitute = sym substitute,
        symbol = sym SYMBOL,
    );
}
