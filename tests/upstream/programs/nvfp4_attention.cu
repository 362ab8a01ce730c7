// FlashInfer's attention in NVFP4 for SM120: queries, keys and values are quantized by its own functions, as its Python does it, and
// multiplied by the host function that its module calls.
#include <flashinfer/attention/sm120/nvfp4_attention_sm120/api/launcher.h>

#include <nvfp4_attention_sm120/nvfp4_attention_sm120_quantize.cu>

#include "tensors.h"

namespace fi = flashinfer::nvfp4_attention_sm120;

// Rows and keys as the caller has them, padded to multiples of 128 with zeros.
struct Batch {
    int64_t rows, keys, heads, kv_heads, dim;
    bool causal, per_block;
    int64_t m = (rows + 127) / 128 * 128, n = (keys + 127) / 128 * 128;

    using Half = __nv_bfloat16;
    // A padded tensor of so many heads; the mean of each element over so many tokens is subtracted, which stays as it was rounded.
    std::vector<Half> centred(int64_t of_heads, int64_t tokens, int64_t padded, int64_t group, uint64_t seed, float scale, std::vector<float>* means) const {
        Numbers numbers(seed);
        std::vector<Half> all(of_heads * padded * dim, Half(0.0f));
        for (int64_t head = 0; head < of_heads; ++head)
            for (int64_t token = 0; token < tokens; ++token)
                for (int64_t d = 0; d < dim; ++d) all[(head * padded + token) * dim + d] = Half(numbers.real() * scale + (group ? 0.25f : 0.0f));
        if (!group) return all;
        for (int64_t head = 0; head < of_heads; ++head)
            for (int64_t first = 0; first < padded; first += group)
                for (int64_t d = 0; d < dim; ++d) {
                    float sum = 0;
                    auto at = [&](int64_t token) -> Half& { return all[(head * padded + first + token) * dim + d]; };
                    const int64_t count = means ? group : tokens;
                    for (int64_t token = 0; token < group; ++token) sum += (float)at(token);
                    Half mean(sum / count);
                    if (means) means->push_back((float)mean);
                    for (int64_t token = 0; token < group; ++token)
                        if (means || token < tokens) at(token) = Half((float)at(token) - (float)mean);
                }
        return all;
    }

