//@ about: "Attention of tiles of rows over a paged cache by block-scaled mma: queries, keys, weights and values in NVFP4."
//@ family: attention
//@ stage: prefill_fp4
//@ entry: attention_prefill_fp4
//@ paths: [native, portable]
//@ needs: []
//@ needs_native: [mma_nvf4]
//@ needs_portable: [mma_bf16]
//@ grid: ["tiles", "kv_heads", "splits"]
//@ block: "128"
//@ smem: "(64 + tile) * (head / 2 + head / 16) + head * (tile / 2 + tile / 16)"
//@ args: [query_codes, query_scales, keys, values, key_scales, value_scales, table, lengths, starts, tile_request, tile_row, mask, mask_starts, slopes, partial, partial_lse, heads, kv_heads, page, most_pages, chunk, splits, window, causal, custom, sloped, scale, cap, key_page, key_slot, key_head, key_scale_page, key_scale_slot, key_scale_head, value_page, value_head, value_scale_page, value_scale_head, key_swizzled]
//@ contract: {deterministic: true, k_order: ascending, quantizes: {rounding: nearest_even, scale: sixth_of_largest, factor: tile_maximum}}
#include "block_scaled.cuh"

#define THREADS 128
// Rows of a tile: a row of queries and a head of its group each, heads of a row beside one another. Keys of a tile begin at multiples of 64.
#define TILE_M 64
// Bytes of the codes and of the scales of a query or a key, and of a column of values.
#define ROW (HEAD / 2)
#define SCALES (HEAD / 16)
#define COLUMN (TILE_N / 2)
#define COLUMN_SCALES (TILE_N / 16)
// Scores of a tile that a lane has: a quarter of the keys for each of its two rows.
#define SCORES (TILE_N / 2)
// The largest weight of a tile: that of an element of 6 with a scale of 448.
#define LARGEST 2688.0f

// Tiles in shared memory.
struct Tiles {
    // [rows or keys, bytes]
    u8 *queries, *query_scales, *keys, *key_scales;
    // [columns, bytes]: keys are contiguous, as the mma needs them.
    u8 *values, *value_scales;
};

// Copies the queries of a tile of rows; those behind the last row become zeros.
DEVICE void fetch_queries(const Tiles& to, const Problem& p, const u8* codes, const u8* scales, u32 start, u32 first, u32 rows, u32 kv_head)
{
    u32 group = p.heads / p.kv_heads;
    for (u32 i = threadIdx.x; i < TILE_M * SCALES; i += THREADS) {
        u32 m = i / SCALES, block = i % SCALES, of = first + m;
        uint2 eight = make_uint2(0, 0);
        u8 scale = 0;
        if (of < rows) {
            u64 row = (u64)(start + of / group) * p.heads + kv_head * group + of % group;
            eight = *(const uint2*)(codes + row * ROW + block * 8);
            scale = scales[row * SCALES + block];
        }
        *(uint2*)(to.queries + m * ROW + block * 8) = eight;
        to.query_scales[m * SCALES + block] = scale;
    }
}

// Copies the keys from `tile` on; those before `begin` and from `end` on, which are not read, become zeros.
DEVICE void fetch_keys(const Tiles& to, const Problem& p, u32 request, u32 kv_head, i32 tile, i32 begin, i32 end)
{
    for (u32 i = threadIdx.x; i < TILE_N * SCALES; i += THREADS) {
        u32 n = i / SCALES, block = i % SCALES;
        i32 key = tile + (i32)n;
        uint2 eight = make_uint2(0, 0);
        u8 scale = 0;
        if (key >= begin && key < end) {
            u32 page = (u32)p.table[request * p.most_pages + (u32)key / p.page], slot = (u32)key % p.page;
            eight = *(const uint2*)(p.keys.codes + (u64)page * p.keys.page + slot * p.keys.slot + kv_head * p.keys.head + block * 8);
            scale = p.keys.scales[scale_at(p.keys, page, slot, kv_head, block)];
        }
        *(uint2*)(to.keys + n * ROW + block * 8) = eight;
        to.key_scales[n * SCALES + block] = scale;
    }
}

