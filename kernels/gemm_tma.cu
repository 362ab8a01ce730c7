//@ about: "Grouped GEMM of MXFP8 tokens and MXFP4 weights; a producer warp fetches tiles by TMA, mbarriers pass stages to and fro."
//@ stage: gemm
//@ entry: grouped_gemm
//@ paths: [native, portable]
//@ load: tma
//@ packed: [portable]
//@ needs: [tma_tile, mbarrier_tx]
//@ needs_native: [mma_mxf8f6f4, ldmatrix_b4x16, tma_u4_unpack]
//@ needs_portable: [mma_bf16, cvt_e4m3x2]
//@ grid: ["ceil_div(n, tile_n)", "most_tiles"]
//@ block: "32 * (warps + 1)"
//@ smem: "stages * stage_bytes + 1024"
//@ args: [a_map, w_map, a_scales, w_scales, bias, expert_offset, expert_slot, tile_expert, tile_row, tile_count, out, n, k_padded, k_used]
//@ contract: {k_order: ascending, deterministic: true}
#include "gemm.cuh"

#define THREADS (32 * (CONSUMERS + 1))
// Without a cluster both spellings mean this CTA; shared::cta as a destination needs PTX 8.6.
#ifndef FETCH
#define FETCH "shared::cta"
#endif
// Bytes of global memory that one stage fetches: weights count packed, however they lie in shared memory.
#define STAGE_TX (TILE_M * TILE_K + TILE_N * TILE_K / 2)
// Extent of a weight slab in the elements of its map: 4-bit elements, or bytes of two.
#define WEIGHT_BOX (PACKED ? SLAB_K / 2 : SLAB_K)

struct __align__(64) TensorMap {
    u64 words[16];
};

DEVICE void wait(u32 barrier, u32 parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier), "r"(parity) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
grouped_gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap w_map, const u8* a_scales,
             const u8* w_scales, const float* bias, const i32* expert_offset, const i32* expert_slot, const i32* tile_expert,
             const i32* tile_row, const i32* tile_count, u16* out, u32 n, u32 k_padded, u32 k_used)
{
    extern __shared__ u8 dynamic[];
    __shared__ __align__(8) u64 barriers[2 * STAGES];
    let_successor_start();
    wait_for_predecessor();
    if (blockIdx.y >= (u32)*tile_count)
        return;
    Problem p = {a_scales, w_scales, bias, expert_offset, expert_slot, out, n, k_padded, k_used};
    Work w = work_of(p, tile_expert, tile_row);
    // The 128-byte swizzle repeats every 1024 bytes.
    u32 base = ((u32)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
    u32 full = (u32)__cvta_generic_to_shared(barriers), empty = full + 8 * STAGES;
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, steps = (k_used + TILE_K - 1) / TILE_K;
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
                u32 s = step % STAGES, round = step / STAGES, to = base + s * STAGE_BYTES;
                wait(empty + 8 * s, (round & 1) ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + 8 * s), "n"(STAGE_TX) : "memory");
#pragma unroll
                for (u32 slab = 0; slab < SLABS; ++slab) {
                    u32 at = step * TILE_K + slab * SLAB_K;
                    asm volatile("cp.async.bulk.tensor.2d." FETCH ".global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                                 ::"r"(to + slab * TOKEN_SLAB), "l"(&a_map), "r"(at), "r"(w.row), "r"(full + 8 * s) : "memory");
                    asm volatile("cp.async.bulk.tensor.3d." FETCH ".global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                                 ::"r"(to + WEIGHTS_AT + slab * WEIGHT_SLAB), "l"(&w_map), "r"(at / SLAB_K * WEIGHT_BOX), "r"(w.column),
                                 "r"(w.slot), "r"(full + 8 * s) : "memory");
                }
            }
        return;
    }
    Sums sums = {};
    for (u32 step = 0; step < steps; ++step) {
        u32 s = step % STAGES, round = step / STAGES;
        wait(full + 8 * s, round & 1);
        u32 tokens = base + s * STAGE_BYTES, weights = tokens + WEIGHTS_AT;
        multiply(sums, p, w, SWAP_AB ? weights : tokens, SWAP_AB ? tokens : weights, step * PARTS);
        if (lane == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * s) : "memory");
        __syncwarp();
    }
    store(sums, p, w);
}
