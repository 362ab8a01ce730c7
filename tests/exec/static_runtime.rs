//! Programs that contain a CUDA runtime: a C program whose own functions of these names refuse everything, as the static runtime's do
//! without NVIDIA's driver. `exec` must serve it, whether the runtime is in the program, in a library that it is linked with, or in one
//! that it loads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The runtime of the program: each function is longer than a jump, and would fail the program.
const RUNTIME: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#define HIDDEN __attribute__((visibility("hidden"), noipa))
typedef struct { unsigned x, y, z; } dim3;
static int refused(const char* name) { fprintf(stderr, "the program's own %s ran\n", name); return 999; }
HIDDEN int cudaMalloc(void** to, size_t n) { *to = malloc(n); return refused("cudaMalloc"); }
HIDDEN int cudaMemcpy(void* to, const void* from, size_t n, int kind) { return to && from && n && kind ? refused("cudaMemcpy") : 1; }
HIDDEN int cudaLaunchKernel(const void* f, dim3 g, dim3 b, void** a, size_t s, void* t) { return f && a && g.x + b.x + s && !t ? refused("cudaLaunchKernel") : 1; }
HIDDEN void** __cudaRegisterFatBinary(void* of) { return refused("__cudaRegisterFatBinary") ? (void**)of : NULL; }
HIDDEN void __cudaRegisterFatBinaryEnd(void** of) { if (of) refused("__cudaRegisterFatBinaryEnd"); }
HIDDEN void __cudaRegisterFunction(void** of, const char* host, char* device, const char* name, int limit, void* tid, void* bid, void* block, void* grid, int* warp)
{ if (of && host && device && name && limit && !tid && !bid && !block && !grid && !warp) refused("__cudaRegisterFunction"); }
"#;

/// What nvcc's host code does, and a function that runs the kernel.
const USER: &str = r#"
static const char code[] __attribute__((section(".nv_fatbin"), used)) = ".version 8.7\n.target sm_120\n.address_size 64\n"
    ".visible .entry number(.param .u64 to)\n{\n.reg .b64 p;\n.reg .b32 i;\nld.param.u64 p, [to];\nmov.u32 i, %tid.x;\n"
    "mad.wide.u32 p, i, 4, p;\nst.global.u32 [p], i;\nret;\n}\n";
static struct { unsigned magic, version; const void* code; void* none; } wrapper = {0x466243B1, 1, code, NULL};
static void number(void) { }
__attribute__((constructor)) static void __sti____cudaRegisterAll(void)
{
    void** all = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(all, (const char*)number, (char*)"number", "number", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(all);
}
int run(void)
{
    unsigned *to = NULL, words[32] = {0};
    dim3 one = {1, 1, 1}, warp = {32, 1, 1};
    void* arguments[] = {&to};
    if (cudaMalloc((void**)&to, sizeof words)) return 2;
    if (cudaLaunchKernel((const void*)number, one, warp, arguments, 0, NULL)) return 3;
    if (cudaMemcpy(words, to, sizeof words, 2)) return 4;
    for (unsigned i = 0; i < 32; ++i) if (words[i] != i) return 5;
    puts("numbers are right");
    return 0;
}
"#;

/// What nvlink's host code does instead: the constructor of each object registers its own, and the last one all.
const LINKED_OBJECTS: &str = r#"
static int registered __asm__("_ZZL26__cudaRegisterLinkedBinaryE3__i");
static void (*callbacks[2])(void**);
static void __cudaRegisterLinkedBinary(void (*callback)(void**))
{
    if (registered > 1) abort();
    callbacks[registered++] = callback;
    if (registered == 2) {
        void** all = __cudaRegisterFatBinary(&wrapper);
        for (registered = 0; registered < 2; ++registered) callbacks[registered](all);
        __cudaRegisterFatBinaryEnd(all);
    }
}
static void first(void** all) { __cudaRegisterFunction(all, (const char*)number, (char*)"number", "number", -1, 0, 0, 0, 0, 0); }
static void second(void** all) { if (!all) fputs("no binary\n", stderr); }
__attribute__((constructor)) static void __sti____cudaRegisterAll_first(void) { __cudaRegisterLinkedBinary(first); }
__attribute__((constructor)) static void __sti____cudaRegisterAll_second(void) { __cudaRegisterLinkedBinary(second); }
"#;

const MAIN: &str = "int main(void) { return run(); }\n";
const LINKED: &str = "int run(void);\nint main(void) { return run(); }\n";
const LOADER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** names)
{
    void* library = count > 1 ? dlopen(names[1], RTLD_NOW) : NULL;
    if (!library) { puts(dlerror()); return 9; }
    int (*run)(void) = (int (*)(void))dlsym(library, "run");
    return run ? run() : 8;
}
"#;

