//! Compares outputs bit by bit, and measures differences in units in the last place.

use std::collections::BTreeMap;

use numerics::Format;
use vectors::{LANES, WarpOp};

use super::Verdict;
use super::bounds::{self, BoundRow, Limit};

/// The type of an output register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    /// A value without a floating-point distance.
    Word,
    F32,
    /// Two values of a 16-bit format.
    Pair(Format),
    /// Half of an `f64`, which takes two registers.
    F64,
}

/// How the outputs of one instruction are compared.
pub(super) struct Comparison {
    element: Element,
    bound: Option<&'static BoundRow>,
}

/// The result of a comparison.
pub(super) struct Outcome {
    pub(super) mismatches: usize,
    pub(super) distances: BTreeMap<u64, usize>,
    pub(super) verdict: Verdict,
}

impl Outcome {
    /// Creates an outcome without a comparison.
    pub(super) fn stopped(verdict: Verdict) -> Self {
        Self { mismatches: 0, distances: BTreeMap::new(), verdict }
    }
}

/// Derives the type of a result from the instruction's name. The type decides how differences are counted, not
/// whether there are any.
fn element(name: &str, op: &WarpOp) -> Element {
    let words: Vec<&str> = name.split('.').collect();
    let is = |word: &str| words.contains(&word);
    // For these instructions, a register with one 16-bit value and zeros counts as a pair.
    let many = ["mma", "tanh", "ex2"].iter().any(|n| words[0].starts_with(n)) || name.starts_with("m16n8");
    // The type of the result comes first: `cvt.rn.f16x2.f32`, `mma.….f32.f16.f16.f32`.
    let first = words.iter().find_map(|w| {
        Some(match *w {
            "f32" => Element::F32,
            "f64" if op.n_out.is_multiple_of(2) => Element::F64,
            "f16x2" => Element::Pair(Format::F16),
            "bf16x2" => Element::Pair(Format::Bf16),
            "f16" if many => Element::Pair(Format::F16),
            "bf16" if many => Element::Pair(Format::Bf16),
            "u8" | "s8" | "u16" | "s16" | "u32" | "s32" | "u64" | "s64" | "b16" | "b32" | "b64" => {
                Element::Word
            }
            _ => return None,
        })
    });
    let no_number = ["setp", "testp", "slct", "redux", "ldmatrix", "stmatrix"];
    if no_number.iter().any(|n| words[0] == *n) || is("tf32") && words[0] == "cvt" {
        return Element::Word;
    }
    first.unwrap_or(Element::Word)
}

/// Returns the rank of a number among all numbers of its format; `None` for a NaN.
fn rank(bits: u64, magnitude_bits: u32, infinity: u64) -> Option<i128> {
    let magnitude = bits & ((1 << magnitude_bits) - 1);
    if magnitude > infinity {
        return None;
    }
    let magnitude = i128::from(magnitude);
    Some(if bits >> magnitude_bits & 1 == 1 { -magnitude } else { magnitude })
}

/// Returns the distance of two unequal bit patterns in units in the last place; `None` if there is none, as
/// for a NaN.
fn distance(a: u64, b: u64, element: Element) -> Option<u64> {
    let (bits, infinity) = match element {
        Element::Word => return None,
        Element::F32 => (31, 0x7F80_0000),
        Element::Pair(Format::F16) => (15, 0x7C00),
        Element::Pair(_) => (15, 0x7F80),
        Element::F64 => (63, 0x7FF0_0000_0000_0000),
    };
    let distance = rank(a, bits, infinity)?.abs_diff(rank(b, bits, infinity)?);
    u64::try_from(distance).ok()
}

/// Returns the value of an element, and half a unit in its last place.
fn value(bits: u64, element: Element) -> (f64, f64) {
    let (x, next) = match element {
        Element::Word => return (0.0, 0.0),
        Element::F64 => (f64::from_bits(bits), f64::from_bits(bits + 1)),
        Element::F32 => {
            let at = |b: u64| f64::from(f32::from_bits(b as u32));
            (at(bits), at(bits + 1))
        }
        Element::Pair(format) => {
            let at = |b: u64| f64::from(format.decode(b as u32 & 0xFFFF));
            (at(bits), at(bits + 1))
        }
    };
    (x, if next.is_finite() { (next - x).abs() / 2.0 } else { 0.0 })
}

