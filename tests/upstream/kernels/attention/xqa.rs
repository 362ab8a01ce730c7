//! FlashInfer's XQA, as its host function launches it: caches in bf16, fp8 and NVFP4, windows, sinks, drafts, several blocks for a request.

use safetensors::Dtype;

use super::{kernel, source};
use crate::attention_dump::{judged, stored as in_buffer, tensor};
use crate::compile::Source;
use crate::judge::{Expected, Kernel};
use crate::packages::FLASHINFER_0_6_14;
use crate::replay::Buffers;

/// Options of every build for pages of 16 slots, 64 elements and groups of 4 heads in bf16, as FlashInfer gives them, and these.
macro_rules! options {
    ($($option:literal),+) => {
        &[
            "--expt-relaxed-constexpr",
            "-DNDEBUG=1", "-DBEAM_WIDTH=1", "-DUSE_INPUT_KV=0", "-DUSE_CUSTOM_BARRIER=1", "-DTOKENS_PER_PAGE=16",
            "-DHEAD_ELEMS=64", "-DHEAD_GRP_SIZE=4", "-DINPUT_FP16=0", "-DLOW_PREC_OUTPUT=0", $($option),+
        ]
    };
}

const fn xqa(options: &'static [&'static str]) -> Source {
    Source { includes: &["flashinfer/data/csrc"], ..source("xqa", options) }
}

static BF16: Source = xqa(options!("-DCACHE_ELEM_ENUM=0", "-DSLIDING_WINDOW=0", "-DSPEC_DEC=0"));
static WINDOW: Source = xqa(options!("-DCACHE_ELEM_ENUM=0", "-DSLIDING_WINDOW=1", "-DSPEC_DEC=0"));
static FP8: Source = xqa(options!("-DCACHE_ELEM_ENUM=2", "-DSLIDING_WINDOW=0", "-DSPEC_DEC=0"));
static NVFP4: Source = xqa(options!("-DCACHE_ELEM_ENUM=3", "-DSLIDING_WINDOW=0", "-DSPEC_DEC=0"));
static DRAFTS: Source =
    xqa(options!("-DCACHE_ELEM_ENUM=0", "-DSLIDING_WINDOW=0", "-DSPEC_DEC=1", "-DIS_SPEC_DEC_TREE=0"));
static DRAFTS_WINDOW: Source =
    xqa(options!("-DCACHE_ELEM_ENUM=0", "-DSLIDING_WINDOW=1", "-DSPEC_DEC=1", "-DIS_SPEC_DEC_TREE=0"));
static OLDER: Source = Source { package: Some((&FLASHINFER_0_6_14, "flashinfer-0.6.14")), ..WINDOW };

const NHD: (&str, &str) = ("kv_layout", "NHD");
const HND: (&str, &str) = ("kv_layout", "HND");

pub(crate) static KERNELS: &[Kernel] = &[
    case("flashinfer/xqa", &BF16, "plain", |b| judge(b, 1, &[NHD, WHOLE])),
    case("flashinfer/xqa_hnd_sinks", &BF16, "hnd", |b| judge(b, 1, &[HND, WHOLE])),
    case("flashinfer/xqa_window", &WINDOW, "window", |b| judge(b, 1, &[NHD, WHOLE, ("window", "40")])),
    case("flashinfer/xqa_fp8", &FP8, "plain", |b| judge(b, 1, &[NHD, WHOLE, ("kv_format", "fp8_e4m3")])),
    case("flashinfer/xqa_nvfp4", &NVFP4, "hnd", |b| judge(b, 1, &[HND, WHOLE, ("kv_format", "nvfp4")])),
    case("flashinfer/xqa_drafts", &DRAFTS, "drafts", |b| judge(b, 4, &[NHD, WHOLE, ("mask", "custom")])),
    case("flashinfer/xqa_drafts_window", &DRAFTS_WINDOW, "drafts_window", |b| {
        judge(b, 4, &[NHD, WHOLE, ("mask", "custom"), ("window", "30")])
    }),
    Kernel {
        expected: Expected::Races {
            kinds: &[REUSED, BEHIND_WRITTEN, BEHIND_READ],
            right: true,
            why: LAST_COPY_WHY,
        },
        ..case("flashinfer/xqa_blocks", &BF16, "blocks", |b| judge(b, 1, &[NHD]))
    },
    Kernel {
        expected: Expected::Races {
            kinds: &[REUSED, BEHIND_WRITTEN, BEHIND_READ],
            right: false,
            why: "Two blocks share a request and head, and the window leaves no key to the second. Its first warps load the \
                  queries and a tile of keys and end; nothing waits for the keys, and nothing tells the other warps of the \
                  queries. Those reuse that memory at once, for their results and, in the block that ends last, for the \
                  results of both. In the emulator a copy that lands late changes the output. The same race as in \
                  `flashinfer/xqa`; with a wait for all copies in front of every barrier and at the end the case is right.",
        },
        ..case("flashinfer/xqa_blocks_window", &WINDOW, "blocks_window", |b| {
            judge(b, 1, &[NHD, ("window", "30")])
        })
    },
    Kernel {
        expected: Expected::Races {
            kinds: &[OUTPUT, REUSED, BEHIND_WRITTEN, BEHIND_READ],
            right: false,
            why: "Before FlashInfer's pull request 4161 every block of a request and head stores the output \
                  (`copyOutputToGlobalMem` behind `if (isLastCta)`), not only the last, which has merged the results: their \
                  stores race, and the result of a part may remain. 0.7.2 stores inside. The fences that this pull request \
                  adds for GB10, between the results of a block and its count (`__threadfence`), order what is ordered \
                  without them: all warps meet at a barrier in front of `atom.acq_rel.gpu`, and no race is found between \
                  the results and the last block in either version.",
        },
        ..case("flashinfer-0.6.14/xqa_blocks_window", &OLDER, "blocks_window", |b| {
            judge(b, 1, &[NHD, ("window", "30")])
        })
    },
];

