// C[M][N] = A[M][K] * B[N][K]^T in f16 with f32 sums: cp.async in two stages, swizzled shared memory, ldmatrix, mma.
// Tile 64 x 64 x 32, four warps of 32 x 32. M, N and K are multiples of the tile.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

#define TILE_K 32
#define STAGE_BYTES (2 * 64 * TILE_K * 2)

__device__ u32 shared_address(const void* p)
{
    return (u32)__cvta_generic_to_shared(p);
}

// Bytes of 16-byte chunk `chunk` of row `row`; neighbours in a column lie in different banks.
__device__ u32 place(u32 row, u32 chunk)
{
    return row * (TILE_K * 2) + ((chunk ^ ((row >> 1) & 3)) << 4);
}

__device__ void copy_tile(u32 to, const u16* from, u32 k, u32 first_row, u32 at)
{
    // 64 rows of 4 chunks, 128 threads: two chunks each.
    for (u32 i = threadIdx.x; i < 256; i += 128) {
        u32 row = i >> 2, chunk = i & 3;
        const u16* source = from + (u64)(first_row + row) * k + at + chunk * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + place(row, chunk)), "l"(source) : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(128) gemm_f16(const u16* a, const u16* b, float* c, u32 m, u32 n, u32 k)
{
    __shared__ __align__(128) unsigned char tiles[2 * STAGE_BYTES];
    u32 base = shared_address(tiles);
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 warp_m = (warp & 1) * 32, warp_n = (warp >> 1) * 32;
    u32 row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
    float sums[2][4][4] = {};

    u32 steps = k / TILE_K;
    copy_tile(base, a, k, row0, 0);
    copy_tile(base + 64 * TILE_K * 2, b, k, column0, 0);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (u32 step = 0; step < steps; ++step) {
        if (step + 1 < steps) {
            u32 next = base + ((step + 1) & 1) * STAGE_BYTES;
            copy_tile(next, a, k, row0, (step + 1) * TILE_K);
            copy_tile(next + 64 * TILE_K * 2, b, k, column0, (step + 1) * TILE_K);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        u32 tile_a = base + (step & 1) * STAGE_BYTES, tile_b = tile_a + 64 * TILE_K * 2;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 fa[2][4], fb[4][2];
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                u32 row = warp_m + i * 16 + (lane & 15), chunk = half * 2 + (lane >> 4);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                             : "r"(tile_a + place(row, chunk))
                             : "memory");
            }
#pragma unroll
            for (u32 j = 0; j < 4; j += 2) {
                u32 row = warp_n + j * 8 + (lane & 7) + ((lane >> 4) << 3), chunk = half * 2 + ((lane >> 3) & 1);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j + 1][0]), "=r"(fb[j + 1][1])
                             : "r"(tile_b + place(row, chunk))
                             : "memory");
            }
#pragma unroll
            for (u32 i = 0; i < 2; ++i)
#pragma unroll
                for (u32 j = 0; j < 4; ++j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                                 : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
        __syncthreads();
    }
    for (u32 i = 0; i < 2; ++i)
        for (u32 j = 0; j < 4; ++j) {
            u32 row = row0 + warp_m + i * 16 + (lane >> 2), column = column0 + warp_n + j * 8 + (lane & 3) * 2;
            *(float2*)(c + (u64)row * n + column) = make_float2(sums[i][j][0], sums[i][j][1]);
            *(float2*)(c + (u64)(row + 8) * n + column) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
}
