// The kernels behind the functions of cuFFT. `nvcc -ptx -arch=compute_80 --fmad=false` makes kernels.ptx.
//
// They move the elements of a plan to dense numbers of 64 bits and back. Each number is computed, not only moved, so that numbers that nothing
// has written are found as those of any computation are.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef long long i64;

// Where the elements of one side lie: numbers in each direction, slowest first, and distances in elements.
struct Elements {
    unsigned count, of_one, middle, fast;
    i64 step[3];
    i64 distance;
    int parts, is_dense;
};

__device__ i64 place(const Elements &e, unsigned n) {
    if (e.is_dense) return n;
    unsigned transform = n / e.of_one, rest = n % e.of_one;
    unsigned row = rest / e.fast, column = rest % e.fast;
    return transform * e.distance + row / e.middle * e.step[0] + row % e.middle * e.step[1] + column * e.step[2];
}

__device__ double widened(float v) { return v; }
__device__ double widened(double v) {
    double product;
    asm volatile("mul.rn.f64 %0, %1, 0d3FF0000000000000;" : "=d"(product) : "d"(v));
    return product;
}
__device__ double widened(__half v) { return __half2float(v); }
__device__ double widened(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ void narrow(float &to, double v) { to = __double2float_rn(v); }
__device__ void narrow(double &to, double v) { to = v; }
__device__ void narrow(__half &to, double v) { to = __double2half(v); }
__device__ void narrow(__nv_bfloat16 &to, double v) { to = __double2bfloat16(v); }

template <class T> __device__ void gather(const T *from, double *to, const Elements &e) {
    #pragma unroll 1
    for (unsigned n = blockIdx.x * blockDim.x + threadIdx.x; n < e.count; n += gridDim.x * blockDim.x)
        #pragma unroll 1
        for (int part = 0; part < e.parts; part++) to[i64(n) * e.parts + part] = widened(from[place(e, n) * e.parts + part]);
}

template <class T> __device__ void scatter(const double *from, T *to, const Elements &e) {
    #pragma unroll 1
    for (unsigned n = blockIdx.x * blockDim.x + threadIdx.x; n < e.count; n += gridDim.x * blockDim.x)
        #pragma unroll 1
        for (int part = 0; part < e.parts; part++) narrow(to[place(e, n) * e.parts + part], from[i64(n) * e.parts + part]);
}

#define KERNELS(word, T) \
    extern "C" __global__ void cufft_gather_##word(const T *from, double *to, Elements e) { gather(from, to, e); } \
    extern "C" __global__ void cufft_scatter_##word(const double *from, T *to, Elements e) { scatter(from, to, e); }

KERNELS(f16, __half)
KERNELS(bf16, __nv_bfloat16)
KERNELS(f32, float)
KERNELS(f64, double)
