//! FlashInfer's sparse attention over records of latent attention for SM12x: decode with splits, and the ways of its prefill.

use safetensors::Dtype;

use super::{INTERFACE, kernel, source};
use crate::attention_dump::{judged, tensor};
use crate::compile::Source;
use crate::judge::Kernel;
use crate::replay::Buffers;

/// FlashInfer compiles the module with fast divisions and exponentials.
const fn sparse_mla(options: &'static [&'static str]) -> Source {
    Source {
        includes: &["flashinfer/data/csrc", "flashinfer/data/include"],
        interface: Some(INTERFACE),
        ..source("sparse_mla", options)
    }
}

static DECODE: Source = sparse_mla(&["-use_fast_math"]);
static PREFILL: Source = sparse_mla(&["-use_fast_math", "-DPREFILL=1"]);

/// A layout of records, and the rest of the metadata.
type Case = (Record, &'static [(&'static str, &'static str)]);

/// A record: its name, elements of a query and of a value, and bytes of a slot and of a page of `page` slots.
struct Record {
    name: &'static str,
    widths: [usize; 2],
    heads: usize,
    page: &'static str,
    of_page: usize,
}

const V32: Record =
    Record { name: "fp8_ds_mla", widths: [576, 512], heads: 16, page: "16", of_page: 16 * 656 };
const V32_PREFILL: Record = Record { page: "64", of_page: 64 * 656, ..V32 };
/// With its padding.
const V4: Record = Record { name: "dsv4", widths: [512, 512], heads: 8, page: "16", of_page: 17 * 576 };

const WHOLE: (&str, &str) = ("partials", "none");
const DECODE_FILE: &str = "sparse_mla_sm120/kernels/dsv32_fp8/decode.cuh";
const DECODE_V4_FILE: &str = "sparse_mla_sm120/kernels/fp8_decode/decode.cuh";
const PREFILL_FILE: &str = "sparse_mla_sm120/kernels/fp8_prefill/prefill_sg.cuh";
const PREFILL_GROUPS_FILE: &str = "sparse_mla_sm120/kernels/fp8_prefill/prefill_mg.cuh";
const PREFILL_COLUMNS_FILE: &str = "sparse_mla_sm120/kernels/fp8_prefill/prefill_swapab.cuh";

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("flashinfer/sparse_mla_decode", &DECODE, "v32", DECODE_FILE, |b| judge(b, (V32, &[]))),
    kernel("flashinfer/sparse_mla_decode_split", &DECODE, "v32_split", DECODE_FILE, |b| {
        judge(b, (Record { heads: 8, ..V32 }, &[]))
    }),
    kernel("flashinfer/sparse_mla_decode_residual", &DECODE, "glm", DECODE_FILE, |b| {
        judge(b, (Record { heads: 8, ..V32 }, &[WHOLE, ("kernel", "sparse_mla_residual")]))
    }),
    kernel("flashinfer/sparse_mla_decode_v4", &DECODE, "v4", DECODE_V4_FILE, |b| judge(b, (V4, &[]))),
    kernel("flashinfer/sparse_mla_prefill", &PREFILL, "v32", PREFILL_FILE, |b| {
        judge(b, (V32_PREFILL, &[WHOLE]))
    }),
    kernel("flashinfer/sparse_mla_prefill_groups", &PREFILL, "v32_groups", PREFILL_GROUPS_FILE, |b| {
        judge(b, (Record { heads: 32, ..V32_PREFILL }, &[WHOLE]))
    }),
    kernel("flashinfer/sparse_mla_prefill_columns", &PREFILL, "v32_columns", PREFILL_COLUMNS_FILE, |b| {
        judge(b, (Record { heads: 64, ..V32_PREFILL }, &[WHOLE, ("kernel", "sparse_mla_swapab")]))
    }),
    kernel("flashinfer/sparse_mla_prefill_v4", &PREFILL, "v4_short", PREFILL_GROUPS_FILE, |b| {
        judge(b, (Record { heads: 16, ..V4 }, &[WHOLE, ("queries", "bf16")]))
    }),
    kernel("flashinfer/sparse_mla_prefill_v4_long", &PREFILL, "v4_long", PREFILL_GROUPS_FILE, |b| {
        judge(b, (V4, &[WHOLE]))
    }),
];

fn judge(buffers: &Buffers, (record, metadata): Case) -> Result<f64, String> {
    let count = |name: &str, bytes: usize| buffers.bytes_before(name).len() / bytes;
    let Record { name, widths: [width, of_value], heads, page, of_page } = record;
    let tokens = count("q", 2 * heads * width);
    let mut tensors = vec![
        tensor("q", Dtype::BF16, vec![tokens, heads, width]),
        tensor("kv_cache", Dtype::U8, vec![count("kv_cache", of_page), of_page]),
        tensor("topk_indices", Dtype::I32, vec![tokens, count("topk_indices", 4 * tokens)]),
        tensor("topk_length", Dtype::I32, vec![tokens]),
        tensor("o", Dtype::BF16, vec![tokens, heads, of_value]),
        tensor("lse", Dtype::F32, vec![tokens, heads]),
    ];
    if count("sinks", 4) > 0 {
        tensors.push(tensor("sinks", Dtype::F32, vec![heads]));
    }
    let defaults = [("kernel", "sparse_mla"), ("queries", "fp8_e4m3")];
    let is_other = |(key, _): &(&str, &str)| !metadata.iter().any(|(declared, _)| declared == key);
    let defaults: Vec<_> = defaults.into_iter().filter(is_other).collect();
    let declared = [
        ("record", name),
        ("page_size", page),
        ("sm_scale", "0.0625"),
        ("lse_base", "2"),
        ("lse_sink", "included"),
        ("empty", "zero"),
    ];
    judged(buffers, &tensors, &[metadata, &defaults, &declared].concat())
}
