// Clamped SwiGLU and quantization in one pass, for every way of computing e^x.
#pragma once
#include "mx.cuh"

DEVICE float swiglu(float gate, float up, float alpha, float beta, float limit)
{
    gate = min_nan(gate, limit);
    up = max_nan(min_nan(up, limit), -limit);
    float sigmoid = __fdiv_rn(1.0f, __fadd_rn(1.0f, exponential(-__fmul_rn(alpha, gate))));
    return __fmul_rn(__fmul_rn(gate, sigmoid), __fadd_rn(up, beta));
}

extern "C" __global__ void __launch_bounds__(128)
swiglu_quantize(const u16* fc1_out, const float* bias, const i32* expert_slot, const i32* row_expert, const i32* expert_offset,
                const float* global, float* token_scale, u8* codes, u8* scales, u32 k, u32 k_padded, float alpha, float beta, float limit)
{
    let_successor_start();
    wait_for_predecessor();
    u32 row = blockIdx.y, block = blockIdx.x * 32 + threadIdx.x / 4, part = threadIdx.x % 4, at = block * 32 + part * 8;
    u32 expert = (u32)row_expert[row], first = (u32)expert_offset[expert];
    const u16* from = fc1_out + (u64)row * 2 * k;
#if BIAS_HERE
    const float* add = bias + (u64)expert_slot[expert] * 2 * k;
#endif
    auto values = [=](u32 at, float* x) {
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
#if GATE_UP_INTERLEAVED
            u32 g = 2 * (at + i), u = g + 1;
#elif GATE_FIRST
            u32 g = at + i, u = k + g;
#else
            u32 u = at + i, g = k + u;
#endif
            float gate = from_bf16(from[g]), up = from_bf16(from[u]);
#if BIAS_HERE
            gate = __fadd_rn(gate, add[g]);
            up = __fadd_rn(up, add[u]);
#endif
            x[i] = swiglu(gate, up, alpha, beta, limit);
        }
    };
    float x[8] = {};
    if (at < k)
        values(at, x);
    Codes packed;
    u32 scale = quantize_block(x, &packed, global_scale(values, global, (u32)expert_slot[expert], token_scale, row, k));
    if (at >= k_padded)
        return;
    store_block(codes, scales, packed, scale, row, first, expert, at, k_padded);
}
