// The part of the grouped GEMM that does not depend on how tiles reach shared memory: geometry, fragments, mma, epilogue.
//
// The mma multiplies a 16-row operand (here "x") by an 8-column one ("y"). Tokens are x and channels y; with SWAP_AB channels are
// x, so that few tokens fill an mma. One of the two is e4m3 activations, the other e2m1 weights; in shared memory a weight takes
// eight bits (16 elements: 8 bytes, then 8 bytes nobody reads) or, PACKED, four.
#pragma once
#include "problem.cuh"

#if SWAP_AB
#define X_ROWS TILE_N
#define Y_ROWS TILE_M
#else
#define X_ROWS TILE_M
#define Y_ROWS TILE_N
#endif
#define X_WARP (X_ROWS / WARPS_X)
#define Y_WARP (Y_ROWS / WARPS_Y)
#define CONSUMERS (WARPS_X * WARPS_Y)

// A row of a tile lies in slabs of up to 128 elements, each slab a matrix of its own.
#define SLAB_K (TILE_K < 128 ? TILE_K : 128)
#define SLABS (TILE_K / SLAB_K)
#define PARTS (TILE_K / 32)
#define TOKEN_ROW SLAB_K
#define WEIGHT_ROW (PACKED ? SLAB_K / 2 : SLAB_K)
#define TOKEN_SLAB (TILE_M * TOKEN_ROW)
#define WEIGHT_SLAB (TILE_N * WEIGHT_ROW)
#if SWAP_AB
#define X_SLAB WEIGHT_SLAB
#define Y_SLAB TOKEN_SLAB
#else
#define X_SLAB TOKEN_SLAB
#define Y_SLAB WEIGHT_SLAB
#endif
#define TOKEN_BYTES (SLABS * TOKEN_SLAB)
#define WEIGHT_BYTES (SLABS * WEIGHT_SLAB)
// The swizzle of the weights wants a base on 1024 bytes.
#define WEIGHTS_AT ((TOKEN_BYTES + 1023) / 1024 * 1024)
#define STAGE_BYTES ((WEIGHTS_AT + WEIGHT_BYTES + 1023) / 1024 * 1024)

// Offset of a 16-byte chunk in a slab of rows of `row_bytes`: the swizzle of TMA of that width (128, 64 or 32 bytes).
DEVICE u32 place(u32 row, u32 chunk, u32 row_bytes)
{
    return row * row_bytes + ((chunk ^ (row * row_bytes >> 7 & row_bytes / 16 - 1)) << 4);
}

#if SWAP_AB
#define X_SCALES weight_scales
#define Y_SCALES token_scales
#else
#define X_SCALES token_scales
#define Y_SCALES weight_scales
#endif

#if NATIVE

struct Sums {
    float of[X_WARP / 16][Y_WARP / 8][4];
};

// Four 8x16-byte matrices, rows given by the lanes; weights come out as one nibble per byte, where the mma wants bits 5..2.
DEVICE void load4(u32* to, u32 address, bool weights)
{
    if (weights) {
        asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
        for (u32 i = 0; i < 4; ++i)
            to[i] <<= 2;
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
    }
}

