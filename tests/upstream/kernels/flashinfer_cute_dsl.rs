//! FlashInfer: mixture-of-experts kernels and dense GEMMs in CuTe DSL for SM12x.

use numerics::Format;

use super::cutlass::{MXFP4, MXFP8, NVFP4, Stored, scaled};
use super::{e2m1, product, rounded};
use crate::bounds::{BF16, F32, within};
use crate::cute_dsl::Source;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::FLASHINFER;
use crate::replay::{Buffers, Element};

static SOURCE: Source =
    Source { program: "flashinfer_cute_dsl.py", package: &FLASHINFER, folder: "flashinfer", imports: None };

type Reference = fn(&Buffers) -> Result<f64, String>;

const fn kernel(
    name: &'static str,
    case: &'static str,
    file: &'static str,
    bound: &'static str,
    reference: Reference,
) -> Kernel {
    let source = Origin::CuteDsl(&SOURCE);
    Kernel { name, source, case, file, reference, bound, expected: Expected::Right }
}

const DOT: &str = "2 (k + c) roundings of f32; one of the result";
const GATED: &str = "2 (k + c) roundings of f32 in gate and up; one of the result";
const QUANTIZED: &str = "2 (k + c) roundings of f32 in gate and up; one of bf16, one of E4M3";
const SCALED: &str = "2 (k + c) roundings of f32, one of their product with alpha; one of the result";
const SUMMED: &str = "2 (k + c) roundings of f32; four of bf16";

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("flashinfer/cute_moe_gemm", "gemm", "kernel_moe_mxfp8_mxfp4_gemm.py", DOT, gemm),
    kernel("flashinfer/cute_moe_gemm_swap_ab", "gemm_few", "kernel_moe_mxfp8_mxfp4_gemm.py", DOT, gemm),
    kernel("flashinfer/cute_moe_gemm_r2g", "gemm_r2g", "kernel_moe_mxfp8_mxfp4_gemm.py", DOT, gemm),
    kernel("flashinfer/cute_moe_fc1", "fc1", "kernel_moe_mxfp8_mxfp4_fc1_act.py", GATED, fc1),
    kernel(
        "flashinfer/cute_moe_fc1_quantized",
        "fc1_quantized",
        "kernel_moe_mxfp8_mxfp4_fc1_act_q1.py",
        QUANTIZED,
        fc1_quantized,
    ),
    kernel("flashinfer/cute_moe_fc2", "fc2", "kernel_moe_mxfp8_mxfp4_fc2_finalize.py", SUMMED, fc2),
    kernel("flashinfer/cute_moe_gemm_fp8", "fp8", "kernel_moe_fp8_gemm.py", DOT, fp8),
    kernel("flashinfer/b12x_nvfp4", "b12x_nvfp4", B12X, SCALED, |b| b12x(b, NVFP4, 192, 640)),
    kernel("flashinfer/b12x_nvfp4_swap_ab", "b12x_nvfp4_swap_ab", B12X, SCALED, |b| b12x(b, NVFP4, 96, 384)),
    kernel("flashinfer/b12x_mxfp4", "b12x_mxfp4", B12X, SCALED, |b| b12x(b, MXFP4, 256, 768)),
    kernel("flashinfer/b12x_mxfp8", "b12x_mxfp8", B12X, SCALED, |b| b12x(b, MXFP8, 128, 384)),
    kernel("flashinfer/b12x_mxfp8_few", "b12x_mxfp8_few", B12X, SCALED, |b| b12x(b, MXFP8, 128, 384)),
];

const B12X: &str = "gemm/kernels/dense_blockscaled_gemm_sm120_b12x.py";

/// Columns of every result.
const N: usize = 256;
/// Elements per token scale.
const BLOCK: usize = 128;

/// The first row of each expert, and the end.
fn first(b: &Buffers) -> Vec<usize> {
    b.before("first", Element::I32).iter().map(|row| *row as usize).collect()
}

/// The row of a token's scales, since those of each expert begin at a multiple of 4; and the number of rows.
fn scale_rows(first: &[usize]) -> (impl Fn(usize) -> usize, usize) {
    let experts = first.len() - 1;
    let begins = |e: usize| (first[e] + 3 * e) / 4 * 4;
    let of = move |row: usize| {
        let e = (0..experts).rfind(|e| first[*e] <= row).unwrap_or(0);
        begins(e) + row - first[e]
    };
    (of, (first[experts] + 3 * experts) / 4 * 4)
}

