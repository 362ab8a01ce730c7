//! The verbs of the emulator: their output, and their errors for a bad call or a wrong kernel.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod contraction;
mod explanations;
mod float_atomics;
mod launch_files;
mod triton_cache;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn tool(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("NO_COLOR", "1").args(args).output().unwrap()
}

/// Returns the output of a call that must exit with this code. Wrapped lines are joined.
fn run(code: i32, args: &[&str]) -> String {
    let output = tool(args);
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    text.replace("\n  │ ", " ").replace("\n    │ ", " ")
}

fn words<'a>(line: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    line.split_whitespace().chain(more.iter().copied()).collect()
}

const REDUCTION: &str =
    "emulate crates/emulator/tests/kernels/reduction.ptx --grid 4 --block 256 --arg buf:x=random:1:f32[5000]";
const OUT: [&str; 4] = ["--arg", "out:y=f32[4]", "--arg", "u32:5000"];

/// A file with one entry that contains these instructions.
fn kernel(dir: &TempDir, params: &str, body: &str) -> String {
    let path = dir.path().join("k.ptx");
    let text = format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k({params})\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p<4>;\n{body}ret;\n}}\n"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_kernel_runs_and_its_outputs_are_printed_and_dumped() {
    let dir = TempDir::new().unwrap();
    let dump = dir.path().join("dump.safetensors").display().to_string();
    let first = run(0, &words(REDUCTION, &[&OUT[..], &["--dump", &dump]].concat()));
    assert!(first.contains("reduction: 2529 warp instructions\ny f32[4]\n  -14.589877 "), "{first}");
    assert!(
        first.contains("sha256 f468350a1e72eea0fc17711d5095ec133d4ddd61e2b310437052dfe119fb7cc4"),
        "{first}"
    );
    // A dump is read back, and gives the same result under other schedules.
    let again = format!("buf:x=@{dump}#x");
    let line = "emulate crates/emulator/tests/kernels/reduction.ptx --entry reduction --grid 4,1 --block 256,1,1 --schedules 4";
    let again = run(0, &words(line, &["--arg", &again, "--arg", "out:y=f32[4]", "--arg", "u32:5000"]));
    assert!(again.contains("4 schedules, equal outputs"), "{again}");
    assert_eq!(first.lines().find(|l| l.contains("sha256")), again.lines().find(|l| l.contains("sha256")));
    let missing = format!("buf:x=@{dump}#z");
    let text = run(2, &words(line, &["--arg", &missing, "--arg", "out:y=f32[4]", "--arg", "u32:5000"]));
    assert!(text.contains("there is no tensor `z`; the tensors are: x, y"), "{text}");
}

#[test]
fn every_instruction_is_traced_and_counted() {
    let text = run(0, &words(REDUCTION, &[&OUT[..], &["--profile"]].concat()));
    assert!(text.contains("       157       5000  ld.global.b32\n"), "{text}");
    assert!(
        text.contains("global loads: 157 accesses, 20000 bytes, 625 sectors of 32 bytes, 0 more"),
        "{text}"
    );
    let trace = run(0, &words(REDUCTION, &[&OUT[..], &["--trace"]].concat()));
    assert!(
        trace.contains("0,0,0 warp 0  ffffffff line 28    ld.param.b64 %rd2, [reduction_param_0];\n"),
        "{trace}"
    );
    assert!(trace.contains("3,0,0 warp 0  00000001 "), "{trace}");
    let mx = "emulate crates/emulator/tests/kernels/gemm_mx.ptx --grid 2,2 --block 128 --arg buf:a=random:1:e4m3[64,256] \
              --arg buf:b=random:2:u8[64,128] --arg buf:sa=random:3:u8[64,8] --arg buf:sb=random:4:u8[64,8] \
              --arg out:c=f32[64,64] --arg u32:64 --arg u32:256 --profile";
    let text = run(0, &words(mx, &[]));
    assert!(text.contains("bank conflicts: ") && text.contains("cp.async.ca.shared.global"), "{text}");
}

const TMA: &str = "emulate crates/emulator/tests/kernels/gemm_tma.ptx --grid 2 --block 160 --smem 49152 \
                   --buf a=random:1:bf16[64,320] --buf b=random:2:bf16[128,320]";
