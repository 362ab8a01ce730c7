//@ about: "Attention of single rows over a paged cache, split along the keys; one CTA for a row, a head of keys and a split."
//@ family: attention
//@ stage: decode
//@ entry: attention_decode
//@ needs: []
//@ grid: ["rows", "kv_heads", "splits"]
//@ block: "128"
//@ smem: "4 * (group * head + group * 128 + 3 * group)"
//@ args: [queries, keys, values, key_scales, value_scales, table, lengths, starts, request_of, mask, mask_starts, slopes, partial, partial_lse, heads, kv_heads, page, most_pages, chunk, splits, window, causal, custom, sloped, scale, cap, key_page, key_slot, key_head, key_scale_page, key_scale_slot, key_scale_head, value_page, value_slot, value_head, value_scale_page, value_scale_slot, value_scale_head, key_swizzled, value_swizzled, value_offset]
//@ contract: {deterministic: true}
#include "attention.cuh"

#define THREADS 128
// Keys of a tile: one for each thread.
#define TILE THREADS
// Threads that share an element of the output, each with some of the keys.
#define PARTS (HEAD >= THREADS ? 1 : THREADS / HEAD)
// Elements of the output of a thread.
#define OWN (HEAD > THREADS ? HEAD / THREADS : 1)

extern "C" __global__ void __launch_bounds__(THREADS)
attention_decode(const u16* queries, const u8* keys, const u8* values, const u8* key_scales, const u8* value_scales,
                 const i32* table, const i32* lengths, const i32* starts, const i32* request_of, const u8* mask,
                 const i32* mask_starts, const float* slopes, float* partial, float* partial_lse, u32 heads, u32 kv_heads,
                 u32 page, u32 most_pages, u32 chunk, u32 splits, u32 window, u32 causal, u32 custom, u32 sloped, u32 scale,
                 u32 cap, u32 key_page, u32 key_slot, u32 key_head, u32 key_scale_page, u32 key_scale_slot,
                 u32 key_scale_head, u32 value_page, u32 value_slot, u32 value_head, u32 value_scale_page,
                 u32 value_scale_slot, u32 value_scale_head, u32 key_swizzled, u32 value_swizzled, u32 value_offset)
{
    Problem p = {queries,
                 {keys, key_scales, key_page, key_slot, key_head, key_scale_page, key_scale_slot, key_scale_head, key_swizzled},
                 {values + value_offset, value_scales, value_page, value_slot, value_head, value_scale_page, value_scale_slot,
                  value_scale_head, value_swizzled},
                 table, lengths, starts, mask, mask_starts, slopes, heads, kv_heads, page, most_pages, chunk, window, causal,
                 custom, sloped, __uint_as_float(scale), __uint_as_float(cap)};
    extern __shared__ float shared[];
    u32 row = blockIdx.x, kv_head = blockIdx.y, split = blockIdx.z, group = heads / kv_heads, thread = threadIdx.x;
    float* query = shared;
    float* weights = query + group * HEAD;
    // Of each head: the maximum so far, the factor of what was summed before this tile, and the sum of weights.
    float* most = weights + group * TILE;
    float* factor = most + group;
    float* sum = factor + group;
    u32 request = (u32)request_of[row];
    i32 length = lengths[request], first_row = starts[request], rows = starts[request + 1] - first_row;
    i32 position = length - rows + ((i32)row - first_row);
    Range range = range_of(p, length, position);
    i32 begin = max(range.first, (i32)(split * chunk)), end = min(range.end, (i32)((split + 1) * chunk));
    for (u32 i = thread; i < group * HEAD; i += THREADS)
        query[i] = unpack(queries[((u64)row * heads + kv_head * group) * HEAD + i]);
    if (thread < group) {
        most[thread] = -INFINITE;
        sum[thread] = 0.0f;
    }
    float out[MOST_GROUP][OWN] = {};
    __syncthreads();
    for (i32 tile = begin; tile < end; tile += TILE) {
        i32 key = tile + (i32)thread;
        bool seen = key < end && is_visible(p, request, (i32)row - first_row, length, key);
        u32 in_page = 0, slot = 0;
        if (seen) {
            in_page = (u32)table[request * most_pages + (u32)key / page];
            slot = (u32)key % page;
        }
        float products[MOST_GROUP] = {};
        if (seen)
            for (u32 c = 0; c < HEAD / 8; ++c) {
                uint4 of = eight(p.keys, in_page, slot, kv_head, c);
                u32 words[4] = {of.x, of.y, of.z, of.w};
#pragma unroll
                for (u32 i = 0; i < 8; ++i) {
                    float k = unpack(words[i / 2] >> (i % 2 * 16) & 0xFFFF);
#pragma unroll
                    for (u32 g = 0; g < MOST_GROUP; ++g)
                        if (g < group)
                            products[g] = fmaf(query[g * HEAD + c * 8 + i], k, products[g]);
                }
            }
#pragma unroll
        for (u32 g = 0; g < MOST_GROUP; ++g)
            if (g < group) {
                float slope = sloped ? slopes[kv_head * group + g] : 0.0f;
                weights[g * TILE + thread] = seen ? score(p, products[g], slope, key - position) : -INFINITE;
            }
        __syncthreads();
        weigh_tile(weights, most, factor, sum, group);
        __syncthreads();
#pragma unroll
        for (u32 g = 0; g < MOST_GROUP; ++g)
            if (g < group)
                for (u32 o = 0; o < OWN; ++o)
                    out[g][o] *= factor[g];
        u32 part = PARTS == 1 ? 0 : thread / HEAD, d = PARTS == 1 ? thread : thread % HEAD;
        i32 count = min((i32)TILE, end - tile);
        for (i32 i = (i32)part; i < count; i += PARTS) {
            i32 of = tile + i;
            // What a row does not see may be anything, even NaN.
            if (!is_visible(p, request, (i32)row - first_row, length, of))
                continue;
            u32 value_page_of = (u32)table[request * most_pages + (u32)of / page], value_slot_of = (u32)of % page;
            for (u32 o = 0; o < OWN; ++o) {
                u32 at = d + o * THREADS;
                uint4 of_chunk = eight(p.values, value_page_of, value_slot_of, kv_head, at / 8);
                u32 word = at % 8 < 2 ? of_chunk.x : at % 8 < 4 ? of_chunk.y : at % 8 < 6 ? of_chunk.z : of_chunk.w;
                float v = unpack(word >> (at % 2 * 16) & 0xFFFF);
#pragma unroll
                for (u32 g = 0; g < MOST_GROUP; ++g)
                    if (g < group)
                        out[g][o] = fmaf(weights[g * TILE + i], v, out[g][o]);
            }
        }
        __syncthreads();
    }
    // The threads that share an element add their parts in order.
#pragma unroll
    for (u32 g = 0; g < MOST_GROUP; ++g) {
        if (g >= group)
            break;
        u32 head = kv_head * group + g;
        u64 at = ((u64)row * heads + head) * splits + split;
        if (PARTS > 1) {
            query[thread] = out[g][0];
            __syncthreads();
            if (thread < HEAD)
                for (u32 part = 1; part < PARTS; ++part)
                    out[g][0] += query[thread + part * HEAD];
            __syncthreads();
        }
        float inverse = sum[g] > 0.0f ? 1.0f / sum[g] : 0.0f;
        if (PARTS == 1 || thread < HEAD)
            for (u32 o = 0; o < OWN; ++o)
                partial[at * HEAD + thread + o * THREADS] = out[g][o] * inverse;
        if (thread == 0)
            partial_lse[at] = sum[g] > 0.0f ? most[g] + log2_approx(sum[g]) : -INFINITE;
    }
}
