//@ about: "Attention of single rows over records of latent attention (656 bytes), each row over the slots of its own table; one CTA for a row and a split."
//@ family: attention
//@ stage: mla
//@ entry: attention_mla
//@ needs: []
//@ grid: ["rows", "splits"]
//@ block: "128"
//@ smem: "4 * (group * 576 + group * 128 + 3 * group)"
//@ args: [queries, keys, table, lengths, partial, partial_lse, heads, page, most_pages, chunk, splits, scale, key_page, key_slot]
//@ contract: {deterministic: true}
#include "attention.cuh"

#define THREADS 128
// Keys of a tile: one for each thread.
#define TILE THREADS
// Elements of a record that have codes and scales, all of its elements, and codes that share a scale.
#define LATENT 512
#define WIDTH 576
#define SCALED 128
// Where the scales and the rotary part begin in a record, in bytes.
#define SCALES_AT LATENT
#define ROTARY_AT (SCALES_AT + 4 * LATENT / SCALED)
// Elements of the output of a thread; they share a scale.
#define OWN (LATENT / THREADS)

// Four codes of e4m3 times the scale of their block.
DEVICE float4 four(u32 codes, float scale)
{
    return make_float4(from_e4m3(codes) * scale, from_e4m3(codes >> 8) * scale, from_e4m3(codes >> 16) * scale,
                       from_e4m3(codes >> 24) * scale);
}

// Turns the scores of a tile of 128 keys into weights, [heads, 128], and brings what was summed before under the new maximum. All 128
// threads call it between two barriers.
DEVICE void weigh_tile(float* weights, float* most, float* factor, float* sum, u32 heads)
{
    const u32 keys = 128;
    // A warp takes every fourth head.
    for (u32 g = threadIdx.x / 32; g < heads; g += 4) {
        u32 lane = threadIdx.x % 32;
        float best = most[g];
        for (u32 i = lane; i < keys; i += 32)
            best = fmaxf(best, weights[g * keys + i]);
        for (u32 step = 16; step; step /= 2)
            best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFF, best, step));
        // No key so far: any shift gives weights of zero.
        float shift = best == -INFINITE ? 0.0f : best;
        float total = 0.0f;
        for (u32 i = lane; i < keys; i += 32) {
            // The denominator sums the weights that multiply the values.
            float weight = unpack(pack(exp2_approx(weights[g * keys + i] - shift), 0.0f) & 0xFFFF);
            weights[g * keys + i] = weight;
            total += weight;
        }
        for (u32 step = 16; step; step /= 2)
            total += __shfl_xor_sync(0xFFFFFFFF, total, step);
        if (lane == 0) {
            float before = exp2_approx(most[g] - shift);
            factor[g] = before;
            sum[g] = fmaf(sum[g], before, total);
            most[g] = best;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention_mla(const u16* queries, const u8* records, const i32* table, const i32* lengths, float* partial, float* partial_lse,
              u32 heads, u32 page, u32 most_slots, u32 chunk, u32 splits, u32 scale, u32 page_bytes, u32 row_bytes)
{
    extern __shared__ float shared[];
    u32 row = blockIdx.x, split = blockIdx.y, thread = threadIdx.x;
    float* query = shared;
    float* weights = query + heads * WIDTH;
    // Of each head: the maximum so far, the factor of what was summed before this tile, and the sum of weights.
    float* most = weights + heads * TILE;
    float* factor = most + heads;
    float* sum = factor + heads;
    i32 begin = (i32)(split * chunk), end = min(lengths[row], (i32)((split + 1) * chunk));
    for (u32 i = thread; i < heads * WIDTH; i += THREADS)
        query[i] = unpack(queries[(u64)row * heads * WIDTH + i]);
    if (thread < heads) {
        most[thread] = -INFINITE;
        sum[thread] = 0.0f;
    }
    float out[MOST_GROUP][OWN] = {};
    __syncthreads();
    for (i32 tile = begin; tile < end; tile += TILE) {
        i32 key = tile + (i32)thread;
        bool seen = key < end;
        float products[MOST_GROUP] = {};
        if (seen) {
            // A slot counts over all pages.
            u32 slot = (u32)table[row * most_slots + (u32)key];
            const u8* record = records + (u64)(slot / page) * page_bytes + slot % page * row_bytes;
            for (u32 d = 0; d < LATENT; d += 4) {
                float block = *(const float*)(record + SCALES_AT + d / SCALED * 4);
                float4 k = four(*(const u32*)(record + d), block);
#pragma unroll
                for (u32 g = 0; g < MOST_GROUP; ++g)
                    if (g < heads) {
                        const float* q = query + g * WIDTH + d;
                        products[g] = fmaf(q[3], k.w, fmaf(q[2], k.z, fmaf(q[1], k.y, fmaf(q[0], k.x, products[g]))));
                    }
            }
            for (u32 d = LATENT; d < WIDTH; d += 2) {
                u32 two = *(const u32*)(record + ROTARY_AT + (d - LATENT) * 2);
                float low = __uint_as_float(two << 16), high = __uint_as_float(two & 0xFFFF0000);
#pragma unroll
                for (u32 g = 0; g < MOST_GROUP; ++g)
                    if (g < heads)
                        products[g] = fmaf(query[g * WIDTH + d + 1], high, fmaf(query[g * WIDTH + d], low, products[g]));
            }
        }
#pragma unroll
        for (u32 head = 0; head < MOST_GROUP; ++head)
            if (head < heads)
                weights[head * TILE + thread] = seen ? products[head] * __uint_as_float(scale) * LOG2_E : -INFINITE;
        __syncthreads();
        weigh_tile(weights, most, factor, sum, heads);
        __syncthreads();
#pragma unroll
        for (u32 h = 0; h < MOST_GROUP; ++h)
            if (h < heads)
                for (u32 o = 0; o < OWN; ++o)
                    out[h][o] *= factor[h];
        i32 count = min((i32)TILE, end - tile);
        for (i32 i = 0; i < count; ++i) {
            u32 slot = (u32)table[row * most_slots + (u32)(tile + i)];
            const u8* record = records + (u64)(slot / page) * page_bytes + slot % page * row_bytes;
            u32 d = thread * OWN;
            float4 v = four(*(const u32*)(record + d), *(const float*)(record + SCALES_AT + d / SCALED * 4));
#pragma unroll
            for (u32 g = 0; g < MOST_GROUP; ++g)
                if (g < heads) {
                    float weight = weights[g * TILE + i];
                    out[g][0] = fmaf(weight, v.x, out[g][0]);
                    out[g][1] = fmaf(weight, v.y, out[g][1]);
                    out[g][2] = fmaf(weight, v.z, out[g][2]);
                    out[g][3] = fmaf(weight, v.w, out[g][3]);
                }
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 g = 0; g < MOST_GROUP; ++g) {
        if (g >= heads)
            break;
        u64 at = ((u64)row * heads + g) * splits + split;
        float inverse = sum[g] > 0.0f ? 1.0f / sum[g] : 0.0f;
        *(float4*)(partial + at * LATENT + thread * OWN) =
            make_float4(out[g][0] * inverse, out[g][1] * inverse, out[g][2] * inverse, out[g][3] * inverse);
        if (thread == 0)
            partial_lse[at] = sum[g] > 0.0f ? most[g] + log2_approx(sum[g]) : -INFINITE;
    }
}
