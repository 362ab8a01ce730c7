// What every kernel of the pipeline shares: types, bf16, NaN-keeping min and max, exp by FMA, scale layouts, MXFP8 blocks.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

#define DEVICE __device__ __forceinline__

// A kernel that may overlap its predecessor (programmatic dependent launch) touches nothing of it before this.
DEVICE void wait_for_predecessor()
{
#if PDL
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on the successor's CTAs may start; what this grid still writes, the successor sees behind its wait.
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

// Nearest even; NaN stays NaN.
DEVICE u16 to_bf16(float x)
{
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// fminf and fmaxf drop NaN; these keep it.
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

// e^x by the special function unit: 2^-22 off by PTX, and 2^-23 |x| by the argument's rounding.
DEVICE float exponential(float x)
{
    float d;
    asm("ex2.approx.f32 %0, %1;" : "=f"(d) : "f"(__fmul_rn(x, 1.44269504f)));
    return d;
}

#else

// e^x by multiplications and FMAs alone, so that every device gives the same bits. Inf above 88.8, 0 below -103.9.
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
    // Two factors: 2^n itself may be no float.
    i32 whole = (i32)n, half = whole >> 1;
    return __fmul_rn(__fmul_rn(p, __int_as_float((half + 127) << 23)), __int_as_float((whole - half + 127) << 23));
}

#endif

// Rows that one expert's scales begin at: every expert starts on a multiple of 128, whatever the rows before it are.
DEVICE u32 scale_row_of_expert(u32 first_row, u32 expert)
{
    return (first_row + expert * 127) / 128 * 128;
}

// Byte of the scale of block `block` of row `row`; `blocks` of the row, a multiple of 4.
DEVICE u64 scale_at(u32 row, u32 block, u32 blocks)
{
#if SCALES_8X4
    return ((u64)(row / 8) * (blocks / 4) + block / 4) * 32 + row % 8 * 4 + block % 4;
#else
    return ((u64)(row / 128) * (blocks / 4) + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
#endif
}

// Scale byte of a block whose greatest magnitude has these f32 bits (sign clear). NaN is above Inf is above numbers.
DEVICE u32 scale_of(u32 amax)
{
    if (amax > 0x7F800000u)
        return 0xFF;
#if RULE_IDENTITY
    return 127;
#else
    if (amax == 0x7F800000u)
        return 0xFE;
    // 448 = 1.75 * 2^8. Subnormals end at code 0 under every rule.
    i32 exponent = (i32)(amax >> 23) - 127 - 8;
    u32 mantissa = amax & 0x7FFFFF;
#if RULE_FLOOR
#elif RULE_EVEN
    exponent += mantissa >= 0x780000;
#elif RULE_NEAREST
    exponent -= mantissa < 0x280000;
#elif RULE_RZ
    exponent -= mantissa < 0x600000;
#else
    exponent += mantissa > 0x600000;
#endif
    i32 code = exponent + 127;
    return code < 0 ? 0 : code > 254 ? 254 : code;
#endif
}

// 2^-X of scale code X + 127, exact; NaN of 0xFF.
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

// Four neighbouring lanes hold a block of 32, eight values each: its codes, eight per lane, and its scale byte.
DEVICE u32 quantize_block(const float* x, uint2* codes)
{
    u32 amax = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        amax = max(amax, __float_as_uint(x[i]) & 0x7FFFFFFFu);
    amax = max(amax, __shfl_xor_sync(~0u, amax, 1));
    amax = max(amax, __shfl_xor_sync(~0u, amax, 2));
    u32 scale = scale_of(amax);
    float inverse = inverse_scale(scale);
    u32 pairs[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
        pairs[i] = to_e4m3x2(__fmul_rn(x[2 * i], inverse), __fmul_rn(x[2 * i + 1], inverse));
    codes->x = pairs[0] | pairs[1] << 16;
    codes->y = pairs[2] | pairs[3] << 16;
    return scale;
}
