// Top-k selection and weights by the router's rule, for every way of computing e^x.
#pragma once
#include "mx.cuh"

#define MOST_EXPERTS 1024
// Experts are chosen by their logits; no scores are computed for the choice.
#define LOGITS_CHOOSE (!SCORES_SOFTMAX_ALL && !SCORES_SIGMOID)
#define GROUPED (GROUPS_TOP_TWO || GROUPS_MAX)

// Maps floats to unsigned numbers of the same order: -0 = +0, every NaN greatest.
DEVICE u32 key_of(float x)
{
    if (x != x)
        return ~0u;
    u32 bits = x == 0.0f ? 0 : __float_as_uint(x);
    return bits ^ (bits >> 31 ? ~0u : 0x80000000u);
}

// The maximum that softmax over all logits of a token subtracts, and the sum that it divides by.
struct Softmax {
    float greatest, sum;
};

DEVICE Softmax softmax_of(const float* logits, u32 experts)
{
    u32 lane = threadIdx.x & 31;
    Softmax all = {__uint_as_float(0xFF800000), 0.0f};
    for (u32 i = lane; i < experts; i += 32)
        all.greatest = max_nan(all.greatest, logits[i]);
    for (u32 d = 16; d > 0; d /= 2)
        all.greatest = max_nan(all.greatest, __shfl_xor_sync(~0u, all.greatest, d));
    for (u32 expert = lane; expert < experts; expert += 32)
        all.sum = __fadd_rn(all.sum, exponential(__fsub_rn(logits[expert], all.greatest)));
    for (u32 d = 16; d > 0; d /= 2)
        all.sum = __fadd_rn(all.sum, __shfl_xor_sync(~0u, all.sum, d));
    return all;
}

DEVICE float score_of(float logit, Softmax all)
{
#if SCORES_SIGMOID
    return __fdiv_rn(1.0f, __fadd_rn(1.0f, exponential(-logit)));
#else
    return __fdiv_rn(exponential(__fsub_rn(logit, all.greatest)), all.sum);
#endif
}

// A mask of the groups that are kept. Lane g ranks group g.
DEVICE u32 groups_of(const float* keys, u32 size, u32 groups, u32 kept)
{
    u32 lane = threadIdx.x & 31;
    float first = __uint_as_float(0xFF800000), second = first;
    for (u32 i = 0; lane < groups && i < size; ++i) {
        float key = keys[lane * size + i];
        second = max_nan(second, min_nan(first, key));
        first = max_nan(first, key);
    }
#if GROUPS_TOP_TWO
    first = __fadd_rn(first, second);
#endif
    u32 mine = key_of(first), rank = 0;
    for (u32 g = 0; g < groups; ++g) {
        u32 other = __shfl_sync(~0u, mine, g);
        rank += other > mine || (other == mine && g < lane);
    }
    return __ballot_sync(~0u, lane < groups && rank < kept);
}

// One warp per token.
extern "C" __global__ void __launch_bounds__(128)
route(const float* router_logits, const float* correction_bias, i32* topk_ids, float* topk_weights, u32 tokens, u32 experts,
      u32 chosen, u32 top_k, u32 groups, u32 groups_kept, float scaling)
{
    let_successor_start();
    wait_for_predecessor();
    u32 lane = threadIdx.x & 31, token = blockIdx.x * 4 + (threadIdx.x >> 5);
    if (token >= tokens)
        return;
    const float* logits = router_logits + (u64)token * experts;
#if LOGITS_CHOOSE
    const float* keys = logits;
#else
    __shared__ float of_warp[4][MOST_EXPERTS];
    float* keys = of_warp[threadIdx.x >> 5];
    Softmax all = {};
#if SCORES_SOFTMAX_ALL
    all = softmax_of(logits, experts);
#endif
    for (u32 i = lane; i < experts; i += 32)
        keys[i] = __fadd_rn(score_of(logits[i], all), correction_bias[i]);
    __syncwarp();
#endif
#if GROUPED
    u32 size = experts / groups, open = groups_of(keys, size, groups, groups_kept);
#endif
    // Lane j holds choice j.
    u32 mine = 0;
    u32 last_key = ~0u, last = 0;
    for (u32 slot = 0; slot < chosen; ++slot) {
        // The best expert after the last choice: a smaller key, or an equal one with a greater index.
        u32 best_key = 0, best = ~0u;
        for (u32 i = lane; i < experts; i += 32) {
            u32 key = key_of(keys[i]);
            bool behind = slot == 0 || key < last_key || (key == last_key && i > last);
#if GROUPED
            behind = behind && (open >> (i / size) & 1);
#endif
            if (behind && (best == ~0u || key > best_key)) {
                best_key = key;
                best = i;
            }
        }
        last_key = __reduce_max_sync(~0u, best == ~0u ? 0 : best_key);
        last = __reduce_min_sync(~0u, best != ~0u && best_key == last_key ? best : ~0u);
        if (lane == slot)
            mine = last;
    }
    float logit = lane < chosen ? logits[mine] : 0.0f;
#if LOGITS_CHOOSE
    float greatest = __shfl_sync(~0u, logit, 0);
    float e = exponential(__fsub_rn(logit, greatest));
#else
    float e = score_of(logit, all);
#endif
#if RENORMALISE
    float sum = 0.0f;
    for (u32 slot = 0; slot < chosen; ++slot)
        sum = __fadd_rn(sum, __shfl_sync(~0u, e, slot));
    e = __fdiv_rn(e, sum);
#endif
    float weight = __fmul_rn(e, scaling);
    // Shared experts follow the chosen ones, each with weight 1.
    if (lane >= chosen) {
        mine = experts + lane - chosen;
        weight = 1.0f;
    }
    if (lane < top_k) {
        topk_ids[token * top_k + lane] = (i32)mine;
        topk_weights[token * top_k + lane] = weight;
    }
}
