// NVFP4 in registers: the block-scaled mma of SM12x, the same sums without it, and the rounding of scales and codes.
#pragma once
#include "attention.cuh"

// The nearest e2m1 to a number, ties to the even code, at most 6.
DEVICE u32 to_e2m1(float x)
{
    float a = fabsf(x);
    u32 code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
    return code | (x < 0.0f ? 8 : 0);
}

// The nearest ue4m3 to a number that is not negative, ties to the even code, at most 448.
DEVICE u32 to_ue4m3(float x)
{
    if (x > 448.0f)
        return 0x7E;
    // Below 2^-6 the step is 2^-9, and code 8 is 2^-6.
    if (x < 0.015625f)
        return (u32)rintf(x * 512.0f);
    u32 bits = __float_as_uint(x);
    return (bits + 0x7FFFF + (bits >> 20 & 1) >> 20) - (120 << 3);
}

#if NATIVE

// d = A·B of 16 rows, 8 columns and 64 e2m1 along K. A lane holds elements 8t to 8t+7 of the first and of the second half of K, of rows g
// and g+8 and of column g, where g is lane / 4 and t is lane % 4. `row_scales` is that of row g in lanes with t = 0 and that of row g+8 in
// lanes with t = 1, `column_scales` that of column g: four scales each, for 16 elements along K.
DEVICE void multiply(float* d, const u32* a, const u32* b, u32 row_scales, u32 column_scales)
{
    asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10}, {%11}, {0, 0}, {%12}, {0, 0};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f), "r"(row_scales), "r"(column_scales));
}

#else // portable: bf16 mma sums the products of 16 codes exactly

// The value of a ue4m3, NaN included.
DEVICE float scale_value(u32 code)
{
    return (code & 0x7F) == 0x7F ? __int_as_float(0x7FC00000) : from_ue4m3(code);
}

// Two e2m1, each in the low nibble of a half of a word, as bf16: the sign moves to bit 15, the rest to bits 8 to 6, which read as a bf16
// are the value times 2^-126.
DEVICE u32 to_bf16_pair(u32 codes)
{
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(d) : "r"((codes << 12 & 0x80008000) | (codes << 6 & 0x01C001C0)), "r"(0x7E807E80), "r"(0x80008000));
    return d;
}

// Four codes of a half word as two registers of an mma. Both operands permute the elements of a group alike, so the sum is the same.
DEVICE void widen(u32 four, u32& first, u32& second)
{
    u32 codes = __byte_perm(four, 0, 0x4140);
    first = to_bf16_pair(codes & 0x000F000F);
    second = to_bf16_pair(codes >> 4 & 0x000F000F);
}

// As the block-scaled mma, with the operands in the same registers. The sum of a group of 16 products is exact, as is its product with two
// scales, a multiple of 2^-20 below 2^27. The four are added exactly and cut toward zero to 24 bits, as the tensor core of SM12x does.
// It is called, not inlined: of 32 copies ptxas takes seconds.
__device__ __noinline__ float4 block_scaled_product(uint4 rows, uint2 columns, u32 row_scales, u32 column_scales)
{
    u32 a[4] = {rows.x, rows.y, rows.z, rows.w}, b[2] = {columns.x, columns.y};
    u32 lane = threadIdx.x & 31, quad = lane & ~3u, t = lane & 3;
    u32 of_row[2] = {__shfl_sync(~0u, row_scales, quad), __shfl_sync(~0u, row_scales, quad + 1)};
    u32 of_column[2] = {__shfl_sync(~0u, column_scales, t * 8), __shfl_sync(~0u, column_scales, t * 8 + 4)};
    i64 sum[4] = {};
    bool nan[4] = {};
#pragma unroll
    for (u32 group = 0; group < 4; ++group) {
        // Two lanes of the quad hold the group: each of the four takes four of its elements.
        u32 half = group / 2, from = quad + group % 2 * 2 + t / 2, shift = t % 2 * 16;
        u32 x[4], y[2];
        widen(__shfl_sync(~0u, a[half * 2], from) >> shift, x[0], x[2]);
        widen(__shfl_sync(~0u, a[half * 2 + 1], from) >> shift, x[1], x[3]);
        widen(__shfl_sync(~0u, b[half], from) >> shift, y[0], y[1]);
        float products[4];
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                     : "=f"(products[0]), "=f"(products[1]), "=f"(products[2]), "=f"(products[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "f"(0.0f));
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            float scales = scale_value(of_row[i / 2] >> group * 8 & 0xFF) * scale_value(of_column[i % 2] >> group * 8 & 0xFF);
            nan[i] |= scales != scales;
            sum[i] += __float2ll_rz(products[i] * scales * 1048576.0f);
        }
    }
    float d[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
        d[i] = nan[i] ? __int_as_float(0x7FC00000) : __ll2float_rz(sum[i]) * (1.0f / 1048576.0f);
    return make_float4(d[0], d[1], d[2], d[3]);
}

DEVICE void multiply(float* d, const u32* a, const u32* b, u32 row_scales, u32 column_scales)
{
    float4 product = block_scaled_product(make_uint4(a[0], a[1], a[2], a[3]), make_uint2(b[0], b[1]), row_scales, column_scales);
    d[0] = product.x, d[1] = product.y, d[2] = product.z, d[3] = product.w;
}

#endif
