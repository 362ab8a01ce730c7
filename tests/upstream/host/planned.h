// A batch of FlashInfer's FA2 prefill over a paged cache: tensors, plan and launch.
#pragma once
#include "paged.h"

template <class Params> struct Planned {
    using Q = typename Params::DTypeQ;
    using KV = typename Params::DTypeKV;
    std::vector<int> rows{0};
    Paged paged;

    // Fills the parameters of a batch with so many rows of each request.
    Planned(std::vector<int> of_requests, uint32_t heads, Paged cache, Params& p) : paged(std::move(cache)) {
        using namespace flashinfer;
        for (int count : of_requests) rows.push_back(rows.back() + count);
        size_t size = (size_t)rows.back() * heads * paged.dim;
        p.q = reals<Q>("q", size, 1, 2.0f);
        KV *k, *v;
        if constexpr (sizeof(KV) == 2) {
            k = paged.reals<KV>("k_cache", 2, 2.0f), v = paged.reals<KV>("v_cache", 3);
        } else {
            k = (KV*)paged.codes("k_cache", 2), v = (KV*)paged.codes("v_cache", 3);
            p.maybe_k_cache_sf = paged.scales("k_scales", 4), p.maybe_v_cache_sf = paged.scales("v_scales", 5);
            auto steps = paged.steps(paged.dim / 16);
            p.k_sf_stride_page = p.v_sf_stride_page = steps[0];
            p.k_sf_stride_n = p.v_sf_stride_n = steps[paged.hnd ? 2 : 1], p.k_sf_stride_h = p.v_sf_stride_h = steps[paged.hnd ? 1 : 2];
        }
        auto steps = paged.steps(sizeof(KV) == 2 ? paged.dim : paged.dim / 2);
        p.paged_kv = paged_kv_t<KV, int>(paged.heads, paged.page, paged.dim, paged.lengths.size(),
                                         paged.hnd ? QKVLayout::kHND : QKVLayout::kNHD, k, v, steps.data(), steps.data(),
                                         input("kv_indices", paged.indices), input("kv_indptr", paged.indptr),
                                         input("kv_last_page_len", paged.last));
        p.q_indptr = input("qo_indptr", rows);
        p.o = output<typename Params::DTypeO>("o", size);
        p.lse = output<float>("lse", (size_t)rows.back() * heads);
        p.num_qo_heads = heads, p.group_size = uint_fastdiv(heads / paged.heads);
        p.q_stride_n = heads * paged.dim, p.q_stride_h = paged.dim, p.sm_scale = 0.125f;
    }

    // Plans and launches; `window` as FlashInfer counts, and the pages of a split if it is fixed.
    template <uint32_t TILE, uint32_t DIM, flashinfer::MaskMode MASK, class Variant> void launch(Params& p, int window, int split) {
        using namespace flashinfer;
        constexpr size_t size = 1 << 20;
        void *floats, *integers;
        cudaMalloc(&floats, size), cudaMalloc(&integers, size);
        std::vector<char> pinned(size);
        PrefillPlanInfo plan;
        PrefillPlan<int>(floats, size, integers, pinned.data(), size, plan, rows.data(), paged.indptr.data(), rows.back(),
                         paged.lengths.size(), p.num_qo_heads, paged.heads, DIM, DIM, paged.page, false, 2, window, split, split == 0,
                         0, 0, nullptr, sizeof(KV));
        if (plan.cta_tile_q != TILE) std::fprintf(stderr, "the plan has tiles of %ld rows\n", (long)plan.cta_tile_q), std::exit(1);
        auto at = [&](int64_t offset) { return GetPtrFromBaseOffset<int>(integers, offset); };
        p.window_left = window;
        p.request_indices = at(plan.request_indices_offset), p.qo_tile_indices = at(plan.qo_tile_indices_offset);
        p.kv_tile_indices = at(plan.kv_tile_indices_offset), p.o_indptr = at(plan.o_indptr_offset);
        p.kv_chunk_size_ptr = at(plan.kv_chunk_size_ptr_offset);
        p.padded_batch_size = plan.padded_batch_size, p.max_total_num_rows = plan.total_num_rows;
        typename Params::DTypeO* partials = nullptr;
        float* logarithms = nullptr;
        if (plan.split_kv) {
            p.merge_indptr = at(plan.merge_indptr_offset);
            partials = GetPtrFromBaseOffset<typename Params::DTypeO>(floats, plan.v_offset);
            logarithms = GetPtrFromBaseOffset<float>(floats, plan.s_offset);
        }
        BatchPrefillWithPagedKVCacheDispatched<true, TILE, DIM, DIM, PosEncodingMode::kNone, false, MASK, Variant>(p, partials, logarithms,
                                                                                                                false, nullptr);
    }
};
