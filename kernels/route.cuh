// Top-k and softmax, whichever way e^x is computed.
#pragma once
#include "mx.cuh"

// Order of floats as unsigned numbers: -0 = +0, every NaN on top.
DEVICE u32 key_of(float x)
{
    if (x != x)
        return ~0u;
    u32 bits = x == 0.0f ? 0 : __float_as_uint(x);
    return bits ^ (bits >> 31 ? ~0u : 0x80000000u);
}

// One warp per token.
extern "C" __global__ void __launch_bounds__(128)
route(const float* router_logits, i32* topk_ids, float* topk_weights, u32 tokens, u32 experts, u32 top_k)
{
    let_successor_start();
    wait_for_predecessor();
    u32 lane = threadIdx.x & 31, token = blockIdx.x * 4 + (threadIdx.x >> 5);
    if (token >= tokens)
        return;
    const float* logits = router_logits + (u64)token * experts;
    // Lane j keeps choice j.
    u32 mine = 0;
    u32 last_key = ~0u, last = 0;
    for (u32 slot = 0; slot < top_k; ++slot) {
        // The best that comes behind the last choice: smaller, or equal with a greater index.
        u32 best_key = 0, best = ~0u;
        for (u32 i = lane; i < experts; i += 32) {
            u32 key = key_of(logits[i]);
            bool behind = slot == 0 || key < last_key || (key == last_key && i > last);
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
    float logit = lane < top_k ? logits[mine] : 0.0f;
    float greatest = __shfl_sync(~0u, logit, 0);
    float e = exponential(__fsub_rn(logit, greatest));
    float sum = 0.0f;
    for (u32 slot = 0; slot < top_k; ++slot)
        sum = __fadd_rn(sum, __shfl_sync(~0u, e, slot));
    if (lane < top_k) {
        topk_ids[token * top_k + lane] = (i32)mine;
        topk_weights[token * top_k + lane] = __fdiv_rn(e, sum);
    }
}
