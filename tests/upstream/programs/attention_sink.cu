// FlashInfer's attention with a window and a sink for each head. Its variant is text that FlashInfer compiles at run time; the parameters are those
// of the plain variant and the sinks.
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>

#include "planned.h"

using namespace flashinfer;

#include "attention_sink_fa2_decl.inc"

struct Params : BatchPrefillPagedParams<half, half, half, int> {
    float* sink = nullptr;
};

int main(int, char** argv) {
    constexpr uint32_t dim = 64;
    auto run = [&](std::vector<int> lengths, int window, int split) {
        Params p;
        Planned<Params> all({9, 1, 20}, 4, Paged(lengths, 16, 2, dim, false), p);
        p.sink = input<float>("sinks", {0.5f, 2.0f, -1.0f, 3.0f});
        all.launch<64, dim, MaskMode::kCausal, AttentionSink>(p, window, split);
    };
    CASE("window") run({37, 5, 150}, 19, 0);
    CASE("split") run({37, 58, 110}, -1, 3);
}
