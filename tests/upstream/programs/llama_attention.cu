// llama.cpp's attention: ggml_cuda_flash_attn_ext chooses the mma, the vector or the tile kernel for the shape, as it does on a GB10.

// Pairs of types of keys and values with a vector kernel, as CMake's default sets them.
constexpr bool GGML_CUDA_FA_F16_F16 = true, GGML_CUDA_FA_Q8_0_Q8_0 = true, GGML_CUDA_FA_Q4_0_Q4_0 = true, GGML_CUDA_FA_BF16_BF16 = true;
#define WITH_NO_OTHER(K) \
    constexpr bool GGML_CUDA_FA_##K##_Q4_1 = false, GGML_CUDA_FA_##K##_Q5_0 = false, GGML_CUDA_FA_##K##_Q5_1 = false;
WITH_NO_OTHER(F16) WITH_NO_OTHER(BF16) WITH_NO_OTHER(Q4_0) WITH_NO_OTHER(Q4_1) WITH_NO_OTHER(Q5_0) WITH_NO_OTHER(Q5_1) WITH_NO_OTHER(Q8_0)
#define WITH_NONE(K) \
    constexpr bool GGML_CUDA_FA_##K##_F16 = false, GGML_CUDA_FA_##K##_BF16 = false, GGML_CUDA_FA_##K##_Q4_0 = false, GGML_CUDA_FA_##K##_Q8_0 = false;
WITH_NONE(Q4_1) WITH_NONE(Q5_0) WITH_NONE(Q5_1)
constexpr bool GGML_CUDA_FA_F16_BF16 = false, GGML_CUDA_FA_F16_Q4_0 = false, GGML_CUDA_FA_F16_Q8_0 = false;
constexpr bool GGML_CUDA_FA_BF16_F16 = false, GGML_CUDA_FA_BF16_Q4_0 = false, GGML_CUDA_FA_BF16_Q8_0 = false;
constexpr bool GGML_CUDA_FA_Q4_0_F16 = false, GGML_CUDA_FA_Q4_0_BF16 = false, GGML_CUDA_FA_Q4_0_Q8_0 = false;
constexpr bool GGML_CUDA_FA_Q8_0_F16 = false, GGML_CUDA_FA_Q8_0_BF16 = false, GGML_CUDA_FA_Q8_0_Q4_0 = false;

#include "fattn.cu"
#include "convert.cu"

#include "record.h"

// The instances that the cases reach; the others are declared and missing.
DECL_FATTN_MMA_F16_CASE(64, 64, 4, 2);
DECL_FATTN_MMA_F16_CASE(64, 64, 8, 2);
DECL_FATTN_MMA_F16_CASE(64, 64, 8, 1);
DECL_FATTN_VEC_CASE(64, GGML_TYPE_F16, GGML_TYPE_F16);
DECL_FATTN_VEC_CASE(128, GGML_TYPE_F16, GGML_TYPE_F16);
DECL_FATTN_VEC_CASE(64, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0);
DECL_FATTN_VEC_CASE(64, GGML_TYPE_Q4_0, GGML_TYPE_Q4_0);
DECL_FATTN_TILE_CASE(40, 40);

