//! A kernel on paper with quantized queries and weights: what it may round is never accused, and what it declares less of is found.

use std::sync::Arc;

use numerics::random::{at, mix};
use record::Verdict;

use super::*;
use crate::attention::case::built_in;
use crate::attention::configuration::{Configuration, Kernel, Types};
use crate::attention::generate::Data;
use crate::attention::problem::{LeftOut, Problem};
use crate::attention::quantize::Quantized;
use crate::frame::stream::{Problem as _, Stored};
use crate::kernel::{
    BlockScaleRule, FactorRule, KOrder, KernelContract, MmaPath, Quantization, QuotientRounding,
};

/// What a kernel does.
#[derive(Debug, Clone, Copy)]
struct Knobs {
    /// The relative error of exponentials, of either sign.
    exponential: f64,
    /// The relative error of quotients of scales and codes.
    quotient: f64,
    /// Bits below those of binary32's 24 that each addition of a product of a query and a key cuts; `None` if the sum is rounded once.
    cut: Option<u32>,
    /// Whether weights are relative to the largest score so far.
    running: bool,
    /// Whether the denominator sums quantized weights: a fault.
    rounded_sum: bool,
    /// The factor of the tiles behind the first one of a split: a fault, unless 1.
    factor: f32,
    /// The largest weight: a fault, unless 448·6.
    largest: f32,
    seed: u64,
}

const RIGHT: Knobs = Knobs {
    exponential: 0.0,
    quotient: 0.0,
    cut: None,
    running: false,
    rounded_sum: false,
    factor: 1.0,
    largest: 2688.0,
    seed: 0,
};

impl Knobs {
    /// A number times 1 ± `off`.
    fn off(&self, x: f32, off: f64) -> f32 {
        let sign = if mix(self.seed ^ u64::from(x.to_bits())) & 1 == 0 { 1.0 } else { -1.0 };
        (f64::from(x) * (1.0 + sign * off)) as f32
    }

    fn exp2(&self, x: f32) -> f32 {
        let exact = libm::exp2(f64::from(x)) as f32;
        // The exponential of zero is exact.
        if x == 0.0 { exact } else { self.off(exact, self.exponential) }
    }

    fn nearest(&self, x: f32, element: Element) -> f32 {
        element.nearest(f64::from(self.off(x, self.quotient))).clamp(-element.largest(), element.largest())
            as f32
    }

    /// The weights of 16 keys as they multiply the values.
    fn quantized(&self, weights: &[f32]) -> Vec<f32> {
        let largest = weights.iter().fold(0.0, |most: f32, w| most.max(*w));
        let scale = self.nearest(largest / 6.0, Element::E4m3);
        let code = |w: &f32| if scale == 0.0 { 0.0 } else { self.nearest(w / scale, Element::Nvfp4) * scale };
        weights.iter().map(code).collect()
    }

    /// The sum of products, exact and rounded once or cut with each addition.
    fn product(&self, query: &[f32], key: &[f32]) -> f32 {
        let products = query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k));
        let Some(bits) = self.cut else { return products.sum::<f64>() as f32 };
        products.fold(0.0_f32, |sum, product| {
            let exact = f64::from(sum) + product;
            let near = exact as f32;
            let away = u32::from(f64::from(near).abs() > exact.abs());
            f32::from_bits((near.to_bits() - away) >> bits << bits)
        })
    }
}

