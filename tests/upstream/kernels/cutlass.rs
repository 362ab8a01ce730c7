//! CUTLASS: block-scaled products by its collectives for SM120.

use super::{e2m1, product, rounded};
use crate::bounds::{BF16, within};
use crate::compile::Source;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::CUTLASS;
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    program: "cutlass",
    package: Some((&CUTLASS, "cutlass")),
    includes: &["cutlass_library/source/include", "cutlass_library/source/tools/util/include"],
    options: &["--expt-relaxed-constexpr"],
};

const fn kernel(
    name: &'static str,
    case: &'static str,
    file: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    Kernel {
        name,
        source: Origin::Cuda(&SOURCE),
        case,
        file,
        reference,
        bound: "2 (k + c) roundings of f32; one of bf16",
        expected: Expected::Right,
    }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("cutlass/nvfp4", "nvfp4", "collective/sm120_blockscaled_mma_tma.hpp", |b| {
        gemm(b, [true, true], 16)
    }),
    kernel("cutlass/mxfp8_mxfp4", "mxfp8_mxfp4", "collective/sm120_blockscaled_mma_tma.hpp", |b| {
        gemm(b, [false, true], 32)
    }),
    kernel("cutlass/mxfp8", "mxfp8", "collective/sm120_blockscaled_mma_tma.hpp", |b| {
        gemm(b, [false, false], 32)
    }),
];

const N: usize = 128;
const K: usize = 256;

/// The rows of an operand times their scales. A tile of scales is of 128 rows and 4 vectors of elements.
fn scaled(b: &Buffers, name: &str, packed: bool, vector: usize) -> Vec<f64> {
    let values: Vec<f64> = if packed {
        b.before(name, Element::U8).iter().flat_map(|pair| e2m1(*pair as u8)).collect()
    } else {
        b.before(name, Element::E4m3)
    };
    let scales = format!("s{name}");
    let scales: Vec<f64> = match vector {
        16 => b.before(&scales, Element::E4m3),
        _ => b.before(&scales, Element::U8).iter().map(|code| (code - 127.0).exp2()).collect(),
    };
    let scale = |n: usize| {
        let (row, k) = (n / K, n % K / vector);
        let tile = row / 128 * (K / vector / 4) + k / 4;
        scales[tile * 512 + row % 32 * 16 + row / 32 % 4 * 4 + k % 4]
    };
    values.iter().enumerate().map(|(n, value)| value * scale(n)).collect()
}

fn gemm(b: &Buffers, [first, second]: [bool; 2], vector: usize) -> Result<f64, String> {
    let (rows, columns) = (scaled(b, "a", first, vector), scaled(b, "b", second, vector));
    let transposed: Vec<f64> = (0..K * N).map(|i| columns[i % N * K + i / N]).collect();
    let wanted: Vec<_> =
        product(&rows, &transposed, K, N, 0.0).into_iter().map(|y| rounded(y, BF16)).collect();
    within(&b.after("d", Element::Bf16), &wanted)
}