/// Builds a C file with the machine's compiler.
pub(crate) fn build(folder: &Path, name: &str, text: &str, options: &[&str]) -> PathBuf {
    let (source, made) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text).unwrap();
    let output =
        Command::new("cc").arg("-O1").arg(&source).arg("-o").arg(&made).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    made
}

fn exec(program: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sm121probe")).args(["exec", "--"]).args(program).output().unwrap()
}

/// Runs a program, which must find the simulated GPU although it has a runtime of its own.
fn is_served(program: &[&Path], own_calls: usize) {
    let output = exec(program);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("numbers are right"), "{told}");
    assert!(told.contains("number: 1 launch,"), "{told}");
    assert_eq!(told.matches("the program's own").count(), own_calls, "{told}");
}

#[test]
fn a_runtime_in_the_program_or_in_its_libraries_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let program = build(at, "program", &format!("{RUNTIME}{USER}{MAIN}"), &[]);
    // Without `exec`, the runtime refuses.
    assert_eq!(Command::new(&program).output().unwrap().status.code(), Some(2));
    is_served(&[&program], 0);

    let library = build(at, "libnumbers.so", &format!("{RUNTIME}{USER}"), &["-shared", "-fPIC"]);
    let folder_option = format!("-Wl,-rpath,{}", at.display());
    let linked = build(at, "linked", LINKED, &[library.to_str().unwrap(), &folder_option]);
    // The constructor of a library may run before anything of it is replaced: it registers its kernels twice.
    is_served(&[&linked], 3);

    let loader = build(at, "loader", LOADER, &["-ldl"]);
    is_served(&[&loader, &library], 3);
    // A name without a folder is searched in those that the program names.
    let loader = build(at, "searching", LOADER, &["-ldl", &folder_option]);
    is_served(&[&loader, Path::new("libnumbers.so")], 3);
    let output = exec(&[&loader, Path::new("libnothing.so")]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code() == Some(9) && said.contains("libnothing.so: cannot open shared object file"),
        "{said}"
    );
}

#[test]
fn objects_of_a_library_that_is_loaded_late_are_registered_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (before, rest) = USER.split_once("__attribute__((constructor))").unwrap();
    let (_, run) = rest.split_once("int run(void)").unwrap();
    let user = format!("{RUNTIME}{before}{LINKED_OBJECTS}int run(void){run}");
    is_served(&[&build(at, "program", &format!("{user}{MAIN}"), &[])], 0);
    let library = build(at, "libobjects.so", &user, &["-shared", "-fPIC"]);
    is_served(&[&build(at, "loader", LOADER, &["-ldl"]), &library], 3);
}

#[test]
fn a_program_that_names_no_function_of_its_runtime_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "program", &format!("{RUNTIME}{USER}{MAIN}"), &["-s"]);
    let output = exec(&[&program]);
    let told = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_ne!(output.status.code(), Some(0));
    assert!(told.contains("stripped") && told.contains("-cudart shared"), "{told}");
}

/// A library with the functions of NVRTC: its machine code is no code, its PTX is that of a kernel.
const NVRTC: &str = r#"
#include <stddef.h>
#include <string.h>
static const char ptx[] = ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k() { ret; }\n";
int nvrtcGetPTXSize(void* program, size_t* size) { *size = sizeof ptx; return program ? 0 : 3; }
int nvrtcGetPTX(void* program, char* to) { memcpy(to, ptx, sizeof ptx); return program ? 0 : 3; }
int nvrtcGetCUBINSize(void* program, size_t* size) { *size = program == (void*)2 ? 0 : 5; return program ? 0 : 3; }
int nvrtcGetCUBIN(void* program, char* to) { memcpy(to, "\x7f" "ELF", 5); return program ? 0 : 3; }
"#;

/// Loads what NVRTC returns; programs are numbers: 1 has machine code, 2 has none, 0 is no program.
const COMPILES: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int count, char** names)
{
    void *nvrtc = dlopen(names[1], RTLD_NOW), *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*size)(void*, size_t*) = (int (*)(void*, size_t*))dlsym(nvrtc, "nvrtcGetCUBINSize");
    int (*get)(void*, char*) = (int (*)(void*, char*))dlsym(nvrtc, "nvrtcGetCUBIN");
    size_t n = 0;
    char code[4096] = {0};
    if (count < 2 || !size || !get) return 9;
    if (size(0, &n) != 3 || size((void*)2, &n) || n != 0) return 8;
    if (size((void*)1, &n) || n > sizeof code || get((void*)1, code) || strlen(code) + 1 != n) return 7;
    void *module, *kernel, *context;
    int device;
