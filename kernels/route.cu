//@ about: "Top-k of the router logits and softmax over the chosen; ties go to the lowest index, NaN counts as greatest."
//@ stage: route
//@ entry: route
//@ needs: []
//@ grid: ["ceil_div(tokens, 4)"]
//@ block: "128"
//@ args: [router_logits, topk_ids, topk_weights, tokens, experts, top_k]
//@ contract: {exp: fma, deterministic: true}
#include "route.cuh"