/// Products of all rows with the `n` weights of their experts, `k` elements each.
fn products(tokens: &[f64], weights: &[f64], first: &[usize], n: usize, k: usize) -> Vec<(f64, f64)> {
    let of_expert = |(e, rows): (usize, &[usize])| {
        let columns = &weights[e * n * k..(e + 1) * n * k];
        let transposed: Vec<f64> = (0..n * k).map(|i| columns[i % n * k + i / n]).collect();
        // A product may be scaled after its sum.
        product(&tokens[rows[0] * k..rows[1] * k], &transposed, k, n, 3.0 * F32)
    };
    first.windows(2).enumerate().flat_map(of_expert).collect()
}

fn ue8m0(byte: u8) -> f64 {
    f64::from(Format::Ue8m0.decode(u32::from(byte)))
}

/// MXFP8 tokens with a scale per [`BLOCK`], four in a word, and MXFP4 weights.
fn mixed(b: &Buffers, n: usize, k: usize) -> Vec<(f64, f64)> {
    let first = first(b);
    let (scale_row, padded) = scale_rows(&first);
    let (token_scales, weight_scales) = (b.bytes_before("sa"), b.bytes_before("sb"));
    let tokens: Vec<f64> = b.before("a", Element::E4m3);
    let token_scale = |i: usize| {
        let (row, block) = (i / k, i % k / BLOCK);
        ue8m0(token_scales[(block / 4 * padded + scale_row(row)) * 4 + block % 4])
    };
    let tokens: Vec<f64> = tokens.iter().enumerate().map(|(i, v)| v * token_scale(i)).collect();
    let weight_scale = |i: usize| {
        let (expert, row, block) = (i / (n * k), i / k % n, i % k / 32);
        ue8m0(weight_scales[((expert * k / BLOCK + block / 4) * n + row) * 4 + block % 4])
    };
    let weights = b.bytes_before("b").iter().flat_map(|pair| e2m1(*pair));
    let weights: Vec<f64> = weights.enumerate().map(|(i, v)| v * weight_scale(i)).collect();
    products(&tokens, &weights, &first, n, k)
}

fn gemm(b: &Buffers) -> Result<f64, String> {
    let wanted: Vec<_> = mixed(b, N, 640).into_iter().map(|y| rounded(y, BF16)).collect();
    within(&b.after("d", Element::Bf16), &wanted)
}

/// SwiGLU of the products with both halves of the weights: first up, then the gate.
fn gated(b: &Buffers) -> Vec<(f64, f64)> {
    let of_row = |row: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let (up, gate) = row.split_at(N);
        let each = |((u, u_bound), (g, g_bound)): (&(f64, f64), &(f64, f64))| {
            let silu = g / (1.0 + (-g).exp());
            // The slope of silu is below 1.1. ex2.approx of a rounded argument, and an approximate division.
            let silu_bound = 1.1 * g_bound + silu.abs() * (16.0 + 4.0 * g.abs()) * F32;
            let bound = silu_bound * (u.abs() + u_bound) + silu.abs() * u_bound;
            rounded((silu * u, bound), BF16)
        };
        up.iter().zip(gate).map(each).collect()
    };
    mixed(b, 2 * N, 512).chunks(2 * N).flat_map(of_row).collect()
}

fn fc1(b: &Buffers) -> Result<f64, String> {
    within(&b.after("d", Element::Bf16), &gated(b))
}

