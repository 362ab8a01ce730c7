// C[M][N] = A[M][K] * B[N][K]^T in bf16: a producer warp fetches tiles by TMA with 128-byte swizzle into a ring of stages,
// four consumer warps wait for full stages and give empty ones back, all by mbarriers. Tile 64 x 64 x 64.
typedef unsigned int u32;
typedef unsigned long long u64;

struct __align__(64) TensorMap {
    u64 words[16];
};

#define STAGES 3
#define TILE_BYTES (64 * 128)
#define STAGE_BYTES (2 * TILE_BYTES)
#define CONSUMERS 4

__device__ void wait(u32 barrier, u32 parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier), "r"(parity)
                 : "memory");
}

__device__ void fetch(u32 to, const TensorMap* map, u32 x, u32 y, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}

// Bytes of 16-byte chunk `chunk` of row `row` under the 128-byte swizzle.
__device__ u32 place(u32 row, u32 chunk)
{
    return row * 128 + ((chunk ^ (row & 7)) << 4);
}

extern "C" __global__ void __launch_bounds__(160)
gemm_tma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float* c, u32 n, u32 k)
{
    extern __shared__ __align__(1024) unsigned char ring[];
    __shared__ __align__(8) u64 barriers[2 * STAGES];
    u32 base = (u32)__cvta_generic_to_shared(ring);
    u32 full = (u32)__cvta_generic_to_shared(barriers), empty = full + 8 * STAGES;
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 row0 = blockIdx.y * 64, column0 = blockIdx.x * 64, steps = k / 64;
    if (threadIdx.x == 0) {
        for (u32 s = 0; s < STAGES; ++s) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * s) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + 8 * s), "n"(CONSUMERS) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (warp == CONSUMERS) {
        if (lane == 0)
            for (u32 step = 0; step < steps; ++step) {
                u32 s = step % STAGES, round = step / STAGES;
                wait(empty + 8 * s, (round & 1) ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + 8 * s), "n"(STAGE_BYTES)
                             : "memory");
                fetch(base + s * STAGE_BYTES, &map_a, step * 64, row0, full + 8 * s);
                fetch(base + s * STAGE_BYTES + TILE_BYTES, &map_b, step * 64, column0, full + 8 * s);
            }
        return;
    }
    u32 warp_m = (warp & 1) * 32, warp_n = (warp >> 1) * 32;
    float sums[2][4][4] = {};
    for (u32 step = 0; step < steps; ++step) {
        u32 s = step % STAGES, round = step / STAGES;
        wait(full + 8 * s, round & 1);
        u32 tile_a = base + s * STAGE_BYTES, tile_b = tile_a + TILE_BYTES;
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            u32 fa[2][4], fb[4][2];
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                u32 row = warp_m + i * 16 + (lane & 15), chunk = part * 2 + (lane >> 4);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                             : "r"(tile_a + place(row, chunk))
                             : "memory");
            }
#pragma unroll
            for (u32 j = 0; j < 4; j += 2) {
                u32 row = warp_n + j * 8 + (lane & 7) + ((lane >> 4) << 3), chunk = part * 2 + ((lane >> 3) & 1);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j + 1][0]), "=r"(fb[j + 1][1])
                             : "r"(tile_b + place(row, chunk))
                             : "memory");
            }
#pragma unroll
            for (u32 i = 0; i < 2; ++i)
#pragma unroll
                for (u32 j = 0; j < 4; ++j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                                 : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
        if (lane == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * s) : "memory");
        __syncwarp();
    }
    for (u32 i = 0; i < 2; ++i)
        for (u32 j = 0; j < 4; ++j) {
            u32 row = row0 + warp_m + i * 16 + (lane >> 2), column = column0 + warp_n + j * 8 + (lane & 3) * 2;
            *(float2*)(c + (u64)row * n + column) = make_float2(sums[i][j][0], sums[i][j][1]);
            *(float2*)(c + (u64)(row + 8) * n + column) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
}
