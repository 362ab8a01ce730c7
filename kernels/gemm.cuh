// The part of the grouped GEMM that does not depend on how tiles reach shared memory: geometry, fragments, mma, epilogue.
//
// The mma multiplies a 16-row operand (here "x") by an 8-column one ("y"). Tokens are x and channels y; with SWAP_AB channels are
// x, so that few tokens fill an mma. In shared memory an e2m1 occupies four bits or, as a weight of e4m3 activations that is not
// PACKED, eight (16 elements: 8 bytes, then 8 bytes of padding).
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

// A row of a tile is split into slabs of up to 128 elements or bytes; each slab is a matrix of its own.
#define MOST_SLAB (A_BITS == 16 ? 64 : 128)
#define SLAB_K (TILE_K < MOST_SLAB ? TILE_K : MOST_SLAB)
#define SLABS (TILE_K / SLAB_K)
// Elements along K of a part: one native mma, 32 bytes of a row, or two portable mmas of 16 elements each.
#if NATIVE && A_BITS == 4
#define PART_K 64
#else
#define PART_K 32
#endif
#define PARTS (TILE_K / PART_K)
// Parts that a word of scales covers.
#define WORD_PARTS (WORD_K / PART_K)
#define TOKEN_ROW (SLAB_K * A_BITS / 8)
#define WEIGHT_ROW (PACKED ? SLAB_K / 2 : SLAB_K)
#define TOKEN_SLAB (TILE_M * TOKEN_ROW)
#define WEIGHT_SLAB (TILE_N * WEIGHT_ROW)
#if SWAP_AB
#define X_SLAB WEIGHT_SLAB
#define Y_SLAB TOKEN_SLAB
#define X_ROW WEIGHT_ROW
#define Y_ROW TOKEN_ROW
#else
#define X_SLAB TOKEN_SLAB
#define Y_SLAB WEIGHT_SLAB
#define X_ROW TOKEN_ROW
#define Y_ROW WEIGHT_ROW
#endif
#define TOKEN_BYTES (SLABS * TOKEN_SLAB)
#define WEIGHT_BYTES (SLABS * WEIGHT_SLAB)
// The swizzle of the weights needs a base aligned to 1024 bytes.
#define WEIGHTS_AT ((TOKEN_BYTES + 1023) / 1024 * 1024)
#define STAGE_BYTES ((WEIGHTS_AT + WEIGHT_BYTES + 1023) / 1024 * 1024)

// Offset of a 16-byte chunk in a slab of rows of `row_bytes`, with TMA's swizzle of that width (128, 64 or 32 bytes).
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

// Whether weights are e2m1 and activations e4m3: their mma needs one element per byte.
#define UNPACKED (A_BITS == 8 && W_BITS == 4)

