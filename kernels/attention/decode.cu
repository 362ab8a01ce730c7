//@ about: "Attention of single rows over a paged cache, split along the keys; one CTA for a row, a head of keys and a split."
//@ family: attention
//@ stage: decode
//@ entry: attention_decode
//@ needs: [cp_async, mma_bf16]
//@ grid: ["rows * kv_heads", "splits", "1"]
//@ block: "128"
//@ smem: "384 * head"
//@ args: [queries, keys, values, key_scales, value_scales, table, lengths, starts, request_of, mask, mask_starts, slopes, partial, partial_lse, heads, kv_heads, page, most_pages, chunk, splits, window, causal, custom, sloped, scale, cap, key_page, key_slot, key_head, key_scale_page, key_scale_slot, key_scale_head, value_page, value_slot, value_head, value_scale_page, value_scale_slot, value_scale_head, key_swizzled, value_swizzled, value_offset]
//@ contract: {deterministic: true}
#include "attention.cuh"

// A warp takes every fourth piece of 16 keys, through a ring of its own, and has a maximum and sums of its own: warps meet at the end. The
// heads of a group are the rows of a tile of mma. Neither elements nor keys have an order in a sum, so a lane multiplies what it reads: the
// element that mma counts as k of a key is any, as long as it is the same one of the query, and so is the key that it counts as k of a value.
#define THREADS 128
#define WARPS (THREADS / 32)
// Keys of a piece.
#define KEYS (TILE_N / WARPS)
// Bytes of a head of a key, and 16-byte chunks of it.
#define ROW (HEAD / 8 * KV_EIGHT)
#define CHUNKS (ROW / 16)
// Words that hold a scale of a block, for each head of a key.
#define BLOCKS (KV == KV_NVFP4 ? HEAD / 16 : 0)
// Bytes of a piece of keys or of values, and of the ring of a warp, and pieces in it.
#define PIECE (KEYS * (ROW + 4 * BLOCKS))
#define RING (96 * HEAD)
#define PIECES (RING / PIECE)
// Keys of a piece of which a lane has the weights.
#define OWN (KEYS / 4)
#define ALL_LANES 0xFFFFFFFF
// Words of a line of sums: eight more than a head has, so that neighbouring lines begin at different banks.
#define LINE (HEAD + 8)
// The slot of a key that the row does not see.
#define UNSEEN 0xFFFFFFFF

// Where a chunk is in a piece: what eight lanes read at a time is in different banks, both of 2 neighbouring rows and of 4 even or odd ones.
DEVICE u32 place(u32 row, u32 chunk)
{
    return row * ROW + ((chunk ^ (((row & 6) ^ (row & 1) << 2) & (CHUNKS - 1))) << 4);
}

// Which key behind its first one a lane has as number i: two neighbours of each eight.
DEVICE i32 key_of(u32 i)
{
    return (i32)(i / 2 * 8 + i % 2);
}

// What a warp copies.
struct Source {
    // The page and the slot of a key of the next piece: lane n has that of key n.
    u32 page, slot;
    // The first key of the next piece, and whether its keys are copied, so that its values are next.
    i32 key;
    bool values;
    // The place in the ring of the next piece.
    u32 place;
};

DEVICE void locate(Source& source, const Problem& p, u32 request, i32 row, i32 length, i32 end)
{
    i32 key = source.key + (i32)(threadIdx.x % KEYS);
    source.page = 0;
    source.slot = UNSEEN;
    if (key < end && is_visible(p, request, row, length, key)) {
        source.page = (u32)p.table[request * p.most_pages + (u32)key / p.page];
        source.slot = (u32)key % p.page;
    }
}