const MAP_A: &str = "tmap:ma=of:a,type:bf16,dims:320x64,strides:640,box:64x64,swizzle:128B";
const MAP_B: &str = "tmap:mb=of:b,type:bf16,dims:320x128,box:64x64,swizzle:128B,interleave:none,oob:none";

#[test]
fn a_kernel_gets_tensor_maps() {
    let rest = ["--arg", "out:c=f32[64,128]", "--arg", "u32:128", "--arg", "u32:320"];
    let text =
        run(0, &words(TMA, &[&["--arg", MAP_A, "--arg", MAP_B], &rest[..], &["--schedules", "4"]].concat()));
    assert!(text.contains("4 schedules, equal outputs\nc f32[64,128]\n"), "{text}");
    assert!(!text.contains("never written") && !text.contains("a bf16"), "{text}");
    for (map, says) in [
        (MAP_A.replace("of:a", "of:z"), "a tensor map refers to buffer `z`, which no --arg or --buf defines"),
        (MAP_A.replace("320x64", "320x65"), "spans 41600 bytes of buffer `a`, which has only 40960"),
        (MAP_A.replace("swizzle:128B", "swizzle:96B"), "`96B` is not a swizzle of a tensor map"),
        (MAP_A.replace("640", "641"), "this tensor map cannot be encoded: stride 0 of 641 bytes"),
        (MAP_A.replace("box", "boxes"), "a tensor map has no field `boxes`"),
        ("u64:1".to_owned(), "is 8 bytes of u64, but parameter `gemm_tma_param_0` is 128 bytes of .b8"),
    ] {
        let text = run(2, &words(TMA, &[&["--arg", &map, "--arg", MAP_B], &rest[..]].concat()));
        assert!(text.contains(says), "{map}\nwants: {says}\ngot: {text}");
    }
    let text = run(2, &words(&TMA.replace("--buf b=", "--buf b:"), &["--arg", MAP_A]));
    assert!(text.contains("gemm_tma takes 5 arguments"), "{text}");
    let text = run(2, &words(REDUCTION, &["--arg", "tmap:m=of:x,type:u8,dims:64,box:64", "--arg", "u32:4"]));
    assert!(text.contains("is the 128 bytes of a tensor map, but parameter"), "{text}");
    // With a swizzle that the kernel does not expect, the numbers differ; a box of another size never completes.
    let other = MAP_A.replace("swizzle:128B", "swizzle:none");
    let wrong = run(0, &words(TMA, &[&["--arg", &other, "--arg", MAP_B], &rest[..]].concat()));
    let hash = |t: &str| t.lines().find(|l| l.contains("sha256")).map(str::to_owned);
    assert_ne!(hash(&wrong), hash(&text));
    let small = MAP_A.replace("64x64", "64x32");
    let text = run(100, &words(TMA, &[&["--arg", &small, "--arg", MAP_B], &rest[..]].concat()));
    assert!(text.contains("deadlock"), "{text}");
}

#[test]
fn a_bad_call_is_told_what_is_wrong() {
    for (line, says) in [
        (
            "emulate crates/emulator/tests/kernels/pdl.ptx",
            "has 2 kernels: choose --entry primary or --entry secondary",
        ),
        (
            "emulate crates/emulator/tests/kernels/pdl.ptx --entry third",
            "has no kernel `third`; it has primary, secondary",
        ),
        ("emulate crates/emulator/tests/kernels/absent.ptx", "cannot be read"),
        ("emulate README.md", "README.md:1: no PTX found"),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx",
            "reduction takes 3 arguments, not 0: argument 1 (.u64, 8 bytes: a pointer or a number)",
        ),
        ("emulate crates/emulator/tests/kernels/reduction.ptx --target sm_90", "--target is for .cu files"),
        ("emulate crates/emulator/tests/kernels/reduction.ptx --toolkit 13.5", "--toolkit is for .cu files"),
        ("emulate crates/emulator/tests/kernels/reduction.ptx --grid 1,2,3,4", "one to three numbers"),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx --arg buf:x=zeros:f32[4] --arg out:y=f32[4] --arg u64:4",
            "argument 3 of reduction, `u64:4`, is 8 bytes of u64, but parameter `reduction_param_2` is .u32, 4 bytes",
        ),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx --arg buf:x=zeros:f32[4] --arg out:y=f32[4] --arg f32:4",
            "is 4 bytes of f32, but parameter `reduction_param_2` is .u32",
        ),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx --arg buf:x=zeros:f32[4] --arg out:y=f32[4] --arg out:z=f32[4]",
            "is the 8-byte address of a buffer",
        ),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx --arg buf:x=zeros:f32[4] --arg out:x=f32[4] --arg u32:4",
            "two buffers are named `x`",
        ),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx --arg buf:x=zeros:f64[99999999999999] --arg out:y=f32[4] --arg u32:4",
            "this machine has",
        ),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx --arg buf:x=zeros:f32[4] --arg out:y=f32[4] --arg u32:x",
            "`u32:x` is not an argument",
        ),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx --block 2048 --arg buf:x=zeros:f32[4] --arg out:y=f32[4] --arg u32:4",
            "has 2048 threads",
        ),
        (
            "emulate crates/emulator/tests/kernels/reduction.ptx --smem 999999 --arg buf:x=zeros:f32[4] --arg out:y=f32[4] --arg u32:4",
            "bytes of shared memory",
        ),
    ] {
        let text = run(2, &words(line, &[]));
        assert!(text.contains(says), "{line}\nwants: {says}\ngot: {text}");
    }
}

