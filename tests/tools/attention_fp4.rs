//! Planted faults of the prefill in NVFP4, each caught at its stage, legal changes, none of which raises an alarm, and what its contract
//! declares. NVRTC compiles the kernels.

use std::process::Command;

use super::attention::{Change, accepted, caught, gate_on};
use super::desk::{Desk, both_streams};
use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    ("faults_of_quantized_queries_are_caught", &[Need::Nvrtc], faults_of_quantized_queries_are_caught),
    ("faults_of_scores_are_caught", &[Need::Nvrtc], faults_of_scores_are_caught),
    ("faults_of_weights_are_caught", &[Need::Nvrtc], faults_of_weights_are_caught),
    ("faults_of_values_are_caught", &[Need::Nvrtc], faults_of_values_are_caught),
    ("faults_of_the_products_are_caught", &[Need::Nvrtc], faults_of_the_products_are_caught),
    ("faults_of_columns_are_explained", &[Need::Nvrtc], faults_of_columns_are_explained),
    ("a_dump_of_columns_is_judged", &[Need::Nvrtc], a_dump_of_columns_is_judged),
    ("legal_changes_raise_no_alarm", &[Need::Nvrtc], legal_changes_raise_no_alarm),
    (
        "weights_are_judged_by_the_declared_maximum",
        &[Need::Nvrtc],
        weights_are_judged_by_the_declared_maximum,
    ),
    ("a_header_s_mistake_names_its_line", &[Need::Nvrtc], a_headers_mistake_names_its_line),
];

const PORTABLE: &str = "prefill_fp4 d64 portable";
const NATIVE: &str = "prefill_fp4 d64 native";
const WIDE: &str = "prefill_fp4 d128 portable";
const REAL: &str = "attention-real";
const EVERY_KEY: &str = "attention-every-key";
const TILES: &str = "attention-fp4-tiles";
const EQUAL: &str = "attention-fp4-equal";
const TREE: &str = "attention-fp4-tree";

fn faults_of_quantized_queries_are_caught() {
    caught(
        "quantize_queries.cu",
        "queries",
        &[
            (REAL, PORTABLE, "__fmul_rn(6.0f, factor)", "__fmul_rn(7.0f, factor)"),
            (REAL, PORTABLE, "__fmul_rn(6.0f, factor)", "6.0f"),
            (REAL, PORTABLE, "__fmul_rn(from_ue4m3(scale), factor)", "from_ue4m3(scale)"),
            (REAL, PORTABLE, "fmaxf(most, fabsf(x[i]))", "fmaxf(most, x[i])"),
            (REAL, PORTABLE, "<< i % 8 * 4;", "<< (i ^ 1) % 8 * 4;"),
            (REAL, PORTABLE, "query_scales[at] = ", "query_scales[at ^ 1] = "),
            (REAL, PORTABLE, "unpack(two >> i % 2 * 16 & 0xFFFF)", "unpack(two & 0xFFFF)"),
        ],
    );
    caught(
        "block_scaled.cuh",
        "queries",
        &[
            (EVERY_KEY, PORTABLE, "(a > 0.25f)", "(a >= 0.25f)"),
            (EVERY_KEY, PORTABLE, "(a >= 0.75f)", "(a > 0.75f)"),
            (EVERY_KEY, PORTABLE, "(a > 5.0f)", "(a >= 5.0f)"),
            (EVERY_KEY, PORTABLE, "code | (x < 0.0f ? 8 : 0)", "code"),
            (REAL, PORTABLE, "bits + 0x7FFFF + (bits >> 20 & 1) >> 20", "bits >> 20"),
        ],
    );
}

