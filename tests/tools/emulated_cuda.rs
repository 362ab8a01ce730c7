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
];

fn emulate(desk: &Desk, code: i32, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    command.arg("emulate").args(args).current_dir(desk.dir.path()).env_remove("CUDA_PATH");
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
