// DeepGEMM's GEMM of block-scaled FP8 and FP4 for SM120, with the tensor maps and the launch of its host code.
#include <cuda.h>
#include <cuda_fp8.h>

#include <deep_gemm/impls/sm120_fp8_fp4_gemm_1d1d.cuh>

#include "record.h"

using namespace deep_gemm;

constexpr uint32_t M = 80, N = 128, K = 384, BLOCK_M = 64, BLOCK_N = 64, BLOCK_K = 128, STAGES = 3, SMS = 2;

static CUtensorMap map(CUtensorMapDataType type, void* data, uint64_t inner, uint64_t outer, uint64_t stride, uint32_t box_inner,
                       uint32_t box_outer, CUtensorMapSwizzle swizzle) {
    CUtensorMap out;
    const cuuint64_t dims[2] = {inner, outer}, strides[1] = {stride};
    const cuuint32_t box[2] = {box_inner, box_outer}, steps[2] = {1, 1};
    cuTensorMapEncodeTiled(&out, type, 2, data, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return out;
}

enum class Kind { Fp8, Packed, Unpacked };

// An operand of K-major rows: bytes of e4m3, or pairs of e2m1 that a copy leaves packed or expands to bytes.
static CUtensorMap operand(const char* name, Kind kind, uint32_t rows, uint32_t block, uint64_t seed) {
    if (kind == Kind::Fp8)
        return map(CU_TENSOR_MAP_DATA_TYPE_UINT8, reals<__nv_fp8_e4m3>(name, rows * K, seed), K, rows, K, 128, block, CU_TENSOR_MAP_SWIZZLE_128B);
    auto data = integers<uint8_t>(name, rows * K / 2, seed, 256);
    if (kind == Kind::Packed)
        return map(CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, data, K, rows, K / 2, BLOCK_K, block, CU_TENSOR_MAP_SWIZZLE_64B);
    return map(CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B, data, K, rows, K / 2, BLOCK_K, block, CU_TENSOR_MAP_SWIZZLE_128B);
}

// Four scales of 32 elements in a word, the words of a block of K side by side.
static CUtensorMap scales(const char* name, uint32_t rows, uint32_t block, uint64_t seed) {
    Numbers numbers(seed);
    std::vector<uint32_t> words(rows * K / 128);
    for (auto& word : words)
        for (int n = 0; n < 4; ++n) word = word << 8 | (124 + numbers.below(6));
    return map(CU_TENSOR_MAP_DATA_TYPE_INT32, input(name, words), rows, K / 128, rows * 4, block, 1, CU_TENSOR_MAP_SWIZZLE_NONE);
}

template <class Out, uint32_t SWIZZLE_AB, uint32_t SWIZZLE_CD, bool BOTH, bool B_FP4, bool A_FP4> void gemm(Kind a, Kind b) {
    const auto ma = operand("a", a, M, BLOCK_M, 1), mb = operand("b", b, N, BLOCK_N, 2);
    const auto sa = scales("sa", M, BLOCK_M, 3), sb = scales("sb", N, BLOCK_N, 4);
    auto d = output<Out>("d", M * N);
    const auto md = map(sizeof(Out) == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32, d, N, M, N * sizeof(Out),
                        128 / sizeof(Out), BLOCK_M, CU_TENSOR_MAP_SWIZZLE_128B);
    const uint32_t row = BOTH ? BLOCK_K / 2 : BLOCK_K;
    const uint32_t stage = (BLOCK_M + BLOCK_N) * (row + sizeof(int));
    const uint32_t shared = (SWIZZLE_CD ? BLOCK_M * BLOCK_N * sizeof(Out) : 0) + STAGES * (stage + 16);
    auto kernel = sm120_fp8_fp4_gemm_1d1d_impl<0, 0, 0, 32, 32, 1, BLOCK_M, BLOCK_N, BLOCK_K, SWIZZLE_AB, SWIZZLE_AB, SWIZZLE_CD, STAGES, 128, 256, SMS,
                                               GemmType::Normal, false, Out, BOTH, B_FP4, A_FP4>;
    kernel<<<SMS, 384, shared>>>(d, (Out*)nullptr, (__nv_fp8_e4m3*)nullptr, (__nv_fp8_e4m3*)nullptr, (int*)nullptr, (cute::TmaDescriptor*)nullptr,
                                 (float*)nullptr, M, N, K, N, 0, 0, ma, mb, sa, sb, md);
}

int main(int, char** argv) {
    CASE("fp8_fp8") gemm<cutlass::bfloat16_t, 128, 128, false, false, false>(Kind::Fp8, Kind::Fp8);
    CASE("fp8_fp4") gemm<cutlass::bfloat16_t, 128, 128, false, true, false>(Kind::Fp8, Kind::Unpacked);
    CASE("fp4_fp8") gemm<float, 128, 0, false, false, true>(Kind::Unpacked, Kind::Fp8);
    CASE("fp4_fp4") gemm<float, 64, 0, true, false, false>(Kind::Packed, Kind::Packed);
}
