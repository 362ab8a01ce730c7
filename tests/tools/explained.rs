//! Kernels with a fault: what their trials say of it, where one case leaves several explanations, and which inputs nobody read.

use std::fs;
use std::process::Command;

use super::desk::{Desk, both_streams, ours};
use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    (
        "explanations_that_fit_equally_are_settled_by_other_data",
        &[Need::Nvrtc],
        explanations_that_fit_equally_are_settled_by_other_data,
    ),
    ("an_input_that_nobody_read_is_named", &[Need::Nvrtc], an_input_that_nobody_read_is_named),
];

/// K of two blocks: the other block of a pair is the next one and the one before.
const TWO_BLOCKS: &str = "about: K of two blocks.\ntokens: 4\nhidden: 64\ninter: 64\nexperts: 2\ntop_k: 1\nrouting: balanced\nregime: real\n";

/// What `moe` says of the kernel without mma with a fault in a file.
fn trial(file: &str, right: &str, wrong: &str, case: &[&str]) -> String {
    let desk = Desk::new();
    let text = ours(file);
    assert!(text.contains(right), "{file}: {right}");
    for folder in ["kernels", "cases"] {
        fs::create_dir_all(desk.path(folder)).unwrap();
    }
    fs::write(desk.path("kernels").join(file), text.replace(right, wrong)).unwrap();
    fs::write(desk.path("cases/two-blocks.yaml"), TWO_BLOCKS).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sm121probe"))
        .args(["moe", "--kernels", "kernels", "--target", "sm_121a", "--kernel-path", "gemv"])
        .args(case)
        .current_dir(desk.dir.path())
        .output()
        .unwrap();
    let all = both_streams(&output);
    assert_eq!(output.status.code(), Some(100), "{all}");
    all
}

fn explanations_that_fit_equally_are_settled_by_other_data() {
    let all = trial(
        "gemv.cu",
        "w_scales[matrix + scale_at(column, block, ",
        "w_scales[matrix + scale_at(column, block ^ 1, ",
        &["--cases", "cases", "--case", "two-blocks"],
    );
    assert!(
        all.contains("explained, all 237 wrong values: the scale of the neighbouring block, in pairs, is taken, of the weights of FC1"),
        "{all}"
    );
    let refuted = "refuted by the same kernels on a case of 24 tokens, hidden 256, inter 256, 4 experts and seed 3: \
                   the scale of the block before is taken, of the weights of FC1; the scale of the next block is taken";
    assert!(all.contains(refuted), "{all}");
}

fn an_input_that_nobody_read_is_named() {
    let (of, bias) = ("sum = __fadd_rn(sum, p.bias[(u64)w.slot * p.n + w.column + channel]);", "");
    let all = trial("problem.cuh", of, bias, &["--case", "tiny-exact"]);
    assert!(all.contains("; `w13_gemm_bias` was never read by any launch; "), "{all}");
    assert!(all.contains("the bias of FC1 is left out"), "{all}");
    // What is there for other formats and settings alone is not missed.
    let named: Vec<_> = all.matches("was never read by any launch").collect();
    assert_eq!(named.len(), 2 * all.matches("fc1 fail").count(), "{all}");
    let other =
        trial("problem.cuh", of, &of.replace("+ channel", "+ (channel ^ 1)"), &["--case", "tiny-exact"]);
    assert!(other.contains("the bias of FC1 is that of the other column of a pair"), "{other}");
    assert!(!other.contains("was never read"), "{other}");
}
