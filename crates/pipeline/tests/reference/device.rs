//! A device in a few lines: the pipeline as plain sequential code, tensor cores as the truncating model says. It shares
//! nothing with the reference.

use std::collections::BTreeMap;

use pipeline::moe::case::{BiasPlace, GateUp, GroupScore, Router, ScaleRule, Scores};
use pipeline::moe::{Array, Dims, Problem, Tensors};

/// How the simulated tensor core adds.
#[derive(Clone, Copy)]
pub(crate) struct Core {
    pub(crate) chunk: usize,
    pub(crate) fraction: i32,
    /// Seed of an order of K, and how many accumulators share the chunks; the declared order without it.
    pub(crate) shuffle: Option<(u64, usize)>,
}

pub(crate) const NATIVE: Core = Core { chunk: 32, fraction: 25, shuffle: None };

pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let x = (x ^ (x >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    x ^ (x >> 33)
}

pub(crate) fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Round to nearest even by the bits.
pub(crate) fn to_bf16(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7FFF;
    }
    let bits = x.to_bits();
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

/// Value and model exponent of an e4m3 code.
pub(crate) fn e4m3(code: u8) -> (f64, i32) {
    let (field, mantissa) = (i32::from(code >> 3) & 15, i32::from(code & 7));
    if field == 15 && mantissa == 7 {
        return (f64::NAN, 0);
    }
    let value = if field == 0 { f64::from(mantissa) / 8.0 } else { 1.0 + f64::from(mantissa) / 8.0 };
    let exponent = field.max(1) - 7;
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    (sign * value * 2f64.powi(exponent), exponent)
}

pub(crate) fn e2m1(code: u8) -> (f64, i32) {
    let (field, mantissa) = (i32::from(code >> 1) & 3, i32::from(code & 1));
    let value = if field == 0 { f64::from(mantissa) / 2.0 } else { 1.0 + f64::from(mantissa) / 2.0 };
    let exponent = field.max(1) - 1;
    let sign = if code & 8 == 0 { 1.0 } else { -1.0 };
    (sign * value * 2f64.powi(exponent), exponent)
}

/// Nearest e4m3 by trying all.
pub(crate) fn to_e4m3(x: f64) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let x = x.abs().min(448.0);
    let distance = |code: &u8| ((e4m3(*code).0 - x).abs(), code & 1);
    let best = (0..0x7F_u8).min_by(|a, b| distance(a).partial_cmp(&distance(b)).unwrap());
    sign | best.unwrap()
}

/// Cut to `bits` significant bits of binary32's range.
fn truncate(x: f64, place: i32) -> f64 {
    let unit = 2f64.powi(place);
    (x / unit).trunc() * unit
}

fn exponent(x: f64) -> i32 {
    if x == 0.0 { -133 } else { ((x.abs().to_bits() >> 52) as i32 - 1023).max(-126) }
}

/// One step: L products onto c.
fn step(core: Core, c: f64, products: &[(f64, i32)]) -> f64 {
    let mut largest = exponent(c);
    for (p, e) in products {
        largest = largest.max(if *p == 0.0 { -133 } else { *e });
    }
    let place = largest - core.fraction;
    let sum: f64 = truncate(c, place) + products.iter().map(|(p, _)| truncate(*p, place)).sum::<f64>();
    if sum == 0.0 { 0.0 } else { truncate(sum, (exponent(sum) - 23).max(-149)) }
}

/// One element of a GEMM, before its bias.
pub(crate) fn dot(core: Core, codes: &[u8], scales: &[u8], weights: &[u8], weight_scales: &[u8]) -> f32 {
    if scales.contains(&0xFF) || weight_scales.contains(&0xFF) || codes.iter().any(|c| c & 0x7F == 0x7F) {
        return f32::NAN;
    }
    let products: Vec<(f64, i32)> = (0..codes.len())
        .map(|k| {
            let (a, ea) = e4m3(codes[k]);
            let (w, ew) = e2m1(weights[k / 2] >> (4 * (k % 2)) & 15);
            let shift = i32::from(scales[k / 32]) + i32::from(weight_scales[k / 32]) - 254;
            if core.chunk == 32 {
                (a * w * 2f64.powi(shift), ea + ew + shift)
            } else {
                // bf16 operands with scales folded in are normalised.
                let (a, w) = (
                    a * 2f64.powi(i32::from(scales[k / 32]) - 127),
                    w * 2f64.powi(i32::from(weight_scales[k / 32]) - 127),
                );
                (a * w, exponent(a) + exponent(w))
            }
        })
        .collect();
    let Some((seed, accumulators)) = core.shuffle else {
        return products.chunks(core.chunk).fold(0.0, |c, p| step(core, c, p)) as f32;
    };
    // Any k may be in any chunk, any chunk in any accumulator.
    let mut order: Vec<usize> = (0..products.len()).collect();
    order.sort_by_key(|k| mix(seed ^ mix(*k as u64)));
    let mut sums = vec![0.0; accumulators];
    for (at, ks) in order.chunks(core.chunk).enumerate() {
        let chosen: Vec<(f64, i32)> = ks.iter().map(|k| products[*k]).collect();
        let slot = mix(seed + at as u64) as usize % accumulators;
        sums[slot] = step(core, sums[slot], &chosen);
    }
    sums.iter().fold(0.0_f32, |a, b| a + *b as f32)
}

