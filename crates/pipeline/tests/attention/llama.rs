//! llama.cpp's roundings: queries, their factor and their product in fp16, weights divided by 8, and sums of values in fp16.

use numerics::convert::f32_to;
use numerics::random::{at, mix};
use numerics::{Format, Rounding};
use record::Verdict;
use safetensors::Dtype;

use super::kernel::File;
use super::right::verdicts;

const WIDTH: usize = 64;
const KEYS: usize = 90;
/// The factor of scores: its rounding to fp16 is nearly the largest possible.
const SCALE: f32 = 0.125_060;
/// What llama.cpp adds to the largest score, so that weights are at most 1/8.
const OFFSET: f32 = 2.0793;

fn f16(x: f32) -> f32 {
    Format::F16.decode(f32_to(Format::F16, x, Rounding::NearestEven, false, false))
}

/// Numbers in [−size, size).
fn numbers(seed: u64, count: usize, size: f32) -> Vec<f32> {
    (0..count).map(|n| ((at(mix(seed), n as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0) * size).collect()
}

/// One row of one head: the output, and the logarithm of the sum of exponentials.
fn attend(q: &[f32], k: &[f32], v: &[f32]) -> (Vec<f32>, f32) {
    let query: Vec<f32> = q.iter().map(|q| f16(f16(*q) * f16(SCALE))).collect();
    let (mut most, mut sum, mut out) = (f32::NEG_INFINITY, 0.0_f32, vec![0.0_f32; WIDTH]);
    for (keys, values) in k.chunks(16 * WIDTH).zip(v.chunks(16 * WIDTH)) {
        let scores: Vec<f32> =
            keys.chunks(WIDTH).map(|key| query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>()).collect();
        let best = scores.iter().fold(most, |best, score| best.max(score + OFFSET));
        let factor = if most.is_finite() { (most - best).exp() } else { 0.0 };
        sum *= factor;
        out.iter_mut().for_each(|o| *o = f16(*o * f16(factor)));
        for (score, value) in scores.iter().zip(values.chunks(WIDTH)) {
            let weight = (score - best).exp();
            sum += weight;
            out.iter_mut().zip(value).for_each(|(o, v)| *o = f16(f16(f16(weight) * v) + *o));
        }
        most = best;
    }
    (out.iter().map(|o| o / sum).collect(), most + sum.ln())
}

fn dump(seed: u64, sizes: [f32; 2]) -> File {
    let q = numbers(3 * seed, WIDTH, sizes[0]);
    let [k, v] = [1, 2].map(|side| -> Vec<f32> {
        let size = if side == 1 { 2.0 } else { sizes[1] };
        numbers(3 * seed + side, KEYS * WIDTH, size).into_iter().map(f16).collect()
    });
    file_of_row(&q, &k, &v)
}

/// The dump of a row.
fn file_of_row(q: &[f32], k: &[f32], v: &[f32]) -> File {
    let (out, lse) = attend(q, k, v);
    let mut file = File::default();
    file.f32("q", &[1, 1, WIDTH], q);
    for (name, values) in [("k", k), ("v", v)] {
        let code = |x: &f32| f32_to(Format::F16, *x, Rounding::NearestEven, false, false) as u16;
        let bytes = values.iter().flat_map(|x| code(x).to_le_bytes()).collect();
        file.put(name, Dtype::F16, &[k.len() / WIDTH, 1, WIDTH], bytes);
    }
    file.f32("out", &[1, 1, WIDTH], &out);
    file.f32("lse", &[1, 1], &[lse]);
    for (key, value) in [("lse_base", "e"), ("kernel", "llama_cpp"), ("tile", "16"), ("partials", "none")] {
        file.say(key, value);
    }
    file.say("sm_scale", SCALE);
    file
}

#[test]
fn no_right_result_is_accused() {
    for seed in 0..40 {
        // Small queries and values, whose products and sums are subnormal numbers of fp16; one key above the others; equal ones.
        for sizes in [[2.0, 1.0], [12.0, 1.0], [0.05, 1e-4], [4.0, 2e-5], [1e-4, 1.0]] {
            assert!(!is_accused(&dump(seed, sizes)), "seed {seed} {sizes:?}");
        }
    }
}

fn is_accused(file: &File) -> bool {
    verdicts(file).iter().any(|(_, verdict, _)| *verdict == Verdict::Fail)
}

#[test]
fn queries_and_their_factor_may_both_be_rounded_the_same_way() {
    // Each by nearly half a step of fp16, so that the score is almost a whole step lower.
    let q = [1.0 + 0.98 / 2048.0; WIDTH];
    let k: Vec<f32> = (0..2 * WIDTH).map(|n| if n < WIDTH { 2.5 } else { 0.0 }).collect();
    let file = file_of_row(&q, &k, &numbers(1, 2 * WIDTH, 1.0).into_iter().map(f16).collect::<Vec<_>>());
    assert!(!is_accused(&file));
}

#[test]
fn weights_lose_what_their_division_by_8_makes_subnormal() {
    // The largest weight has no value, so that the other is all that remains: some forty steps of fp16, or half a step more.
    let q = [1.0; WIDTH];
    let v: Vec<f32> = (0..2 * WIDTH).map(|n| if n < WIDTH { 0.0 } else { 100.0 }).collect();
    for step in 0..100 {
        let mut k: Vec<f32> = (0..2 * WIDTH).map(|n| if n < WIDTH { 0.0 } else { -1.357 }).map(f16).collect();
        k[WIDTH] += step as f32 / 1024.0;
        assert!(!is_accused(&file_of_row(&q, &k, &v)), "step {step}");
    }
}

#[test]
fn the_sums_and_the_queries_in_fp16_are_needed() {
    let wrong = |weights: &str| -> u64 {
        let of = |seed: u64| {
            let mut file = dump(seed, [12.0, 1.0]);
            file.say("kernel", "triton");
            file.say("weights", weights);
            verdicts(&file).iter().map(|(.., wrong)| wrong).sum::<u64>()
        };
        (0..6).map(of).sum()
    };
    assert!(wrong("fp16") > 0 && wrong("f32") > 0);
}