// Loads four 8x16-byte matrices whose rows the lanes address; unpacked weights arrive as a nibble per byte, and the mma needs bits 5..2.
DEVICE void load4(u32* to, u32 address, bool weights)
{
    if (UNPACKED && weights) {
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
    if (UNPACKED && weights) {
        asm volatile("ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
        for (u32 i = 0; i < 2; ++i)
            to[i] <<= 2;
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
    }
}

#if A_FORMAT == FORMAT_NVFP4
#define KIND "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
#elif A_FORMAT == FORMAT_MXFP4
#define KIND "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
#elif W_FORMAT == FORMAT_MXFP8
#define KIND "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0"
#elif SWAP_AB
#define KIND "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e2m1.e4m3.f32.ue8m0"
#else
#define KIND "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0"
#endif
// Scales start at byte BYTE of the word that each lane holds: rows 0..7 of x in the even lane of a pair, 8..15 in the odd one.
#define MMA(BYTE) \
    asm volatile("mma.sync.aligned." KIND " " \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {" #BYTE ", 0}, {%11}, {" #BYTE ", 0};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(sx), "r"(sy))

DEVICE void mma(float* d, const u32* x, const u32* y, u32 sx, u32 sy, u32 byte)
{
#if WORD_PARTS == 1
    MMA(0);
#elif WORD_PARTS == 2
    if (byte == 0)
        MMA(0);
    else
        MMA(2);
#else
    if (byte == 0)
        MMA(0);
    else if (byte == 1)
        MMA(1);
    else if (byte == 2)
        MMA(2);
    else
        MMA(3);
#endif
}

// The scales of a part of which only the first 32 elements are multiplied: those of the other elements become one.
DEVICE u32 first_half(u32 word, u32 byte)
{
    u32 behind = (SCALE_BLOCK == 16 ? 0xFFFF0000u : 0xFF00u << 8 * byte);
    return (word & ~behind) | (UNIT_SCALES & behind);
}

// Multiplies the K tile at `x_tile` and `y_tile`; `first_part` is its position along K in units of PART_K.
DEVICE void multiply(Sums& sums, const Problem& p, const Work& w, u32 x_tile, u32 y_tile, u32 first_part)
{
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 x_row = warp % WARPS_X * X_WARP, y_row = warp / WARPS_X * Y_WARP;
    u32 sx[X_WARP / 16], sy[Y_WARP / 8];
#pragma unroll
    for (u32 part = 0; part < PARTS; ++part) {
        if ((first_part + part) * PART_K >= p.k_used)
            break;
        if (part % WORD_PARTS == 0) {
            u32 word = (first_part + part) / WORD_PARTS;
#pragma unroll
            for (u32 i = 0; i < X_WARP / 16; ++i)
                sx[i] = X_SCALES(p, w, x_row + i * 16 + (lane >> 2) + 8 * (lane & 1), word);
#pragma unroll
            for (u32 j = 0; j < Y_WARP / 8; ++j)
                sy[j] = Y_SCALES(p, w, y_row + j * 8 + (lane >> 2), word);
            // Every other tile of 64 begins in the middle of a word.
            if (TILE_K < WORD_K && first_part % WORD_PARTS) {
                for (u32 i = 0; i < X_WARP / 16; ++i)
                    sx[i] >>= 16;
                for (u32 j = 0; j < Y_WARP / 8; ++j)
                    sy[j] >>= 16;
            }
        }
        u32 byte = part % WORD_PARTS * (4 / WORD_PARTS);
        // K is a multiple of 32, so the last part may be half used.
        bool half = PART_K == 64 && (first_part + part) * PART_K + 32 >= p.k_used;
        if (half) {
            for (u32 i = 0; i < X_WARP / 16; ++i) sx[i] = first_half(sx[i], byte);
            for (u32 j = 0; j < Y_WARP / 8; ++j) sy[j] = first_half(sy[j], byte);
        }
        u32 slab = part * PART_K / SLAB_K, chunk = part * 2 % (X_ROW / 16);
        u32 x_slab = x_tile + slab * X_SLAB, y_slab = y_tile + slab * Y_SLAB;
        u32 y[Y_WARP / 8][2];
#pragma unroll
        for (u32 j = 0; j + 1 < Y_WARP / 8; j += 2)
            load4(y[j], y_slab + place(y_row + j * 8 + (lane & 7) + (lane >> 4) * 8, chunk + (lane >> 3 & 1), Y_ROW), SWAP_AB == 0);
        if (Y_WARP == 8)
            load2(y[Y_WARP / 8 - 1], y_slab + place(y_row + Y_WARP - 8 + (lane & 7), chunk + (lane >> 3 & 1), Y_ROW), SWAP_AB == 0);
#pragma unroll
        for (u32 i = 0; i < X_WARP / 16; ++i) {
            u32 x[4];
            load4(x, x_slab + place(x_row + i * 16 + (lane & 15), chunk + (lane >> 4), X_ROW), SWAP_AB == 1);
            // Zeros in one operand suffice, since the elements of the other are finite.
            if (half)
                x[2] = x[3] = 0;
#pragma unroll
            for (u32 j = 0; j < Y_WARP / 8; ++j) mma(sums.of[i][j], x, y[j], sx[i], sy[j], byte);
        }
    }
}

#else // portable: bf16 mma; folding the scales into its operands is exact

// Lanes fetch the next word of scales while they use the current one.
struct Scales {
    u32 x[X_WARP / 8], y[Y_WARP / 8];
};

struct Sums {
    float of[X_WARP / 16][Y_WARP / 8][4];
    Scales now, next;
};

DEVICE void fetch_scales(Scales& s, const Problem& p, const Work& w, u32 x_row, u32 y_row, u32 word)
{
    if (word * WORD_K >= p.k_padded)
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

// The selected byte of a word in the low byte of both halves.
DEVICE u32 twice(u32 word, u32 byte)
{
    return __byte_perm(word, 0, 0x4040 + byte * 0x0101);
}

// The scale of a code as bf16 in both halves: 2^(code - 127), NaN for 0xFF, or a ue4m3.
DEVICE u32 scale_pair(u32 code)
{
#if SCALE_BLOCK == 16
    return __byte_perm(__float_as_uint(from_ue4m3(code & 0x7F)), 0, 0x3232);
#else
    return code == 0x00FF00FF ? 0x7FFF7FFF : code == 0 ? 0x00400040 : code << 7;
#endif
}

DEVICE u32 multiply_pair(u32 x, u32 scale)
{
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(scale), "r"(0x80008000));
    return d;
}

// Two scaled e4m3 codes. Conversions overlap with the integer operations that unpack weights, which limit the speed.
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

// The scale of e2m1 times 2^126, since their bits read as a bf16 are too small by that; two factors where the product may not be a bf16.
template <bool LARGE>
struct NibbleScale {
    u32 first, second;

    DEVICE NibbleScale(u32 word, u32 byte)
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

// Whether a scale of the word is 2 or more, or NaN, and so needs two factors. Scales of ue4m3 always use two.
DEVICE bool has_large(u32 word)
{
    return SCALE_BLOCK == 32 && (word & 0x80808080);
}

// Elements 4t..4t+3 of the 16 that begin at element 16 * half of a part, where t is the lane within its group of four: two registers,
// 4t and 4t+2, then 4t+1 and 4t+3, as columns 2t, 2t+1, 2t+8, 2t+9 of an mma. Both operands permute the 16 alike, so the sum
// is the same. Byte `byte` of `word` is their scale.
template <u32 ROW>
DEVICE void fragment_of_e4m3(u32* to, u32 slab, u32 row, u32 part, u32 half, u32 word, u32 byte)
{
    u32 codes, address = slab + place(row, part * 2 % (SLAB_K / 16) + half, ROW) + (threadIdx.x & 3) * 4;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(codes) : "r"(address) : "memory");
    codes = __byte_perm(codes, 0, 0x3120);
    u32 scale = scale_pair(twice(word, byte));
    to[0] = token_pair(codes & 0xFFFF, scale);
    to[1] = token_pair(codes >> 16, scale);
}

// ROW is the number of bytes of a row in a slab: a packed part has 16 bytes, an unpacked one 32.
template <u32 ROW, bool LARGE>
DEVICE void fragment_of_e2m1(u32* to, u32 slab, u32 row, u32 part, u32 half, u32 word, u32 byte)
{
    u32 address;
    if (ROW < SLAB_K)
        address = slab + place(row, part % (SLAB_K / 32), ROW) + half * 8 + (threadIdx.x & 3) * 2;
    else
        address = slab + place(row, part * 2 % (SLAB_K / 16) + half, ROW) + (threadIdx.x & 3) * 2;
    u16 four;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(four) : "r"(address) : "memory");
    // Elements 0 and 1 in the low half, 2 and 3 in the high one.
    u32 codes = __byte_perm(four, 0, 0x1100);
    NibbleScale<LARGE> scale(word, byte);
    // e2m1: the sign moves to bit 15, the rest to bits 8 to 6. One product moves a nibble to both, to save integer operations.
    to[0] = scale((codes & 0x000F000F) * ((1 << 12) + (1 << 6)) & 0x81C081C0);
    to[1] = scale((codes & 0x00F000F0) * ((1 << 8) + (1 << 2)) & 0x81C081C0);
}

template <u32 ROW>
DEVICE void fragment_of_bf16(u32* to, u32 slab, u32 row, u32 part, u32 half)
{
    u32 low, high, t = threadIdx.x & 3;
    u32 address = slab + place(row, part % (SLAB_K / 32) * 4 + half * 2 + t / 2, ROW) + t % 2 * 8;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(address) : "memory");
    to[0] = __byte_perm(low, high, 0x5410);
    to[1] = __byte_perm(low, high, 0x7632);
}