fn faults_of_scores_are_caught() {
    caught(
        "prefill_fp4.cu",
        "partials",
        &[
            // The order of keys that the second mma needs, and that of the mask.
            (REAL, PORTABLE, "u32 key = n / 4 * 32 + g / 2 * 8 + n % 4 * 2 + g % 2;", "u32 key = n * 8 + g;"),
            (
                REAL,
                PORTABLE,
                "(i / 16 * 32 + lane % 4 * 8 + i / 4 % 4 * 2 + i % 2)",
                "(i / 4 * 8 + lane % 4 * 2 + i % 2)",
            ),
            // Masks, windows, splits.
            (
                REAL,
                PORTABLE,
                "max(range[h].first, begin), min(range[h].end, end)}",
                "max(range[h].first, begin), end}",
            ),
            (EQUAL, PORTABLE, "{max(range[h].first, begin), ", "{begin, "),
            (TILES, WIDE, "{max(range[h].first, begin), ", "{range[h].first, "),
            (EQUAL, PORTABLE, "(i32)((split + 1) * chunk));\n    fetch", "length);\n    fetch"),
            (
                TREE,
                PORTABLE,
                "u32 seen = seen_scores<SCORES>(p, ",
                "Problem all = p; all.custom = 0; u32 seen = seen_scores<SCORES>(all, ",
            ),
            (
                TREE,
                PORTABLE,
                "length, row_of, range, key_of",
                "length, {row_of[0], row_of[0]}, range, key_of",
            ),
            (TILES, WIDE, "slopes[kv_head * group + of % group]", "slopes[of % group]"),
            (TILES, WIDE, "slope, position, key_of", "slope, {0, 0}, key_of"),
            // Pages, strides, heads and scales of keys.
            (
                EVERY_KEY,
                PORTABLE,
                "p.table[request * p.most_pages + (u32)key / p.page]",
                "p.table[request * p.most_pages]",
            ),
            (
                TILES,
                WIDE,
                "p.keys.codes + (u64)page * p.keys.page",
                "p.keys.codes + (u64)page * (p.keys.page & ~127u)",
            ),
            (EVERY_KEY, PORTABLE, "slot * p.keys.slot + kv_head", "slot * p.keys.head + kv_head"),
            (
                TREE,
                PORTABLE,
                "scale_at(p.keys, page, slot, kv_head, block)",
                "scale_at(p.values, page, slot, kv_head, block)",
            ),
            (
                TREE,
                PORTABLE,
                "key_scale_slot, key_scale_head, key_swizzled}",
                "key_scale_slot, key_scale_head, 0}",
            ),
            (
                EVERY_KEY,
                PORTABLE,
                "kv_head * group + of % group;\n            eight",
                "of % group;\n            eight",
            ),
            (REAL, PORTABLE, "(row + t % 2 * 8) * SCALES", "row * SCALES"),
            (
                REAL,
                PORTABLE,
                "word(from + 8 * ROW), word(from + 16)",
                "word(from + 16), word(from + 8 * ROW)",
            ),
            (REAL, WIDE, "s[n][i] + products[i]", "products[i]"),
            (REAL, WIDE, "key * SCALES + k * 4", "key * SCALES"),
            // What the rules of PTX find.
            (TILES, WIDE, "        __syncthreads();\n        float s[", "        float s["),
            (
                TILES,
                WIDE,
                "        // Everything of this tile is read before the next one is copied.\n        __syncthreads();",
                "",
            ),
        ],
    );
}

fn faults_of_weights_are_caught() {
    caught(
        "prefill_fp4.cu",
        "partials",
        &[
            // The first level.
            (TILES, WIDE, "fmaf(products[i], factor[i / 2],", "fmaf(products[i], 1.0f,"),
            (TILES, WIDE, "out[d][i] * before[i / 2]", "out[d][i]"),
            (TILES, WIDE, "fmaf(total, factor[h], sum[h] * before[h])", "fmaf(total, factor[h], sum[h])"),
            (
                TILES,
                WIDE,
                "fmaf(total, factor[h], sum[h] * before[h])",
                "fmaf(total, 1.0f, sum[h] * before[h])",
            ),
            (TILES, WIDE, "shift = best[h] == -INFINITE ? 0.0f : best[h];", "shift = most[h];"),
            (REAL, PORTABLE, "#define LARGEST 2688.0f", "#define LARGEST 448.0f"),
            (REAL, PORTABLE, "#define LARGEST 2688.0f", "#define LARGEST 1.0f"),
            (REAL, PORTABLE, "log2_approx(__fdiv_rn(sum[h], LARGEST))", "log2_approx(sum[h])"),
            (REAL, PORTABLE, "most[h] + log2_approx", "log2_approx"),
            // The second level.
            (REAL, PORTABLE, "to_ue4m3(__fdiv_rn(most, 6.0f))", "to_ue4m3(most)"),
            (REAL, PORTABLE, "to_ue4m3(__fdiv_rn(most, 6.0f))", "to_ue4m3(__fdiv_rn(most, 4.0f))"),
            (REAL, PORTABLE, "most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFF, most, 1));\n", "\n"),
            (
                REAL,
                PORTABLE,
                "t < 2 ? scale | other << 8 : other | scale << 8",
                "t < 2 ? other | scale << 8 : scale | other << 8",
            ),
            (REAL, PORTABLE, "<< half * 16;", "<< (1 - half) * 16;"),
            (REAL, PORTABLE, "if (t % 2 == h)", "if (t % 2 != h)"),
            (REAL, PORTABLE, "[h * 2 + i % 2] * inverse)", "[h * 2 + i % 2])"),
            (REAL, PORTABLE, "weights.codes[half * 2 + h]", "weights.codes[h * 2 + half]"),
            // Sums and maxima of a row.
            (REAL, PORTABLE, "        sum[h] += __shfl_xor_sync(0xFFFFFFFF, sum[h], 2);\n", ""),
            (
                REAL,
                PORTABLE,
                "        sum[h] += __shfl_xor_sync(0xFFFFFFFF, sum[h], 2);\n",
                "        sum[h] += __shfl_xor_sync(0xFFFFFFFF, sum[h], 2);\n        sum[h] += __shfl_xor_sync(0xFFFFFFFF, sum[h], 4);\n",
            ),
            (
                REAL,
                PORTABLE,
                "            best[h] = fmaxf(best[h], __shfl_xor_sync(0xFFFFFFFF, best[h], 2));\n",
                "",
            ),
        ],
    );
}

