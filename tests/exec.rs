//! `exec`: programs over cudarc, which loads `libcuda.so.1` at run time, on the simulated GPU. This test is such a program, too: `exec` starts
//! it again with one of the ignored tests.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(unsafe_code, reason = "cudarc cannot check a launch")]

use std::process::{Command, Output};

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// Doubles `n` words; with `wide`, one thread more than there are words.
const DOUBLE: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .entry double(.param .u64 buffer)
{
    .reg .b64 p; .reg .b32 i, x;
    ld.param.u64 p, [buffer];
    mov.u32 i, %tid.x;
    mad.wide.u32 p, i, 4, p;
    ld.global.u32 x, [p];
    add.u32 x, x, x;
    st.global.u32 [p], x;
    ret;
}";

fn double(threads: u32) -> Result<Vec<u32>, cudarc::driver::DriverError> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let kernel = context.load_module(Ptx::from_src(DOUBLE))?.load_function("double")?;
    let mut words = stream.clone_htod(&[1u32, 2, 3, 4])?;
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut words);
    // SAFETY: the kernel takes one pointer; what lies outside of the buffer is what the test is about.
    unsafe { launch.launch(config) }?;
    stream.clone_dtoh(&words)
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_conforms() {
    assert_eq!(double(4).unwrap(), [2, 4, 6, 8]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_reads_past_the_end() {
    let error = double(5).unwrap_err();
    assert!(error.to_string().contains("ILLEGAL_ADDRESS"), "{error}");
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_is_killed() {
    assert_eq!(double(4).unwrap(), [2, 4, 6, 8]);
    std::process::abort();
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_fails() {
    assert_eq!(double(4).unwrap(), [1, 2, 3, 4]);
}

fn exec(options: &[&str], program: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sm121probe"))
        .arg("exec")
        .args(options)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", program])
        .output()
        .unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_legal_program_passes_with_its_own_exit_code() {
    let output = exec(&[], "program_that_conforms");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains("double: 1 launches, 7 warp instructions\n"), "{}", told(&output));
    let output = exec(&["--schedules", "3", "--gpu", "rtx5090"], "program_that_conforms");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let output = exec(&[], "program_that_fails");
    assert_eq!(output.status.code(), Some(101), "{}", told(&output));
}

#[test]
fn a_violation_is_named_with_kernel_rule_and_thread_and_gives_100() {
    let output = exec(&["--format", "json"], "program_that_reads_past_the_end");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(100), "{text}");
    assert!(
        text.contains("\"rule\": \"out_of_bounds\"") && text.contains("\"kernel\": \"double\""),
        "{text}"
    );
    assert!(text.contains("\"lane\": 4"), "{text}");
    for (format, part) in [
        ("sarif", "\"ruleId\": \"out_of_bounds\""),
        ("junit", "<failure type=\"violation\""),
        ("md", "## Violations"),
    ] {
        let text = told(&exec(&["--format", format], "program_that_reads_past_the_end"));
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_program_that_is_killed_leaves_its_report() {
    let output = exec(&[], "program_that_is_killed");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(128 + 6), "{text}");
    assert!(text.contains("double: 1 launches") && text.contains("1 of 1 processes crashed"), "{text}");
}

#[test]
fn what_cannot_be_run_is_said() {
    let run = |program: &str| {
        Command::new(env!("CARGO_BIN_EXE_sm121probe")).args(["exec", "--", program]).output().unwrap()
    };
    let output = run("/no/such/program");
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("cannot be started"), "{}", told(&output));
    let output = run("true");
    assert_eq!(output.status.code(), Some(0));
    assert!(told(&output).contains("did not use the simulated GPU"), "{}", told(&output));
}
