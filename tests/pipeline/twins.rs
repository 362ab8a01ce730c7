//! The two paths of the prefill in NVFP4: block-scaled mma and its twin of bf16 mma store the same bytes, also where the twin is compiled
//! for GPUs before SM12x.

use std::sync::Arc;

use emulator::Options;
use libtest_mimic::{Failed, Trial};
use numerics::tensor_core::Model;
use ptx::arch::Target;
use sm121probe::families;
use sm121probe::frame::Memo;
use sm121probe::frame::compile::Compiler;
use sm121probe::frame::family::{Outcome, Part, Prepared};

use super::{Shared, tool};

/// Exact and random data, one tile and several, masks, windows, both orders of the scales of keys.
const CASES: [&str; 5] = [
    "attention-every-key",
    "attention-real",
    "attention-fp4-tiles",
    "attention-fp4-equal",
    "attention-fp4-tree",
];

const WIDTHS: [&str; 2] = ["d64", "d128"];

/// The path of a run and its target.
const NATIVE: (&str, &str) = ("native", "sm_121a");
const OTHERS: [(&str, &str); 3] = [("native", "sm_120f"), ("portable", "sm_121a"), ("portable", "sm_80")];

pub(super) fn trials(shared: &Arc<Shared>) -> Vec<Trial> {
    let of = |case: &'static str| {
        let shared = Arc::clone(shared);
        Trial::test(format!("twins.{case}"), move || same_bytes(&shared, case))
    };
    CASES.into_iter().map(of).collect()
}

/// Runs a case on a path for a target, with the sums and special functions of SM12x.
fn run(
    shared: &Shared,
    memo: &Memo,
    (case, width): (&str, &str),
    (path, target): (&str, &str),
) -> Result<(Box<dyn Prepared>, Outcome), Failed> {
    let attention = families::find("attention").ok_or("there is no such family")?;
    let words = format!("prefill_fp4 {width} nvfp4 {path}");
    let trial = attention.trials(case, Part::Named(&words)).into_iter().next();
    let trial = trial.ok_or_else(|| format!("{case} has no {words}"))?;
    let target: Target = target.parse().map_err(|e| format!("{e}"))?;
    let compiler =
        Compiler { nvrtc: &shared.nvrtc, store: shared.store.as_ref(), program: tool().to_owned(), target };
    let sources = trial.sources(&shared.library)?;
    let compiled = compiler.compiled(&shared.library, &sources)?;
    let prepared = trial.prepared(&shared.library, None, None, memo)?;
    let options = Options { model: Some(Model::Sm120), ..Options::default() };
    let outcome = prepared.emulate(memo, &compiled, 0..1, options)?;
    match outcome.first_wrong() {
        Some(wrong) => Err(format!("{} {target}: {}: {}", trial.name(), wrong.stage, wrong.note).into()),
        None => Ok((prepared, outcome)),
    }
}

fn same_bytes(shared: &Shared, case: &str) -> Result<(), Failed> {
    let memo = Memo::default();
    for width in WIDTHS {
        let (prepared, first) = run(shared, &memo, (case, width), NATIVE)?;
        for other in OTHERS {
            let (_, outcome) = run(shared, &memo, (case, width), other)?;
            let differing = prepared.differing(&first, &outcome);
            if !differing.is_empty() {
                return Err(format!("{case} {width}: {other:?} stores other bytes in {differing:?}").into());
            }
        }
    }
    Ok(())
}