/// The result of a split: its elements and the logarithm of its sum.
fn split(
    data: &Data,
    problem: &Problem,
    knobs: &Knobs,
    (request, row, head): (usize, usize, usize),
) -> (Vec<f32>, f32) {
    let (shape, of) = (&problem.shape, &problem.requests[request]);
    let (kv_head, width) = (shape.kv_head(0, head), shape.width);
    let query = problem.query(of.rows.start + row, head);
    let slope = problem.slopes.get(head).copied().unwrap_or(0.0);
    let mut tiles: BTreeMap<usize, Vec<(usize, f32)>> = BTreeMap::new();
    for key in problem.visible(of, row) {
        let product =
            knobs.product(query, problem.keys.row(of.keys.start + key, kv_head, shape.kv_heads, width));
        let distance = (key as i64 - of.position - row as i64) as f32;
        let score = (product * data.scale + slope * distance) * std::f32::consts::LOG2_E;
        tiles.entry(key / 64).or_default().push((key, score));
    }
    let (mut most, mut sum, mut out) = (f32::NEG_INFINITY, 0.0_f32, vec![0.0_f32; width]);
    for (n, keys) in tiles.values().enumerate() {
        let of_tile = keys.iter().fold(f32::NEG_INFINITY, |most, (_, score)| most.max(*score));
        let new = most.max(of_tile);
        let (before, factor) = (knobs.exp2(most - new), knobs.exp2(of_tile - new));
        let (shift, factor) = if knobs.running { (new, 1.0) } else { (of_tile, factor) };
        let factor = if n > 0 { factor * knobs.factor } else { factor };
        let weights: Vec<f32> =
            keys.iter().map(|(_, score)| knobs.exp2(score - shift) * knobs.largest).collect();
        let mut codes = Vec::new();
        let mut first = 0;
        for block in keys.chunk_by(|a, b| a.0 / BLOCK == b.0 / BLOCK) {
            codes.extend(knobs.quantized(&weights[first..first + block.len()]));
            first += block.len();
        }
        let total: f32 = if knobs.rounded_sum { codes.iter().sum() } else { weights.iter().sum() };
        sum = total.mul_add(factor, sum * before);
        for (d, out) in out.iter_mut().enumerate() {
            let of_key = |((key, _), code): (&(usize, f32), &f32)| {
                f64::from(*code)
                    * f64::from(problem.values.row(of.keys.start + key, kv_head, shape.kv_heads, width)[d])
            };
            let products = keys.iter().zip(&codes).map(of_key).sum::<f64>() as f32;
            *out = products.mul_add(factor, *out * before);
        }
        most = new;
    }
    if sum > 0.0 {
        out.iter_mut().for_each(|out| *out /= sum);
    }
    let lse = if sum > 0.0 { most + libm::log2f(sum / knobs.largest) } else { f32::NEG_INFINITY };
    (out, lse)
}

/// Everything that the kernels of a configuration store.
fn run(data: &Data, knobs: &Knobs) -> Stored {
    let (case, width) = (&data.case, data.configuration.width);
    let (chunk, splits) = case.splits();
    let mut stored = Stored::new();
    let mut put = |name, bytes: Vec<u8>| stored.entry(name).or_default().extend(bytes);
    for (request, of) in data.problem.requests.iter().enumerate() {
        for (row, head) in
            of.rows.clone().enumerate().flat_map(|(row, _)| (0..case.heads).map(move |head| (row, head)))
        {
            let queries = Quantized::from_queries(&data.given(of.rows.start + row, head), data.query_factor);
            put("query_codes", queries.codes);
            put("query_scales", queries.scales);
            let parts: Vec<(Vec<f32>, f32)> = (0..splits)
                .map(|n| {
                    let mut problem = data.problem.clone();
                    problem.semantics.left_out = LeftOut::AllButSplit(n * chunk, chunk);
                    split(data, &problem, knobs, (request, row, head))
                })
                .collect();
            let sink = data
                .problem
                .sink(row, head)
                .map_or(f32::NEG_INFINITY, |sink| sink as f32 * std::f32::consts::LOG2_E);
            let most = parts.iter().fold(sink, |most, (_, lse)| most.max(*lse));
            let shift = if most == f32::NEG_INFINITY { 0.0 } else { most };
            let total =
                parts.iter().fold(knobs.exp2(sink - shift), |sum, (_, lse)| sum + knobs.exp2(lse - shift));
            for d in 0..width {
                let sum = parts
                    .iter()
                    .fold(0.0, |sum: f32, (out, lse)| knobs.exp2(lse - shift).mul_add(out[d], sum));
                let x = if total > 0.0 { sum / total * data.value_scale } else { 0.0 };
                let code = Element::Bf16.nearest(f64::from(x)) as f32;
                put("out", ((code.to_bits() >> 16) as u16).to_le_bytes().to_vec());
            }
            let lse = if total > 0.0 { most + libm::log2f(total) } else { f32::NEG_INFINITY };
            let lse = if case.natural { lse * std::f32::consts::LN_2 } else { lse };
            put("lse", lse.to_le_bytes().to_vec());
            for (out, lse) in parts {
                put("partial", out.iter().flat_map(|x| x.to_le_bytes()).collect());
                put("partial_lse", lse.to_le_bytes().to_vec());
            }
        }
    }
    stored
}

