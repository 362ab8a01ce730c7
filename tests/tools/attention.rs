//! Planted faults of the attention kernels, each caught at its stage, and legal changes, none of which raises an alarm. NVRTC compiles the
//! kernels.

use std::fs;
use std::process::{Command, Output};

use super::desk::{Desk, both_streams, ours};
use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    ("faults_of_what_kernels_share_are_caught", &[Need::Nvrtc], faults_of_what_kernels_share_are_caught),
    ("faults_of_decode_are_caught", &[Need::Nvrtc], faults_of_decode_are_caught),
    ("faults_of_prefill_are_caught", &[Need::Nvrtc], faults_of_prefill_are_caught),
    ("faults_of_records_are_caught", &[Need::Nvrtc], faults_of_records_are_caught),
    ("faults_of_merge_are_caught", &[Need::Nvrtc], faults_of_merge_are_caught),
    ("legal_changes_raise_no_alarm", &[Need::Nvrtc], legal_changes_raise_no_alarm),
];

/// A change: the case, the configuration, a text of the kernels and what it becomes.
type Change = (&'static str, &'static str, &'static str, &'static str);

const FILES: [&str; 5] = ["attention.cuh", "decode.cu", "prefill.cu", "mla.cu", "merge.cu"];

/// Runs the gate on the kernels with one change of a file.
fn gate(file: &str, (case, configuration, from, to): &Change) -> Output {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("kernels")).unwrap();
    for name in FILES {
        let mut text = ours(&format!("attention/{name}"));
        if name == file {
            assert!(text.contains(from), "{file}: {from}");
            text = text.replacen(from, to, 1);
        }
        fs::write(desk.path(&format!("kernels/{name}")), text).unwrap();
    }
    Command::new(env!("CARGO_BIN_EXE_sm121probe"))
        .args(["gate", "--kernels", "kernels", "--case", case, "--configuration", configuration])
        .current_dir(desk.dir.path())
        .env_remove("GITHUB_ACTIONS")
        .output()
        .unwrap()
}

fn caught(file: &str, stage: &str, faults: &[Change]) {
    for fault in faults {
        let output = gate(file, fault);
        let all = both_streams(&output);
        assert_eq!(output.status.code(), Some(100), "{file}: {} -> {}: {all}", fault.2, fault.3);
        assert!(all.contains(&format!("fail at {stage}")), "{file}: {} -> {}: {all}", fault.2, fault.3);
    }
}

const DECODE: &str = "decode d64 bf16";
const PREFILL: &str = "prefill d64 bf16";
const NVFP4: &str = "decode d64 nvfp4";

fn faults_of_what_kernels_share_are_caught() {
    caught(
        "attention.cuh",
        "partials",
        &[
            // Masks and windows.
            ("attention-equal", DECODE, "min(length, position + 1)", "min(length, position)"),
            ("attention-equal", PREFILL, "min(length, position + 1)", "min(length, position + 2)"),
            (
                "attention-equal",
                DECODE,
                "max(0, position + 1 - (i32)p.window)",
                "max(0, position - (i32)p.window)",
            ),
            (
                "attention-equal",
                PREFILL,
                "max(0, position + 1 - (i32)p.window)",
                "max(0, position + 2 - (i32)p.window)",
            ),
            ("attention-equal", DECODE, "    if (p.window)\n", "    if (false)\n"),
            ("attention-tree-equal", PREFILL, ">> (bit & 7) & 1", ">> (7 - (bit & 7)) & 1"),
            (
                "attention-tree-equal",
                DECODE,
                "(u32)(row * length + key)",
                "(u32)(row * ((length + 31) / 32 * 32) + key)",
            ),
            ("attention-tree-equal", DECODE, "p.mask_starts[request] + (bit >> 3)", "(bit >> 3)"),
            ("attention-tree-equal", PREFILL, "    if (!p.custom)\n", "    if (true)\n"),
            // Scores.
            ("attention-real", DECODE, "return s * LOG2_E;", "return s;"),
            ("attention-capped", "decode d256 bf16", "p.cap > 0.0f", "false"),
            ("attention-capped", "prefill d256 bf16", "slope * (float)distance", "-slope * (float)distance"),
            // Codes and scales.
            ("attention-swizzled", NVFP4, "if (side.swizzled)", "if (false)"),
            ("attention-swizzled", "prefill d128 nvfp4", "HEAD / 64", "HEAD / 128"),
            (
                "attention-swizzled",
                NVFP4,
                "column = block % group * 4 + (slot & 3);",
                "column = block % group * 4 + (block & 3);",
            ),
            (
                "attention-every-key",
                NVFP4,
                "pack(from_e2m1(two) * scale, from_e2m1(two >> 4) * scale)",
                "pack(from_e2m1(two >> 4) * scale, from_e2m1(two) * scale)",
            ),
            ("attention-every-key", NVFP4, "    if (exponent == 0)\n", "    if (exponent == 1)\n"),
            ("attention-every-key", "prefill d64 nvfp4", "    if (exponent == 0)\n", "    if (false)\n"),
            ("attention-every-key", NVFP4, "(exponent + 120) << 23", "(exponent + 121) << 23"),
            ("attention-every-key", NVFP4, "head, chunk / 2)", "head, chunk / 4)"),
            (
                "attention-every-key",
                "decode d64 e4m3",
                "(i < 2 ? codes.x : codes.y)",
                "(i < 2 ? codes.y : codes.x)",
            ),
            // Sums of weights.
            ("attention-tiles", "decode d128 bf16", "fmaf(sum[g], before, total)", "sum[g] + total"),
            ("attention-tiles", "decode d128 bf16", "fmaf(sum[g], before, total)", "total"),
            ("attention-real", DECODE, "total += weight;", "total += 2.0f * weight;"),
            (
                "attention-real",
                DECODE,
                "for (u32 step = 16; step; step /= 2)\n            total",
                "for (u32 step = 8; step; step /= 2)\n            total",
            ),
            // Places.
            (
                "attention-every-key",
                DECODE,
                "slot * side.slot + head * side.head + chunk * KV_EIGHT",
                "slot * side.head + head * side.slot + chunk * KV_EIGHT",
            ),
            ("attention-padded", DECODE, "(u64)page * side.page +", "(u64)page * (side.page & ~127u) +"),
        ],
    );
}

