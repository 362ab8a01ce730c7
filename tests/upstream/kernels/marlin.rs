//! Marlin: products of bf16 and 4-bit weights, with and without experts, from SGLang's sources.

use numerics::Format;

use super::{e2m1, rounded};
use crate::bounds::{BF16, F32, within};
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::SGLANG;
use crate::replay::{Buffers, Element};

const fn source(options: &'static [&'static str]) -> Source {
    Source {
        program: "marlin",
        package: Some((&SGLANG, "sglang")),
        includes: &["sglang/kernels/jit/include", "sglang/kernels/jit"],
        cuda: CUDA_13_5,
        fixed_shared: false,
        interface: None,
        options,
    }
}

/// As SGLang's JIT for this GPU; one program per product.
static DENSE: Source = source(&["--expt-relaxed-constexpr", "-std=c++20", "-DSGL_CUDA_ARCH=1210"]);
static EXPERTS: Source =
    source(&["--expt-relaxed-constexpr", "-std=c++20", "-DSGL_CUDA_ARCH=1210", "-DEXPERTS"]);

const TWO: &str = "2 (k + c) roundings of f32; two of the result";
const WEIGHTED: &str = "2 (k + c) roundings of f32; two of the result, one of its weight";

const fn experts(
    name: &'static str,
    case: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
    bound: &'static str,
) -> Kernel {
    let (source, file) = (Origin::Cuda(&EXPERTS), "gemm/marlin_moe/marlin_template.h");
    Kernel { name, source, case, file, reference, bound, expected: Expected::Right }
}

const fn dense(
    name: &'static str,
    case: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    let (source, file) = (Origin::Cuda(&DENSE), "gemm/marlin/marlin_template.h");
    Kernel { name, source, case, file, reference, bound: TWO, expected: Expected::Right }
}

pub(crate) static KERNELS: &[Kernel] = &[
    experts(
        "marlin/moe_mxfp4_decode",
        "mxfp4_decode",
        |b| product(b, &Shape { n: 256, k: 1024, group: 32, top_k: 2, weighted: false }),
        TWO,
    ),
    experts(
        "marlin/moe_mxfp4_prefill",
        "mxfp4_prefill",
        |b| product(b, &Shape { n: 512, k: 512, group: 32, top_k: 1, weighted: true }),
        WEIGHTED,
    ),
    experts(
        "marlin/moe_mxfp4_wide",
        "mxfp4_wide",
        |b| product(b, &Shape { n: 8192, k: 128, group: 32, top_k: 1, weighted: true }),
        WEIGHTED,
    ),
    experts(
        "marlin/moe_nvfp4",
        "nvfp4",
        |b| product(b, &Shape { n: 2304, k: 192, group: 16, top_k: 2, weighted: false }),
        TWO,
    ),
    Kernel {
        expected: Expected::Defect {
            rule: "race",
            why: "Several CTAs compute a column, and their sums are added by atomics, as SGLang asks for NVFP4 on this GPU. One of them zeroes the \
                  outputs first, and its thread 0 tells the others by `locks[locks_off] = 1 - slice_count` (`init_slice`), a weak store with \
                  nothing but a barrier of the CTA in front. The others wait for it by `ld.acquire` and add. The store races with these \
                  loads, and nothing releases the zeros: an add may come before a zero, and is lost. `fence.acq_rel.gpu` and \
                  `st.relaxed.gpu` in its place end both races; a strong store alone leaves that of zeros and adds.",
        },
        ..experts(
            "marlin/moe_nvfp4_split",
            "nvfp4_split",
            |b| product(b, &Shape { n: 256, k: 1024, group: 16, top_k: 2, weighted: false }),
            TWO,
        )
    },
    dense("marlin/nvfp4", "nvfp4", |b| {
        product(b, &Shape { n: 1024, k: 1024, group: 16, top_k: 1, weighted: false })
    }),
    Kernel {
        expected: Expected::Defect {
            rule: "race",
            why: "Each CTA has one tile of a column. Its last step still loads the next stage into registers (`fetch_to_registers(k + 1, …)`), and \
                  no barrier lies between that and `thread_block_reduce`, which writes partial sums over the first two stages (`sh_red` \
                  is `sh_b`) while other warps may still read there. What they read is never used; only the access is wrong. A \
                  `__syncthreads()` at the head of `thread_block_reduce` ends it. Where a CTA has 2 tiles of a column, or 3, or 4 more of \
                  these (the other cases here), the stage is another one.",
        },
        ..dense("marlin/nvfp4_short", "nvfp4_short", |b| {
            product(b, &Shape { n: 512, k: 512, group: 16, top_k: 1, weighted: false })
        })
    },
];

/// The operands of a case.
struct Shape {
    n: usize,
    k: usize,
    /// Elements per scale: 32 of MXFP4, 16 of NVFP4.
    group: usize,
    /// Number of routes that read the same row.
    top_k: usize,
    /// Whether routes have weights.
    weighted: bool,
}

/// Rows of routes times the weights of their experts.
fn product(b: &Buffers, shape: &Shape) -> Result<f64, String> {
    let &Shape { n, k, group, top_k, weighted } = shape;
    let nvfp4 = group == 16;
    let a = b.before("a", Element::Bf16);
    let values: Vec<f64> = b.bytes_before("w").iter().flat_map(|pair| e2m1(*pair)).collect();
    let format = if nvfp4 { Format::E4m3 } else { Format::Ue8m0 };
    let scales: Vec<f64> =
        b.bytes_before("s").iter().map(|code| f64::from(format.decode(u32::from(*code)))).collect();
    let scaled: Vec<f64> = values.iter().zip(0..).map(|(value, at)| value * scales[at / group]).collect();
    let (globals, biases) = (b.before("g", Element::Bf16), b.before("bias", Element::Bf16));
    let weights = b.before("weights", Element::F32);
    let experts = match b.before("experts", Element::I32) {
        // Without experts, all rows have the same weights.
        none if none.is_empty() => vec![0.0; a.len() / k],
        experts => experts,
    };
    let mut wanted = Vec::new();
    for (route, expert) in experts.iter().enumerate() {
        if *expert < 0.0 {
            // Another rank computes it: the sum over the experts of a token adds zeros.
            wanted.extend(vec![(0.0, 0.0); n]);
            continue;
        }
        let expert = *expert as usize;
        let row = &a[route / top_k * k..][..k];
        for column in 0..n {
            let terms = row.iter().zip(&scaled[(expert * n + column) * k..][..k]).map(|(a, w)| a * w);
            let (y, all) = terms.fold((0.0, 0.0), |(y, all): (f64, f64), t| (y + t, all + t.abs()));
            let sum = (y, all * 2.0 * (k as f64 + 16.0) * F32);
            // bf16 begins at 2^-126, and the sum is scaled by 2^-119: smaller results have an absolute step.
            let (y, bound) = if nvfp4 {
                (y, sum.1 + (y.abs() * 1.01).max(1.0 / 128.0) * BF16)
            } else {
                rounded(sum, BF16)
            };
            let mut result = (y, bound);
            if let Some(global) = globals.get(expert) {
                result = rounded((result.0 * global, result.1 * global), BF16);
            }
            if let Some(bias) = biases.get(expert * n + column) {
                result = rounded((result.0 + bias, result.1), BF16);
            }
            if weighted {
                let weight = weights[route];
                let rounded_weight = (result.0.abs() + result.1) * weight.abs() * BF16;
                result = rounded((result.0 * weight, result.1 * weight.abs() * 1.01 + rounded_weight), BF16);
            }
            wanted.push(result);
        }
    }
    within(&b.after("c", Element::Bf16), &wanted)
}