// Copies the values of the same keys: 16 keys of a column have a scale, and both are in one page. A block without a key to read becomes
// zeros, since its scale may be NaN; within a block a code that is not read is a number, and its weight zero.
DEVICE void fetch_values(const Tiles& to, const Problem& p, u32 request, u32 kv_head, i32 tile, i32 begin, i32 end)
{
    for (u32 i = threadIdx.x; i < HEAD * COLUMN_SCALES; i += THREADS) {
        u32 d = i / COLUMN_SCALES, block = i % COLUMN_SCALES;
        i32 key = tile + (i32)block * 16;
        uint2 eight = make_uint2(0, 0);
        u8 of_block = 0;
        if (key + 16 > begin && key < end) {
            u32 page = (u32)p.table[request * p.most_pages + (u32)key / p.page], slot = (u32)key % p.page;
            eight = *(const uint2*)(p.values.codes + (u64)page * p.values.page + kv_head * p.values.head + (d * p.page + slot) / 2);
            of_block = p.values.scales[(u64)page * p.values.scale_page + kv_head * p.values.scale_head + (d * p.page + slot) / 16];
        }
        *(uint2*)(to.values + d * COLUMN + block * 8) = eight;
        to.value_scales[d * COLUMN_SCALES + block] = of_block;
    }
}

DEVICE u32 word(const u8* at)
{
    return *(const u32*)at;
}

// Scores of a warp's 16 rows with the keys of the tile. A lane gets the keys 8t to 8t+7 of each half of the tile, so that the weights that
// it computes are those that it holds as an operand of the next mma: column g of mma n is the key 32 * (n / 4) + g / 2 * 8 + n % 4 * 2 + g % 2.
DEVICE void score_tile(float (*s)[4], const Tiles& tiles, u32 warp, u32 lane)
{
    u32 g = lane / 4, t = lane % 4, row = warp * 16 + g;
#pragma unroll
    for (u32 k = 0; k < HEAD / 64; ++k) {
        const u8* from = tiles.queries + row * ROW + k * 32 + t * 4;
        u32 a[4] = {word(from), word(from + 8 * ROW), word(from + 16), word(from + 8 * ROW + 16)};
        u32 row_scales = word(tiles.query_scales + (row + t % 2 * 8) * SCALES + k * 4);
#pragma unroll
        for (u32 n = 0; n < TILE_N / 8; ++n) {
            u32 key = n / 4 * 32 + g / 2 * 8 + n % 4 * 2 + g % 2;
            const u8* at = tiles.keys + key * ROW + k * 32 + t * 4;
            u32 b[2] = {word(at), word(at + 16)};
            float products[4];
            multiply(products, a, b, row_scales, word(tiles.key_scales + key * SCALES + k * 4));
#pragma unroll
            for (u32 i = 0; i < 4; ++i)
                s[n][i] = k == 0 ? products[i] : s[n][i] + products[i];
        }
    }
}

// The weights of a lane's two rows as an operand: codes, and the scales of the row that the lane supplies.
struct Weights {
    u32 codes[4], scales;
};

// Quantizes weights, which a lane holds as scores are: eight of a half of the tile, of which 16 have a scale.
DEVICE Weights quantize(const float (*s)[4], u32 lane)
{
    Weights weights = {};
    u32 t = lane % 4;
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        u32 scales = 0;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            float most = 0.0f;
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
                most = fmaxf(most, s[half * 4 + i / 2][h * 2 + i % 2]);
            most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFF, most, 1));
            u32 scale = to_ue4m3(__fdiv_rn(most, 6.0f));
            float inverse = scale == 0 ? 0.0f : __fdiv_rn(1.0f, from_ue4m3(scale));