fn faults_of_values_are_caught() {
    caught(
        "prefill_fp4.cu",
        "partials",
        &[
            (TILES, WIDE, "(d * p.page + slot) / 2)", "d * p.page / 2)"),
            (TILES, WIDE, "(d * p.page + slot) / 16]", "d * p.page / 16]"),
            // Values whose elements are beside one another, as the other kernels have them.
            (TILES, WIDE, "(d * p.page + slot) / 2)", "(slot / 16 * HEAD + d) * 8)"),
            (EVERY_KEY, PORTABLE, "kv_head * p.values.head + ", ""),
            (EVERY_KEY, PORTABLE, "kv_head * p.values.scale_head + ", ""),
            (
                EVERY_KEY,
                PORTABLE,
                "p.values.codes + (u64)page * p.values.page",
                "p.keys.codes + (u64)page * p.keys.page",
            ),
            (
                EVERY_KEY,
                PORTABLE,
                "p.values.scales[(u64)page * p.values.scale_page",
                "p.keys.scales[(u64)page * p.keys.scale_page",
            ),
            (TILES, WIDE, "if (key + 16 > begin && key < end) {", "if (key < end) {"),
            (TILES, WIDE, "tile = begin / TILE_N * TILE_N;", "tile = begin;"),
            (
                EVERY_KEY,
                PORTABLE,
                "b[2] = {word(at), word(at + 16)};\n            float products[4];\n            multiply(products, weights",
                "b[2] = {word(at + 16), word(at)};\n            float products[4];\n            multiply(products, weights",
            ),
            (EVERY_KEY, PORTABLE, "column * COLUMN_SCALES", "(column ^ 1) * COLUMN_SCALES"),
            (
                EVERY_KEY,
                PORTABLE,
                "d * 8 + lane % 4 * 2) = make_float2",
                "(d ^ 1) * 8 + lane % 4 * 2) = make_float2",
            ),
            (EVERY_KEY, PORTABLE, "= make_float2(low, high)", "= make_float2(high, low)"),
            (
                REAL,
                PORTABLE,
                "kv_head * group + of % group, at =",
                "kv_head * group + (of + 1) % group, at =",
            ),
            (EVERY_KEY, PORTABLE, "at = head_of * splits + split;", "at = head_of * splits + split / 2;"),
        ],
    );
}

fn faults_of_the_products_are_caught() {
    caught(
        "block_scaled.cuh",
        "partials",
        &[
            (REAL, PORTABLE, "from = quad + group % 2 * 2 + t / 2", "from = quad + t / 2"),
            (REAL, PORTABLE, "half = group / 2,", "half = group % 2,"),
            (REAL, PORTABLE, "__shfl_sync(~0u, row_scales, quad + 1)", "__shfl_sync(~0u, row_scales, quad)"),
            (
                REAL,
                PORTABLE,
                "__shfl_sync(~0u, column_scales, t * 8 + 4)",
                "__shfl_sync(~0u, column_scales, t * 8)",
            ),
            (REAL, PORTABLE, "of_row[i / 2] >> group * 8", "of_row[i / 2]"),
            (
                REAL,
                PORTABLE,
                "widen(__shfl_sync(~0u, b[half], from) >> shift, y[0], y[1]);",
                "widen(__shfl_sync(~0u, b[half], from) >> shift, y[1], y[0]);",
            ),
            (REAL, PORTABLE, "(codes << 12 & 0x80008000) | ", ""),
            (REAL, NATIVE, "{%11}, {0, 0}, {%12}, {0, 0}", "{%12}, {0, 0}, {%11}, {0, 0}"),
            (REAL, NATIVE, "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2])", "\"r\"(a[0]), \"r\"(a[2]), \"r\"(a[1])"),
        ],
    );
}