#[test]
fn a_broken_law_is_named_with_its_line() {
    let line = REDUCTION.replace("[5000]", "[4999]");
    let text = run(100, &words(&line, &OUT));
    assert!(text.contains("out_of_bounds: 4 bytes at global address"), "{text}");
    assert!(text.contains("ld.global.b32") && text.contains("╰── out_of_bounds"), "{text}");
    assert!(text.contains("the source line is reduction.cu:7"), "{text}");
    let text = run(100, &words(REDUCTION, &[&OUT[..], &["--fuel", "1000"]].concat()));
    assert!(text.contains("fuel: more than 1000 instructions"), "{text}");
}

#[test]
fn a_launch_that_a_time_limit_ends_is_incomplete_and_no_violation() {
    let dir = TempDir::new().unwrap();
    // Each round changes memory, so that it is no livelock.
    let body = "ld.param.u64 %rd1, [out];\nround: atom.global.add.u32 %r1, [%rd1], 1;\nbra round;\n";
    let file = kernel(&dir, ".param .u64 out", body);
    let text = run(4, &["emulate", &file, "--arg", "buf:out=zeros:u32[1]", "--time-limit", "0.05"]);
    assert!(text.contains("NOTHING CHECKED: a launch was ended by --time-limit"), "{text}");
    assert_eq!(text.matches("NOTHING CHECKED").count(), 1, "{text}");
    let text = run(2, &["emulate", &file, "--arg", "buf:out=zeros:u32[1]", "--time-limit", "0"]);
    assert!(text.contains("must be above 0"), "{text}");
}

#[test]
fn what_is_not_emulated_is_said() {
    let dir = TempDir::new().unwrap();
    let file = kernel(&dir, "", "alloca.u64 %rd1, 16;\n");
    let text = run(4, &["emulate", &file]);
    assert!(
        text.contains("a stack that grows is not emulated") && text.contains("╰── not emulated"),
        "{text}"
    );
    assert!(text.contains("NOTHING CHECKED: 1 kernel could not run: "), "{text}");
    let file = kernel(&dir, "", "add.u32 %r1 %r2, %r3;\n");
    let text = run(2, &["emulate", &file]);
    assert!(text.contains("line 9, column 13"), "{text}");
}

#[test]
fn what_ptx_lacks_is_a_mistake_in_the_file() {
    let dir = TempDir::new().unwrap();
    for (instruction, says) in [
        ("mul.frob.u32 %r1, %r2, %r3;\n", "`mul.frob.u32`: PTX has no such form"),
        ("mull.u32 %r1, %r2, %r3;\n", "`mull.u32`: there is no such instruction; the nearest is `mul`"),
        ("add.u32 %r1, %r2, %r3, %r4;\n", "`add.u32`: PTX has no such form"),
        ("add.sat.u32 %r1, %r2, %r3;\n", "it requires `.version 9.2`"),
        ("add.i32 %r1, %r2, %r3;\n", "the nearest form is `add.s32`"),
    ] {
        let file = kernel(&dir, "", instruction);
        let text = run(2, &["emulate", &file]);
        let flat = text.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(says), "{text}");
        assert!(text.contains("╰── refused by ptxas, too"), "{text}");
        assert!(!text.contains("not emulated") && !text.contains("NOTHING CHECKED"), "{text}");
    }
}