fn faults_of_decode_are_caught() {
    caught(
        "decode.cu",
        "partials",
        &[
            ("attention-every-key", DECODE, "kv_head * group) * HEAD + i]", "kv_head) * HEAD + i]"),
            (
                "attention-every-key",
                DECODE,
                "in_page = (u32)table[request * most_pages + (u32)key / page];",
                "in_page = (u32)table[request * most_pages];",
            ),
            (
                "attention-every-key",
                DECODE,
                "in_page = (u32)table[request * most_pages +",
                "in_page = (u32)table[",
            ),
            ("attention-every-key", DECODE, "slot = (u32)key % page;", "slot = ((u32)key + 1) % page;"),
            ("attention-every-key", DECODE, "eight(p.values, value_page_of", "eight(p.keys, value_page_of"),
            ("attention-every-key", DECODE, "(i32)((split + 1) * chunk))", "(i32)((split + 1) * chunk) - 1)"),
            ("attention-every-key", DECODE, "= out[g][o] * inverse;", "= out[g][o];"),
            ("attention-tiles", "decode d128 bf16", "out[g][o] *= factor[g];", ";"),
            ("attention-real", DECODE, "most[g] + log2_approx(sum[g])", "most[g]"),
            (
                "attention-every-key",
                DECODE,
                "(u64)row * heads + head) * splits + split;",
                "(u64)row * heads + head) * splits + split / 2;",
            ),
            // What the rules of PTX find.
            ("attention-real", DECODE, "        __syncthreads();\n        weigh_tile", "        weigh_tile"),
            (
                "attention-real",
                DECODE,
                "            query[thread] = out[g][0];\n            __syncthreads();",
                "            query[thread] = out[g][0];",
            ),
        ],
    );
}

