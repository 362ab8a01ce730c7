//@ about: "Product of at most eight MXFP8 rows of an expert with its MXFP4 weights: dp4a on the digits of the activations, no mma."
//@ stage: gemm
//@ entry: gemv
//@ paths: [gemv]
//@ load: direct
//@ needs: [dot_product, prmt]
//@ grid: ["ceil_div(n, tile_n)", "most_tiles"]
//@ block: "32 * warps"
//@ smem: "stage_bytes"
//@ args: [a_codes, a_scales, w_codes, w_scales, global, bias, expert_offset, expert_slot, tile_expert, tile_row, tile_count, out, n, k_padded, k_used]
//@ contract: {k_order: partials, deterministic: true}
#include "problem.cuh"

// Every weight is read once, by the lane that multiplies it. A lane sums every PARTS-th block of 32 along K of its column.
//
// An e4m3 times 2^9 is an integer of 18 bits and a sign: three digits in base 128, each a signed byte. An e2m1 times 2 is
// one signed byte. So three dp4a multiply four pairs, and the sum of a block is exact in 32 bits; its conversion to f32 and its
// addition round to nearest. Each CTA computes the digits once and keeps them in shared memory.
#define PARTS (TILE_K / 32)
#define COLUMNS (32 / PARTS)
#define WARPS (WARPS_X * WARPS_Y)
#define THREADS (32 * WARPS)
// Columns per lane.
#define TURNS ((TILE_N + WARPS * COLUMNS - 1) / (WARPS * COLUMNS))
// Words of a block in shared memory: three digits of 32 bytes, the scale code, and padding that spreads blocks over the banks.
#define BLOCK_WORDS 28
#define SCALE_AT 24
// The scale code of a block that contains a NaN.
#define NAN_SCALE 0xFF

// Splits four e4m3 codes into digits; returns whether one of them is NaN.
DEVICE bool digits_of(u32 codes, u32* digits)
{
    bool nan = false;
    digits[0] = digits[1] = digits[2] = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        u32 code = codes >> 8 * i & 0xFF, field = code >> 3 & 15, mantissa = code & 7;
        i32 value = field == 0 ? mantissa : (8 + mantissa) << (field - 1);
        i32 sign = code & 0x80 ? -1 : 1;
        nan |= (code & 0x7F) == 0x7F;
        digits[0] |= (u32)(sign * (value & 127) & 0xFF) << 8 * i;
        digits[1] |= (u32)(sign * (value >> 7 & 127) & 0xFF) << 8 * i;
        digits[2] |= (u32)(sign * (value >> 14) & 0xFF) << 8 * i;
    }
    return nan;
}

DEVICE u32 permute_bytes(u32 low, u32 high, u32 selector)
{
    u32 d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(low), "r"(high), "r"(selector));
    return d;
}

// The values of the four e2m1 codes in the low half of `codes`, times two: from tables of 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
DEVICE u32 weights_of(u32 codes)
{
    u32 magnitudes = codes & 0x7777;
    u32 plus = permute_bytes(0x03020100, 0x0C080604, magnitudes), minus = permute_bytes(0xFDFEFF00, 0xF4F8FAFC, magnitudes);
    // The sign of each nibble in the top bit of a byte; the selector replicates it over the byte.
    u32 signs = (codes & 0x8) << 4 | (codes & 0x80) << 8 | (codes & 0x800) << 12 | (codes & 0x8000) << 16;
    u32 negative = permute_bytes(signs, 0, 0xBA98);
    return (plus & ~negative) | (minus & negative);
}

DEVICE i32 dp4a(u32 a, u32 b, i32 c)
{
    i32 d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// 2^e for e from -149 to 127.
DEVICE float power(i32 e)
{
    return __int_as_float(e >= -126 ? (e + 127) << 23 : 1 << (e + 149));
}

// Stages the digits and scales of the tokens for PARTS blocks, starting at block `first`.
DEVICE void stage(u32* shared, const Problem& p, const Work& w, const u8* a_codes, u32 first)
{
    for (u32 i = threadIdx.x; i < TILE_M * PARTS; i += THREADS) {
        u32 row = i / PARTS, block = first + i % PARTS;
        if (row >= w.rows || block * 32 >= p.k_used)
            continue;
        const uint4* from = (const uint4*)(a_codes + (u64)(w.row + row) * p.k_padded + block * 32);
        u32* to = shared + i * BLOCK_WORDS;
        bool nan = false;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            uint4 raw = from[half];
            u32 codes[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                u32 digits[3];
                nan |= digits_of(codes[j], digits);
#pragma unroll
                for (u32 digit = 0; digit < 3; ++digit)
                    to[digit * 8 + half * 4 + j] = digits[digit];
            }
        }
        to[SCALE_AT] = nan ? NAN_SCALE : p.a_scales[scale_at(w.scale_row + row, block, p.k_padded / 32)];
    }
}

