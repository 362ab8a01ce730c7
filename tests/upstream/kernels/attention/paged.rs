//! FlashInfer's FA2 over paged caches: prefill, decode, sinks, NVFP4.

use std::fs;
use std::path::Path;

use safetensors::Dtype;

use super::{kernel, source};
use crate::attention_dump::{judged, tensor};
use crate::compile::Source;
use crate::judge::{Expected, Kernel};
use crate::replay::Buffers;

const CONSTEXPR: &str = "--expt-relaxed-constexpr";

static PREFILL: Source = source("paged_prefill", &[CONSTEXPR]);
static DECODE: Source = source("paged_decode", &[CONSTEXPR]);
static SINK: Source = Source {
    includes: &["flashinfer/data/include", "flashinfer/jit/attention/variants.py"],
    ..source("attention_sink", &[CONSTEXPR])
};
static NVFP4: Source = source("nvfp4_prefill", &[CONSTEXPR, "-DHEAD_WIDTH=128"]);
static NVFP4_SWIZZLED: Source =
    source("nvfp4_prefill", &[CONSTEXPR, "-DHEAD_WIDTH=128", "-DFLASHINFER_PAGED_V_SF_DESWIZZLE=1"]);
static NVFP4_NARROW: Source = source("nvfp4_prefill", &[CONSTEXPR, "-DHEAD_WIDTH=64"]);

const CAUSAL: (&str, &str) = ("causal", "true");
const NHD: (&str, &str) = ("kv_layout", "NHD");
const HND: (&str, &str) = ("kv_layout", "HND");
const WHOLE: (&str, &str) = ("partials", "none");
const FILE: &str = "attention/prefill.cuh";

pub(crate) static KERNELS: &[Kernel] = &[
    kernel("flashinfer/paged_prefill", &PREFILL, "causal", FILE, |b| prefill(b, &[CAUSAL, NHD, WHOLE])),
    kernel("flashinfer/paged_prefill_hnd", &PREFILL, "hnd", FILE, |b| {
        prefill(b, &[("causal", "false"), HND, WHOLE])
    }),
    kernel("flashinfer/paged_prefill_split", &PREFILL, "split", FILE, |b| prefill(b, &[CAUSAL, NHD])),
    Kernel {
        expected: Expected::Races {
            kinds: MERGED,
            right: true,
            why: "Up to 16 pairs of row and head: the four warps of a block share the keys. Behind its only barrier, \
                  `threadblock_sync_mdo_states` lets every warp add up the sums of all of them from `cta_sync_o_smem`; \
                  then the first warp writes the result to `smem_o`, which is the same memory (`write_o_reg_gmem`). A \
                  warp that comes late reads what the first has written. Only the first warp's sums are stored; only the \
                  access is wrong. A `__syncthreads()` between the two functions ends it.",
        },
        ..kernel("flashinfer/paged_prefill_short", &PREFILL, "short", FILE, |b| prefill(b, &[CAUSAL, NHD]))
    },
    Kernel {
        expected: Expected::Wrong {
            explanation: "the sinks are dropped",
            why: "`BatchPrefillWithPagedKVCacheWrapper.run` has a parameter `sinks` and documents it. With the backend \
                  `fa2`, which `auto` gives on SM12x, `paged_run` in `prefill.py` passes 29 arguments to the kernel's host \
                  function and `sinks` is none of them; nothing is raised. The wrapper for decoding with tensor cores \
                  calls the same function. The case is what it launches. `BatchAttentionWithAttentionSinkWrapper` has \
                  the kernel with sinks (`flashinfer/attention_sink`).",
            source: sinks_are_not_passed,
        },
        ..kernel("flashinfer/paged_prefill_sinks", &PREFILL, "sinks", FILE, |b| {
            prefill(b, &[CAUSAL, NHD, WHOLE])
        })
    },
    kernel("flashinfer/paged_decode", &DECODE, "whole", "attention/decode.cuh", |b| decode(b, &[HND, WHOLE])),
    kernel("flashinfer/paged_decode_split", &DECODE, "split", "attention/decode.cuh", |b| decode(b, &[NHD])),
    kernel("flashinfer/attention_sink", &SINK, "window", "jit/attention/variants.py", |b| {
        prefill(b, &[CAUSAL, NHD, WHOLE, ("window_left", "19"), ("lse_sink", "included")])
    }),
    kernel("flashinfer/attention_sink_split", &SINK, "split", "jit/attention/variants.py", |b| {
        prefill(b, &[CAUSAL, NHD, ("lse_sink", "included")])
    }),
    kernel("flashinfer/nvfp4_prefill", &NVFP4, "nhd", FILE, |b| nvfp4(b, 128, &[NHD, LINEAR])),
    kernel("flashinfer/nvfp4_prefill_hnd", &NVFP4, "hnd", FILE, |b| nvfp4(b, 128, &[HND, LINEAR])),
    kernel("flashinfer/nvfp4_prefill_swizzled", &NVFP4_SWIZZLED, "nhd", FILE, |b| {
        nvfp4(b, 128, &[NHD, ("v_scale_layout", "swizzled")])
    }),
    kernel("flashinfer/nvfp4_prefill_narrow", &NVFP4_NARROW, "hnd", FILE, |b| nvfp4(b, 64, &[HND, LINEAR])),
    Kernel {
        expected: Expected::Defect {
            rule: "race",
            why: "More than 64 pairs of row and head, heads of 64 elements: a tile has 64 keys, and their scales of values are 256 \
                  bytes. All 128 threads copy four (`page_produce_kv_sf`); `pred_load_32b` guards the source of the second \
                  half, not its target, and `cp.async` with a source of 0 bytes writes zeros. They go where the queries lie, \
                  which are still on their way: the first two rows of a tile may be zero, and are behind the first 64 keys. \
                  With 64 pairs or fewer (`flashinfer/nvfp4_prefill_narrow`) or with 128 elements the sizes are equal. \
                  FlashInfer's issue 4748 has the wrong results, its pull request 5266 the cause.",
        },
        ..kernel("flashinfer/nvfp4_prefill_narrow_long", &NVFP4_NARROW, "long", FILE, |b| {
            nvfp4(b, 64, &[HND, LINEAR])
        })
    },
    Kernel {
        expected: Expected::Races {
            kinds: MERGED,
            right: true,
            why: "The race of `flashinfer/paged_prefill_short`.",
        },
        ..kernel("flashinfer/nvfp4_prefill_narrow_short", &NVFP4_NARROW, "short", FILE, |b| {
            nvfp4(b, 64, &[HND, LINEAR])
        })
    },
];