#[test]
fn blocks_clusters_remarks_and_addresses_are_options() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("many.ptx").display().to_string();
    let text = ".version 9.0\n.target sm_121a\n.address_size 64\n.extern .func elsewhere();\n\
                .visible .entry other() { call elsewhere; ret; }\n\
                .visible .entry k(.param .u64 y) .reqntid 32, 2 {\n.reg .b64 p; .reg .b32 r, n; .reg .pred q;\n\
                .shared .b32 word;\nst.shared.b32 [word], 7;\nbar.sync 0;\nld.param.u64 p, [y];\n\
                mov.u32 r, %cluster_ctarank;\nmov.u32 n, %ntid.y;\nmad.lo.u32 n, r, 100, n;\nmul.wide.u32 p, r, 4;\n\
                .reg .b64 at; ld.param.u64 at, [y]; add.u64 p, p, at;\nmov.u32 r, %tid.y;\nsetp.eq.u32 q, r, 0;\n\
                @q mov.u32 r, %tid.x;\n@q setp.eq.u32 q, r, 0;\n@q st.global.b32 [p], n;\nret;\n}\n";
    fs::write(&file, text).unwrap();
    let args =
        ["emulate", file.as_str(), "--entry", "k", "--grid", "2", "--cluster", "2", "--arg", "out:y=u32[2]"];
    let text = run(0, &args);
    assert!(text.contains("\n  2 102\n") && !text.contains("remark"), "{text}");
    let text = run(0, &[&args[..], &["--strict", "--addresses", "--cooperative"]].concat());
    assert!(
        text.contains("remark: warp 1 writes shared address") && text.contains("y at 0x1000000000, 8 bytes"),
        "{text}"
    );
    let text = run(2, &[&args[..], &["--block", "32"]].concat());
    assert!(text.contains("requires .reqntid [32, 2, 1]"), "{text}");
    let text = run(4, &["emulate", &file, "--entry", "other"]);
    assert!(text.contains("`elsewhere` is declared but has no body"), "{text}");
}

#[test]
fn schedules_that_disagree_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let body = "ld.param.u64 %rd1, [c];\nld.param.u64 %rd2, [y];\nmov.u32 %r1, %tid.x;\n\
                atom.global.add.u32 %r2, [%rd1], 1;\nmul.wide.u32 %rd3, %r1, 4;\nadd.u64 %rd3, %rd2, %rd3;\n\
                st.global.b32 [%rd3], %r2;\n";
    let file = kernel(&dir, ".param .u64 c, .param .u64 y", body);
    let args = ["--block", "256", "--arg", "buf:c=zeros:u32[1]", "--arg", "out:y=u32[256]"];
    let text = run(0, &[&["emulate", file.as_str()], &args[..]].concat());
    assert!(text.contains("y u32[256]\n  0 1 2 3"), "{text}");
    // Nothing races: that the results differ is a fact, and a failure only where they are required to be equal.
    let several = [&["emulate", file.as_str()], &args[..], &["--schedules", "8"]].concat();
    let text = run(0, &several);
    assert!(text.contains("nondeterministic: buffer `y` differs between seed 0 and seed "), "{text}");
    assert!(text.contains("y u32[256]\n  0 1 2 3") && text.contains("8 schedules, outputs differ"), "{text}");
    let text = run(100, &[&several[..], &["--require-equal"]].concat());
    assert!(text.contains("schedules disagree: buffer `y` differs between seed 0 and seed "), "{text}");
    // The results of the first schedule are shown all the same.
    assert!(text.contains("y u32[256]\n  0 1 2 3"), "{text}");
    let text = run(0, &[&several[..], &["--format", "json"]].concat());
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["verdict"], "nondeterministic");
    assert_eq!(
        (&found["differences"][0]["buffer"], &found["differences"][0]["cause"]),
        (&"y".into(), &"nondeterministic".into())
    );
    assert_ne!(found["differences"][0]["values"][0], found["differences"][0]["values"][1]);
}

