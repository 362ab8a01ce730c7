//! `exec`: programs that use cudarc, which loads `libcuda.so.1` at run time, on the simulated GPU. This test binary is such a program:
//! `exec` starts it again with one of the ignored tests.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(unsafe_code, reason = "cudarc cannot check a launch")]

mod addresses;
mod advice;
mod api;
mod assembler;
mod blas;
mod blas_lt;
mod calls;
mod compilers;
mod contexts;
mod contraction;
mod definedness;
mod doors;
mod ends;
mod fft;
#[expect(dead_code, reason = "the emulator's runner uses all of it")]
mod filetests;
mod gpus;
mod graphs;
mod limits;
mod memory;
mod rand;
mod record;
mod robustness;
mod separate;
mod sparse;
mod static_runtime;
mod stream_words;
mod textures;
mod trials;
mod virtual_memory;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// Doubles `n` words; with `wide`, launches one thread too many.
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
    // SAFETY: the kernel takes one pointer; the access outside the buffer is what the test plants.
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
    exec_with(options, program, &[])
}

/// Runs a program of this test with more environment variables.
fn exec_with(options: &[&str], program: &str, environment: &[(&str, &Path)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sm121probe"))
        .arg("exec")
        .args(options)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", program])
        .envs(environment.iter().copied())
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
    assert!(told(&output).contains("double: 1 launch, 7 warp instructions\n"), "{}", told(&output));
    let output = exec(&["--schedules", "3", "--gpu", "rtx5090"], "program_that_conforms");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = told(&output);
    assert!(text.contains("exec on rtx5090: 1 launch under 3 schedules each, no violation"), "{text}");
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
    assert!(text.contains("double: 1 launch") && text.contains("1 of 1 process crashed"), "{text}");
}

/// Runs a program whose own checks and whose launches must pass; returns its report.
fn passes(program: &str) -> String {
    passes_with(program, 0)
}

/// Runs a program that launches no kernel: its own checks pass, but `exec` has checked nothing and says so.
fn passes_without_a_launch(program: &str) -> String {
    let text = passes_with(program, 4);
    assert!(text.contains("NOTHING CHECKED: "), "{text}");
    text
}

fn passes_with(program: &str, code: i32) -> String {
    let output = exec(&[], program);
    let text = told(&output);
    let own = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{text}{own}");
    assert!(own.contains("test result: ok. 1 passed"), "{text}{own}");
    text
}

#[test]
fn contexts_are_needed_where_a_gpu_needs_them() {
    passes("contexts::program_of_contexts");
    passes_without_a_launch("contexts::program_of_both_apis");
}

#[test]
fn graphs_do_what_streams_would() {
    let text = passes("graphs::program_that_captures_a_fork_and_a_join");
    assert!(text.contains("add: 20 launches") && !text.contains("not supported"), "{text}");
    assert!(!text.contains("not freed"), "{text}");
    passes("graphs::program_that_builds_a_graph");
    passes_without_a_launch("graphs::program_whose_graphs_keep_objects");
    passes_without_a_launch("graphs::program_whose_captures_fail_as_they_should");
    let output = exec(&[], "graphs::program_with_a_violation_in_a_graph");
    assert_eq!(output.status.code(), Some(100), "{}", told(&output));
}

#[test]
fn conditional_nodes_of_graphs_run_the_bodies_that_kernels_choose() {
    let text = passes("graphs::program_with_conditional_nodes");
    assert!(text.contains("turn: 17 launches") && !text.contains("not supported"), "{text}");
    passes("graphs::program_that_captures_a_conditional_node");
    let text = passes_without_a_launch("graphs::program_that_misuses_conditional_nodes");
    assert!(text.contains("cuGraphClone is not supported by CUDA"), "{text}");
    let violated = |options: &[&str], program: &str, what: &str| {
        let output = exec(options, program);
        let text = told(&output);
        assert_eq!(output.status.code(), Some(100), "{text}");
        assert!(text.contains(what), "{text}");
    };
    violated(&[], "graphs::program_with_an_undefined_condition", "uninitialised: cuGraphLaunch: ");
    let fuel = ["--fuel", "1000"];
    violated(&fuel, "graphs::program_with_a_loop_without_end", "executed more warp instructions than --fuel");
    violated(&[], "graphs::program_with_a_loop_without_kernels", "has no end");
}

#[test]
fn memory_of_all_kinds_is_served() {
    let output = exec(&[], "memory::program_whose_kernel_uses_registered_host_memory");
    assert!(
        output.status.code() == Some(100) && told(&output).contains("out_of_bounds"),
        "{}",
        told(&output)
    );
    passes("memory::program_with_a_managed_variable");
    passes_without_a_launch("memory::program_of_cuda_12_that_copies_boxes");
    passes_without_a_launch("memory::program_of_cuda_13_that_copies_boxes");
    let text = passes_without_a_launch("memory::program_that_asks_for_functions_pools_and_peers");
    assert!(text.contains("not supported: cuIpcGetMemHandle"), "{text}");
}

fn replay(file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    command.arg("emulate").arg(file).args(["--judge", "values", "--contract", "off"]).output().unwrap()
}

/// The cases in a folder of recorded launches, in order.
fn cases(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        entries.map(|path| path.join("launch.yaml")).filter(|p| p.is_file()).collect();
    cases.sort();
    cases
}

#[test]
fn recorded_launches_replay_with_the_same_end() {
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, program: &str| {
        let folder = folder.path().join(name);
        let output = exec(&["--record", folder.to_str().unwrap()], program);
        (cases(&folder), output)
    };
    let (all, output) = record("legal", "record::program_with_pointers_in_memory");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(all.len(), 3);
    for case in &all {
        let output = replay(case);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            told(&output)
        );
    }
    // A result that differs from the recorded one is reported.
    let text = std::fs::read_to_string(&all[0]).unwrap();
    assert!(text.contains("\"unwritten\":[[0,8]") || text.contains("unwritten"), "{text}");
    std::fs::write(&all[0], text.replace("\"u32\":10", "\"u32\":11")).unwrap();
    let output = replay(&all[0]);
    assert_ne!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    // A violation is reproduced, at the same place.
    let (all, output) = record("violation", "program_that_reads_past_the_end");
    assert_eq!((output.status.code(), all.len()), (Some(100), 1));
    let output = replay(&all[0]);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), told(&output));
    assert_eq!(output.status.code(), Some(100), "{text}");
    assert!(text.contains("lane 4"), "{text}");
    // What a killed program has recorded is complete.
    let (all, output) = record("killed", "robustness::program_that_is_killed");
    assert_eq!((output.status.code(), all.len()), (Some(128 + 9), 1));
    let left = std::fs::read_dir(folder.path().join("killed")).unwrap().count();
    assert_eq!((replay(&all[0]).status.code(), left), (Some(0), 2));
}

