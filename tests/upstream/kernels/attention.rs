//! FlashInfer: attention of a single request.

use crate::bounds::{F16, F32, within};
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::FLASHINFER;
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    program: "attention",
    package: Some((&FLASHINFER, "flashinfer")),
    includes: &["flashinfer/data/include"],
    cuda: CUDA_13_5,
    fixed_shared: false,
    options: &["--expt-relaxed-constexpr"],
};

static PREFILL: Source = Source {
    program: "prefill",
    package: Some((&FLASHINFER, "flashinfer")),
    includes: &["flashinfer/data/include"],
    cuda: CUDA_13_5,
    fixed_shared: false,
    options: &["--expt-relaxed-constexpr"],
};

const fn kernel(
    name: &'static str,
    source: &'static Source,
    case: &'static str,
    file: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    let bound = "one rounding of f16 for each weight, one for the sum; (n + c) of f32";
    let source = Origin::Cuda(source);
    Kernel { name, source, case, file, reference, bound, expected: Expected::Right }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("flashinfer/decode", &SOURCE, "decode", "attention/decode.cuh", |b| attention(b, 2)),
    kernel("flashinfer/prefill", &PREFILL, "whole", "attention/prefill.cuh", |b| attention(b, 1)),
    kernel("flashinfer/prefill_ragged", &PREFILL, "ragged", "attention/prefill.cuh", |b| attention(b, 1)),
];

const DIM: usize = 64;
const HEADS: usize = 2;

/// Softmax of the scaled products of `q` and `k`, times `v`. `heads` counts the heads of keys. The last query attends to all keys, the one
/// before it to one less, and so on.
fn attention(b: &Buffers, heads: usize) -> Result<f64, String> {
    let (q, k, v) = (b.before("q", Element::F16), b.before("k", Element::F16), b.before("v", Element::F16));
    let (queries, keys) = (q.len() / HEADS / DIM, k.len() / heads / DIM);
    let row =
        |of: &[f64], heads: usize, n: usize, head: usize| of[(n * heads + head) * DIM..][..DIM].to_vec();
    let mut wanted = Vec::new();
    for (n, head) in (0..queries).flat_map(|n| (0..HEADS).map(move |head| (n, head))) {
        let (own, seen, group) = (row(&q, HEADS, n, head), keys - queries + n + 1, head * heads / HEADS);
        let dot = |other: &[f64], size: fn(f64) -> f64| {
            own.iter().zip(other).map(|(a, b)| size(a * b)).sum::<f64>() * 0.125
        };
        let rows: Vec<Vec<f64>> = (0..seen).map(|j| row(&k, heads, j, group)).collect();
        let scores: Vec<f64> = rows.iter().map(|key| dot(key, |x| x)).collect();
        let magnitude = rows.iter().map(|key| dot(key, f64::abs)).fold(0.0, f64::max);
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum();
        // The error of a score becomes a relative error of its weight.
        let relative = F16 + (2.0 * magnitude * DIM as f64 + 2.0 * keys as f64 + 64.0) * F32;
        for d in 0..DIM {
            let weight = |j: usize| (scores[j] - most).exp() / sum;
            let terms = (0..seen).map(|j| weight(j) * v[(j * heads + group) * DIM + d]);
            let (y, all) = terms.fold((0.0, 0.0), |(y, all): (f64, f64), t| (y + t, all + t.abs()));
            wanted.push((y, 2.0 * all * relative + y.abs() * F16));
        }
    }
    within(&b.after("o", Element::F16), &wanted)
}
