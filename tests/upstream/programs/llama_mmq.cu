// llama.cpp's product of a matrix in MXFP4 or NVFP4 and activations that it quantizes to FP4, as ggml_cuda_mul_mat_q makes it.
#include "mmq.cuh"
#include "quantize.cu"

#include "record.h"

constexpr int SMS = 6;

// A GB10 with few multiprocessors: one CTA for each works on its share of all tiles.
const ggml_cuda_device_info& ggml_cuda_info() {
    static const ggml_cuda_device_info info = [] {
        ggml_cuda_device_info all{};
        all.device_count = all.physical_device_count = 1;
        auto& device = all.devices[0];
        device.cc = 1210, device.nsm = SMS, device.smpb = 49152, device.smpbo = 101376, device.warp_size = 32;
        return all;
    }();
    return info;
}
int ggml_cuda_get_device() { return 0; }
void ggml_cuda_set_device(int) {}

struct Pool : ggml_cuda_pool {
    void* alloc(size_t size, size_t* actual) override {
        void* at = nullptr;
        cudaMalloc(&at, *actual = size);
        return at;
    }
    void free(void*, size_t) override {}
};
std::unique_ptr<ggml_cuda_pool> ggml_backend_cuda_context::new_pool_for_device(int, int) { return std::make_unique<Pool>(); }

template <ggml_type TYPE, int J, bool FALLBACK> void product(int64_t rows, int64_t columns, int64_t k) {
    using Block = std::conditional_t<TYPE == GGML_TYPE_MXFP4, block_mxfp4, block_nvfp4>;
    constexpr int64_t per_block = TYPE == GGML_TYPE_MXFP4 ? QK_MXFP4 : QK_NVFP4;
    Numbers numbers(1);
    std::vector<Block> blocks(rows * k / per_block);
    for (auto& block : blocks) {
        for (auto& pair : block.qs) pair = (uint8_t)numbers.below(256);
        if constexpr (TYPE == GGML_TYPE_MXFP4) block.e = (uint8_t)(124 + numbers.below(6));
        else for (auto& scale : block.d) scale = (uint8_t)(0x30 + numbers.below(16));
    }
    auto x = input("x", blocks);
    auto y = reals<float>("y", columns * k, 2, 3.0f);
    // Its size and strides, as ggml_cuda_mul_mat_q computes them.
    const size_t bytes = columns * k * sizeof(block_fp4_mmq) / QK_FP4_MMQ + ggml_cuda_mmq_get_J_max(TYPE, FALLBACK, 1210, columns) * sizeof(block_q8_1_mmq);
    auto quantized = output<char>("quantized", bytes);
    float* scale = TYPE == GGML_TYPE_NVFP4 ? output<float>("scale", columns) : nullptr;
    quantize_mmq_fp4_cuda(y, nullptr, quantized, scale, TYPE, true, k, k, columns * k, columns * k, k, columns, 1, 1, 0);
    auto dst = output<float>("dst", columns * rows);
    const int64_t stride = columns * k * sizeof(block_fp4_mmq) / (QK_FP4_MMQ * sizeof(int)), row = k / per_block;
    const mmq_args args = {(const char*)x, TYPE, (const int*)quantized, nullptr, nullptr, dst, scale, k, rows, columns, row, columns, rows,
                           1, 1, rows * row, stride, rows * columns, 1, 1, rows * row, stride, rows * columns, columns, columns};
    alignas(ggml_backend_cuda_context) static char context[sizeof(ggml_backend_cuda_context)];
    launch_mul_mat_q<TYPE, J, FALLBACK, GGML_PREC_Q4>((ggml_backend_cuda_context&)context, args, 0);
}

int main(int, char** argv) {
    CASE("mxfp4") product<GGML_TYPE_MXFP4, 16, false>(128, 16, 512);
    CASE("mxfp4_narrow") product<GGML_TYPE_MXFP4, 16, false>(128, 11, 512);
    CASE("mxfp4_ragged") product<GGML_TYPE_MXFP4, 16, true>(80, 16, 512);
    CASE("nvfp4") product<GGML_TYPE_NVFP4, 16, false>(128, 16, 512);
}