#pragma unroll
            for (u32 i = 0; i < 8; ++i)
                weights.codes[half * 2 + h] |= to_e2m1(s[half * 4 + i / 2][h * 2 + i % 2] * inverse) << i * 4;
            // The other block of the half is in the other two lanes of the four.
            u32 other = __shfl_xor_sync(0xFFFFFFFF, scale, 2);
            scales |= (t < 2 ? scale | other << 8 : other | scale << 8) << half * 16;
        }
        if (t % 2 == h)
            weights.scales = scales;
    }
    return weights;
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention_prefill_fp4(const u8* query_codes, const u8* query_scales, const u8* keys, const u8* values, const u8* key_scales,
                      const u8* value_scales, const i32* table, const i32* lengths, const i32* starts, const i32* tile_request,
                      const i32* tile_row, const u8* mask, const i32* mask_starts, const float* slopes, float* partial,
                      float* partial_lse, u32 heads, u32 kv_heads, u32 page, u32 most_pages, u32 chunk, u32 splits, u32 window,
                      u32 causal, u32 custom, u32 sloped, u32 scale, u32 cap, u32 key_page, u32 key_slot, u32 key_head,
                      u32 key_scale_page, u32 key_scale_slot, u32 key_scale_head, u32 value_page, u32 value_head,
                      u32 value_scale_page, u32 value_scale_head, u32 key_swizzled)
{
    wait_for_predecessor();
    Problem p = {0,
                 {keys, key_scales, key_page, key_slot, key_head, key_scale_page, key_scale_slot, key_scale_head, key_swizzled},
                 {values, value_scales, value_page, 0, value_head, value_scale_page, 0, value_scale_head, 0},
                 table, lengths, starts, mask, mask_starts, slopes, heads, kv_heads, page, most_pages, chunk, window, causal,
                 custom, sloped, __uint_as_float(scale), __uint_as_float(cap)};
    extern __shared__ __align__(16) u8 shared[];
    Tiles tiles;
    tiles.queries = shared;
    tiles.query_scales = tiles.queries + TILE_M * ROW;
    tiles.keys = tiles.query_scales + TILE_M * SCALES;
    tiles.key_scales = tiles.keys + TILE_N * ROW;
    tiles.values = tiles.key_scales + TILE_N * SCALES;
    tiles.value_scales = tiles.values + HEAD * COLUMN;
    u32 kv_head = blockIdx.y, split = blockIdx.z, group = heads / kv_heads, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 request = (u32)tile_request[blockIdx.x], first = (u32)tile_row[blockIdx.x];
    i32 length = lengths[request], start = starts[request], rows = starts[request + 1] - start, offset = length - rows;
    u32 packed_rows = (u32)rows * group;
    // The keys that some row of the tile sees.
    i32 last_row = (i32)(min(first + TILE_M, packed_rows) - 1) / (i32)group;
    i32 begin = max(range_of(p, length, offset + (i32)(first / group)).first, (i32)(split * chunk));
    i32 end = min(range_of(p, length, offset + last_row).end, (i32)((split + 1) * chunk));
    fetch_queries(tiles, p, query_codes, query_scales, (u32)start, first, packed_rows, kv_head);
    // Of a lane's two rows: row, position, range of keys in this split, and slope; the largest score so far, and the sum of weights relative to it.
    i32 row_of[2], position[2];
    Range range[2];
    float slope[2], most[2] = {-INFINITE, -INFINITE}, sum[2] = {0.0f, 0.0f};
    for (u32 h = 0; h < 2; ++h) {
        u32 of = min(first + warp * 16 + lane / 4 + h * 8, packed_rows - 1);
        row_of[h] = (i32)(of / group);
        position[h] = offset + row_of[h];
        range[h] = range_of(p, length, position[h]);
        range[h] = {max(range[h].first, begin), min(range[h].end, end)};
        slope[h] = sloped ? slopes[kv_head * group + of % group] : 0.0f;
    }
    float out[HEAD / 8][4] = {};
    for (i32 tile = begin / TILE_N * TILE_N; tile < end; tile += TILE_N) {
        fetch_keys(tiles, p, request, kv_head, tile, begin, end);
        fetch_values(tiles, p, request, kv_head, tile, begin, end);
        __syncthreads();
        float s[TILE_N / 8][4];
        score_tile(s, tiles, warp, lane);
        auto key_of = [&](u32 i) { return tile + (i32)(i / 16 * 32 + lane % 4 * 8 + i / 4 % 4 * 2 + i % 2); };
        u32 seen = seen_scores<SCORES>(p, request, length, row_of, range, key_of);
        score_products<SCORES>(s, p, seen, slope, position, key_of);
        float best[2] = {-INFINITE, -INFINITE};
#pragma unroll
        for (u32 i = 0; i < SCORES; ++i)
            best[i / 2 % 2] = fmaxf(best[i / 2 % 2], s[i / 4][i % 4]);
        // The first level: weights are relative to the largest score of the tile, and the tile has a factor for each row.
        float before[2], factor[2];
#pragma unroll
        for (u32 h = 0; h < 2; ++h) {
            best[h] = fmaxf(best[h], __shfl_xor_sync(0xFFFFFFFF, best[h], 1));
            best[h] = fmaxf(best[h], __shfl_xor_sync(0xFFFFFFFF, best[h], 2));
            float new_most = fmaxf(most[h], best[h]), shift = new_most == -INFINITE ? 0.0f : new_most;
            before[h] = exp2_approx(most[h] - shift);
            factor[h] = exp2_approx(best[h] - shift);
            most[h] = new_most;
            shift = best[h] == -INFINITE ? 0.0f : best[h];
            float total = 0.0f;
#pragma unroll
            for (u32 i = 0; i < TILE_N / 4; ++i) {
                float& weight = s[i / 2][h * 2 + i % 2];
                weight = exp2_approx(weight - shift) * LARGEST;
                total += weight;
            }
            // The denominator sums the weights before they are quantized.
            sum[h] = fmaf(total, factor[h], sum[h] * before[h]);
        }
        // The second level: a scale for 16 keys, and codes.
        Weights weights = quantize(s, lane);
#pragma unroll
        for (u32 d = 0; d < HEAD / 8; ++d) {
            u32 column = d * 8 + lane / 4;
            const u8* at = tiles.values + column * COLUMN + lane % 4 * 4;
            u32 b[2] = {word(at), word(at + 16)};
            float products[4];
            multiply(products, weights.codes, b, weights.scales, word(tiles.value_scales + column * COLUMN_SCALES));
#pragma unroll
            for (u32 i = 0; i < 4; ++i)
                out[d][i] = fmaf(products[i], factor[i / 2], out[d][i] * before[i / 2]);
        }
        // Everything of this tile is read before the next one is copied.
        __syncthreads();
    }
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        sum[h] += __shfl_xor_sync(0xFFFFFFFF, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xFFFFFFFF, sum[h], 2);
        u32 of = first + warp * 16 + lane / 4 + h * 8;
        if (of >= packed_rows)
            continue;
        u64 head_of = (u64)(start + (i32)(of / group)) * heads + kv_head * group + of % group, at = head_of * splits + split;
#pragma unroll
        for (u32 d = 0; d < HEAD / 8; ++d) {
            float low = sum[h] > 0.0f ? __fdiv_rn(out[d][h * 2], sum[h]) : 0.0f;
            float high = sum[h] > 0.0f ? __fdiv_rn(out[d][h * 2 + 1], sum[h]) : 0.0f;
            *(float2*)(partial + at * HEAD + d * 8 + lane % 4 * 2) = make_float2(low, high);
        }
        if (lane % 4 == 0)
            partial_lse[at] = sum[h] > 0.0f ? most[h] + log2_approx(__fdiv_rn(sum[h], LARGEST)) : -INFINITE;
    }
}
