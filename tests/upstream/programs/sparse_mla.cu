// FlashInfer's sparse attention over records of latent attention, by the host functions of its module. An option of the compiler says
// whether the program has those of prefill or those of decode.
#include <cuda_fp8.h>

#include <sparse_mla_sm120/attention_resolve.cu>
#if PREFILL
#include <sparse_mla_sm120/prefill_binding.cu>
#include <sparse_mla_sm120/prefill_dispatch.cu>
#else
#include <sparse_mla_sm120/attention_binding.cu>
#include <sparse_mla_sm120/decode_dispatch.cu>
#include <sparse_mla_sm120/dsv32_decode_dispatch.cu>
#endif

#include <cmath>

#include "tensors.h"

namespace sparse = flashinfer::sparse_mla_sm120;
using OptionalView = tvm::ffi::Optional<TensorView>;

// A batch of tokens, each with a list of slots: records in pages in no order, NaN in every slot that no token names.
struct Batch {
    ModelType model;
    int64_t tokens, heads, topk, page;
    // The slots that count of each token; behind them is what an earlier step has left.
    std::vector<int> lengths;
    bool has_sinks = false;
    CacheFormatInfo format = cache_format_info(model);
    int64_t block = format.nope_dim / format.num_scales, slots = 5 * 64, pages = slots / page;
    // Pages of DeepSeek V4 are padded to a multiple of the bytes of a token.
    int64_t of_page = format.inline_scale ? page * format.bytes_per_token : (page * format.bytes_per_token + 575) / 576 * 576;

    static bool is_written(int64_t slot) { return slot % 6 != 4; }
    TensorView q() const {
        return tensor(reals<__nv_bfloat16>("q", tokens * heads * format.query_dim, 1, 2.0f), dl_bfloat16, {tokens, heads, format.query_dim});
    }
    // A record: codes with a scale of its own for each block, a power of two, and the rotary part.
    TensorView cache() const {
        Numbers numbers(2);
        std::vector<uint8_t> bytes(pages * of_page, 0xff);
        for (int64_t slot = 0; slot < slots; ++slot) {
            if (!is_written(slot)) continue;
            uint8_t* at = bytes.data() + slot / page * of_page;
            uint8_t* row = at + slot % page * (format.inline_scale ? format.bytes_per_token : format.data_bytes);
            uint8_t* scales = format.inline_scale ? row + format.nope_dim : at + page * format.data_bytes + slot % page * format.scale_bytes;
            for (int64_t n = 0; n < format.num_scales; ++n) {
                int power = 4 + numbers.below(4);
                for (int64_t d = n * block; d < (n + 1) * block; ++d) row[d] = __nv_fp8_e4m3(numbers.real() * std::ldexp(2.0f, power)).__x;
                // GLM's are no powers of two.
                float scale = std::ldexp(model == ModelType::GLM_NSA ? 1.0f + 0.9f * std::fabs(numbers.real()) : 1.0f, -power);
                if (format.inline_scale) std::memcpy(scales + 4 * n, &scale, 4);
                else scales[n] = (uint8_t)(127 - power);
            }
            for (int64_t d = 0; d < format.rope_dim; ++d) {
                __nv_bfloat16 x(numbers.real());
                std::memcpy(row + format.rope_offset + 2 * d, &x, 2);
            }
        }
        auto cache = input("kv_cache", bytes);
        if (!format.inline_scale) return tensor(cache, dl_uint8, {pages, page * format.bytes_per_token}, {of_page, 1});
        return tensor(cache, dl_uint8, {pages, page, format.bytes_per_token});
    }
    // Slots in no order, some left out; behind the length slots that do not exist.
    TensorView indices() const {
        std::vector<int> all(tokens * topk, 0x3fffffff);
        for (int64_t token = 0; token < tokens; ++token)
            for (int n = 0; n < lengths[token]; ++n) {
                int slot = (n * 77 + 13 * token + 5) % slots;
                all[token * topk + n] = n % 11 == 7 || !is_written(slot) ? -1 : slot;
            }
        return tensor(input("topk_indices", all), dl_int32, {tokens, topk});
    }
    OptionalView sinks() const {
        if (!has_sinks) return {};
        std::vector<float> of_heads(heads);
        for (int64_t head = 0; head < heads; ++head) of_heads[head] = 0.75f * head - 4.0f;
        return tensor(input("sinks", of_heads), dl_float32, {heads});
    }
    TensorView lengths_tensor() const { return tensor(input("topk_length", lengths), dl_int32, {tokens}); }
    TensorView out() const {
        return tensor(output<__nv_bfloat16>("o", tokens * heads * format.value_dim), dl_bfloat16, {tokens, heads, format.value_dim});
    }
    TensorView lse() const { return tensor(output<float>("lse", tokens * heads), dl_float32, {tokens, heads}); }
};

