// What the kernels of attention share: types, 16-bit elements, and how keys and values are read from pages.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define DEVICE __device__ __forceinline__

#define LOG2_E 1.4426950408889634f
#define INFINITE __int_as_float(0x7F800000)

// KV: the type of the cache. T16, the type of queries, weights and outputs, is fp16 if FP16, else bf16.
#define KV_16 0
#define KV_E4M3 1
#define KV_NVFP4 2
#define KV_E5M2 3

// Bytes of 8 elements, and the type that holds them.
#if KV == KV_16
#define KV_EIGHT 16
typedef uint4 Eight;
#elif KV == KV_E4M3 || KV == KV_E5M2
#define KV_EIGHT 8
typedef uint2 Eight;
#else
#define KV_EIGHT 4
typedef u32 Eight;
#endif

// A kernel that may overlap its predecessor (programmatic dependent launch) must not read its results before this.
DEVICE void wait_for_predecessor()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Two numbers, rounded to T16; the first is in the low half.
DEVICE u32 pack(float low, float high)
{
    u32 d;
#if FP16
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
#else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
#endif
    return d;
}

// The number of a T16 in the low half of a word.
DEVICE float unpack(u32 half)
{
#if FP16
    float d;
    asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"((u16)half));
    return d;
#else
    return __uint_as_float(half << 16);
#endif
}

// d += a * b, of 16 rows, 8 columns and 16 products each.
DEVICE void mma(float* d, const u32* a, const u32* b)
{
#if FP16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#endif
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Copies 16 bytes, or writes 16 zeros and reads nothing. The L2 cache fetches the whole line: its other half is a neighbour's.
DEVICE void copy16(u32 to, const u8* from, bool read)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read ? 16 : 0) : "memory");
}

DEVICE void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

DEVICE float exp2_approx(float x)
{
    float d;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}

DEVICE float log2_approx(float x)
{
    float d;
    asm("lg2.approx.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}

DEVICE float tanh_approx(float x)
{
    float d;
    asm("tanh.approx.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}

// The value of a ue4m3.
DEVICE float from_ue4m3(u32 code)
{
    u32 exponent = code >> 3 & 15, mantissa = code & 7;
    if ((code & 0x7F) == 0x7F)
        return __uint_as_float(0x7FFFFFFF);
    if (exponent == 0)
        return (float)mantissa * 0.001953125f;
    return __uint_as_float((exponent + 120) << 23 | mantissa << 20);
}

// The value of an e4m3, for GPUs without the conversion: its exponent and mantissa as those of a binary32 whose bias is 120 larger.
DEVICE float from_e4m3(u32 code)
{
    if ((code & 0x7F) == 0x7F)
        return __uint_as_float(0x7FFFFFFF);
    return __uint_as_float((code & 0x80) << 24 | (code & 0x7F) << 20) * __uint_as_float((120 + 127) << 23);
}

// Both products of two pairs of T16. Subnormal numbers count.
DEVICE u32 multiply(u32 x, u32 y)
{
    u32 d;
#if FP16
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(x), "r"(y));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(0x80008000));
#endif
    return d;
}

// The values of two e2m1, the first in the low four bits: their exponents and mantissas as those of T16, whose bias is larger.
DEVICE u32 from_e2m1(u32 codes)
{
    u32 apart = (codes | codes << 12) & 0x000F000F, signs = (apart & 0x00080008) << 12;
#if FP16
    return multiply(signs | (apart & 0x00070007) << 9, 0x74007400);
#else
    return multiply(signs | (apart & 0x00070007) << 6, 0x7E807E80);
#endif
}

// A side of the cache: offsets of pages, slots and heads are in bytes.
struct Side {
    const u8* codes;
    const u8* scales;
    u32 page, slot, head;
    u32 scale_page, scale_slot, scale_head;
    // Whether the block scales are in 4x4 tiles of slots and blocks.
    u32 swizzled;
};

// The place of the scale of a block of a slot.
DEVICE u64 scale_at(const Side& side, u32 page, u32 slot, u32 head, u32 block)
{
    u32 row = slot, column = block;
    if (side.swizzled) {
        const u32 group = HEAD / 64;
        row = (slot & ~3u) + block / group;
        column = block % group * 4 + (slot & 3);
    }
    return (u64)page * side.scale_page + row * side.scale_slot + head * side.scale_head + column;
}

// Two fp16 as T16.
DEVICE u32 from_halves(u32 two)
{
#if FP16
    return two;
#else
    float low, high;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(low), "=f"(high) : "r"(two));
    return pack(low, high);
#endif
}

// The value of a ue4m3 as both halves of a pair of T16: exact, for it has four significant bits. Its sign bit does not count.
DEVICE u32 twice_ue4m3(u32 code)
{
#if __CUDA_ARCH__ < 890
    return pack(from_ue4m3(code), from_ue4m3(code));
#else
    u32 halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((u16)((code & 0x7F) * 0x101)));
    return from_halves(halves);
#endif
}

