// Kernels with and without a result. The cubins beside this file: nvcc 13.5 -cubin -arch=sm_120 and sm_121a.
#include <cassert>
#include <cstdio>

#define KERNEL extern "C" __global__ void

KERNEL prints(int n)
{
    if (threadIdx.x == 0)
        printf("%d of %d: %f\n", n, blockIdx.x, n * 1.5);
}

KERNEL asserts(int n) { assert(n > 3); }

KERNEL traps() { __trap(); }

KERNEL traps_if(float a, float b)
{
    if (a / b > 3)
        __trap();
}

__device__ __noinline__ void says(int n) { printf("%d\n", n); }

KERNEL prints_in_a_function(int n) { says(n); }

KERNEL prints_and_traps(int n)
{
    printf("%d\n", n);
    assert(n);
    __trap();
}

KERNEL gemm_mxfp4_asserts(float *out) { assert(false && "compiled for a plain target"); }

KERNEL nvfp4_blockscaled_mma_step(float *out) { printf("needs sm_120a\n"); }

KERNEL cutlass_device_kernel_traps(float *out) { __trap(); }

KERNEL gemm_for_sm_100_traps(float *out) { __trap(); }

KERNEL mxfp4_nothing(float *out) {}

KERNEL nothing(float *out) {}

KERNEL stores(int *p) { p[threadIdx.x] = 1; }

KERNEL stores_and_asserts(int *p, int n)
{
    assert(n > 3);
    p[threadIdx.x] = n;
}

KERNEL adds_atomically(int *p)
{
    atomicAdd(p, 1);
    assert(p);
}

// Whether it fails depends on the data: it checks them.
KERNEL checks_data(const bool *p) { assert(*p); }

__device__ __noinline__ void writes(int *p) { *p = 3; }

KERNEL stores_in_a_function(int *p)
{
    writes(p);
    assert(p);
}

KERNEL calls_a_pointer(void (*f)(int *), int *p)
{
    f(p);
    assert(p);
}

KERNEL allocates()
{
    void *p = malloc(4);
    assert(p);
}

KERNEL shares(int n)
{
    extern __shared__ volatile int words[];
    words[threadIdx.x] = n;
    __syncthreads();
    assert(words[0] == n);
}

KERNEL waits_for_another_grid() { asm volatile("griddepcontrol.wait;"); }
