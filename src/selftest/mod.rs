//! Compares the emulator with recorded answers: every recorded instruction runs in a kernel, and its outputs are compared.
//!
//! The recording of a device contains whole warps and the instruction's PTX. The recording of a model contains matrices, which
//! are converted to fragments and run in the same kernels. Outputs must be equal bit for bit, except for approximate functions:
//! these may differ within the bounds of the manual, listed in [`BOUNDS`].

mod bounds;
mod compare;
mod exhaustive;
mod fresh;
mod kernel;
mod matrices;

pub use bounds::{BOUNDS, Bound, BoundRow, Limit, bound_row};
pub use exhaustive::{Compared, FUNCTIONS, Function, compare, record_digests};
pub use fresh::{Answerer, Ask, Fresh, forms, record};

use std::collections::BTreeMap;

use numerics::tensor_core::Model;
use rayon::prelude::*;

use emulator::{GlobalMemory, Launch, Options, Program, Stop, launch, load};
use vectors::{Op, Recording, Source, WarpOp};

/// The verdict of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every bit agrees.
    Exact,
    /// Some answers differ, all within the manual's bounds.
    Bounded,
    /// Answers differ, or the kernel failed.
    Fail(String),
    /// The emulator lacks something that the instruction's kernel uses.
    Unsupported(String),
}

impl Verdict {
    /// Whether the instruction passes.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, Self::Exact | Self::Bounded)
    }

    /// Returns the verdict in one word: `pass`, `fail` or `unsupported`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exact | Self::Bounded => "pass",
            Self::Fail(_) => "fail",
            Self::Unsupported(_) => "unsupported",
        }
    }
}

/// The result of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpResult {
    /// The device or model that recorded it.
    pub device: String,
    /// The name of the instruction.
    pub op: String,
    /// The number of recorded warps or matrices.
    pub cases: usize,
    /// The number of compared output elements.
    pub outputs: usize,
    /// The number of elements that differ.
    pub mismatches: usize,
    /// The distances of differing floating-point elements in units in the last place, with the number of elements. Elements that
    /// differ by a NaN have no distance.
    pub distances: BTreeMap<u64, usize>,
    /// The verdict.
    pub verdict: Verdict,
}

impl OpResult {
    /// Returns the largest distance; `None` if some difference has no distance.
    #[must_use]
    pub fn max_ulp(&self) -> Option<u64> {
        let counted: usize = self.distances.values().sum();
        (counted == self.mismatches).then(|| self.distances.keys().next_back().copied().unwrap_or(0))
    }
}

/// Runs every instruction of the recordings and returns the results in the same order. `model` selects the accumulation model;
/// `None` uses that of each recording's device.
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
    let compared = compare::Comparison::from_op(op.name(), warp);
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

/// Returns the emulator's outputs, in the layout of the recording.
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
