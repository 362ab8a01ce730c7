//! The static CUDA runtime inside a program or a library: its functions lead to those of this library.
//!
//! The static runtime asks the driver for tables of functions that no header documents, so that no other driver can serve it. Its public
//! functions are those of the shared runtime, though, and the files that contain it name them in their symbol table unless it is stripped.
#![expect(unsafe_code, reason = "code of the process")]

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::code;
use super::objects::{Loaded, PROGRAM, Symbol, functions, loaded, variables};
use super::{ptx_compiler, run_time_compilers};
use crate::api::entry_points::entry_points;
use crate::program::caller::set_runtime_version;

/// What each runtime defines, so that it is recognized by them.
const OF_EVERY_RUNTIME: [&str; 3] = ["__cudaRegisterFatBinary", "cudaLaunchKernel", "cudaMalloc"];
/// What only the runtime of CUDA 12 defines: CUDA 13 has the newer forms under the plain names.
const OF_CUDA_12: &str = "cudaGetDeviceProperties_v2";
/// Part of the names of the functions in which nvcc's host code registers the device code of a source file.
const REGISTERS: &str = "__sti____cudaRegisterAll";

/// Parts of the name of the variable that counts which objects of a program of several (`-rdc=true`) have registered theirs; the last one
/// registers all.
const COUNTS: [&str; 2] = ["__cudaRegisterLinkedBinary", "__i"];

/// The files that were looked at.
static KNOWN: LazyLock<Mutex<HashSet<(PathBuf, u64)>>> = LazyLock::new(Mutex::default);

/// Serves the runtimes of the files that were loaded since the last call.
pub(super) fn serve() {
    let new: Vec<Loaded> = {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        loaded().into_iter().filter(|file| known.insert((file.path.clone(), file.base))).collect()
    };
    for file in new {
        ptx_compiler::serve(&file);
        run_time_compilers::serve(&file);
        serve_file(&file);
    }
}

fn serve_file(file: &Loaded) {
    let is_wanted = |name: &[u8]| {
        let of_a_runtime = name.strip_prefix(b"__").unwrap_or(name).starts_with(b"cuda");
        of_a_runtime || contains(name, REGISTERS.as_bytes())
    };
    let all = functions(file, is_wanted);
    let ours: HashMap<&str, u64> = entry_points().map(|(row, _)| (row.name, row.address.0 as u64)).collect();
    let defines = |name: &str| all.iter().any(|function| function.name == name);
    let is_this_library =
        |function: &Symbol| ours.get(function.name.as_str()) == Some(&(file.base + function.address));
    if !OF_EVERY_RUNTIME.iter().all(|name| defines(name)) || all.iter().any(is_this_library) {
        return;
    }
    let jumps: Vec<(u64, u64)> = all
        .iter()
        .filter(|function| code::is_replaceable(function.size))
        .filter_map(|function| Some((file.base + function.address, *ours.get(function.name.as_str())?)))
        .collect();
    // SAFETY: the symbol table gives the functions and their sizes; functions of one name have one signature, that of the header. No thread
    // runs them: the file has just been loaded, and its constructors, which alone have run, are over.
    if unsafe { code::replace(&jumps) }.is_err() {
        // The runtime then asks for its tables, which is reported there.
        return;
    }
    set_runtime_version(if defines(OF_CUDA_12) { 12 } else { 13 });
    if file.path.as_os_str() == PROGRAM {
        // The program registers its device code when all libraries have been initialized.
        return;
    }
    // The constructors of a library may have run, and registered its device code with its own runtime. If they have not, they register the
    // same objects again, which changes nothing. Objects that are linked with each other are counted anew.
    let is_count = |name: &[u8]| COUNTS.iter().all(|part| contains(name, part.as_bytes()));
    for count in variables(file, is_count).iter().filter(|count| count.size == size_of::<i32>() as u64) {
        // SAFETY: a variable of the file of this size, which only the constructors use.
        unsafe { ((file.base + count.address) as *mut i32).write(0) };
    }
    for function in all.iter().filter(|function| function.name.contains(REGISTERS)) {
        // SAFETY: a constructor of the file, without parameters. It may run twice, since it only passes addresses of the file.
        unsafe {
            let register: extern "C" fn() = std::mem::transmute(file.base + function.address);
            register();
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