// Copies a piece of keys or values. What the row does not see may be anything, even NaN: it is not read, and becomes zeros.
DEVICE void copy_piece(const Source& source, const Side& side, u32 kv_head)
{
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 i = lane; i < KEYS * CHUNKS; i += 32) {
        u32 n = i / CHUNKS, chunk = i % CHUNKS;
        u32 page = __shfl_sync(ALL_LANES, source.page, n), slot = __shfl_sync(ALL_LANES, source.slot, n);
        bool seen = slot != UNSEEN;
        copy16(source.place + place(n, chunk), codes_at(side, page, seen ? slot : 0, kv_head) + chunk * 16, seen);
    }
#if KV == KV_NVFP4
#pragma unroll
    for (u32 i = lane; i < KEYS * BLOCKS; i += 32) {
        u32 n = i / BLOCKS, block = i % BLOCKS;
        u32 page = __shfl_sync(ALL_LANES, source.page, n), slot = __shfl_sync(ALL_LANES, source.slot, n);
        bool seen = slot != UNSEEN;
        // The word with the scale, for bytes cannot be copied: rows of scales begin at words.
        u64 at = scale_at(side, page, seen ? slot : 0, kv_head, block) & ~3ull;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(source.place + KEYS * ROW + i * 4), "l"(side.scales + at),
                     "r"(seen ? 4 : 0) : "memory");
    }
#endif
}

// Waits until the oldest piece of the ring is there.
DEVICE void wait_for_piece()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PIECES - 1) : "memory");
    __syncwarp();
}

// Elements 8 * n and the seven behind it of a key of a piece, as T16. `key` counts from the first one of the request.
DEVICE uint4 eight_of(u32 piece, const Side& side, u32 row, u32 n, i32 key)
{
    u32 from = piece + place(row, n * KV_EIGHT / 16) + n * KV_EIGHT % 16, scale = 0;
    Eight codes;
#if KV == KV_16
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(codes.x), "=r"(codes.y), "=r"(codes.z), "=r"(codes.w) : "r"(from) : "memory");
#elif KV == KV_E4M3 || KV == KV_E5M2
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(codes.x), "=r"(codes.y) : "r"(from) : "memory");
#else
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(codes) : "r"(from) : "memory");
    u32 block = n / 2;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(scale) : "r"(piece + KEYS * ROW + (row * BLOCKS + block) * 4) : "memory");
    // Swizzled, a word has a block's scales of four slots; pages begin at multiples of four keys.
    scale = scale >> ((side.swizzled ? (u32)key : block) % 4 * 8) & 0xFF;
#endif
    return widened(codes, scale);
}

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
    extern __shared__ __align__(128) float shared[];
    // Heads of keys vary first: where they are neighbours in memory (NHD), CTAs that run together read whole lines together.
    u32 row = blockIdx.x / kv_heads, kv_head = blockIdx.x % kv_heads, split = blockIdx.y, group = heads / kv_heads;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / 4, in_quad = lane % 4;
    u32 request = (u32)request_of[row];
    i32 length = lengths[request], first_row = starts[request], rows = starts[request + 1] - first_row;
    i32 row_of = (i32)row - first_row, position = length - rows + row_of;
    Range range = range_of(p, length, position);
    i32 begin = max(range.first, (i32)(split * chunk)), end = min(range.end, (i32)((split + 1) * chunk));
    u32 ring = (u32)__cvta_generic_to_shared(shared) + warp * RING;
    Source source = {0, 0, begin + (i32)(warp * KEYS), false, ring};
    locate(source, p, request, row_of, length, end);
    auto copy_next = [&]() {
        if (source.key < end) {
            const Side side = source.values ? p.values : p.keys;
            copy_piece(source, side, kv_head);
        }
        commit();
        source.place = source.place + PIECE == ring + PIECES * PIECE ? ring : source.place + PIECE;
        source.values = !source.values;
        if (!source.values) {
            source.key += TILE_N;
            // Early: the table is read while the pieces before are multiplied.
            locate(source, p, request, row_of, length, end);
        }
    };
    for (u32 n = 0; n < PIECES; ++n)
        copy_next();
    // A lane has two heads of the group: quad, and 8 more.
    u32 query[HEAD / 16][4];
    float slope[2], most[2] = {-INFINITE, -INFINITE}, sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        u32 head = quad + h * 8;
        bool is_head = head < group;
        const u16* from = queries + ((u64)row * heads + kv_head * group + (is_head ? head : 0)) * HEAD;
