// Marlin's products of bf16 and 4-bit weights, as SGLang carries them: its own host functions repack the weights, choose a kernel and launch it.
// EXPERTS is defined for the product of routes and experts; the headers of both products define the same names.
#include <algorithm>
// Upstream's headers use it without naming it.
#include <tuple>

// Upstream chooses among the kernels of all types of weights. These functions choose, by upstream's own macros, among those of one type and of
// some blocks: the others are never launched and take long to compile.
#define PARAMETERS                                                                                                                                \
    const host::ScalarType q_type, int thread_m_blocks, int thread_n_blocks, int thread_k_blocks, bool m_block_size_8, bool has_act_order,        \
        bool has_zp, int group_blocks, int num_threads, bool is_zp_float
#define SMALL(KIND) KIND##_GET_IF_M1(host::kFE2M1f, 8, 8, 256) KIND##_GET_IF_M1(host::kFE2M1f, 8, 4, 128)
#define LARGE(KIND) KIND##_GET_IF_M234(host::kFE2M1f, 16, 4, 256) KIND##_GET_IF_M234(host::kFE2M1f, 8, 4, 128)

#ifdef EXPERTS
#include <csrc/gemm/marlin_moe/moe_wna16_marlin.cuh>
namespace sglang::device::marlin_moe {
#define CHOICE(BIAS, ZERO, KERNELS)                                                                                                               \
    template <> MarlinFuncPtr get_marlin_kernel<bf16_t, false, BIAS, true, ZERO, true>(PARAMETERS) {                                              \
        using scalar_t = bf16_t;                                                                                                                  \
        constexpr bool kIsEP = false, kHasBias = BIAS, kExpertIdsAreSorted = true, kZeroInactiveOutput = ZERO, kHasInactivePrefixCount = true;    \
        auto kernel = MarlinDefault;                                                                                                              \
        if (false) {                                                                                                                              \
        }                                                                                                                                         \
        KERNELS                                                                                                                                   \
        return kernel;                                                                                                                            \
    }
CHOICE(true, false, SMALL(MXFP4))
CHOICE(false, true, LARGE(MXFP4))
CHOICE(false, false, SMALL(NVFP4))
}  // namespace sglang::device::marlin_moe
#else
#include <csrc/gemm/marlin/gptq_marlin.cuh>
namespace sglang::device::marlin {
template <> MarlinFuncPtr get_marlin_kernel<bf16_t>(PARAMETERS) {
    using scalar_t = bf16_t;
    auto kernel = MarlinDefault;
    if (false) {
    }
    SMALL(FP4)
    LARGE(FP4)
    return kernel;
}
}  // namespace sglang::device::marlin
#endif
#include <csrc/gemm/marlin/gptq_marlin_repack.cuh>

#include "record.h"

using sglang::bf16_t;
using tvm::ffi::TensorView;
namespace host = sglang::host;

template <class T> TensorView view(const T* at, std::vector<int64_t> shape) {
    return TensorView((void*)at, host::details::DLDataTypeTrait<T>::value, std::move(shape));
}

template <class T> TensorView none() { return view<T>(nullptr, {0}); }

template <class T> T* scratch(size_t count) {
    void* at = nullptr;
    cudaMalloc(&at, count * sizeof(T));
    return (T*)at;
}