#[test]
fn the_report_comes_whatever_the_program_does() {
    let text = passes("robustness::program_that_launches_often");
    assert!(text.contains("add: 20,000 launches, 160,000 warp instructions"), "{text}");
    let output = exec(&["--keep-going"], "robustness::program_that_violates_often");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(100), "{text}");
    assert!(text.contains("add: 1,000 launches") && text.contains("(1000 times)"), "{text}");
    assert_eq!(text.matches("out_of_bounds").count() + text.matches("out of bounds").count(), 2, "{text}");
    let output = exec(&[], "robustness::program_whose_kernels_share_a_heap");
    let text = told(&output);
    assert!(output.status.code() == Some(100) && text.contains("take: 3 launches"), "{text}");
    assert!(text.contains("use_after_free") && !text.contains("FAILED"), "{text}");
    passes("robustness::program_with_more_memory_than_the_machine");
    let text = passes("robustness::program_with_many_threads");
    assert!(text.contains("add: 800 launches") && !text.contains("not freed"), "{text}");
    let text = passes("robustness::program_that_forks");
    assert!(text.contains("add: 1 launch"), "{text}");
    let output = exec(&[], "robustness::program_that_uses_freed_memory");
    assert!(told(&output).contains("freed allocation"), "{}", told(&output));
    assert_eq!(output.status.code(), Some(100));
    let output = exec(&[], "robustness::program_that_is_killed");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(128 + 9), "{text}");
    assert!(
        text.contains("add: 1 launch") && text.contains("1 of 1 process crashed or was killed"),
        "{text}"
    );
}

