//! Attention of vLLM and SGLang in Triton's language, launched by their own host functions.

use safetensors::Dtype;

use crate::attention_dump::{Tensor, judged, made, tensor};
use crate::judge::{Expected, Kernel, Origin};
use crate::packages::{SGLANG, TRITON, VLLM};
use crate::replay::{Buffers, Element};
use crate::triton::{Source, Upstream};

static OF_VLLM: Upstream = Upstream { package: &VLLM, folder: "vllm", part: "vllm/v1/attention/ops" };
static OF_SGLANG: Upstream = Upstream { package: &SGLANG, folder: "sglang", part: "" };

static VLLM_KERNELS: Source =
    Source { program: "vllm_triton.py", triton: &TRITON, folder: "triton", upstream: Some(&OF_VLLM) };
static SGLANG_KERNELS: Source =
    Source { program: "sglang_triton.py", triton: &TRITON, folder: "triton", upstream: Some(&OF_SGLANG) };

type Reference = fn(&Buffers) -> Result<f64, String>;

const fn kernel(
    name: &'static str,
    source: &'static Source,
    case: &'static str,
    file: &'static str,
    reference: Reference,
) -> Kernel {
    let (source, bound) = (Origin::Triton(source), "docs/numerics.md, 14");
    Kernel { name, source, case, file, reference, bound, expected: Expected::Right }
}

const fn vllm(name: &'static str, case: &'static str, reference: Reference) -> Kernel {
    kernel(name, &VLLM_KERNELS, case, "triton_unified_attention.py", reference)
}

const fn decode(name: &'static str, case: &'static str, reference: Reference) -> Kernel {
    kernel(name, &SGLANG_KERNELS, case, "decode_attention.py", reference)
}

const fn extend(name: &'static str, case: &'static str, reference: Reference) -> Kernel {
    kernel(name, &SGLANG_KERNELS, case, "extend_attention.py", reference)
}

pub(crate) static KERNELS: &[Kernel] = &[
    vllm("vllm/unified_prefill", "prefill", |b| unified(b, 24, BF16, SINKS, PREFILL)),
    vllm("vllm/unified_prefill_window", "prefill_window", |b| {
        unified(b, 24, BF16, SINKS, &[&[("window_left", "31")], PREFILL].concat())
    }),
    vllm("vllm/unified_prefill_cap", "prefill_cap", |b| {
        unified(b, 14, [Dtype::F16; 2], &[], &[&[("soft_cap", "5")], PREFILL].concat())
    }),
    vllm("vllm/unified_prefill_fp8", "prefill_fp8", |b| {
        let scales: Extras =
            &[("sinks", Dtype::BF16, 4), ("k_scale", Dtype::F32, 1), ("v_scale", Dtype::F32, 1)];
        unified(b, 14, [Dtype::BF16, Dtype::F8_E4M3], scales, PREFILL)
    }),
    vllm("vllm/unified_decode", "decode", |b| unified(b, 2, BF16, SINKS, SEGMENTS)),
    vllm("vllm/unified_decode_window", "decode_window", |b| {
        unified(b, 4, BF16, SINKS, &[&[("window_left", "31")], SEGMENTS].concat())
    }),
    vllm("vllm/unified_decode_alibi", "decode_alibi", |b| {
        unified(b, 2, BF16, &[("alibi_slopes", Dtype::F32, 4)], SEGMENTS)
    }),
    vllm("vllm/unified_decode_fp8", "decode_fp8", |b| {
        let factors = ["k_scale", "v_scale"].map(|name| tensor(name, Dtype::F32, vec![24, 16, 2]));
        // Scales are applied to scores and weights.
        let said = [&[("elements", "none")], SEGMENTS].concat();
        with(b, 2, [Dtype::BF16, Dtype::F8_E4M3], factors.into_iter().chain(extra_tensors(SINKS)), &said)
    }),
    decode("sglang/decode", "decode", |b| decoded(b, [2, 2], Dtype::BF16, &[("products", "bf16"), SUMS])),
    decode("sglang/decode_f16", "decode_f16", |b| {
        decoded(b, [2, 2], Dtype::F16, &[("products", "fp16"), SUMS])
    }),
    decode("sglang/decode_grouped", "decode_grouped", |b| decoded(b, [8, 2], Dtype::BF16, &[])),
    decode("sglang/decode_grouped_cap", "decode_grouped_cap", |b| {
        decoded(b, [4, 1], Dtype::BF16, &[("soft_cap", "5")])
    }),
    kernel("sglang/prefill", &SGLANG_KERNELS, "prefill", "prefill_attention.py", prefilled),
    extend("sglang/extend", "extend", |b| extended(b, [&[70, 0], &[20, 33]], "-1")),
    extend("sglang/extend_window", "extend_window", |b| extended(b, [&[150, 40], &[9, 5]], "63")),
];

/// Names, types and elements of further tensors.
type Extras = &'static [(&'static str, Dtype, usize)];
/// Metadata of a dump.
type Said = (&'static str, &'static str);

const SINKS: Extras = &[("sinks", Dtype::BF16, 4)];
const BF16: [Dtype; 2] = [Dtype::BF16; 2];

/// One pass over the keys, 32 at a time.
const PREFILL: &[Said] = &[("partials", "none"), ("tile", "32")];
/// Segments whose results are merged, 16 keys at a time.
const SEGMENTS: &[Said] = &[("tile", "16")];
/// Without tensor cores: products of a query and a key are rounded to their type, and weights are not rounded.
const SUMS: Said = ("weights", "f32");

/// The metadata of all cases.
const COMMON: [Said; 3] = [("causal", "true"), ("sm_scale", "0.11"), ("kernel", "triton")];