constexpr double SCALE = 0.0625;

#if PREFILL
static void prefill(Batch of, PrefillVariant variant) {
    auto q = of.q(), cache = of.cache(), indices = of.indices(), lengths = of.lengths_tensor(), out = of.out(), lse = of.lse();
    sparse::SparseMlaSm120PagedAttention(q, cache, indices, out, lse, SCALE, (int64_t)of.model, (int64_t)variant, lengths, of.sinks(), {},
                                         {}, {}, false);
}

int main(int, char** argv) {
    CASE("v32") prefill({ModelType::DSV3_2, 2, 16, 192, 64, {150, 64}}, PrefillVariant::SG);
    // Two groups of 16 heads in a block; queries as the columns of the product, 64 heads in a block.
    CASE("v32_groups") prefill({ModelType::DSV3_2, 1, 32, 256, 64, {230}, true}, PrefillVariant::MG);
    CASE("v32_columns") prefill({ModelType::DSV3_2, 1, 64, 192, 64, {170}}, PrefillVariant::SWAPAB);
    // Queries stay in bf16 up to 256 slots.
    CASE("v4_short") prefill({ModelType::DSV4, 2, 16, 192, 16, {190, 65}, true}, PrefillVariant::MG);
    CASE("v4_long") prefill({ModelType::DSV4, 1, 8, 320, 16, {300}}, PrefillVariant::MG);
}
#else
static void decode(Batch of, int64_t of_split) {
    const int64_t chunks = (of.topk + 63) / 64, heads = sparse::execution::decode_scratch_heads(of.heads);
    auto q = of.q(), cache = of.cache(), indices = of.indices(), lengths = of.lengths_tensor(), out = of.out(), lse = of.lse();
    void *partials, *logarithms;
    cudaMalloc(&partials, of.tokens * heads * chunks * of.format.value_dim * 2), cudaMalloc(&logarithms, of.tokens * heads * chunks * 4);
    auto mid_out = tensor(partials, dl_bfloat16, {of.tokens, heads, chunks, of.format.value_dim});
    auto mid_lse = tensor(logarithms, dl_float32, {of.tokens, heads, chunks});
    if (of.format.inline_scale)
        sparse::SparseMlaSm120DecodeDsv3_2(q, cache, indices, mid_out, mid_lse, out, lse, chunks, SCALE, lengths, of.sinks(), (int64_t)of.model,
                                           of_split, 1.0);
    else
        sparse::SparseMlaSm120DecodeDsv4(q, cache, indices, mid_out, mid_lse, out, lse, chunks, SCALE, lengths, of.sinks(), {}, {}, {},
                                         (int64_t)of.model, of_split, false, 1.0);
}

int main(int, char** argv) {
    // Pieces of 64 slots: one split of three, and three of one, the last of which has nothing for the second token.
    CASE("v32") decode({ModelType::DSV3_2, 2, 16, 192, 16, {192, 70}}, 3);
    CASE("v32_split") decode({ModelType::DSV3_2, 2, 8, 192, 16, {150, 100}, true}, 1);
    CASE("glm") decode({ModelType::GLM_NSA, 1, 8, 128, 16, {120}}, 2);
    CASE("v4") decode({ModelType::DSV4, 2, 8, 192, 16, {192, 70}, true}, 3);
}
#endif
