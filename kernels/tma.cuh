// A producer warp fetches tiles by TMA into a ring of stages, which mbarriers hand back and forth; for any tensor maps.
#pragma once
#include "gemm.cuh"

#define THREADS (32 * (CONSUMERS + 1))
// Without a cluster, shared::cta and shared::cluster both mean this CTA; shared::cta as a destination needs PTX 8.6.
#ifndef FETCH
#define FETCH "shared::cta"
#endif
// Bytes of global memory per stage: packed weights, whatever their layout in shared memory.
#define STAGE_TX (TILE_M * TILE_K * A_BITS / 8 + TILE_N * TILE_K * W_BITS / 8)
// Extent of a weight slab in elements of its tensor map: 4-bit elements, or bytes that hold two.
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

// The source of a CTA's tiles.
struct Source {
    const void* a_map;
    const void* w_map;
    u32 row, slot;         // first token of the tile, and the expert, as coordinates of the maps
};

DEVICE void run(const Problem& p, const Work& w, const Source& from, u8* dynamic)
{
    __shared__ __align__(8) u64 barriers[2 * STAGES];
    // The 128-byte swizzle repeats every 1024 bytes.
    u32 base = ((u32)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
    u32 full = (u32)__cvta_generic_to_shared(barriers), empty = full + 8 * STAGES;
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, steps = (p.k_used + TILE_K - 1) / TILE_K;
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
                                 ::"r"(to + slab * TOKEN_SLAB), "l"(from.a_map), "r"(at / SLAB_K * TOKEN_ROW), "r"(from.row), "r"(full + 8 * s) : "memory");
                    asm volatile("cp.async.bulk.tensor.3d." FETCH ".global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                                 ::"r"(to + WEIGHTS_AT + slab * WEIGHT_SLAB), "l"(from.w_map), "r"(at / SLAB_K * WEIGHT_BOX), "r"(w.column),
                                 "r"(from.slot), "r"(full + 8 * s) : "memory");
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
        __syncwarp();
        if (lane == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * s) : "memory");
    }
    store(sums, p, w);
}
