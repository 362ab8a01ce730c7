//@ about: "Quantizes the hidden states of every permuted row to the activations' format: codes and block scales."
//@ stage: quantize
//@ entry: quantize
//@ needs: [cvt_e4m3x2]
//@ formats: {nvfp4: {}, mxfp4: {}, mxfp8: {needs: [cvt_e4m3x2]}, bf16xmxfp4: {}, bf16xnvfp4: {}}
//@ grid: ["ceil_div(k_padded / 32, 32)", "rows"]
//@ block: "128"
//@ args: [hidden_states, row_token, row_expert, expert_slot, expert_offset, a_global, token_scale, a_codes, a_scales, k, k_padded]
//@ contract: {deterministic: true}
#include "mx.cuh"

// Eight elements per thread, 1024 per CTA; blocks beyond k get zero codes and a finite scale, since the GEMM reads them.
extern "C" __global__ void __launch_bounds__(128)
quantize(const u16* hidden_states, const i32* row_token, const i32* row_expert, const i32* expert_slot, const i32* expert_offset,
         const float* global, float* token_scale, u8* codes, u8* scales, u32 k, u32 k_padded)
{
    let_successor_start();
    wait_for_predecessor();
    u32 row = blockIdx.y, block = blockIdx.x * 32 + threadIdx.x / 4, part = threadIdx.x % 4, at = block * 32 + part * 8;
    const u16* from = hidden_states + (u64)row_token[row] * k;
    auto values = [=](u32 at, float* x) {
        uint4 raw = *(const uint4*)(from + at);
        u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            x[2 * i] = from_bf16(words[i] & 0xFFFF);
            x[2 * i + 1] = from_bf16(words[i] >> 16);
        }
    };
    float x[8] = {};
    if (at < k)
        values(at, x);
    u32 expert = (u32)row_expert[row];
    Codes packed;
    u32 scale = quantize_block(x, &packed, global_scale(values, global, (u32)expert_slot[expert], token_scale, row, k));
    if (at >= k_padded)
        return;
    store_block(codes, scales, packed, scale, row, (u32)expert_offset[expert], expert, at, k_padded);
}