fn faults_of_prefill_are_caught() {
    caught(
        "prefill.cu",
        "partials",
        &[
            ("attention-real", PREFILL, "asm volatile(\"cp.async.wait_group 0;\" ::: \"memory\");", ""),
            (
                "attention-tiles",
                "prefill d128 bf16",
                "        // Everything of this tile is read before the next one is copied.\n        __syncthreads();",
                "",
            ),
            ("attention-tiles", "prefill d128 bf16", "out[d][h * 2 + 1] *= before;", ";"),
            ("attention-tiles", "prefill d128 bf16", "sum[h] *= before;", ";"),
            ("attention-tiles", "prefill d128 bf16", "sum[h] *= before;", "sum[h] = 0.0f;"),
            (
                "attention-tiles",
                "prefill d128 bf16",
                "tile < end; tile += TILE_N",
                "tile + TILE_N <= end; tile += TILE_N",
            ),
            (
                "attention-real",
                PREFILL,
                "(lane >> 4) * 8, k * 2 + (lane >> 3 & 1)",
                "(lane >> 3 & 1) * 8, k * 2 + (lane >> 4)",
            ),
            ("attention-every-key", PREFILL, "x4.trans.shared", "x4.shared"),
            ("attention-real", PREFILL, "        sum[h] += __shfl_xor_sync(0xFFFFFFFF, sum[h], 2);\n", ""),
            (
                "attention-real",
                PREFILL,
                "            best[h] = fmaxf(best[h], __shfl_xor_sync(0xFFFFFFFF, best[h], 2));\n",
                "",
            ),
            (
                "attention-every-key",
                PREFILL,
                "d * 8 + (lane & 3) * 2) = make_float2",
                "(d ^ 1) * 8 + (lane & 3) * 2) = make_float2",
            ),
            (
                "attention-every-key",
                PREFILL,
                "kv_head * group + of % group, at =",
                "kv_head * group + (of + 1) % group, at =",
            ),
            ("attention-real", PREFILL, "key < min(range[h].end, end)", "key < end"),
            ("attention-window", PREFILL, "key >= range[h].first && ", ""),
            ("attention-real", PREFILL, "most[h] + log2_approx(sum[h])", "log2_approx(sum[h])"),
            (
                "attention-every-key",
                PREFILL,
                "max(range_of(p, length, offset + (i32)(first / group)).first, (i32)(split * chunk))",
                "range_of(p, length, offset + (i32)(first / group)).first",
            ),
            ("attention-every-key", PREFILL, "? (u32)key % p.page : 0;", "? (u32)key % 8 : 0;"),
        ],
    );
}

fn faults_of_records_are_caught() {
    const ONE_HOT: &str = "attention-mla-one-hot";
    const REAL: &str = "attention-mla-real";
    caught(
        "mla.cu",
        "partials",
        &[
            (ONE_HOT, "mla", "table[row * most_slots + (u32)key]", "table[(u32)key]"),
            (ONE_HOT, "mla", "table[row * most_slots + (u32)(tile + i)]", "table[row * most_slots + (u32)i]"),
            (ONE_HOT, "mla", "(u64)(slot / page) * page_bytes", "(u64)(slot / page) * (page * row_bytes)"),
            (ONE_HOT, "mla", "slot % page * row_bytes", "slot % page * WIDTH"),
            (ONE_HOT, "mla", "record + SCALES_AT + d / SCALED * 4", "record + SCALES_AT + d / 64 * 4"),
            // A scale of 32 bits is no power of two.
            (
                ONE_HOT,
                "mla",
                "four(*(const u32*)(record + d), block)",
                "four(*(const u32*)(record + d), __uint_as_float(__float_as_uint(block) & 0xFF800000))",
            ),
            (
                ONE_HOT,
                "mla",
                "*(const float*)(record + SCALES_AT + d / SCALED * 4));",
                "*(const float*)(record + SCALES_AT));",
            ),
            (
                ONE_HOT,
                "mla",
                "from_e4m3(codes >> 8) * scale, from_e4m3(codes >> 16)",
                "from_e4m3(codes >> 16) * scale, from_e4m3(codes >> 8)",
            ),
            (ONE_HOT, "mla", "d = LATENT; d < WIDTH; d += 2", "d = LATENT; d < WIDTH - 2; d += 2"),
            (ONE_HOT, "mla", "record + ROTARY_AT +", "record + SCALES_AT +"),
            (REAL, "mla", "high, fmaf(query[g * WIDTH + d], low", "low, fmaf(query[g * WIDTH + d], high"),
            (REAL, "mla", "out[g][o] *= factor[g];", ";"),
            (REAL, "mla", "min(lengths[row], (i32)", "min(lengths[0], (i32)"),
            (REAL, "mla", "        __syncthreads();\n        weigh_tile", "        weigh_tile"),
            (REAL, "mla", "splits + split;", "splits + 0;"),
        ],
    );
}

