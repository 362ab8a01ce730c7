//@ about: "Attention of tiles of rows over a paged cache, as FlashAttention 2 computes it; one CTA for a tile, a head of keys and a split."
//@ family: attention
//@ stage: prefill
//@ entry: attention_prefill
//@ needs: [cp_async, mma_bf16]
//@ grid: ["tiles", "kv_heads", "splits"]
//@ block: "128"
//@ smem: "2 * head * (64 + 2 * tile)"
//@ args: [queries, keys, values, key_scales, value_scales, table, lengths, starts, tile_request, tile_row, mask, mask_starts, slopes, partial, partial_lse, heads, kv_heads, page, most_pages, chunk, splits, window, causal, custom, sloped, scale, cap, key_page, key_slot, key_head, key_scale_page, key_scale_slot, key_scale_head, value_page, value_slot, value_head, value_scale_page, value_scale_slot, value_scale_head, key_swizzled, value_swizzled, value_offset]
//@ contract: {deterministic: true}
#include "attention.cuh"

#define THREADS 128
// Rows of a tile: a row of queries and a head of its group each, heads of a row beside one another.
#define TILE_M 64
// Bytes of a row in shared memory, and 16-byte chunks of it.
#define ROW (HEAD * 2)
#define CHUNKS (HEAD / 8)
// Scores of a tile that a lane has: four of each eight keys, two of each of its rows.
#define SCORES (TILE_N / 2)

// The address of a chunk: neighbouring rows put it into different banks.
DEVICE u32 place(u32 row, u32 chunk)
{
    return row * ROW + ((chunk ^ (row & 7)) << 4);
}

