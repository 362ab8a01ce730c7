//! FlashInfer's NVFP4 attention for SM12x (SageAttention 3): its quantizers, and its kernel on what they store.

use std::fs;
use std::path::Path;

use numerics::Format;
use safetensors::Dtype;

use super::{INTERFACE, kernel, source};
use crate::attention_dump::{judged, made};
use crate::compile::Source;
use crate::cuda::CUDA_13_0;
use crate::judge::{Expected, Kernel};
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    includes: &["flashinfer/data/csrc", "flashinfer/data/include", "flashinfer/data/cutlass/include"],
    cuda: CUDA_13_0,
    interface: Some(INTERFACE),
    // `SharedStorage` needs the alignment of its swizzles, which `extern __shared__` does not declare.
    fixed_shared: true,
    ..source(
        "nvfp4_attention",
        &[
            "-use_fast_math",
            "-DFLASHINFER_ENABLE_F16",
            "-DFLASHINFER_ENABLE_BF16",
            "-DNDEBUG",
            "-DQBLKSIZE=128",
            "-DKBLKSIZE=128",
            "-DCTA256",
            "-DDQINRMEM",
            "-DPINGPONG_MATH_ORDER",
            "-DPINGPONG_EARLY_RELEASE_K",
            "-DCAUSAL_DISABLE_QK_ORDER",
            "--expt-relaxed-constexpr",
            "--expt-extended-lambda",
        ],
    )
};

const FILE: &str = "sm120/nvfp4_attention_sm120/compute/mainloop.cuh";

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("flashinfer/nvfp4_attention", &SOURCE, "full", FILE, |b| judge(b, [100, 200], "false")),
    kernel("flashinfer/nvfp4_attention_causal", &SOURCE, "causal", FILE, |b| judge(b, [128, 256], "true")),
    Kernel {
        expected: Expected::Wrong {
            explanation: PADDING,
            why: "Causal, with fewer keys than their tensor has rows for, which is padded to a multiple of 128. \
                  `apply_mask` compares columns with `unpadded_seqlen_k` only without a causal mask; with one it takes \
                  `seqlen_k`, the padded length, for the end of the keys and for the diagonal as well. Each row sees as many \
                  keys too many as there are keys of padding, and where it sees none of these its diagonal is too far right.",
            source: padded_length_is_taken,
        },
        ..kernel("flashinfer/nvfp4_attention_causal_ragged", &SOURCE, "causal_ragged", FILE, |b| {
            // As the function is documented, and as its kernel computes it: with every key that the tensors have room for.
            judge(b, [128, 200], "true").map_err(|wrong| match judge(b, [128, 256], "true") {
                Ok(_) => format!("{PADDING}: {wrong}"),
                Err(_) => wrong,
            })
        })
    },
];

/// What is wrong where keys end before their padding.
const PADDING: &str = "the keys of the padding are seen";

/// The causal mask compares columns with the padded length.
fn padded_length_is_taken(root: &Path) -> Result<(), String> {
    let folder = "flashinfer/data/include/flashinfer/attention/sm120/nvfp4_attention_sm120/compute";
    let path = root.join(folder).join("mainloop.cuh");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match text.contains("std::min(seqlen_k - n_block_local * kBlockN, col_limit_causal(row, n_block_local))")
    {
        true => Ok(()),
        false => Err("the mask of `mainloop.cuh` is another one".to_owned()),
    }
}

/// Heads of queries, elements of a head.
const HEADS: usize = 2;
const WIDTH: usize = 64;

/// The place of a scale in the chunks of 64 rows of a tensor with so many columns.
const fn scale_at(row: usize, column: usize, columns: usize) -> usize {
    row / 64 * 64 * columns + column / 4 * 256 + row % 16 * 16 + row % 64 / 16 * 4 + column % 4
}

/// The elements of a row-major tensor of codes, each with its scale.
fn values(buffers: &Buffers, [codes, scales]: [&str; 2], width: usize) -> Vec<f64> {
    let (codes, scales) = (buffers.bytes_after(codes), buffers.bytes_after(scales));
    let of = |n: usize| {
        let code = u32::from(codes[n / 2] >> (n % 2 * 4) & 15);
        let scale = scales[scale_at(n / width, n % width / 16, width / 16)];
        f64::from(Format::E2m1.decode(code)) * f64::from(Format::Ue4m3.decode(u32::from(scale)))
    };
    (0..codes.len() * 2).map(of).collect()
}