const WHOLE: (&str, &str) = ("partials", "none");

/// Kinds of races: of the last copy; in shared memory that is used again; for results of another request's blocks, which are loaded and
/// not used; for the output.
const LAST_COPY: &str = "and no thread has waited for";
const REUSED: &str = "shared address";
const BEHIND_WRITTEN: &str =
    "a write of global address … read with no ordering in between: that was an asynchronous copy";
const BEHIND_READ: &str = "a read of global address … wrote with no ordering … cp.async";
const OUTPUT: &str = "a write of global address … wrote with no ordering … st.global.v4";

const LAST_COPY_WHY: &str = "The warps that multiply queries and keys load the next tile of keys while they compute \
                             (`loadKTilePart`), also behind the last one, where the copies write zeros, and end with \
                             `ldgsts::waitGroup<1>`: nobody waits for the last group. The other warps then store the \
                             output over it (`mergeAndSaveOutTile`; `PostProcSMem` begins where queries and keys lie). \
                             `waitGroup<0>` behind the loop ends it. With several blocks for a request, groups of warps \
                             that have no block to merge still load one (`loadBufAsync(warpGrpIdx, …)`): the results of \
                             another request or head, which they do not use.";

/// A case with the race that all have.
const fn case(
    name: &'static str,
    source: &'static Source,
    case: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    let expected = Expected::Races { kinds: &[LAST_COPY], right: true, why: LAST_COPY_WHY };
    Kernel { expected, ..kernel(name, source, case, "csrc/xqa/mha.cu", reference) }
}

/// Elements of a head, slots of a page, heads of keys and of queries.
const WIDTH: usize = 64;
const PAGE: usize = 16;
const HEADS: [usize; 2] = [2, 8];

/// Requests of so many rows.
fn judge(buffers: &Buffers, drafts: usize, metadata: &[(&'static str, &'static str)]) -> Result<f64, String> {
    let count = |name: &str, bytes: usize| buffers.bytes_before(name).len() / bytes;
    let [kv_heads, heads] = HEADS;
    let requests = count("seq_lens", 4);
    let (stored, last, bytes) = if metadata.contains(&("kv_format", "nvfp4")) {
        (Dtype::U8, WIDTH / 2, WIDTH / 2)
    } else if metadata.contains(&("kv_format", "fp8_e4m3")) {
        (Dtype::U8, WIDTH, WIDTH)
    } else {
        (Dtype::BF16, WIDTH, 2 * WIDTH)
    };
    let pages = count("k_cache", PAGE * kv_heads * bytes);
    let cache = |last: usize| match metadata.contains(&HND) {
        true => vec![pages, kv_heads, PAGE, last],
        false => vec![pages, PAGE, kv_heads, last],
    };
    let rows = vec![requests * drafts, heads, WIDTH];
    let mut tensors = vec![
        tensor("q", Dtype::BF16, rows.clone()),
        tensor("k_cache", stored, cache(last)),
        tensor("v_cache", stored, cache(last)),
        tensor("block_table", Dtype::I32, vec![requests, count("block_table", 4 * requests)]),
        tensor("seq_lens", Dtype::I32, vec![requests]),
        tensor("o", Dtype::BF16, rows),
    ];
    let quantized = stored == Dtype::U8 && last == WIDTH / 2;
    if quantized {
        tensors.extend(["k_scales", "v_scales"].map(|name| tensor(name, Dtype::U8, cache(WIDTH / 16))));
    }
    if stored == Dtype::U8 {
        // One factor for keys and values.
        let names = if quantized { ["k_global", "v_global"] } else { ["k_scale", "v_scale"] };
        let one = |name| in_buffer(name, Dtype::F32, vec![1], "kv_scale");
        tensors.extend(names.map(one));
    }
    if count("sinks", 4) > 0 {
        tensors.push(tensor("sinks", Dtype::F32, vec![heads]));
    }
    if drafts > 1 {
        tensors.push(tensor("draft_mask", Dtype::U32, vec![requests * drafts, 1]));
    }
    let mut declared = vec![("kernel", "xqa"), ("sm_scale", "0.125")];
    if quantized {
        declared.extend([("k_scale_layout", "linear"), ("v_scale_layout", "linear")]);
    }
    if drafts == 1 {
        declared.push(("causal", "true"));
    }
    judged(buffers, &tensors, &[metadata, &declared].concat())
}
