//! `emulate` of CUDA C++ as people have it: headers of their own and of CUDA, macros, a standard, several kernels.

use std::fs;
use std::process::Command;

use super::desk::{Desk, both_streams};
use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    (
        "headers_macros_and_a_standard_are_passed_on",
        &[Need::Nvrtc],
        headers_macros_and_a_standard_are_passed_on,
    ),
    ("a_header_that_is_not_found_is_named", &[Need::Nvrtc], a_header_that_is_not_found_is_named),
    ("launch_files_link_translation_units", &[Need::Nvrtc], launch_files_link_translation_units),
    ("kernels_of_files_are_checked_on_devices", &[Need::Nvrtc], kernels_of_files_are_checked_on_devices),
];

fn emulate(desk: &Desk, code: i32, args: &[&str]) -> String {
    probe(desk, code, &[&["emulate"], args].concat())
}

fn probe(desk: &Desk, code: i32, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    command.args(args).current_dir(desk.dir.path()).env_remove("CUDA_PATH");
    let output = command.env("CUDA_HOME", desk.path("cuda")).output().unwrap();
    let all = both_streams(&output);
    assert_eq!(output.status.code(), Some(code), "{all}");
    all
}

fn headers_macros_and_a_standard_are_passed_on() {
    let desk = Desk::new();
    for folder in ["own", "cuda/include"] {
        fs::create_dir_all(desk.path(folder)).unwrap();
    }
    fs::write(desk.path("own/factor.h"), "constexpr int factor = FACTOR;\n").unwrap();
    // What a CUDA toolkit has, beside a header of it.
    fs::write(desk.path("cuda/include/cuda_runtime.h"), "\n").unwrap();
    fs::write(desk.path("cuda/include/of_cuda.h"), "constexpr int more = 1;\n").unwrap();
    let text = "#include \"factor.h\"\n#include <of_cuda.h>\ntemplate <class T> concept Any = true;\n\
                extern \"C\" __global__ void k(int* y) { y[threadIdx.x] = threadIdx.x * factor + more; }\n";
    fs::write(desk.path("k.cu"), text).unwrap();
    let args =
        ["k.cu", "--block", "4", "--arg", "out:y=s32[4]", "-I", "own", "-D", "FACTOR=10", "--std", "c++20"];
    assert!(emulate(&desk, 0, &args).contains("1 11 21 31"));
    // The same from a launch file; a header that changes is read again.
    fs::write(desk.path("own/factor.h"), "constexpr int factor = 2 * FACTOR;\n").unwrap();
    let session = "modules:\n  m: {file: k.cu, include: [own], define: [FACTOR=10], std: c++20}\nbuffers:\n  y:\n    type: s32\n    shape: 4\n\
                   \x20   expect: {values: [1, 21, 41, 61]}\nlaunches:\n- block: 4\n  args: [{buffer: y}]\n";
    fs::write(desk.path("k.yaml"), session).unwrap();
    assert!(emulate(&desk, 0, &["k.yaml"]).contains("4 elements as expected"));
    fs::write(desk.path("k.yaml"), session.replace("k.cu", "k.ptx")).unwrap();
    let text = emulate(&desk, 2, &["k.yaml"]);
    assert!(text.contains("`include` is for .cu files"), "{text}");
    assert!(emulate(&desk, 2, &["k.yaml", "-I", "own"]).contains("--include"));
}

fn a_header_that_is_not_found_is_named() {
    let desk = Desk::new();
    fs::write(desk.path("k.cu"), "#include <nowhere.h>\nextern \"C\" __global__ void k() {}\n").unwrap();
    let text = emulate(&desk, 2, &["k.cu"]);
    assert!(
        text.contains("`nowhere.h` is in no folder that was searched: name its folder with `-I DIR`"),
        "{text}"
    );
}

