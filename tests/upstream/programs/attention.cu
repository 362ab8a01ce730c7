// FlashInfer's attention for one query of one request.
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/variants.cuh>

#include "record.h"

using namespace flashinfer;

int main(int, char** argv) {
    constexpr uint32_t dim = 64, heads = 2;
    using Variant = DefaultAttention<false, false, false, false>;
    CASE("decode") {
        SingleDecodeParams<half, half, half> p;
        p.q = reals<half>("q", heads * dim, 1, 2.0f);
        p.k = reals<half>("k", 45 * heads * dim, 2, 2.0f);
        p.v = reals<half>("v", 45 * heads * dim, 3);
        p.o = output<half>("o", heads * dim);
        p.kv_len = 45, p.num_qo_heads = p.num_kv_heads = heads;
        p.q_stride_n = p.kv_stride_n = heads * dim, p.q_stride_h = p.kv_stride_h = dim;
        p.window_left = -1, p.sm_scale = 0.125f, p.rope_rcp_scale = p.rope_rcp_theta = 1;
        SingleDecodeWithKVCacheDispatched<dim, PosEncodingMode::kNone, Variant>(p, (half*)nullptr, 0);
    }
}
