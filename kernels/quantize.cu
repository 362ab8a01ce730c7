//@ about: "The hidden states of every permuted row in MXFP8: e4m3 codes and one ue8m0 scale per 32, by integer rules on the bits."
//@ stage: quantize
//@ entry: quantize
//@ needs: [cvt_e4m3x2]
//@ grid: ["ceil_div(k_padded / 32, 32)", "rows"]
//@ block: "128"
//@ args: [hidden_states, row_token, row_expert, expert_offset, a_codes, a_scales, k, k_padded]
//@ contract: {deterministic: true}
#include "mx.cuh"

// Four threads per block of 32, 32 blocks per CTA; blocks behind k get zero codes and a finite scale, for the GEMM reads them.
extern "C" __global__ void __launch_bounds__(128)
quantize(const u16* hidden_states, const i32* row_token, const i32* row_expert, const i32* expert_offset, u8* codes, u8* scales,
         u32 k, u32 k_padded)
{
    let_successor_start();
    wait_for_predecessor();
    u32 row = blockIdx.y, block = blockIdx.x * 32 + threadIdx.x / 4, part = threadIdx.x % 4, at = block * 32 + part * 8;
    float x[8] = {};
    if (at < k) {
        uint4 raw = *(const uint4*)(hidden_states + (u64)row_token[row] * k + at);
        u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            x[2 * i] = from_bf16(words[i] & 0xFFFF);
            x[2 * i + 1] = from_bf16(words[i] >> 16);
        }
    }
    uint2 packed;
    u32 scale = quantize_block(x, &packed);
    if (at >= k_padded)
        return;
    *(uint2*)(codes + (u64)row * k_padded + at) = packed;
    u32 expert = (u32)row_expert[row], first = (u32)expert_offset[expert];
    if (part == 0)
        scales[scale_at(scale_row_of_expert(first, expert) + row - first, block, k_padded / 32)] = (u8)scale;
}
