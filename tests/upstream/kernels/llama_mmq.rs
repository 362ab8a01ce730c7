//! llama.cpp: matrix products in MXFP4 and NVFP4 with activations that are first quantized to FP4.

use super::{e2m1, product};
use crate::bounds::within;
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::LLAMA;
use crate::replay::{Buffers, Element};
use numerics::Format;

static SOURCE: Source = Source {
    program: "llama_mmq",
    package: Some((&LLAMA, "llama")),
    includes: super::llama::INCLUDES,
    cuda: CUDA_13_5,
    fixed_shared: false,
    interface: None,
    options: &[],
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
        file: "mmq.cuh",
        reference,
        bound: "quantizing: half a step; product: 2 (k + c) roundings of f32",
        expected: Expected::Right,
    }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("llama.cpp/mmq_mxfp4", "mxfp4", |b| mmq(b, false)),
    Kernel {
        expected: Expected::Defect {
            rule: "out_of_bounds",
            why: "11 columns. `ggml_cuda_mul_mat_q` (`mmq.cu`) allocates `ggml_cuda_mmq_get_J_max(…, ne11)` blocks behind `src1_q8_1`, which \
                  rounds the 11 down to 8, while `mul_mat_q_switch_J` takes the tile of 16. The kernel copies whole tiles, in steps of all \
                  its threads (`tile_y[l] = by0[l]`, `mmq.cuh`), and reads behind the buffer. What it reads there belongs to columns that \
                  nobody stores; only the access is wrong. With 16 columns (`llama.cpp/mmq_mxfp4`) it stays inside.",
        },
        ..kernel("llama.cpp/mmq_mxfp4_narrow", "mxfp4_narrow", |b| mmq(b, false))
    },
    kernel("llama.cpp/mmq_mxfp4_ragged", "mxfp4_ragged", |b| mmq(b, false)),
    kernel("llama.cpp/mmq_nvfp4", "nvfp4", |b| mmq(b, true)),
];

const K: usize = 512;

fn e8m0(code: u8) -> f64 {
    (f64::from(code) - 127.0).exp2()
}

fn ue4m3(code: u8) -> f64 {
    f64::from(Format::E4m3.decode(u32::from(code)))
}

/// Groups of `2 * half` elements: the first half in the low bits of the bytes, the second in the high bits.
fn halves(bytes: &[u8], half: usize) -> Vec<f64> {
    let group = |bytes: &[u8]| {
        let (low, high): (Vec<f64>, Vec<f64>) = bytes.iter().map(|pair| e2m1(*pair).into()).unzip();
        [low, high].concat()
    };
    bytes.chunks(half).flat_map(group).collect()
}

/// The rows of the matrix.
fn matrix(bytes: &[u8], nvfp4: bool) -> Vec<f64> {
    if nvfp4 {
        let block = |block: &[u8]| {
            let values = halves(&block[4..], 8);
            values.iter().enumerate().map(|(n, x)| x * ue4m3(block[n / 16])).collect::<Vec<_>>()
        };
        return bytes.chunks_exact(36).flat_map(block).collect();
    }
    let block = |block: &[u8]| halves(&block[1..], 16).iter().map(|x| x * e8m0(block[0])).collect::<Vec<_>>();
    bytes.chunks_exact(17).flat_map(block).collect()
}

/// The quantized activations by columns, each value with its scale. Blocks have 256 values; the blocks of all columns are side by side.
fn quantized(b: &Buffers, columns: usize, nvfp4: bool) -> Vec<(f64, f64)> {
    let (bytes, scale) = (b.bytes_after("quantized"), b.after("scale", Element::F32));
    let mut out = vec![(0.0, 0.0); columns * K];
    for (n, block) in bytes.chunks_exact(144).take(columns * K / 256).enumerate() {
        let (k, column) = (n / columns * 256, n % columns);
        let values = halves(&block[16..], if nvfp4 { 8 } else { 16 });
        for (i, value) in values.into_iter().enumerate() {
            let scale = if nvfp4 {
                ue4m3(block[i / 16]) * scale[column]
            } else {
                // The low half of a word contains the scales of two groups.
                e8m0(block[i / 64 * 4 + i % 64 / 32])
            };
            out[column * K + k + i] = (value * scale, scale);
        }
    }
    out
}

fn mmq(b: &Buffers, nvfp4: bool) -> Result<f64, String> {
    let y = b.before("y", Element::F32);
    let columns = y.len() / K;
    let quantized = quantized(b, columns, nvfp4);
    // Half the step there; the largest values are clipped, and NVFP4's scales are chosen for the whole group.
    let step = |(x, (_, scale)): (&f64, &(f64, f64))| {
        let most: f64 = if nvfp4 { 2.0 } else { 1.0 };
        let of_values = (x / scale).abs() / 4.0;
        (*x, scale * (of_values.clamp(0.25, 1.0) + (x.abs() / scale - 6.0).max(0.0)).max(most * 0.25) * 1.001)
    };
    let bounds: Vec<_> = y.iter().zip(&quantized).map(step).collect();
    let values: Vec<f64> = quantized.iter().map(|(value, _)| *value).collect();
    within(&values, &bounds)?;
    // A result is a column.
    let rows = matrix(b.bytes_before("x"), nvfp4);
    let transposed: Vec<f64> =
        (0..rows.len()).map(|i| rows[i % (rows.len() / K) * K + i / (rows.len() / K)]).collect();
    let wanted = product(&values, &transposed, K, rows.len() / K, 0.0);
    within(&b.after("dst", Element::F32), &wanted)
}
