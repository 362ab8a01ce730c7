// FlashInfer's attention of a batch of requests over a paged cache, planned by its own scheduler.
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

#include "planned.h"

using namespace flashinfer;

int main(int, char** argv) {
    using Variant = DefaultAttention<false, false, false, false>;
    using Params = BatchPrefillPagedParams<half, half, half, int>;
    constexpr uint32_t dim = 64, heads = 4;
    Params p;
    CASE("causal") {
        Planned<Params> run({9, 1, 20}, heads, Paged({37, 5, 150}, 16, 2, dim, false), p);
        run.launch<64, dim, MaskMode::kCausal, Variant>(p, -1, 0);
    }
    CASE("hnd") {
        Planned<Params> run({9, 14, 5}, heads, Paged({37, 15, 140}, 16, 2, dim, true), p);
        run.launch<64, dim, MaskMode::kNone, Variant>(p, -1, 0);
    }
    // Three pages each: two of the requests are split, and merged by a second kernel.
    CASE("split") {
        Planned<Params> run({9, 1, 20}, heads, Paged({37, 58, 110}, 16, 2, dim, false), p);
        run.launch<64, dim, MaskMode::kCausal, Variant>(p, -1, 3);
    }
    // Few rows, whose keys the four warps of a block share.
    CASE("short") {
        Planned<Params> run({3, 1, 4}, heads, Paged({37, 58, 150}, 16, 2, dim, false), p);
        run.launch<16, dim, MaskMode::kCausal, Variant>(p, -1, 3);
    }
    // What `run(q, cache, sinks=sinks)` of the wrapper launches: the sinks reach no kernel.
    CASE("sinks") {
        Planned<Params> run({9, 1, 20}, heads, Paged({37, 5, 70}, 16, 2, dim, false), p);
        input<float>("sinks", {0.5f, 2.0f, -1.0f, 3.0f});
        run.launch<64, dim, MaskMode::kCausal, Variant>(p, -1, 0);
    }
}
