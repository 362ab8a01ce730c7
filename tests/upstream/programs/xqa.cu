// FlashInfer's XQA, launched by its own host function. Options of the compiler say what FlashInfer compiles at run time: the type of the cache,
// whether there are windows and drafts of several tokens.
#include <xqa/mha.cu>

#include "paged.h"

int main(int, char** argv) {
    constexpr uint32_t kv_heads = 2, heads = kv_heads * headGrpSize, dim = validElemsPerHead;
    // Tokens of each request, of which `drafts` are its queries; keys of the longest request that the tables have room for.
    auto run = [&](std::vector<int> lengths, int most, uint32_t window, bool has_sinks, bool hnd, uint32_t drafts) {
        Paged paged(lengths, tokensPerPage, kv_heads, dim, hnd);
        const uint32_t requests = lengths.size(), pages = most / tokensPerPage, width = sizeof(GMemCacheHead) / sizeof(GMemCacheHead::Elem);
        // A table ends with pages of nobody.
        std::vector<int> table(requests * pages, 3 % paged.pages);
        std::vector<uint32_t> keys(lengths.begin(), lengths.end());
        for (uint32_t request = 0; request < requests; ++request)
            for (int n = paged.indptr[request]; n < paged.indptr[request + 1]; ++n)
                table[request * pages + n - paged.indptr[request]] = paged.indices[n];
        // Where several blocks are merged many roundings follow, which only a few keys that count leave small.
        auto q = (InputHead*)reals<InputElem>("q", requests * drafts * heads * dim, 1, most > 256 ? 8.0f : 2.0f);
#if CACHE_ELEM_ENUM == 3
        auto k = (GMemCacheHead*)paged.codes("k_cache", 2), v = (GMemCacheHead*)paged.codes("v_cache", 3);
        auto k_scales = (GMemCacheHeadSf*)paged.scales("k_scales", 4), v_scales = (GMemCacheHeadSf*)paged.scales("v_scales", 5);
#else
        auto k = (GMemCacheHead*)paged.reals<CacheElem>("k_cache", 2, 2.0f), v = (GMemCacheHead*)paged.reals<CacheElem>("v_cache", 3);
#endif
        float* sinks = nullptr;
        if (has_sinks) {
            std::vector<float> of_heads(heads);
            for (uint32_t head = 0; head < heads; ++head) of_heads[head] = 0.75f * head - 2.0f;
            sinks = input("sinks", of_heads);
        }
        auto block_table = input("block_table", table);
        auto seq_lens = input("seq_lens", keys);
#if SPEC_DEC
        // A tree, or a chain where there is a window.
        std::vector<uint32_t> bits(requests * drafts);
        for (uint32_t row = 0; row < bits.size(); ++row)
            bits[row] = (2u << row % drafts) - 1 - (window == 0 && row % drafts > 1 ? 1u << row % 2 : 0);
        auto mask = input("draft_mask", bits);
#endif
        auto o = (OutputHead*)output<InputElem>("o", requests * drafts * heads * dim);
        auto semaphores = input("semaphores", std::vector<uint32_t>(256));
        void* scratch;
        cudaMalloc(&scratch, 1 << 20);
        auto by = paged.steps(width), by_scales = paged.steps(dim / 16);
        // From token to token and from head to head.
        const int slot = hnd ? 2 : 1, head = hnd ? 1 : 2;
        // Of a scale of the scores of 1/8, `xqa()` leaves 1 to the queries; that of a quantized cache is on the device.
        float* kv_scale = CACHE_ELEM_ENUM == 0 ? nullptr : input<float>("kv_scale", {0.75f});
        launchMHAFlashInfer(48, kv_heads, window, 1.0f, nullptr, o, q, sinks, k, v,
#if CACHE_ELEM_ENUM == 3
                            k_scales, v_scales,
#endif
                            block_table, most, seq_lens, requests, 1.0f, kv_scale,
#if SPEC_DEC
                            drafts, nullptr, mask,
#endif
                            semaphores, scratch, false, by[0], by[slot], by[head],
#if CACHE_ELEM_ENUM == 3
                            by_scales[0], by_scales[slot], by_scales[head],
#endif
                            nullptr);
    };
    CASE("plain") run({37, 150}, 256, 0, false, false, 1);
    CASE("hnd") run({37, 150}, 256, 0, true, true, 1);
    CASE("window") run({37, 150}, 256, 40, true, false, 1);
    // Two blocks for each request and head; a window leaves nothing to the first.
    CASE("blocks") run({300}, 512, 0, true, false, 1);
    CASE("blocks_window") run({300}, 512, 30, false, false, 1);
    CASE("drafts") run({37, 150}, 256, 0, false, false, 4);
    CASE("drafts_window") run({37, 150}, 256, 30, true, false, 4);
}
