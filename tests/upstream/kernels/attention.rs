//! FlashInfer: attention of a single request.

use safetensors::Dtype;

use crate::attention_dump::{judged, tensor};
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::FLASHINFER;
use crate::replay::Buffers;

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
    let bound = "docs/numerics.md, 14";
    let source = Origin::Cuda(source);
    Kernel { name, source, case, file, reference, bound, expected: Expected::Right }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("flashinfer/decode", &SOURCE, "decode", "attention/decode.cuh", |b| single(b, [1, 2, 2], 45)),
    kernel("flashinfer/prefill", &PREFILL, "whole", "attention/prefill.cuh", |b| single(b, [64, 2, 1], 90)),
    kernel("flashinfer/prefill_ragged", &PREFILL, "ragged", "attention/prefill.cuh", |b| {
        single(b, [45, 2, 1], 90)
    }),
];

/// The elements of a head.
const WIDTH: usize = 64;

/// One request of so many rows, heads of queries and heads of keys, without a cache.
fn single(buffers: &Buffers, [rows, heads, kv_heads]: [usize; 3], keys: usize) -> Result<f64, String> {
    let tensors = [
        tensor("q", Dtype::F16, vec![rows, heads, WIDTH]),
        tensor("k", Dtype::F16, vec![keys, kv_heads, WIDTH]),
        tensor("v", Dtype::F16, vec![keys, kv_heads, WIDTH]),
        tensor("o", Dtype::F16, vec![rows, heads, WIDTH]),
    ];
    judged(buffers, &tensors, &[("causal", "true"), ("kernel", "fa2")])
}
