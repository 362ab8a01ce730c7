//! Kernels that Triton compiles: with the newest version, and with one a year older where the code differs.

use super::triton_references as of;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::{TRITON, TRITON_3_4};
use crate::replay::Buffers;
use crate::triton::Source;

const PROGRAM: &str = "triton_kernels.py";
static NEW: Source = Source { program: PROGRAM, triton: &TRITON, folder: "triton", upstream: None };
static OLD: Source = Source { program: PROGRAM, triton: &TRITON_3_4, folder: "triton-3.4", upstream: None };

const SUM: &str = "(n + c) roundings of f32";
const HALF: &str = "one rounding of f16, (n + c) of f32";
const DOT: &str = "2 (k + c) roundings of f32; one of the result";
const ATTENTION: &str = "docs/numerics.md, 14";

type Reference = fn(&Buffers) -> Result<f64, String>;

const fn kernel(name: &'static str, case: &'static str, bound: &'static str, reference: Reference) -> Kernel {
    let source = Origin::Triton(&NEW);
    Kernel { name, source, case, file: PROGRAM, reference, bound, expected: Expected::Right }
}

const fn older(name: &'static str, case: &'static str, bound: &'static str, reference: Reference) -> Kernel {
    Kernel { source: Origin::Triton(&OLD), ..kernel(name, case, bound, reference) }
}

const fn defect(kernel: Kernel, why: &'static str) -> Kernel {
    Kernel { expected: Expected::Defect { rule: "race", why }, ..kernel }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("triton/vector_add", "vector_add", "one rounding of f32", of::vector_add),
    kernel("triton/softmax", "softmax", HALF, of::softmax),
    kernel("triton/layer_norm", "layer_norm", HALF, of::layer_norm),
    kernel("triton/layer_norm_backward", "layer_norm_backward", "equal", of::layer_norm_backward),
    kernel("triton/sum_of_products", "sum_of_products", SUM, of::sum_of_products),
    defect(
        kernel("triton/sum_of_products_fused", "sum_of_products_fused", SUM, of::sum_of_products),
        "`tl.sum(x * y)` with one element a thread and `enable_fp_fusion`, the default up to 3.9: `fma.rn.f32` takes the product of the \
         lane itself unrounded into the first step of the butterfly, so that the 32 lanes end with sums that differ by roundings, and all \
         of them store theirs to one word of shared memory. Which one remains is undefined, and with it the last bits of the result. \
         Without fusion (`triton/sum_of_products`) all lanes hold one value.",
    ),
    kernel("triton/matmul_f16", "matmul_f16", DOT, of::matmul_f16),
    kernel(
        "triton/matmul_tf32",
        "matmul_tf32",
        "2⁻⁹ of each product, 2 (k + c) roundings of f32",
        of::matmul_tf32,
    ),
    kernel("triton/matmul_int8", "matmul_int8", "equal", of::matmul_int8),
    kernel("triton/matmul_fp8", "matmul_fp8", DOT, of::matmul_fp8),
    kernel("triton/matmul_split_k", "matmul_split_k", DOT, of::matmul_split_k),
    kernel("triton/matmul_descriptor", "matmul_descriptor", DOT, of::matmul_f16),
    kernel("triton/matmul_descriptor_fp8", "matmul_descriptor_fp8", DOT, of::matmul_transposed_fp8),
    kernel("triton/matmul_persistent", "matmul_persistent", DOT, of::matmul_bf16),
    kernel("triton/matmul_persistent_specialised", "matmul_persistent_specialised", DOT, of::matmul_wide),
    kernel("triton/attention", "attention", ATTENTION, of::attention_f16),
    kernel("triton/attention_bf16", "attention_bf16", ATTENTION, of::attention_bf16),
    kernel("triton/attention_descriptor", "attention_descriptor", ATTENTION, of::attention_described),
    kernel("triton/attention_specialised", "attention_specialised", ATTENTION, of::attention_wide),
    kernel("triton/dot_scaled_mxfp8", "dot_scaled_mxfp8", DOT, of::mxfp8),
    kernel("triton/dot_scaled_mxfp8_mxfp4", "dot_scaled_mxfp8_mxfp4", DOT, of::mxfp8_mxfp4),
    kernel("triton/dot_scaled_mxfp4", "dot_scaled_mxfp4", DOT, of::mxfp4),
    kernel("triton/dot_scaled_nvfp4", "dot_scaled_nvfp4", DOT, of::nvfp4),
    kernel("triton/reductions", "reductions", SUM, of::reductions),
    kernel("triton/scans", "scans", SUM, of::scans),
    kernel("triton/sort", "sort", "equal", of::sort),
    kernel("triton/histogram", "histogram", "equal", of::histogram),
    kernel("triton/atomics", "atomics", "equal", of::atomics),
    kernel("triton/grouped_matmul", "grouped_matmul", DOT, of::grouped_matmul),
    kernel(
        "triton/cross_entropy",
        "cross_entropy",
        "(n + c) roundings of f32, those of the exponent scaled",
        of::cross_entropy,
    ),
    kernel("triton/transpose", "transpose", "equal", of::transpose),
    kernel("triton/quantize", "quantize", "half a step of e4m3", of::quantize),
];

pub(crate) static OLDER: &[Kernel] = &[
    older("triton-3.4/softmax", "softmax", HALF, of::softmax),
    older("triton-3.4/matmul_f16", "matmul_f16", DOT, of::matmul_f16),
    older("triton-3.4/matmul_fp8", "matmul_fp8", DOT, of::matmul_fp8),
    older("triton-3.4/matmul_descriptor", "matmul_descriptor", DOT, of::matmul_f16),
    older("triton-3.4/attention", "attention", ATTENTION, of::attention_f16),
    older("triton-3.4/dot_scaled_mxfp4", "dot_scaled_mxfp4", DOT, of::mxfp4),
    older("triton-3.4/scans", "scans", SUM, of::scans),
    defect(
        older("triton-3.4/layer_norm_backward", "layer_norm_backward", "equal", of::layer_norm_backward),
        "All warps load the count of the group, and one thread exchanges it for 1 with no barrier in between: a warp that comes late reads \
         the 1 of its own CTA and adds the sum that nobody has stored yet. Triton 3.9 has a `bar.sync` in front of the exchange.",
    ),
    defect(
        older("triton-3.4/attention_specialised", "attention_specialised", ATTENTION, of::attention_wide),
        "A warp that loads for the others reads its captured arguments from shared memory behind the second `barrier.sync 1`, which says that \
         it has read them; the other warps then reuse those bytes for their reductions. The barrier is inline assembly without a memory \
         clobber, and the compiler moves the loads behind it.",
    ),
];
