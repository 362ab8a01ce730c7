//! FlashInfer: attention of one request.

use crate::bounds::{F16, F32, within};
use crate::compile::Source;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::FLASHINFER;
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    program: "attention",
    package: Some((&FLASHINFER, "flashinfer")),
    includes: &["flashinfer/data/include"],
    options: &["--expt-relaxed-constexpr"],
};

const fn kernel(
    name: &'static str,
    case: &'static str,
    file: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    let bound = "one rounding of f16 for each weight, one for the sum; (n + c) of f32";
    Kernel { name, source: Origin::Cuda(&SOURCE), case, file, reference, bound, expected: Expected::Right }
}

pub(crate) static KERNELS: &[Kernel] =
    &[kernel("flashinfer/decode", "decode", "attention/decode.cuh", attention)];

const DIM: usize = 64;
const HEADS: usize = 2;
const KEYS: usize = 45;

/// Softmax of the scaled products of `q` and `k`, times `v`.
fn attention(b: &Buffers) -> Result<f64, String> {
    let (q, k, v) = (b.before("q", Element::F16), b.before("k", Element::F16), b.before("v", Element::F16));
    let row = |of: &[f64], n: usize, head: usize| of[(n * HEADS + head) * DIM..][..DIM].to_vec();
    let mut wanted = Vec::new();
    for head in 0..HEADS {
        let own = row(&q, 0, head);
        let dot = |other: &[f64], size: fn(f64) -> f64| {
            own.iter().zip(other).map(|(a, b)| size(a * b)).sum::<f64>() * 0.125
        };
        let keys: Vec<Vec<f64>> = (0..KEYS).map(|n| row(&k, n, head)).collect();
        let scores: Vec<f64> = keys.iter().map(|key| dot(key, |x| x)).collect();
        let magnitude = keys.iter().map(|key| dot(key, f64::abs)).fold(0.0, f64::max);
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum();
        // The error of a score becomes a relative error of its weight.
        let relative = F16 + (2.0 * magnitude * DIM as f64 + 2.0 * KEYS as f64 + 64.0) * F32;
        for d in 0..DIM {
            let terms = (0..KEYS).map(|n| (scores[n] - most).exp() / sum * v[(n * HEADS + head) * DIM + d]);
            let (y, all) = terms.fold((0.0, 0.0), |(y, all): (f64, f64), t| (y + t, all + t.abs()));
            wanted.push((y, 2.0 * all * relative + y.abs() * F16));
        }
    }
    within(&b.after("o", Element::F16), &wanted)
}