/// Quantizes a block: the rules by their thresholds on amax's bits.
pub(crate) fn quantize(rule: ScaleRule, values: &[f32]) -> (u8, Vec<u8>) {
    if values.iter().any(|x| x.is_nan()) {
        return (0xFF, vec![0x7F; values.len()]);
    }
    let amax = values.iter().fold(0.0, |m: f32, x| m.max(x.abs()));
    let (e, m) = (exponent(f64::from(amax)), f64::from(amax));
    let m = m / 2f64.powi(e);
    // Subnormal f32 never reach a scale above the lowest.
    let x = match rule {
        ScaleRule::Ceil => e - 8 + i32::from(m > 1.75),
        ScaleRule::Floor => e - 8,
        ScaleRule::Even => e - 8 + i32::from(m >= 1.9375),
        ScaleRule::Nearest => e - 9 + i32::from(m >= 1.3125),
        ScaleRule::Rz => e - 9 + i32::from(m >= 1.75),
        ScaleRule::Identity => 0,
        ScaleRule::FourOverSixMae | ScaleRule::FourOverSixMse => unreachable!("not of shared exponents"),
    };
    let code = if rule == ScaleRule::Identity {
        127
    } else if amax == 0.0 {
        0
    } else if amax.is_infinite() {
        254
    } else {
        (x.clamp(-127, 127) + 127) as u8
    };
    let unit = 2f64.powi(127 - i32::from(code));
    (code, values.iter().map(|x| to_e4m3(f64::from(*x) * unit)).collect())
}

/// The k best of these keys, one after the other: NaN first, ties to the lowest index.
fn best(keys: &[f32], k: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    for _ in 0..k {
        let mut best = None;
        for e in (0..keys.len()).filter(|e| !chosen.contains(e)) {
            let better = |b: usize| (keys[e].is_nan() && !keys[b].is_nan()) || keys[e] > keys[b];
            if best.is_none_or(|b: usize| !keys[b].is_nan() && better(b)) {
                best = Some(e);
            }
        }
        chosen.extend(best);
    }
    chosen
}

/// A token's experts and weights in f32, shared ones last.
fn route(router: &Router, d: &Dims, logits: &[f32], bias: Option<&[f32]>) -> (Vec<i32>, Vec<f32>) {
    let softmax = |of: &[f32]| {
        let max = of.iter().fold(f32::NEG_INFINITY, |m, x| if x.is_nan() || *x > m { *x } else { m });
        let exps: Vec<f32> = of.iter().map(|x| (x - max).exp()).collect();
        let sum = exps.iter().fold(0.0, |s, e| s + e);
        exps.into_iter().map(|e| e / sum).collect::<Vec<f32>>()
    };
    let scores: Vec<f32> = match router.scores {
        Scores::SoftmaxChosen => logits.to_vec(),
        Scores::SoftmaxAll => softmax(logits),
        Scores::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
    };
    let mut keys: Vec<f32> =
        scores.iter().enumerate().map(|(e, s)| bias.map_or(*s, |bias| s + bias[e])).collect();
    if let Some(groups) = router.groups {
        let size = keys.len() / groups.count;
        let of_group: Vec<f32> = keys
            .chunks(size)
            .map(|group| {
                let two = best(group, 2);
                if groups.score == GroupScore::Max { group[two[0]] } else { group[two[0]] + group[two[1]] }
            })
            .collect();
        let kept = best(&of_group, groups.kept);
        for (e, key) in keys.iter_mut().enumerate() {
            if !kept.contains(&(e / size)) {
                *key = f32::NEG_INFINITY;
            }
        }
    }
    let chosen = best(&keys, d.chosen());
    let of_chosen: Vec<f32> = chosen.iter().map(|e| scores[*e]).collect();
    let mut weights = match router.scores {
        Scores::SoftmaxChosen => softmax(&of_chosen),
        _ if router.renormalise => {
            let sum: f32 = of_chosen.iter().sum();
            of_chosen.iter().map(|w| w / sum).collect()
        }
        _ => of_chosen,
    };
    weights.iter_mut().for_each(|w| *w *= router.scaling);
    weights.resize(d.top_k, 1.0);
    (chosen.into_iter().chain(d.routed()..d.experts).map(|e| e as i32).collect(), weights)
}

