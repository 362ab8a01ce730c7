//! Faults in the operand formats other than MXFP8 by MXFP4: scale layouts, block lengths, global scales, codes.

use sm121probe::kernel::{Load, MmaPath};
use sm121probe::moe::Stage;

use super::Fault;

/// Case, path and load.
type At = (&'static str, MmaPath, Load);

const fn nvfp4(load: Load) -> At {
    ("nvfp4-exact", MmaPath::Native, load)
}

const NVFP4: At = nvfp4(Load::CpAsync);
const NVFP4_REAL: At = ("nvfp4-real", MmaPath::Native, Load::CpAsync);
const TOKENS: At = ("nvfp4-token-exact", MmaPath::Native, Load::CpAsync);
const TOKENS_REAL: At = ("nvfp4-token-real", MmaPath::Portable, Load::CpAsync);
const FOUR_OVER_SIX: At = ("nvfp4-four-over-six", MmaPath::Native, Load::CpAsync);
const NVFP4_PORTABLE: At = ("nvfp4-exact", MmaPath::Portable, Load::CpAsync);
const MXFP4: At = ("mxfp4-exact", MmaPath::Native, Load::CpAsync);
const MXFP8: At = ("mxfp8-exact", MmaPath::Native, Load::CpAsync);
const BF16: At = ("bf16xmxfp4-exact", MmaPath::Portable, Load::CpAsync);
const BF16_SPECIAL: At = ("bf16xnvfp4-special", MmaPath::Portable, Load::CpAsync);

const fn fault(
    name: &'static str,
    file: &'static str,
    (from, to): (&'static str, &'static str),
    (case, path, load): At,
    stage: Stage,
) -> Fault {
    Fault { name, file, from, to, case, tile: "32x64x128", path, load, stage, says: "" }
}

/// All of these faults.
pub(crate) fn all() -> Vec<Fault> {
    [scales(), globals(), tokens(), four_over_six(), codes(), loads(), others()].concat()
}

/// Legal changes of the same kind.
pub(crate) fn legal() -> Vec<Fault> {
    vec![
        fault(
            "NVFP4 codes by a reciprocal",
            "mx.cuh",
            ("to_e2m1(__fdiv_rn(x[i], unit))", "to_e2m1(__fmul_rn(x[i], __frcp_rn(unit)))"),
            NVFP4_REAL,
            Stage::Quantize,
        ),
        fault(
            "NVFP4 scales by two factors",
            "mx.cuh",
            (
                "__fdiv_rn(__uint_as_float(amax), __fmul_rn(largest, global))",
                "__fmul_rn(__fmul_rn(__uint_as_float(amax), 1.0f / largest), __frcp_rn(global))",
            ),
            NVFP4_REAL,
            Stage::Quantize,
        ),
        fault(
            "a token's global scale by a reciprocal",
            "mx.cuh",
            ("__fdiv_rn(__uint_as_float(amax), 2688.0f)", "__fmul_rn(__uint_as_float(amax), 1.0f / 2688.0f)"),
            TOKENS_REAL,
            Stage::Quantize,
        ),
    ]
}

fn scales() -> Vec<Fault> {
    vec![
        fault(
            "the scales of the last group are those of the first",
            "gemm.cuh",
            (
                "u32 word = (first_part + part) / WORD_PARTS;",
                "u32 word = (first_part + part) / WORD_PARTS;\n            if ((word + 1) * WORD_K >= p.k_used)\n                word = 0;",
            ),
            NVFP4,
            Stage::Fc1,
        ),
        fault(
            "block 32 taken for 16 by the GEMM",
            "format.cuh",
            ("#define SCALE_BLOCK (W_FORMAT == FORMAT_NVFP4 ? 16 : 32)", "#define SCALE_BLOCK 32"),
            NVFP4_PORTABLE,
            Stage::Fc1,
        ),
        fault(
            "block 32 taken for 16 by the quantizer",
            "format.cuh",
            ("#define A_BLOCK (A_FORMAT == FORMAT_NVFP4 ? 16 : 32)", "#define A_BLOCK 32"),
            NVFP4,
            Stage::Quantize,
        ),
        fault(
            "ue4m3 read as ue8m0 by the tensor core",
            "gemm.cuh",
            ("4X.f32.e2m1.e2m1.f32.ue4m3", "4X.f32.e2m1.e2m1.f32.ue8m0"),
            NVFP4,
            Stage::Fc1,
        ),
        fault(
            "ue4m3 read as ue8m0 by the portable path",
            "gemm.cuh",
            (
                "DEVICE u32 scale_pair(u32 code)\n{\n#if SCALE_BLOCK == 16",
                "DEVICE u32 scale_pair(u32 code)\n{\n#if 0",
            ),
            NVFP4_PORTABLE,
            Stage::Fc1,
        ),
        fault(
            "both blocks of a part with the first one's scale",
            "gemm.cuh",
            ("place_in_word * 2 + half : place_in_word", "place_in_word * 2 : place_in_word"),
            NVFP4_PORTABLE,
            Stage::Fc1,
        ),
        fault(
            "an expert's scales as if a block had 32",
            "problem.cuh",
            (
                "weight_scale_rows(p.n) * (p.k_padded / SCALE_BLOCK)",
                "weight_scale_rows(p.n) * (p.k_padded / 32)",
            ),
            NVFP4,
            Stage::Fc1,
        ),
        fault(
            "the second half of a word never selected",
            "gemm.cuh",
            ("        MMA(0);\n    else\n        MMA(2);", "        MMA(0);\n    else\n        MMA(0);"),
            MXFP4,
            Stage::Fc1,
        ),
        fault(
            "a ue4m3 scale cut instead of rounded",
            "mx.cuh",
            ("return (bits + 0x7FFFF + (bits >> 20 & 1) >> 20)", "return (bits >> 20)"),
            NVFP4_REAL,
            Stage::Quantize,
        ),
        fault(
            "a ue4m3 NaN taken for 480",
            "mx.cuh",
            ("return code == 0x7F ? __uint_as_float(0x7FC00000u) : ", "return "),
            BF16_SPECIAL,
            Stage::Fc1,
        ),
        fault(
            "e2m1 scaled as if it were e4m3",
            "mx.cuh",
            ("#define LARGEST_EXPONENT 2", "#define LARGEST_EXPONENT 8"),
            MXFP4,
            Stage::Quantize,
        ),
    ]
}

fn globals() -> Vec<Fault> {
    vec![
        fault(
            "the global scale forgotten",
            "problem.cuh",
            ("    sum = __fmul_rn(sum, p.global[w.slot]);\n", ""),
            NVFP4,
            Stage::Fc1,
        ),
        fault(
            "the global scale of the first expert",
            "problem.cuh",
            ("p.global[w.slot]", "p.global[0]"),
            NVFP4,
            Stage::Fc1,
        ),
        fault(
            "the global scale applied to the bias too",
            "problem.cuh",
            ("sum = __fadd_rn(sum, p.bias", "sum = __fadd_rn(sum, p.global[w.slot] * p.bias"),
            NVFP4,
            Stage::Fc1,
        ),
        fault(
            "a quantizer without the global scale",
            "mx.cuh",
            ("__fmul_rn(largest, global)", "largest"),
            NVFP4,
            Stage::Quantize,
        ),
        fault(
            "a quantizer with the first expert's global scale",
            "mx.cuh",
            ("return global[slot];", "return global[0];"),
            NVFP4,
            Stage::Quantize,
        ),
    ]
}

fn tokens() -> Vec<Fault> {
    vec![
        fault(
            "a token's global scale forgotten",
            "problem.cuh",
            ("    sum = __fmul_rn(sum, p.token_scale[w.row + token]);\n", ""),
            TOKENS,
            Stage::Fc1,
        ),
        fault(
            "the global scale of the tile's first token",
            "problem.cuh",
            ("p.token_scale[w.row + token]", "p.token_scale[w.row]"),
            TOKENS,
            Stage::Fc1,
        ),
        fault(
            "the global scale of a token's place in its tile",
            "problem.cuh",
            ("p.token_scale[w.row + token]", "p.token_scale[token]"),
            TOKENS,
            Stage::Fc1,
        ),
        fault(
            "a token's largest magnitude by one warp",
            "mx.cuh",
            ("return max(max(of_warp[0], of_warp[1]), max(of_warp[2], of_warp[3]));", "return of_warp[0];"),
            TOKENS_REAL,
            Stage::Quantize,
        ),
        fault(
            "a token's largest magnitude of its first 1,024 values",
            "mx.cuh",
            ("at < k; at += 1024", "at < k; at += k"),
            TOKENS_REAL,
            Stage::Quantize,
        ),
        fault(
            "a token's largest magnitude without its sign's other side",
            "mx.cuh",
            (
                "amax = max(amax, __float_as_uint(x[i]) & 0x7FFFFFFFu);\n    }\n    float scale",
                "amax = max(amax, __float_as_uint(max_nan(x[i], 0.0f)));\n    }\n    float scale",
            ),
            TOKENS_REAL,
            Stage::Quantize,
        ),
        fault(
            "a global scale for block scales up to 256",
            "mx.cuh",
            ("__fdiv_rn(__uint_as_float(amax), 2688.0f)", "__fdiv_rn(__uint_as_float(amax), 1536.0f)"),
            TOKENS,
            Stage::Quantize,
        ),
    ]
}

fn four_over_six() -> Vec<Fault> {
    let compared = "if (error_of_four < error_of_six) {";
    vec![
        fault("always six", "mx.cuh", (compared, "if (false) {"), FOUR_OVER_SIX, Stage::Quantize),
        fault(
            "four where it errs more",
            "mx.cuh",
            (compared, "if (error_of_four > error_of_six) {"),
            FOUR_OVER_SIX,
            Stage::Quantize,
        ),
        fault(
            "the scale of four with the codes of six",
            "mx.cuh",
            ("        *codes = of_four;\n", ""),
            FOUR_OVER_SIX,
            Stage::Quantize,
        ),
        fault(
            "the errors of half a block",
            "mx.cuh",
            ("*error = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));", "*error = sum;"),
            FOUR_OVER_SIX,
            Stage::Quantize,
        ),
        fault(
            "squares where magnitudes are compared",
            "mx.cuh",
            ("RULE_FOUR_OVER_SIX_MSE ? __fmul_rn", "RULE_FOUR_OVER_SIX_MAE ? __fmul_rn"),
            FOUR_OVER_SIX,
            Stage::Quantize,
        ),
    ]
}

fn codes() -> Vec<Fault> {
    vec![
        fault(
            "nibbles exchanged by the quantizer",
            "mx.cuh",
            ("<< 4 * i;", "<< 4 * (i ^ 1);"),
            NVFP4,
            Stage::Quantize,
        ),
        fault(
            "e2m1 without its sign",
            "mx.cuh",
            ("return code | __float_as_uint(x) >> 31 << 3;", "return code;"),
            NVFP4,
            Stage::Quantize,
        ),
        fault("4 where 6 is nearest", "mx.cuh", ("(a > 5.0f)", "(a > 6.0f)"), MXFP4, Stage::Quantize),
        fault(
            "a wrong threshold between 1.5 and 2",
            "mx.cuh",
            ("(a >= 1.75f)", "(a >= 2.0f)"),
            NVFP4_REAL,
            Stage::Quantize,
        ),
        fault(
            "elements of bf16 in another order than weights",
            "gemm.cuh",
            ("__byte_perm(low, high, 0x5410)", "low"),
            BF16,
            Stage::Fc1,
        ),
    ]
}

fn loads() -> Vec<Fault> {
    vec![
        fault(
            "the coordinate of tokens in elements",
            "tma.cuh",
            ("\"r\"(at / SLAB_K * TOKEN_ROW), \"r\"(from.row)", "\"r\"(at), \"r\"(from.row)"),
            nvfp4(Load::Tma),
            Stage::Fc1,
        ),
        fault(
            "an expert's tokens at an address in elements",
            "gemm_tma_replace.cu",
            ("p.k_padded * A_BITS / 8;", "p.k_padded;"),
            nvfp4(Load::TmaReplace),
            Stage::Fc1,
        ),
        fault(
            "an expert's weights of four bits where they have eight",
            "gemm_tma_replace.cu",
            ("p.k_padded * W_BITS / 8;", "p.k_padded / 2;"),
            ("mxfp8-exact", MmaPath::Native, Load::TmaReplace),
            Stage::Fc1,
        ),
        fault(
            "half of every chunk of weights copied",
            "gemm_cp_async.cu",
            ("#define WEIGHT_COPY (WEIGHT_CHUNK * W_BITS / 8)", "#define WEIGHT_COPY 8"),
            MXFP8,
            Stage::Fc1,
        ),
    ]
}

fn others() -> Vec<Fault> {
    vec![
        fault(
            "what lies behind K is multiplied in the last part",
            "gemm.cuh",
            ("bool half = PART_K == 64 &&", "bool half = false &&"),
            MXFP4,
            Stage::Fc1,
        ),
        fault(
            "weights of eight bits unpacked as if they had four",
            "gemm.cuh",
            ("#define UNPACKED (A_BITS == 8 && W_BITS == 4)", "#define UNPACKED (A_BITS == 8)"),
            MXFP8,
            Stage::Fc1,
        ),
    ]
}
