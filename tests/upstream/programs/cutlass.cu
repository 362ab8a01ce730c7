// CUTLASS's block-scaled products for SM120, built and launched as its examples 79a and 79c do.
#include "cute/tensor.hpp"
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

#include "record.h"

using namespace cute;

constexpr int M = 160, N = 128, K = 256, SMS = 2;

// Numbers in e4m3, or pairs of numbers in e2m1.
template <class Element> auto operand(const char* name, int rows, uint64_t seed) {
    using Data = typename Element::DataType;
    if constexpr (cutlass::sizeof_bits<Data>::value == 8) return reals<Data>(name, rows * K, seed);
    else return (Data*)integers<uint8_t>(name, rows * K / 2, seed, 256);
}

// A scale for each vector of elements, of rows in whole tiles of 128.
template <class Element> auto scales(const char* name, int rows, int vector, uint32_t least, uint32_t count, uint64_t seed) {
    Numbers numbers(seed);
    std::vector<uint8_t> bytes((rows + 127) / 128 * 128 * (K / vector));
    for (auto& byte : bytes) byte = (uint8_t)(least + numbers.below(count));
    return (typename Element::ScaleFactorType*)input(name, bytes);
}

template <class A, int ALIGN_A, class B, int ALIGN_B> void gemm(int vector, uint32_t least, uint32_t count) {
    using Out = cutlass::bfloat16_t;
    using Arch = cutlass::arch::Sm120;
    using Class = cutlass::arch::OpClassBlockScaledTensorOp;
    using Tile = Shape<_128, _128, _128>;
    using Cluster = Shape<_1, _1, _1>;
    using Row = cutlass::layout::RowMajor;
    using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<Arch, Class, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float,
                                                                               float, Out, Row, 8, Out, Row, 8,
                                                                               cutlass::epilogue::collective::EpilogueScheduleAuto>::CollectiveOp;
    using Stages = cutlass::gemm::collective::StageCountAutoCarveout<(int)sizeof(typename Epilogue::SharedStorage)>;
    using Mainloop =
        typename cutlass::gemm::collective::CollectiveBuilder<Arch, Class, A, Row, ALIGN_A, B, cutlass::layout::ColumnMajor, ALIGN_B, float, Tile, Cluster, Stages,
                                                              cutlass::gemm::collective::KernelScheduleAuto>::CollectiveOp;
    using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, void>;
    using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
    using Scales = typename Mainloop::Sm1xxBlkScaledConfig;
    auto a = operand<A>("a", M, 1);
    auto b = operand<B>("b", N, 2);
    auto sa = scales<A>("sa", M, vector, least, count, 3);
    auto sb = scales<B>("sb", N, vector, least, count, 4);
    auto d = output<Out>("d", M * N);
    auto shape = make_shape(M, N, K, 1);
    auto stride_d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {M, N, 1});
    typename Gemm::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm,
        shape,
        {a, cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {M, K, 1}), b, cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {N, K, 1}), sa,
         Scales::tile_atom_to_shape_SFA(shape), sb, Scales::tile_atom_to_shape_SFB(shape)},
        {{1.0f, 0.0f}, d, stride_d, d, stride_d}};
    arguments.hw_info.sm_count = SMS;
    Gemm gemm;
    void* workspace = nullptr;
    cudaMalloc(&workspace, Gemm::get_workspace_size(arguments));
    if (gemm.can_implement(arguments) != cutlass::Status::kSuccess || gemm.initialize(arguments, workspace) != cutlass::Status::kSuccess ||
        gemm.run() != cutlass::Status::kSuccess) {
        std::fprintf(stderr, "CUTLASS refuses the problem\n");
        std::exit(4);
    }
}

using cutlass::float_e2m1_t;
using cutlass::float_e4m3_t;

int main(int, char** argv) {
    CASE("nvfp4") gemm<cutlass::nv_float4_t<float_e2m1_t>, 32, cutlass::nv_float4_t<float_e2m1_t>, 32>(16, 0x30, 16);
    CASE("mxfp8_mxfp4") gemm<cutlass::mx_float8_t<float_e4m3_t>, 16, cutlass::mx_float4_t<float_e2m1_t>, 128>(32, 124, 6);
    CASE("mxfp8") gemm<cutlass::mx_float8_t<float_e4m3_t>, 16, cutlass::mx_float8_t<float_e4m3_t>, 16>(32, 124, 6);
}
