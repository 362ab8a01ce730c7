// C[M][N] = (A * scales)[M][K] * (B * scales)[N][K]^T with A in e4m3 and B in packed e2m1, one ue8m0 scale for each 32 of K:
// B is spread to 8 bytes per 16 by cp.async, expanded by ldmatrix b4x16_p64 and shifted to where the mma wants it.
// Tile 32 x 32 x 128, four warps of 16 x 16. Scales are K/32 bytes per row, four per 32-bit word.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

// 128 bytes of A and 128 of B (64 of them used) in each row of a tile.
#define TILE_BYTES (32 * 128)

// Bytes of 16-byte chunk `chunk` of row `row`.
__device__ u32 place(u32 row, u32 chunk)
{
    return row * 128 + ((chunk ^ (row & 7)) << 4);
}

extern "C" __global__ void __launch_bounds__(128)
gemm_mx(const u8* a, const u8* b, const u32* scales_a, const u32* scales_b, float* c, u32 n, u32 k)
{
    __shared__ __align__(128) u8 tiles[2 * TILE_BYTES];
    u32 tile_a = (u32)__cvta_generic_to_shared(tiles), tile_b = tile_a + TILE_BYTES;
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 warp_m = (warp & 1) * 16, warp_n = (warp >> 1) * 16;
    u32 row0 = blockIdx.y * 32, column0 = blockIdx.x * 32;
    float sums[2][4] = {};
    for (u32 at = 0; at < k; at += 128) {
        for (u32 i = threadIdx.x; i < 32 * 8; i += 128) {
            u32 row = i >> 3, chunk = i & 7;
            const u8* from_a = a + (u64)(row0 + row) * k + at + chunk * 16;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(tile_a + place(row, chunk)), "l"(from_a) : "memory");
            const u8* from_b = b + ((u64)(column0 + row) * k + at) / 2 + chunk * 8;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(tile_b + place(row, chunk)), "l"(from_b) : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        // Rows 0..7 of a tile are scaled by the even lane of a pair, rows 8..15 by the odd one.
        u32 sa = scales_a[(u64)(row0 + warp_m + (lane >> 2) + 8 * (lane & 1)) * (k / 128) + at / 128];
        u32 sb[2];
        for (u32 j = 0; j < 2; ++j)
            sb[j] = scales_b[(u64)(column0 + warp_n + j * 8 + (lane >> 2)) * (k / 128) + at / 128];
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            u32 fa[4], fb[4];
            u32 row_a = warp_m + (lane & 15), chunk_a = part * 2 + (lane >> 4);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                         : "r"(tile_a + place(row_a, chunk_a))
                         : "memory");
            u32 row_b = warp_n + (lane & 7) + ((lane >> 4) << 3), chunk_b = part * 2 + ((lane >> 3) & 1);
            asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%0, %1, %2, %3}, [%4];"
                         : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                         : "r"(tile_b + place(row_b, chunk_b))
                         : "memory");
#pragma unroll
            for (u32 j = 0; j < 2; ++j) {
                u32 b0 = fb[2 * j] << 2, b1 = fb[2 * j + 1] << 2;
#define MMA(BYTE) \
    asm volatile("mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0 " \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {" #BYTE ", 0}, {%11}, {" #BYTE ", 0};" \
                 : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3]) \
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(b0), "r"(b1), "r"(sa), "r"(sb[j]))
                if (part == 0)
                    MMA(0);
                else if (part == 1)
                    MMA(1);
                else if (part == 2)
                    MMA(2);
                else
                    MMA(3);
            }
        }
        __syncthreads();
    }
    for (u32 j = 0; j < 2; ++j) {
        u32 row = row0 + warp_m + (lane >> 2), column = column0 + warp_n + j * 8 + (lane & 3) * 2;
        *(float2*)(c + (u64)row * n + column) = make_float2(sums[j][0], sums[j][1]);
        *(float2*)(c + (u64)(row + 8) * n + column) = make_float2(sums[j][2], sums[j][3]);
    }
}
