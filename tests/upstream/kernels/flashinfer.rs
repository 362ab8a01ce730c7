//! FlashInfer: norms, gating, sampling.

use crate::bounds::{F16, F32, within};
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::FLASHINFER;
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    program: "flashinfer",
    package: Some((&FLASHINFER, "flashinfer")),
    includes: &["flashinfer/data/include"],
    cuda: CUDA_13_5,
    fixed_shared: false,
    interface: None,
    options: &[],
};

const fn kernel(
    name: &'static str,
    case: &'static str,
    file: &'static str,
    bound: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    Kernel { name, source: Origin::Cuda(&SOURCE), case, file, reference, bound, expected: Expected::Right }
}

const HALF: &str = "one rounding of f16, (n + c) of f32";
const SET: &str = "a member of the set; upstream's own test";

/// Rows of each case; columns of the norms and of the probabilities.
const ROWS: usize = 3;
const COLUMNS: usize = 512;
const TOKENS: usize = 500;

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("flashinfer/rmsnorm", "rmsnorm", "norm.cuh", HALF, |b| rmsnorm(b, COLUMNS, 0.0)),
    kernel("flashinfer/gemma_rmsnorm", "gemma_rmsnorm", "norm.cuh", HALF, |b| rmsnorm(b, COLUMNS, 1.0)),
    kernel("flashinfer/qk_rmsnorm", "qk_rmsnorm", "norm.cuh", HALF, |b| rmsnorm(b, 128, 0.0)),
    kernel("flashinfer/fused_add_rmsnorm", "fused_add_rmsnorm", "norm.cuh", HALF, fused_add_rmsnorm),
    kernel("flashinfer/layernorm", "layernorm", "norm.cuh", HALF, layernorm),
    kernel("flashinfer/rmsnorm_pdl", "rmsnorm_pdl", "norm.cuh", HALF, rmsnorm_pdl),
    kernel("flashinfer/silu_and_mul", "silu_and_mul", "activation.cuh", HALF, silu_and_mul),
    kernel(
        "flashinfer/top_p_renorm",
        "top_p_renorm",
        "sampling.cuh",
        "1e-3, the step of its search; (n + c) roundings of f32",
        top_p_renorm,
    ),
    kernel("flashinfer/sampling", "sampling", "sampling.cuh", SET, |b| member(b, |row, n| row[n] > 0.0)),
    kernel("flashinfer/top_k_sampling", "top_k_sampling", "sampling.cuh", SET, |b| {
        member(b, |row, n| row.iter().filter(|p| **p > row[n]).count() < 10)
    }),
    kernel("flashinfer/top_p_sampling", "top_p_sampling", "sampling.cuh", SET, |b| {
        member(b, |row, n| row.iter().filter(|p| **p > row[n]).sum::<f64>() < 0.3 + 1e-4)
    }),
    kernel("flashinfer/min_p_sampling", "min_p_sampling", "sampling.cuh", SET, |b| {
        member(b, |row, n| row[n] >= 0.2 * row.iter().copied().fold(0.0, f64::max))
    }),
    kernel(
        "flashinfer/softmax",
        "softmax",
        "sampling.cuh",
        "(n + c) roundings of f32, those of the exponent scaled",
        softmax,
    ),
];

/// A row divided by its root mean square, times weights; with the bound for f32 arithmetic.
fn normalised(row: &[f64], weights: &[f64], bias: f64) -> Vec<(f64, f64)> {
    let n = row.len() as f64;
    let scale = 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / n + 1e-5).sqrt();
    row.iter()
        .zip(weights)
        .map(|(x, w)| x * scale * (bias + w))
        .map(|y| (y, y.abs() * (n + 16.0) * F32))
        .collect()
}

/// One more rounding, to f16; subnormal numbers have an absolute step.
fn to_f16((y, bound): (f64, f64)) -> (f64, f64) {
    (y, bound + (y.abs() * 1.01).max(6.2e-5) * F16)
}

fn rmsnorm(b: &Buffers, columns: usize, bias: f64) -> Result<f64, String> {
    let (x, w) = (b.before("x", Element::F16), b.before("w", Element::F16));
    let wanted: Vec<_> = x.chunks(columns).flat_map(|row| normalised(row, &w, bias)).map(to_f16).collect();
    within(&b.after("y", Element::F16), &wanted)
}

