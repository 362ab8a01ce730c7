// Measures `../kernels/programs.cu` itself as native code of this CPU, by HIP-CPU.
//
// hip [NAME...] prints a name and CPU seconds in each line.

#include <hip/hip_runtime.h>
#include <tbb/global_control.h>

#include "programs.h"

// The two functions of programs.cu with PTX in them have `x` and `y` as operands; the text tells which of the two it is.
#define asm(...) y = approximation(#__VA_ARGS__, x)
static inline __attribute__((always_inline)) float approximation(const char* ptx, float x) {
    return ptx[1] == 'e' ? exp2f(x) : 1.0f / sqrtf(x);
}
#include "../kernels/programs.cu"
#undef asm

static void* buffers[MOST_GIVEN];

static void must(hipError_t error) {
    if (error == hipSuccess) return;
    fprintf(stderr, "HIP-CPU: error %d\n", static_cast<int>(error));
    exit(2);
}

static void prepare(const Program* program) {
    for (int i = 0; i < MOST_GIVEN; ++i) {
        if (is_buffer(&program->given[i])) must(hipMalloc(&buffers[i], size_t{program->given[i].count} * 4));
    }
}

static void write_buffer(int buffer, const void* bytes, size_t size) {
    must(hipMemcpy(buffers[buffer], bytes, size, hipMemcpyHostToDevice));
}

static void read_buffer(int buffer, void* bytes, size_t size) {
    must(hipMemcpy(bytes, buffers[buffer], size, hipMemcpyDeviceToHost));
}

static float* floats(int i) { return static_cast<float*>(buffers[i]); }
static unsigned* words(int i) { return static_cast<unsigned*>(buffers[i]); }

static void launch(const Program* program) {
    const dim3 grid(program->grid[0], program->grid[1]), block(program->block[0], program->block[1]);
    auto is = [=](const char* name) { return !strcmp(program->name, name); };
    auto number = [=](int i) { return static_cast<int>(program->given[i].count); };
    if (is("vecadd")) hipLaunchKernelGGL(vecadd, grid, block, 0, nullptr, floats(0), floats(1), floats(2), number(3));
    if (is("reduce")) hipLaunchKernelGGL(reduce, grid, block, 0, nullptr, floats(0), floats(1), number(2));
    if (is("gemm_naive")) hipLaunchKernelGGL(gemm_naive, grid, block, 0, nullptr, floats(0), floats(1), floats(2), number(3));
    if (is("gemm_tiled")) hipLaunchKernelGGL(gemm_tiled, grid, block, 0, nullptr, floats(0), floats(1), floats(2), number(3));
    if (is("softmax")) hipLaunchKernelGGL(softmax, grid, block, 0, nullptr, floats(0), floats(1), number(2));
    if (is("bitonic")) hipLaunchKernelGGL(bitonic, grid, block, 0, nullptr, words(0));
    if (is("histogram")) hipLaunchKernelGGL(histogram, grid, block, 0, nullptr, words(0), words(1), number(2));
    if (is("mandelbrot")) hipLaunchKernelGGL(mandelbrot, grid, block, 0, nullptr, reinterpret_cast<int*>(words(0)), number(1), number(2));
    if (is("nbody")) {
        hipLaunchKernelGGL(nbody, grid, block, 0, nullptr, floats(0), floats(1), floats(2), floats(3), floats(4), number(5));
    }
    must(hipDeviceSynchronize());
}

static void release() {
    for (void*& buffer : buffers) {
        if (buffer) must(hipFree(buffer));
        buffer = nullptr;
    }
}

int main(int count, char** arguments) {
    tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
    const Machine machine = {prepare, write_buffer, launch, read_buffer, release};
    return measure_all(&machine, count - 1, arguments + 1);
}