fn array<T>(shape: &[usize], data: Vec<T>) -> Option<Array<T>> {
    Some(Array::new("test", shape, data).unwrap())
}

/// The global scale of a row, as libraries compute it: by a reciprocal. NaN where a value is.
fn token_scale(values: &[f32]) -> f32 {
    let amax =
        values.iter().fold(0.0_f32, |m, x| if m.is_nan() || x.is_nan() { f32::NAN } else { m.max(x.abs()) });
    if amax == 0.0 { 1.0 } else { amax * (1.0 / 2688.0) }
}

/// How operands are made and multiplied.
pub(crate) trait Multiplier {
    /// Elements that are quantized together.
    fn block(&self) -> usize;
    /// The scale of a block, if it has one, and its codes as bytes.
    fn quantize(&self, rule: ScaleRule, global: f32, values: &[f32]) -> (Option<u8>, Vec<u8>);
    /// One element of a GEMM, before global scales and bias.
    fn dot(&self, codes: &[u8], scales: &[u8], weights: &[u8], weight_scales: &[u8]) -> f32;
}

impl Multiplier for Core {
    fn block(&self) -> usize {
        32
    }

    fn quantize(&self, rule: ScaleRule, _: f32, values: &[f32]) -> (Option<u8>, Vec<u8>) {
        let (scale, codes) = quantize(rule, values);
        (Some(scale), codes)
    }

    fn dot(&self, codes: &[u8], scales: &[u8], weights: &[u8], weight_scales: &[u8]) -> f32 {
        dot(*self, codes, scales, weights, weight_scales)
    }
}

