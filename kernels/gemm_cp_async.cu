//@ about: "Grouped GEMM of MXFP8 tokens and MXFP4 weights; every thread copies with cp.async into a ring of stages."
//@ stage: gemm
//@ entry: grouped_gemm
//@ paths: [native, portable]
//@ load: cp_async
//@ needs: [cp_async]
//@ needs_native: [mma_mxf8f6f4, ldmatrix_b4x16]
//@ needs_portable: [mma_bf16, cvt_e4m3x2]
//@ grid: ["ceil_div(n, tile_n)", "most_tiles"]
//@ block: "32 * warps"
//@ smem: "stages * stage_bytes"
//@ args: [a_codes, a_scales, w_codes, w_scales, bias, expert_offset, expert_slot, tile_expert, tile_row, tile_count, out, n, k_padded, k_used]
//@ contract: {k_order: ascending, deterministic: true}
#include "gemm.cuh"

#define THREADS (32 * CONSUMERS)

// Copies K tile `step` of both operands into `stage`; what lies outside the problem becomes zeros.
DEVICE void fetch(u32 stage, const u8* a_codes, const u8* w_codes, const Problem& p, const Work& w, u32 step)
{
    for (u32 i = threadIdx.x; i < TILE_M * (TILE_K / 16); i += THREADS) {
        u32 row = i / (TILE_K / 16), chunk = i % (TILE_K / 16), at = step * TILE_K + chunk * 16;
        u32 to = stage + chunk / (SLAB_K / 16) * TOKEN_SLAB + place(row, chunk % (SLAB_K / 16), TOKEN_ROW);
        bool there = row < w.rows && at < p.k_padded;
        const u8* from = there ? a_codes + (u64)(w.row + row) * p.k_padded + at : a_codes;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
    }
    for (u32 i = threadIdx.x; i < TILE_N * (TILE_K / 16); i += THREADS) {
        u32 row = i / (TILE_K / 16), chunk = i % (TILE_K / 16), at = step * TILE_K + chunk * 16;
        u32 to = stage + WEIGHTS_AT + chunk / (SLAB_K / 16) * WEIGHT_SLAB + place(row, chunk % (SLAB_K / 16), WEIGHT_ROW);
        bool there = w.column + row < p.n && at < p.k_padded;
        const u8* from = there ? w_codes + (((u64)w.slot * p.n + w.column + row) * p.k_padded + at) / 2 : w_codes;
        // 16 weights are 8 bytes here and 16 there.
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(there ? 8 : 0) : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
grouped_gemm(const u8* a_codes, const u8* a_scales, const u8* w_codes, const u8* w_scales, const float* bias,
             const i32* expert_offset, const i32* expert_slot, const i32* tile_expert, const i32* tile_row, const i32* tile_count,
             u16* out, u32 n, u32 k_padded, u32 k_used)
{
    extern __shared__ __align__(1024) u8 ring[];
    let_successor_start();
    wait_for_predecessor();
    if (blockIdx.y >= (u32)*tile_count)
        return;
    Problem p = {a_scales, w_scales, bias, expert_offset, expert_slot, out, n, k_padded, k_used};
    Work w = work_of(p, tile_expert, tile_row);
    u32 base = (u32)__cvta_generic_to_shared(ring), steps = (k_used + TILE_K - 1) / TILE_K;
    Sums sums = {};
    for (u32 step = 0; step < STAGES - 1; ++step) {
        if (step < steps)
            fetch(base + step * STAGE_BYTES, a_codes, w_codes, p, w, step);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (u32 step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        // The tile is there for all, and nobody reads the stage that is filled next.
        __syncthreads();
        u32 next = step + STAGES - 1;
        if (next < steps)
            fetch(base + next % STAGES * STAGE_BYTES, a_codes, w_codes, p, w, next);
        asm volatile("cp.async.commit_group;" ::: "memory");
        u32 tokens = base + step % STAGES * STAGE_BYTES, weights = tokens + WEIGHTS_AT;
        multiply(sums, p, w, SWAP_AB ? weights : tokens, SWAP_AB ? tokens : weights, step * PARTS);
    }
    store(sums, p, w);
}
