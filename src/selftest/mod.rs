//! Recorded answers against the emulator: every recorded instruction runs as a real kernel, and its outputs are compared.
//!
//! A recording of a device holds whole warps and the instruction's text; a model's holds matrices, which are laid out in
//! fragments and go through the same kernels. Bit for bit is the rule. PTX promises less for the approximated functions:
//! those may differ within the bounds of the manual, which [`BOUNDS`] lists.

mod bounds;
mod compare;
mod exhaustive;
mod fresh;
mod kernel;
mod matrices;

pub use bounds::{BOUNDS, Bound, BoundRow, Limit, of as bound_of};
pub use exhaustive::{Compared, FUNCTIONS, Function, compare, record_digests};
pub use fresh::{Answerer, Ask, Fresh, forms, record};

use std::collections::BTreeMap;

use numerics::tensor_core::Model;
use rayon::prelude::*;

use emulator::{GlobalMemory, Launch, Options, Program, Stop, launch, load};
use vectors::{Op, Recording, Source, WarpOp};

/// What became of one instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every bit agrees.
    Exact,
    /// Some answers differ, all of them within what the manual allows.
    Bounded,
    /// Answers differ, or the kernel failed.
    Fail(String),
    /// The emulator lacks something the instruction's kernel uses.
    Unsupported(String),
}

impl Verdict {
    /// Whether the instruction counts as right.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, Self::Exact | Self::Bounded)
    }

    /// The verdict in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exact | Self::Bounded => "pass",
            Self::Fail(_) => "fail",
            Self::Unsupported(_) => "unsupported",
        }
    }
}

/// One instruction's answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpResult {
    /// Who recorded it.
    pub device: String,
    /// Its name.
    pub op: String,
    /// Recorded warps or matrices.
    pub cases: usize,
    /// Compared output elements.
    pub outputs: usize,
    /// Elements that differ in any bit.
    pub mismatches: usize,
    /// Floating-point distances of those that differ, in units of the last place, and how often each occurs; without those
    /// between a number and a NaN.
    pub distances: BTreeMap<u64, usize>,
    /// The verdict.
    pub verdict: Verdict,
}

impl OpResult {
    /// The largest distance; `None` when answers differ in a way that has none.
    #[must_use]
    pub fn max_ulp(&self) -> Option<u64> {
        let counted: usize = self.distances.values().sum();
        (counted == self.mismatches).then(|| self.distances.keys().next_back().copied().unwrap_or(0))
    }
}

/// Runs every instruction of the recordings, in their order, on this hardware's model or, when none, on that of the recording's.
#[must_use]
pub fn run(recordings: &[Recording], model: Option<Model>) -> Vec<OpResult> {
    let ops: Vec<(&Recording, &Op)> =
        recordings.iter().flat_map(|r| r.ops.iter().map(move |op| (r, op))).collect();
    ops.into_par_iter().map(|(recording, op)| one(recording, op, model)).collect()
}

fn one(recording: &Recording, op: &Op, model: Option<Model>) -> OpResult {
    let made;
    let warp = match op {
        Op::Warp(warp) => warp,
        Op::Matrix(matrix) => {
            made = matrices::warps(matrix);
            &made
        }
    };
    let target = match &recording.source {
        Source::Device { capability, .. } => kernel::target(capability),
        Source::Model => "sm_120a".to_owned(),
    };
    let compared = compare::Comparison::of(op.name(), warp);
    let (outputs, result) = match answers(warp, &target, model) {
        Ok(got) => (compared.elements(warp.outputs.len()), compared.run(warp, &got)),
        Err(stop) => {
            let verdict = match stop {
                Stop::Unsupported(what) => Verdict::Unsupported(what.to_string()),
                other => Verdict::Fail(other.to_string()),
            };
            (compared.elements(warp.outputs.len()), compare::Outcome::stopped(verdict))
        }
    };
    OpResult {
        device: recording.device.clone(),
        op: op.name().to_owned(),
        cases: warp.cases,
        outputs,
        mismatches: result.mismatches,
        distances: result.distances,
        verdict: result.verdict,
    }
}

/// The emulator's outputs, in the layout of the recorded ones.
fn answers(op: &WarpOp, target: &str, model: Option<Model>) -> Result<Vec<u32>, Stop> {
    let program: Program = load(&kernel::text(op, target, kernel::ISA))?;
    let kernel =
        program.kernel(kernel::NAME).ok_or_else(|| Stop::Bug("the kernel was removed".to_owned()))?;
    let mut memory = GlobalMemory::default();
    let input = memory.allocate_with(op.inputs.iter().flat_map(|w| w.to_le_bytes()).collect());
    let output = memory.allocate(op.outputs.len() * 4);
    let how = Launch {
        grid: [u32::try_from(op.cases).unwrap_or(u32::MAX), 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        params: [input.to_le_bytes(), output.to_le_bytes()].concat(),
    };
    launch(&program, kernel, &how, &mut memory, &Options { model, ..Options::default() })?;
    let bytes = memory.bytes(output).unwrap_or_default();
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|b| u32::from_le_bytes(*b)).collect())
}
