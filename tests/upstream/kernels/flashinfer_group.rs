//! FlashInfer: grouped GEMM of MXFP8 and MXFP4 for SM120, built on CUTLASS.

use super::cutlass::{MXFP4, MXFP8, scaled};
use super::{product, rounded};
use crate::bounds::{BF16, within};
use crate::compile::Source;
use crate::cuda::CUDA_13_0;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::FLASHINFER;
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    program: "flashinfer_group",
    package: Some((&FLASHINFER, "flashinfer")),
    includes: &[
        "flashinfer/data/include",
        "flashinfer/data/cutlass/include",
        "flashinfer/data/cutlass/tools/util/include",
    ],
    cuda: CUDA_13_0,
    // As CUTLASS's own.
    fixed_shared: true,
    interface: None,
    // As FlashInfer's JIT: without it, CUTLASS compiles no `griddepcontrol.wait`, and the GEMM reads arguments that are not yet written.
    options: &["--expt-relaxed-constexpr", "-DCUTLASS_ENABLE_GDC_FOR_SM100=1"],
};

const fn kernel(name: &'static str, case: &'static str) -> Kernel {
    Kernel {
        name,
        source: Origin::Cuda(&SOURCE),
        case,
        file: "gemm/group_gemm_mxfp4_groupwise_sm120.cuh",
        reference: gemm,
        bound: "2 (k + c) roundings of f32; one of the result",
        expected: Expected::Right,
    }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("flashinfer/group_mxfp8_mxfp4", "tokens_first"),
    kernel("flashinfer/group_mxfp8_mxfp4_swap_ab", "weights_first"),
];

const N: usize = 192;
const K: usize = 384;
/// Rows of a group's matrix of weight scales.
const SCALE_COLUMNS: usize = 256;

fn gemm(b: &Buffers) -> Result<f64, String> {
    let first: Vec<usize> = b.before("first", Element::I32).iter().map(|row| *row as usize).collect();
    let (tokens, token_scales) = (b.bytes_before("a"), b.bytes_before("sa"));
    let (weights, weight_scales) = (b.bytes_before("b"), b.bytes_before("sb"));
    let blocks = K / 32;
    let mut wanted = Vec::new();
    for (group, rows) in first.windows(2).enumerate() {
        // Each group's token scales begin at a multiple of 128 rows.
        let scale_row = (rows[0] + group * 127) / 128 * 128;
        let of_group =
            scaled(&tokens[rows[0] * K..rows[1] * K], &token_scales[scale_row * blocks..], MXFP8, K);
        let columns = scaled(
            &weights[group * N * K / 2..(group + 1) * N * K / 2],
            &weight_scales[group * SCALE_COLUMNS * blocks..],
            MXFP4,
            K,
        );
        let transposed: Vec<f64> = (0..K * N).map(|i| columns[i % N * K + i / N]).collect();
        wanted.extend(product(&of_group, &transposed, K, N, 0.0).into_iter().map(|y| rounded(y, BF16)));
    }
    within(&b.after("d", Element::Bf16), &wanted)
}
