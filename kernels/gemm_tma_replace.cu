//@ about: "Grouped GEMM of quantized tokens and weights; like `tma`, but each CTA creates the tensor maps of its expert."
//@ stage: gemm
//@ entry: grouped_gemm
//@ paths: [native, portable]
//@ load: tma_replace
//@ packed: [portable]
//@ needs: [tma_tile, mbarrier_tx, tensormap_replace, tensormap_cp_fenceproxy, fence_proxy_tensormap]
//@ needs_native: [mma_mxf8f6f4, ldmatrix_b4x16, tma_u4_unpack]
//@ needs_portable: [mma_bf16, cvt_e4m3x2]
//@ formats:
//@   nvfp4: {needs: [tma_tile, mbarrier_tx, tensormap_replace, tensormap_cp_fenceproxy, fence_proxy_tensormap], native: [mma_nvf4], portable: [mma_bf16]}
//@   mxfp4: {needs: [tma_tile, mbarrier_tx, tensormap_replace, tensormap_cp_fenceproxy, fence_proxy_tensormap], native: [mma_mxf4], portable: [mma_bf16]}
//@   mxfp8: {needs: [tma_tile, mbarrier_tx, tensormap_replace, tensormap_cp_fenceproxy, fence_proxy_tensormap], native: [mma_mxf8f6f4], portable: [mma_bf16, cvt_e4m3x2]}
//@   bf16xmxfp4: {needs: [tma_tile, mbarrier_tx, tensormap_replace, tensormap_cp_fenceproxy, fence_proxy_tensormap], portable: [mma_bf16]}
//@   bf16xnvfp4: {needs: [tma_tile, mbarrier_tx, tensormap_replace, tensormap_cp_fenceproxy, fence_proxy_tensormap], portable: [mma_bf16]}
//@ grid: ["ceil_div(n, tile_n)", "most_tiles"]
//@ block: "32 * (warps + 1)"
//@ smem: "stages * stage_bytes + 1024"
//@ args: [a_map, w_map, maps, a_codes, w_codes, a_scales, w_scales, global, token_scale, bias, expert_offset, expert_slot, tile_expert, tile_row, tile_count, out, n, k_padded, k_used]
//@ contract: {k_order: ascending, deterministic: true}
#include "tma.cuh"

// Derives the maps of one expert from those of all: its tokens begin at the map's address and end with its extent, so that rows
// after them are read as zeros; its weights are the only matrix. The warp copies the maps to shared memory, changes them there, and
// publishes them at `maps`.
DEVICE void make_maps(const Problem& p, const Work& w, const TensorMap& a_map, const TensorMap& w_map, const u8* a_codes,
                      const u8* w_codes, TensorMap* maps)
{
    __shared__ __align__(128) TensorMap drafts[2];
    u32 lane = threadIdx.x & 31, tokens = (u32)__cvta_generic_to_shared(&drafts[0]), weights = tokens + sizeof(TensorMap);
    ((u32*)&drafts[0])[lane] = ((const u32*)&a_map)[lane];
    ((u32*)&drafts[1])[lane] = ((const u32*)&w_map)[lane];
    __syncwarp();
    if (lane == 0) {
        u32 first = (u32)p.expert_offset[w.expert], rows = (u32)p.expert_offset[w.expert + 1] - first;
        const u8* a = a_codes + (u64)first * p.k_padded * A_BITS / 8;
        const u8* b = w_codes + (u64)w.slot * p.n * p.k_padded * W_BITS / 8;
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(tokens), "l"(a) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(tokens), "r"(rows) : "memory");
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(weights), "l"(b) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 2, %1;" ::"r"(weights), "r"(1) : "memory");
    }
    __syncwarp();
    // The copy releases the maps; the thread that uses them acquires them.
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 ::"l"(&maps[0]), "r"(tokens) : "memory");
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 ::"l"(&maps[1]), "r"(weights) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(&maps[0]) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(&maps[1]) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
grouped_gemm(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap w_map, TensorMap* maps,
             const u8* a_codes, const u8* w_codes, const u8* a_scales, const u8* w_scales,
             const float* global, const float* token_scale, const float* bias, const i32* expert_offset, const i32* expert_slot,
             const i32* tile_expert, const i32* tile_row, const i32* tile_count, u16* out, u32 n, u32 k_padded, u32 k_used)
{
    extern __shared__ u8 dynamic[];
    let_successor_start();
    wait_for_predecessor();
    if (blockIdx.y >= (u32)*tile_count)
        return;
    Problem p = {a_scales, w_scales, global, token_scale, bias, expert_offset, expert_slot, out, n, k_padded, k_used};
    Work w = work_of(p, tile_expert, tile_row);
    maps += 2 * (blockIdx.y * gridDim.x + blockIdx.x);
    if (threadIdx.x / 32 == CONSUMERS)
        make_maps(p, w, a_map, w_map, a_codes, w_codes, maps);
    run(p, w, {&maps[0], &maps[1], w.row - (u32)p.expert_offset[w.expert], 0}, dynamic);
}