fn configuration(width: usize) -> Configuration {
    Configuration {
        path: Some(MmaPath::Portable),
        ..Configuration::plain(Kernel::PrefillFp4, width, Types::Nvfp4)
    }
}

/// Wrong elements of the results of splits and of the output.
fn wrong(case: &str, width: usize, knobs: &Knobs, (order, factor): (KOrder, FactorRule)) -> [u64; 2] {
    let case = Arc::new(built_in().cases.iter().find(|of| of.name == case).unwrap().clone());
    let quantizes = Quantization {
        rounding: QuotientRounding::NearestEven,
        scale: BlockScaleRule::SixthOfLargest,
        factor,
    };
    let contract = KernelContract {
        k_order: order,
        quantizes: Some(quantizes),
        deterministic: true,
        ..KernelContract::default()
    };
    let data = Data::new(&case, configuration(width), knobs.seed).unwrap().declared_by(&contract);
    let stages = data.judge(&run(&data, knobs));
    assert_eq!(
        (stages.len(), stages[0].verdict, stages[0].mismatches),
        (3, Verdict::Pass, 0),
        "{}",
        stages[0].note
    );
    [stages[1].mismatches, stages[2].mismatches]
}

const ASCENDING: (KOrder, FactorRule) = (KOrder::Ascending, FactorRule::TileMaximum);
const ANY: (KOrder, FactorRule) = (KOrder::Any, FactorRule::TileMaximum);
const RUNNING: (KOrder, FactorRule) = (KOrder::Ascending, FactorRule::RunningMaximum);

/// The error of `ex2.approx`.
const OF_EXP: f64 = EX2 * 0.99;
/// Of a product with a rounded reciprocal.
const OF_QUOTIENT: f64 = 1.0 / 8_388_608.0;

const ALL_CASES: [&str; 5] = [
    "attention-real",
    "attention-every-key",
    "attention-fp4-tiles",
    "attention-fp4-equal",
    "attention-fp4-tree",
];

#[test]
fn no_right_result_is_accused() {
    let rounded = Knobs { exponential: OF_EXP, quotient: OF_QUOTIENT, ..RIGHT };
    for seed in 0..6 {
        for case in ALL_CASES {
            for (knobs, declared) in [
                (RIGHT, ASCENDING),
                (rounded, ASCENDING),
                (Knobs { running: true, ..rounded }, RUNNING),
                (Knobs { cut: Some(0), ..rounded }, ANY),
            ] {
                let knobs = Knobs { seed: at(11, seed), ..knobs };
                assert_eq!(wrong(case, 64, &knobs, declared), [0, 0], "{case} {knobs:?}");
            }
        }
    }
}