/// Checks what a quantizer stored for each 16 numbers: the scale is ue4m3 of a sixth of the largest, codes are those of the quotients.
fn quantized(given: &[f64], stored: &[f64]) -> Result<(), String> {
    for (n, (given, stored)) in given.chunks(16).zip(stored.chunks(16)).enumerate() {
        let largest = given.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let nearest = |format: Format, x: f64| {
            let code = numerics::convert::f64_to(format, x, numerics::Rounding::NearestEven, true, false);
            f64::from(format.decode(code))
        };
        let scale = nearest(Format::Ue4m3, largest / 6.0);
        for (x, found) in given.iter().zip(stored) {
            // A quotient may be off where it is rounded.
            let near = [-1.0, 1.0].map(|sign| match scale {
                0.0 => 0.0,
                scale => nearest(Format::E2m1, x / scale * (1.0 + sign / 1_048_576.0)) * scale,
            });
            if !near.contains(found) {
                return Err(format!("block {n} of a quantizer has {found} for {x}, not {near:?}"));
            }
        }
    }
    Ok(())
}

/// Rows and keys, of which the tensors have the next multiples of 128.
fn judge(b: &Buffers, [rows, keys]: [usize; 2], causal: &'static str) -> Result<f64, String> {
    let padded = |n: usize| n.next_multiple_of(128);
    let (m, n) = (padded(rows), padded(keys));
    let q = values(b, ["q_codes", "q_scales"], WIDTH);
    let stored_k = values(b, ["k_codes", "k_scales"], WIDTH);
    let stored_v = values(b, ["v_codes", "v_scales"], n);
    // A row of keys has another token of its 32.
    let token = |row: usize| row / 32 * 32 + row % 32 / 8 * 2 + row % 8 / 2 * 8 + row % 2;
    let mut k = vec![0.0; n * WIDTH];
    for (row, values) in stored_k.chunks(WIDTH).enumerate() {
        k[token(row) * WIDTH..][..WIDTH].copy_from_slice(values);
    }
    let given = |name: &str| b.before(name, Element::Bf16);
    quantized(&given("queries"), &q)?;
    quantized(&given("keys"), &k)?;
    let of_values = given("values");
    let columns: Vec<f64> =
        (0..WIDTH).flat_map(|d| of_values.iter().skip(d).step_by(WIDTH).copied()).collect();
    quantized(&columns, &stored_v)?;
    // The correction of a block of rows is the product of an element that is 1 in its rows and one that the keys of its head have.
    let correction = b.before("correction", Element::F32);
    let blocks = m / 128;
    let bytes = |values: &mut dyn Iterator<Item = f64>| -> Vec<u8> {
        values.flat_map(|x| (x as f32).to_le_bytes()).collect()
    };
    let all = |count: usize| (0..count).flat_map(|at| (0..HEADS).map(move |head| (at, head)));
    let of_block = |row: usize, block: usize| if row / 128 == block { 1.0 } else { 0.0 };
    let q = bytes(&mut all(rows).flat_map(|(row, head)| {
        let own = q[(head * m + row) * WIDTH..][..WIDTH].to_vec();
        own.into_iter().chain((0..blocks).map(move |block| of_block(row, block)))
    }));
    let k = bytes(&mut all(keys).flat_map(|(key, head)| {
        let own = k[key * WIDTH..][..WIDTH].to_vec();
        let correction = &correction;
        own.into_iter().chain((0..blocks).map(move |block| correction[(head * blocks + block) * n + key]))
    }));
    let v = bytes(
        &mut all(keys)
            .flat_map(|(key, _)| (0..WIDTH).map(move |d| (key, d)))
            .map(|(key, d)| stored_v[d * n + key]),
    );
    let out = b.bytes_after("o");
    let of_row = |row: usize, head: usize| out[(head * m + row) * WIDTH * 2..][..WIDTH * 2].to_vec();
    let o: Vec<u8> = all(rows).flat_map(|(row, head)| of_row(row, head)).collect();
    let lse: Vec<u8> = b.bytes_after("lse").chunks(m * 4).flat_map(|of| of[..rows * 4].to_vec()).collect();
    let width = WIDTH + blocks;
    let tensors = [
        made("q", Dtype::F32, vec![rows, HEADS, width], q),
        made("k", Dtype::F32, vec![keys, HEADS, width], k),
        made("v", Dtype::F32, vec![keys, HEADS, WIDTH], v),
        made("o", Dtype::BF16, vec![rows, HEADS, WIDTH], o),
        made("lse", Dtype::F32, vec![HEADS, rows], lse),
    ];
    let declared = [
        ("kernel", "nvfp4_attention"),
        ("sm_scale", "0.125"),
        ("causal", causal),
        ("lse_base", "e"),
        ("lse_layout", "heads_rows"),
    ];
    judged(b, &tensors, &declared)
}