/// Runs a kernel of one warp that loads `%r2` from unwritten shared memory and then executes `then`.
fn unwritten(dir: &TempDir, then: &str, args: &[&str], code: i32) -> String {
    let body = format!(
        ".shared .align 4 .b8 box[4];\nld.param.u64 %rd1, [y];\nld.shared.u32 %r2, [box];\n{then}\nst.global.u32 [%rd1], %r2;\n"
    );
    let file = kernel(dir, ".param .u64 y", &body);
    run(code, &[&["emulate", file.as_str(), "--block", "1", "--arg", "out:y=u32[1]"], args].concat())
}

#[test]
fn an_output_with_undefined_bytes_is_a_violation_unless_no_value_depends_on_them() {
    let dir = TempDir::new().unwrap();
    let text = unwritten(&dir, "", &[], 100);
    assert!(text.contains("uninitialised") && text.contains("`ld.shared.u32 %r2, [box];`"), "{text}");
    unwritten(&dir, "and.b32 %r2, %r2, 0;", &["--poison", "2"], 0);
    // The product is undefined by the rules, but the same for any contents of memory.
    unwritten(&dir, "mul.lo.u32 %r2, %r2, 0;", &["--poison", "2"], 100);
    let text = unwritten(&dir, "mul.lo.u32 %r2, %r2, 0;", &["--judge", "values"], 0);
    assert!(text.contains("4 schedules with 2 contents of unwritten memory, equal outputs"), "{text}");
    assert!(text.contains("violation: uninitialised") && text.contains("times"), "{text}");
    let text = unwritten(&dir, "mul.lo.u32 %r2, %r2, 3;", &["--judge", "values"], 100);
    assert!(text.contains("buffer `y` depends on uninitialized memory or registers"), "{text}");
}

#[test]
fn undefined_bytes_that_are_copied_differ_and_bytes_that_nobody_stored_do_not() {
    let dir = TempDir::new().unwrap();
    let by_values = ["--judge", "values"];
    let differs = "buffer `y` depends on uninitialized memory or registers: byte 0 differs where they hold 0xcd and where they hold 0x00";
    let text = unwritten(&dir, "", &by_values, 100);
    assert!(
        text.contains(differs) && text.contains("remain after the launch in a buffer whose contents count"),
        "{text}"
    );
    // Device memory is usually zero.
    let zero = "setp.eq.u32 %p1, %r2, 0;\nmov.u32 %r2, 1;\n@%p1 mov.u32 %r2, 2;";
    assert!(unwritten(&dir, zero, &by_values, 100).contains(differs));
    let unlike = zero.replace(", 0;", ", 0x01020304;");
    unwritten(&dir, &unlike, &by_values, 0);
    let out = |body: &str, buffer: &str, code: i32| {
        let load = ".shared .align 4 .b8 box[4];\nld.param.u64 %rd1, [y];\nld.shared.u32 %r2, [box];\n";
        let file = kernel(&dir, ".param .u64 y", &format!("{load}{body}"));
        run(code, &[&["emulate", file.as_str(), "--block", "1", "--arg", buffer], &by_values[..]].concat())
    };
    // Part of a buffer; a buffer written before; a store that depends on undefined bits.
    out("st.global.u32 [%rd1+4], 7;\n", "out:y=u32[4]", 0);
    out("st.global.u32 [%rd1+4], 7;\nst.global.u8 [%rd1+9], %r2;\n", "out:y=u32[4]", 100);
    out("st.global.u16 [%rd1+4], %r2;\n", "buf:y=iota:u32[4]", 100);
    let guarded = "setp.ne.u32 %p1, %r2, 0;\n@%p1 st.global.u32 [%rd1+4], 0;\n";
    let text = out(guarded, "out:y=u32[4]", 100);
    assert!(text.contains("registers: byte 4 differs"), "{text}");
    out(guarded, "buf:y=zeros:u32[4]", 0);
}

