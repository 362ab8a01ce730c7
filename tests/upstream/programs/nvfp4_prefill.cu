// FlashInfer's attention of a batch of requests over a paged cache in NVFP4. Options of the compiler give the elements of a head, and whether
// scales of values are read as trtllm-gen stores them.
#define FLASHINFER_ENABLE_FP4_E2M1
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

#include "planned.h"

using namespace flashinfer;

struct Params : BatchPrefillPagedParams<nv_bfloat16, __nv_fp4x2_e2m1, nv_bfloat16, int> {
    uint8_t *maybe_k_cache_sf = nullptr, *maybe_v_cache_sf = nullptr;
};

template <uint32_t TILE> void run(std::vector<int> rows, std::vector<int> lengths, bool hnd) {
    Params p;
    Planned<Params> all(rows, 4, Paged(lengths, 16, 2, HEAD_WIDTH, hnd), p);
    all.template launch<TILE, HEAD_WIDTH, MaskMode::kCausal, DefaultAttention<false, false, false, false>>(p, -1, 0);
}

int main(int, char** argv) {
    CASE("nhd") run<64>({9, 1, 20}, {37, 5, 150}, false);
    CASE("hnd") run<64>({9, 1, 20}, {37, 5, 150}, true);
    CASE("short") run<16>({3, 1, 4}, {37, 5, 150}, true);
    CASE("long") run<128>({60, 40}, {70, 40}, true);
}
