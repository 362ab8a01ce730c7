// Shared by all kernels of the pipeline: types, bf16, NaN-propagating min and max, exp, scale layouts, block quantization.
#pragma once
#include "format.cuh"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

#define DEVICE __device__ __forceinline__

// A kernel that may overlap its predecessor (programmatic dependent launch) must not access the predecessor's data before this.
DEVICE void wait_for_predecessor()
{
#if PDL
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The successor's CTAs may start from here on; they see this grid's later writes after their wait.
DEVICE void let_successor_start()
{
#if PDL
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

DEVICE float from_bf16(u32 bits)
{
    return __uint_as_float(bits << 16);
}

// Rounds to nearest even; NaN stays NaN.
DEVICE u16 to_bf16(float x)
{
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// fminf and fmaxf drop NaN; these two propagate it.
DEVICE float min_nan(float a, float b)
{
    float d;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

DEVICE float max_nan(float a, float b)
{
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

#if EX2_APPROX

// e^x by the special function unit: a relative error of 2^-22 by the PTX ISA, and of 2^-23 |x| by rounding the argument.
DEVICE float exponential(float x)
{
    float d;
    asm("ex2.approx.f32 %0, %1;" : "=f"(d) : "f"(__fmul_rn(x, 1.44269504f)));
    return d;
}

#else

// e^x by multiplications and FMAs only, so that every device computes the same bits. Inf above 88.8, 0 below -103.9.
DEVICE float exponential(float x)
{
    x = max_nan(min_nan(x, 104.0f), -104.0f);
    float n = rintf(__fmul_rn(x, 1.44269504f));
    float r = __fmaf_rn(n, -0.693145752f, x);
    r = __fmaf_rn(n, -1.42860677e-6f, r);
    float p = 1.3888889e-3f;
    p = __fmaf_rn(p, r, 8.3333333e-3f);
    p = __fmaf_rn(p, r, 4.1666667e-2f);
    p = __fmaf_rn(p, r, 1.6666667e-1f);
    p = __fmaf_rn(p, r, 0.5f);
    p = __fmaf_rn(p, r, 1.0f);
    p = __fmaf_rn(p, r, 1.0f);
    // Two factors, since 2^n itself may not be an f32.
    i32 whole = (i32)n, half = whole >> 1;
    return __fmul_rn(__fmul_rn(p, __int_as_float((half + 127) << 23)), __int_as_float((whole - half + 127) << 23));
}

#endif

// First row of an expert's scales: a multiple of 128 for every expert, regardless of the number of rows before it.
DEVICE u32 scale_row_of_expert(u32 first_row, u32 expert)
{
    return (first_row + expert * 127) / 128 * 128;
}

// Byte offset of the scale of block `block` in row `row`; a row has `blocks` blocks, a multiple of 4.
DEVICE u64 scale_at(u32 row, u32 block, u32 blocks)
{
#if SCALES_8X4
    return ((u64)(row / 8) * (blocks / 4) + block / 4) * 32 + row % 8 * 4 + block % 4;
#else
    return ((u64)(row / 128) * (blocks / 4) + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
#endif
}

// The largest element is 448 = 1.75 * 2^8 or 6 = 1.5 * 2^2: its exponent and mantissa; the least mantissa that rounding to an
// element's precision carries into the exponent; and the mantissa below which the lower power of two is nearer to amax / largest.
#if A_BITS == 4
#define LARGEST_EXPONENT 2
#define LARGEST_MANTISSA 0x400000
#define CARRIES 0x600000
#define NEARER_BELOW 0x100000
#else
#define LARGEST_EXPONENT 8
#define LARGEST_MANTISSA 0x600000
#define CARRIES 0x780000
#define NEARER_BELOW 0x280000
#endif

// Scale byte of a block whose greatest magnitude has these f32 bits (sign clear). As bits, NaN > Inf > numbers.
DEVICE u32 scale_of(u32 amax)
{
    if (amax > 0x7F800000u)
        return 0xFF;
#if RULE_IDENTITY
    return 127;
#else
    if (amax == 0x7F800000u)
        return 0xFE;
    // Subnormals get code 0 under every rule.
    i32 exponent = (i32)(amax >> 23) - 127 - LARGEST_EXPONENT;
    u32 mantissa = amax & 0x7FFFFF;
#if RULE_FLOOR
#elif RULE_EVEN
    exponent += mantissa >= CARRIES;
#elif RULE_NEAREST
    exponent -= mantissa < NEARER_BELOW;
#elif RULE_RZ
    exponent -= mantissa < LARGEST_MANTISSA;
#else
    exponent += mantissa > LARGEST_MANTISSA;
#endif
    i32 code = exponent + 127;
    return code < 0 ? 0 : code > 254 ? 254 : code;
#endif
}

// 2^-X for scale code X + 127, exact; NaN for 0xFF.
DEVICE float inverse_scale(u32 code)
{
    return __uint_as_float(code == 0xFF ? 0x7FC00000u : code == 254 ? 0x00400000u : (254 - code) << 23);
}

// Two e4m3 codes, `low` in the low byte.
DEVICE u32 to_e4m3x2(float low, float high)
{
    u16 codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
}

// Rounds to nearest even, at most 6; by comparisons, since only sm_100 and later have the conversion.
DEVICE u32 to_e2m1(float x)
{
    float a = fabsf(x);
    u32 code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
    return code | __float_as_uint(x) >> 31 << 3;
}

// For x >= 0: rounds to nearest even, at most 448; NaN stays NaN. In integers, since only sm_89 and later have the conversion.
DEVICE u32 to_ue4m3(float x)
{
    if (!(x <= 448.0f))
        return x > 448.0f ? 0x7E : 0x7F;
    // Below 2^-6 the step is 2^-9, and code 8 is 2^-6.
    if (x < 0.015625f)
        return (u32)rintf(__fmul_rn(x, 512.0f));
    u32 bits = __float_as_uint(x);
    return (bits + 0x7FFFF + (bits >> 20 & 1) >> 20) - (120 << 3);
}

DEVICE float from_ue4m3(u32 code)
{
    // The code's bits, read as an f32, are the value times 2^-120, subnormals included.
    return code == 0x7F ? __uint_as_float(0x7FC00000u) : __fmul_rn(__uint_as_float(code << 20), __uint_as_float((127 + 120) << 23));
}

// Eight codes.
#if A_BITS == 16
typedef uint4 Codes;
#elif A_BITS == 8
typedef uint2 Codes;
#else
typedef u32 Codes;
#endif

#if TOKEN_SCALE

// Token scale of a row whose greatest magnitude has these f32 bits: that element becomes 6 with a block scale of 448.
DEVICE float token_scale_of(u32 amax)
{
    return amax == 0 ? 1.0f : __fdiv_rn(__uint_as_float(amax), 2688.0f);
}

// The greatest value among the 128 threads of the CTA.
DEVICE u32 max_of_block(u32 x)
{
    __shared__ u32 of_warp[4];
#pragma unroll
    for (u32 lanes = 16; lanes > 0; lanes /= 2)
        x = max(x, __shfl_xor_sync(~0u, x, lanes));
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    return max(max(of_warp[0], of_warp[1]), max(of_warp[2], of_warp[3]));
}

#endif

// The global scale of row `row`: computed from its `k` values and stored by one thread, or the slot's. `values(at, x)` loads
// eight values, starting at `at`.
template <class Values>
DEVICE float global_scale(const Values& values, const float* global, u32 slot, float* token_scale, u32 row, u32 k)
{
#if TOKEN_SCALE
    u32 amax = 0;
    for (u32 at = threadIdx.x * 8; at < k; at += 1024) {
        float x[8];
        values(at, x);
#pragma unroll
        for (u32 i = 0; i < 8; ++i)
            amax = max(amax, __float_as_uint(x[i]) & 0x7FFFFFFFu);
    }
    float scale = token_scale_of(max_of_block(amax));
    if (blockIdx.x == 0 && threadIdx.x == 0)
        token_scale[row] = scale;
    return scale;
#elif A_FORMAT == FORMAT_NVFP4
    return global[slot];
#else
    return 1.0f;
#endif
}

#if A_FORMAT == FORMAT_NVFP4

// The magnitude of a code.
DEVICE float from_e2m1(u32 code)
{
    u32 magnitude = code & 7;
    // The code's bits, read as an f32, are the value times 2^-126, subnormals included.
    return __fmul_rn(__uint_as_float(magnitude << 22), __uint_as_float((127 + 126) << 23));
}

// Quantizes eight values of a block so that its greatest magnitude becomes `largest`. Returns the scale and, for four over six,
// the error of both lanes' codes.
DEVICE u32 nvfp4_codes(const float* x, u32 amax, float largest, float global, Codes* codes, float* error)
{
    // Padding has a finite scale, whatever the row's global scale is.
    u32 scale = amax == 0 ? 0 : to_ue4m3(__fdiv_rn(__uint_as_float(amax), __fmul_rn(largest, global)));
    float unit = __fmul_rn(from_ue4m3(scale), global), sum = 0.0f;
    u32 packed = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        u32 code = unit == 0.0f ? 0 : to_e2m1(__fdiv_rn(x[i], unit));
        packed |= code << 4 * i;
#if RULE_FOUR_OVER_SIX_MAE || RULE_FOUR_OVER_SIX_MSE
        float off = __fsub_rn(fabsf(x[i]), __fmul_rn(from_e2m1(code), unit));
        sum = __fadd_rn(sum, RULE_FOUR_OVER_SIX_MSE ? __fmul_rn(off, off) : fabsf(off));
#endif
    }
    *codes = packed;
#if RULE_FOUR_OVER_SIX_MAE || RULE_FOUR_OVER_SIX_MSE
    *error = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));
#endif
    return scale;
}

#endif

// Quantizes a block that neighbouring lanes hold, eight values each: stores eight codes per lane and returns the scale byte.
// A value is `global` times its scale times its code.
DEVICE u32 quantize_block(const float* x, Codes* codes, float global)
{
#if A_FORMAT == FORMAT_BF16
    u32 pairs[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
        pairs[i] = to_bf16(x[2 * i]) | (u32)to_bf16(x[2 * i + 1]) << 16;
    *codes = {pairs[0], pairs[1], pairs[2], pairs[3]};
    return 0;
#else
    u32 amax = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        amax = max(amax, __float_as_uint(x[i]) & 0x7FFFFFFFu);
    amax = max(amax, __shfl_xor_sync(~0u, amax, 1));
#if A_BLOCK == 32
    amax = max(amax, __shfl_xor_sync(~0u, amax, 2));
#endif
#if A_FORMAT == FORMAT_NVFP4 && (RULE_FOUR_OVER_SIX_MAE || RULE_FOUR_OVER_SIX_MSE)
    float error_of_six, error_of_four;
    Codes of_four;
    u32 scale = nvfp4_codes(x, amax, 6.0f, global, codes, &error_of_six);
    u32 scale_of_four = nvfp4_codes(x, amax, 4.0f, global, &of_four, &error_of_four);
    if (error_of_four < error_of_six) {
        scale = scale_of_four;
        *codes = of_four;
    }
#elif A_FORMAT == FORMAT_NVFP4
    float error = 0.0f;
    u32 scale = nvfp4_codes(x, amax, 6.0f, global, codes, &error);
#else
    u32 scale = scale_of(amax);
    float inverse = inverse_scale(scale);
#if A_BITS == 4
    u32 packed = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        packed |= to_e2m1(__fmul_rn(x[i], inverse)) << 4 * i;
    *codes = packed;
#else
    u32 pairs[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
        pairs[i] = to_e4m3x2(__fmul_rn(x[2 * i], inverse), __fmul_rn(x[2 * i + 1], inverse));
    codes->x = pairs[0] | pairs[1] << 16;
    codes->y = pairs[2] | pairs[3] << 16;
#endif
#endif
    return scale;
#endif
}

// Stores the results of `quantize_block` for eight elements, starting at `at`, of a row whose expert begins at row `first`.
DEVICE void store_block(u8* codes, u8* scales, const Codes& packed, u32 scale, u32 row, u32 first, u32 expert, u32 at, u32 k_padded)
{
    *(Codes*)(codes + ((u64)row * k_padded + at) * A_BITS / 8) = packed;
#if A_FORMAT != FORMAT_BF16
    if (at % A_BLOCK == 0)
        scales[scale_at(scale_row_of_expert(first, expert) + row - first, at / A_BLOCK, k_padded / A_BLOCK)] = (u8)scale;
#endif
}