#[test]
fn our_own_gpu_lane_passes() {
    let lane = |code: i32, arguments: &[&str]| {
        let own = env!("CARGO_BIN_EXE_sm121probe");
        let mut command = Command::new(own);
        command.args(["exec", "--", own]).args(arguments).args(["--device", "gpu:0"]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}{}", told(&output));
        text + &told(&output)
    };
    let text = lane(0, &["selftest", "--cases", "8"]);
    assert!(text.contains("0 fail, 0 unsupported"), "{text}");
    // One of the forms exists on no GPU: its module cannot be loaded.
    let text = lane(4, &["run", "--filter", "arith/*"]);
    assert!(text.contains("INCOMPLETE: a module cannot be loaded: line 24: `min.xorsign.abs.f32`"), "{text}");
    assert!(!text.contains("fail") || text.contains("0 fail"), "{text}");
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
    assert_eq!(output.status.code(), Some(4));
    assert!(told(&output).contains("did not use the simulated GPU"), "{}", told(&output));
}

/// Runs a program and returns its exit code and its report as JSON.
fn report(options: &[&str], program: &str) -> (i32, serde_json::Value) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let output = exec(&[options, &["--format", "json", "-o", path]].concat(), program);
    let own = String::from_utf8_lossy(&output.stdout);
    assert!(own.contains("test result: ok. 1 passed"), "{}{own}", told(&output));
    (output.status.code().unwrap(), serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

/// Rule, call, kernel and message of each violation.
fn violations(report: &serde_json::Value) -> Vec<[String; 4]> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["violations"].as_array().unwrap().iter();
    all.map(|v| ["rule", "call", "kernel", "message"].map(|key| text(&v[key]))).collect()
}

fn remarks(report: &serde_json::Value) -> Vec<String> {
    report["remarks"].as_array().unwrap().iter().map(|r| r.as_str().unwrap().to_owned()).collect()
}

