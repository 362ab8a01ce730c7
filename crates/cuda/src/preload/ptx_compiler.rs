//! nvPTXCompiler inside a program or a library, where it is always linked statically: its functions lead here, and what it compiles is the
//! PTX itself. The reader of the emulator judges the text, since nothing of the real compiler remains.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use emulator::load_shared;
use ptx::arch::{Suffix, Target};

use super::code;
use super::objects::{Loaded, functions};
use crate::device::device_code::rank;

/// Statuses of the compiler (`nvPTXCompileResult`).
const SUCCESS: c_int = 0;
const INVALID_HANDLE: c_int = 1;
const INVALID_INPUT: c_int = 2;
const COMPILATION_FAILURE: c_int = 3;
/// The program asks for what was not compiled.
const INCOMPLETE: c_int = 6;

/// The functions that stand in, by the plain names of those in the program.
const STAND_INS: [(&str, *const c_void); 10] = [
    ("nvPTXCompilerCreate", create as *const c_void),
    ("nvPTXCompilerDestroy", destroy as *const c_void),
    ("nvPTXCompilerCompile", compile as *const c_void),
    ("nvPTXCompilerGetCompiledProgramSize", compiled_size as *const c_void),
    ("nvPTXCompilerGetCompiledProgram", compiled as *const c_void),
    ("nvPTXCompilerGetErrorLogSize", error_size as *const c_void),
    ("nvPTXCompilerGetErrorLog", error_log as *const c_void),
    ("nvPTXCompilerGetInfoLogSize", info_size as *const c_void),
    ("nvPTXCompilerGetInfoLog", info_log as *const c_void),
    ("nvPTXCompilerSetFlowCallback", set_callback as *const c_void),
];

/// Serves the compiler of a file, if it contains one.
pub(super) fn serve(file: &Loaded) {
    let all =
        functions(file, |name| name.starts_with(b"nvPTXCompiler") || name.starts_with(b"__nvPTXCompiler"));
    let jumps: Vec<(u64, u64)> = all
        .iter()
        .filter(|function| code::is_replaceable(function.size))
        .filter_map(|function| {
            let (_, stand_in) = STAND_INS.iter().find(|(name, _)| *name == plain(&function.name))?;
            Some((file.base + function.address, *stand_in as u64))
        })
        .collect();
    // A handle of one must not reach the other: all functions are replaced, or none.
    let has_all = STAND_INS[..5].iter().all(|(_, at)| jumps.iter().any(|(_, to)| *to == *at as u64));
    if has_all {
        // SAFETY: the symbol table gives the functions and their sizes; the signatures are those of the header. No thread runs them: the
        // file has just been loaded. If the system forbids it, the real compiler runs, and its machine code is refused when it is loaded.
        let _ = unsafe { code::replace(&jumps) };
    }
}

/// The name of a function without what a version adds to it.
fn plain(name: &str) -> &str {
    let name = name.trim_start_matches('_');
    name.trim_end_matches(|c: char| c == '_' || c.is_ascii_digit())
}

/// A text that the program compiles.
#[derive(Debug, Default)]
struct Compilation {
    text: String,
    /// Whether it was compiled, and why it could not be.
    done: Option<Result<(), String>>,
}

static COMPILATIONS: LazyLock<Mutex<HashMap<u64, Compilation>>> = LazyLock::new(Mutex::default);

/// The first handle; far from real pointers.
const FIRST: u64 = 0x0056_0000_0000_0010;

fn compilations() -> MutexGuard<'static, HashMap<u64, Compilation>> {
    COMPILATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The status with which an answer is given, once it is written.
fn answered(handle: u64, answer: impl FnOnce(&mut Compilation) -> c_int) -> c_int {
    compilations().get_mut(&handle).map_or(INVALID_HANDLE, answer)
}

unsafe extern "C" fn create(handle: *mut u64, len: usize, text: *const c_char) -> c_int {
    if handle.is_null() || text.is_null() {
        return INVALID_INPUT;
    }
    // SAFETY: the program has as many bytes as it says.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    let text = String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let mut all = compilations();
    let made = all.keys().max().map_or(FIRST, |last| last + 16);
    all.insert(made, Compilation { text, done: None });
    // SAFETY: a place of the program.
    unsafe { handle.write(made) };
    SUCCESS
}

unsafe extern "C" fn destroy(handle: *mut u64) -> c_int {
    if handle.is_null() {
        return INVALID_HANDLE;
    }
    // SAFETY: a place of the program with a handle; it holds none afterwards.
    let gone = compilations().remove(&unsafe { handle.replace(0) });
    if gone.is_some() { SUCCESS } else { INVALID_HANDLE }
}

/// The options choose machine code, which is not made: only the GPU that they name matters.
unsafe extern "C" fn compile(handle: u64, count: c_int, options: *const *const c_char) -> c_int {
    let count = if options.is_null() { 0 } else { usize::try_from(count).unwrap_or_default() };
    // SAFETY: the program passes as many texts as it says.
    let options = (0..count).map(|n| unsafe { CStr::from_ptr(*options.add(n)) });
    let options: Vec<String> = options.map(|option| option.to_string_lossy().into_owned()).collect();
    answered(handle, |compilation| {
        let read = load_shared(&compilation.text.as_str().into(), &[]);
        let read = read.map(drop).map_err(|stop| stop.to_string());
        let done = compilation.done.insert(read.and_then(|()| fits(&compilation.text, &options)));
        if done.is_ok() { SUCCESS } else { COMPILATION_FAILURE }
    })
}

