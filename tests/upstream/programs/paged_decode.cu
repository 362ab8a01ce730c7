// FlashInfer's attention of one query of each request over a paged cache, planned by its own scheduler, which splits the longest request.
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

#include "paged.h"

using namespace flashinfer;

int main(int, char** argv) {
    constexpr uint32_t dim = 64, heads = 4, kv_heads = 2;
    using Variant = DefaultAttention<false, false, false, false>;
    using Params = BatchDecodeParams<half, half, half, int>;
    auto decode = [&](std::vector<int> lengths, bool hnd) {
        constexpr size_t size = 1 << 20;
        Paged paged(lengths, 16, kv_heads, dim, hnd);
        const uint32_t requests = lengths.size();
        Params p;
        p.q = reals<half>("q", requests * heads * dim, 1, 2.0f);
        auto k = paged.reals<half>("k_cache", 2, 2.0f), v = paged.reals<half>("v_cache", 3);
        p.paged_kv = paged_kv_t<half, int>(kv_heads, paged.page, dim, requests, hnd ? QKVLayout::kHND : QKVLayout::kNHD, k, v,
                                           input("kv_indices", paged.indices), input("kv_indptr", paged.indptr),
                                           input("kv_last_page_len", paged.last));
        p.o = output<half>("o", requests * heads * dim), p.lse = output<float>("lse", requests * heads);
        p.num_qo_heads = heads, p.q_stride_n = heads * dim, p.q_stride_h = dim, p.window_left = -1, p.sm_scale = 0.125f;
        void *floats, *integers;
        cudaMalloc(&floats, size), cudaMalloc(&integers, size);
        std::vector<char> pinned(size);
        DecodePlanInfo plan;
        auto work = BatchDecodeWithPagedKVCacheWorkEstimationDispatched<heads / kv_heads, dim, PosEncodingMode::kNone, Variant, Params>;
        DecodePlan<dim, PosEncodingMode::kNone, Variant, Params>(floats, size, integers, pinned.data(), size, plan, paged.indptr.data(),
                                                                 requests, heads, paged.page, false, nullptr, work);
        auto at = [&](int64_t offset) { return GetPtrFromBaseOffset<int>(integers, offset); };
        p.request_indices = at(plan.request_indices_offset), p.kv_tile_indices = at(plan.kv_tile_indices_offset);
        p.o_indptr = at(plan.o_indptr_offset), p.kv_chunk_size_ptr = at(plan.kv_chunk_size_ptr_offset);
        p.padded_batch_size = plan.padded_batch_size;
        half* partials = plan.split_kv ? GetPtrFromBaseOffset<half>(floats, plan.v_offset) : nullptr;
        float* logarithms = plan.split_kv ? GetPtrFromBaseOffset<float>(floats, plan.s_offset) : nullptr;
        BatchDecodeWithPagedKVCacheDispatched<dim, PosEncodingMode::kNone, Variant, Params>(p, partials, logarithms, false, nullptr);
    };
    CASE("whole") decode({37, 5, 70}, true);
    CASE("split") decode({37, 5, 150}, false);
}
