//! Faults in what a stage hands on beside its tensors, and in the last bits of weights and activations.

use sm121probe::kernel::{Load, MmaPath};
use sm121probe::moe::Stage;

use super::Fault;

const NATIVE: MmaPath = MmaPath::Native;
const PORTABLE: MmaPath = MmaPath::Portable;

/// All of these faults.
pub(crate) fn all() -> Vec<Fault> {
    let fault = |name, file, (from, to), (case, tile, path, load), stage, says| Fault {
        name,
        file,
        from,
        to,
        case,
        tile,
        path,
        load,
        stage,
        says,
    };
    vec![
        fault(
            "the tile of every part of an expert at its first row",
            "permute.cu",
            ("tile_row[tile + j] = (i32)(row + j * tile_m);", "tile_row[tile + j] = (i32)row;"),
            ("m320", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Permute,
            "tile 1 begins at row",
        ),
        fault(
            "tiles of the neighbouring expert",
            "permute.cu",
            ("tile_expert[tile + j] = (i32)expert;", "tile_expert[tile + j] = (i32)(expert ^ 1);"),
            ("m320", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Permute,
            "tile 0 begins at row",
        ),
        fault(
            "the last tile left out",
            "permute.cu",
            ("*tile_count = (i32)tiles_before;", "*tile_count = (i32)tiles_before - 1;"),
            ("m320", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Permute,
            "tile_count is",
        ),
        fault(
            "the last expert without its last row",
            "permute.cu",
            ("expert_offset[experts] = (i32)rows_before;", "expert_offset[experts] = (i32)rows_before - 1;"),
            ("m320", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Permute,
            "expert_offset[",
        ),
        fault(
            "the row of a choice that its expert begins with",
            "permute.cu",
            ("row_of_choice[i] = (i32)to;", "row_of_choice[i] = (i32)row;"),
            ("m320", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Permute,
            "row_of_choice[",
        ),
        fault(
            "ln 2 in one part",
            "mx.cuh",
            (
                "    float r = __fmaf_rn(n, -0.693145752f, x);\n    r = __fmaf_rn(n, -1.42860677e-6f, r);\n",
                "    float r = __fmaf_rn(n, -0.693147182f, x);\n",
            ),
            ("exp-wide", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Route,
            "",
        ),
        fault(
            "n times ln 2 rounded",
            "mx.cuh",
            (
                "    float r = __fmaf_rn(n, -0.693145752f, x);\n    r = __fmaf_rn(n, -1.42860677e-6f, r);\n",
                "    float r = __fsub_rn(x, __fmul_rn(n, 0.693147182f));\n",
            ),
            ("exp-wide", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Route,
            "",
        ),
        fault(
            "weights by an undeclared ex2",
            "route.cuh",
            ("exponential(__fsub_rn(logit, greatest))", "__expf(__fsub_rn(logit, greatest))"),
            ("exp-wide", "8x64x128", NATIVE, Load::CpAsync),
            Stage::Route,
            "",
        ),
        fault(
            "activation by an undeclared ex2",
            "swiglu_quantize.cuh",
            ("exponential(-__fmul_rn(alpha, gate))", "__expf(-__fmul_rn(alpha, gate))"),
            ("exp-wide-bf16", "8x64x128", PORTABLE, Load::CpAsync),
            Stage::Activation,
            "",
        ),
    ]
}