fn fused_add_rmsnorm(b: &Buffers) -> Result<f64, String> {
    let (x, r, w) = (b.before("x", Element::F16), b.before("r", Element::F16), b.before("w", Element::F16));
    let sums: Vec<f64> = x.iter().zip(&r).map(|(x, r)| x + r).collect();
    let residual: Vec<_> = sums.iter().map(|sum| to_f16((*sum, 0.0))).collect();
    let wanted: Vec<_> = sums.chunks(COLUMNS).flat_map(|row| normalised(row, &w, 0.0)).map(to_f16).collect();
    let one = within(&b.after("r", Element::F16), &residual)?;
    Ok(one.max(within(&b.after("x", Element::F16), &wanted)?))
}

fn layernorm(b: &Buffers) -> Result<f64, String> {
    let (x, w, beta) =
        (b.before("x", Element::F16), b.before("w", Element::F32), b.before("b", Element::F32));
    let mut wanted = Vec::new();
    for row in x.chunks(COLUMNS) {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let square = row.iter().map(|x| x * x).sum::<f64>() / n;
        let scale = 1.0 / (square - mean * mean + 1e-5).sqrt();
        let u = (n + 16.0) * F32;
        for ((x, w), beta) in row.iter().zip(&w).zip(&beta) {
            let y = (x - mean) * scale * w + beta;
            // The normalized row is rounded to f16 in between.
            let bound =
                u * scale * w.abs() * (x.abs() + 2.0) + ((x - mean) * scale * w).abs() * (4.0 * u + F16);
            wanted.push(to_f16((y, bound)));
        }
    }
    within(&b.after("y", Element::F16), &wanted)
}

fn rmsnorm_pdl(b: &Buffers) -> Result<f64, String> {
    let (x, w) = (b.before("x", Element::F16), b.before("w", Element::F16));
    let middle: Vec<_> = x.chunks(COLUMNS).flat_map(|row| normalised(row, &w, 0.0)).map(to_f16).collect();
    let stored = b.after("middle", Element::F16);
    let one = within(&stored, &middle)?;
    let wanted: Vec<_> =
        stored.chunks(COLUMNS).flat_map(|row| normalised(row, &w, 0.0)).map(to_f16).collect();
    Ok(one.max(within(&b.after("y", Element::F16), &wanted)?))
}

fn silu_and_mul(b: &Buffers) -> Result<f64, String> {
    let mut wanted = Vec::new();
    for row in b.before("x", Element::F16).chunks(512) {
        let (x, y) = row.split_at(256);
        for (x, y) in x.iter().zip(y) {
            let out = x / (1.0 + (-x).exp()) * y;
            // ex2.approx of a rounded argument, and an approximate division.
            wanted.push(to_f16((out, out.abs() * (16.0 + 4.0 * x.abs()) * F32)));
        }
    }
    within(&b.after("y", Element::F16), &wanted)
}

/// The most likely tokens with a total of 0.6, normalized to sum to 1.
fn top_p_renorm(b: &Buffers) -> Result<f64, String> {
    let mut wanted = Vec::new();
    for row in b.before("p", Element::F32).chunks(TOKENS) {
        let mut order: Vec<f64> = row.to_vec();
        order.sort_by(|a, b| b.total_cmp(a));
        let mut sum = 0.0;
        let pivot = order.iter().find(|p| {
            sum += **p;
            sum >= 0.6
        });
        let pivot = pivot.copied().unwrap_or(0.0);
        wanted.extend(row.iter().map(|p| if *p >= pivot { p / sum } else { 0.0 }).map(|y| (y, y * 1e-3)));
    }
    within(&b.after("y", Element::F32), &wanted)
}

fn softmax(b: &Buffers) -> Result<f64, String> {
    let mut wanted = Vec::new();
    for row in b.before("x", Element::F32).chunks(TOKENS) {
        let most = row.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
        wanted.extend(row.iter().map(|x| {
            let y = (x - most).exp() / sum;
            (y, y * (TOKENS as f64 + 20.0 + 8.0 * (x - most).abs() + 8.0 * most.abs()) * F32)
        }));
    }
    within(&b.after("y", Element::F32), &wanted)
}

/// The drawn tokens belong to the set and are marked as valid.
fn member(b: &Buffers, of: impl Fn(&[f64], usize) -> bool) -> Result<f64, String> {
    let (p, drawn, valid) =
        (b.before("p", Element::F32), b.after("y", Element::I32), b.after("valid", Element::U8));
    for (n, row) in p.chunks(TOKENS).enumerate().take(ROWS) {
        let token = drawn[n] as usize;
        if !(token < TOKENS && of(row, token) && valid[n] == 1.0) {
            return Err(format!("row {n}: token {} is not of the set", drawn[n]));
        }
    }
    Ok(0.0)
}