DEVICE void load4(u32* to, u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

DEVICE void load4_transposed(u32* to, u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

DEVICE void store16(u32 to, uint4 x)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

// Copies the keys from `tile` on; those from `end` on, which are not read, become zeros.
DEVICE void fetch(u32 to, const Problem& p, const Side& side, u32 request, u32 kv_head, i32 tile, i32 end)
{
    for (u32 i = threadIdx.x; i < TILE_N * CHUNKS; i += THREADS) {
        u32 n = i / CHUNKS, chunk = i % CHUNKS;
        i32 key = tile + (i32)n;
        bool read = key < end;
        u32 page = read ? (u32)p.table[request * p.most_pages + (u32)key / p.page] : 0;
        u32 slot = read ? (u32)key % p.page : 0;
#if KV == KV_16
        copy16(to + place(n, chunk), codes_at(side, page, slot, kv_head) + chunk * 16, read);
#else
        store16(to + place(n, chunk), read ? eight(side, page, slot, kv_head, chunk) : make_uint4(0, 0, 0, 0));
#endif
    }
    commit();
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention_prefill(const u16* queries, const u8* keys, const u8* values, const u8* key_scales, const u8* value_scales,
                  const i32* table, const i32* lengths, const i32* starts, const i32* tile_request, const i32* tile_row,
                  const u8* mask, const i32* mask_starts, const float* slopes, float* partial, float* partial_lse, u32 heads,
                  u32 kv_heads, u32 page, u32 most_pages, u32 chunk, u32 splits, u32 window, u32 causal, u32 custom, u32 sloped,
                  u32 scale, u32 cap, u32 key_page, u32 key_slot, u32 key_head, u32 key_scale_page, u32 key_scale_slot,
                  u32 key_scale_head, u32 value_page, u32 value_slot, u32 value_head, u32 value_scale_page,
                  u32 value_scale_slot, u32 value_scale_head, u32 key_swizzled, u32 value_swizzled, u32 value_offset)
{
    Problem p = {queries,
                 {keys, key_scales, key_page, key_slot, key_head, key_scale_page, key_scale_slot, key_scale_head, key_swizzled},
                 {values + value_offset, value_scales, value_page, value_slot, value_head, value_scale_page, value_scale_slot,
                  value_scale_head, value_swizzled},
                 table, lengths, starts, mask, mask_starts, slopes, heads, kv_heads, page, most_pages, chunk, window, causal,
                 custom, sloped, __uint_as_float(scale), __uint_as_float(cap)};
    extern __shared__ __align__(128) u8 shared[];
    u32 base = (u32)__cvta_generic_to_shared(shared);
    u32 q_at = base, k_at = q_at + TILE_M * ROW, v_at = k_at + TILE_N * ROW;
    u32 kv_head = blockIdx.y, split = blockIdx.z, group = heads / kv_heads, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 request = (u32)tile_request[blockIdx.x], first = (u32)tile_row[blockIdx.x];
    i32 length = lengths[request], start = starts[request], rows = starts[request + 1] - start, offset = length - rows;
    u32 packed_rows = (u32)rows * group;
    // The keys that some row of the tile sees.
    i32 last_row = (i32)(min(first + TILE_M, packed_rows) - 1) / (i32)group;
    i32 begin = max(range_of(p, length, offset + (i32)(first / group)).first, (i32)(split * chunk));
    i32 end = min(range_of(p, length, offset + last_row).end, (i32)((split + 1) * chunk));
    for (u32 i = threadIdx.x; i < TILE_M * CHUNKS; i += THREADS) {
        u32 m = i / CHUNKS, of = first + m, c = i % CHUNKS;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (of < packed_rows) {
            u64 row = (u64)(start + (i32)(of / group)) * heads + kv_head * group + of % group;
            x = *(const uint4*)(queries + row * HEAD + c * 8);
        }
        store16(q_at + place(m, c), x);
    }
    // Of a lane's two rows: row, position, range of keys in this split, and slope.
    i32 row_of[2], position[2];
    Range range[2];
    float slope[2], most[2] = {-INFINITE, -INFINITE}, sum[2] = {0.0f, 0.0f};
    for (u32 h = 0; h < 2; ++h) {
        u32 of = first + warp * 16 + lane / 4 + h * 8;
        row_of[h] = (i32)(min(of, packed_rows - 1) / group);
        position[h] = offset + row_of[h];
        range[h] = range_of(p, length, position[h]);
        range[h].end = min(range[h].end, end);
        slope[h] = sloped ? slopes[kv_head * group + min(of, packed_rows - 1) % group] : 0.0f;
    }
    float out[HEAD / 8][4] = {};
    for (i32 tile = begin; tile < end; tile += TILE_N) {
        fetch(k_at, p, p.keys, request, kv_head, tile, end);
        fetch(v_at, p, p.values, request, kv_head, tile, end);
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        float s[TILE_N / 8][4] = {};
#pragma unroll
        for (u32 k = 0; k < HEAD / 16; ++k) {
            u32 a[4];
            load4(a, q_at + place(warp * 16 + (lane & 15), k * 2 + (lane >> 4)));
#pragma unroll
            for (u32 n = 0; n < TILE_N / 16; ++n) {
                u32 b[4];
                load4(b, k_at + place(n * 16 + (lane & 7) + (lane >> 4) * 8, k * 2 + (lane >> 3 & 1)));
                mma(s[n * 2], a, b);
                mma(s[n * 2 + 1], a, b + 2);
            }
        }
        auto key_of = [&](u32 i) { return tile + (i32)(i / 4 * 8 + (lane & 3) * 2 + i % 2); };
        u32 seen = seen_scores<SCORES>(p, request, length, row_of, range, key_of);
        score_products<SCORES>(s, p, seen, slope, position, key_of);
        float best[2] = {most[0], most[1]};
#pragma unroll
        for (u32 i = 0; i < SCORES; ++i)
            best[i / 2 % 2] = fmaxf(best[i / 2 % 2], s[i / 4][i % 4]);
        float shift[2];
#pragma unroll
        for (u32 h = 0; h < 2; ++h) {
            best[h] = fmaxf(best[h], __shfl_xor_sync(0xFFFFFFFF, best[h], 1));
            best[h] = fmaxf(best[h], __shfl_xor_sync(0xFFFFFFFF, best[h], 2));
            shift[h] = best[h] == -INFINITE ? 0.0f : best[h];
            float before = exp2_approx(most[h] - shift[h]);
            most[h] = best[h];
            sum[h] *= before;
#pragma unroll
            for (u32 d = 0; d < HEAD / 8; ++d) {
                out[d][h * 2] *= before;
                out[d][h * 2 + 1] *= before;
            }
        }
#pragma unroll
        for (u32 k = 0; k < TILE_N / 16; ++k) {
            u32 a[4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                u32 n = k * 2 + j / 2, h = j % 2;
                a[j] = pack(exp2_approx(s[n][h * 2] - shift[h]), exp2_approx(s[n][h * 2 + 1] - shift[h]));
                // The denominator sums the weights that multiply the values.
                sum[h] += unpack(a[j] & 0xFFFF) + unpack(a[j] >> 16);
            }
#pragma unroll
            for (u32 d = 0; d < HEAD / 16; ++d) {
                u32 b[4];
                load4_transposed(b, v_at + place(k * 16 + (lane & 15), d * 2 + (lane >> 4)));
                mma(out[d * 2], a, b);
                mma(out[d * 2 + 1], a, b + 2);
            }
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
        float inverse = sum[h] > 0.0f ? 1.0f / sum[h] : 0.0f;
        u64 head_of = (u64)(start + (i32)(of / group)) * heads + kv_head * group + of % group, at = head_of * splits + split;
#pragma unroll
        for (u32 d = 0; d < HEAD / 8; ++d)
            *(float2*)(partial + at * HEAD + d * 8 + (lane & 3) * 2) = make_float2(out[d][h * 2] * inverse, out[d][h * 2 + 1] * inverse);
        if ((lane & 3) == 0)
            partial_lse[at] = sum[h] > 0.0f ? most[h] + log2_approx(sum[h]) : -INFINITE;
    }
}