#pragma unroll
        for (u32 k = 0; k < HEAD / 16; ++k) {
            // Two products of mma for eight elements of a lane.
            uint2 x = is_head ? *(const uint2*)(from + (k / 2 * 4 + in_quad) * 8 + k % 2 * 4) : make_uint2(0, 0);
            query[k][h] = x.x;
            query[k][h + 2] = x.y;
        }
        slope[h] = sloped && is_head ? slopes[kv_head * group + head] : 0.0f;
    }
    // Of eight neighbouring tiles a lane has 16 neighbouring elements of each of its heads.
    float out[HEAD / 8][4] = {};
    u32 piece = ring;
    auto drop_piece = [&]() {
        __syncwarp();
        copy_next();
        piece = piece + PIECE == ring + PIECES * PIECE ? ring : piece + PIECE;
    };
    for (i32 tile = begin + (i32)(warp * KEYS); tile < end; tile += TILE_N) {
        wait_for_piece();
        float s[KEYS / 8][4] = {};
#pragma unroll
        for (u32 k = 0; k < HEAD / 32; ++k)
#pragma unroll
            for (u32 n = 0; n < KEYS / 8; ++n) {
                uint4 x = eight_of(piece, p.keys, n * 8 + quad, k * 4 + in_quad, tile + (i32)(n * 8 + quad));
                u32 low[2] = {x.x, x.y}, high[2] = {x.z, x.w};
                mma(s[n], query[k * 2], low);
                mma(s[n], query[k * 2 + 1], high);
            }
        drop_piece();
        i32 first = tile + (i32)(in_quad * 2);
        u32 seen = 0;
#pragma unroll
        for (u32 i = 0; i < OWN; ++i)
            seen |= (u32)(first + key_of(i) < end) << i;
        if (custom)
#pragma unroll
            for (u32 i = 0; i < OWN; ++i)
                if (seen >> i & 1 && !is_visible(p, request, row_of, length, first + key_of(i)))
                    seen &= ~(1u << i);
        u32 weights[KEYS / 8][2] = {};
#pragma unroll
        for (u32 h = 0; h < 2; ++h) {
            // Most groups have no more than eight heads.
            if (h * 8 >= group)
                break;
            float score[OWN], best = most[h];
#pragma unroll
            for (u32 i = 0; i < OWN; ++i)
                score[i] = s[i / 2][h * 2 + i % 2] * p.scale;
            if (sloped)
#pragma unroll
                for (u32 i = 0; i < OWN; ++i)
                    score[i] += slope[h] * (float)(first + key_of(i) - position);
            if (p.cap > 0.0f)
#pragma unroll
                for (u32 i = 0; i < OWN; ++i)
                    score[i] = capped(score[i], p.cap);
#pragma unroll
            for (u32 i = 0; i < OWN; ++i) {
                score[i] = seen >> i & 1 ? score[i] * LOG2_E : -INFINITE;
                best = fmaxf(best, score[i]);
            }
            best = fmaxf(best, __shfl_xor_sync(ALL_LANES, best, 1));
            best = fmaxf(best, __shfl_xor_sync(ALL_LANES, best, 2));
            // No key so far: any shift gives weights of zero.
            float shift = best == -INFINITE ? 0.0f : best;
            float before = exp2_approx(most[h] - shift);
            most[h] = best;
            sum[h] *= before;
#pragma unroll
            for (u32 d = 0; d < HEAD / 8; ++d) {
                out[d][h * 2] *= before;
                out[d][h * 2 + 1] *= before;
            }
#pragma unroll
            for (u32 n = 0; n < KEYS / 8; ++n) {
                weights[n][h] = pack(exp2_approx(score[n * 2] - shift), exp2_approx(score[n * 2 + 1] - shift));
                // The denominator sums the weights that multiply the values.
                sum[h] += unpack(weights[n][h] & 0xFFFF) + unpack(weights[n][h] >> 16);
            }
        }
        wait_for_piece();
#pragma unroll
        for (u32 k = 0; k < KEYS / 16; ++k)
#pragma unroll
            for (u32 d = 0; d < HEAD / 64; ++d) {
                u32 v[4][4];
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    u32 n = k * 16 + i / 2 * 8 + in_quad * 2 + i % 2;
                    uint4 x = eight_of(piece, p.values, n, d * 8 + quad, tile + (i32)n);
                    v[i][0] = x.x, v[i][1] = x.y, v[i][2] = x.z, v[i][3] = x.w;
                }
#pragma unroll
                for (u32 i = 0; i < 8; ++i) {
                    // The same element of two keys each.
                    u32 halves = i % 2 ? 0x7632 : 0x5410;
                    u32 b[2] = {__byte_perm(v[0][i / 2], v[1][i / 2], halves), __byte_perm(v[2][i / 2], v[3][i / 2], halves)};
                    mma(out[d * 8 + i], weights[k * 2], b);
                }
            }
        drop_piece();
    }
    // Everything is read, and nothing is copied any more, before sums take the place of the rings: [warps, 16, LINE], then the maximum and the
    // sum of weights of each head of each warp.
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    float* most_of = shared + WARPS * 16 * LINE;
    float* sum_of = most_of + WARPS * 16;
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        if (h * 8 >= group)
            break;
        sum[h] += __shfl_xor_sync(ALL_LANES, sum[h], 1);
        sum[h] += __shfl_xor_sync(ALL_LANES, sum[h], 2);
        u32 line = warp * 16 + quad + h * 8;
        if (in_quad == 0) {
            most_of[line] = most[h];
            sum_of[line] = sum[h];
        }
