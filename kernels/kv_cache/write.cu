//@ about: "Writes new keys or values into the pages of an NVFP4 cache, e2m1 codes and one ue4m3 scale for 16 elements of a head, or of an FP8 cache."
//@ family: kv_cache
//@ stage: write
//@ entry: kv_cache_write
//@ needs: [cvt_e4m3x2]
//@ grid: ["tokens"]
//@ block: "64"
//@ args: [source, slots, global, codes, scales, heads, page, swizzled]
//@ contract: {deterministic: true}

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Elements that share a scale.
#define BLOCK 16
// Blocks of a head.
#define BLOCKS (HEAD / BLOCK)

// The nearest e2m1 to a magnitude, ties to the even code: 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
__device__ __forceinline__ u32 e2m1(float x)
{
    return (x > 0.25f) + (x >= 0.75f) + (x > 1.25f) + (x >= 1.75f) + (x > 2.5f) + (x >= 3.5f) + (x > 5.0f);
}

// The nearest e4m3 or e5m2, at most the largest finite one.
__device__ __forceinline__ u32 fp8(float x)
{
    u16 both;
#if E5M2
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(x));
#else
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(x));
#endif
    return both & 0xFF;
}

// The nearest ue4m3 to a magnitude, at most 448.
__device__ __forceinline__ u32 ue4m3(float x)
{
    u16 both;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(x));
    return both & 0xFF;
}

// The value of a ue4m3.
__device__ __forceinline__ float value_of(u32 scale)
{
    u32 exponent = scale >> 3, mantissa = scale & 7;
    if (exponent == 0)
        return (float)mantissa * 0.001953125f;
    return __int_as_float((exponent + 120) << 23 | mantissa << 20);
}

// One CTA per token; a thread quantizes blocks of its heads one after the other.
extern "C" __global__ void __launch_bounds__(64)
kv_cache_write(const u16* source, const int* slots, const float* global, u8* codes, u8* scales, u32 heads, u32 page, u32 swizzled)
{
    int slot = slots[blockIdx.x];
    // A token without a slot pads the batch.
    if (slot < 0)
        return;
    u32 of_page = (u32)slot / page, at = (u32)slot % page;
    float factor = *global;
    for (u32 n = threadIdx.x; n < heads * BLOCKS; n += blockDim.x) {
        u32 head = n / BLOCKS, block = n % BLOCKS;
#if HND
        u64 row = ((u64)of_page * heads + head) * page + at;
#else
        u64 row = ((u64)of_page * page + at) * heads + head;
#endif
        const u16* from = source + ((u64)blockIdx.x * heads + head) * HEAD + block * BLOCK;
        float x[BLOCK], most = 0.0f;
#pragma unroll
        for (u32 i = 0; i < BLOCK; ++i) {
            x[i] = __uint_as_float((u32)from[i] << 16);
            most = fmaxf(most, fabsf(x[i]));
        }
#if E4M3 || E5M2
        u32 words[BLOCK / 4] = {};
#pragma unroll
        for (u32 i = 0; i < BLOCK; ++i)
            words[i / 4] |= fp8(__fdiv_rn(x[i], factor)) << (i % 4 * 8);
        *(uint4*)(codes + row * HEAD + block * BLOCK) = make_uint4(words[0], words[1], words[2], words[3]);
#else
        u32 scale = ue4m3(__fdiv_rn(most, __fmul_rn(6.0f, factor)));
        float unit = __fmul_rn(value_of(scale), factor);
        u32 packed[2] = {0, 0};
#pragma unroll
        for (u32 i = 0; i < BLOCK; ++i) {
            u32 code = scale == 0 ? 0 : e2m1(__fdiv_rn(fabsf(x[i]), unit));
            code |= x[i] < 0.0f ? 8 : 0;
            packed[i / 8] |= code << (i % 8 * 4);
        }
        *(uint2*)(codes + row * (HEAD / 2) + block * (BLOCK / 2)) = make_uint2(packed[0], packed[1]);
#if SWIZZLED
        // The scales of values in tiles of 4 tokens by 4 blocks, within the plane of a page and a head.
        u64 plane = ((u64)of_page * heads + head) * page * BLOCKS;
        u64 scale_at = swizzled ? plane + 4 * BLOCKS * (at / 4) + 4 * block + at % 4 : row * BLOCKS + block;
#else
        u64 scale_at = row * BLOCKS + block;
#endif
        scales[scale_at] = (u8)scale;
#endif
    }
}