#[test]
fn every_declaration_is_needed() {
    let found = |case: &str, knobs: Knobs, declared| {
        let of_seed = |seed: u64| wrong(case, 128, &Knobs { seed: at(5, seed), ..knobs }, declared);
        (0..4).map(of_seed).fold([0, 0], |sum, of| [sum[0] + of[0], sum[1] + of[1]])
    };
    let tiles = "attention-fp4-tiles";
    assert_eq!(found(tiles, RIGHT, ASCENDING), [0, 0]);
    // Sums that lose bits with each addition instead of once in 64, and weights relative to another maximum.
    assert!(found(tiles, Knobs { cut: Some(3), ..RIGHT }, ASCENDING)[0] > 0);
    assert_eq!(found(tiles, Knobs { cut: Some(3), ..RIGHT }, ANY), [0, 0]);
    assert!(found(tiles, Knobs { running: true, ..RIGHT }, ASCENDING)[0] > 0);
    assert!(found(tiles, RIGHT, RUNNING)[0] > 0);
    // Exponentials and quotients that err by more.
    assert!(found(tiles, Knobs { exponential: EX2 * 64.0, ..RIGHT }, ASCENDING)[0] > 0);
    assert!(found(tiles, Knobs { quotient: 1.0 / 1024.0, ..RIGHT }, ASCENDING)[0] > 0);
    // Faults: in random data and in exact data.
    for case in ALL_CASES {
        let rounded_sum = found(case, Knobs { rounded_sum: true, ..RIGHT }, ASCENDING)[0];
        let is_equal = case == "attention-fp4-equal";
        assert_eq!(rounded_sum == 0, is_equal, "{case}: equal weights become the same code, which is exact");
        let largest = found(case, Knobs { largest: 448.0, ..RIGHT }, ASCENDING)[0];
        assert!(largest > 0, "{case}: a factor of the first level is missing");
    }
    assert!(found(tiles, Knobs { factor: 1.001, ..RIGHT }, ASCENDING)[0] > 0);
}

#[test]
fn a_weight_has_two_codes_only_at_a_tie() {
    let off = 1e-7;
    let around = |x: f64| (x * (1.0 - off), x * (1.0 + off));
    // The scale of 2,688 is 448; 1,120 is halfway between codes of 2 and 3, 1,100 is not.
    let quantized = quantized(&[(2688.0, 2688.0), around(1120.0), around(1100.0)]);
    assert_eq!(quantized, [(2688.0, 2688.0), (896.0, 1344.0), (896.0, 896.0)]);
    // The scale of 6·17 is halfway between 16 and 18: both are allowed, and codes follow.
    let (low, high) = super::quantized(&[around(6.0 * 17.0)])[0];
    assert_eq!((low, high), (96.0, 108.0));
    assert_eq!(super::quantized(&[around(6.0 * 16.9)])[0], (96.0, 96.0));
    // A scale that becomes zero leaves nothing of its block.
    assert_eq!(super::quantized(&[(0.0, 6.0 / 2048.0)])[0], (0.0, 0.0));
}

#[test]
fn of_a_thousand_weights_of_random_data_few_have_two_codes() {
    let (mut all, mut open) = (0, 0);
    for (name, width) in [("attention-real", 64), ("attention-real", 128), ("attention-fp4-tiles", 128)] {
        let case = Arc::new(built_in().cases.iter().find(|of| of.name == name).unwrap().clone());
        let data = Data::new(&case, configuration(width), case.seed).unwrap();
        let reference = Reference::new(&data.problem, data.arithmetic());
        let of = data.arithmetic().two_level.unwrap();
        for request in &data.problem.requests {
            for row in 0..request.rows.len() {
                for head in 0..case.heads {
                    let keys = reference.keys(request, row, head).unwrap();
                    for tile in tiles(of, &keys, request) {
                        for block in tile.blocks(request) {
                            let weights: Vec<Ends> = block.iter().map(|key| tile.weight(key)).collect();
                            let codes = quantized(&weights);
                            all += codes.len();
                            open += codes.iter().filter(|(low, high)| low < high).count();
                        }
                    }
                }
            }
        }
    }
    assert!(all > 10_000 && open * 1000 < all * 5, "{open} of {all}");
}
