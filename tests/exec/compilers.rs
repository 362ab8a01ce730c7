//! Programs that are linked with nvJitLink, and programs that run a ptxas by its path, as nvcc does: both get machine code, and `exec` finds
//! its PTX. The compilers are C programs with the interface of the real ones.

use std::ffi::{CString, c_void};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::api::{Api, call};
use super::static_runtime::build;
use super::told;

/// A nvJitLink whose result is no code; names carry the version, and one function of the header has none.
const LINKER: &str = r#"
#include <stddef.h>
#include <string.h>
int __nvJitLinkCreate_13_5(void** h, unsigned n, const char** options) { *h = (void*)"link"; return n == 1 && options ? 0 : 4; }
int __nvJitLinkDestroy_13_5(void** h) { *h = NULL; return 0; }
int __nvJitLinkAddData_13_5(void* h, int kind, const void* data, size_t n, const char* name) { return h && data && n && name && kind == 2 ? 0 : 4; }
int __nvJitLinkAddFile_13_5(void* h, int kind, const char* name) { return h && name && kind == 2 ? 0 : 4; }
int __nvJitLinkComplete_13_5(void* h) { return h ? 0 : 4; }
int __nvJitLinkGetLinkedCubinSize_13_5(void* h, size_t* n) { *n = 4; return h ? 0 : 4; }
int __nvJitLinkGetLinkedCubin_13_5(void* h, void* to) { memcpy(to, "code", 4); return h ? 0 : 4; }
int nvJitLinkVersion(unsigned* major, unsigned* minor) { *major = 13; *minor = 5; return 0; }
"#;

/// Links two texts, and launches a kernel of the result.
const LINKS: &str = r#"
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
int __nvJitLinkCreate_13_5(void**, unsigned, const char**);
int __nvJitLinkDestroy_13_5(void**);
int __nvJitLinkAddData_13_5(void*, int, const void*, size_t, const char*);
int __nvJitLinkAddFile_13_5(void*, int, const char*);
int __nvJitLinkComplete_13_5(void*);
int __nvJitLinkGetLinkedCubinSize_13_5(void*, size_t*);
int __nvJitLinkGetLinkedCubin_13_5(void*, void*);
int nvJitLinkVersion(unsigned*, unsigned*);
#define HEAD ".version 8.7\n.target sm_120\n.address_size 64\n"
static const char user[] = HEAD ".extern .func f();\n.visible .entry k() { call.uni f; ret; }\n";
static const char owner[] = HEAD ".visible .func f() { ret; }\n";
/// A pointer to a function, which the linker stores as data.
int (*volatile complete)(void*) = __nvJitLinkComplete_13_5;
int main(int count, char** names)
{
    void *link, *module, *kernel, *context, *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    const char* options[] = {"-arch=sm_121"};
    unsigned major, minor;
    size_t n;
    int device;
    if (count != 2 || nvJitLinkVersion(&major, &minor) || major != 13) return 9;
    if (__nvJitLinkCreate_13_5(&link, 1, options) || __nvJitLinkAddData_13_5(link, 2, user, sizeof user, "user")) return 8;
    if (__nvJitLinkAddFile_13_5(link, 2, names[1]) || complete(link) || __nvJitLinkGetLinkedCubinSize_13_5(link, &n)) return 7;
    char* code = malloc(n);
    if (__nvJitLinkGetLinkedCubin_13_5(link, code) || __nvJitLinkDestroy_13_5(&link)) return 6;
#define CALL(name, ...) if (((int (*)())dlsym(cuda, #name))(__VA_ARGS__)) { puts(#name); return 3; }
    CALL(cuInit, 0) CALL(cuDeviceGet, &device, 0) CALL(cuDevicePrimaryCtxRetain, &context, device) CALL(cuCtxSetCurrent, context)
    CALL(cuModuleLoadData, &module, code) CALL(cuModuleGetFunction, &kernel, module, "k")
    CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, (void*)0, (void*)0, (void*)0)
    return 0;
}
"#;

#[test]
fn what_a_program_links_by_nvjitlink_is_the_ptx() {
    let folder = tempfile::tempdir().unwrap();
    let library = ["-shared", "-fPIC", "-Wl,-soname,libnvJitLink.so.13"];
    build(folder.path(), "libnvJitLink.so.13", LINKER, &library);
    symlink("libnvJitLink.so.13", folder.path().join("libnvJitLink.so")).unwrap();
    let owner = folder.path().join("owner.ptx");
    fs::write(&owner, ".version 8.7\n.target sm_120\n.address_size 64\n.visible .func f() { ret; }\n")
        .unwrap();
    let search = format!("-L{}", folder.path().display());
    for (name, how) in [
        ("lazily", &["-Wl,-z,lazy"][..]),
        ("at_once", &["-Wl,-z,now", "-Wl,-z,relro", "-pie", "-fPIE"]),
        ("by_address", &["-fno-plt"]),
    ] {
        let options = [how, &[&search, "-lnvJitLink", "-ldl", "-std=gnu11", "-w"]].concat();
        let program = build(folder.path(), name, LINKS, &options);
        let mut exec = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
        exec.args(["exec", "--"]).args([&program, &owner]).env("LD_LIBRARY_PATH", folder.path());
        let output = exec.output().unwrap();
        let text = told(&output);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{name}: {text}{}",
            String::from_utf8_lossy(&output.stdout)
        );
        assert!(text.contains("k: 1 launch,"), "{name}: {text}");
    }
}

