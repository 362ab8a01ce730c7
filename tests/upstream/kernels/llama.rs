//! llama.cpp: norms, softmax, sorting, gating, quantization, routing.

use crate::bounds::{F16, F32, within};
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::LLAMA;
use crate::replay::{Buffers, Element};

pub(crate) const INCLUDES: &[&str] = &[
    "llama_cpp_python-0.3.36/vendor/llama.cpp/ggml/src/ggml-cuda",
    "llama_cpp_python-0.3.36/vendor/llama.cpp/ggml/src",
    "llama_cpp_python-0.3.36/vendor/llama.cpp/ggml/include",
];

static SOURCE: Source = Source {
    program: "llama",
    package: Some((&LLAMA, "llama")),
    includes: INCLUDES,
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

/// As text: the roundings of a sum of n terms, and a few more.
const SUM: &str = "(n + c) roundings of f32";

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("llama.cpp/norm", "norm", "norm.cu", SUM, |b| norm(b, 300)),
    kernel("llama.cpp/norm_wide", "norm_wide", "norm.cu", SUM, |b| norm(b, 1100)),
    kernel("llama.cpp/rms_norm", "rms_norm", "norm.cu", SUM, |b| rms_norm(b, 300)),
    kernel("llama.cpp/rms_norm_wide", "rms_norm_wide", "norm.cu", SUM, |b| rms_norm(b, 1100)),
    kernel("llama.cpp/l2_norm", "l2_norm", "norm.cu", SUM, |b| l2_norm(b, 300)),
    kernel("llama.cpp/l2_norm_wide", "l2_norm_wide", "norm.cu", SUM, |b| l2_norm(b, 1100)),
    kernel("llama.cpp/sum_rows", "sum_rows", "sumrows.cu", SUM, sum_rows),
    kernel("llama.cpp/softmax", "softmax", "softmax.cu", SUM, |b| softmax(b, 128)),
    kernel("llama.cpp/softmax_ragged", "softmax_ragged", "softmax.cu", SUM, |b| softmax(b, 333)),
    kernel("llama.cpp/argsort", "argsort", "argsort.cu", "equal", |b| argsort(b, 200, false)),
    kernel("llama.cpp/argsort_descending", "argsort_descending", "argsort.cu", "equal", |b| {
        argsort(b, 64, true)
    }),
    kernel("llama.cpp/argmax", "argmax", "argmax.cu", "equal", argmax),
    kernel("llama.cpp/cumsum", "cumsum", "cumsum.cu", SUM, cumsum),
    kernel(
        "llama.cpp/swiglu_oai",
        "swiglu_oai",
        "unary.cu",
        "roundings of f32, those of the exponent scaled",
        swiglu_oai,
    ),
    kernel(
        "llama.cpp/quantize_q8_1",
        "quantize_q8_1",
        "quantize.cu",
        "half a step, one rounding of f16 for the scale",
        quantize,
    ),
    kernel("llama.cpp/topk_moe", "topk_moe", "topk-moe.cu", SUM, topk_moe),
];

/// Applies `wanted`, which returns values and bounds, to each row of `x`.
fn by_rows(b: &Buffers, columns: usize, wanted: impl Fn(&[f64]) -> Vec<(f64, f64)>) -> Result<f64, String> {
    let wanted: Vec<_> = b.before("x", Element::F32).chunks(columns).flat_map(wanted).collect();
    within(&b.after("y", Element::F32), &wanted)
}

fn norm(b: &Buffers, columns: usize) -> Result<f64, String> {
    by_rows(b, columns, |row| {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let (magnitude, square) =
            (row.iter().map(|x| x.abs()).sum::<f64>() / n, row.iter().map(|x| x * x).sum::<f64>() / n);
        let variance = square - mean * mean;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        let u = (n + 10.0) * F32;
        // The variance is a difference of rounded values.
        let bound = |y: f64| u * magnitude * scale + y.abs() * u * (2.0 + 2.0 * square / variance);
        row.iter().map(|x| (x - mean) * scale).map(|y| (y, bound(y))).collect()
    })
}

fn rms_norm(b: &Buffers, columns: usize) -> Result<f64, String> {
    by_rows(b, columns, |row| {
        let n = row.len() as f64;
        let scale = 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / n + 1e-5).sqrt();
        row.iter().map(|x| (x * scale, (x * scale).abs() * (n + 10.0) * F32)).collect()
    })
}

fn l2_norm(b: &Buffers, columns: usize) -> Result<f64, String> {
    by_rows(b, columns, |row| {
        let n = row.len() as f64;
        let scale = 1.0 / row.iter().map(|x| x * x).sum::<f64>().max(1e-10).sqrt();
        row.iter().map(|x| (x * scale, (x * scale).abs() * (n + 10.0) * F32)).collect()
    })
}

fn sum_rows(b: &Buffers) -> Result<f64, String> {
    by_rows(b, 700, |row| vec![(row.iter().sum(), row.iter().map(|x| x.abs()).sum::<f64>() * 700.0 * F32)])
}