/// A change of the kernel in a case and configuration, and what explains the wrong results.
type Explained = (&'static str, &'static str, &'static str, &'static str, &'static str);

fn faults_of_columns_are_explained() {
    let faults: &[Explained] = &[
        (
            EVERY_KEY,
            PORTABLE,
            "column * COLUMN_SCALES",
            "(column ^ 1) * COLUMN_SCALES",
            "of values, those of the other column of each pair",
        ),
        (EVERY_KEY, PORTABLE, "kv_head * p.values.scale_head + ", "", "of values, those of the first head"),
        (
            EVERY_KEY,
            PORTABLE,
            "kv_head * p.values.head + ",
            "",
            "of values, their own, for elements of the first head",
        ),
        (
            EVERY_KEY,
            PORTABLE,
            "scale_at(p.keys, page, slot, kv_head, block)",
            "scale_at(p.keys, page, slot, kv_head, block ^ 1)",
            "of keys, those of the other block of each pair",
        ),
        (
            TILES,
            WIDE,
            "(d * p.page + slot) / 16]",
            "d * p.page / 16]",
            "of values, those of the first block of the page",
        ),
    ];
    for (case, configuration, from, to, explanation) in faults {
        let output = gate_on("prefill_fp4.cu", case, configuration, &[(from, to)]);
        let all = both_streams(&output);
        assert_eq!(output.status.code(), Some(100), "{from}: {all}");
        assert!(all.contains(explanation), "{from}: {all}");
        // What right kernels do not read is not missed.
        assert!(!all.contains("never read by any launch"), "{all}");
    }
}

fn a_dump_of_columns_is_judged() {
    let desk = Desk::new();
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_sm121probe"))
            .args(args)
            .current_dir(desk.dir.path())
            .output()
            .unwrap()
    };
    for (case, configuration) in
        [(REAL, "prefill_fp4 d64 nvfp4 native"), (TREE, "prefill_fp4 d128 nvfp4 portable")]
    {
        let written = run(&[
            "attention",
            "--case",
            case,
            "--configuration",
            configuration,
            "--target",
            "sm_121a",
            "--dump",
            "dump",
        ]);
        assert_eq!(written.status.code(), Some(0), "{}", both_streams(&written));
        let judged = run(&["judge", "dump"]);
        let all = both_streams(&judged);
        assert_eq!(judged.status.code(), Some(0), "{all}");
        assert!(all.contains("output pass") && all.contains("lse pass"), "{all}");
    }
}

