//! `tests/programs/run.py` on a folder of small programs: one for each cause that its table has. The compiler is C's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use super::desk::{Desk, both_streams};
use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[(
    "a_folder_of_programs_becomes_a_table_by_cause",
    &[Need::Program("python3"), Need::Program("make"), Need::Program("cc"), Need::Program("nm")],
    a_folder_of_programs_becomes_a_table_by_cause,
)];

/// An nvcc that compiles C, and demands the options that keep PTX. With separate compilation it demands machine code beside the PTX,
/// without which nvlink of CUDA 13.0 links nothing.
const NVCC: &str = r#"#!/bin/sh
case "$*" in *-rdc=true*) code='[compute_121a,sm_121a]' ;; *) code='[compute_121a]' ;; esac
case "$*" in "-gencode arch=compute_121a,code=$code -lineinfo "*) ;; *) echo "error: $*"; exit 1 ;; esac
case "$*" in *sm_60*) echo "error: an architecture is left: $*"; exit 1 ;; esac
shift 3
for word in "$@"; do shift; [ "$word" = -rdc=true ] || set -- "$@" "$word"; done
exec cc -w -x c "$@" -lcuda
"#;

const MAKEFILE: &str = "main: main.cu\n\tnvcc -arch=sm_60 -gencode arch=compute_60,code=sm_60 main.cu -o main\nclean:\n\trm -f main\nrun: main\n\t./main 1\n";

/// A loop of a trillion rounds.
const LONG: &str = ".reg .b64 c; .reg .pred q; mov.u64 c, 0;\n$again: add.u64 c, c, 1; setp.lt.u64 q, c, 1000000000000; @q bra $again;\n st.global.u64 [p], c;";

/// A program that launches a kernel of this text over memory of 32 words.
fn program(ptx: &str, end: &str) -> String {
    let text = ptx.replace('\n', "\\n");
    format!(
        r#"#include <stdio.h>
static const char text[] = ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 to)\n{{ .reg .b64 p; .reg .b32 i; ld.param.u64 p, [to]; mov.u32 i, %tid.x; mad.wide.u32 p, i, 4, p; {text} ret; }}\n";
int main(void)
{{
    void *context, *module, *kernel;
    int device;
    unsigned long to;
    void* arguments[] = {{&to}};
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) return 2;
    if (cuModuleLoadData(&module, text) || cuModuleGetFunction(&kernel, module, "k") || cuMemAlloc_v2(&to, 128L)) return 3;
    cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, (void*)0, arguments, (void*)0);
    {end}
}}
"#
    )
}

fn run(folder: &Path, cuda: &Path, more: &[&str]) -> Output {
    of_suite(&mut Command::new("python3"), folder, cuda, more)
}

fn of_suite(python: &mut Command, folder: &Path, cuda: &Path, more: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/run.py");
    python.arg(script).arg(folder).args(["--probe", env!("CARGO_BIN_EXE_sm121probe"), "--cuda"]).arg(cuda);
    python.args(more).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap()
}

fn a_folder_of_programs_becomes_a_table_by_cause() {
    let desk = Desk::new();
    let (suite, cuda) = (desk.path("suite"), desk.path("cuda"));
    fs::create_dir_all(cuda.join("bin")).unwrap();
    fs::write(cuda.join("bin/nvcc"), NVCC).unwrap();
    fs::set_permissions(cuda.join("bin/nvcc"), fs::Permissions::from_mode(0o755)).unwrap();
    let store = "st.global.u32 [p], i;";
    for (name, source) in [
        ("drawn", format!("#include <GL/gl.h>\n{}", program(store, "return 0;"))),
        ("late", program(LONG, "return 0;")),
        ("odd", program("st.global.u32 [p+4], i;", "return 0;")),
        ("refused", program(store, "cuCoredumpGetAttribute(); return 0;")),
        ("right", program(store, "puts(\"0 failures\"); return 0;")),
        ("unbuilt", "int main(void) { return }\n".to_owned()),
        ("unchecked", "int main(void) { return 0; }\n".to_owned()),
        ("unequal", program(store, "puts(\"Test FAILED\"); return 0;")),
        ("unsuccessful", program(store, "return 5;")),
    ] {
        fs::create_dir_all(suite.join(name)).unwrap();
        fs::write(suite.join(name).join("main.cu"), source).unwrap();
        let separate = MAKEFILE.replace("-arch=sm_60", "-rdc=true -arch=sm_60");
        fs::write(suite.join(name).join("Makefile"), if name == "odd" { &separate } else { MAKEFILE })
            .unwrap();
    }
    let json = desk.path("results.json");
    let output = run(&suite, &cuda, &["--limit", "6", "--json", json.to_str().unwrap()]);
    let text = both_streams(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.starts_with("8 of 8 programs, seed 0; 1 with graphics are left out"), "{text}");
    let results: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    for (name, cause, why) in [
        ("late", "too slow", "warp instructions"),
        ("odd", "finding", "out_of_bounds"),
        ("refused", "refused", "cuCoredumpGetAttribute"),
        ("right", "pass", ""),
        ("unbuilt", "build failed", "error"),
        ("unchecked", "nothing checked", "did not use"),
        ("unequal", "wrong", "Test FAILED"),
        ("unsuccessful", "failed", "exit code 2"),
    ] {
        let result = &results["programs"][name];
        assert_eq!(result["cause"], cause, "{name}: {result}");
        assert!(result["why"].to_string().contains(why), "{name}: {result}");
        assert!(text.contains(&format!("| {cause} | 1 | {name} |")), "{name}: {text}");
    }
    // The seed decides what is drawn; results that are there are not computed again.
    let drawn =
        |seed: &str| both_streams(&run(&suite, &cuda, &["--filter", "^u", "--count", "1", "--seed", seed]));
    assert!(drawn("1").starts_with("1 of 4 programs, seed 1;") && drawn("1") == drawn("1"));
    let output = run(&suite, &cuda, &["--filter", "right", "--json", json.to_str().unwrap()]);
    assert_eq!((output.status.code(), both_streams(&output).contains("right: pass")), (Some(0), false));
    for (folder, code, part) in
        [(desk.path("nothing"), 2, "is no folder"), (cuda.clone(), 2, "no program in")]
    {
        let output = run(&folder, &cuda, &[]);
        assert_eq!(output.status.code(), Some(code));
        assert!(both_streams(&output).contains(part), "{}", both_streams(&output));
    }

    // Without what builds them no program is tried. The interpreter itself may be found by a script that needs PATH.
    fs::create_dir_all(desk.path("cmake/one")).unwrap();
    fs::write(desk.path("cmake/one/CMakeLists.txt"), "project(one LANGUAGES CXX CUDA)\n").unwrap();
    fs::write(desk.path("cmake/one/main.cu"), "int main() {}\n").unwrap();
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    for (folder, tool) in [(desk.path("cmake"), "cmake"), (suite, "make")] {
        let output = of_suite(Command::new(python.trim()).env("PATH", ""), &folder, &cuda, &[]);
        let text = both_streams(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(tool) && text.contains("nm not found"), "{text}");
    }
    // A command without its library builds nothing.
    let alone = desk.path("alone/sm121probe");
    fs::create_dir_all(desk.path("alone")).unwrap();
    fs::write(&alone, "").unwrap();
    let output = run(&desk.path("suite"), &cuda, &["--filter", "right", "--probe", alone.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(both_streams(&output).contains("no libsm121probe_cuda.so beside"), "{}", both_streams(&output));
}