/// Runs the whole pipeline of `problem`.
#[expect(clippy::too_many_lines, reason = "the stages of the pipeline, one after the other")]
pub(crate) fn run(problem: &Problem, core: impl Multiplier) -> Tensors {
    let (d, s) = (problem.dims, problem.settings);
    let mut t = problem.inputs.clone();
    let logits = t.router_logits.clone().unwrap();
    let (ids, weights): (Vec<_>, Vec<_>) = (0..d.tokens)
        .map(|i| route(&s.router, &d, logits.row(i), t.correction_bias.as_ref().map(|b| &b.data[..])))
        .unzip();
    let (ids, weights): (Vec<i32>, Vec<f32>) = (ids.concat(), weights.concat());
    let mut rows: Vec<usize> = (0..ids.len()).collect();
    rows.sort_by_key(|slot| ids[*slot]);
    let n = rows.len();
    let expert_ids = t.expert_ids.clone().unwrap().data;
    let at = |slot: usize| expert_ids.iter().position(|e| *e == ids[slot]).unwrap();

    let hidden = t.hidden_states.clone().unwrap();
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    let global = |of: &Option<Array<f32>>, at: usize| of.as_ref().map_or(1.0, |global| global.data[at]);
    let mut token_scales = Vec::new();
    for slot in &rows {
        let values: Vec<f32> = hidden.row(slot / d.top_k).iter().map(|x| bf16(*x)).collect();
        token_scales.push(token_scale(&values));
        let global = match s.has_token_scales() {
            true => token_scale(&values),
            false => global(&t.a1_global, at(*slot)),
        };
        for block in values.chunks(core.block()) {
            let (scale, elements) = core.quantize(s.scale_rule, global, block);
            scales.extend(scale);
            codes.extend(elements);
        }
    }
    t.a1_token_scale = s.has_token_scales().then(|| array(&[n], token_scales)).flatten();
    t.a1_codes = array(&[n, codes.len() / n], codes);
    t.a1_scales = if scales.is_empty() { None } else { array(&[n, scales.len() / n], scales) };
    t.topk_ids = array(&[d.tokens, d.top_k], ids.clone());
    t.topk_weights = array(&[d.tokens, d.top_k], weights.clone());
    t.row_token = array(&[n], rows.iter().map(|r| (r / d.top_k) as i32).collect());
    t.row_expert = array(&[n], rows.iter().map(|r| ids[*r]).collect());

    let experts: Vec<usize> = rows.iter().map(|slot| at(*slot)).collect();
    let fc1_bias = (s.fc1_bias == BiasPlace::Epilogue).then(|| t.w13_bias.clone().unwrap());
    // Of each row: what its tokens or its expert's activations are scaled by, and its expert's weights.
    let factor = |tokens: &Option<Array<f32>>, a: &Option<Array<f32>>, w: &Option<Array<f32>>| {
        let of = |(row, at): (usize, &usize)| match tokens {
            Some(scales) => scales.data[row] * global(w, *at),
            None => global(a, *at) * global(w, *at),
        };
        experts.iter().enumerate().map(of).collect::<Vec<f32>>()
    };
    let factors = factor(&t.a1_token_scale, &t.a1_global, &t.w13_global);
    let of_weights = (&t.w13_blocks, &t.w13_scales);
    t.fc1_out = gemm(&core, &experts, (&t.a1_codes, &t.a1_scales), of_weights, &factors, fc1_bias.as_ref());

    let late = t.w13_bias.clone().unwrap();
    let stored = t.fc1_out.clone().unwrap();
    let (mut codes, mut scales, mut token_scales) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..n {
        let value = |col: usize| {
            let x = bf16(stored.row(row)[col]);
            if s.fc1_bias == BiasPlace::NextStage { x + late.row(experts[row])[col] } else { x }
        };
        let act: Vec<f32> = (0..d.inter)
            .map(|i| {
                let (g, u) = match s.gate_up {
                    GateUp::Interleaved => (value(2 * i), value(2 * i + 1)),
                    GateUp::GateFirst => (value(i), value(d.inter + i)),
                    GateUp::UpFirst => (value(d.inter + i), value(i)),
                };
                if g.is_nan() || u.is_nan() {
                    return f32::NAN;
                }
                let (g, u) = (g.min(s.limit), u.clamp(-s.limit, s.limit));
                g * (1.0 / (1.0 + (-(s.alpha * g)).exp())) * (u + s.beta)
            })
            .collect();
        token_scales.push(token_scale(&act));
        let global = match s.has_token_scales() {
            true => token_scale(&act),
            false => global(&t.a2_global, experts[row]),
        };
        for block in act.chunks(core.block()) {
            let (scale, elements) = core.quantize(s.scale_rule, global, block);
            scales.extend(scale);
            codes.extend(elements);
        }
    }
    t.a2_token_scale = s.has_token_scales().then(|| array(&[n], token_scales)).flatten();
    t.a2_codes = array(&[n, codes.len() / n], codes);
    t.a2_scales = if scales.is_empty() { None } else { array(&[n, scales.len() / n], scales) };
    let (codes, scales) = match &problem.injected_a2 {
        Some(a2) => {
            t.injected_a2_codes = Some(a2.codes.clone());
            t.injected_a2_token_scale = a2.token_scales.clone();
            t.injected_a2_scales = t.a2_scales.is_some().then(|| a2.scales.clone());
            (Some(a2.codes.clone()), t.injected_a2_scales.clone())
        }
        None => (t.a2_codes.clone(), t.a2_scales.clone()),
    };
    let fc2_bias = (s.fc2_bias == BiasPlace::Epilogue).then(|| t.w2_bias.clone().unwrap());
    let token_scales =
        if problem.injected_a2.is_some() { &t.injected_a2_token_scale } else { &t.a2_token_scale };
    let factors = factor(token_scales, &t.a2_global, &t.w2_global);
    let of_weights = (&t.w2_blocks, &t.w2_scales);
    t.fc2_out = gemm(&core, &experts, (&codes, &scales), of_weights, &factors, fc2_bias.as_ref());

    let late = t.w2_bias.clone().unwrap();
    let stored = t.fc2_out.clone().unwrap();
    let place: BTreeMap<usize, usize> = rows.iter().enumerate().map(|(row, slot)| (*slot, row)).collect();
    let mut output = Vec::new();
    for token in 0..d.tokens {
        for h in 0..d.hidden {
            let mut sum = 0.0_f32;
            for slot in token * d.top_k..(token + 1) * d.top_k {
                let row = place[&slot];
                let mut x = bf16(stored.row(row)[h]);
                if s.fc2_bias == BiasPlace::NextStage {
                    x += late.row(experts[row])[h];
                }
                sum = weights[slot].mul_add(x, sum);
            }
            output.push(to_bf16(sum));
        }
    }
    t.output = array(&[d.tokens, d.hidden], output);
    t
}

/// Codes and scales.
type Operand<'a> = (&'a Option<Array<u8>>, &'a Option<Array<u8>>);

fn gemm(
    core: &impl Multiplier,
    experts: &[usize],
    (codes, scales): Operand<'_>,
    (weights, weight_scales): Operand<'_>,
    factors: &[f32],
    bias: Option<&Array<f32>>,
) -> Option<Array<u16>> {
    let codes = codes.as_ref().unwrap();
    let (weights, weight_scales) = (weights.as_ref().unwrap(), weight_scales.as_ref().unwrap());
    let cols = weights.shape[1];
    let mut out = Vec::new();
    for (row, expert) in experts.iter().enumerate() {
        let scales = scales.as_ref().map_or(&[][..], |scales| scales.row(row));
        for col in 0..cols {
            let at = expert * cols + col;
            let sum = core.dot(codes.row(row), scales, weights.row(at), weight_scales.row(at));
            let sum = sum * factors[row];
            out.push(to_bf16(bias.map_or(sum, |b| sum + b.data[at])));
        }
    }
    array(&[experts.len(), cols], out)
}