#[test]
fn a_launch_that_is_judged_by_its_values_goes_on_behind_guards_and_races() {
    let dir = TempDir::new().unwrap();
    let guard = "setp.eq.u32 %p1, %r2, 0;\n@%p1 mov.u32 %r3, 1;\nmov.u32 %r2, 5;";
    unwritten(&dir, guard, &[], 100);
    let text = unwritten(&dir, guard, &["--judge", "values"], 0);
    assert!(text.contains("a guard depends on undefined bits") && text.contains("; 8 times"), "{text}");
    let race = |last: &str, code: i32| {
        let body = format!(
            ".shared .align 4 .b8 box[4];\nld.param.u64 %rd1, [y];\nmov.u32 %r1, %tid.x;\nmov.u32 %r4, 7;\n\
             st.shared.u32 [box], %r4;\nbar.sync 0;\nsetp.eq.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r1, 32;\n\
             @%p1 st.shared.u32 [box], 9;\n@%p2 ld.shared.u32 %r4, [box];\n{last}\n@%p2 st.global.u32 [%rd1], %r4;\n"
        );
        let file = kernel(&dir, ".param .u64 y", &body);
        let call = ["emulate", file.as_str(), "--block", "64", "--arg", "out:y=u32[1]"];
        assert!(run(100, &call).contains("race:"));
        run(code, &[&call[..], &["--judge", "values", "--schedules", "16"]].concat())
    };
    let text = race("and.b32 %r4, %r4, 1;", 0);
    assert!(text.contains("violation: race") && text.contains("16 schedules"), "{text}");
    let text = race("", 100);
    assert!(text.contains("schedules disagree") && text.contains("violation: race"), "{text}");
    // An access outside memory still ends the launch.
    let body = "ld.param.u64 %rd1, [y];\nst.global.u32 [%rd1+4], 1;\n";
    let file = kernel(&dir, ".param .u64 y", body);
    let text = run(100, &["emulate", &file, "--block", "1", "--arg", "out:y=u32[1]", "--judge", "values"]);
    assert!(text.contains("out_of_bounds"), "{text}");
}

#[test]
fn json_has_the_violation_that_ends_a_launch_and_outputs_that_differ() {
    let dir = TempDir::new().unwrap();
    let json = |code: i32, args: &[&str]| -> serde_json::Value {
        let output = tool(&[args, &["--format", "json"]].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let body = "ld.param.u64 %rd1, [y];\nmov.u32 %r1, %tid.x;\nst.global.u32 [%rd1+4], %r1;\n";
    let file = kernel(&dir, ".param .u64 y", body);
    let call = ["emulate", file.as_str(), "--block", "1", "--arg"];
    let found = json(100, &[&call[..], &["out:y=u32[1]"]].concat());
    assert_eq!(
        (&found["violations"][0]["rule"], &found["violations"][0]["line"]),
        (&"out_of_bounds".into(), &11.into())
    );
    assert_eq!(
        (&found["launches"][0]["kernel"], &found["launches"][0]["instructions"]),
        (&"k".into(), &().into())
    );
    assert!(found["failure"].as_str().unwrap().contains("CTA (0,0,0), warp 0, lane 0"), "{found}");
    let found = json(0, &[&call[..], &["out:y=u32[2]"]].concat());
    assert!(found.get("failure").is_none() && found["violations"].as_array().unwrap().is_empty(), "{found}");
    // Without a finding, there are no results.
    let output = tool(&["emulate", &file, "--grid", "0", "--arg", "out:y=u32[2]", "--format", "json"]);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true));
    let shared = ".shared .align 4 .b8 box[4];\nld.param.u64 %rd1, [y];\nld.shared.u32 %r2, [box];\nst.global.u32 [%rd1], %r2;\n";
    let file = kernel(&dir, ".param .u64 y", shared);
    let call = ["emulate", file.as_str(), "--block", "1", "--arg", "out:y=u32[1]"];
    let found = json(100, &call);
    assert_eq!(found["violations"][0]["rule"], "uninitialised");
    let found = json(100, &[&call[..], &["--judge", "values"]].concat());
    assert_eq!(found["violations"][0]["rule"], "uninitialised");
    assert!(
        found["failure"].as_str().unwrap().contains("buffer `y` depends on uninitialized memory"),
        "{found}"
    );
}

