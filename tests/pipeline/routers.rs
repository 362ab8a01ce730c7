//! Faults of routers and shared experts, and legal changes of their arithmetic.

use sm121probe::kernel::{Load, MmaPath};
use sm121probe::moe::Stage;

use super::Fault;

/// DeepSeek-V3's router, Qwen3's, softmax over all experts, and shared experts that every token visits.
const GROUPS: &str = "router-sigmoid-groups";
const RENORMALISED: &str = "router-softmax-all";
const RAW: &str = "router-softmax-raw";
const SHARED: &str = "shared-experts";

/// Where the kernel computes the score of a chosen logit, divides by the sum, and applies the sigmoid.
const SCORE: &str = "float e = score_of(logit, all);";
const QUOTIENT: &str = "e = __fdiv_rn(e, sum);";
const SIGMOID: &str = "return __fdiv_rn(1.0f, __fadd_rn(1.0f, exponential(-logit)));";

fn change(name: &'static str, from: &'static str, to: &'static str, case: &'static str) -> Fault {
    let says = "";
    let (tile, path, load) = ("8x64x128", MmaPath::Native, Load::CpAsync);
    Fault { name, file: "route.cuh", from, to, case, tile, path, load, stage: Stage::Route, says }
}

/// All of these faults.
pub(crate) fn all() -> Vec<Fault> {
    vec![
        change("the correction bias in the weight", SCORE, "float e = keys[mine];", GROUPS),
        change("the correction bias forgotten", ", correction_bias[i])", ", 0.0f)", GROUPS),
        change("sigmoids not renormalised", QUOTIENT, "", GROUPS),
        change("softmax over all not renormalised", QUOTIENT, "", RENORMALISED),
        change("a group too many", "rank < kept", "rank <= kept", GROUPS),
        change("a group too few", "rank < kept", "rank + 1 < kept", GROUPS),
        change("the neighbouring group", "open >> (i / size) & 1", "open >> (i / size + 1) & 1", GROUPS),
        change("groups by their greatest key alone", "    first = __fadd_rn(first, second);\n", "", GROUPS),
        change(
            "groups by two keys where one counts",
            "#if GROUPS_TOP_TWO\n",
            "#if 1\n",
            "router-softmax-groups",
        ),
        Fault {
            says: "nothing orders lanes without `bar.warp.sync`",
            ..change("lanes that do not wait for the keys of the others", "    __syncwarp();\n", "", GROUPS)
        },
        change("the scaling factor forgotten", "__fmul_rn(e, scaling)", "e", GROUPS),
        change(
            "the scaling factor twice",
            "__fmul_rn(e, scaling)",
            "__fmul_rn(__fmul_rn(e, scaling), scaling)",
            GROUPS,
        ),
        change(
            "softmax over the chosen where all is meant",
            SCORE,
            "float e = exponential(__fsub_rn(logit, all.greatest)), part = 0.0f;\n\
             for (u32 slot = 0; slot < chosen; ++slot) part = __fadd_rn(part, __shfl_sync(~0u, e, slot));\n\
             e = __fdiv_rn(e, part);",
            RAW,
        ),
        change(
            "the shared expert in the sum",
            "slot < chosen; ++slot)\n        sum",
            "slot < top_k; ++slot)\n        sum",
            GROUPS,
        ),
        change("the shared expert scaled", "weight = 1.0f;", "weight = scaling;", GROUPS),
        change("the first shared expert twice", "experts + lane - chosen", "experts", SHARED),
        change(
            "a routed expert for a shared one",
            "experts + lane - chosen",
            "experts + lane - chosen - 1",
            SHARED,
        ),
    ]
}

/// Other ways to compute the same numbers, each similar to one of the faults.
pub(crate) fn legal() -> Vec<Fault> {
    vec![
        change("the sigmoid by tanh", SIGMOID, "return __fmaf_rn(0.5f, tanhf(0.5f * logit), 0.5f);", GROUPS),
        change("the reciprocal of the sum", QUOTIENT, "e = __fmul_rn(e, __fdiv_rn(1.0f, sum));", GROUPS),
        change("an epsilon in the sum", QUOTIENT, "e = __fdiv_rn(e, __fadd_rn(sum, 1e-20f));", GROUPS),
        change(
            "the factor before the quotient",
            QUOTIENT,
            "e = __fdiv_rn(__fmul_rn(e, 0.5f), __fmul_rn(sum, 0.5f));",
            GROUPS,
        ),
        change(
            "softmax over the chosen where both are the same",
            SCORE,
            "float e = exponential(__fsub_rn(logit, all.greatest));",
            RENORMALISED,
        ),
    ]
}
