// FlashInfer's grouped GEMM of MXFP8 and MXFP4 for SM120, by its own host function: one kernel writes the arguments of each group, the
// next multiplies.
#include <flashinfer/gemm/group_gemm_mxfp4_groupwise_sm120.cuh>

#include "record.h"

using cutlass::bfloat16_t;
using cutlass::float_e2m1_t;
using cutlass::float_e4m3_t;
using cutlass::float_ue8m0_t;

namespace flashinfer::group_gemm {
INSTANTIATE_GROUP_GEMM_MXFP4_GROUPWISE_SM120(128, 128, 128, false, float_e4m3_t, float_e2m1_t, float_ue8m0_t, float_ue8m0_t, bfloat16_t, e4m3,
                                             e2m1, ue8m0, ue8m0, bf16)
INSTANTIATE_GROUP_GEMM_MXFP4_GROUPWISE_SM120(128, 32, 128, true, float_e4m3_t, float_e2m1_t, float_ue8m0_t, float_ue8m0_t, bfloat16_t, e4m3, e2m1,
                                             ue8m0, ue8m0, bf16)
}  // namespace flashinfer::group_gemm

// Rows of the groups: a ragged one, none, and more than a tile.
constexpr int GROUPS = 3, FIRST[GROUPS + 1] = {0, 40, 40, 180}, N = 192, K = 384;
// Each group's token scales begin at a multiple of 128 rows.
constexpr int SCALE_ROWS = (FIRST[GROUPS] + GROUPS * 127) / 128 * 128 + 128, SCALE_COLUMNS = 256;

static float_ue8m0_t* scales(const char* name, size_t count, uint64_t seed) {
    Numbers numbers(seed);
    std::vector<uint8_t> bytes(count);
    for (auto& byte : bytes) byte = 124 + numbers.below(6);
    return (float_ue8m0_t*)input(name, bytes);
}

template <int TILE_N, bool SWAP_AB> void gemm() {
    auto a = reals<float_e4m3_t>("a", FIRST[GROUPS] * K, 1);
    auto b = (float_e2m1_t*)integers<uint8_t>("b", GROUPS * N * K / 2, 2, 256);
    auto sa = scales("sa", SCALE_ROWS * K / 32, 3), sb = scales("sb", GROUPS * SCALE_COLUMNS * K / 32, 4);
    auto first = input("first", std::vector<int>(FIRST, FIRST + GROUPS + 1));
    auto d = output<bfloat16_t>("d", FIRST[GROUPS] * N);
    const size_t size = 1 << 20;
    void *arguments = nullptr, *workspace = nullptr;
    cudaMalloc(&arguments, size);
    cudaMalloc(&workspace, size);
    flashinfer::group_gemm::CutlassMXFP4GroupwiseScaledGroupGEMMSM120<128, TILE_N, 128, SWAP_AB>(arguments, size, workspace, size, a, b, sa, sb, d, first, N, K,
                                                                                           GROUPS, nullptr, 0);
}

int main(int, char** argv) {
    CASE("tokens_first") gemm<128, false>();
    CASE("weights_first") gemm<32, true>();
}
