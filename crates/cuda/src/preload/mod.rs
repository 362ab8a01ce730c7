//! What the library does as the first one that a process loads (`LD_PRELOAD`): functions that the program would find elsewhere lead here.
//!
//! A program that is linked with the static CUDA runtime, nvcc's default, has the runtime's functions inside. `static_runtime.rs` finds them
//! by the symbol table of the file, and writes a jump to the function of this library over the beginning of each (`code.rs`): in the program
//! and the libraries that it is linked with before anything of the program runs, and in a library that is loaded later as soon as it is
//! loaded (`loading.rs`). `objects.rs` lists what is loaded.
//!
//! nvPTXCompiler is static as well, and served in the same way (`ptx_compiler.rs`).
//!
//! A run-time compiler, NVRTC or nvJitLink, returns machine code. It has the PTX too: `run_time_compilers.rs` returns that instead, as
//! `exec`'s ptxas does. Those libraries are found by name, so that `loading.rs` answers for them; in a file that is linked with nvJitLink,
//! whose names differ from version to version, the addresses of its functions are replaced (`imports.rs`). `crate::program::linker` has the
//! functions of C that stand behind.
//!
//! In the process of a ptxas, `assembler.rs` keeps the PTX of what it assembles.
#![expect(unsafe_code, reason = "a constructor")]

mod assembler;
mod code;
mod imports;
mod loading;
mod objects;
mod ptx_compiler;
mod run_time_compilers;
mod static_runtime;

/// What the dynamic linker calls after it has initialized the libraries that this one needs, and before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // Otherwise the program loads the library itself, in a call of its own runtime, which cannot be replaced any more.
    if loading::is_preloaded() {
        static_runtime::serve();
        assembler::begin();
    }
}
