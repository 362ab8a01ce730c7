//@ about: "Selects the top-k experts by router logits or scores and computes their weights; ties go to the lowest index, NaN counts as greatest; e^x by ex2.approx."
//@ stage: route
//@ entry: route
//@ needs: [ex2_approx_f32]
//@ grid: ["ceil_div(tokens, 4)"]
//@ block: "128"
//@ args: [router_logits, correction_bias, topk_ids, topk_weights, tokens, routed_experts, chosen, top_k, groups, groups_kept, routed_scaling]
//@ defines: {EX2_APPROX: "1"}
//@ contract: {exp: ex2_approx, deterministic: true}
#include "route.cuh"