DEVICE void load2(u32* to, u32 address, bool weights)
{
    if (weights) {
        asm volatile("ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
        for (u32 i = 0; i < 2; ++i)
            to[i] <<= 2;
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
    }
}

#if SWAP_AB
#define TYPES "e2m1.e4m3"
#else
#define TYPES "e4m3.e2m1"
#endif
// Scale byte BYTE of the word that each lane holds: rows 0..7 of x by the even lane of a pair, 8..15 by the odd one.
#define MMA(BYTE) \
    asm volatile("mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32." TYPES ".f32.ue8m0 " \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {" #BYTE ", 0}, {%11}, {" #BYTE ", 0};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(sx), "r"(sy))

DEVICE void mma(float* d, const u32* x, const u32* y, u32 sx, u32 sy, u32 byte)
{
    if (byte == 0)
        MMA(0);
    else if (byte == 1)
        MMA(1);
    else if (byte == 2)
        MMA(2);
    else
        MMA(3);
}

// One K tile that lies at `x_tile` and `y_tile`; `first_part` is its place along K in units of 32.
DEVICE void multiply(Sums& sums, const Problem& p, const Work& w, u32 x_tile, u32 y_tile, u32 first_part)
{
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 x_row = warp % WARPS_X * X_WARP, y_row = warp / WARPS_X * Y_WARP;
    u32 sx[X_WARP / 16], sy[Y_WARP / 8];
#pragma unroll
    for (u32 part = 0; part < PARTS; ++part) {
        if ((first_part + part) * 32 >= p.k_used)
            break;
        // A word holds the scales of 128 elements.
        if (part % 4 == 0) {
            u32 word = (first_part + part) / 4;
#pragma unroll
            for (u32 i = 0; i < X_WARP / 16; ++i)
                sx[i] = X_SCALES(p, w, x_row + i * 16 + (lane >> 2) + 8 * (lane & 1), word);
#pragma unroll
            for (u32 j = 0; j < Y_WARP / 8; ++j)
                sy[j] = Y_SCALES(p, w, y_row + j * 8 + (lane >> 2), word);
            // A tile of 64 begins in the middle of every other word.
            if (TILE_K < 128 && first_part % 4) {
                for (u32 i = 0; i < X_WARP / 16; ++i)
                    sx[i] >>= 16;
                for (u32 j = 0; j < Y_WARP / 8; ++j)
                    sy[j] >>= 16;
            }
        }
        u32 slab = part * 32 / SLAB_K, chunk = part * 2 % (SLAB_K / 16);
        u32 x_slab = x_tile + slab * X_SLAB, y_slab = y_tile + slab * Y_SLAB;
        u32 y[Y_WARP / 8][2];
#pragma unroll
        for (u32 j = 0; j + 1 < Y_WARP / 8; j += 2)
            load4(y[j], y_slab + place(y_row + j * 8 + (lane & 7) + (lane >> 4) * 8, chunk + (lane >> 3 & 1), SLAB_K), SWAP_AB == 0);
        if (Y_WARP == 8)
            load2(y[Y_WARP / 8 - 1], y_slab + place(y_row + Y_WARP - 8 + (lane & 7), chunk + (lane >> 3 & 1), SLAB_K), SWAP_AB == 0);
#pragma unroll
        for (u32 i = 0; i < X_WARP / 16; ++i) {
            u32 x[4];
            load4(x, x_slab + place(x_row + i * 16 + (lane & 15), chunk + (lane >> 4), SLAB_K), SWAP_AB == 1);
#pragma unroll
            for (u32 j = 0; j < Y_WARP / 8; ++j)
                mma(sums.of[i][j], x, y[j], sx[i], sy[j], part % 4);
        }
    }
}

#else // portable: bf16 mma, the scales folded into its operands, which is exact

// A word of scales holds those of 128 elements; lanes fetch the next word while they multiply by this one.
struct Scales {
    u32 x[X_WARP / 8], y[Y_WARP / 8];
};

struct Sums {
    float of[X_WARP / 16][Y_WARP / 8][4];
    Scales now, next;
};

DEVICE void fetch_scales(Scales& s, const Problem& p, const Work& w, u32 x_row, u32 y_row, u32 word)
{
    if (word << 7 >= p.k_padded)
        return;
#pragma unroll
    for (u32& x : s.x) {
        x = X_SCALES(p, w, x_row, word);
        x_row += 8;
    }
#pragma unroll
    for (u32& y : s.y) {
        y = Y_SCALES(p, w, y_row, word);
        y_row += 8;
    }
}

// The chosen byte of a word, in the low byte of both halves.
DEVICE u32 twice(u32 word, u32 byte)
{
    return __byte_perm(word, 0, 0x4040 + byte * 0x0101);
}

// bf16 2^(code - 127), twice; NaN of 0xFF.
DEVICE u32 scale_pair(u32 code)
{
    return code == 0x00FF00FF ? 0x7FFF7FFF : code == 0 ? 0x00400040 : code << 7;
}

DEVICE u32 multiply_pair(u32 x, u32 scale)
{
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(scale), "r"(0x80008000));
    return d;
}

