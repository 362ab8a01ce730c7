//! Random single-byte faults in a grouped GEMM of gpt-oss dimensions, and how many of them each kind of data exposes.
//!
//! A fault increments or decrements a scale byte or a code, of the weights or of the activations. It is exposed if it moves
//! a sum so far that no bf16 within the bound can be stored, whatever the error of the moved sum (docs/numerics.md, 7): every
//! fault counted here is detected for certain, whatever the kernel's order.

use std::path::Path;

use rayon::prelude::*;

use super::flags::{Moves, UP};
use crate::kernel::MmaPath;
use crate::moe::case::{CaseError, Format, FormatPair, Library};
use crate::moe::contract::Accumulation;
use crate::moe::error::MoeError;
use crate::moe::family::FAMILY;
use crate::moe::format::Element;
use crate::moe::problem::generate;
use crate::moe::random::{Purpose, Stream};
use crate::moe::reference::epilogue::{Epilogue, Factor};
use crate::moe::reference::expected::Expected;
use crate::moe::reference::formats::bf16;
use crate::moe::reference::gemm::element;
use crate::moe::reference::line::Line;
use crate::moe::tensors::Array;
use record::{Exposed, FaultRow};

/// The model with these dimensions.
const MODEL: &str = "gpt-oss-120b";

/// The first GEMM's operands of one expert.
struct Data {
    pair: FormatPair,
    accumulation: Accumulation,
    codes: Array<u8>,
    scales: Array<u8>,
    weights: Array<u8>,
    weight_scales: Array<u8>,
    globals: [Option<f32>; 2],
    bias: Array<f32>,
}

/// The byte or code that a fault changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    WeightScale,
    WeightCode,
    Scale,
    Code,
}

/// A byte, or a code of four bits, that is incremented or decremented.
#[derive(Debug, Clone, Copy)]
struct Fault {
    kind: Kind,
    up: bool,
    /// A column of weights or a row of activations.
    line: usize,
    /// A block of scales or an element of codes.
    at: usize,
}

/// Plants `count` random faults in the first GEMM of one expert of gpt-oss-120b that has a row for every block of K, with operands
/// of these formats.
///
/// # Errors
/// [`MoeError`] if the data cannot be generated.
pub fn faults(pair: FormatPair, count: u64) -> Result<FaultRow, MoeError> {
    let data = |regime| Data::new(pair, regime);
    let (exact, impulse, real) = (data("exact")?, data("impulse")?, data("real")?);
    let (rows, stream) = (exact.rows(), Stream::new(0, Purpose::Fault, 0));
    let shown: Vec<[bool; 3]> = (0..count)
        .into_par_iter()
        .map(|n| {
            let fault = exact.draw(stream.bits(usize::try_from(n).unwrap_or(usize::MAX)));
            let seeded = exact.shows(fault, rows) || impulse.shows(fault, rows);
            [seeded, real.shows(fault, rows), real.shows(fault, 1)]
        })
        .collect();
    let of = |n: usize| shown.iter().filter(|s| s[n]).count() as u64;
    let exposed = |by: &str, n| Exposed { by: by.to_owned(), faults: of(n) };
    Ok(FaultRow {
        family: FAMILY.to_owned(),
        dimensions: if pair == FormatPair::default() {
            format!("{MODEL}'s first GEMM, {rows} rows")
        } else {
            format!("{MODEL}'s first GEMM in {}, {rows} rows", pair.word())
        },
        faults: count,
        exposed: vec![
            exposed("exact and impulse data", 0),
            exposed("real values", 1),
            exposed("real values with one row per expert", 2),
        ],
    })
}

/// A case of one expert that gets all rows.
fn case(pair: FormatPair, regime: &str) -> Result<crate::moe::case::Case, CaseError> {
    let text = format!(
        "about: One expert.\nformat: {}\nmodel: {MODEL}\ntokens: {}\nexperts: 1\ntop_k: 1\nrouting: same\nregime: {regime}\n",
        pair.word(),
        // As many rows as K has blocks, so that impulse data reach each block.
        crate::moe::case::models().iter().find(|m| m.name == MODEL).map_or(0, |m| m.hidden / pair.block())
    );
    let mut library = Library::default();
    library.add(Path::new("single-byte-faults.yaml"), &text);
    match library.problems.pop() {
        Some(problem) => Err(problem),
        None => library.find("single-byte-faults").cloned(),
    }
}

