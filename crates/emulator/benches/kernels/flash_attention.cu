// O = softmax(Q K^T * scale) V by heads of 128 columns, causal, in f16 with f32 sums: cp.async in two stages, swizzled shared memory,
// ldmatrix, mma. A CTA does 64 queries of one head, each of its four warps 16; n is a multiple of 64.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

#define COLUMNS 128
#define ROWS 64
#define ROW_BYTES (COLUMNS * 2)
#define TILE_BYTES (ROWS * ROW_BYTES)

__device__ u32 shared_address(const void* p)
{
    return (u32)__cvta_generic_to_shared(p);
}

// Bytes of 16-byte chunk `chunk` of row `row`; neighbours in a column lie in different banks.
__device__ u32 place(u32 row, u32 chunk)
{
    return row * ROW_BYTES + ((chunk ^ (row & 7)) << 4);
}

__device__ void copy_tile(u32 to, const u16* from)
{
    for (u32 i = threadIdx.x; i < ROWS * 16; i += 128) {
        u32 row = i >> 4, chunk = i & 15;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + place(row, chunk)),
                     "l"(from + row * COLUMNS + chunk * 8)
                     : "memory");
    }
}

__device__ void load(u32* r, u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ void load_transposed(u32* r, u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

__device__ void multiply(float* d, const u32* a, u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ float exp2_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ u32 halves(float low, float high)
{
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ float over_quad(float x, bool largest)
{
    for (u32 n = 1; n < 4; n *= 2) {
        float other = __shfl_xor_sync(0xffffffff, x, n);
        x = largest ? fmaxf(x, other) : x + other;
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(128)
    flash_attention(const u16* q, const u16* k, const u16* v, u16* o, u32 n, float scale)
{
    extern __shared__ __align__(128) unsigned char shared[];
    u32 q_tile = shared_address(shared), k_tiles = q_tile + TILE_BYTES, v_tiles = k_tiles + 2 * TILE_BYTES;
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 block = gridDim.x - 1 - blockIdx.x;
    u64 head = (u64)blockIdx.y * n * COLUMNS, first = head + (u64)block * ROWS * COLUMNS;
    copy_tile(q_tile, q + first);
    copy_tile(k_tiles, k + head);
    copy_tile(v_tiles, v + head);
    asm volatile("cp.async.commit_group;" ::: "memory");

    u32 queries[8][4];
    float sums[16][4] = {};
    float largest[2] = {-1e30f, -1e30f}, total[2] = {0, 0};
    for (u32 tile = 0; tile <= block; tile++) {
        u32 stage = tile & 1;
        if (tile < block) {
            u64 next = head + (u64)(tile + 1) * ROWS * COLUMNS;
            copy_tile(k_tiles + (stage ^ 1) * TILE_BYTES, k + next);
            copy_tile(v_tiles + (stage ^ 1) * TILE_BYTES, v + next);
            asm volatile("cp.async.commit_group;" ::: "memory");
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        if (tile == 0)
#pragma unroll
            for (u32 step = 0; step < 8; step++)
                load(queries[step], q_tile + place(warp * 16 + (lane & 15), step * 2 + (lane >> 4)));

        float scores[8][4] = {};
#pragma unroll
        for (u32 step = 0; step < 8; step++)
#pragma unroll
            for (u32 pair = 0; pair < 4; pair++) {
                u32 b[4], row = pair * 16 + (lane & 7) + (lane >> 4) * 8;
                load(b, k_tiles + stage * TILE_BYTES + place(row, step * 2 + (lane >> 3 & 1)));
                multiply(scores[2 * pair], queries[step], b[0], b[1]);
                multiply(scores[2 * pair + 1], queries[step], b[2], b[3]);
            }
        if (tile == block)
#pragma unroll
            for (u32 i = 0; i < 32; i++) {
                u32 column = i / 4 * 8 + (lane & 3) * 2 + i % 2, row = warp * 16 + (lane >> 2) + i % 4 / 2 * 8;
                if (column > row) scores[i / 4][i % 4] = -1e30f;
            }
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            float most = largest[half], sum = 0;
#pragma unroll
            for (u32 i = 0; i < 16; i++) most = fmaxf(most, scores[i / 2][half * 2 + i % 2]);
            most = over_quad(most, true);
#pragma unroll
            for (u32 i = 0; i < 16; i++) {
                float& score = scores[i / 2][half * 2 + i % 2];
                score = exp2_of((score - most) * scale);
                sum += score;
            }
            float rest = exp2_of((largest[half] - most) * scale);
            largest[half] = most;
            total[half] = total[half] * rest + sum;
#pragma unroll
            for (u32 i = 0; i < 32; i++) sums[i / 2][half * 2 + i % 2] *= rest;
        }
#pragma unroll
        for (u32 step = 0; step < 4; step++) {
            float *left = scores[2 * step], *right = scores[2 * step + 1];
            u32 a[4] = {halves(left[0], left[1]), halves(left[2], left[3]), halves(right[0], right[1]),
                        halves(right[2], right[3])};
#pragma unroll
            for (u32 pair = 0; pair < 8; pair++) {
                u32 b[4];
                load_transposed(b, v_tiles + stage * TILE_BYTES + place(step * 16 + (lane & 15), pair * 2 + (lane >> 4)));
                multiply(sums[2 * pair], a, b[0], b[1]);
                multiply(sums[2 * pair + 1], a, b[2], b[3]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        float part = 1.0f / over_quad(total[half], false);
        u16* to = o + first + (u64)(warp * 16 + (lane >> 2) + half * 8) * COLUMNS + (lane & 3) * 2;
#pragma unroll
        for (u32 i = 0; i < 16; i++)
            *(u32*)(to + i * 8) = halves(sums[i][half * 2] * part, sums[i][half * 2 + 1] * part);
    }
}
