// FlashInfer's header-only kernels, by their own host functions.
#include <flashinfer/activation.cuh>
#include <flashinfer/norm.cuh>
#include <flashinfer/sampling.cuh>

#include "record.h"

using namespace flashinfer;

__device__ __forceinline__ float silu(const float& x) { return x / (1.0f + __expf(-x)); }

int main(int, char** argv) {
    const uint32_t rows = 3;
    CASE("rmsnorm") {
        auto x = reals<half>("x", rows * 512, 1), w = reals<half>("w", 512, 2);
        norm::RMSNorm(x, w, output<half>("y", rows * 512), rows, 512, 512, 512, 1e-5f, false, 0);
    }
    CASE("gemma_rmsnorm") {
        auto x = reals<half>("x", rows * 512, 1), w = reals<half>("w", 512, 2);
        norm::GemmaRMSNorm(x, w, output<half>("y", rows * 512), rows, 512, 512, 512, 1e-5f, false, 0);
    }
    CASE("fused_add_rmsnorm") {
        auto x = reals<half>("x", rows * 512, 1), r = reals<half>("r", rows * 512, 3), w = reals<half>("w", 512, 2);
        norm::FusedAddRMSNorm(x, r, w, rows, 512, 512, 512, 1e-5f, false, 0);
    }
    CASE("qk_rmsnorm") {
        auto x = reals<half>("x", rows * 4 * 128, 1), w = reals<half>("w", 128, 2);
        norm::QKRMSNorm(x, w, output<half>("y", rows * 4 * 128), rows, 4, 128, 512, 128, 512, 128, 1e-5f, false, 0);
    }
    CASE("layernorm") {
        auto x = reals<half>("x", rows * 512, 1);
        auto w = reals<float>("w", 512, 2), b = reals<float>("b", 512, 3);
        norm::LayerNorm(x, w, b, output<half>("y", rows * 512), rows, 512, 1e-5f, 0);
    }
    CASE("rmsnorm_pdl") {
        auto x = reals<half>("x", rows * 512, 1), w = reals<half>("w", 512, 2);
        auto middle = output<half>("middle", rows * 512);
        norm::RMSNorm(x, w, middle, rows, 512, 512, 512, 1e-5f, true, 0);
        norm::RMSNorm(middle, w, output<half>("y", rows * 512), rows, 512, 512, 512, 1e-5f, true, 0);
    }
    CASE("silu_and_mul") {
        auto x = reals<half>("x", rows * 2 * 256, 4, 4.0f);
        // As csrc/activation.cu launches it.
        activation::act_and_mul_kernel<half, silu, 8><<<rows, 32>>>(output<half>("y", rows * 256), x, 256);
    }
    // Probabilities that sum to 1, about.
    auto probabilities = [&](uint32_t d) {
        Numbers numbers(5);
        std::vector<float> p(rows * d);
        for (uint32_t row = 0; row < rows; ++row) {
            double sum = 0;
            for (uint32_t n = 0; n < d; ++n) sum += p[row * d + n] = std::exp(3.0f * numbers.real());
            for (uint32_t n = 0; n < d; ++n) p[row * d + n] = (float)(p[row * d + n] / sum);
        }
        return input("p", p);
    };
    const uint32_t d = 500;
    CASE("top_p_renorm") sampling::TopPRenormProb<float>(probabilities(d), output<float>("y", rows * d), nullptr, rows, 0.6f, d);
    CASE("sampling") {
        sampling::SamplingFromProb<float, int>(probabilities(d), output<int>("y", rows), output<bool>("valid", rows), nullptr, rows, d, true, nullptr, 17, nullptr, 0);
    }
    CASE("top_k_sampling") {
        sampling::TopKSamplingFromProb<float, int>(probabilities(d), output<int>("y", rows), output<bool>("valid", rows), nullptr, nullptr, rows, 10, d, true, nullptr, 17, nullptr, 0);
    }
    CASE("top_p_sampling") {
        sampling::TopPSamplingFromProb<float, int>(probabilities(d), output<int>("y", rows), output<bool>("valid", rows), nullptr, nullptr, rows, 0.3f, d, true, nullptr, 17, nullptr, 0);
    }
    CASE("min_p_sampling") {
        sampling::MinPSamplingFromProb<float, int>(probabilities(d), nullptr, output<int>("y", rows), output<bool>("valid", rows), nullptr, rows, 0.2f, d, true, nullptr, 17, nullptr, 0);
    }
    CASE("softmax") {
        auto x = reals<float>("x", rows * d, 6, 10.0f);
        sampling::OnlineSoftmax<float>(x, output<float>("y", rows * d), rows, d, nullptr, 1.0f, nullptr, 0, false);
    }
}
