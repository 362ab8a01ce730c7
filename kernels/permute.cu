//@ about: "Sorts rows by expert, stable in token and slot, without atomics, and lists the tiles of the grouped GEMM on the device."
//@ stage: permute
//@ entry: permute
//@ needs: []
//@ grid: ["1"]
//@ block: "256"
//@ args: [topk_ids, expert_offset, row_token, row_expert, row_of_choice, tile_expert, tile_row, tile_count, choices, experts, top_k, tile_m]
//@ contract: {deterministic: true}
#include "mx.cuh"

#define WARPS 8
#define MOST_EXPERTS 1024

DEVICE u32 lanes_before()
{
    u32 mask;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    return mask;
}

// Sum over the lanes up to and including this one.
DEVICE u32 inclusive_sum(u32 x)
{
    for (u32 d = 1; d < 32; d *= 2) {
        u32 below = __shfl_up_sync(~0u, x, d);
        if ((threadIdx.x & 31) >= d)
            x += below;
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(256)
permute(const i32* topk_ids, i32* expert_offset, i32* row_token, i32* row_expert, i32* row_of_choice, i32* tile_expert,
        i32* tile_row, i32* tile_count, u32 choices, u32 experts, u32 top_k, u32 tile_m)
{
    __shared__ u32 count[MOST_EXPERTS], first[MOST_EXPERTS];
    let_successor_start();
    wait_for_predecessor();
    u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (u32 expert = warp; expert < experts; expert += WARPS) {
        u32 rows = 0;
        for (u32 at = 0; at < choices; at += 32) {
            u32 i = at + lane;
            rows += __popc(__ballot_sync(~0u, i < choices && topk_ids[i] == (i32)expert));
        }
        if (lane == 0)
            count[expert] = rows;
    }
    __syncthreads();
    if (warp == 0) {
        u32 rows_before = 0, tiles_before = 0;
        for (u32 at = 0; at < experts; at += 32) {
            u32 expert = at + lane, rows = expert < experts ? count[expert] : 0, tiles = (rows + tile_m - 1) / tile_m;
            u32 row = rows_before + inclusive_sum(rows) - rows, tile = tiles_before + inclusive_sum(tiles) - tiles;
            if (expert < experts) {
                first[expert] = row;
                expert_offset[expert] = (i32)row;
                for (u32 j = 0; j < tiles; ++j) {
                    tile_expert[tile + j] = (i32)expert;
                    tile_row[tile + j] = (i32)(row + j * tile_m);
                }
            }
            rows_before = __shfl_sync(~0u, row + rows, 31);
            tiles_before = __shfl_sync(~0u, tile + tiles, 31);
        }
        if (lane == 0) {
            expert_offset[experts] = (i32)rows_before;
            *tile_count = (i32)tiles_before;
        }
    }
    __syncthreads();
    for (u32 expert = warp; expert < experts; expert += WARPS) {
        u32 row = first[expert];
        for (u32 at = 0; at < choices; at += 32) {
            u32 i = at + lane;
            bool here = i < choices && topk_ids[i] == (i32)expert;
            u32 chosen = __ballot_sync(~0u, here);
            if (here) {
                u32 to = row + __popc(chosen & lanes_before());
                row_token[to] = (i32)(i / top_k);
                row_expert[to] = (i32)expert;
                row_of_choice[i] = (i32)to;
            }
            row += __popc(chosen);
        }
    }
}
