//! Profiles: the table of the GB10 vLLM project guide, file formats, damaged files.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;
use sm121probe::bench::{self, Classes};
use sm121probe::record::{Decision, ProfileRow};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/profile/decode_nsys.csv")
}

fn judge(path: &Path) -> Result<ProfileRow, String> {
    let kernels = bench::read(path).map_err(|e| e.to_string())?;
    bench::summary(path, &kernels, &Classes::built_in().unwrap()).map_err(|e| e.to_string())
}

fn written(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sm121probe")).arg("bench").args(args).output().unwrap()
}

#[test]
fn the_first_profile_of_a_gb10_says_40_5_percent_and_go() {
    let row = judge(&example()).unwrap();
    assert_eq!(format!("{:.1}", row.gemm_share * 100.0), "40.5");
    assert_eq!(format!("{:.1}", row.moe_share * 100.0), "44.3");
    assert_eq!(format!("{:.1}", row.listed * 100.0), "95.5");
    assert_eq!(row.decision, Decision::Go);
    let output = run(&["--profile", example().to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    snapbox::assert_data_eq!(
        text,
        snapbox::str![[r#"
gemv            51.2 %      3030.000 ms     18643 launches  GEMV (attn proj)
moe_gemm        40.5 %      2400.000 ms     12600 launches  CUTLASS MoE (FC1)
moe_around       3.8 %       220.000 ms     12600 launches  Activation (FP8)

The file lists 95.5 % of the time; shares are its own percentages.
MoE GEMMs take 40.5 % of the time of 6 kernels, the whole MoE layer 44.3 %.
go: work on the tiles is worthwhile.
GEMMs twice as fast would make the kernels' time 1.25 times shorter; GEMMs that took no time, 1.68 times.

"#]]
    );
}

#[test]
fn what_nsys_prints_around_its_table_does_not_matter() {
    let text = "Generating SQLite file report1.sqlite from report1.nsys-rep\n\
        Processing [report1.sqlite] with [reports/cuda_gpu_kern_gb_sum.py]...\n\n\
        Time (%),Total Time (us),Instances,Avg (us),GridXYZ,BlockXYZ,Name\n\
        60.0,600.0,2,300,1 1 1,32 1 1,\"void fused_moe_kernel<float, 1>(int, char)\"\n\
        15.0,150.0,1,150,2 1 1,32 1 1,\"void fused_moe_kernel<float, 1>(int, char)\"\n\
        25.0,250.0,1,250,1 1 1,32 1 1,nvjet_tst_64x8\n\n\
        Time (%),Total Time (ns),Count,Avg (ns),Operation\n100.0,5,1,5,[CUDA memset]\n";
    let (_folder, path) = written("gb.csv", text.as_bytes());
    let row = judge(&path).unwrap();
    assert_eq!((row.kernels, row.nanoseconds, row.listed), (2, 1e6, 1.0));
    assert!((row.gemm_share - 0.75).abs() < 1e-12);
    let trace = "Start (ns),Duration (ns),CorrId,GrdX,Device,Strm,Name\n\
        10,50,1,1,H100,7,fused_moe_kernel\n20,50,2,,H100,7,[CUDA memcpy Host-to-Device]\n90,950,3,1,H100,7,rms_norm_kernel\n";
    let (_folder, path) = written("trace.csv", trace.as_bytes());
    let row = judge(&path).unwrap();
    assert_eq!((row.nanoseconds, row.decision), (1000.0, Decision::Stop));
}

#[test]
fn a_torch_trace_counts_kernels_alone_compressed_or_not() {
    let trace = r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "fused_moe_kernel", "ts": 1, "dur": 900, "args": {"x": [1]}},
        {"ph": "X", "cat": "kernel", "name": "fused_moe_kernel", "ts": 2, "dur": 20.5, "args": {"grid": [1, 1, 1]}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 3, "dur": 5},
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
        {"ph": "X", "cat": "kernel", "name": "void at::native::elementwise_kernel<4>", "ts": 4, "dur": 79.5}]}"#;
    let (_folder, path) = written("trace.json", trace.as_bytes());
    let row = judge(&path).unwrap();
    assert_eq!((row.nanoseconds, row.decision), (100_000.0, Decision::Cautious));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(trace.as_bytes()).unwrap();
    let (_folder, packed) = written("trace.json.gz", &packed.finish().unwrap());
    assert_eq!(judge(&packed).unwrap(), row);
}

#[test]
fn damaged_files_name_place_and_remedy() {
    let head = "Time (%),Total Time (ns),Instances,Name\n";
    for (name, bytes, says) in [
        ("a.csv", "hello\n".to_owned(), "neither a table of `nsys stats"),
        ("a.csv", String::new(), "neither a table of `nsys stats"),
        ("a.csv", format!("{head}50.0,12,1,a\n50.0,x,1,b\n"), "a.csv:3: `x` is not a number"),
        ("a.csv", format!("{head}50.0,12,1\n"), "a.csv:2: the line ends before `Name`"),
        ("a.csv", format!("{head}50.0,-12,1,a\n"), "a.csv:2: time is -12"),
        ("a.csv", format!("{head}50.0,12,many,a\n"), "a.csv:2: `many` is not a count"),
        ("a.csv", format!("{head}90.0,12,1,a\n90.0,12,1,b\n"), "add up to 180.0"),
        ("a.csv", format!("{head}0.0,0,1,a\n"), "no kernel took any time"),
        ("a.json", "{}".to_owned(), "without `traceEvents`"),
        ("a.json", "[{\"ph\": \"X\",".to_owned(), "not a Chrome trace: EOF"),
        ("a.json", "[]".to_owned(), "no kernel took any time"),
        ("a.json", "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":-1}]".to_owned(), "lasts -1 us"),
    ] {
        let (_folder, path) = written(name, bytes.as_bytes());
        let error = judge(&path).unwrap_err();
        assert!(error.contains(says), "{bytes}\n{error}");
    }
    let (_folder, path) = written("a.nsys-rep", &[0xFF, 0xFE, 0, 1]);
    assert!(judge(&path).unwrap_err().contains("neither text nor gzip"));
    let (_folder, path) = written("a.gz", &[0x1F, 0x8B, 8, 0, 1]);
    let output = run(&["--profile", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(run(&["--profile", "absent.csv"]).status.code(), Some(2));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(Time \\(%\\),Total Time \\(ns\\),Instances,Name\n)?[-0-9.,a-z\"\n\\[\\]{}:]{0,80}") {
        let (_folder, path) = written("x.csv", text.as_bytes());
        let _ = judge(&path);
    }
}

#[test]
fn times_need_a_gpu_and_say_so() {
    let fails = |args: &[&str], code: i32, words: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_sm121probe"))
            .arg("bench")
            .args(args)
            .env("CUDA_VISIBLE_DEVICES", "")
            .env("RUST_BACKTRACE", "0")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).replace("│", " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(words), "no `{words}` in: {text}");
    };
    fails(&[], 2, "--device <GPU>");
    fails(&["--device", "gpu:0"], 121, "gpu:0 cannot be used");
    fails(&["--device", "emulator"], 2, "times are measured on a GPU");
    fails(&["--device", "gpu:0", "--model", "gpt-9"], 2, "unknown model `gpt-9`; known are");
    fails(&["--device", "gpu:0", "--tokens", "0"], 2, "0 is not in 1..=65536");
    fails(&["--device", "gpu:0", "--tile", "7x7x7"], 2, "`7x7x7` is not a tile");
    fails(&["--from", "/no/such.json"], 2, "was not written by `bench --format json`");
    fails(&["--from", "Cargo.toml"], 2, "was not written by `bench --format json`");
    let profile = example();
    fails(&["--profile", profile.to_str().unwrap(), "--format", "svg"], 2, "a profile has no plot");
}
