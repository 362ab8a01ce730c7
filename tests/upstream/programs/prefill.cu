// FlashInfer's attention of many queries of one request: causal, two heads of queries for one of keys.
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/variants.cuh>

#include "record.h"

using namespace flashinfer;

int main(int, char** argv) {
    constexpr uint32_t dim = 64, heads = 2, keys = 90;
    using Variant = DefaultAttention<false, false, false, false>;
    auto prefill = [&](uint32_t queries) {
        auto q = reals<half>("q", queries * heads * dim, 1, 2.0f);
        auto k = reals<half>("k", keys * dim, 2, 2.0f), v = reals<half>("v", keys * dim, 3);
        auto o = output<half>("o", queries * heads * dim);
        SinglePrefillParams<half, half, half> p(q, k, v, nullptr, o, nullptr, nullptr, heads, 1, queries, keys, heads * dim, dim, dim, dim, dim, -1, 0.0f,
                                                0.125f, 1.0f, 1e4f);
        SinglePrefillWithKVCacheDispatched<dim, dim, PosEncodingMode::kNone, false, MaskMode::kCausal, Variant>(p, (half*)nullptr, 0);
    };
    // Tiles of 64 pairs of query and head: whole ones, and one that is not.
    CASE("whole") prefill(64);
    CASE("ragged") prefill(45);
}