#[test]
fn memory_that_is_not_there_is_an_error_and_a_violation() {
    for (program, rule) in [
        ("addresses::program_that_copies_to_freed_memory", "use_after_free"),
        ("addresses::program_that_copies_to_freed_shared_memory", "use_after_free"),
        ("addresses::program_that_copies_to_unknown_memory", "out_of_bounds"),
    ] {
        let (code, report) = report(&[], program);
        assert_eq!(code, 100);
        let all = violations(&report);
        let calls: std::collections::BTreeSet<&str> = all.iter().map(|v| v[1].as_str()).collect();
        for call in [
            "cuMemcpyHtoD_v2",
            "cuMemcpyDtoH_v2",
            "cuMemcpyDtoD_v2",
            "cuMemcpy",
            "cuMemcpyHtoDAsync_v2",
            "cuMemcpyDtoHAsync_v2",
            "cuMemcpyDtoDAsync_v2",
            "cuMemcpyAsync",
            "cudaMemcpy",
            "cudaMemcpyAsync",
            "cudaMemcpy2D",
            "cudaMemcpy3D",
            "cudaMemcpyPeer",
            "cuMemcpyBatchAsync_v2",
            "cudaMemset",
            "cuMemsetD16_v2",
            "cuMemsetD32Async",
            "cuMemsetD2D8_v2",
            "cuGraphLaunch",
        ] {
            assert!(calls.contains(call), "{call} in {calls:?}");
        }
        assert!(all.iter().all(|v| v[0] == rule && v[2].is_empty()), "{all:?}");
        assert_eq!(report["kernels"].as_object().unwrap().len(), 0);
    }
    for (format, part) in [
        ("junit", "classname=\"exec.calls\""),
        ("sarif", "it writes memory that is not there: 64 bytes"),
        ("md", "freed allocation"),
    ] {
        let text = told(&exec(&["--format", format], "addresses::program_that_copies_to_freed_memory"));
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn addresses_are_reused_and_shared_memory_stays_shared() {
    let text = passes("addresses::program_that_allocates_134_terabytes");
    assert!(text.contains("add: 8 launches") && !text.contains("violation:"), "{text}");
    for options in [&[][..], &["--schedules", "3"]] {
        let output = exec(options, "addresses::program_that_shares_memory_with_its_kernels");
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
}

#[test]
fn undefined_bytes_that_reach_the_host_are_reported_with_their_kernel() {
    let read = |program: &str, kernel: &str, call: &str, part: &str| {
        let (code, report) = report(&[], &format!("definedness::{program}"));
        let all = violations(&report);
        let found = all.iter().find(|v| v[1] == call && v[0] == "uninitialised" && v[2] == kernel);
        assert!(code == 100 && found.is_some_and(|v| v[3].contains(part)), "{code} {all:?}");
        (all, remarks(&report))
    };
    let copy = "cuMemcpyDtoH_v2";
    let part = "192 of 512 bytes to the host that are undefined, between bytes 64 and 255 of an allocation of 512 bytes; they come from \
                line 13 `ld.global.u32";
    let (_, all) = read("program_that_reads_what_a_kernel_computed_from_nothing", "twice", copy, part);
    assert!(
        all.len() == 1
            && all[0]
                .contains("256 of 512 bytes to the host that nothing has written, between bytes 256 and 511"),
        "{all:?}"
    );
    let part = "64 of 64 bytes to the host that are undefined, between bytes 512 and 719";
    read("program_that_moves_undefined_bytes_before_it_reads_them", "twice", "cudaMemcpy2D", part);
    read("program_whose_kernel_moves_data_that_nothing_wrote", "move", copy, "128 of 256 bytes");
    for program in ["program_that_reads_what_nothing_wrote", "program_that_reads_a_result_before_it_is_there"]
    {
        read(program, "", copy, "neither the host nor a kernel has ever written");
    }
    let (all, _) =
        read("program_that_sums_what_nothing_wrote", "sum", copy, "they come from line 45 `ld.shared.u32");
    // The atomic of the second CTA finds what the first one left, not a word that nobody wrote.
    let sum = all.iter().find(|v| v[1].is_empty()).unwrap();
    assert!(
        sum[3].contains("hold undefined bits") && sum[3].contains("they come from line 45 `ld.shared.u32"),
        "{sum:?}"
    );
}

#[test]
fn what_nobody_needs_is_a_remark() {
    let (code, all) = report(&[], "definedness::program_with_padding");
    assert!(code == 0 && violations(&all).is_empty(), "{all}");
    let all = remarks(&all);
    assert!(all.len() == 2 && all[0].contains("96 of 256 bytes") && all[0].contains("padding"), "{all:?}");
    assert!(
        all[1]
            .contains("3696 of 4096 bytes to the host that nothing has written, between bytes 400 and 4095"),
        "{all:?}"
    );
    let (code, all) = report(&[], "definedness::program_that_looks_at_memory_before_it_fills_it");
    let said = remarks(&all);
    assert!(
        code == 0 && said.len() == 1 && said[0].contains("the host fills it afterwards"),
        "{code} {said:?}"
    );
    let (code, all) = report(&[], "definedness::program_with_an_input_that_no_kernel_reads");
    assert_eq!(
        (code, remarks(&all)),
        (0, vec!["no kernel has read an allocation of 48 bytes that the host had filled".to_owned()])
    );
    let (_, all) = report(&[], "definedness::program_whose_kernel_leaves_undefined_bytes_in_managed_memory");
    let all = remarks(&all);
    assert!(
        all.len() == 1 && all[0].contains("that the host can read") && all[0].contains("kernel twice"),
        "{all:?}"
    );
    let (code, _) = report(&["--poison", "0xAB"], "definedness::program_that_reads_fresh_memory");
    assert_eq!(code, 0);
}

#[test]
fn a_launch_ends_at_its_limits() {
    let program = "ends::program_that_takes_hours";
    let output = exec(&["--time-limit", "0.5"], program);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("INCOMPLETE: a launch was ended by --time-limit: more than 0.5 s; "), "{text}");
    assert!(
        text.contains(
            " warp instructions so far; its only CTA has not ended, and 1 warp still runs; kernel long, PTX line "
        ),
        "{text}"
    );
    let output = exec(&["--fuel", "100000"], program);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(100), "{text}");
    assert!(
        text.contains("fuel: more than 100000 instructions; its only CTA has not ended, and 1 warp still runs; kernel long, PTX line"),
        "{text}"
    );
    for wrong in [["--time-limit", "0"], ["--poison", "256"], ["--poison", "0xG"]] {
        assert_eq!(exec(&wrong, program).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_loop_ends_as_a_deadlock_unless_the_host_can_end_it() {
    let (code, report) = report(&[], "ends::program_that_waits_for_nobody");
    let all = violations(&report);
    assert!(code == 100 && all.len() == 1 && all[0][0] == "deadlock", "{all:?}");
    let part = "warp 0 lanes 0xffffffff repeat a loop for ever at line 22 `ld.volatile.u32 %v, [%a];`, and no warp changes";
    assert!(all[0][3].contains(part), "{all:?}");
    passes("ends::program_whose_host_ends_a_loop");
}

#[test]
fn functions_call_themselves_within_the_stack_that_the_program_sets() {
    passes("calls::program_that_recurses");
    let (code, report) = report(&[], "calls::program_that_recurses_beyond_its_limit");
    let all = violations(&report);
    assert!(code == 100 && all.len() == 1 && all[0][0] == "out_of_bounds", "{all:?}");
    let part = "stack overflow: `sum_to` is called with 2056 bytes of frames, and a thread has 2048";
    assert!(all[0][3].contains(part) && all[0][3].contains("called by `sum_to` at line"), "{all:?}");
}

#[test]
fn what_cuda_refuses_is_refused() {
    let text = passes("limits::program_that_is_refused");
    assert!(text.contains("49168 bytes of dynamic shared memory; without cudaFuncSetAttribute"), "{text}");
    assert!(text.contains("of which 96 fit on the GPU at once"), "{text}");
    passes("limits::program_that_sets_limits");
    passes_without_a_launch("limits::program_that_calls_wrongly");
}

#[test]
fn a_trap_can_be_expected() {
    let run = |options: &[&str], program: &str| {
        let output = exec(options, &format!("ends::{program}"));
        (output.status.code(), told(&output))
    };
    let (code, text) = run(&[], "program_that_expects_a_trap");
    assert!(code == Some(100) && text.contains("violation: trap"), "{text}");
    let (code, text) = run(&["--expect-trap"], "program_that_expects_a_trap");
    assert!(code == Some(0) && text.contains("expected: trap") && text.contains("no violation"), "{text}");
    for (format, part) in [
        ("text", "no kernel trapped"),
        ("junit", "<failure"),
        ("sarif", "\"level\": \"error\""),
        ("md", "No kernel trapped"),
    ] {
        let (code, text) = run(&["--expect-trap", "--format", format], "program_without_a_trap");
        assert!(code == Some(100) && text.contains(part), "{text}");
    }
    // Another violation stays one.
    let output = exec(&["--expect-trap"], "program_that_reads_past_the_end");
    assert_eq!(output.status.code(), Some(100), "{}", told(&output));
}

/// Runs `exec -- PROGRAM`, or the program through a shell, until a kernel runs; sends `exec` a signal, and returns its exit code, its
/// report, and whether the program has gone.
fn signalled(signal: &str, shell: bool) -> (Option<i32>, String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let running = folder.path().join("running");
    let program = std::env::current_exe().unwrap();
    // Whoever runs the tests may ignore signals, as `nohup` does, and `exec` would then ignore them too.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_sm121probe"), "exec", "--"]);
    command.env("EXEC_RUNNING", &running).env("TMPDIR", folder.path());
    if shell {
        // The shell waits for the program, and would go on without it.
        command.args(["sh", "-c", "\"$0\" \"$@\"; exit 3"]);
    }
    command.arg(program).args(["--ignored", "--exact", "ends::program_that_takes_hours"]);
    let report = folder.path().join("report");
    let to = std::fs::File::create(&report).unwrap();
    let mut exec = command.stdout(Stdio::null()).stderr(to).spawn().unwrap();
    let wait = || std::thread::sleep(std::time::Duration::from_millis(20));
    let pid = loop {
        match std::fs::read_to_string(&running) {
            Ok(pid) if !pid.is_empty() => break pid,
            _ => wait(),
        }
    };
    // Until the launch has begun.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(Command::new("kill").args([signal, &exec.id().to_string()]).status().unwrap().success());
    let code = exec.wait().unwrap().code();
    // A program that has ended may stay in the list until whoever has adopted it takes note.
    let stat = Path::new("/proc").join(pid).join("stat");
    let runs = || std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z "));
    (0..250).take_while(|_| runs()).for_each(|_| wait());
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    if signal == "-KILL" {
        // The next run removes what a killed one has left.
        assert_eq!(files(), 3);
        let mut next = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
        next.args(["exec", "--", "true"]).env("TMPDIR", folder.path()).output().unwrap();
    }
    assert_eq!(files(), 2, "a temporary folder is left");
    (code, std::fs::read_to_string(report).unwrap(), !runs())
}

#[test]
fn a_signal_reaches_the_program_and_the_report_comes() {
    for (signal, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        let (code, text, gone) = signalled(signal, false);
        assert_eq!((code, gone), (Some(128 + number), true), "{text}");
        assert!(text.contains("a launch of long had not ended when its process was killed"), "{text}");
        assert!(text.contains("1 of 1 process crashed or was killed"), "{text}");
    }
    // The shell ends by the signal, and its child is not left behind.
    let (code, text, gone) = signalled("-TERM", true);
    assert_eq!((code, gone), (Some(128 + 15), true), "{text}");
    // If `exec` is killed, there is no report, but the program ends, too.
    let (code, _, gone) = signalled("-KILL", false);
    assert_eq!((code, gone), (None, true));
}

#[test]
fn objects_of_separate_compilation_are_linked() {
    let text = passes("separate::program_of_two_objects");
    assert!(text.contains("k: 1 launch"), "{text}");
    for (program, why) in [
        (
            "separate::program_with_two_definitions",
            "multiple definition of `calls` in object 3 of 3, first defined in object 2 of 3",
        ),
        ("separate::program_that_lacks_a_function", "`twice` is declared but has no body"),
    ] {
        let text = passes_without_a_launch(program);
        assert!(text.contains(why), "{text}");
    }
    let output = exec(&[], "separate::program_that_links");
    let text = told(&output);
    assert_eq!(output.status.code(), Some(4), "{text}{}", String::from_utf8_lossy(&output.stdout));
    assert!(text.contains("multiple definition of `calls` in two.ptx, first defined in one.ptx"), "{text}");
    assert!(text.contains("k: 1 launch"), "{text}");
    passes("separate::program_that_synchronizes_a_grid");
}

#[test]
fn arrays_textures_and_surfaces_are_served() {
    passes("textures::program_with_textures");
    for (program, rule, message) in [
        (
            "textures::program_that_writes_beside_a_surface",
            "out_of_bounds",
            "byte 16, row 0, slice 0 of a surface of 4 x 4 x 1 texels",
        ),
        ("textures::program_that_reads_what_it_wrote_to_a_surface", "race", "a non-coherent read"),
        (
            "textures::program_whose_texture_is_gone",
            "out_of_bounds",
            "is the handle of no texture or surface",
        ),
    ] {
        let (code, report) = report(&[], program);
        let all = violations(&report);
        assert_eq!(code, 100, "{all:?}");
        assert!(all.iter().any(|[found, .., what]| found == rule && what.contains(message)), "{all:?}");
    }
}

#[test]
fn virtual_memory_is_accessible_where_it_is_mapped() {
    let text = passes("virtual_memory::program_with_virtual_memory");
    assert!(!text.contains("not freed") && !text.contains("not supported"), "{text}");
    let (code, report) = report(&["--keep-going"], "virtual_memory::program_that_uses_what_is_not_mapped");
    let all = violations(&report);
    assert_eq!(code, 100, "{all:?}");
    let nothing = "lie in reserved addresses to which nothing is mapped (cuMemMap)";
    let barred = "lie in memory of GPU 0 that is mapped there, to which GPU 0 has no access (cuMemSetAccess)";
    for (kernel, call, part) in [
        ("bulk", "", "64 bytes"),
        ("reserved", "", nothing),
        ("barred", "", barred),
        ("", "cuMemcpyDtoH_v2", nothing),
        ("", "cuMemsetD32_v2", barred),
        ("", "cuMemsetD16_v2", "whose last ones lie in reserved addresses"),
        ("", "cuMemcpy", "freed allocation"),
    ] {
        let found = all.iter().any(|v| v[1] == call && v[2] == kernel && v[3].contains(part));
        assert!(found, "{kernel}{call}: {all:?}");
    }
    let text = passes_with("virtual_memory::program_that_asks_for_what_is_not_served", 4);
    for part in [
        "cuMemMap: the memory is mapped already",
        "cuMemSetAccess: access for reading alone",
        "cuMemExportToShareableHandle: ",
        "cuMemCreate: memory cannot be exported",
        "cuIpcGetMemHandle: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn several_gpus_have_their_own_memory() {
    let output = exec(&["--gpus", "2"], "gpus::program_with_two_gpus");
    let own = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}{own}", told(&output));
    let (code, report) = report(&["--gpus", "2", "--keep-going"], "gpus::program_without_peer_access");
    let all = violations(&report);
    let part = "lie in memory of GPU 1, to which GPU 0 has no peer access (cudaDeviceEnablePeerAccess)";
    assert!(code == 100 && all.iter().any(|v| v[0] == "out_of_bounds" && v[3].contains(part)), "{all:?}");
    assert_eq!(exec(&["--gpus", "9"], "gpus::program_with_two_gpus").status.code(), Some(2));
}

#[test]
fn the_program_sees_the_gpus_that_it_is_shown() {
    let shown = |value: &str, program: &str, code: i32| {
        let output = exec_with(&["--gpus", "3"], program, &[("CUDA_VISIBLE_DEVICES", Path::new(value))]);
        let own = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{value}: {}{own}", told(&output));
        assert!(own.contains("test result: ok. 1 passed"), "{value}: {own}");
        assert_eq!(told(&output).contains("shows the program no GPU"), code == 4, "{}", told(&output));
    };
    let uuids = "GPU-736d3132-3170-726f-6265-206578656302,GPU-736d3132-3170-726f-6265-206578656300";
    for value in ["2,0", "2,0,-1,1", " 2,0,x", uuids] {
        shown(value, "gpus::program_that_sees_the_last_gpu_and_the_first", 0);
    }
    for value in ["", "-1", "3", "GPU-", "-1,0"] {
        shown(value, "gpus::program_that_sees_no_gpu", 4);
    }
    shown("1,1", "gpus::program_that_sees_a_gpu_twice", 4);
}

#[test]
fn streams_write_words_and_wait_for_them() {
    let text = passes("stream_words::program_whose_streams_use_words");
    assert!(!text.contains("not supported"), "{text}");
    let text = passes_with("stream_words::program_whose_stream_waits_for_a_later_call", 4);
    for part in [
        "cuStreamWaitValue32_v2: the stream waits for a word that is written later",
        "flushes no remote writes",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, report) = report(&[], "stream_words::program_whose_stream_writes_nowhere");
    let all = violations(&report);
    assert!(code == 100 && all.iter().any(|v| v[1] == "cuStreamWriteValue32_v2"), "{all:?}");
}

#[test]
fn what_changes_no_result_is_said_once() {
    let text = passes_without_a_launch("advice::program_that_advises");
    assert!(!text.contains("not supported"), "{text}");
    let (_, all) = report(&[], "advice::program_that_tunes");
    let all = remarks(&all);
    let about = |part: &str| all.iter().filter(|remark| remark.contains(part)).count();
    assert_eq!((all.len(), about("persistence in L2"), about("profiler")), (2, 1, 1), "{all:?}");
    let (_, all) = report(&[], "advice::program_that_asks_what_the_gpu_is");
    let all = remarks(&all);
    assert!(all.len() == 1 && all[0].contains("pageableMemoryAccess"), "{all:?}");
}
