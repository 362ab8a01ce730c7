//! The recorded vectors of an H100, driven through the PTX text they were recorded with.

use std::path::Path;

use emulator::Options;
use vectors::{Op, Recording, WarpOp, builtin};

use super::harness::{Inputs, try_warps};

/// Cases of `op` that come out as recorded, or why it does not run.
fn right(op: &WarpOp) -> Result<usize, String> {
    let cases: Vec<Inputs> = (0..op.cases).map(|case| op.input(case).to_vec()).collect();
    let body = format!("{};", op.ptx.trim().trim_end_matches(';'));
    let out = try_warps("sm_90a", &body, &cases, op.n_out, &Options::default()).map_err(|e| e.to_string())?;
    Ok((0..op.cases).filter(|case| out[*case] == op.output(*case)).count())
}

fn check(recordings: &[Recording], prefixes: &[&str], at_least: usize) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for op in recordings.iter().flat_map(|r| &r.ops) {
        let Op::Warp(op) = op else { continue };
        if !prefixes.iter().any(|p| op.name.starts_with(p)) {
            continue;
        }
        count += 1;
        match right(op) {
            Ok(n) if n == op.cases => {}
            Ok(n) => wrong.push(format!("{}: {n} of {} cases", op.name, op.cases)),
            Err(why) => wrong.push(format!("{}: {why}", op.name)),
        }
    }
    assert!(wrong.is_empty(), "{} of {count} forms are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= at_least, "{count} forms recorded");
}

/// Sparse and narrow `mma`, `wmma`, parties of lanes and atomics, which the built-in recording lacks.
#[test]
fn more_as_recorded() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors/recordings/h100-warp.zip");
    let recording = Recording::from_zip(&path, &std::fs::read(&path).unwrap()).unwrap();
    check(&[recording], &[""], 122);
}

#[test]
fn mma_as_recorded() {
    check(&builtin().unwrap(), &["mma."], 33);
}

#[test]
fn tiles_as_recorded() {
    check(&builtin().unwrap(), &["ldmatrix.", "stmatrix.", "movmatrix."], 13);
}

#[test]
fn warp_instructions_as_recorded() {
    check(&builtin().unwrap(), &["shfl.", "vote.", "match.", "redux."], 15);
}