/// Elements of a head.
const WIDTH: usize = 64;

/// Tensors of one dimension.
fn extra_tensors(extras: Extras) -> impl Iterator<Item = Tensor> {
    extras.iter().map(|(name, element, count)| tensor(name, *element, vec![*count]))
}

/// vLLM's cases: `rows` of two requests, types of queries and of the cache.
fn unified(
    b: &Buffers,
    rows: usize,
    types: [Dtype; 2],
    extras: Extras,
    said: &[Said],
) -> Result<f64, String> {
    with(b, rows, types, extra_tensors(extras), said)
}

fn with(
    b: &Buffers,
    rows: usize,
    [element, cache]: [Dtype; 2],
    extras: impl Iterator<Item = Tensor>,
    said: &[Said],
) -> Result<f64, String> {
    let mut tensors = vec![
        tensor("q", element, vec![rows, 4, WIDTH]),
        tensor("k_cache", cache, vec![24, 16, 2, WIDTH]),
        tensor("v_cache", cache, vec![24, 16, 2, WIDTH]),
        tensor("cu_seqlens_q", Dtype::I32, vec![3]),
        tensor("block_table", Dtype::I32, vec![2, 6]),
        tensor("seq_lens", Dtype::I32, vec![2]),
        tensor("out", element, vec![rows, 4, WIDTH]),
    ];
    tensors.extend(extras);
    judged(b, &tensors, &[COMMON.as_slice(), &[("kv_layout", "NHD")], said].concat())
}

/// A row of each of two requests, whose keys are slots of one cache.
fn decoded(b: &Buffers, [heads, kv_heads]: [usize; 2], element: Dtype, said: &[Said]) -> Result<f64, String> {
    let cache = vec![256, 1, kv_heads, WIDTH];
    let slots = b.bytes_before("kv_indices").len() / 4;
    let tensors = [
        tensor("q", element, vec![2, heads, WIDTH]),
        tensor("k_cache", element, cache.clone()),
        tensor("v_cache", element, cache),
        tensor("kv_indptr", Dtype::I32, vec![3]),
        tensor("kv_indices", Dtype::I32, vec![slots]),
        tensor("sinks", Dtype::F32, vec![heads]),
        tensor("out", element, vec![2, heads, WIDTH]),
    ];
    judged(b, &tensors, &[COMMON.as_slice(), &[("kv_layout", "NHD"), ("tile", "32")], said].concat())
}

/// Rows of two requests, each with its own keys; the result is divided after every tile.
fn prefilled(b: &Buffers) -> Result<f64, String> {
    let mut tensors = [("q", 2), ("k", 1), ("v", 1), ("out", 2)]
        .map(|(name, heads)| tensor(name, Dtype::BF16, vec![187, heads, WIDTH]))
        .to_vec();
    for name in ["qo_indptr", "kv_indptr"] {
        tensors.push(made(name, Dtype::I32, vec![3], [0i32, 150, 187].map(i32::to_le_bytes).concat()));
    }
    let said = [("partials", "none"), ("tile", "128"), ("denominator", "normalised")];
    judged(b, &tensors, &[COMMON.as_slice(), &said].concat())
}

/// Rows of two requests whose keys are those of a cache, and then their own, of one head.
fn extended(b: &Buffers, [prefixes, rows]: [&[usize]; 2], window: &'static str) -> Result<f64, String> {
    let slots: Vec<usize> = b.before("kv_indices", Element::I32).iter().map(|slot| *slot as usize).collect();
    let total: usize = rows.iter().sum();
    let keys: Vec<i32> = prefixes.iter().zip(rows).map(|(prefix, rows)| (prefix + rows) as i32).collect();
    let side = |name: &'static str, cache: &str, own: &str| -> Result<Tensor, String> {
        let (cache, own) = (b.bytes_before(cache), b.bytes_before(own));
        let row = |bytes: &[u8], at: usize| {
            let found = bytes.get(at * 2 * WIDTH..(at + 1) * 2 * WIDTH).map(<[u8]>::to_vec);
            found.ok_or_else(|| format!("{name} has no row {at}"))
        };
        let (mut all, mut slots, mut first) = (Vec::new(), slots.iter(), 0);
        for (prefix, rows) in prefixes.iter().zip(rows) {
            for slot in slots.by_ref().take(*prefix) {
                all.extend(row(cache, *slot)?);
            }
            for at in first..first + rows {
                all.extend(row(own, at)?);
            }
            first += rows;
        }
        let count = all.len() / (2 * WIDTH);
        Ok(made(name, Dtype::BF16, vec![count, 1, WIDTH], all))
    };
    let bounds: Vec<i32> = [0, keys[0], keys[0] + keys[1]].to_vec();
    let tensors = [
        tensor("q", Dtype::BF16, vec![total, 2, WIDTH]),
        side("k", "k_cache", "k_extend")?,
        side("v", "v_cache", "v_extend")?,
        tensor("qo_indptr", Dtype::I32, vec![3]),
        made("kv_indptr", Dtype::I32, vec![3], bounds.iter().flat_map(|at| at.to_le_bytes()).collect()),
        tensor("sinks", Dtype::F32, vec![2]),
        tensor("out", Dtype::BF16, vec![total, 2, WIDTH]),
        tensor("lse", Dtype::F32, vec![total, 2]),
    ];
    let said = [
        ("window_left", window),
        ("partials", "none"),
        ("tile", "128"),
        ("lse_base", "e"),
        ("lse_layout", "rows_heads"),
        ("lse_sink", "included"),
    ];
    judged(b, &tensors, &[COMMON.as_slice(), &said].concat())
}
