//@ about: "Quantizes queries to NVFP4: e2m1 codes, a ue4m3 scale for 16 elements of a head, and one factor of all of them."
//@ family: attention
//@ stage: quantize_queries
//@ entry: attention_quantize_queries
//@ needs: []
//@ grid: ["rows"]
//@ block: "32"
//@ args: [queries, query_codes, query_scales, heads, query_factor]
//@ contract: {deterministic: true, quantizes: {rounding: nearest_even, scale: sixth_of_largest, factor: argument}}
#include "block_scaled.cuh"

// A thread quantizes blocks of 16 elements of the heads of a row, one after the other.
extern "C" __global__ void __launch_bounds__(32)
attention_quantize_queries(const u16* queries, u8* query_codes, u8* query_scales, u32 heads, u32 query_factor)
{
    const u32 blocks = HEAD / 16;
    float factor = __uint_as_float(query_factor);
    for (u32 n = threadIdx.x; n < heads * blocks; n += blockDim.x) {
        u64 at = (u64)blockIdx.x * heads * blocks + n;
        const uint4* from = (const uint4*)(queries + at * 16);
        float x[16], most = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            uint4 eight = from[i / 8];
            u32 two = i % 8 / 2 == 0 ? eight.x : i % 8 / 2 == 1 ? eight.y : i % 8 / 2 == 2 ? eight.z : eight.w;
            x[i] = unpack(two >> i % 2 * 16 & 0xFFFF);
            most = fmaxf(most, fabsf(x[i]));
        }
        u32 scale = to_ue4m3(__fdiv_rn(most, __fmul_rn(6.0f, factor)));
        float unit = __fmul_rn(from_ue4m3(scale), factor);
        u32 codes[2] = {0, 0};
#pragma unroll
        for (u32 i = 0; i < 16; ++i)
            codes[i / 8] |= (scale == 0 ? 0 : to_e2m1(__fdiv_rn(x[i], unit))) << i % 8 * 4;
        *(uint2*)(query_codes + at * 8) = make_uint2(codes[0], codes[1]);
        query_scales[at] = (u8)scale;
    }
}