template <class T> T* copied(const std::vector<T>& values) {
    T* at = scratch<T>(values.size());
    cudaMemcpy(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
    return at;
}

// Of the recording runtime's device.
constexpr int SMS = 48;

// Locks start at zero.
static int* locks(size_t count) { return copied(std::vector<int>(count)); }

// Weights of experts, `w` by rows of N and pairs of K, as upstream's kernel repacks them.
static int* weights(int experts, int n, int k, uint64_t seed) {
    Numbers numbers(seed);
    std::vector<uint8_t> rows((size_t)experts * n * k / 2);
    for (auto& pair : rows) pair = numbers.below(256);
    input("w", rows);
    const size_t words = (size_t)n * k / 8;
    auto packed = scratch<int>(experts * words);
    for (int e = 0; e < experts; ++e) {
        std::vector<int> columns(words);
        for (int row = 0; row < n; ++row)
            for (int i = 0; i < k / 8; ++i) std::memcpy(&columns[(size_t)i * n + row], &rows[(e * words + (size_t)row * (k / 8) + i) * 4], 4);
        sglang::gptq_marlin_repack(view(copied(columns), {k / 8, n}), none<int>(), view(packed + e * words, {k / 16, n * 2}), k, n, 4);
    }
    return packed;
}

enum class Kind { Mxfp4, Nvfp4 };

// Scales of experts, `s` by rows of N. Marlin's rows are groups of K: of each 64 columns, those of equal remainder by 8 lie side by side, and the
// middle two of each four change places. NVFP4's, normal numbers of e4m3, become 2^7 times themselves with an exponent of 5 bits and no sign: what
// comes of subnormal ones, the kernel takes for almost nothing.
static uint8_t* scales(Kind kind, int experts, int n, int groups, uint64_t seed) {
    Numbers numbers(seed);
    std::vector<uint8_t> rows((size_t)experts * n * groups), out(rows.size());
    for (auto& scale : rows) scale = kind == Kind::Mxfp4 ? 122 + numbers.below(8) : 8 + numbers.below(64);
    input("s", rows);
    for (int e = 0; e < experts; ++e)
        for (int g = 0; g < groups; ++g)
            for (int column = 0; column < n; ++column) {
                const int swapped = (column & ~3) | (column & 1) << 1 | (column & 2) >> 1, at = swapped % 64;
                const int from = swapped - at + at / 8 + at % 8 * 8;
                const uint8_t scale = rows[((size_t)e * n + from) * groups + g];
                out[((size_t)e * groups + g) * n + column] = kind == Kind::Mxfp4 ? scale : scale + 120;
            }
    return copied(out);
}

// The global scales `g`, which also undo the exponents' bias of unscaled weights.
static bf16_t* global_scales(int experts, uint64_t seed) {
    Numbers numbers(seed);
    std::vector<bf16_t> logical, out;
    for (int e = 0; e < experts; ++e) {
        logical.push_back(bf16_t(0.015625f * (1.5f + numbers.real())));
        out.push_back(bf16_t((float)logical.back() * 0x1p119f));
    }
    input("g", logical);
    return copied(out);
}

#ifdef EXPERTS
// Biases `bias`, in the order in which a warp holds its columns.
static bf16_t* biases(int experts, int n, uint64_t seed) {
    Numbers numbers(seed);
    std::vector<bf16_t> logical((size_t)experts * n), out(logical.size());
    for (auto& bias : logical) bias = bf16_t(numbers.real() * 4);
    input("bias", logical);
    for (size_t at = 0; at < out.size(); ++at) out[at] = logical[at - at % 32 + at % 32 / 8 * 2 + at % 2 + at % 8 / 2 * 8];
    return copied(out);
}

// The expert of each route (a token and one of its experts), -1 for a route that others compute.
struct Routes {
    std::vector<int> experts;
    int tokens, top_k;
};

// The first GEMM of a layer reads a row for each token and ignores the weights; the second has a row for each route and multiplies by them.
template <bool BIAS, bool ZERO> void moe(Kind kind, const Routes& routes, int experts, int n, int k, int block, bool first) {
    const int count = routes.experts.size(), group = kind == Kind::Mxfp4 ? 32 : 16;
    const int size_m = first ? routes.tokens : count, top_k = first ? routes.top_k : 1;
    auto a = reals<bf16_t>("a", (size_t)size_m * k, 1);
    auto s = scales(kind, experts, n, k / group, 3);
    auto route_weights = reals<float>("weights", count, 4);
    input("experts", routes.experts);
    // Blocks of routes with one expert, ascending, filled up with a number that is no route. Behind them lies what nobody has written.
    std::vector<int> sorted, block_experts;
    int inactive = 0;
    for (int e = -1; e < experts; ++e) {
        for (int route = 0; route < count; ++route)
            if (routes.experts[route] == e) sorted.push_back(route);
        while (sorted.size() % block) sorted.push_back(count);
        block_experts.resize(sorted.size() / block, e);
        if (e == -1) inactive = block_experts.size();
    }
    const int64_t most = count + (experts + 1) * (block - 1);
    auto sorted_ids = scratch<int>(most), expert_ids = scratch<int>(most / block + 1);
    cudaMemcpy(sorted_ids, sorted.data(), sorted.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(expert_ids, block_experts.data(), block_experts.size() * 4, cudaMemcpyHostToDevice);
    auto counts = copied(std::vector<int>{(int)sorted.size(), inactive});
    auto bias = BIAS ? view(biases(experts, n, 5), {experts, n}) : none<bf16_t>();
    auto global = kind == Kind::Nvfp4 ? view(global_scales(experts, 6), {experts}) : none<bf16_t>();
    // As the layer does: NVFP4 sums with atomics on this GPU, MXFP4 in f32.
    const bool atomics = kind == Kind::Nvfp4;
    const int64_t partial = atomics ? 0 : std::min<int64_t>(n * most, SMS * 4 * block * 256) * (block == 8 ? 2 : 1);
    auto c = output<bf16_t>("c", (size_t)count * n);
    // Launches begin here: the reference sees what has been written before the first.
    auto packed = weights(experts, n, k, 2);
    sglang::moe_wna16_marlin_gemm<bf16_t, false, BIAS, true, ZERO, true>(
        view(a, {size_m, k}), view(c, {count, n}), view(packed, {experts, k / 16, n * 2}), bias, view(s, {experts, k / group, n}), global,
        none<bf16_t>(), none<int>(), none<int>(), view(locks(SMS * 4), {SMS * 4}), view(sorted_ids, {most}), view(expert_ids, {most / block + 1}),
        view(counts, {2}), view(route_weights, {routes.tokens, routes.top_k}), none<bf16_t>(),
        view(partial ? scratch<float>(partial) : nullptr, {partial}), block, top_k, !first, false, host::kFE2M1f.id(), size_m, n, k, false, BIAS,
        true, false, k / group, group, atomics, true, false);
}

// Routes of few tokens: most go to expert 3, whose second block is ragged, and none to expert 1.
static Routes few() {
    Routes out{{}, 12, 2};
    for (int token = 0; token < out.tokens; ++token) {
        const int others[] = {0, 2, 4, 5};
        out.experts.push_back(token < 10 ? 3 : 2);
        out.experts.push_back(others[token % 4]);
    }
    return out;
}

// Routes of many tokens: some belong to no expert here, none to expert 1.
static Routes many() {
    Routes out{{}, 96, 2};
    for (int token = 0; token < out.tokens; ++token) {
        out.experts.push_back(token % 9 == 4 ? -1 : token % 3 == 0 ? 2 : 0);
        out.experts.push_back(token % 16 == 7 ? -1 : 3);
    }
    return out;
}
#else
static void dense(int m, int n, int k) {
    auto a = reals<bf16_t>("a", (size_t)m * k, 1);
    auto s = scales(Kind::Nvfp4, 1, n, k / 16, 3);
    auto g = global_scales(1, 4);
    const int64_t partial = SMS * std::min((m + 15) / 16 * 16, 64) * 256;
    auto c = output<bf16_t>("c", (size_t)m * n);
    // Launches begin here.
    auto packed = weights(1, n, k, 2);
    sglang::gptq_marlin_gemm<bf16_t>(view(a, {m, k}), view(packed, {k / 16, n * 2}), view(s, {k / 16, n}), view(g, {1}), none<int>(), none<int>(),
                                     none<int>(), view(c, {m, n}), view(scratch<float>(partial), {partial}), none<bf16_t>(),
                                     view(locks(SMS), {SMS}), host::kFE2M1f.id(), true, false, true, false);
}
#endif

int main(int, char** argv) {
#ifdef EXPERTS
    CASE("mxfp4_decode") moe<true, false>(Kind::Mxfp4, few(), 6, 256, 1024, 8, true);
    CASE("mxfp4_prefill") moe<false, true>(Kind::Mxfp4, many(), 4, 512, 512, 64, false);
    CASE("mxfp4_wide") moe<false, true>(Kind::Mxfp4, many(), 4, 8192, 128, 64, false);
    CASE("nvfp4") moe<false, false>(Kind::Nvfp4, few(), 6, 2304, 192, 8, true);
    CASE("nvfp4_split") moe<false, false>(Kind::Nvfp4, few(), 6, 256, 1024, 8, true);
#else
    CASE("nvfp4") dense(77, 1024, 1024);
    CASE("nvfp4_short") dense(20, 512, 512);
#endif
}
