// The part of a grouped matrix product that does not depend on how it multiplies: which rows and columns a CTA computes, where
// their scales are, and the epilogue.
#pragma once
#include "mx.cuh"

// The tokens and channels of this CTA.
struct Work {
    u32 expert, slot;      // slot: index of the expert's weights on this device
    u32 row, rows;         // first permuted row of the tile, number of its rows that exist
    u32 scale_row;         // row of the scale matrix of `row`
    u32 column;            // first channel
};

// The arguments of all variants.
struct Problem {
    const u8* a_scales;
    const u8* w_scales;
    const float* global;   // per slot, the factor of its sums
    const float* token_scale;   // per row, if tokens have scales
    const float* bias;
    const i32* expert_offset;
    const i32* expert_slot;
    u16* out;
    u32 n;                 // channels
    u32 k_padded;          // row stride in elements, a multiple of 128
    u32 k_used;            // elements that are multiplied, a multiple of 32
};

DEVICE Work work_of(const Problem& p, const i32* tile_expert, const i32* tile_row)
{
    Work w;
    w.expert = (u32)tile_expert[blockIdx.y];
    w.slot = (u32)p.expert_slot[w.expert];
    w.row = (u32)tile_row[blockIdx.y];
    u32 first = (u32)p.expert_offset[w.expert], end = (u32)p.expert_offset[w.expert + 1];
    w.rows = min(end - w.row, (u32)TILE_M);
    w.scale_row = scale_row_of_expert(first, w.expert) + w.row - first;
    w.column = blockIdx.x * TILE_N;
    return w;
}

// Rows of the scale matrix for the weights of one expert.
DEVICE u32 weight_scale_rows(u32 n)
{
#if SCALES_8X4
    return (n + 7) / 8 * 8;
#else
    return (n + 127) / 128 * 128;
#endif
}

// The four scale bytes of the WORD_K elements from WORD_K * word of a token's row; 1.0 for rows that do not exist and for bf16.
DEVICE u32 token_scales(const Problem& p, const Work& w, u32 row, u32 word)
{
    if (A_FORMAT == FORMAT_BF16 || row >= w.rows)
        return UNIT_SCALES;
    return *(const u32*)(p.a_scales + scale_at(w.scale_row + row, word * 4, p.k_padded / SCALE_BLOCK));
}

DEVICE u32 weight_scales(const Problem& p, const Work& w, u32 row, u32 word)
{
    if (w.column + row >= p.n)
        return UNIT_SCALES;
    u64 base = (u64)w.slot * weight_scale_rows(p.n) * (p.k_padded / SCALE_BLOCK);
    return *(const u32*)(p.w_scales + base + scale_at(w.column + row, word * 4, p.k_padded / SCALE_BLOCK));
}

DEVICE void store_one(const Problem& p, const Work& w, u32 token, u32 channel, float sum)
{
    if (token >= w.rows || w.column + channel >= p.n)
        return;
#if TOKEN_SCALE
    sum = __fmul_rn(sum, p.token_scale[w.row + token]);
#endif
#if HAS_GLOBAL
    sum = __fmul_rn(sum, p.global[w.slot]);
#endif
#if BIAS_HERE
    sum = __fadd_rn(sum, p.bias[(u64)w.slot * p.n + w.column + channel]);
#endif
    p.out[(u64)(w.row + token) * p.n + w.column + channel] = to_bf16(sum);
}