// Two e4m3 codes, scaled. Conversions run beside the integer operations that spread weights, which are the limit.
DEVICE u32 token_pair(u32 codes, u32 scale)
{
    u32 d;
    asm("{\n"
        ".reg .b32 halves; .reg .b16 low, high; .reg .f32 x, y;\n"
        "cvt.rn.f16x2.e4m3x2 halves, %1;\n"
        "mov.b32 {low, high}, halves;\n"
        "cvt.f32.f16 x, low;\n"
        "cvt.f32.f16 y, high;\n"
        "cvt.rn.bf16x2.f32 %0, y, x;\n"
        "}" : "=r"(d) : "h"((u16)codes));
    return multiply_pair(d, scale);
}

// The scale of weights times the 2^126 that their bits lack in a bf16; in two factors where the product may be no bf16.
template <bool LARGE>
struct WeightScale {
    u32 first, second;

    DEVICE WeightScale(u32 word, u32 byte)
    {
        u32 code = twice(word, byte);
        first = LARGE ? 0x7E807E80 : (code << 7) + 0x3F003F00;
        second = LARGE ? scale_pair(code) : 0;
    }

    DEVICE u32 operator()(u32 tiny) const
    {
        u32 once = multiply_pair(tiny, first);
        return LARGE ? multiply_pair(once, second) : once;
    }
};

// Whether a scale of the word is 2 or more, or NaN: it needs two factors.
DEVICE bool has_large(u32 word)
{
    return word & 0x80808080;
}

// Elements 4t..4t+3 of the 16 that begin at element 16 * half of a part, where t is the lane in its group of four: two registers,
// 4t and 4t+2, then 4t+1 and 4t+3, as columns 2t, 2t+1, 2t+8, 2t+9 of an mma. Both operands permute the 16 alike, so their sum
// is the same.
DEVICE void token_fragment(u32* to, u32 slab, u32 row, u32 part, u32 half, u32 scale)
{
    u32 codes, address = slab + place(row, part * 2 % (SLAB_K / 16) + half, TOKEN_ROW) + (threadIdx.x & 3) * 4;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(codes) : "r"(address) : "memory");
    codes = __byte_perm(codes, 0, 0x3120);
    to[0] = token_pair(codes & 0xFFFF, scale);
    to[1] = token_pair(codes >> 16, scale);
}

template <bool LARGE>
DEVICE void weight_fragment(u32* to, u32 slab, u32 row, u32 part, u32 half, const WeightScale<LARGE>& scale)
{
#if PACKED
    u32 address = slab + place(row, part % (SLAB_K / 32), WEIGHT_ROW) + half * 8 + (threadIdx.x & 3) * 2;
#else
    u32 address = slab + place(row, part * 2 % (SLAB_K / 16) + half, WEIGHT_ROW) + (threadIdx.x & 3) * 2;
#endif
    u16 four;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(four) : "r"(address) : "memory");
    // Elements 0 and 1 in the low half, 2 and 3 in the high one.
    u32 codes = __byte_perm(four, 0, 0x1100);
    // e2m1: sign to bit 15, the rest to bits 8 to 6. A product moves a nibble to both places: the integer unit has enough to do.
    to[0] = scale((codes & 0x000F000F) * ((1 << 12) + (1 << 6)) & 0x81C081C0);
    to[1] = scale((codes & 0x00F000F0) * ((1 << 8) + (1 << 2)) & 0x81C081C0);
}

// To spread operands is long: only small tiles repeat it, and no tile for scales that real weights do not have.
#define PARTS_AT_ONCE (X_WARP * Y_WARP <= 1024 ? 4 : 1)

