// CUTLASS's block-scaled collectives for SM120, built and launched as its example 79 does.
#include <cute/tensor.hpp>
#include <cutlass/detail/sm100_blockscaled_layout.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include "record.h"

using namespace cute;
using cutlass::float_e2m1_t;
using cutlass::float_e3m2_t;
using cutlass::float_e4m3_t;

// More tiles of K than stages, and ragged ends of M and N.
constexpr int M = 160, N = 192, K = 640;

using CtaTile = Shape<_128, _128, _128>;
using Cluster = Shape<_1, _1, _1>;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using cutlass::arch::OpClassBlockScaledTensorOp;
using cutlass::arch::Sm120;
using cutlass::epilogue::collective::EpilogueScheduleAuto;
using cutlass::epilogue::collective::EpilogueTileAuto;
using cutlass::gemm::KernelTmaWarpSpecializedPingpong;
using cutlass::gemm::collective::KernelScheduleAuto;
using cutlass::gemm::collective::StageCountAutoCarveout;

// Not a template: in one, nvcc and g++ give the kernel different names.
#define COLLECTIVE(NAME, A, ALIGN_A, B, ALIGN_B, D, SCHEDULE) \
    namespace NAME { \
    constexpr int ALIGN_D = 128 / cutlass::sizeof_bits<D>::value; \
    using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<Sm120, OpClassBlockScaledTensorOp, CtaTile, Cluster, EpilogueTileAuto, \
        float, float, D, RowMajor, ALIGN_D, D, RowMajor, ALIGN_D, EpilogueScheduleAuto>::CollectiveOp; \
    using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<Sm120, OpClassBlockScaledTensorOp, A, RowMajor, ALIGN_A, B, ColumnMajor, \
        ALIGN_B, float, CtaTile, Cluster, StageCountAutoCarveout<(int)sizeof(typename Epilogue::SharedStorage)>, SCHEDULE>::CollectiveOp; \
    using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, void>; \
    using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>; \
    }

using Nvfp4 = cutlass::nv_float4_t<float_e2m1_t>;
using Mxfp4 = cutlass::mx_float4_t<float_e2m1_t>;
using Mxfp6 = cutlass::mx_float6_t<float_e3m2_t>;
using Mxfp8 = cutlass::mx_float8_t<float_e4m3_t>;
COLLECTIVE(nvfp4, Nvfp4, 32, Nvfp4, 32, cutlass::bfloat16_t, KernelScheduleAuto)
COLLECTIVE(nvfp4_pingpong, Nvfp4, 32, Nvfp4, 32, float, KernelTmaWarpSpecializedPingpong)
COLLECTIVE(mxfp8_mxfp4, Mxfp8, 16, Mxfp4, 128, cutlass::bfloat16_t, KernelScheduleAuto)
COLLECTIVE(mxfp8_mxfp6, Mxfp8, 16, Mxfp6, 128, float, KernelTmaWarpSpecializedPingpong)
COLLECTIVE(mxfp4, Mxfp4, 128, Mxfp4, 128, float, KernelScheduleAuto)

// Scales as bytes, in the places of CUTLASS's layout: exponents near one, or e4m3 between 1/4 and 7.5.
static uint8_t* scales(const char* name, size_t count, bool e4m3, uint64_t seed) {
    Numbers numbers(seed);
    std::vector<uint8_t> bytes(count);
    for (auto& byte : bytes) byte = e4m3 ? 0x28 + numbers.below(40) : 124 + numbers.below(6);
    return input(name, bytes);
}

// Codes of an operand: any e2m1 or e3m2, finite e4m3.
template <class T> uint8_t* codes(const char* name, int rows, uint64_t seed) {
    const size_t bytes = (size_t)rows * K * cutlass::sizeof_bits<T>::value / 8;
    if constexpr (std::is_same_v<T, float_e4m3_t>) return (uint8_t*)reals<float_e4m3_t>(name, bytes, seed);
    return integers<uint8_t>(name, bytes, seed, 256);
}

template <class Gemm> void gemm() {
    using Kernel = typename Gemm::GemmKernel;
    using Mainloop = typename Kernel::CollectiveMainloop;
    using Config = typename Mainloop::Sm1xxBlkScaledConfig;
    using A = typename Gemm::ElementA;
    using B = typename Gemm::ElementB;
    using Scale = typename Mainloop::ElementSF;
    using D = typename Gemm::ElementD;
    const auto problem = make_shape(M, N, K, 1);
    const auto scales_a = Config::tile_atom_to_shape_SFA(problem), scales_b = Config::tile_atom_to_shape_SFB(problem);
    constexpr bool e4m3 = !std::is_same_v<Scale, cutlass::float_ue8m0_t>;
    auto stride = [](auto of, int rows, int columns) { return cutlass::make_cute_packed_stride(of, make_shape(rows, columns, 1)); };
    const auto a = codes<A>("a", M, 1), b = codes<B>("b", N, 2);
    const auto sa = scales("sa", size(filter_zeros(scales_a)), e4m3, 3), sb = scales("sb", size(filter_zeros(scales_b)), e4m3, 4);
    const auto c = reals<D>("c", M * N, 5, 64.0f);
    const auto d = output<D>("d", M * N);
    typename Gemm::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm, problem,
        {(A*)a, stride(typename Kernel::StrideA{}, M, K), (B*)b, stride(typename Kernel::StrideB{}, N, K), (Scale*)sa, scales_a, (Scale*)sb, scales_b},
        {{0.5f, 2.0f}, c, stride(typename Kernel::StrideC{}, M, N), d, stride(typename Kernel::StrideD{}, M, N)}};
    Gemm gemm;
    void* workspace = nullptr;
    cudaMalloc(&workspace, Gemm::get_workspace_size(arguments) + 1);
    auto check = [](cutlass::Status status) {
        if (status != cutlass::Status::kSuccess) std::printf("%s\n", cutlassGetStatusString(status)), std::exit(1);
    };
    check(gemm.can_implement(arguments));
    check(gemm.initialize(arguments, workspace));
    check(gemm.run());
}

int main(int, char** argv) {
    CASE("nvfp4") gemm<nvfp4::Gemm>();
    CASE("nvfp4_pingpong") gemm<nvfp4_pingpong::Gemm>();
    CASE("mxfp8_mxfp4") gemm<mxfp8_mxfp4::Gemm>();
    CASE("mxfp8_mxfp6") gemm<mxfp8_mxfp6::Gemm>();
    CASE("mxfp4") gemm<mxfp4::Gemm>();
}
