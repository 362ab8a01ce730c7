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
    ("a_wrong_result_names_its_last_write", &[Need::Nvrtc], a_wrong_result_names_its_last_write),
    ("legal_changes_raise_no_alarm", &[Need::Nvrtc], legal_changes_raise_no_alarm),
];

/// A change: the case, the configuration, a text of the kernels and what it becomes.
pub(super) type Change = (&'static str, &'static str, &'static str, &'static str);

const FILES: [&str; 8] = [
    "attention.cuh",
    "block_scaled.cuh",
    "decode.cu",
    "prefill.cu",
    "prefill_fp4.cu",
    "quantize_queries.cu",
    "mla.cu",
    "merge.cu",
];

/// Runs the gate on the kernels with some changes of a file.
pub(super) fn gate_on(file: &str, case: &str, configuration: &str, changes: &[(&str, &str)]) -> Output {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("kernels")).unwrap();
    for name in FILES {
        let mut text = ours(&format!("attention/{name}"));
        if name == file {
            for (from, to) in changes {
                assert!(text.contains(from), "{file}: {from}");
                text = text.replacen(from, to, 1);
            }
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

/// Runs the gate on the kernels with one change of a file.
pub(super) fn gate(file: &str, (case, configuration, from, to): &Change) -> Output {
    gate_on(file, case, configuration, &[(from, to)])
}

/// Each fault is found at this stage.
pub(super) fn caught(file: &str, stage: &str, faults: &[Change]) {
    let missed = |fault: &&Change| {
        let output = gate(file, fault);
        let all = both_streams(&output);
        let is_caught = output.status.code() == Some(100) && all.contains(&format!("fail at {stage}"));
        (!is_caught).then(|| format!("{file}: {} -> {}: {all}", fault.2, fault.3))
    };
    let missed: Vec<String> = faults.iter().filter_map(|fault| missed(&fault)).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// No change raises an alarm.
pub(super) fn accepted(changes: &[(&str, Change)]) {
    for (file, change) in changes {
        let output = gate(file, change);
        let all = both_streams(&output);
        assert_eq!(output.status.code(), Some(0), "{file}: {} -> {}: {all}", change.2, change.3);
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
            ("attention-real", PREFILL, "s[i / 4][i % 4] * LOG2_E :", "s[i / 4][i % 4] :"),
            ("attention-equal", PREFILL, "bool lower = i & 2;", "bool lower = false;"),
            (
                "attention-every-key",
                PREFILL,
                "for (u32 i = 0; i < SCORES; ++i) {",
                "for (u32 i = 1; i < SCORES; ++i) {",
            ),
            ("attention-swizzled", NVFP4, "(code & 0x7F) * 0x101", "code & 0x7F"),
            ("attention-capped", "prefill d256 bf16", "p.cap > 0.0f", "false"),
            ("attention-capped", "decode d256 bf16", "return cap * tanh_approx", "return tanh_approx"),
            ("attention-capped", "prefill d256 bf16", "+= slope[i / 2 % 2] * ", "-= slope[i / 2 % 2] * "),
            // Codes and scales.
            ("attention-swizzled", NVFP4, "if (side.swizzled)", "if (false)"),
            ("attention-swizzled", "prefill d128 nvfp4", "HEAD / 64", "HEAD / 128"),
            (
                "attention-swizzled",
                "prefill d64 nvfp4",
                "column = block % group * 4 + (slot & 3);",
                "column = block % group * 4 + (block & 3);",
            ),
            ("attention-every-key", NVFP4, "(codes | codes << 12)", "(codes >> 4 | codes << 16)"),
            ("attention-every-key", NVFP4, "from_e2m1(codes >> 8 & 0xFF)", "from_e2m1(codes >> 16 & 0xFF)"),
            ("attention-every-key", NVFP4, "(apart & 0x00070007) << 6", "(apart & 0x00030003) << 6"),
            ("attention-every-key", "prefill d64 nvfp4", "head, n / 2)", "head, n / 4)"),
            (
                "attention-every-key",
                "decode d64 e4m3",
                "(i < 2 ? codes.x : codes.y)",
                "(i < 2 ? codes.y : codes.x)",
            ),
            // Places.
            (
                "attention-every-key",
                DECODE,
                "slot * side.slot + head * side.head;",
                "slot * side.head + head * side.slot;",
            ),
            ("attention-padded", DECODE, "(u64)page * side.page +", "(u64)page * (side.page & ~127u) +"),
            ("attention-large-offsets", DECODE, "(u64)page * side.page +", "page * side.page +"),
            ("attention-large-offsets", PREFILL, "(u64)page * side.page +", "(u64)(i32)(page * side.page) +"),
            ("attention-large-offsets", "decode d128 nvfp4", "(u64)page * side.page +", "page * side.page +"),
        ],
    );
}

fn faults_of_decode_are_caught() {
    const EVERY_KEY: &str = "attention-every-key";
    const TILES: &str = "attention-tiles";
    const RINGS: &str = "attention-rings";
    caught(
        "decode.cu",
        "partials",
        &[
            // Places.
            (EVERY_KEY, DECODE, "kv_head * group + (is_head ? head : 0)", "kv_head + (is_head ? head : 0)"),
            (EVERY_KEY, DECODE, "p.most_pages + (u32)key / p.page]", "p.most_pages]"),
            (EVERY_KEY, DECODE, "p.table[request * p.most_pages + ", "p.table["),
            (EVERY_KEY, DECODE, "source.slot = (u32)key % p.page;", "source.slot = ((u32)key + 1) % p.page;"),
            (EVERY_KEY, DECODE, "source.values ? p.values : p.keys", "source.values ? p.keys : p.keys"),
            (EVERY_KEY, DECODE, "(i32)((split + 1) * chunk))", "(i32)((split + 1) * chunk) - 1)"),
            (EVERY_KEY, DECODE, "group + g) * splits + split;", "group + g) * splits + split / 2;"),
            (EVERY_KEY, DECODE, "u32 own = fours * 4 + i,", "u32 own = fours * 4 + (i ^ 1),"),
            (TILES, "decode d128 bf16", "source.key += TILE_N;", "source.key += KEYS;"),
            (RINGS, "decode d64 e4m3", "(i32)(threadIdx.x % KEYS)", "(i32)(threadIdx.x % 16)"),
            // Elements and scales.
            (EVERY_KEY, DECODE, "i % 2 ? 0x7632 : 0x5410", "i % 2 ? 0x5410 : 0x7632"),
            (EVERY_KEY, "decode d128 bf16", "+ k % 2 * 4)", "+ (1 - k % 2) * 4)"),
            (EVERY_KEY, NVFP4, "u32 block = n / 2;", "u32 block = n / 4;"),
            (
                "attention-swizzled",
                NVFP4,
                "side.swizzled ? (u32)key : block",
                "side.swizzled ? block : block",
            ),
            (RINGS, NVFP4, "(row * BLOCKS + block) * 4", "(row % 16 * BLOCKS + block) * 4"),
            // Masks and scores.
            ("attention-real", DECODE, "(u32)(first + key_of(i) < end)", "(u32)(first + key_of(i) <= end)"),
            ("attention-tree-equal", DECODE, "        if (custom)\n", "        if (false)\n"),
            ("attention-capped", "decode d256 bf16", "p.cap > 0.0f", "false"),
            ("attention-capped", "decode d256 bf16", "key_of(i) - position)", "key_of(i) - position - 1)"),
            ("attention-real", DECODE, "score[i] * LOG2_E", "score[i]"),
            // Sums.
            (RINGS, DECODE, "if (h * 8 >= group)", "if (h >= 1)"),
            (TILES, "decode d128 bf16", "out[d][h * 2 + 1] *= before;", ";"),
            (TILES, "decode d128 bf16", "sum[h] *= before;", ";"),
            (TILES, "decode d128 e4m3", "sum[h] *= before;", "sum[h] = 0.0f;"),
            (
                "attention-real",
                DECODE,
                "unpack(weights[n][h] & 0xFFFF) +",
                "2.0f * unpack(weights[n][h] & 0xFFFF) +",
            ),
            ("attention-real", DECODE, "        sum[h] += __shfl_xor_sync(ALL_LANES, sum[h], 2);\n", ""),
            ("attention-real", DECODE, "best = fmaxf(best, __shfl_xor_sync(ALL_LANES, best, 2));\n", "\n"),
            (
                "attention-real",
                DECODE,
                "total = fmaf(factor, sum_of[w * 16 + g], total);",
                "total += sum_of[w * 16 + g];",
            ),
            (EVERY_KEY, DECODE, "make_float4(x.x / total,", "make_float4(x.x,"),
            ("attention-real", DECODE, "best + log2_approx(total)", "best"),
            // What the rules of PTX find.
            (RINGS, DECODE, "\"n\"(PIECES - 1)", "\"n\"(PIECES)"),
            (
                "attention-real",
                DECODE,
                "    __syncthreads();\n    // Warps are added",
                "    // Warps are added",
            ),
            (RINGS, DECODE, "    __syncthreads();\n    float* most_of", "    float* most_of"),
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
            ("attention-real", PREFILL, "range[h].end = min(range[h].end, end);", "range[h].end = end;"),
            (
                "attention-window",
                PREFILL,
                "range[h].end = min(range[h].end, end);",
                "range[h] = {0, min(range[h].end, end)};",
            ),
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
            (REAL, "mla", "out[h][o] *= factor[h];", ";"),
            (REAL, "mla", "min(lengths[row], (i32)", "min(lengths[0], (i32)"),
            (REAL, "mla", "        __syncthreads();\n        weigh_tile", "        weigh_tile"),
            (REAL, "mla", "splits + split;", "splits + 0;"),
            // Sums of weights.
            (REAL, "mla", "fmaf(sum[g], before, total)", "sum[g] + total"),
            (REAL, "mla", "fmaf(sum[g], before, total)", "total"),
            (REAL, "mla", "total += weight;", "total += 2.0f * weight;"),
            (
                REAL,
                "mla",
                "for (u32 step = 16; step; step /= 2)\n            total",
                "for (u32 step = 8; step; step /= 2)\n            total",
            ),
            (
                "attention-mla-large-offsets",
                "mla",
                "(u64)(slot / page) * page_bytes",
                "slot / page * page_bytes",
            ),
        ],
    );
}

fn a_wrong_result_names_its_last_write() {
    let fault = ("attention-sinks", "decode d128 bf16", "sinks[head] * LOG2_E", "sinks[head]");
    let all = both_streams(&gate("merge.cu", &fault));
    let written = "last written by kernel attention_merge, PTX line ";
    assert!(all.contains(written) && all.contains("`st.global"), "{all}");
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
        ("decode.cu", ("attention-real", DECODE, "x.x / total", "x.x * __frcp_rn(total)")),
        ("decode.cu", ("attention-real", DECODE, "x.x / total", "__fdividef(x.x, total)")),
        (
            "decode.cu",
            ("attention-tiles", "decode d128 bf16", "exp2_approx(most[h] - shift)", "exp2f(most[h] - shift)"),
        ),
        ("decode.cu", ("attention-real", DECODE, "best = -INFINITE, total", "best = -1000.0f, total")),
        // A shorter ring, other banks, another order of products.
        ("decode.cu", ("attention-rings", "decode d64 e4m3", "(96 * HEAD)", "(64 * HEAD)")),
        ("decode.cu", ("attention-every-key", DECODE, "(row & 6)", "(row & 2)")),
        (
            "mla.cu",
            (
                "attention-mla-real",
                "mla",
                "for (u32 step = 16; step; step /= 2)\n            best",
                "for (u32 step = 1; step < 32; step *= 2)\n            best",
            ),
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
        (
            "attention.cuh",
            ("attention-real", PREFILL, "s[i / 4][i % 4] * LOG2_E :", "__fmul_rn(s[i / 4][i % 4], LOG2_E) :"),
        ),
        (
            "attention.cuh",
            (
                "attention-real",
                PREFILL,
                "s[i / 4][i % 4] *= p.scale;",
                "s[i / 4][i % 4] = p.scale * s[i / 4][i % 4];",
            ),
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
    accepted(changes);
}