// The exact sum of a block's products, times 2^10.
DEVICE i32 dot(const u32* tokens, const u32* weights)
{
    i32 sums[3] = {};
#pragma unroll
    for (u32 place = 0; place < 3; ++place)
#pragma unroll
        for (u32 j = 0; j < 8; j += 4) {
            uint4 four = *(const uint4*)(tokens + place * 8 + j);
            sums[place] = dp4a(four.x, weights[j], sums[place]);
            sums[place] = dp4a(four.y, weights[j + 1], sums[place]);
            sums[place] = dp4a(four.z, weights[j + 2], sums[place]);
            sums[place] = dp4a(four.w, weights[j + 3], sums[place]);
        }
    return sums[0] + sums[1] * 128 + sums[2] * 16384;
}

// Adds a block's scaled dot product to `sum`. The scale is two factors, since their product may not be an f32; where the first
// multiplication overflows, the result would too.
DEVICE float add_block(float sum, i32 dot, u32 a_scale, u32 w_scale)
{
    if (a_scale == NAN_SCALE || w_scale == NAN_SCALE)
        return __int_as_float(0x7FC00000);
    i32 exponent = (i32)(a_scale + w_scale) - 2 * 127 - 10, half = exponent >> 1;
    return __fmaf_rn(__fmul_rn(__int2float_rn(dot), power(half)), power(exponent - half), sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemv(const u8* a_codes, const u8* a_scales, const u8* w_codes, const u8* w_scales, const float* global, const float* bias,
     const i32* expert_offset, const i32* expert_slot, const i32* tile_expert, const i32* tile_row, const i32* tile_count, u16* out, u32 n, u32 k_padded,
     u32 k_used)
{
    extern __shared__ __align__(16) u32 shared[];
    let_successor_start();
    wait_for_predecessor();
    if (blockIdx.y >= (u32)*tile_count)
        return;
    Problem p = {a_scales, w_scales, global, nullptr, bias, expert_offset, expert_slot, out, n, k_padded, k_used};
    Work w = work_of(p, tile_expert, tile_row);
    u32 lane = threadIdx.x & 31, part = lane % PARTS, first_column = (threadIdx.x >> 5) * COLUMNS + lane / PARTS;
    u64 matrix = (u64)w.slot * weight_scale_rows(n) * (k_padded / 32);
    float sums[TURNS][TILE_M] = {};
    for (u32 first = 0; first * 32 < k_used; first += PARTS) {
        __syncthreads();
        stage(shared, p, w, a_codes, first);
        __syncthreads();
        u32 block = first + part;
#pragma unroll
        for (u32 turn = 0; turn < TURNS; ++turn) {
            u32 column = turn * WARPS * COLUMNS + first_column;
            if (column >= TILE_N || w.column + column >= n || block * 32 >= k_used)
                continue;
            column += w.column;
            uint4 raw = *(const uint4*)(w_codes + (((u64)w.slot * n + column) * k_padded + block * 32) / 2);
            u32 codes[4] = {raw.x, raw.y, raw.z, raw.w}, weights[8];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                weights[2 * j] = weights_of(codes[j]);
                weights[2 * j + 1] = weights_of(codes[j] >> 16);
            }
            u32 w_scale = w_scales[matrix + scale_at(column, block, k_padded / 32)];
#pragma unroll
            for (u32 row = 0; row < TILE_M; ++row)
                if (row < w.rows) {
                    const u32* tokens = shared + (row * PARTS + part) * BLOCK_WORDS;
                    sums[turn][row] = add_block(sums[turn][row], dot(tokens, weights), tokens[SCALE_AT], w_scale);
                }
        }
    }
#pragma unroll
    for (u32 turn = 0; turn < TURNS; ++turn)
#pragma unroll
        for (u32 row = 0; row < TILE_M; ++row) {
            float sum = sums[turn][row];
            // Adds the other half of the partial sums, then the other quarter, and so on.
#pragma unroll
            for (u32 other = PARTS / 2; other > 0; other /= 2)
                sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, other));
            u32 column = turn * WARPS * COLUMNS + first_column;
            if (part == 0 && column < TILE_N)
                store_one(p, w, row, column, sum);
        }
}
