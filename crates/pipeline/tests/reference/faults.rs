//! Ten thousand faults of one byte in gpt-oss dimensions: all are found in exact and impulse data.

use pipeline::moe::case::Format;
use pipeline::moe::reference::gemm::element;
use pipeline::moe::reference::line::Line;
use pipeline::moe::{Accumulation, Array, problem::generate};
use rayon::prelude::*;

use crate::case as from;
use crate::device::{NATIVE, bf16, dot, mix, quantize, to_bf16};

const ROWS: usize = 90;
const DEPTH: usize = 2880;
const COLS: usize = 5760;
const BLOCKS: usize = DEPTH / 32;

/// The operands of FC1 of one expert with 90 rows, as a device would hold them.
struct Data {
    codes: Vec<u8>,
    scales: Vec<u8>,
    weights: Array<u8>,
    weight_scales: Array<u8>,
    bias: Array<f32>,
}

fn data(regime: &str) -> Data {
    let case = from(&format!(
        "about: x\ntokens: {ROWS}\nhidden: {DEPTH}\ninter: {}\nexperts: 1\ntop_k: 1\nrouting: same\nregime: {regime}\n",
        COLS / 2
    ));
    let problem = generate(&case, 1).unwrap();
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    for block in problem.inputs.hidden_states.unwrap().data.chunks(32) {
        let values: Vec<f32> = block.iter().map(|x| bf16(*x)).collect();
        let (scale, elements) = quantize(case.scale_rule, &values);
        scales.push(scale);
        codes.extend(elements);
    }
    Data {
        codes,
        scales,
        weights: problem.inputs.w13_blocks.unwrap(),
        weight_scales: problem.inputs.w13_scales.unwrap(),
        bias: problem.inputs.w13_bias.unwrap(),
    }
}

/// A byte that is one more or less, or a code of four bits.
#[derive(Debug, Clone, Copy)]
struct Fault {
    kind: u64,
    up: bool,
    /// A column for weights, a row for activations.
    line: usize,
    at: usize,
}

impl Fault {
    fn draw(seed: u64) -> Self {
        let r = mix(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1);
        let kind = r % 4;
        let lines = if kind < 2 { COLS } else { ROWS };
        let places = if kind.is_multiple_of(2) { BLOCKS } else { DEPTH };
        let (line, at) = ((r >> 8) as usize % lines, (r >> 32) as usize % places);
        Self { kind, up: r & 0x80 != 0, line, at }
    }

    fn step(self, byte: u8) -> u8 {
        if self.up { byte.wrapping_add(1) } else { byte.wrapping_sub(1) }
    }

    /// Whether the reference finds it, over the outputs of the first `rows` rows that it reaches, until one is wrong.
    fn is_found(self, data: &Data, rows: usize) -> bool {
        let outputs: Vec<(usize, usize)> = if self.kind < 2 {
            (0..rows).map(|row| (row, self.line)).collect()
        } else {
            // From a column of its own on.
            (0..COLS).map(|n| (self.line, (n + self.at * 7) % COLS)).collect()
        };
        outputs.into_iter().any(|(row, col)| {
            let codes = &data.codes[row * DEPTH..(row + 1) * DEPTH];
            let scales = &data.scales[row * BLOCKS..(row + 1) * BLOCKS];
            let (weights, weight_scales) = (data.weights.row(col), data.weight_scales.row(col));
            let bias = data.bias.data[col];
            let (mut of, mut by) = (Line::default(), Line::default());
            of.read(Format::Mxfp8, 32, codes, scales, 32);
            by.read(Format::Mxfp4, 32, weights, weight_scales, 32);
            let expected = element(&Accumulation::NATIVE, &of, &by, Some(bias));

            let (mut codes, mut scales) = (codes.to_vec(), scales.to_vec());
            let (mut weights, mut weight_scales) = (weights.to_vec(), weight_scales.to_vec());
            match self.kind {
                0 => weight_scales[self.at] = self.step(weight_scales[self.at]),
                1 => {
                    let (byte, shift) = (self.at / 2, 4 * (self.at % 2));
                    let code = self.step(weights[byte] >> shift & 15) & 15;
                    weights[byte] = weights[byte] & !(15 << shift) | code << shift;
                }
                2 => scales[self.at] = self.step(scales[self.at]),
                _ => codes[self.at] = self.step(codes[self.at]),
            }
            let found = dot(NATIVE, &codes, &scales, &weights, &weight_scales) + bias;
            !expected.accepts(to_bf16(found))
        })
    }
}

#[test]
fn ten_thousand_faults_of_one_byte_are_all_found() {
    let (exact, impulse) = (data("exact"), data("impulse"));
    let missed: Vec<Fault> = (0..10_000_u64)
        .into_par_iter()
        .map(Fault::draw)
        .filter(|fault| !fault.is_found(&exact, ROWS) && !fault.is_found(&impulse, ROWS))
        .collect();
    assert!(missed.is_empty(), "{} missed: {:?}", missed.len(), &missed[..missed.len().min(5)]);
}

#[test]
fn real_values_find_a_share_of_the_faults() {
    let real = data("real");
    for kind in 0..4 {
        let faults: Vec<Fault> = (0..800).map(Fault::draw).filter(|f| f.kind == kind).take(100).collect();
        let found = |rows| faults.par_iter().filter(|f| f.is_found(&real, rows)).count();
        let what = ["weight scales", "weight codes", "activation scales", "activation codes"][kind as usize];
        // Weights of an expert are seen by its rows, activations by all columns.
        let (one, all) = (found(1), found(ROWS));
        println!("{what}: real values find {all} of {} faults, {one} with one row per expert", faults.len());
        assert!(all >= one && one > 0, "{what}: nothing is found at all");
    }
}