#define CALL(name, ...) if (((int (*)())dlsym(cuda, #name))(__VA_ARGS__)) { puts(#name); return 6; }
    CALL(cuInit, 0) CALL(cuDeviceGet, &device, 0) CALL(cuDevicePrimaryCtxRetain, &context, device) CALL(cuCtxSetCurrent, context)
    CALL(cuModuleLoadData, &module, code) CALL(cuModuleGetFunction, &kernel, module, "k")
    CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, (void*)0, (void*)0, (void*)0)
    return 0;
}
"#;

#[test]
fn machine_code_of_nvrtc_is_the_ptx_from_which_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let library = build(folder.path(), "libnvrtc.so.13", NVRTC, &["-shared", "-fPIC", "-x", "c"]);
    let program =
        build(folder.path(), "compiles", COMPILES, &["-ldl", "-std=gnu11", "-Wno-strict-prototypes"]);
    let output = exec(&[&program, &library]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&output.stdout));
    assert!(told.contains("k: 1 launch,"), "{told}");
}

/// A program with nvPTXCompiler inside, whose functions return what is no code.
const COMPILES_PTX: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define HIDDEN __attribute__((visibility("hidden"), noipa))
static int refused(const char* name) { fprintf(stderr, "the program's own %s ran\n", name); return 4; }
HIDDEN int nvPTXCompilerCreate(void** h, size_t n, const char* text) { *h = (void*)text; return refused("Create") + (int)(n & 1); }
HIDDEN int nvPTXCompilerDestroy(void** h) { *h = 0; return refused("Destroy"); }
HIDDEN int nvPTXCompilerCompile(void* h, int n, const char* const* options) { return refused("Compile") + (h && options ? n : 0); }
HIDDEN int nvPTXCompilerGetCompiledProgramSize(void* h, size_t* n) { *n = h ? 1 : 0; return refused("GetCompiledProgramSize"); }
HIDDEN int nvPTXCompilerGetCompiledProgram(void* h, void* to) { memset(to, h ? 1 : 0, 1); return refused("GetCompiledProgram"); }
HIDDEN int nvPTXCompilerGetErrorLogSize(void* h, size_t* n) { *n = h ? 1 : 0; return refused("GetErrorLogSize"); }
HIDDEN int nvPTXCompilerGetErrorLog(void* h, char* to) { memset(to, h ? 1 : 0, 1); return refused("GetErrorLog"); }
static const char text[] = ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k() { ret; }\n";
static const char wrong[] = ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k() { add.what; }\n";
int main(void)
{
    const char* options[] = {"--gpu-name=sm_121"};
    void *handle, *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    size_t n = 0;
    if (nvPTXCompilerCreate(&handle, sizeof wrong, wrong) || nvPTXCompilerCompile(handle, 1, options) != 3) return 9;
    if (nvPTXCompilerGetCompiledProgramSize(handle, &n) != 6 || nvPTXCompilerGetErrorLogSize(handle, &n) || n < 8) return 8;
    char* log = malloc(n + 1);
    if (nvPTXCompilerGetErrorLog(handle, log) || strlen(log) + 1 != n || nvPTXCompilerDestroy(&handle) || handle || nvPTXCompilerDestroy(&handle) != 1) return 7;
    puts(log);
    if (nvPTXCompilerCreate(&handle, sizeof text, text) || nvPTXCompilerGetCompiledProgramSize(handle, &n) != 6) return 6;
    const char* other[] = {"--gpu-name=sm_90"};
    if (nvPTXCompilerCompile(handle, 1, other) != 3) return 5;
    if (nvPTXCompilerCompile(handle, 1, options) || nvPTXCompilerGetCompiledProgramSize(handle, &n)) return 5;
    char* code = malloc(n);
    if (nvPTXCompilerGetCompiledProgram(handle, code) || nvPTXCompilerDestroy(&handle)) return 4;
    void *module, *kernel, *context;
    int device;
#define CALL(name, ...) if (((int (*)())dlsym(cuda, #name))(__VA_ARGS__)) { puts(#name); return 3; }
    CALL(cuInit, 0) CALL(cuDeviceGet, &device, 0) CALL(cuDevicePrimaryCtxRetain, &context, device) CALL(cuCtxSetCurrent, context)
    CALL(cuModuleLoadData, &module, code) CALL(cuModuleGetFunction, &kernel, module, "k")
    CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, (void*)0, (void*)0, (void*)0)
    return 0;
}
"#;

#[test]
fn what_nvptxcompiler_compiles_is_the_ptx() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-ldl", "-std=gnu11", "-Wno-strict-prototypes"];
    let program = build(folder.path(), "compiles_ptx", COMPILES_PTX, &options);
    // Without `exec`, the compiler runs.
    assert_eq!(Command::new(&program).output().unwrap().status.code(), Some(9));
    let output = exec(&[&program]);
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    assert!(told.contains("k: 1 launch,") && !told.contains("the program's own"), "{told}");
    assert!(said.contains("add.what"), "{said}");
}
