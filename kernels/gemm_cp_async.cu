//@ about: "Grouped GEMM of quantized tokens and weights; every thread copies with cp.async into a ring of stages."
//@ stage: gemm
//@ entry: grouped_gemm
//@ paths: [native, portable]
//@ load: cp_async
//@ needs: [cp_async]
//@ needs_native: [mma_mxf8f6f4, ldmatrix_b4x16]
//@ needs_portable: [mma_bf16, cvt_e4m3x2]
//@ formats:
//@   nvfp4: {needs: [cp_async], native: [mma_nvf4], portable: [mma_bf16]}
//@   mxfp4: {needs: [cp_async], native: [mma_mxf4], portable: [mma_bf16]}
//@   mxfp8: {needs: [cp_async], native: [mma_mxf8f6f4], portable: [mma_bf16, cvt_e4m3x2]}
//@   bf16xmxfp4: {needs: [cp_async], portable: [mma_bf16]}
//@   bf16xnvfp4: {needs: [cp_async], portable: [mma_bf16]}
//@ grid: ["ceil_div(n, tile_n)", "most_tiles"]
//@ block: "32 * warps"
//@ smem: "stages * stage_bytes"
//@ args: [a_codes, a_scales, w_codes, w_scales, global, token_scale, bias, expert_offset, expert_slot, tile_expert, tile_row, tile_count, out, n, k_padded, k_used]
//@ contract: {k_order: ascending, deterministic: true}
#include "gemm.cuh"

#define THREADS (32 * CONSUMERS)

// Elements in 16 bytes of a row in shared memory.
#define TOKEN_CHUNK (128 / A_BITS)
#define WEIGHT_CHUNK (PACKED ? 32 : 16)
// Bytes of global memory that fill those 16: half as many where 4-bit weights occupy eight bits in shared memory.
#define WEIGHT_COPY (WEIGHT_CHUNK * W_BITS / 8)

// Copies K tile `step` of both operands into `stage`; elements outside the problem become zeros.
DEVICE void fetch(u32 stage, const u8* a_codes, const u8* w_codes, const Problem& p, const Work& w, u32 step)
{
    for (u32 i = threadIdx.x; i < TILE_M * (TILE_K / TOKEN_CHUNK); i += THREADS) {
        u32 row = i / (TILE_K / TOKEN_CHUNK), chunk = i % (TILE_K / TOKEN_CHUNK), at = step * TILE_K + chunk * TOKEN_CHUNK;
        u32 to = stage + chunk / (TOKEN_ROW / 16) * TOKEN_SLAB + place(row, chunk % (TOKEN_ROW / 16), TOKEN_ROW);
        bool there = row < w.rows && at < p.k_padded;
        const u8* from = there ? a_codes + ((u64)(w.row + row) * p.k_padded + at) * A_BITS / 8 : a_codes;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
    }
    for (u32 i = threadIdx.x; i < TILE_N * (TILE_K / WEIGHT_CHUNK); i += THREADS) {
        u32 row = i / (TILE_K / WEIGHT_CHUNK), chunk = i % (TILE_K / WEIGHT_CHUNK), at = step * TILE_K + chunk * WEIGHT_CHUNK;
        u32 to = stage + WEIGHTS_AT + chunk / (WEIGHT_ROW / 16) * WEIGHT_SLAB + place(row, chunk % (WEIGHT_ROW / 16), WEIGHT_ROW);
        bool there = w.column + row < p.n && at < p.k_padded;
        const u8* from = there ? w_codes + (((u64)w.slot * p.n + w.column + row) * p.k_padded + at) * W_BITS / 8 : w_codes;
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     ::"r"(to), "l"(from), "n"(WEIGHT_COPY), "r"(there ? WEIGHT_COPY : 0) : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
grouped_gemm(const u8* a_codes, const u8* a_scales, const u8* w_codes, const u8* w_scales, const float* global,
             const float* token_scale, const float* bias, const i32* expert_offset, const i32* expert_slot, const i32* tile_expert, const i32* tile_row, const i32* tile_count,
             u16* out, u32 n, u32 k_padded, u32 k_used)
{
    extern __shared__ __align__(1024) u8 ring[];
    let_successor_start();
    wait_for_predecessor();
    if (blockIdx.y >= (u32)*tile_count)
        return;
    Problem p = {a_scales, w_scales, global, token_scale, bias, expert_offset, expert_slot, out, n, k_padded, k_used};
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
        // All threads see the tile, and no thread still reads the stage that is filled next.
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
