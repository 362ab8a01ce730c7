//! DeepGEMM: block-scaled products of FP8 and FP4.

use super::{e2m1, product, rounded};
use crate::bounds::{BF16, F32, within};
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::DEEPGEMM;
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    program: "deepgemm",
    package: Some((&DEEPGEMM, "deepgemm")),
    includes: &["deep_gemm/include"],
    cuda: CUDA_13_5,
    fixed_shared: false,
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
        file: "impls/sm120_fp8_fp4_gemm_1d1d.cuh",
        reference,
        bound: "2 (k + c) roundings of f32; one of the result",
        expected: Expected::Right,
    }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("deepgemm/fp8_fp8", "fp8_fp8", |b| gemm(b, [false, false], (Element::Bf16, BF16))),
    kernel("deepgemm/fp8_fp4", "fp8_fp4", |b| gemm(b, [false, true], (Element::Bf16, BF16))),
    kernel("deepgemm/fp4_fp8", "fp4_fp8", |b| gemm(b, [true, false], (Element::F32, F32))),
    kernel("deepgemm/fp4_fp4", "fp4_fp4", |b| gemm(b, [true, true], (Element::F32, F32))),
];

const M: usize = 80;
const N: usize = 128;
const K: usize = 384;

/// The rows of an operand times their scales: one byte of a word per 32 elements, the words of a block of K side by side.
fn scaled(b: &Buffers, name: &str, rows: usize, packed: bool) -> Vec<f64> {
    let values: Vec<f64> = if packed {
        b.before(name, Element::U8).iter().flat_map(|pair| e2m1(*pair as u8)).collect()
    } else {
        b.before(name, Element::E4m3)
    };
    let scales = b.before(&format!("s{name}"), Element::U8);
    let scale = |n: usize| {
        let (row, k) = (n / K, n % K);
        (scales[(k / 128 * rows + row) * 4 + k % 128 / 32] - 127.0).exp2()
    };
    values.iter().enumerate().map(|(n, value)| value * scale(n)).collect()
}

fn gemm(b: &Buffers, [first, second]: [bool; 2], (out, unit): (Element, f64)) -> Result<f64, String> {
    let (rows, columns) = (scaled(b, "a", M, first), scaled(b, "b", N, second));
    let transposed: Vec<f64> = (0..K * N).map(|i| columns[i % N * K + i / N]).collect();
    let wanted: Vec<_> =
        product(&rows, &transposed, K, N, 0.0).into_iter().map(|y| rounded(y, unit)).collect();
    within(&b.after("d", out), &wanted)
}