#[test]
fn a_source_without_nvrtc_says_what_to_install() {
    let dir = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("SM121PROBE_CACHE", dir.path())
        .args(["emulate", "crates/emulator/tests/kernels/reduction.cu", "--toolkit", "10.1"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap().replace("\n  │ ", " ");
    assert_eq!(output.status.code(), Some(120), "{text}");
    assert!(
        text.contains("no NVRTC 10.1 on this machine") && text.contains("toolkit install nvrtc:10.1"),
        "{text}"
    );
}

#[test]
fn the_coverage_has_three_forms() {
    let csv = run(0, &["ops", "--format", "csv"]);
    assert!(csv.starts_with("chapter,opcode,forms,state\n"), "{csv}");
    assert!(
        csv.lines()
            .skip(1)
            .all(|l| ["implemented", "planned", "out_of_scope"].iter().any(|w| l.ends_with(w)))
    );
    let text = run(0, &["ops"]);
    assert!(text.contains(" snippet variants decode for sm_121a ("), "{text}");
    assert!(run(0, &["ops", "--format", "md"]).starts_with("|chapter|implemented|planned|out of scope|"));
}

#[test]
fn every_assumption_is_listed_with_the_emulators_answer() {
    let text = run(0, &["assumptions"]);
    for name in ["tx_packed_bytes", "p64_nibble_order", "scale_nan_times_zero", "sm_121_is_sm_120", "rcp_448"]
    {
        assert!(text.contains(&format!("{name} (open)\n  assumed  ")), "{text}");
    }
    assert!(!text.contains("OTHERWISE"), "{text}");
    assert!(run(0, &["assumptions", "ue4m3_sign"]).contains(".visible .entry probe("));
    assert!(
        run(2, &["assumptions", "nothing"])
            .contains("there is no assumption `nothing`; the assumptions are: container_bits")
    );
}

#[test]
fn the_documents_name_commands_that_work() {
    let mut tried = 0;
    for file in ["README.md", "CONTRIBUTING.md", "docs/emulator.md"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let joined = text.replace("\\\n", " ");
        for line in joined.lines() {
            let Some(command) = line.trim().strip_prefix("$ cargo run -- ") else { continue };
            let verb = command.split_whitespace().next().unwrap_or_default();
            // A CUDA C++ source needs NVRTC, which not every machine has: `.ci/run` covers it. `selftest` has its own tests.
            if !["emulate", "ops", "assumptions"].contains(&verb) || command.contains(".cu ") {
                continue;
            }
            let plain: Vec<String> =
                command.split_whitespace().map(|w| w.trim_matches('\'').to_owned()).collect();
            let words: Vec<&str> = plain.iter().map(String::as_str).collect();
            run(0, &words);
            tried += 1;
        }
    }
    assert!(tried >= 3, "only {tried} commands found");
}

const TWO: &str = ".version 8.8\n.target sm_121a\n.address_size 64\n.extern .func (.param .b32 r) _Z5twicej(.param .b32 x);\n\
    .visible .entry _Z1kIjEvPT_(.param .u64 p) { .reg .b64 %rd<2>; .reg .b32 %r<3>; .param .b32 x; .param .b32 r;\n\
    ld.param.u64 %rd1, [p]; mov.u32 %r1, 21; st.param.b32 [x], %r1; call.uni (r), _Z5twicej, (x); ld.param.b32 %r2, [r];\n\
    st.global.u32 [%rd1], %r2; ret; }\n\
    .visible .entry other() { ret; }\n";
const CALLED: &str = ".version 8.8\n.target sm_121a\n.address_size 64\n.visible .func (.param .b32 r) _Z5twicej(.param .b32 x)\n\
    { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }\n";

#[test]
fn several_files_are_linked_and_a_kernel_is_named_as_in_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, marked] =
        ["first.ptx", "second.ptx", "marked.ptx"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&first, TWO).unwrap();
    std::fs::write(&second, CALLED).unwrap();
    // An editor's byte order mark means nothing.
    std::fs::write(&marked, format!("\u{feff}{CALLED}.visible .entry only() {{ ret; }}\n")).unwrap();
    for name in ["_Z1kIjEvPT_", "k<unsigned int>", "k", "*<unsigned*"] {
        let output =
            tool(&["emulate", &first, &second, "--entry", name, "--block", "1", "--arg", "out:y=u32[1]"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("\n  42\n"), "{name}");
    }
    let several = tool(&["emulate", &first, &second]);
    let said = String::from_utf8_lossy(&several.stderr).into_owned();
    assert_eq!(several.status.code(), Some(2));
    assert!(said.contains("2 kernels") && said.contains("'k<unsigned int>'"), "{said}");
    assert_eq!(tool(&["emulate", &marked]).status.code(), Some(0));
    std::fs::write(&marked, "nonsense").unwrap();
    let refused = tool(&["emulate", &marked]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("marked.ptx") && said.contains("nonsense"), "{said}");
}