fn faults_of_merge_are_caught() {
    caught(
        "merge.cu",
        "output",
        &[
            (
                "attention-sinks",
                "decode d128 bf16",
                "has_sinks ? sinks[head] * LOG2_E : -INFINITE",
                "-INFINITE",
            ),
            ("attention-sinks", "decode d128 bf16", "sinks[head] * LOG2_E", "sinks[head]"),
            ("attention-sinks", "decode d128 bf16", "sinks[head]", "sinks[head % 4]"),
            (
                "attention-sinks",
                "decode d128 bf16",
                "float total = exp2_approx(sink - shift);",
                "float total = exp2_approx(sink - shift) * (float)splits;",
            ),
            (
                "attention-real",
                DECODE,
                "fmaf(exp2_approx(partial_lse[first + s] - shift), partial",
                "fmaf(1.0f, partial",
            ),
            (
                "attention-real",
                DECODE,
                "    for (u32 s = 0; s < splits; ++s)\n        total",
                "    for (u32 s = 0; s < 1; ++s)\n        total",
            ),
            (
                "attention-every-key",
                DECODE,
                "        for (u32 s = 0; s < splits; ++s)\n            sum",
                "        for (u32 s = splits - 1; s < splits; ++s)\n            sum",
            ),
            (
                "attention-real",
                "decode d64 e4m3",
                "sum * inverse * __uint_as_float(value_scale)",
                "sum * inverse",
            ),
            ("attention-capped", "decode d256 bf16", "natural ? log2 * 0.6931471805599453f : log2", "log2"),
            ("attention-nothing", DECODE, "total > 0.0f ? 1.0f / total : 0.0f", "1.0f / total"),
            ("attention-real", DECODE, "(u16)pack(x, 0.0f)", "(u16)(pack(x, 0.0f) & 0xFFFE)"),
        ],
    );
}

fn legal_changes_raise_no_alarm() {
    let changes: &[(&str, Change)] = &[
        ("decode.cu", ("attention-real", DECODE, "1.0f / sum[g]", "__frcp_rn(sum[g])")),
        ("decode.cu", ("attention-real", DECODE, "1.0f / sum[g]", "__fdividef(1.0f, sum[g])")),
        (
            "attention.cuh",
            ("attention-tiles", "decode d128 bf16", "exp2_approx(most[g] - shift)", "exp2f(most[g] - shift)"),
        ),
        (
            "attention.cuh",
            ("attention-real", DECODE, "float best = most[g];", "float best = fmaxf(most[g], -1000.0f);"),
        ),
        (
            "decode.cu",
            ("attention-every-key", DECODE, "c = 0; c < HEAD / 8; ++c", "c = 0; c < HEAD / 8; c += 1"),
        ),
        (
            "attention.cuh",
            ("attention-real", DECODE, "step = 16; step; step /= 2", "step = 1; step < 32; step *= 2"),
        ),
        ("prefill.cu", ("attention-real", PREFILL, "1.0f / sum[h]", "__frcp_rn(sum[h])")),
        ("prefill.cu", ("attention-real", PREFILL, "(chunk ^ (row & 7))", "(chunk ^ (row & 3))")),
        (
            "prefill.cu",
            (
                "attention-tiles",
                "prefill d128 bf16",
                "float before = exp2_approx(most[h] - shift[h]);",
                "float before = exp2f(most[h] - shift[h]);",
            ),
        ),
        (
            "prefill.cu",
            (
                "attention-real",
                PREFILL,
                "sum[h] += unpack(a[j] & 0xFFFF) + unpack(a[j] >> 16);",
                "sum[h] = sum[h] + unpack(a[j] >> 16) + unpack(a[j] & 0xFFFF);",
            ),
        ),
        ("attention.cuh", ("attention-real", PREFILL, "return s * LOG2_E;", "return __fmul_rn(s, LOG2_E);")),
        (
            "attention.cuh",
            ("attention-real", DECODE, "float s = product * p.scale;", "float s = p.scale * product;"),
        ),
        (
            "attention.cuh",
            ("attention-every-key", NVFP4, "(float)mantissa * 0.001953125f", "(float)mantissa / 512.0f"),
        ),
        // Any shift gives the same result.
        (
            "merge.cu",
            (
                "attention-real",
                DECODE,
                "    for (u32 s = 0; s < splits; ++s)\n        most",
                "    for (u32 s = 0; s < 1; ++s)\n        most",
            ),
        ),
        ("merge.cu", ("attention-real", DECODE, "1.0f / total", "__frcp_rn(total)")),
        (
            "merge.cu",
            ("attention-sinks", "decode d128 bf16", "sinks[head] * LOG2_E", "__fmul_rn(LOG2_E, sinks[head])"),
        ),
        ("merge.cu", ("attention-real", DECODE, "sum * inverse *", "sum / total *")),
    ];
    for (file, change) in changes {
        let output = gate(file, change);
        let all = both_streams(&output);
        assert_eq!(output.status.code(), Some(0), "{file}: {} -> {}: {all}", change.2, change.3);
    }
}