DEVICE void token_fragment(u32* to, u32 slab, u32 row, u32 part, u32 half, u32 word, u32 byte)
{
#if A_BITS == 16
    fragment_of_bf16<TOKEN_ROW>(to, slab, row, part, half);
#elif A_BITS == 8
    fragment_of_e4m3<TOKEN_ROW>(to, slab, row, part, half, word, byte);
#else
    fragment_of_e2m1<TOKEN_ROW, true>(to, slab, row, part, half, word, byte);
#endif
}

template <bool LARGE>
DEVICE void weight_fragment(u32* to, u32 slab, u32 row, u32 part, u32 half, u32 word, u32 byte)
{
#if W_BITS == 8
    fragment_of_e4m3<WEIGHT_ROW>(to, slab, row, part, half, word, byte);
#else
    fragment_of_e2m1<WEIGHT_ROW, LARGE || SCALE_BLOCK == 16>(to, slab, row, part, half, word, byte);
#endif
}

// Unpacking operands takes much code: only small tiles unroll it, and never for scales that real weights do not have.
#define PARTS_AT_ONCE (X_WARP * Y_WARP <= 1024 ? 4 : 1)

// Multiplies the parts that one word of scales covers.
template <bool LARGE>
DEVICE void multiply_word(Sums& sums, u32 x_tile, u32 y_tile, u32 x_row, u32 y_row, u32 part, u32 place_in_word, u32 parts)
{
#pragma unroll(LARGE ? 1 : PARTS_AT_ONCE)
    for (u32 n = 0; n < WORD_PARTS; ++n, ++part, ++place_in_word) {
        if (n >= parts)
            break;
        u32 slab = part * 32 / SLAB_K;
        u32 x_slab = x_tile + slab * X_SLAB, y_slab = y_tile + slab * Y_SLAB;
#pragma unroll(LARGE ? 1 : 2)
        for (u32 half = 0; half < 2; ++half) {
            u32 byte = SCALE_BLOCK == 16 ? place_in_word * 2 + half : place_in_word;
            u32 y[Y_WARP / 8][2];
#pragma unroll
            for (u32 j = 0; j < Y_WARP / 8; ++j) {
#if SWAP_AB
                token_fragment(y[j], y_slab, y_row + j * 8, part, half, sums.now.y[j], byte);
#else
                weight_fragment<LARGE>(y[j], y_slab, y_row + j * 8, part, half, sums.now.y[j], byte);
#endif
            }
#pragma unroll
            for (u32 i = 0; i < X_WARP / 16; ++i) {
                u32 x[2][2];
#pragma unroll
                for (u32 side = 0; side < 2; ++side) {
                    u32 row = x_row + i * 16 + side * 8;
#if SWAP_AB
                    weight_fragment<LARGE>(x[side], x_slab, row, part, half, sums.now.x[i * 2 + side], byte);
#else
                    token_fragment(x[side], x_slab, row, part, half, sums.now.x[i * 2 + side], byte);
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

// Multiplies the K tile at `x_tile` and `y_tile`; `first_part` is its position along K in units of 32.
DEVICE void multiply(Sums& sums, const Problem& p, const Work& w, u32 x_tile, u32 y_tile, u32 first_part)
{
    u32 group = threadIdx.x / 4 % 8, warp = threadIdx.x >> 5;
    u32 x_row = warp % WARPS_X * X_WARP + group, y_row = warp / WARPS_X * Y_WARP + group;
    if (first_part == 0)
        fetch_scales(sums.next, p, w, x_row, y_row, 0);
#pragma unroll 1
    for (u32 part = 0; part < PARTS; part += WORD_PARTS) {
        u32 at = first_part + part;
        if (at * 32 >= p.k_used)
            break;
        // Every other tile of 64 begins in the middle of a word of 128.
        if (at % WORD_PARTS == 0) {
            sums.now = sums.next;
            fetch_scales(sums.next, p, w, x_row, y_row, at / WORD_PARTS + 1);
        }
        bool large = false;
#if SWAP_AB
        for (u32 word : sums.now.x)
            large |= has_large(word);
#else
        for (u32 word : sums.now.y)
            large |= has_large(word);
#endif
        u32 parts = min(min(PARTS, WORD_PARTS), p.k_used / 32 - at);
        if (__any_sync(~0u, large))
            multiply_word<true>(sums, x_tile, y_tile, x_row, y_row, part, at % WORD_PARTS, parts);
        else
            multiply_word<false>(sums, x_tile, y_tile, x_row, y_row, part, at % WORD_PARTS, parts);
    }
}

#endif

// Element e of a lane is at row g + 8 * (e / 2) and column 2t + e % 2 of its 16x8 matrix.
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