// The parts of one word of scales.
template <bool LARGE>
DEVICE void multiply_word(Sums& sums, u32 x_tile, u32 y_tile, u32 x_row, u32 y_row, u32 part, u32 byte, u32 parts)
{
#pragma unroll(LARGE ? 1 : PARTS_AT_ONCE)
    for (u32 n = 0; n < 4; ++n, ++part, ++byte) {
        if (n >= parts)
            break;
        u32 slab = part * 32 / SLAB_K;
        u32 x_slab = x_tile + slab * X_SLAB, y_slab = y_tile + slab * Y_SLAB;
#pragma unroll(LARGE ? 1 : 2)
        for (u32 half = 0; half < 2; ++half) {
            u32 y[Y_WARP / 8][2];
#pragma unroll
            for (u32 j = 0; j < Y_WARP / 8; ++j) {
#if SWAP_AB
                token_fragment(y[j], y_slab, y_row + j * 8, part, half, scale_pair(twice(sums.now.y[j], byte)));
#else
                weight_fragment(y[j], y_slab, y_row + j * 8, part, half, WeightScale<LARGE>(sums.now.y[j], byte));
#endif
            }
#pragma unroll
            for (u32 i = 0; i < X_WARP / 16; ++i) {
                u32 x[2][2];
#pragma unroll
                for (u32 side = 0; side < 2; ++side) {
                    u32 row = x_row + i * 16 + side * 8;
#if SWAP_AB
                    weight_fragment(x[side], x_slab, row, part, half, WeightScale<LARGE>(sums.now.x[i * 2 + side], byte));
#else
                    token_fragment(x[side], x_slab, row, part, half, scale_pair(twice(sums.now.x[i * 2 + side], byte)));
#endif
                }
#pragma unroll
                for (u32 j = 0; j < Y_WARP / 8; ++j) {
                    float* d = sums.of[i][j];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                                 : "r"(x[0][0]), "r"(x[1][0]), "r"(x[0][1]), "r"(x[1][1]), "r"(y[j][0]), "r"(y[j][1]));
                }
            }
        }
    }
}

// One K tile that lies at `x_tile` and `y_tile`; `first_part` is its place along K in units of 32.
DEVICE void multiply(Sums& sums, const Problem& p, const Work& w, u32 x_tile, u32 y_tile, u32 first_part)
{
    u32 group = threadIdx.x / 4 % 8, warp = threadIdx.x >> 5;
    u32 x_row = warp % WARPS_X * X_WARP + group, y_row = warp / WARPS_X * Y_WARP + group;
    if (first_part == 0)
        fetch_scales(sums.next, p, w, x_row, y_row, 0);
#pragma unroll 1
    for (u32 part = 0; part < PARTS; part += 4) {
        u32 at = first_part + part;
        if (at * 32 >= p.k_used)
            break;
        // A tile of 64 begins in the middle of every other word.
        if (at % 4 == 0) {
            sums.now = sums.next;
            fetch_scales(sums.next, p, w, x_row, y_row, at / 4 + 1);
        }
        bool large = false;
#if SWAP_AB
        for (u32 word : sums.now.x)
            large |= has_large(word);
#else
        for (u32 word : sums.now.y)
            large |= has_large(word);
#endif
        u32 parts = min(min(PARTS, 4), p.k_used / 32 - at);
        if (__any_sync(~0u, large))
            multiply_word<true>(sums, x_tile, y_tile, x_row, y_row, part, at % 4, parts);
        else
            multiply_word<false>(sums, x_tile, y_tile, x_row, y_row, part, at % 4, parts);
    }
}

#endif

// Element e of a lane: row g + 8 * (e / 2), column 2t + e % 2 of its 16x8.
DEVICE void store(const Sums& sums, const Problem& p, const Work& w)
{
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 x0 = warp % WARPS_X * X_WARP + (lane >> 2), y0 = warp / WARPS_X * Y_WARP + (lane & 3) * 2;
#pragma unroll
    for (u32 i = 0; i < X_WARP / 16; ++i)
#pragma unroll
        for (u32 j = 0; j < Y_WARP / 8; ++j)
#pragma unroll
            for (u32 e = 0; e < 4; ++e) {
                u32 x = x0 + i * 16 + e / 2 * 8, y = y0 + j * 8 + e % 2;
#if SWAP_AB
                store_one(p, w, y, x, sums.of[i][j][e]);
#else
                store_one(p, w, x, y, sums.of[i][j][e]);
#endif
            }
}
