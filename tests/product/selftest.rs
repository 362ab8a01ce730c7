//! Every recorded answer against the emulator, and the verb that compares them.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use sm121probe::selftest::{self, OpResult, Verdict};
use vectors::Recording;

fn failures(results: &[OpResult]) -> Vec<String> {
    results.iter().filter(|r| !r.verdict.passes()).map(|r| format!("{}: {:?}", r.op, r.verdict)).collect()
}

#[test]
fn more_answers_than_the_binary_carries_agree_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/vectors/recordings");
    for (file, forms) in [("sm90.zip", 336), ("sm120.zip", 70)] {
        let results = selftest::run(&[Recording::load(&folder.join(file)).unwrap()], None);
        assert_eq!(results.len(), forms, "{file}");
        let wrong: Vec<_> = results.iter().filter(|r| !r.verdict.passes()).collect();
        assert!(wrong.is_empty(), "{file}: {wrong:?}");
        // Bit-exact with the published model.
        assert!(file != "sm120.zip" || results.iter().all(|r| r.mismatches == 0), "{results:?}");
    }
}

#[test]
fn every_built_in_answer_is_met() {
    let results = selftest::run(&vectors::builtin().unwrap(), None);
    assert_eq!(results.len(), 406);
    assert_eq!(failures(&results), [""; 0]);
    // Only results that the manual gives bounds for may differ.
    for r in results.iter().filter(|r| r.verdict == Verdict::Bounded) {
        assert!(r.op.contains(".approx") || r.op.starts_with("div.full"), "{}", r.op);
    }
    let exact = results.iter().filter(|r| r.verdict == Verdict::Exact).count();
    assert!(exact >= 406 - 24, "{exact} bit-exact");
}

/// Where the H100's answers are known to differ from the manual, which the emulator follows.
const MANUAL: [&str; 3] = [
    // `.ftz` flushes subnormal inputs; the H100 still rounds them away from zero.
    "cvt.rm.ftz.f16.f32",
    "cvt.rp.ftz.f16.f32",
    // A NaN stays a NaN; code of ptxas turns some into numbers.
    "cvt.rna.satfinite.tf32.f32",
];

#[test]
fn the_scalar_answers_of_an_h100_are_met() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/vectors/recordings/h100-scalar.zip");
    let mut results = selftest::run(&[Recording::load(&path).unwrap()], None);
    assert!(results.len() > 980, "{}", results.len());
    results.retain(|r| !MANUAL.contains(&r.op.as_str()));
    assert_eq!(failures(&results), [""; 0]);
}

/// An H100's answers near 3π/2 exceed the manual's bound, which remains the bound.
#[test]
fn the_worst_cosines_of_an_h100_are_beyond_the_manual() {
    let row = selftest::BOUNDS.iter().find(|row| row.begins == "cos.approx").unwrap();
    for (angle, answer) in [(-4.778_559_7_f32, 0.066_121_735_f32), (4.901_418, 0.187_904_82)] {
        assert_eq!(row.bound.limit(&[f64::from(angle)]), selftest::Limit::Absolute(-20.5));
        let off = (f64::from(angle).cos() - f64::from(answer)).abs().log2();
        assert!(off > -20.48 && off < -20.46, "{off}");
    }
}

fn selftest(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sm121probe")).arg("selftest").args(arguments).output().unwrap()
}

/// A recording of one instruction in a folder; `answer` is the recorded answer of the device.
fn recording(folder: &Path, ptx: &str, answer: u32) {
    let document = format!(
        r#"{{"device":"a test","capability":"9.0","driver":13000,"seed":1,"layout":"","ops":[{{"name":"one","ptx":"{ptx}","n_in":1,"n_out":1,"kinds":["u32"],"cases":1,"offset":0}}]}}"#
    );
    fs::write(folder.join("vectors.json"), document).unwrap();
    let words = [5u32; 32].into_iter().chain([answer; 32]);
    fs::write(folder.join("vectors.bin"), words.flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
}

#[test]
fn verdicts_are_words_and_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let table = |rest: &str| format!("op,cases,outputs,mismatches,max_ulp,verdict\none,1,32,{rest}\n");
    for (ptx, answer, row, code) in [
        ("add.u32 o0,i0,2;", 7, "0,0,pass", 0),
        ("add.u32 o0,i0,2;", 8, "32,,fail", 100),
        ("frobnicate.u32 o0,i0;", 7, "0,,unsupported", 100),
        ("trap;", 7, "0,0,fail", 100),
    ] {
        recording(folder.path(), ptx, answer);
        let output = selftest(&["--vectors", at, "--format", "csv"]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), table(row), "{ptx}");
        assert_eq!(output.status.code(), Some(code), "{ptx}");
    }
}

#[test]
fn damaged_recordings_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let said = || {
        let output = selftest(&["--vectors", at]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said().contains("not a recording"));
    recording(folder.path(), "add.u32 o0,i0,2;", 7);
    fs::write(folder.path().join("vectors.bin"), [0; 100]).unwrap();
    assert!(said().contains("truncated"));
    fs::write(folder.path().join("vectors.json"), "{").unwrap();
    assert!(said().contains("vectors.json:1"));
}
