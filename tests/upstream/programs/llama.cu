// llama.cpp's kernels, by the functions that its operators call.
#include "norm.cu"
#include "softmax.cu"
#include "argsort.cu"
#include "argmax.cu"
#include "sumrows.cu"
#include "quantize.cu"
#include "unary.cu"
#include "cumsum.cu"
#include "topk-moe.cu"

#include "record.h"

// What ggml-cuda.cu says of the machine: a GB10.
const ggml_cuda_device_info& ggml_cuda_info() {
    static const ggml_cuda_device_info info = [] {
        ggml_cuda_device_info all{};
        all.device_count = all.physical_device_count = 1;
        auto& device = all.devices[0];
        device.cc = 1210, device.nsm = 48, device.smpb = 49152, device.smpbo = 101376, device.warp_size = 32;
        device.supports_cooperative_launch = true;
        return all;
    }();
    return info;
}
int ggml_cuda_get_device() { return 0; }
void ggml_cuda_set_device(int) {}

int main(int, char** argv) {
    const int rows = 3;
    auto norm = [&](int columns, auto call) {
        auto x = reals<float>("x", rows * columns, 1, 2.0f);
        auto y = output<float>("y", rows * columns);
        call(x, y, columns);
    };
    auto layer = [&](float* x, float* y, int n) { norm_f32_cuda(x, y, n, rows, 1, 1, n, n * rows, n * rows, 1e-5f, 0); };
    auto rms = [&](float* x, float* y, int n) { rms_norm_f32_cuda(x, y, n, rows, 1, 1, n, n * rows, n * rows, 1e-5f, 0); };
    auto l2 = [&](float* x, float* y, int n) { l2_norm_f32_cuda(x, y, n, rows, 1, 1, n, n * rows, n * rows, 1e-5f, 0); };
    CASE("norm") norm(300, layer);
    CASE("norm_wide") norm(1100, layer);
    CASE("rms_norm") norm(300, rms);
    CASE("rms_norm_wide") norm(1100, rms);
    CASE("l2_norm") norm(300, l2);
    CASE("l2_norm_wide") norm(1100, l2);
    CASE("sum_rows") {
        auto x = reals<float>("x", rows * 700, 2);
        sum_rows_f32_cuda(x, output<float>("y", rows), 700, rows, 0);
    }
    auto softmax = [&](int columns) {
        soft_max_params p{};
        p.nheads = 1, p.n_head_log2 = 1, p.ncols = columns, p.nrows_x = rows, p.nrows_y = rows;
        p.ne00 = columns, p.ne01 = rows, p.ne02 = 1, p.ne03 = 1, p.nb11 = columns * 2, p.nb12 = p.nb13 = columns * 2 * rows;
        p.ne12 = p.ne13 = 1, p.scale = 0.125f, p.max_bias = 0, p.m0 = p.m1 = 1;
        auto x = reals<float>("x", rows * columns, 3, 40.0f);
        auto mask = reals<half>("mask", rows * columns, 4, 4.0f);
        auto sinks = reals<float>("sinks", 1, 5, 4.0f);
        auto y = output<float>("y", rows * columns);
        // The context is for a fall-back that needs memory; these shapes do not.
        alignas(ggml_backend_cuda_context) static char context[sizeof(ggml_backend_cuda_context)];
        soft_max_f32_cuda(x, mask, sinks, y, p, 0, (ggml_backend_cuda_context&)context);
    };
    CASE("softmax") softmax(128);
    CASE("softmax_ragged") softmax(333);
    CASE("argsort") {
        auto x = reals<float>("x", rows * 200, 6);
        argsort_f32_i32_cuda_bitonic(x, output<int>("y", rows * 200), 200, rows, GGML_SORT_ORDER_ASC, 0);
    }
    CASE("argsort_descending") {
        auto x = reals<float>("x", rows * 64, 7);
        argsort_f32_i32_cuda_bitonic(x, output<int>("y", rows * 64), 64, rows, GGML_SORT_ORDER_DESC, 0);
    }
    CASE("argmax") {
        auto x = reals<float>("x", rows * 200, 8);
        // As ggml_cuda_argmax launches it.
        argmax_f32<<<dim3(rows), dim3(224)>>>(x, output<int>("y", rows), 200);
    }
    CASE("cumsum") {
        auto x = reals<float>("x", rows * 300, 9);
        alignas(ggml_backend_cuda_context) static char context[sizeof(ggml_backend_cuda_context)];
        cumsum_cuda<float>((ggml_backend_cuda_context&)context, x, output<float>("y", rows * 300), 300, rows, 1, 1, 4, 1200, 1200 * rows,
                           1200 * rows, 4, 1200, 1200 * rows, 1200 * rows, 0);
    }
    CASE("swiglu_oai") {
        auto x = reals<float>("x", 600, 10, 9.0f);
        auto g = reals<float>("g", 600, 11, 9.0f);
        swiglu_oai_cuda(x, g, output<float>("y", 600), 600, 200, 200, 200, 1.702f, 7.0f, 0);
    }
    CASE("quantize_q8_1") {
        auto x = reals<float>("x", 4 * 256, 12, 3.0f);
        quantize_row_q8_1_cuda(x, nullptr, output<uint8_t>("y", 4 * 256 / 32 * sizeof(block_q8_1)), GGML_TYPE_Q8_0, 256, 256, 1024, 1024, 256, 4, 1, 1, 0);
    }
    CASE("topk_moe") {
        auto logits = reals<float>("logits", 5 * 32, 13, 3.0f);
        auto weights = output<float>("weights", 5 * 4);
        auto ids = output<int>("ids", 5 * 32);
        topk_moe_config config{};
        config.with_norm = true;
        // As launch_topk_moe_cuda launches it.
        const ggml_cuda_kernel_launch_params params((dim3((5 + TOPK_MOE_ROWS_PER_BLOCK - 1) / TOPK_MOE_ROWS_PER_BLOCK)), dim3(WARP_SIZE, TOPK_MOE_ROWS_PER_BLOCK), 0, 0);
        ggml_cuda_kernel_launch(topk_moe_cuda<32, false>, params, (const float*)logits, weights, ids, (float*)nullptr, 5, 4, 1e-6f, 1.0f, config);
    }
}
