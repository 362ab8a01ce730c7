//! Files whose tensors or metadata contradict one another are refused with tensor, index and remedy.

use pipeline::attention::dump;
use safetensors::tensor::Dtype;

use super::kernel::{File, Knobs, Kv, World, file, run};

/// Words of the message, and the change of the file that leads to it.
type Contradiction = (&'static str, fn(&mut File));

#[test]
fn contradictions_are_named() {
    let world = World::new(11);
    let stored = run(&world, &Knobs::right(&world));
    let cases: &[Contradiction] = &[
        ("`q` is missing", |f| f.tensors.retain(|(name, ..)| name != "q")),
        ("`v_cache` is missing: `k_cache` needs the values", |f| {
            f.tensors.retain(|(name, ..)| name != "v_cache")
        }),
        ("no tensor `queries`; rename it", |f| f.f32("queries", &[1], &[0.0])),
        ("no metadata `softmax`", |f| f.say("softmax", 1)),
        ("`out` and `output` name the same thing", |f| f.f32("output", &[1], &[0.0])),
        ("`kv_last_page_len[1]` is 17; a page has 16 slots", |f| f.i32("kv_last_page_len", &[6, 17, 2])),
        ("`kv_last_page_len[0]` is 0; a page has 16 slots", |f| f.i32("kv_last_page_len", &[0, 9, 2])),
        ("`kv_last_page_len` is [2]; expected 3 elements", |f| f.i32("kv_last_page_len", &[6, 9])),
        ("`kv_indptr[2]` is 4; it must not be below its predecessor 8", |f| {
            f.i32("kv_indptr", &[0, 8, 4, 12])
        }),
        ("`kv_indptr[3]` is 99; there are 12 indices of pages", |f| f.i32("kv_indptr", &[0, 5, 8, 99])),
        ("`qo_indptr[3]` is 90; there are 24 rows of queries", |f| f.i32("qo_indptr", &[0, 5, 6, 90])),
        ("`qo_indptr` is [3]; expected 4 elements", |f| f.i32("qo_indptr", &[0, 5, 24])),
        ("`kv_indices[3]` is 4000; the cache has 15 pages", |f| {
            f.i32("kv_indices", &[0, 1, 2, 4000, 4, 5, 6, 7, 8, 9, 10, 11]);
        }),
        ("`sinks` is [3]; expected one number for each of 8 heads", |f| f.f32("sinks", &[3], &[0.0; 3])),
        ("`out` is [24, 8, 32]; expected [24, 8, 64]", |f| f.bf16("out", &[24, 8, 32], &[0.0; 24 * 8 * 32])),
        ("`lse` is [24, 4]", |f| f.f32("lse", &[24, 4], &[0.0; 96])),
        ("`q` is [24, 7, 64]; expected a number of heads that 2 heads of keys divide", |f| {
            f.bf16("q", &[24, 7, 64], &[0.0; 24 * 7 * 64]);
        }),
        ("`sinks[2]` is NaN; it must be a number, or minus infinity", |f| {
            f.f32("sinks", &[8], &[0.0, 0.0, f32::NAN, 0.0, 0.0, 0.0, 0.0, 0.0]);
        }),
        ("`v_scale[0]` is 0; a scale is a positive number", |f| f.f32("v_scale", &[1], &[0.0])),
        ("`k_scale[0]` is inf; a scale is a positive number", |f| f.f32("k_scale", &[1], &[f32::INFINITY])),
        ("`qo_indptr[0]` is 1; it must be 0: what is before it would not be judged", |f| {
            f.i32("qo_indptr", &[1, 5, 6, 24]);
        }),
        ("`kv_indices` and `block_table` name the same thing", |f| f.i32("block_table", &[0])),
        ("`k` and `k_cache` name the same thing", |f| f.f32("k", &[1], &[0.0])),
        ("`page_size` is missing: `k_strides` needs metadata page_size", |f| f.say("k_strides", "64,64,64")),
        ("metadata `k_strides` is `18446744073709551615,1,1`", |f| {
            f.say("page_size", 16);
            f.say("kv_heads", 2);
            f.say("k_strides", "18446744073709551615,1,1");
        }),
        ("metadata `window` is `0`; expected at least the row's own key", |f| f.say("window", 0)),
        ("metadata `tile` is `0`; expected at least one key", |f| f.say("tile", 0)),
        ("metadata `lse_base` is `10`; expected one of 2, e", |f| f.say("lse_base", 10)),
        ("metadata `kv_layout` is `HNDX`; expected one of NHD, HND", |f| f.say("kv_layout", "HNDX")),
        ("metadata `sm_scale` is `0`; expected a positive number", |f| f.say("sm_scale", 0)),
        ("metadata `window_left` is `-3`", |f| f.say("window_left", -3)),
        ("metadata `lse_sink` is `excluded`; expected included: there is no tensor", |f| {
            f.say("lse_sink", "excluded")
        }),
        ("`mask` and `causal` name the same thing", |f| f.say("mask", "causal")),
        ("`custom_mask` is missing: metadata mask is custom", |f| {
            f.metadata.remove("causal");
            f.say("mask", "custom");
        }),
        ("`custom_mask` is [4]; expected 1291 elements", |f| {
            f.put("custom_mask", Dtype::U8, &[4], vec![0; 4])
        }),
        ("`k_cache` is U8; expected bytes whose type is declared", |f| {
            f.put("k_cache", Dtype::U8, &[15, 16, 2, 64], vec![0; 15 * 16 * 2 * 64]);
        }),
        ("8 slots and 2 heads by the metadata", |f| f.say("page_size", 8)),
        ("metadata `v_order` is `columns`; expected rows: columns are of NVFP4 caches", |f| {
            f.bf16("v_cache", &[15, 2, 64, 8], &[0.0; 15 * 2 * 64 * 8]);
            f.say("v_order", "columns");
        }),
        ("`v_cache` is [15, 2, 16, 64]; expected [15, 2, elements, 8], as v_order is columns", |f| {
            f.bf16("v_cache", &[15, 2, 16, 64], &[0.0; 15 * 2 * 16 * 64]);
            f.say("v_order", "columns");
        }),
        ("metadata `v_order` is `cols`; expected one of rows, columns", |f| f.say("v_order", "cols")),
        ("metadata `split` is `64`; expected absent", |f| f.say("split", 64)),
        ("metadata `factor` is `argument`; expected tile_maximum or running_maximum", |f| {
            f.say("kernel", "prefill_fp4");
            f.say("factor", "argument");
        }),
    ];
    for (words, change) in cases {
        let mut file = file(&world, &stored);
        change(&mut file);
        let error = dump::parse(&file.bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(dump::parse(b"no file").unwrap_err().to_string().contains("not a safetensors file"));
}

#[test]
fn an_nvfp4_cache_needs_its_scales() {
    let world = World { kv: Kv::Nvfp4, ..World::new(12) };
    let mut file = file(&world, &run(&world, &Knobs::right(&world)));
    file.put("v_scales", Dtype::U8, &[5], vec![0; 5]);
    let error = dump::parse(&file.bytes()).unwrap_err().to_string();
    assert!(error.contains("`v_scales` is [5]; expected 4 bytes for each of 2 heads"), "{error}");
    file.tensors.retain(|(name, ..)| name != "v_scales");
    let error = dump::parse(&file.bytes()).unwrap_err().to_string();
    assert!(error.contains("`v_scales` is missing: the ue4m3 scales of the values' blocks"), "{error}");
}