fn legal_changes_raise_no_alarm() {
    let changes: &[(&str, Change)] = &[
        ("prefill_fp4.cu", (REAL, PORTABLE, "__fdiv_rn(most, 6.0f)", "most * (1.0f / 6.0f)")),
        (
            "prefill_fp4.cu",
            (
                REAL,
                PORTABLE,
                "s[half * 4 + i / 2][h * 2 + i % 2] * inverse)",
                "scale == 0 ? 0.0f : __fdiv_rn(s[half * 4 + i / 2][h * 2 + i % 2], from_ue4m3(scale)))",
            ),
        ),
        (
            "prefill_fp4.cu",
            (REAL, PORTABLE, "__fdiv_rn(1.0f, from_ue4m3(scale))", "__frcp_rn(from_ue4m3(scale))"),
        ),
        (
            "prefill_fp4.cu",
            (TILES, WIDE, "exp2_approx(weight - shift) * LARGEST", "exp2f(weight - shift) * LARGEST"),
        ),
        (
            "prefill_fp4.cu",
            (TILES, WIDE, "__fdiv_rn(out[d][h * 2], sum[h])", "out[d][h * 2] * __frcp_rn(sum[h])"),
        ),
        (
            "prefill_fp4.cu",
            (
                TILES,
                WIDE,
                "fmaf(products[i], factor[i / 2], out[d][i] * before[i / 2])",
                "__fadd_rn(__fmul_rn(products[i], factor[i / 2]), __fmul_rn(out[d][i], before[i / 2]))",
            ),
        ),
        (
            "prefill_fp4.cu",
            (
                TILES,
                WIDE,
                "fmaf(total, factor[h], sum[h] * before[h])",
                "fmaf(sum[h], before[h], total * factor[h])",
            ),
        ),
        // Any maximum that rises gives the same result.
        (
            "prefill_fp4.cu",
            (
                TILES,
                WIDE,
                "new_most = fmaxf(most[h], best[h]), shift",
                "new_most = fmaxf(most[h], best[h]) + 0.5f, shift",
            ),
        ),
        (
            "prefill_fp4.cu",
            (
                REAL,
                WIDE,
                "k == 0 ? products[i] : s[n][i] + products[i]",
                "k == 0 ? products[i] : products[i] + s[n][i]",
            ),
        ),
        (
            "prefill_fp4.cu",
            (
                REAL,
                PORTABLE,
                "max(range[h].first, begin), min(range[h].end, end)",
                "max(begin, range[h].first), min(end, range[h].end)",
            ),
        ),
        ("block_scaled.cuh", (REAL, PORTABLE, "__ll2float_rz(sum[i])", "__ll2float_rn(sum[i])")),
        ("block_scaled.cuh", (REAL, NATIVE, "{%11}, {0, 0}, {%12}, {0, 0}", "{%11}, {0, 1}, {%12}, {0, 3}")),
        ("block_scaled.cuh", (REAL, PORTABLE, "(u32)rintf(x * 512.0f)", "__float2uint_rn(x * 512.0f)")),
        ("quantize_queries.cu", (REAL, PORTABLE, "__fdiv_rn(x[i], unit)", "x[i] * __frcp_rn(unit)")),
        (
            "quantize_queries.cu",
            (
                REAL,
                PORTABLE,
                "__fdiv_rn(most, __fmul_rn(6.0f, factor))",
                "__fdiv_rn(__fdiv_rn(most, factor), 6.0f)",
            ),
        ),
        (
            "quantize_queries.cu",
            (EVERY_KEY, PORTABLE, "fmaxf(most, fabsf(x[i]))", "fmaxf(fabsf(x[i]), most)"),
        ),
    ];
    accepted(changes);
}

/// The kernel with weights relative to the largest score so far, as FlashInfer's has them.
const RUNNING: [(&str, &str); 2] = [
    ("shift = best[h] == -INFINITE ? 0.0f : best[h];", "factor[h] = 1.0f;"),
    ("factor: tile_maximum", "factor: running_maximum"),
];

fn weights_are_judged_by_the_declared_maximum() {
    for (changes, code) in [(&RUNNING[..], 0), (&RUNNING[..1], 100), (&RUNNING[1..], 100)] {
        let output = gate_on("prefill_fp4.cu", TILES, WIDE, changes);
        let all = both_streams(&output);
        assert_eq!(output.status.code(), Some(code), "{changes:?}: {all}");
        assert!(code == 0 || all.contains("fail at partials"), "{all}");
    }
    // A declared order of sums has the tighter bound; without it more is allowed, not less.
    let output = gate_on("prefill_fp4.cu", TILES, WIDE, &[("k_order: ascending, ", "")]);
    assert_eq!(output.status.code(), Some(0), "{}", both_streams(&output));
}

fn a_headers_mistake_names_its_line() {
    for (file, from, to, words) in [
        (
            "prefill_fp4.cu",
            "factor: tile_maximum",
            "factor: argument",
            "the factor of this stage is tile_maximum or running_maximum",
        ),
        (
            "prefill_fp4.cu",
            ", quantizes: {rounding: nearest_even, scale: sixth_of_largest, factor: tile_maximum}",
            "",
            "a kernel of this stage declares `quantizes:",
        ),
        (
            "quantize_queries.cu",
            "factor: argument",
            "factor: tile_maximum",
            "the factor of this stage is argument",
        ),
        (
            "merge.cu",
            "deterministic: true",
            "deterministic: true, quantizes: {rounding: nearest_even, scale: sixth_of_largest, factor: argument}",
            "`merge` does not choose how it quantizes: remove `quantizes`",
        ),
        ("prefill_fp4.cu", "rounding: nearest_even", "rounding: stochastic", "unknown variant `stochastic`"),
    ] {
        let output = gate_on(file, REAL, PORTABLE, &[(from, to)]);
        let all = both_streams(&output);
        assert_eq!(output.status.code(), Some(2), "{all}");
        assert!(all.contains(words) && all.contains(&format!("{file}:")), "{words}: {all}");
    }
}
