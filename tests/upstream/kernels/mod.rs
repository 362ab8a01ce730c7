//! The kernels of the suite, a file for each upstream.

mod attention;
mod cub;
mod flashinfer;
mod llama;
mod triton;
mod triton_references;

use numerics::Format;

use super::judge::Kernel;

/// All of them, in the order of the report.
pub(crate) fn all() -> Vec<&'static Kernel> {
    let lists = [
        cub::KERNELS,
        llama::KERNELS,
        flashinfer::KERNELS,
        attention::KERNELS,
        triton::KERNELS,
        triton::OLDER,
    ];
    lists.into_iter().flatten().collect()
}

/// Numbers in f16, little-endian.
fn f16(bytes: &[u8]) -> Vec<f64> {
    let decode = |b: &[u8]| f64::from(Format::F16.decode(u32::from(u16::from_le_bytes([b[0], b[1]]))));
    bytes.chunks_exact(2).map(decode).collect()
}
