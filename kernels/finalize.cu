//@ about: "Each token sums the weighted rows of its experts in the order of its choices."
//@ stage: finalize
//@ entry: finalize
//@ needs: []
//@ grid: ["ceil_div(hidden, 256)", "tokens"]
//@ block: "128"
//@ args: [fc2_out, w2_bias, expert_slot, topk_ids, topk_weights, row_of_choice, output, hidden, top_k]
//@ contract: {deterministic: true}
#include "mx.cuh"

// Two columns per thread.
extern "C" __global__ void __launch_bounds__(128)
finalize(const u16* fc2_out, const float* bias, const i32* expert_slot, const i32* topk_ids, const float* topk_weights,
         const i32* row_of_choice, u16* output, u32 hidden, u32 top_k)
{
    let_successor_start();
    wait_for_predecessor();
    u32 column = (blockIdx.x * 128 + threadIdx.x) * 2, token = blockIdx.y;
    if (column >= hidden)
        return;
    float low = 0.0f, high = 0.0f;
    for (u32 slot = 0; slot < top_k; ++slot) {
        u32 choice = token * top_k + slot;
        u32 pair = *(const u32*)(fc2_out + (u64)row_of_choice[choice] * hidden + column);
        float x = from_bf16(pair & 0xFFFF), y = from_bf16(pair >> 16), weight = topk_weights[choice];
#if BIAS_HERE
        const float* add = bias + (u64)expert_slot[topk_ids[choice]] * hidden + column;
        x = __fadd_rn(x, add[0]);
        y = __fadd_rn(y, add[1]);
#endif
        low = __fmaf_rn(weight, x, low);
        high = __fmaf_rn(weight, y, high);
    }
    *(u32*)(output + (u64)token * hidden + column) = to_bf16(low) | (u32)to_bf16(high) << 16;
}
