//@ about: "Each permuted row is weighted and added to the sums of its token by atomics; the last one rounds them to bf16."
//@ stage: finalize
//@ entry: finalize
//@ needs: [red_add_f32]
//@ grid: ["ceil_div(hidden, 256)", "choices"]
//@ block: "128"
//@ args: [fc2_out, w2_bias, expert_slot, topk_ids, topk_weights, row_of_choice, sums, arrivals, output, hidden, top_k]
//@ contract: {atomics: f32, deterministic: false}
#include "mx.cuh"

// Two columns per thread. `sums` and `arrivals` are zero before the launch and after it.
extern "C" __global__ void __launch_bounds__(128)
finalize(const u16* fc2_out, const float* bias, const i32* expert_slot, const i32* topk_ids, const float* topk_weights,
         const i32* row_of_choice, float* sums, u32* arrivals, u16* output, u32 hidden, u32 top_k)
{
    __shared__ u32 before;
    let_successor_start();
    wait_for_predecessor();
    u32 column = (blockIdx.x * 128 + threadIdx.x) * 2, choice = blockIdx.y, token = choice / top_k;
    float* low = sums + (u64)token * hidden + column;
    float* high = low + 1;
    u32* arrived = arrivals + (u64)token * gridDim.x + blockIdx.x;
    if (column < hidden) {
        u32 pair = *(const u32*)(fc2_out + (u64)row_of_choice[choice] * hidden + column);
        float x = from_bf16(pair & 0xFFFF), y = from_bf16(pair >> 16), weight = topk_weights[choice];
#if BIAS_HERE
        const float* add = bias + (u64)expert_slot[topk_ids[choice]] * hidden + column;
        x = __fadd_rn(x, add[0]);
        y = __fadd_rn(y, add[1]);
#endif
        asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(low), "f"(__fmul_rn(weight, x)) : "memory");
        asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(high), "f"(__fmul_rn(weight, y)) : "memory");
    }
    // The sums of this CTA are visible before its arrival.
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
    __syncthreads();
    if (before + 1 != top_k || column >= hidden)
        return;
    float x, y;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(low) : "memory");
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(y) : "l"(high) : "memory");
    *(u32*)(output + (u64)token * hidden + column) = to_bf16(x) | (u32)to_bf16(y) << 16;
    *low = 0.0f;
    *high = 0.0f;
    if (threadIdx.x == 0)
        *arrived = 0;
}
