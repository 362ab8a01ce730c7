//! CUTLASS: block-scaled collectives for SM120.

use numerics::Format;

use super::{product, rounded};
use crate::bounds::{BF16, F32, within};
use crate::compile::Source;
use crate::cuda::CUDA_13_0;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::CUTLASS;
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    program: "cutlass",
    package: Some((&CUTLASS, "cutlass")),
    includes: &["cutlass_library/source/include", "cutlass_library/source/tools/util/include"],
    cuda: CUDA_13_0,
    // `device_kernel` declares no alignment, but the swizzles need 1,024 bytes.
    fixed_shared: true,
    interface: None,
    options: &["--expt-relaxed-constexpr"],
};

const fn kernel(
    name: &'static str,
    case: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    Kernel {
        name,
        source: Origin::Cuda(&SOURCE),
        case,
        file: "cutlass/gemm/collective/sm120_blockscaled_mma_tma.hpp",
        reference,
        bound: "2 (k + c) roundings of f32; one of the result",
        expected: Expected::Right,
    }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("cutlass/nvfp4", "nvfp4", |b| gemm(b, NVFP4, NVFP4, (Element::Bf16, BF16))),
    kernel("cutlass/nvfp4_pingpong", "nvfp4_pingpong", |b| gemm(b, NVFP4, NVFP4, (Element::F32, F32))),
    kernel("cutlass/mxfp8_mxfp4", "mxfp8_mxfp4", |b| gemm(b, MXFP8, MXFP4, (Element::Bf16, BF16))),
    kernel("cutlass/mxfp8_mxfp6", "mxfp8_mxfp6", |b| gemm(b, MXFP8, MXFP6, (Element::F32, F32))),
    kernel("cutlass/mxfp4", "mxfp4", |b| gemm(b, MXFP4, MXFP4, (Element::F32, F32))),
];

const M: usize = 160;
const N: usize = 192;
const K: usize = 640;

/// The storage format of an operand: its elements, its scales, and the number of elements per scale.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    element: Format,
    scale: Format,
    block: usize,
}

pub(super) const NVFP4: Stored = Stored { element: Format::E2m1, scale: Format::E4m3, block: 16 };
pub(super) const MXFP4: Stored = Stored { element: Format::E2m1, scale: Format::Ue8m0, block: 32 };
const MXFP6: Stored = Stored { element: Format::E3m2, ..MXFP4 };
pub(super) const MXFP8: Stored = Stored { element: Format::E4m3, ..MXFP4 };

/// The code of an element in a packed array of codes, the first in the lowest bits.
fn code(bytes: &[u8], bits: usize, n: usize) -> u32 {
    let at = n * bits;
    let byte = |n: usize| u32::from(bytes.get(n).copied().unwrap_or_default());
    (byte(at / 8) | byte(at / 8 + 1) << 8) >> (at % 8) & ((1 << bits) - 1)
}

/// The position of a scale: in blocks of 128 rows by four along K, 32 rows side by side.
fn place(row: usize, k: usize, blocks: usize) -> usize {
    (row / 128 * blocks.div_ceil(4) + k / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + k % 4
}

/// The rows of `k` elements of an operand, times their scales.
pub(super) fn scaled(codes: &[u8], scales: &[u8], stored: Stored, k: usize) -> Vec<f64> {
    let Stored { element, scale, block } = stored;
    let bits = element.bits() as usize;
    let value = |n: usize| {
        let at = place(n / k, n % k / block, k / block);
        f64::from(element.decode(code(codes, bits, n))) * f64::from(scale.decode(u32::from(scales[at])))
    };
    (0..codes.len() * 8 / bits).map(value).collect()
}

fn gemm(b: &Buffers, first: Stored, second: Stored, (out, unit): (Element, f64)) -> Result<f64, String> {
    let operand =
        |name: &str, stored| scaled(b.bytes_before(name), b.bytes_before(&format!("s{name}")), stored, K);
    let (rows, columns) = (operand("a", first), operand("b", second));
    let transposed: Vec<f64> = (0..K * N).map(|i| columns[i % N * K + i / N]).collect();
    // Half the product plus twice C, in f32.
    let sum = |((y, bound), c): ((f64, f64), &f64)| {
        let wanted = 0.5 * y + 2.0 * c;
        rounded((wanted, 0.5 * bound + (wanted.abs() + bound) * 2.0 * F32), unit)
    };
    let product = product(&rows, &transposed, K, N, 0.0);
    let wanted: Vec<_> = product.into_iter().zip(&b.before("c", out)).map(sum).collect();
    assert_eq!(wanted.len(), M * N);
    within(&b.after("d", out), &wanted)
}
