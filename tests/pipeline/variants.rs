//! Faults of the alternative kernels: the GEMV, tensor maps made on the device, atomic sums, `ex2.approx`.

use sm121probe::kernel::{Load, MmaPath};
use sm121probe::moe::Stage;

use super::Fault;

/// Where a fault is looked for: case, tile, path and load.
type At = (&'static str, &'static str, MmaPath, Load);

const GEMV: At = ("tiny-exact", "8x64x128", MmaPath::Gemv, Load::Direct);
const REPLACE: At = ("tiny-exact", "8x64x128", MmaPath::Native, Load::TmaReplace);
const ATOMIC: At = ("tiny-atomic", "16x64x128", MmaPath::Native, Load::CpAsync);
const EX2: At = ("tiny-ex2", "8x64x128", MmaPath::Native, Load::CpAsync);

const fn fault(
    name: &'static str,
    file: &'static str,
    (from, to): (&'static str, &'static str),
    (case, tile, path, load): At,
    stage: Stage,
    says: &'static str,
) -> Fault {
    Fault { name, file, from, to, case, tile, path, load, stage, says }
}

/// All of these faults.
pub(crate) fn all() -> Vec<Fault> {
    [gemv(), replaced_maps(), atomics(), ex2(), inputs(), offsets(), orders()].concat()
}

/// Changes that resemble a fault of the same kind but are legal: no stage may be wrong.
pub(crate) fn legal() -> Vec<Fault> {
    vec![
        fault(
            "arrivals counted modulo top_k and never zeroed",
            "finalize_atomic.cu",
            (
                "    if (before + 1 != top_k || column >= hidden)\n        return;\n    float x, y;\n    asm volatile(\"ld.relaxed.gpu.global.f32 %0, [%1];\" : \"=f\"(x) : \"l\"(low) : \"memory\");\n    asm volatile(\"ld.relaxed.gpu.global.f32 %0, [%1];\" : \"=f\"(y) : \"l\"(high) : \"memory\");\n    *(u32*)(output + (u64)token * hidden + column) = to_bf16(x) | (u32)to_bf16(y) << 16;\n    *low = 0.0f;\n    *high = 0.0f;\n    if (threadIdx.x == 0)\n        *arrived = 0;\n",
                "    if (before % top_k + 1 != top_k || column >= hidden)\n        return;\n    float x, y;\n    asm volatile(\"ld.relaxed.gpu.global.f32 %0, [%1];\" : \"=f\"(x) : \"l\"(low) : \"memory\");\n    asm volatile(\"ld.relaxed.gpu.global.f32 %0, [%1];\" : \"=f\"(y) : \"l\"(high) : \"memory\");\n    *(u32*)(output + (u64)token * hidden + column) = to_bf16(x) | (u32)to_bf16(y) << 16;\n    *low = 0.0f;\n    *high = 0.0f;\n",
            ),
            ATOMIC,
            Stage::Finalize,
            "",
        ),
        fault(
            "an input written with the value that it has",
            "route.cuh",
            (
                CHOSEN,
                "        ((float*)logits)[mine] = logit;\n        topk_ids[token * top_k + lane] = (i32)mine;",
            ),
            ("tiny-exact", "8x64x128", MmaPath::Native, Load::CpAsync),
            Stage::Route,
            "",
        ),
        fault(
            "the offset of an expert added in 64 bits in two parts",
            "gemm_cp_async.cu",
            (
                "(((u64)w.slot * p.n + w.column + row) * p.k_padded + at) * W_BITS / 8",
                "((u64)w.slot * p.n * p.k_padded + (w.column + row) * p.k_padded + at) * W_BITS / 8",
            ),
            (FAR, "8x64x128", MmaPath::Native, Load::CpAsync),
            Stage::Fc1,
            "",
        ),
    ]
}

/// How the last CTA of a token resets its counter for the next launch.
const ARRIVED: &str = "    if (threadIdx.x == 0)\n        *arrived = 0;\n";
/// Where the router stores a choice.
const CHOSEN: &str = "        topk_ids[token * top_k + lane] = (i32)mine;";
/// The case whose experts lie beyond 32-bit offsets.
const FAR: &str = "large-offsets";

/// An input that a stage uses as scratch memory: the first launch is correct, but the input changes.
fn inputs() -> Vec<Fault> {
    vec![fault(
        "the chosen logits masked in place",
        "route.cuh",
        (
            CHOSEN,
            "        ((float*)logits)[mine] = __uint_as_float(0xFF800000u);\n        topk_ids[token * top_k + lane] = (i32)mine;",
        ),
        ("tiny-exact", "8x64x128", MmaPath::Native, Load::CpAsync),
        Stage::Route,
        "route wrote to its input router_logits at byte ",
    )]
}