impl Data {
    fn new(pair: FormatPair, regime: &str) -> Result<Self, MoeError> {
        let case = case(pair, regime).map_err(|error| MoeError::Invalid(error.to_string()))?;
        let inputs = generate(&case, 1)?.inputs;
        let states = super::there(&inputs.hidden_states, "hidden_states")?;
        let one = |array: &Option<Array<f32>>| array.as_ref().and_then(|a| a.data.first().copied());
        let globals = [one(&inputs.a1_global), one(&inputs.w13_global)];
        let values: Vec<f64> = states.data.iter().map(|x| bf16(*x)).collect();
        let format = pair.activation();
        let (codes, scales) = format.quantize_row(case.scale_rule, globals[0].unwrap_or(1.0), &values);
        let (rows, depth) = (case.tokens, case.hidden);
        Ok(Self {
            pair,
            accumulation: Accumulation::on_path(pair, MmaPath::Native, None),
            codes: Array::new("a1_codes", &[rows, format.bytes(depth)], codes)?,
            scales: Array::new("a1_scales", &[rows, format.scales(depth)], scales)?,
            globals,
            weights: super::there(&inputs.w13_blocks, "w13_blocks")?.clone(),
            weight_scales: super::there(&inputs.w13_scales, "w13_scales")?.clone(),
            bias: super::there(&inputs.w13_bias, "w13_bias")?.clone(),
        })
    }

    fn rows(&self) -> usize {
        self.codes.shape[0]
    }

    fn cols(&self) -> usize {
        self.bias.data.len()
    }

    /// Decodes a fault from 64 random bits.
    fn draw(&self, bits: u64) -> Fault {
        // bf16 activations have no scales.
        let scale = if self.pair.activation().scale().is_some() { Kind::Scale } else { Kind::Code };
        let kind = [Kind::WeightScale, Kind::WeightCode, scale, Kind::Code][(bits & 3) as usize];
        let lines = match kind {
            Kind::WeightScale | Kind::WeightCode => self.cols(),
            Kind::Scale | Kind::Code => self.rows(),
        };
        let depth = self.codes.shape[1] * 8 / self.pair.activation().element().bits();
        let places = match kind {
            Kind::WeightScale | Kind::Scale => depth / self.pair.block(),
            Kind::WeightCode | Kind::Code => depth,
        };
        let (line, at) = ((bits >> 8 & 0xFF_FFFF) as usize % lines, (bits >> 32) as usize % places);
        Fault { kind, up: bits & 4 != 0, line, at }
    }

    /// Whether one of the outputs that the fault reaches exposes it; for weights, those of the first `rows` rows.
    fn shows(&self, fault: Fault, rows: usize) -> bool {
        if matches!(fault.kind, Kind::WeightScale | Kind::WeightCode) {
            return (0..rows).any(|row| self.shows_at(fault, row, fault.line));
        }
        // Starts at a different column for each fault: the first few hardly ever all miss it.
        let cols = self.cols();
        (0..cols).any(|n| self.shows_at(fault, fault.line, (n + fault.at * 7) % cols))
    }

    fn shows_at(&self, fault: Fault, row: usize, col: usize) -> bool {
        let (codes, scales) = (self.codes.row(row), self.scales.row(row));
        let (weights, weight_scales) = (self.weights.row(col), self.weight_scales.row(col));
        let (activation, weight, block) = (self.pair.activation(), self.pair.weight(), self.pair.block());
        let (mut of, mut by) = (Line::default(), Line::default());
        of.read(activation, block, codes, scales, self.accumulation.width());
        by.read(weight, block, weights, weight_scales, self.accumulation.width());
        let factor = Factor::from_globals(self.globals);
        let epilogue = Epilogue { factor, bias: self.bias.data.get(col).copied() };
        let Expected::Number { value, error } = element(&self.accumulation, &of, &by, epilogue) else {
            return false;
        };
        let step = |code: u8| if fault.up { code.wrapping_add(1) } else { code.wrapping_sub(1) };
        let at = fault.at;
        let scaled = |format: Format, code: u8| {
            format.scale().map_or(0.0, |scale| scale.value(step(code)) - scale.value(code))
        };
        let moved = |element: Element, bytes: &[u8]| {
            let code = element.code(bytes, at);
            element.value(element.neighbour(code, fault.up)) - element.value(code)
        };
        let power = |at: usize| of.scales[at].value * by.scales[at].value;
        let delta = epilogue.factor.map_or(1.0, |f| f.value)
            * match fault.kind {
                Kind::WeightScale => {
                    of.raw_dot(&by, at) * of.scales[at].value * scaled(weight, weight_scales[at])
                }
                Kind::Scale => of.raw_dot(&by, at) * by.scales[at].value * scaled(activation, scales[at]),
                Kind::WeightCode => of.values[at] * moved(weight.element(), weights) * power(at / block),
                Kind::Code => moved(activation.element(), codes) * by.values[at] * power(at / block),
            };
        Moves::new(value, error).seen(delta, UP) == UP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_and_impulse_data_show_what_real_values_hide() {
        let row = faults(FormatPair::default(), 400).unwrap();
        let [exact_and_impulse, real, real_decode] = row.exposed.as_slice() else { panic!("{row:?}") };
        assert_eq!(exact_and_impulse.faults, row.faults, "{row:?}");
        let (real, decode) = (real.faults, real_decode.faults);
        assert!(decode < real && real <= row.faults && decode > 0, "{row:?}");
    }
}