    template <bool CAUSAL, bool PER_BLOCK> void run() const {
        // The mean of keys is over those of the caller, that of queries over the padded rows.
        std::vector<float> means;
        auto keys_of = centred(kv_heads, keys, n, n, 2, 2.0f, nullptr);
        auto queries = centred(heads, rows, m, PER_BLOCK ? 128 : m, 1, 2.0f, &means);
        auto values = centred(kv_heads, keys, n, 0, 3, 1.0f, nullptr);
        // The product of the means of queries and the keys, which `fwd` adds to the scores.
        const int64_t groups = PER_BLOCK ? m / 128 : 1;
        std::vector<float> correction(heads * groups * n);
        for (int64_t head = 0; head < heads; ++head)
            for (int64_t group = 0; group < groups; ++group)
                for (int64_t key = 0; key < n; ++key) {
                    float sum = 0;
                    for (int64_t d = 0; d < dim; ++d)
                        sum += means[((head * groups + group) * dim) + d] * (float)keys_of[((head / (heads / kv_heads)) * n + key) * dim + d];
                    correction[(head * groups + group) * n + key] = sum;
                }
        auto added = input("correction", correction);
        auto half = [&](const char* name, std::vector<Half>& of, int64_t of_heads, int64_t tokens) {
            return tensor(input(name, of), dl_bfloat16, {1, of_heads, tokens, dim});
        };
        auto q = half("queries", queries, heads, m), k = half("keys", keys_of, kv_heads, n), v = half("values", values, kv_heads, n);
        auto codes = [&](const char* name, int64_t of_heads, int64_t a, int64_t b) {
            return tensor(output<uint8_t>(name, of_heads * a * b / 2), dl_uint8, {1, of_heads, a, b / 2});
        };
        auto scales = [&](const char* name, int64_t of_heads, int64_t a, int64_t b) {
            return tensor(output<uint8_t>(name, of_heads * a * b / 16), dl_float8_e4m3fn, {1, of_heads, a, b / 16});
        };
        auto q4 = codes("q_codes", heads, m, dim), k4 = codes("k_codes", kv_heads, n, dim), v4 = codes("v_codes", kv_heads, dim, n);
        auto qs = scales("q_scales", heads, m, dim), ks = scales("k_scales", kv_heads, n, dim), vs = scales("v_scales", kv_heads, dim, n);
        // HND
        fi::scaled_fp4_quant(q, q4, qs, 1), fi::scaled_fp4_quant_permute(k, k4, ks, 1), fi::scaled_fp4_quant_trans(v, v4, vs, 1);
        auto o = output<Half>("o", heads * m * dim);
        auto lse = output<float>("lse", heads * m);
        cudaMemset(lse, 0, heads * m * sizeof(float));
        // As `set_params_fprop` fills it.
        Flash_fwd_params params{};
        params.q_ptr = q4.data_ptr(), params.k_ptr = k4.data_ptr(), params.v_ptr = v4.data_ptr();
        params.sfq_ptr = qs.data_ptr(), params.sfk_ptr = ks.data_ptr(), params.sfv_ptr = vs.data_ptr(), params.delta_s_ptr = added;
        params.q_row_stride = params.k_row_stride = dim, params.v_row_stride = n;
        params.q_head_stride = m * dim, params.k_head_stride = params.v_head_stride = n * dim;
        params.q_batch_stride = heads * m * dim, params.k_batch_stride = params.v_batch_stride = kv_heads * n * dim;
        params.ds_row_stride = n, params.ds_head_stride = groups * n, params.ds_batch_stride = heads * groups * n;
        params.sfq_row_stride = params.sfk_row_stride = dim / 16, params.sfv_row_stride = n / 16;
        params.sfq_head_stride = m * dim / 16, params.sfk_head_stride = params.sfv_head_stride = n * dim / 16;
        params.sfq_batch_stride = heads * m * dim / 16, params.sfk_batch_stride = params.sfv_batch_stride = kv_heads * n * dim / 16;
        params.o_ptr = o, params.o_row_stride = dim, params.o_head_stride = m * dim, params.o_batch_stride = heads * m * dim;
        params.softmax_lse_ptr = lse;
        params.b = 1, params.h = heads, params.h_k = kv_heads, params.h_h_k_ratio = heads / kv_heads;
        params.seqlen_q = params.seqlen_q_rounded = m, params.seqlen_k = params.seqlen_k_rounded = n, params.unpadded_seqlen_k = keys;
        params.d = params.d_rounded = dim, params.head_divmod = cutlass::FastDivmod(heads);
        params.scale_softmax = 0.125f, params.scale_softmax_log2 = 0.125f * 1.4426950408889634f;
        params.is_causal = CAUSAL, params.per_block_mean = PER_BLOCK, params.seqlen_s = PER_BLOCK ? m : 128;
        params.window_size_left = -1, params.window_size_right = CAUSAL ? 0 : -1, params.is_seqlens_k_cumulative = true, params.is_bf16 = true;
        using Traits = nvfp4_attention::Flash_fwd_kernel_traits<64, 128, 128, 3, 1, PER_BLOCK, cutlass::nv_float4_t<cutlass::float_e2m1_t>,
                                                                cutlass::bfloat16_t, float>;
        nvfp4_attention::run_flash_fwd<Traits, CAUSAL, true>(params, 0);
    }
};

int main(int, char** argv) {
    CASE("full") Batch{100, 200, 2, 1, 64}.run<false, true>();
    CASE("causal") Batch{128, 256, 2, 1, 64}.run<true, true>();
    // Fewer keys than the padded ones, and causal.
    CASE("causal_ragged") Batch{128, 200, 2, 1, 64}.run<true, true>();
}