/// A ptxas that writes machine code which does not depend on the text, but for a number in it; it refuses what contains `wrong`.
const PTXAS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char text[1 << 16], code[1 << 20];
int main(int count, char** words)
{
    if (count != 5 || strcmp(words[3], "-o")) return 9;
    FILE *in = fopen(words[2], "rb"), *model = fopen(getenv("MODEL"), "rb");
    if (!in || !model) return 8;
    fread(text, 1, sizeof text - 1, in);
    if (strstr(text, "wrong")) { fputs("ptxas fatal: wrong\n", stderr); return 1; }
    size_t n = fread(code, 1, sizeof code, model);
    code[n - 1] = strlen(text) % 255 + 1;
    FILE* out = fopen(words[4], "wb");
    fwrite(code, 1, n, out);
    return fclose(out);
}
"#;

/// The PTX of a kernel that does nothing; the comment makes texts of different lengths.
fn text(kernel: &str, comment: &str) -> String {
    format!(
        ".version 8.7\n.target sm_120\n.address_size 64\n// {comment}\n.visible .entry {kernel}() {{ ret; }}\n"
    )
}

/// Assembles a text by the ptxas of the test; returns the machine code, or what an earlier call has written.
fn assembled(text: &str) -> (bool, Vec<u8>) {
    let folder = PathBuf::from(std::env::var_os("ASSEMBLER_FOLDER").unwrap());
    let (input, output) = (folder.join("k.ptx"), folder.join("k.cubin"));
    fs::write(&input, text).unwrap();
    let mut ptxas = Command::new(folder.join("bin/ptxas"));
    let status = ptxas.arg("-arch=sm_121a").arg(&input).arg("-o").arg(&output).status().unwrap();
    (status.success(), fs::read(&output).unwrap())
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_runs_a_ptxas() {
    let api = Api::open("libcuda.so.1");
    api.enter();
    let (first, second) = (assembled(&text("first", "")), assembled(&text("second", "longer")));
    // The output of the call before is not the machine code of a text that ptxas refuses.
    let refused = assembled(&text("wrong", ""));
    assert_eq!((first.0, second.0, refused.0), (true, true, false));
    assert!(first.1.starts_with(b"\x7fELF") && first.1 != second.1 && refused.1 == second.1);
    let kernel = |code: &[u8], name: &str| {
        let (mut module, mut kernel, name) = (0u64, 0u64, CString::new(name).unwrap());
        let at = code.as_ptr().cast::<c_void>();
        let loaded = call!(api, "cuModuleLoadData", &raw mut module => *mut u64, at => *const c_void);
        let found = call!(
            api, "cuModuleGetFunction", &raw mut kernel => *mut u64, module => u64, name.as_ptr() => *const i8,
        );
        ((loaded, found), kernel)
    };
    for (code, name) in [(&first.1, "first"), (&second.1, "second"), (&refused.1, "second")] {
        let (found, kernel) = kernel(code, name);
        assert_eq!((found, api.launch(kernel, 1, 0, &[])), ((0, 0), 0), "{name}");
    }
    // Machine code that nobody has assembled here.
    let mut other = first.1;
    *other.last_mut().unwrap() = 0;
    assert_eq!(kernel(&other, "first").0.0, 209);
}

#[test]
fn machine_code_of_a_ptxas_that_is_run_by_its_path_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    build(&bin, "ptxas", PTXAS, &["-w"]);
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/product/audit_bodies/sm_121a.cubin");
    let environment = [("ASSEMBLER_FOLDER", folder.path()), ("MODEL", &model)];
    let output = super::exec_with(&[], "compilers::program_that_runs_a_ptxas", &environment);
    let (own, text) = (String::from_utf8_lossy(&output.stdout), told(&output));
    // What has no PTX is refused.
    assert_eq!(output.status.code(), Some(4), "{text}{own}");
    assert!(own.contains("test result: ok. 1 passed"), "{text}{own}");
    assert!(text.contains("first: 1 launch,") && text.contains("second: 2 launches,"), "{text}");
}
