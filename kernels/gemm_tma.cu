//@ about: "Grouped GEMM of quantized tokens and weights; a producer warp fetches tiles by TMA into a ring of stages, synchronized by mbarriers."
//@ stage: gemm
//@ entry: grouped_gemm
//@ paths: [native, portable]
//@ load: tma
//@ packed: [portable]
//@ needs: [tma_tile, mbarrier_tx]
//@ needs_native: [mma_mxf8f6f4, ldmatrix_b4x16, tma_u4_unpack]
//@ needs_portable: [mma_bf16, cvt_e4m3x2]
//@ formats:
//@   nvfp4: {needs: [tma_tile, mbarrier_tx], native: [mma_nvf4], portable: [mma_bf16]}
//@   mxfp4: {needs: [tma_tile, mbarrier_tx], native: [mma_mxf4], portable: [mma_bf16]}
//@   mxfp8: {needs: [tma_tile, mbarrier_tx], native: [mma_mxf8f6f4], portable: [mma_bf16, cvt_e4m3x2]}
//@   bf16xmxfp4: {needs: [tma_tile, mbarrier_tx], portable: [mma_bf16]}
//@   bf16xnvfp4: {needs: [tma_tile, mbarrier_tx], portable: [mma_bf16]}
//@ grid: ["ceil_div(n, tile_n)", "most_tiles"]
//@ block: "32 * (warps + 1)"
//@ smem: "stages * stage_bytes + 1024"
//@ args: [a_map, w_map, a_scales, w_scales, global, token_scale, bias, expert_offset, expert_slot, tile_expert, tile_row, tile_count, out, n, k_padded, k_used]
//@ contract: {k_order: ascending, deterministic: true}
#include "tma.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
grouped_gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap w_map, const u8* a_scales,
             const u8* w_scales, const float* global, const float* token_scale, const float* bias, const i32* expert_offset,
             const i32* expert_slot, const i32* tile_expert, const i32* tile_row, const i32* tile_count, u16* out, u32 n, u32 k_padded, u32 k_used)
{
    extern __shared__ u8 dynamic[];
    let_successor_start();
    wait_for_predecessor();
    if (blockIdx.y >= (u32)*tile_count)
        return;
    Problem p = {a_scales, w_scales, global, token_scale, bias, expert_offset, expert_slot, out, n, k_padded, k_used};
    Work w = work_of(p, tile_expert, tile_row);
    run(p, w, {&a_map, &w_map, w.row, w.slot}, dynamic);
}
