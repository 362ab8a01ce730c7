//! llama.cpp: attention by its mma, vector and tile kernels, as its host code chooses them on a GB10.

use numerics::convert::f64_to;
use numerics::{Format, Rounding};
use safetensors::Dtype;

use super::LLAMA_INCLUDES;
use crate::attention_dump::{Tensor, judged, made, stored, tensor};
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::LLAMA;
use crate::replay::{Buffers, Element};

static SOURCE: Source = Source {
    program: "llama_attention",
    package: Some((&LLAMA, "llama")),
    includes: LLAMA_INCLUDES,
    cuda: CUDA_13_5,
    fixed_shared: false,
    interface: None,
    // As CMake sets them.
    options: &["-use_fast_math", "-extended-lambda", "--expt-relaxed-constexpr"],
};

const fn kernel(
    name: &'static str,
    case: &'static str,
    file: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    let (source, bound) = (Origin::Cuda(&SOURCE), "docs/numerics.md, 14");
    Kernel { name, source, case, file, reference, bound, expected: Expected::Right }
}

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("llama.cpp/fattn_mma", "mma", MMA, |b| {
        Problem { window: "90", ..Problem::new(64, 4, [4, 2], 256, &[200]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_mma_ragged", "mma_ragged", MMA, |b| {
        Problem::new(64, 7, [4, 2], 256, &[201]).judged(b)
    }),
    kernel("llama.cpp/fattn_mma_sequences", "mma_sequences", MMA, |b| {
        Problem::new(64, 4, [4, 2], 512, &[400, 60]).judged(b)
    }),
    Kernel {
        expected: Expected::Defect {
            rule: "out_of_bounds",
            why: "`flash_attn_mask_to_KV_max` in `fattn-common.cuh` reads the mask for all rows of a tile, also for those beyond the last \
                  row, since masks are no longer padded to whole tiles: up to a tile less one row behind the mask of the last sequence. \
                  It runs where several sequences have their own cells of the cache (`ne[3] > 1`) or a batch has 1024 rows, and the \
                  result is right whatever is read. With whole tiles (`llama.cpp/fattn_mma_sequences`) nothing is read there.",
        },
        ..kernel("llama.cpp/fattn_mma_sequences_ragged", "mma_sequences_ragged", "fattn-common.cuh", |b| {
            Problem::new(64, 3, [4, 2], 512, &[400, 60]).judged(b)
        })
    },
    kernel("llama.cpp/fattn_mma_alibi", "mma_alibi", MMA, |b| {
        let slopes = vec![1.0 / 16.0, 1.0 / 256.0];
        Problem { sinks: false, slopes, ..Problem::new(64, 5, [2, 1], 90, &[90]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_mma_q8_0", "mma_q8_0", MMA, |b| {
        Problem { quants: Some(Quants::Q8), ..Problem::new(64, 3, [4, 2], 256, &[150]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_mma_q4_0", "mma_q4_0", MMA, |b| {
        Problem { quants: Some(Quants::Q4), ..Problem::new(64, 3, [4, 2], 256, &[150]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_vec", "vec", VEC, |b| {
        Problem { window: "150", ..Problem::vector(64, 1, [4, 2], &[200]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_vec_cap", "vec_cap", VEC, |b| {
        let masked = false;
        Problem { masked, sinks: false, cap: "5", ..Problem::vector(128, 1, [2, 1], &[256]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_vec_q8_0", "vec_q8_0", VEC, |b| {
        Problem { quants: Some(Quants::Q8), ..Problem::vector(64, 2, [4, 2], &[200]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_vec_q4_0", "vec_q4_0", VEC, |b| {
        Problem { quants: Some(Quants::Q4), ..Problem::vector(64, 1, [4, 2], &[200]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_tile", "tile", TILE, |b| {
        Problem { window: "90", ..Problem::new(40, 3, [4, 2], 256, &[200]) }.judged(b)
    }),
    kernel("llama.cpp/fattn_tile_ragged", "tile_ragged", TILE, |b| {
        Problem { masked: false, ..Problem::new(40, 5, [2, 2], 90, &[90]) }.judged(b)
    }),
];

const MMA: &str = "fattn-mma-f16.cuh";
const VEC: &str = "fattn-vec.cuh";
const TILE: &str = "fattn-tile.cuh";

/// The factor of scores of all cases: no power of two, so that its roundings show.
const SCALE: (f32, &str) = (0.3, "0.3");

/// Elements of a block of quants.
const BLOCK: usize = 32;

/// A type of quants: blocks of an f16 scale and codes.
#[derive(Clone, Copy, PartialEq)]
enum Quants {
    /// Signed bytes.
    Q8,
    /// Four bits above −8, the first half of a block in the low ones.
    Q4,
}

impl Quants {
    /// The scale of each block, and its codes.
    fn blocks(self, bytes: &[u8]) -> impl Iterator<Item = (f32, Vec<f32>)> {
        let size = if self == Self::Q8 { 2 + BLOCK } else { 2 + BLOCK / 2 };
        bytes.chunks_exact(size).map(move |block| {
            let scale = Format::F16.decode(u32::from(u16::from_le_bytes([block[0], block[1]])));
            let codes = &block[2..];
            let codes = match self {
                Self::Q8 => codes.iter().map(|code| f32::from(*code as i8)).collect(),
                Self::Q4 => {
                    let halves = codes.iter().map(|pair| pair & 15).chain(codes.iter().map(|pair| pair >> 4));
                    halves.map(|code| f32::from(code) - 8.0).collect()
                }
            };
            (scale, codes)
        })
    }
}

/// What a case of the program computes.
struct Problem {
    width: usize,
    /// Rows of queries of each sequence.
    rows: usize,
    /// Heads of queries and of keys.
    heads: [usize; 2],
    /// Cells of the cache of each sequence.
    cells: usize,
    /// Those in use.
    lengths: &'static [i32],
    /// Keys that a row sees, −1 for all before it.
    window: &'static str,
    cap: &'static str,
    masked: bool,
    sinks: bool,
    slopes: Vec<f32>,
    quants: Option<Quants>,
    /// Whether the vector kernel runs: all in binary32, and queries become bytes with a scale for [`BLOCK`] where keys are quants.
    is_vector: bool,
}

impl Problem {
    fn new(width: usize, rows: usize, heads: [usize; 2], cells: usize, lengths: &'static [i32]) -> Self {
        Self {
            width,
            rows,
            heads,
            cells,
            lengths,
            window: "-1",
            cap: "0",
            masked: true,
            sinks: true,
            slopes: Vec::new(),
            quants: None,
            is_vector: false,
        }
    }

    fn vector(width: usize, rows: usize, heads: [usize; 2], lengths: &'static [i32]) -> Self {
        Self { is_vector: true, ..Self::new(width, rows, heads, 256, lengths) }
    }

    fn judged(&self, buffers: &Buffers) -> Result<f64, String> {
        let [heads, kv_heads] = self.heads;
        let sequences = self.lengths.len();
        let out = vec![sequences * self.rows, heads, self.width];
        let cache = |width: usize| vec![sequences, self.cells, kv_heads, width];
        // Behind the result lie keys and values that were converted to f16.
        let result = buffers.bytes_after("o").get(..4 * out.iter().product::<usize>()).unwrap_or_default();
        let pages: Vec<i32> = (0..sequences as i32).collect();
        let mut tensors = vec![
            made("block_table", Dtype::I32, vec![sequences, 1], integers(&pages)),
            made("seq_lens", Dtype::I32, vec![sequences], integers(self.lengths)),
            made("out", Dtype::F32, out.clone(), result.to_vec()),
        ];
        let mut scale = SCALE.1;
        match self.quants {
            None => {
                tensors.push(tensor("q", Dtype::F32, out));
                tensors.push(stored("k_cache", Dtype::F16, cache(self.width), "k"));
                tensors.push(stored("v_cache", Dtype::F16, cache(self.width), "v"));
            }
            Some(quants) if self.is_vector => {
                tensors.extend(self.dot_of_quants(buffers, quants));
                // The scale is in the bytes.
                scale = "1";
                let values = dequantized(buffers.bytes_before("v"), quants, |v| v);
                tensors.push(made("v_cache", Dtype::F32, cache(self.width), values));
            }
            Some(quants) => {
                tensors.push(tensor("q", Dtype::F32, out));
                let to_f16 = |v: f32| {
                    Format::F16.decode(f64_to(Format::F16, v.into(), Rounding::NearestEven, false, false))
                };
                for (name, buffer) in [("k_cache", "k"), ("v_cache", "v")] {
                    let values = dequantized(buffers.bytes_before(buffer), quants, to_f16);
                    tensors.push(made(name, Dtype::F32, cache(self.width), values));
                }
            }
        }
        if self.sinks {
            tensors.push(tensor("sinks", Dtype::F32, vec![heads]));
        }
        if !self.slopes.is_empty() {
            tensors.push(made("alibi_slopes", Dtype::F32, vec![heads], floats(self.slopes.iter().copied())));
        }
        let arithmetic: &[(&str, &str)] = match self.is_vector {
            // Everything in binary32; each warp reads 32 keys for each maximum.
            true => &[("kernel", "triton"), ("weights", "f32"), ("tile", "32")],
            false => &[("kernel", "llama_cpp"), ("tile", "16")],
        };
        let metadata = [
            ("mask", if self.masked { "causal" } else { "none" }),
            ("window", self.window),
            ("soft_cap", self.cap),
            ("sm_scale", scale),
            ("kv_layout", "NHD"),
        ];
        judged(buffers, &tensors, &[&metadata, arithmetic].concat())
    }

    /// Queries and keys whose products are what the vector kernel computes of quants: bytes of the queries times codes, and for
    /// four bits the codes as they are stored minus 8 times the sum of the queries before they became bytes.
    fn dot_of_quants(&self, buffers: &Buffers, quants: Quants) -> [Tensor; 2] {
        let [heads, kv_heads] = self.heads;
        let sequences = self.lengths.len();
        let (mut queries, mut keys) = (Vec::new(), Vec::new());
        let q = buffers.before("q", Element::F32);
        for row in q.chunks(self.width) {
            let mut sums = Vec::new();
            for block in row.chunks(BLOCK) {
                let scaled: Vec<f32> = block.iter().map(|q| *q as f32 * SCALE.0).collect();
                let step = scaled.iter().fold(0.0f32, |most, q| most.max(q.abs())) / 127.0;
                queries.extend(scaled.iter().map(|q| (q / step).round() * step));
                sums.push(-scaled.iter().map(|q| f64::from(*q)).sum::<f64>() as f32);
            }
            if quants == Quants::Q4 {
                queries.extend(sums);
            }
        }
        let blocks: Vec<_> = quants.blocks(buffers.bytes_before("k")).collect();
        for row in blocks.chunks(self.width / BLOCK) {
            let offset = if quants == Quants::Q4 { 8.0 } else { 0.0 };
            keys.extend(row.iter().flat_map(|(d, codes)| codes.iter().map(move |code| d * (code + offset))));
            if quants == Quants::Q4 {
                keys.extend(row.iter().map(|(d, _)| d * offset));
            }
        }
        let width = self.width + if quants == Quants::Q4 { self.width / BLOCK } else { 0 };
        let of_rows = vec![sequences * self.rows, heads, width];
        [
            made("q", Dtype::F32, of_rows, floats(queries)),
            made("k_cache", Dtype::F32, vec![sequences, self.cells, kv_heads, width], floats(keys)),
        ]
    }
}

/// The products of codes and scales, which binary32 holds exactly, rounded further.
fn dequantized(bytes: &[u8], quants: Quants, rounded: impl Fn(f32) -> f32) -> Vec<u8> {
    let blocks = quants.blocks(bytes);
    let values = blocks.flat_map(|(d, codes)| codes.into_iter().map(move |code| d * code));
    floats(values.map(rounded))
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn integers(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