// Eight elements of the cache as T16; NVFP4 has the scale of their block, a ue4m3.
DEVICE uint4 widened(Eight codes, u32 scale)
{
#if KV == KV_16
    return codes;
#elif KV == KV_E4M3
    u32 d[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        u32 two = (i < 2 ? codes.x : codes.y) >> (i % 2 * 16);
#if __CUDA_ARCH__ < 890
        d[i] = pack(from_e4m3(two), from_e4m3(two >> 8));
#else
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d[i]) : "h"((u16)two));
        d[i] = from_halves(d[i]);
#endif
    }
    return make_uint4(d[0], d[1], d[2], d[3]);
#elif KV == KV_E5M2
    u32 d[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        u32 two = (i < 2 ? codes.x : codes.y) >> (i % 2 * 16);
        // An e5m2 is the upper half of an fp16.
        d[i] = from_halves((two & 0xFF) << 8 | (two & 0xFF00) << 16);
    }
    return make_uint4(d[0], d[1], d[2], d[3]);
#else
    u32 factor = twice_ue4m3(scale);
    // A code and a scale have at most six significant bits together: nothing is rounded.
    return make_uint4(multiply(from_e2m1(codes & 0xFF), factor), multiply(from_e2m1(codes >> 8 & 0xFF), factor),
                      multiply(from_e2m1(codes >> 16 & 0xFF), factor), multiply(from_e2m1(codes >> 24), factor));
#endif
}

// The first byte of a head of a slot.
DEVICE const u8* codes_at(const Side& side, u32 page, u32 slot, u32 head)
{
    return side.codes + (u64)page * side.page + slot * side.slot + head * side.head;
}

// Elements 8 * n and the seven behind it of a head of a slot, as T16.
DEVICE uint4 eight(const Side& side, u32 page, u32 slot, u32 head, u32 n)
{
    u32 scale = 0;
#if KV == KV_NVFP4
    scale = side.scales[scale_at(side, page, slot, head, n / 2)];
#endif
    return widened(*(const Eight*)(codes_at(side, page, slot, head) + n * KV_EIGHT), scale);
}

// What is the same for every row.
struct Problem {
    const u16* queries;
    Side keys, values;
    // [requests, most_pages]
    const i32* table;
    // The keys of each request, and its first row of the queries; one more for the end of the last.
    const i32* lengths;
    const i32* starts;
    // Bits of row * keys + key of each request, and the byte at which they begin.
    const u8* mask;
    const i32* mask_starts;
    const float* slopes;
    u32 heads, kv_heads, page, most_pages;
    // The keys of a split.
    u32 chunk;
    // The most keys that a row sees; 0 if there is no window.
    u32 window;
    u32 causal, custom, sloped;
    float scale, cap;
};

// The keys that a row may see: from first to before end.
struct Range {
    i32 first, end;
};

DEVICE Range range_of(const Problem& p, i32 length, i32 position)
{
    Range range = {0, length};
    if (p.causal)
        range.end = min(length, position + 1);
    if (p.window)
        range.first = max(0, position + 1 - (i32)p.window);
    return range;
}

// Whether a row of a request sees a key of its range.
DEVICE bool is_visible(const Problem& p, u32 request, i32 row, i32 length, i32 key)
{
    if (!p.custom)
        return true;
    u32 bit = (u32)(row * length + key);
    return p.mask[p.mask_starts[request] + (bit >> 3)] >> (bit & 7) & 1;
}

DEVICE float capped(float score, float cap)
{
    return cap * tanh_approx(score / cap);
}

// Whether a lane's rows see keys: bit i is that of score i, which belongs to row i / 2 % 2. `range` is what the CTA computes of each row.
template <u32 SCORES, class KeyOf>
DEVICE u32 seen_scores(const Problem& p, u32 request, i32 length, const i32 (&row_of)[2], const Range (&range)[2], KeyOf key_of)
{
    u32 seen = 0;
    // Rolled up: unrolled, it is most of a kernel.
#pragma unroll 1
    for (u32 i = 0; i < SCORES; ++i) {
        bool lower = i & 2;
        i32 key = key_of(i), row = lower ? row_of[1] : row_of[0];
        bool in_range = key >= (lower ? range[1].first : range[0].first) && key < (lower ? range[1].end : range[0].end);
        seen |= (u32)(in_range && is_visible(p, request, row, length, key)) << i;
    }
    return seen;
}

// Turns the products of queries and keys into scores in units of log2, -infinity where the row does not see the key.
template <u32 SCORES, class KeyOf>
DEVICE void score_products(float (*s)[4], const Problem& p, u32 seen, const float (&slope)[2], const i32 (&position)[2], KeyOf key_of)
{
#pragma unroll
    for (u32 i = 0; i < SCORES; ++i)
        s[i / 4][i % 4] *= p.scale;
    if (p.sloped)
#pragma unroll
        for (u32 i = 0; i < SCORES; ++i)
            s[i / 4][i % 4] += slope[i / 2 % 2] * (float)(key_of(i) - position[i / 2 % 2]);
    if (p.cap > 0.0f)
#pragma unroll
        for (u32 i = 0; i < SCORES; ++i)
            s[i / 4][i % 4] = capped(s[i / 4][i % 4], p.cap);
#pragma unroll
    for (u32 i = 0; i < SCORES; ++i)
        s[i / 4][i % 4] = seen >> i & 1 ? s[i / 4][i % 4] * LOG2_E : -INFINITE;
}