/// The race of results that several warps add up and the first stores, from either side.
const MERGED: &[&str] = &[
    "writes shared address … read with no ordering … stmatrix",
    "reads shared address … wrote with no ordering … ld.shared",
];

const LINEAR: (&str, &str) = ("v_scale_layout", "linear");

type Metadata<'a> = &'a [(&'static str, &'static str)];

/// Rows of four heads of 64 elements in fp16; the tensor cores multiply rounded weights.
fn prefill(buffers: &Buffers, metadata: Metadata<'_>) -> Result<f64, String> {
    paged(buffers, 64, Dtype::F16, metadata)
}

/// The same, one row of each request; weights stay in binary32.
fn decode(buffers: &Buffers, metadata: Metadata<'_>) -> Result<f64, String> {
    paged(buffers, 64, Dtype::F16, &[metadata, &[CAUSAL, ("weights", "f32")]].concat())
}

/// Rows of four heads in bf16 over a cache in NVFP4, without global factors.
fn nvfp4(buffers: &Buffers, width: usize, metadata: Metadata<'_>) -> Result<f64, String> {
    let declared =
        [CAUSAL, WHOLE, ("kv_format", "nvfp4"), ("k_scale_layout", "linear"), ("sm_scale", "0.125")];
    paged(buffers, width, Dtype::BF16, &[metadata, &declared].concat())
}

/// Requests over a cache of pages of 16 slots and two heads of keys, four of queries, with logarithms of base 2.
fn paged(buffers: &Buffers, width: usize, element: Dtype, metadata: Metadata<'_>) -> Result<f64, String> {
    let count = |name: &str, bytes: usize| buffers.bytes_before(name).len() / bytes;
    let (requests, rows) = (count("kv_last_page_len", 4), count("q", 2 * 4 * width));
    let quantized = metadata.contains(&("kv_format", "nvfp4"));
    let (stored, bytes) = if quantized { (Dtype::U8, width / 2) } else { (element, 2 * width) };
    let pages = count("k_cache", 16 * 2 * bytes);
    let cache = |last: usize| match metadata.contains(&HND) {
        true => vec![pages, 2, 16, last],
        false => vec![pages, 16, 2, last],
    };
    let of_slot = if quantized { bytes } else { width };
    let mut tensors = vec![
        tensor("q", element, vec![rows, 4, width]),
        tensor("k_cache", stored, cache(of_slot)),
        tensor("v_cache", stored, cache(of_slot)),
        tensor("kv_indptr", Dtype::I32, vec![requests + 1]),
        tensor("kv_indices", Dtype::I32, vec![count("kv_indices", 4)]),
        tensor("kv_last_page_len", Dtype::I32, vec![requests]),
        tensor("o", element, vec![rows, 4, width]),
        tensor("lse", Dtype::F32, vec![rows, 4]),
    ];
    if quantized {
        tensors.extend(["k_scales", "v_scales"].map(|name| tensor(name, Dtype::U8, cache(width / 16))));
    }
    // Decode has a row for each request, and prefill says how many.
    let optional =
        [("qo_indptr", Dtype::I32, vec![requests + 1]), ("sinks", Dtype::F32, vec![count("sinks", 4)])];
    let present = optional.into_iter().filter(|(name, ..)| count(name, 1) > 0);
    tensors.extend(present.map(|(name, element, shape)| tensor(name, element, shape)));
    let declared = [("kernel", "fa2"), ("lse_base", "2"), ("lse_layout", "rows_heads")];
    judged(buffers, &tensors, &[metadata, &declared].concat())
}

/// `paged_run` receives sinks and, for FA2, passes them to no kernel.
fn sinks_are_not_passed(root: &Path) -> Result<(), String> {
    let path = root.join("flashinfer/prefill.py");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let between = |from: &str, to: &str| {
        let (_, behind) = text.split_once(from).ok_or_else(|| format!("prefill.py has no `{from}`"))?;
        Ok::<&str, String>(behind.split(to).next().unwrap_or(behind))
    };
    let received = between("    def paged_run(", ") -> None:")?;
    let passed = between("            routed_paged_run_func(", "            )\n")?;
    match (received.contains("sinks:"), passed.contains("sinks")) {
        (true, false) => Ok(()),
        other => Err(format!("`paged_run` receives and passes sinks: {other:?}")),
    }
}