impl Comparison {
    pub(super) fn from_op(name: &str, op: &WarpOp) -> Self {
        Self { element: element(name, op), bound: bounds::bound_row(name) }
    }

    /// Returns the number of elements in this many output words.
    pub(super) fn elements(&self, words: usize) -> usize {
        match self.element {
            Element::Word | Element::F32 => words,
            Element::Pair(_) => words * 2,
            Element::F64 => words / 2,
        }
    }

    /// Compares all outputs.
    pub(super) fn run(&self, op: &WarpOp, got: &[u32]) -> Outcome {
        let mut outcome = Outcome { mismatches: 0, distances: BTreeMap::new(), verdict: Verdict::Exact };
        let mut broken = None;
        for case in 0..op.cases {
            let inputs = op.input(case);
            let at = case * op.n_out * LANES;
            let words = |from: &[u32], lane: usize| -> Vec<u32> {
                (0..op.n_out).map(|r| from.get(at + r * LANES + lane).copied().unwrap_or(0)).collect()
            };
            for lane in 0..LANES {
                let (want, have) = (words(&op.outputs, lane), words(got, lane));
                if want == have {
                    continue;
                }
                let operands: Vec<u32> = inputs.iter().map(|r| r[lane]).collect();
                for (part, (w, h)) in self.split(&want).into_iter().zip(self.split(&have)).enumerate() {
                    if w == h {
                        continue;
                    }
                    outcome.mismatches += 1;
                    let distance = distance(w, h, self.element);
                    if let Some(distance) = distance {
                        *outcome.distances.entry(distance).or_default() += 1;
                    }
                    if !self.allows(w, h, distance, &operands, part) && broken.is_none() {
                        broken = Some(format!(
                            "case {case}, lane {lane}, element {part}: {h:#x} instead of {w:#x}, inputs {operands:x?}"
                        ));
                    }
                }
            }
        }
        outcome.verdict = match broken {
            Some(first) => Verdict::Fail(first),
            None if outcome.mismatches > 0 => Verdict::Bounded,
            None => Verdict::Exact,
        };
        outcome
    }

    /// Splits the output registers of a lane into elements.
    fn split(&self, words: &[u32]) -> Vec<u64> {
        match self.element {
            Element::Word | Element::F32 => words.iter().map(|w| u64::from(*w)).collect(),
            Element::Pair(_) => {
                words.iter().flat_map(|w| [u64::from(*w & 0xFFFF), u64::from(*w >> 16)]).collect()
            }
            Element::F64 => {
                words.chunks(2).map(|p| p.iter().rev().fold(0, |x, w| x << 32 | u64::from(*w))).collect()
            }
        }
    }

    /// Whether the difference is within the manual's bound.
    fn allows(&self, want: u64, have: u64, distance: Option<u64>, inputs: &[u32], part: usize) -> bool {
        let Some(row) = self.bound else { return false };
        let operands: Vec<f64> = inputs
            .iter()
            .map(|x| match self.element {
                Element::Pair(format) => f64::from(format.decode(x >> (16 * (part & 1)) & 0xFFFF)),
                _ => f64::from(f32::from_bits(*x)),
            })
            .collect();
        // The recorded answer may differ from the true value by the bound; the emulator's is the rounded true
        // value.
        let ((w, _), (h, half)) = (value(want, self.element), value(have, self.element));
        match row.bound.limit(&operands) {
            Limit::None => true,
            Limit::Ulp(most) => distance.is_some_and(|d| d <= most),
            Limit::Relative(_) | Limit::Absolute(_) if !w.is_finite() || !h.is_finite() => false,
            Limit::Relative(power) => (w - h).abs() <= h.abs() * power.exp2() + half,
            Limit::Absolute(power) => (w - h).abs() <= power.exp2() + half,
        }
    }
}