/// Offsets of weights in 32 bits.
fn offsets() -> Vec<Fault> {
    let of = |name, file, change, path, load| {
        fault(name, file, change, (FAR, "8x64x128", path, load), Stage::Fc1, "")
    };
    vec![
        of(
            "the offset of an expert in 32 bits",
            "gemm_cp_async.cu",
            ("(((u64)w.slot * p.n", "((w.slot * p.n"),
            MmaPath::Native,
            Load::CpAsync,
        ),
        of(
            "the offset of an expert in 32 bits on the portable path",
            "gemm_cp_async.cu",
            ("(((u64)w.slot * p.n", "((w.slot * p.n"),
            MmaPath::Portable,
            Load::CpAsync,
        ),
        of(
            "the offset of an expert in 32 bits and signed",
            "gemv.cu",
            (
                "(((u64)w.slot * n + column) * k_padded + block * 32) / 2",
                "((i32)((w.slot * n + column) * k_padded + block * 32)) / 2",
            ),
            MmaPath::Gemv,
            Load::Direct,
        ),
        of(
            "the address of a map in 32 bits",
            "gemm_tma_replace.cu",
            ("(u64)w.slot * p.n * p.k_padded * W_BITS / 8", "w.slot * p.n * p.k_padded * W_BITS / 8"),
            MmaPath::Native,
            Load::TmaReplace,
        ),
    ]
}

fn gemv() -> Vec<Fault> {
    let of = |name, change, way, says| fault(name, "gemv.cu", change, way, Stage::Fc1, says);
    vec![
        of(
            "a digit without its sign",
            ("(u32)(sign * (value & 127) & 0xFF)", "(u32)(value & 127)"),
            ("tiny-real", "8x64x128", MmaPath::Gemv, Load::Direct),
            "",
        ),
        of(
            "the uppermost digit forgotten",
            ("sums[0] + sums[1] * 128 + sums[2] * 16384", "sums[0] + sums[1] * 128"),
            GEMV,
            "",
        ),
        of("signs of two weights exchanged", ("(codes & 0x80) << 8", "(codes & 0x800) << 4"), GEMV, ""),
        of("a table of weights with 5 for 6", ("0x0C080604", "0x0C080504"), GEMV, ""),
        of("half of the partial sums", ("other = PARTS / 2;", "other = PARTS / 4;"), GEMV, ""),
        of("integers of 2^9 taken for 2^10", ("- 2 * 127 - 10", "- 2 * 127 - 9"), GEMV, ""),
        of(
            "the weight scale of the next block",
            ("scale_at(column, block, k_padded / 32)]", "scale_at(column, block ^ 1, k_padded / 32)]"),
            GEMV,
            "",
        ),
        of(
            "the token scale of the next row",
            ("scale_at(w.scale_row + row, block,", "scale_at(w.scale_row + (row ^ 1), block,"),
            GEMV,
            "",
        ),
        of(
            "a NaN scale for a number",
            ("if (a_scale == NAN_SCALE || w_scale == NAN_SCALE)", "if (w_scale == NAN_SCALE)"),
            ("tiny-special", "8x64x128", MmaPath::Gemv, Load::Direct),
            "",
        ),
        of(
            "digits overwritten while others read them",
            ("        __syncthreads();\n        stage(", "        stage("),
            ("tiny-exact", "8x64x64", MmaPath::Gemv, Load::Direct),
            "race",
        ),
        of(
            "digits read before they are there",
            ("a_codes, first);\n        __syncthreads();", "a_codes, first);"),
            GEMV,
            "",
        ),
        of(
            "a K that is not a multiple of the tile cut in a GEMV",
            ("first * 32 < k_used; first", "(first + PARTS) * 32 <= k_used; first"),
            ("k2880-exact", "8x64x256", MmaPath::Gemv, Load::Direct),
            "",
        ),
    ]
}

