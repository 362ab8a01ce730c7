//! The kernels of the suite, one file per upstream project.

mod attention;
mod cub;
mod cutlass;
mod deepgemm;
mod flashinfer;
mod flashinfer_cute_dsl;
mod flashinfer_group;
mod llama;
mod llama_attention;
mod llama_mmq;
mod marlin;
mod sglang_cute_dsl;
mod triton;
mod triton_attention;
mod triton_references;

use numerics::Format;

use super::bounds::F32;
use super::judge::Kernel;

/// All of them, in the order of the report.
pub(crate) fn all() -> Vec<&'static Kernel> {
    let lists = [
        cub::KERNELS,
        llama::KERNELS,
        llama_mmq::KERNELS,
        llama_attention::KERNELS,
        flashinfer::KERNELS,
        flashinfer_group::KERNELS,
        flashinfer_cute_dsl::KERNELS,
        attention::KERNELS,
        attention::PAGED,
        attention::XQA,
        attention::SPARSE_MLA,
        attention::NVFP4,
        deepgemm::KERNELS,
        cutlass::KERNELS,
        marlin::KERNELS,
        sglang_cute_dsl::KERNELS,
        triton_attention::KERNELS,
        triton::KERNELS,
        triton::OLDER,
    ];
    lists.into_iter().flatten().collect()
}

pub(crate) use llama::INCLUDES as LLAMA_INCLUDES;

/// Numbers in f16, little-endian.
fn f16(bytes: &[u8]) -> Vec<f64> {
    let decode = |b: &[u8]| f64::from(Format::F16.decode(u32::from(u16::from_le_bytes([b[0], b[1]]))));
    bytes.chunks_exact(2).map(decode).collect()
}

/// One more rounding, to a type with this unit roundoff and an absolute step for subnormal numbers.
fn rounded((y, bound): (f64, f64), unit: f64) -> (f64, f64) {
    (y, bound + (y.abs() * 1.01).max(6.2e-5) * unit)
}

/// The product of row-major matrices of `k` and `n` columns. A tensor core may truncate each of its sums, which counts as two roundings;
/// `input` is the relative error of a product of rounded inputs.
fn product(a: &[f64], b: &[f64], k: usize, n: usize, input: f64) -> Vec<(f64, f64)> {
    let mut out = Vec::new();
    for row in a.chunks(k) {
        for column in 0..n {
            let terms = row.iter().enumerate().map(|(i, a)| a * b[i * n + column]);
            let (y, all) = terms.fold((0.0, 0.0), |(y, all): (f64, f64), t| (y + t, all + t.abs()));
            out.push((y, all * (input + 2.0 * (k as f64 + 16.0) * F32)));
        }
    }
    out
}

/// Two numbers in e2m1, the first in the low bits.
fn e2m1(pair: u8) -> [f64; 2] {
    [pair & 15, pair >> 4].map(|code| f64::from(Format::E2m1.decode(u32::from(code))))
}