fn softmax(b: &Buffers, columns: usize) -> Result<f64, String> {
    let (x, mask, sinks) =
        (b.before("x", Element::F32), b.before("mask", Element::F16), b.before("sinks", Element::F32));
    let mut wanted = Vec::new();
    for (row, mask) in x.chunks(columns).zip(mask.chunks(columns)) {
        let scores: Vec<f64> = row.iter().zip(mask).map(|(x, mask)| x * 0.125 + mask).collect();
        let most = scores.iter().copied().fold(sinks[0], f64::max);
        let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum::<f64>() + (sinks[0] - most).exp();
        let range = scores.iter().map(|s| (s - most).abs()).fold(0.0, f64::max);
        // A rounding error of the exponent is a relative error of the value.
        let relative = (columns as f64 + 20.0 + 6.0 * (range + most.abs())) * F32;
        wanted.extend(scores.iter().map(|s| (s - most).exp() / sum).map(|y| (y, y * relative)));
    }
    within(&b.after("y", Element::F32), &wanted)
}

fn argsort(b: &Buffers, columns: usize, descending: bool) -> Result<f64, String> {
    let mut wanted = Vec::new();
    for row in b.before("x", Element::F32).chunks(columns) {
        let mut order: Vec<usize> = (0..columns).collect();
        order.sort_by(
            |i, j| if descending { row[*j].total_cmp(&row[*i]) } else { row[*i].total_cmp(&row[*j]) },
        );
        wanted.extend(order.into_iter().map(|n| (n as f64, 0.0)));
    }
    within(&b.after("y", Element::I32), &wanted)
}

fn argmax(b: &Buffers) -> Result<f64, String> {
    let most = |row: &[f64]| (0..row.len()).max_by(|i, j| row[*i].total_cmp(&row[*j])).unwrap_or(0) as f64;
    let wanted: Vec<_> = b.before("x", Element::F32).chunks(200).map(|row| (most(row), 0.0)).collect();
    within(&b.after("y", Element::I32), &wanted)
}

fn cumsum(b: &Buffers) -> Result<f64, String> {
    by_rows(b, 300, |row| {
        let add = |(sum, magnitude): &mut (f64, f64), x: &f64| {
            (*sum, *magnitude) = (*sum + x, *magnitude + x.abs());
            Some((*sum, *magnitude * 300.0 * F32))
        };
        row.iter().scan((0.0, 0.0), add).collect()
    })
}

fn swiglu_oai(b: &Buffers) -> Result<f64, String> {
    let gated = |(x, g): (f64, f64)| {
        let (x, g) = (x.min(7.0), g.clamp(-7.0, 7.0));
        let y = x / (1.0 + (-1.702 * x).exp()) * (1.0 + g);
        // 1 + g cancels if g is near -1.
        (y, y.abs() * (16.0 + 4.0 * (1.702 * x).abs()) * F32 + x.abs() * F32)
    };
    let wanted: Vec<_> =
        b.before("x", Element::F32).into_iter().zip(b.before("g", Element::F32)).map(gated).collect();
    within(&b.after("y", Element::F32), &wanted)
}

/// Blocks of 32: scale and sum in f16, then the quants.
fn quantize(b: &Buffers) -> Result<f64, String> {
    let (x, blocks) = (b.before("x", Element::F32), b.bytes_after("y"));
    let (mut got, mut wanted) = (Vec::new(), Vec::new());
    for (block, x) in blocks.chunks(36).zip(x.chunks(32)) {
        let most = x.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let scale = most / 127.0;
        let heads: Vec<f64> = super::f16(&block[..4]);
        got.extend(&heads);
        let magnitude: f64 = x.iter().map(|x| x.abs()).sum();
        wanted.extend([
            (scale, scale * 1.01 * F16),
            (x.iter().sum(), magnitude * 40.0 * F32 + magnitude * F16),
        ]);
        got.extend(block[4..].iter().map(|q| f64::from(*q as i8)));
        wanted.extend(x.iter().map(|x| (x / scale, 0.5 + 1e-3)));
    }
    within(&got, &wanted)
}

/// The 4 most likely of 32 experts, with weights normalized to sum to 1.
fn topk_moe(b: &Buffers) -> Result<f64, String> {
    let (mut weights, mut ids) = (Vec::new(), Vec::new());
    for row in b.before("logits", Element::F32).chunks(32) {
        let mut order: Vec<usize> = (0..32).collect();
        order.sort_by(|i, j| row[*j].total_cmp(&row[*i]));
        order.truncate(4);
        let sum: f64 = order.iter().map(|n| row[*n].exp()).sum();
        weights.extend(order.iter().map(|n| row[*n].exp() / sum).map(|w| (w, w * 100.0 * F32)));
        ids.extend(order.iter().map(|n| (*n as f64, 0.0)));
    }
    // A row of indices has room for all experts.
    let got: Vec<f64> = b.after("ids", Element::I32).chunks(32).flat_map(|row| row[..4].to_vec()).collect();
    within(&got, &ids)?;
    within(&b.after("weights", Element::F32), &weights)
}