/// Whether PTX can be compiled for the GPU that the options name.
fn fits(text: &str, options: &[String]) -> Result<(), String> {
    let named = options.iter().enumerate().find_map(|(n, option)| {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let is_gpu = matches!(name, "--gpu-name" | "-arch" | "--arch" | "-gpu-name");
        let next = || options.get(n + 1).map(String::as_str);
        is_gpu.then(|| if value.is_empty() { next() } else { Some(value) })?
    });
    let named = named.ok_or("no option names the GPU: --gpu-name=sm_121")?;
    let gpu = Target::written(named).ok_or_else(|| format!("`{named}` is no GPU: --gpu-name=sm_121"))?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(".target"));
    let target = line.and_then(|line| Target::written(line.split([',', '/']).next()?.trim()));
    let can_run = |target: Target| {
        let is_base = |of: Target| matches!(of.suffix, Suffix::Base);
        rank(target, u32::from(gpu.number)).is_some() && (is_base(target) || !is_base(gpu))
    };
    if target.is_some_and(can_run) { Ok(()) } else { Err(format!("the PTX is not for {named}")) }
}

/// What the program may read: the PTX, the error, or nothing.
fn result(compilation: &Compilation) -> Option<&str> {
    matches!(compilation.done, Some(Ok(()))).then_some(compilation.text.as_str())
}

fn error(compilation: &Compilation) -> Option<&str> {
    match &compilation.done {
        Some(Err(why)) => Some(why),
        _ => Some(""),
    }
}

fn nothing(_: &Compilation) -> Option<&str> {
    Some("")
}

/// Writes the size of a text with its NUL; that of an empty log is 0.
///
/// # Safety
/// The place is null or one for a size.
unsafe fn size_of_text(handle: u64, size: *mut usize, of: fn(&Compilation) -> Option<&str>) -> c_int {
    answered(handle, |compilation| match of(compilation) {
        None => INCOMPLETE,
        Some(_) if size.is_null() => INVALID_INPUT,
        Some(text) => {
            // SAFETY: as promised by the caller.
            unsafe { size.write(if text.is_empty() { 0 } else { text.len() + 1 }) };
            SUCCESS
        }
    })
}

/// Writes a text with its NUL.
///
/// # Safety
/// The place is null or has room for it.
unsafe fn put_text(handle: u64, to: *mut u8, of: fn(&Compilation) -> Option<&str>) -> c_int {
    answered(handle, |compilation| match of(compilation) {
        None => INCOMPLETE,
        Some(_) if to.is_null() => INVALID_INPUT,
        Some(text) => {
            let bytes = if text.is_empty() { Vec::new() } else { [text.as_bytes(), &[0]].concat() };
            // SAFETY: as promised by the caller.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            SUCCESS
        }
    })
}

unsafe extern "C" fn compiled_size(handle: u64, size: *mut usize) -> c_int {
    // SAFETY: the arguments of the program, here and below.
    unsafe { size_of_text(handle, size, result) }
}

unsafe extern "C" fn compiled(handle: u64, to: *mut u8) -> c_int {
    // SAFETY: as above; the place has the size that the function above gave.
    unsafe { put_text(handle, to, result) }
}

unsafe extern "C" fn error_size(handle: u64, size: *mut usize) -> c_int {
    // SAFETY: as above.
    unsafe { size_of_text(handle, size, error) }
}

unsafe extern "C" fn error_log(handle: u64, to: *mut u8) -> c_int {
    // SAFETY: as above.
    unsafe { put_text(handle, to, error) }
}

unsafe extern "C" fn info_size(handle: u64, size: *mut usize) -> c_int {
    // SAFETY: as above.
    unsafe { size_of_text(handle, size, nothing) }
}

unsafe extern "C" fn info_log(handle: u64, to: *mut u8) -> c_int {
    // SAFETY: as above.
    unsafe { put_text(handle, to, nothing) }
}

/// Nothing is to be cancelled.
extern "C" fn set_callback(handle: u64) -> c_int {
    answered(handle, |_| SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_name_a_gpu_for_which_the_ptx_is() {
        let fits = |target: &str, options: &[&str]| {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            fits(&format!(".version 8.7\n.target {target}, debug\n"), &options)
        };
        assert_eq!(fits("sm_120", &["-O3", "--gpu-name=sm_121"]), Ok(()));
        assert_eq!(fits("sm_121a", &["-arch", "sm_121a"]), Ok(()));
        for (target, options) in [
            ("sm_120", &["--gpu-name=sm_90"][..]),
            ("sm_121a", &["--gpu-name=sm_121"]),
            ("sm_120", &["--gpu-name=gb10"]),
            ("sm_120", &["-O3"]),
        ] {
            assert!(fits(target, options).is_err(), "{target} {options:?}");
        }
    }

    #[test]
    fn names_of_versions_are_those_of_the_header() {
        for name in ["nvPTXCompilerCreate", "__nvPTXCompilerCreate_13_5", "nvPTXCompilerCreate_12"] {
            assert_eq!(plain(name), "nvPTXCompilerCreate");
        }
    }
}