// What ggml-cuda.cu says of the machine: a GB10, with as many multiprocessors as the case asks for.
static int multiprocessors = 48;
const ggml_cuda_device_info& ggml_cuda_info() {
    static const ggml_cuda_device_info info = [] {
        ggml_cuda_device_info all{};
        all.device_count = all.physical_device_count = 1;
        auto& device = all.devices[0];
        device.cc = 1210, device.nsm = multiprocessors, device.smpb = 49152, device.smpbo = 101376, device.warp_size = 32;
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

// Of ggml.c, for the types and the dense tensors of the cases.
extern "C" {
size_t ggml_type_size(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: return sizeof(float);
        case GGML_TYPE_F16: return sizeof(half);
        case GGML_TYPE_Q8_0: return sizeof(block_q8_0);
        case GGML_TYPE_Q4_0: return sizeof(block_q4_0);
        default: std::abort();
    }
}
int64_t ggml_blck_size(ggml_type type) { return ggml_is_quantized(type) ? 32 : 1; }
bool ggml_is_quantized(ggml_type type) { return type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q4_0; }
size_t ggml_element_size(const ggml_tensor* of) { return ggml_type_size(of->type); }
int64_t ggml_nrows(const ggml_tensor* of) { return of->ne[1] * of->ne[2] * of->ne[3]; }
int64_t ggml_nelements(const ggml_tensor* of) { return of->ne[0] * ggml_nrows(of); }
size_t ggml_nbytes(const ggml_tensor* of) { return ggml_nelements(of) / ggml_blck_size(of->type) * ggml_type_size(of->type); }
bool ggml_is_contiguously_allocated(const ggml_tensor*) { return true; }
void ggml_abort(const char* file, int line, const char* format, ...) {
    std::fprintf(stderr, "%s:%d: %s\n", file, line, format);
    std::_Exit(3);
}
}

// fattn-tile.cu would define its header's templates a second time; it chooses by the width, of which the cases have one.
void ggml_cuda_flash_attn_ext_tile(ggml_backend_cuda_context& ctx, ggml_tensor* dst) { ggml_cuda_flash_attn_ext_tile_case<40, 40>(ctx, dst); }

// A tensor whose heads lie side by side in each row, as llama.cpp's cache and projections have them: [sequences][rows][heads][width].
static ggml_tensor tensor(ggml_type type, void* data, int64_t width, int64_t rows, int64_t heads, int64_t sequences) {
    ggml_tensor out{};
    const size_t head = width / ggml_blck_size(type) * ggml_type_size(type);
    out.type = type, out.data = data;
    out.ne[0] = width, out.ne[1] = rows, out.ne[2] = heads, out.ne[3] = sequences;
    out.nb[0] = ggml_type_size(type), out.nb[1] = heads * head, out.nb[2] = head, out.nb[3] = rows * heads * head;
    return out;
}

static void* quants(const char* name, ggml_type type, size_t elements, uint64_t seed) {
    Numbers numbers(seed);
    auto blocks = [&](auto of_type) {
        std::vector<decltype(of_type)> all(elements / 32);
        for (auto& block : all) {
            // No powers of two, so that products of codes and scales are not exact in f16.
            block.d = half((1.0f + numbers.real() * 0.4f) * (type == GGML_TYPE_Q8_0 ? 1.0f / 64 : 0.25f));
            for (auto& code : block.qs) code = (decltype(+code))numbers.below(256);
        }
        return (void*)input(name, all);
    };
    if (type == GGML_TYPE_Q8_0) return blocks(block_q8_0{});
    if (type == GGML_TYPE_Q4_0) return blocks(block_q4_0{});
    return reals<half>(name, elements, seed, 2.0f);
}

struct Problem {
    int64_t width, rows, heads, kv_heads, keys;
    // Keys in use of each sequence: cells of the cache behind them are hidden by the mask.
    std::vector<int> lengths;
    float scale;
    int window = 0;
    bool masked = true, sinks = false;
    float bias = 0, cap = 0;
    ggml_type type = GGML_TYPE_F16;
};

static void attention(const Problem& p) {
    const int64_t sequences = (int64_t)p.lengths.size();
    ggml_tensor q = tensor(GGML_TYPE_F32, reals<float>("q", sequences * p.rows * p.heads * p.width, 1, 2.0f), p.width, p.rows, p.heads, sequences);
    const size_t cells = sequences * p.keys * p.kv_heads * p.width;
    ggml_tensor k = tensor(p.type, quants("k", p.type, cells, 2), p.width, p.keys, p.kv_heads, sequences);
    ggml_tensor v = tensor(p.type, quants("v", p.type, cells, 3), p.width, p.keys, p.kv_heads, sequences);
    ggml_tensor mask{}, sinks{}, out = tensor(GGML_TYPE_F32, nullptr, p.width, p.heads, p.rows, sequences);
    // [sequences][rows][heads][width], too, though the dimensions are in another order.
    out.nb[1] = p.width * sizeof(float), out.nb[2] = p.heads * out.nb[1];
    out.op = GGML_OP_FLASH_ATTN_EXT;
    out.src[0] = &q, out.src[1] = &k, out.src[2] = &v;
    memcpy(out.op_params, &p.scale, sizeof(float));
    memcpy(out.op_params + 1, &p.bias, sizeof(float));
    memcpy(out.op_params + 2, &p.cap, sizeof(float));
    if (p.masked) {
        std::vector<half> bits;
        for (int length : p.lengths) {
            for (int64_t row = 0; row < p.rows; ++row) {
                for (int64_t key = 0; key < p.keys; ++key) {
                    const int64_t ahead = key - (length - p.rows + row);
                    const bool visible = ahead <= 0 && (!p.window || ahead > -p.window);
                    bits.push_back(!visible ? half(-INFINITY) : half(p.bias > 0 ? (float)ahead : 0.0f));
                }
            }
        }
        mask = tensor(GGML_TYPE_F16, input("mask", bits), p.keys, p.rows, 1, sequences);
        out.src[3] = &mask;
    }
    if (p.sinks) {
        sinks = tensor(GGML_TYPE_F32, reals<float>("sinks", p.heads, 4, 4.0f), p.heads, 1, 1, 1);
        out.src[4] = &sinks;
    }
    // Behind the result lie keys and values that are converted to f16: as many bytes as the allocator asks for, from an aligned address.
    out.data = (void*)128;
    const size_t bytes = ggml_cuda_flash_attn_ext_get_alloc_size(0, &out);
    out.data = output<char>("o", bytes);
    alignas(ggml_backend_cuda_context) static char context[sizeof(ggml_backend_cuda_context)];
    ggml_cuda_flash_attn_ext((ggml_backend_cuda_context&)context, &out);
}

int main(int, char** argv) {
    CASE("mma") attention({64, 4, 4, 2, 256, {200}, 0.3f, 90, true, true});
    CASE("mma_ragged") multiprocessors = 1, attention({64, 7, 4, 2, 256, {201}, 0.3f, 0, true, true});
    // Tiles of four rows: whole ones, and some that are not.
    CASE("mma_sequences") attention({64, 4, 4, 2, 512, {400, 60}, 0.3f, 0, true, true});
    CASE("mma_sequences_ragged") attention({64, 3, 4, 2, 512, {400, 60}, 0.3f, 0, true, true});
    CASE("mma_alibi") attention({64, 5, 2, 1, 90, {90}, 0.3f, 0, true, false, 8.0f});
    CASE("mma_q8_0") attention({64, 3, 4, 2, 256, {150}, 0.3f, 0, true, true, 0, 0, GGML_TYPE_Q8_0});
    CASE("mma_q4_0") attention({64, 3, 4, 2, 256, {150}, 0.3f, 0, true, true, 0, 0, GGML_TYPE_Q4_0});
    CASE("vec") attention({64, 1, 4, 2, 256, {200}, 0.3f, 150, true, true});
    CASE("vec_cap") attention({128, 1, 2, 1, 256, {256}, 0.3f, 0, false, false, 0, 5.0f});
    CASE("vec_q8_0") attention({64, 2, 4, 2, 256, {200}, 0.3f, 0, true, true, 0, 0, GGML_TYPE_Q8_0});
    CASE("vec_q4_0") attention({64, 1, 4, 2, 256, {200}, 0.3f, 0, true, true, 0, 0, GGML_TYPE_Q4_0});
    CASE("tile") attention({40, 3, 4, 2, 256, {200}, 0.3f, 90, true, true});
    CASE("tile_ragged") attention({40, 5, 2, 2, 90, {90}, 0.3f, 0, false, true});
}
