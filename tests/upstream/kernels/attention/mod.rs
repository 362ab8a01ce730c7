//! FlashInfer's attention: of a single request here, of batches over paged caches in the files beside it.

mod nvfp4;
mod paged;
mod sparse_mla;
mod xqa;

use safetensors::Dtype;

pub(crate) use nvfp4::KERNELS as NVFP4;
pub(crate) use paged::KERNELS as PAGED;
pub(crate) use sparse_mla::KERNELS as SPARSE_MLA;
pub(crate) use xqa::KERNELS as XQA;

use crate::attention_dump::{judged, tensor};
use crate::compile::{Interface, Source};
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::{FLASHINFER, TVM_FFI};
use crate::replay::Buffers;

static SOURCE: Source = source("attention", &["--expt-relaxed-constexpr"]);
static PREFILL: Source = source("prefill", &["--expt-relaxed-constexpr"]);

/// The interface that host functions have towards Python.
const INTERFACE: Interface = Interface { package: &TVM_FFI, folder: "tvm-ffi", headers: "tvm_ffi/include" };

/// A program with FlashInfer's headers.
const fn source(program: &'static str, options: &'static [&'static str]) -> Source {
    let includes = &["flashinfer/data/include"];
    let package = Some((&FLASHINFER, "flashinfer"));
    Source { program, package, includes, cuda: CUDA_13_5, fixed_shared: false, interface: None, options }
}

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