#pragma unroll
        for (u32 d = 0; d < HEAD / 64; ++d)
#pragma unroll
            for (u32 fours = 0; fours < 4; ++fours) {
                // Half the lanes store the other four of a pair: with LINE, eight lanes meet no bank twice.
                bool other = in_quad & 2;
                float x[4];
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    u32 own = fours * 4 + i, exchanged = own ^ 4;
                    x[i] = other ? out[d * 8 + exchanged % 8][h * 2 + exchanged / 8] : out[d * 8 + own % 8][h * 2 + own / 8];
                }
                u32 at = line * LINE + d * 64 + in_quad * 16 + (fours ^ (u32)other) * 4;
                *(float4*)(shared + at) = make_float4(x[0], x[1], x[2], x[3]);
            }
    }
    __syncthreads();
    // Warps are added in order.
    for (u32 i = threadIdx.x; i < group * (HEAD / 4); i += THREADS) {
        u32 g = i / (HEAD / 4), d = i % (HEAD / 4) * 4;
        float best = -INFINITE, total = 0.0f;
        for (u32 w = 0; w < WARPS; ++w)
            best = fmaxf(best, most_of[w * 16 + g]);
        float shift = best == -INFINITE ? 0.0f : best;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (u32 w = 0; w < WARPS; ++w) {
            float factor = exp2_approx(most_of[w * 16 + g] - shift);
            total = fmaf(factor, sum_of[w * 16 + g], total);
            float4 y = *(const float4*)(shared + (w * 16 + g) * LINE + d);
            x.x = fmaf(factor, y.x, x.x), x.y = fmaf(factor, y.y, x.y);
            x.z = fmaf(factor, y.z, x.z), x.w = fmaf(factor, y.w, x.w);
        }
        bool any = total > 0.0f;
        u64 at = ((u64)row * heads + kv_head * group + g) * splits + split;
        *(float4*)(partial + at * HEAD + d) =
            any ? make_float4(x.x / total, x.y / total, x.z / total, x.w / total) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (d == 0)
            partial_lse[at] = any ? best + log2_approx(total) : -INFINITE;
    }
}