/// E4M3 with the smallest power of two for each [`BLOCK`] with which its largest element fits.
fn fc1_quantized(b: &Buffers) -> Result<f64, String> {
    let (codes, scales) = (b.after("d", Element::E4m3), b.bytes_after("sd"));
    let first = first(b);
    let (scale_row, padded) = scale_rows(&first);
    let mut unused = scales.to_vec();
    let (mut values, mut wanted) = (Vec::new(), Vec::new());
    for (n, block) in gated(b).chunks(BLOCK).enumerate() {
        let (row, column) = (n * BLOCK / N, n * BLOCK % N / BLOCK);
        let at = (column / 4 * padded + scale_row(row)) * 4 + column % 4;
        let code = scales.get(at).copied().ok_or("there are too few scales")?;
        unused[at] = 0;
        let largest = |sign: f64| block.iter().map(|(y, bound)| y.abs() + sign * bound).fold(1e-4, f64::max);
        let exponent = |most: f64| (most / 448.0).log2().ceil() + 127.0;
        let allowed =
            exponent(largest(-1.0) * (1.0 - 4.0 * F32))..=exponent(largest(1.0) * (1.0 + 4.0 * F32));
        if !allowed.contains(&f64::from(code)) {
            return Err(format!("row {row}, block {column}: the scale is {code}, not one of {allowed:?}"));
        }
        for (i, (y, bound)) in block.iter().enumerate() {
            values.push(codes.get(n * BLOCK + i).copied().unwrap_or(f64::NAN) * ue8m0(code));
            // Half a unit of three bits, or of the subnormal numbers.
            let step = ((y.abs() + bound) / 16.0).max(ue8m0(code) / 1024.0);
            wanted.push((*y, bound + step));
        }
    }
    if unused.iter().any(|byte| *byte != 0) {
        return Err("a scale of no row was written".to_owned());
    }
    within(&values, &wanted)
}

/// The weighted sum of the two rows of each token.
fn fc2(b: &Buffers) -> Result<f64, String> {
    let (tokens, weights) = (b.before("token", Element::I32), b.before("weight", Element::F32));
    let mut sums = vec![(0.0, 0.0); tokens.len() / 2 * N];
    for (i, y) in mixed(b, N, 640).into_iter().enumerate() {
        let (row, column) = (i / N, i % N);
        let (y, bound) = rounded(y, BF16);
        let weighted = y * weights[row];
        let (y, bound) = rounded((weighted, bound * weights[row] + weighted.abs() * F32), BF16);
        let sum = &mut sums[tokens[row] as usize * N + column];
        // The first is added to zero; both bounds include the second's rounding.
        *sum = rounded((sum.0 + y, sum.1 + bound), BF16);
    }
    within(&b.after("d", Element::Bf16), &sums)
}

/// E4M3 on both sides, with an f32 scale per [`BLOCK`] of a token and per square block of the weights.
fn fp8(b: &Buffers) -> Result<f64, String> {
    const K: usize = 512;
    let first = first(b);
    let (scale_row, padded) = scale_rows(&first);
    let (token_scales, weight_scales) = (b.before("sa", Element::F32), b.before("sb", Element::F32));
    let token = |(i, v): (usize, &f64)| v * token_scales[i % K / BLOCK * padded + scale_row(i / K)];
    let weight = |(i, v): (usize, &f64)| {
        let (expert, row, block) = (i / (N * K), i / K % N / BLOCK, i % K / BLOCK);
        v * weight_scales[(expert * K / BLOCK + block) * (N / BLOCK) + row]
    };
    let tokens: Vec<f64> = b.before("a", Element::E4m3).iter().enumerate().map(token).collect();
    let weights: Vec<f64> = b.before("b", Element::E4m3).iter().enumerate().map(weight).collect();
    let wanted: Vec<_> =
        products(&tokens, &weights, &first, N, K).into_iter().map(|y| rounded(y, BF16)).collect();
    within(&b.after("d", Element::Bf16), &wanted)
}

/// Both operands block-scaled, `n` columns of `k` elements.
fn b12x(b: &Buffers, stored: Stored, n: usize, k: usize) -> Result<f64, String> {
    let operand = |name: &str| scaled(b.bytes_before(name), b.bytes_before(&format!("s{name}")), stored, k);
    let (rows, columns) = (operand("a"), operand("b"));
    let alpha = b.before("alpha", Element::F32)[0];
    let transposed: Vec<f64> = (0..n * k).map(|i| columns[i % n * k + i / n]).collect();
    let times = |(y, bound): (f64, f64)| rounded(rounded((alpha * y, alpha * bound), F32), BF16);
    let wanted: Vec<_> = product(&rows, &transposed, k, n, 0.0).into_iter().map(times).collect();
    within(&b.after("d", Element::Bf16), &wanted)
}