fn replaced_maps() -> Vec<Fault> {
    let of = |name, change, says| fault(name, "gemm_tma_replace.cu", change, REPLACE, Stage::Fc1, says);
    vec![
        of(
            "the map of the tokens not acquired",
            (
                "    asm volatile(\"fence.proxy.tensormap::generic.acquire.gpu [%0], 128;\" ::\"l\"(&maps[0]) : \"memory\");\n",
                "",
            ),
            "no proxy fence: the tensor map",
        ),
        of(
            "the map of the weights acquired before it is published",
            ("acquire.gpu [%0], 128;\" ::\"l\"(&maps[1])", "acquire.gpu [%0], 128;\" ::\"l\"(&maps[0])"),
            "no proxy fence: the tensor map",
        ),
        of(
            "rows replaced in the dimension of K",
            ("b1024.b32 [%0], 1, %1;\" ::\"r\"(tokens)", "b1024.b32 [%0], 0, %1;\" ::\"r\"(tokens)"),
            "",
        ),
        of("the extent one row short", ("[w.expert + 1] - first;", "[w.expert + 1] - first - 1;"), ""),
        of("the address of the tokens not replaced", ("(u64)first * p.k_padded", "(u64)0 * p.k_padded"), ""),
        of("bytes of weights counted as elements", ("* p.k_padded * W_BITS / 8;", "* p.k_padded;"), ""),
        of(
            "coordinates of all rows in the map of one expert",
            ("w.row - (u32)p.expert_offset[w.expert]", "w.row"),
            "",
        ),
        of(
            "CTAs that share their maps",
            ("maps += 2 * (blockIdx.y * gridDim.x + blockIdx.x);", "maps += 2 * blockIdx.y;"),
            "race",
        ),
    ]
}

fn atomics() -> Vec<Fault> {
    let of = |name, change, says| fault(name, "finalize_atomic.cu", change, ATOMIC, Stage::Finalize, says);
    vec![
        of(
            "sums stored, not added",
            (
                "red.relaxed.gpu.global.add.f32 [%0], %1;\" ::\"l\"(low)",
                "st.global.f32 [%0], %1;\" ::\"l\"(low)",
            ),
            "",
        ),
        of(
            "a sum that keeps what the launch before left",
            ("    *low = 0.0f;\n", ""),
            "launch 2 on the same memory",
        ),
        of("the second sum left", ("    *high = 0.0f;\n", ""), "launch 2 on the same memory"),
        of("arrivals not zeroed for the next launch", (ARRIVED, ""), "launch 2 on the same memory"),
        of("one of two columns without its weight", ("__fmul_rn(weight, y)", "y"), ""),
        of("rounded before the last row came", ("before + 1 != top_k", "before + 2 != top_k"), ""),
        of(
            "an arrival before the sums",
            (
                "    __syncthreads();\n    if (threadIdx.x == 0)\n        asm",
                "    if (threadIdx.x == 0)\n        asm",
            ),
            "",
        ),
    ]
}

fn ex2() -> Vec<Fault> {
    vec![
        fault(
            "log2 e to five digits",
            "mx.cuh",
            ("\"f\"(__fmul_rn(x, 1.44269504f))", "\"f\"(__fmul_rn(x, 1.4427f))"),
            EX2,
            Stage::Route,
            "",
        ),
        fault(
            "ex2 taken for e to the power of",
            "swiglu_quantize.cuh",
            ("exponential(-__fmul_rn(alpha, gate))", "exponential(-__fmul_rn(alpha * 0.69314718f, gate))"),
            EX2,
            Stage::Activation,
            "",
        ),
    ]
}

/// Synchronization that is present, but too weak.
fn orders() -> Vec<Fault> {
    let atomic = |name, change| fault(name, "finalize_atomic.cu", change, ATOMIC, Stage::Finalize, "race");
    let replace =
        |name, change| fault(name, "gemm_tma_replace.cu", change, REPLACE, Stage::Fc1, "bar.warp.sync");
    vec![
        atomic("an arrival that orders nothing", ("atom.acq_rel.gpu", "atom.relaxed.gpu")),
        atomic("an arrival that only releases", ("atom.acq_rel.gpu", "atom.release.gpu")),
        atomic("an arrival that only acquires", ("atom.acq_rel.gpu", "atom.acquire.gpu")),
        atomic("an arrival within the CTA", ("atom.acq_rel.gpu", "atom.acq_rel.cta")),
        replace(
            "a tensor map replaced before all lanes have drafted it",
            (
                "    __syncwarp();\n    if (lane == 0) {\n        u32 first",
                "    if (lane == 0) {\n        u32 first",
            ),
        ),
        replace(
            "a tensor map published before it is replaced",
            ("    __syncwarp();\n    // The copy releases the maps", "    // The copy releases the maps"),
        ),
    ]
}