/// Two translation units: one has a macro, the other a device function; and a launch file.
fn linked_units(desk: &Desk) -> String {
    let kernel = "__device__ int twice(int);\n\
                  extern \"C\" __global__ void k(int* y) { y[threadIdx.x] = twice(threadIdx.x) + ONE; }\n";
    fs::write(desk.path("a.cu"), kernel).unwrap();
    fs::write(desk.path("b.cu"), "__device__ int twice(int x) { return 2 * x; }\n").unwrap();
    let session = "modules:\n  m: {file: a.cu, units: [b.cu], define: [ONE=1]}\nbuffers:\n  y: {type: s32, shape: 4, expect: {values: [1, 3, 5, \
                   7]}}\nlaunches:\n- block: 4\n  args: [{buffer: y}]\n";
    fs::write(desk.path("ab.yaml"), session).unwrap();
    session.to_owned()
}

fn launch_files_link_translation_units() {
    let desk = Desk::new();
    let session = linked_units(&desk);
    assert!(emulate(&desk, 0, &["ab.yaml"]).contains("4 elements as expected"));
    // Options of the compiler are for those units that are compiled.
    let twice = ".version 8.7\n.target sm_121a\n.address_size 64\n.visible .func (.param .b32 r) _Z5twicei(.param .b32 x) {\n.reg .b32 \
                 a;\nld.param.b32 a, [x];\nadd.s32 a, a, a;\nst.param.b32 [r], a;\nret;\n}\n";
    fs::write(desk.path("b.ptx"), twice).unwrap();
    fs::write(desk.path("ab.yaml"), session.replace("b.cu", "b.ptx")).unwrap();
    assert!(emulate(&desk, 0, &["ab.yaml"]).contains("4 elements as expected"));
    fs::write(desk.path("ab.yaml"), session.replace("units: [b.cu], ", "")).unwrap();
    let text = emulate(&desk, 4, &["ab.yaml"]);
    assert!(text.contains("`_Z5twicei` is declared but has no body"), "{text}");
    fs::write(desk.path("ab.yaml"), session.replace("file: a.cu", "triton: here")).unwrap();
    let text = emulate(&desk, 2, &["ab.yaml"]);
    assert!(text.contains("a module is a `file` with its `units`"), "{text}");
}

fn kernels_of_files_are_checked_on_devices() {
    let desk = Desk::new();
    let session = linked_units(&desk);
    let simulated = ["exec", "--", env!("CARGO_BIN_EXE_sm121probe")];
    let on_gpu =
        |code, args: &[&str]| probe(&desk, code, &[&simulated, args, &["--device", "gpu:0"]].concat());
    let units = ["run", "a.cu", "b.cu", "-D", "ONE=1", "--block", "4", "--arg", "out:y=s32[4]"];
    let text = probe(&desk, 0, &units);
    assert!(text.contains("1 loads, 1 runs, 1 deterministic"), "{text}");
    let text = on_gpu(0, &units);
    assert!(text.contains("1 loads, 1 runs, 1 correct, 1 deterministic, 1 graph"), "{text}");
    let text = probe(&desk, 0, &["run", "ab.yaml"]);
    assert!(text.contains("1 loads, 1 runs, 1 correct, 1 deterministic"), "{text}");
    fs::write(desk.path("ab.yaml"), session.replace("5, 7", "5, 8")).unwrap();
    let text = probe(&desk, 100, &["run", "ab.yaml"]);
    assert!(text.contains("correct fail: y: 1 of 4 elements wrong"), "{text}");
    // A kernel without a barrier that it needs is wrong whatever a GPU makes of it.
    let race = "extern \"C\" __global__ void k(int* y) {\n__shared__ int s[64];\ns[threadIdx.x] = threadIdx.x;\n\
                y[threadIdx.x] = s[63 - threadIdx.x];\n}\n";
    fs::write(desk.path("race.cu"), race).unwrap();
    let raced = ["run", "race.cu", "--block", "64", "--arg", "out:y=s32[64]"];
    let text = probe(&desk, 100, &raced);
    assert!(text.contains("race.cu runs fail: race"), "{text}");
    let text = on_gpu(100, &raced);
    assert!(text.contains("race.cu correct fail: race"), "{text}");
    // Options of a launch belong to a file.
    let text = probe(&desk, 2, &["run", "--grid", "4"]);
    assert!(text.contains("--grid says how a file is launched, and no file is named"), "{text}");
    // One file is compiled with the same options for a comparison of machine code.
    let text = probe(&desk, 2, &["bisect", "a.cu", "-D", "ONE="]);
    assert!(text.contains("a.cu"), "{text}");
}
