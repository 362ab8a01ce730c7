//! The first of two objects (`-rdc=true`): it calls functions and uses variables of the other, and launches kernels from kernels.

#include <cstdio>

constexpr int N = 64;
extern __device__ int calls;
extern __constant__ int factor;
extern __device__ int scaled(int value);
extern __device__ int (*chosen)(int);

__global__ void direct(int* to) { to[threadIdx.x] = scaled(threadIdx.x); }
__global__ void through_a_pointer(int* to) { to[threadIdx.x] = chosen(threadIdx.x); }

#ifdef NESTED
__global__ void child(int* to, int value) { to[threadIdx.x] = value * scaled(threadIdx.x); }
__global__ void tail(int* to) { to[threadIdx.x] += 1; }
__global__ void parent(int* to)
{
    if (threadIdx.x == 0) {
        child<<<1, N, 0, cudaStreamFireAndForget>>>(to, 2);
        tail<<<1, N, 0, cudaStreamTailLaunch>>>(to);
    }
}
#endif

extern "C" int run()
{
    int *to, host[N], count, three = 3;
    if (cudaMalloc(&to, sizeof host) || cudaMemcpyToSymbol(factor, &three, sizeof three)) return 2;
    auto holds = [&](int times, int more) {
        if (cudaMemcpy(host, to, sizeof host, cudaMemcpyDeviceToHost)) return false;
        for (int n = 0; n < N; ++n) if (host[n] != times * n + more) return false;
        return true;
    };
    direct<<<1, N>>>(to);
    if (!holds(3, 0)) return 3;
    through_a_pointer<<<1, N>>>(to);
    if (!holds(-3, 0)) return 4;
#ifdef NESTED
    parent<<<1, N>>>(to);
    if (!holds(6, 1)) return 5;
    int wanted = 3 * N;
#else
    int wanted = 2 * N;
#endif
    if (cudaMemcpyFromSymbol(&count, calls, sizeof count) || count != wanted) return 6;
    if (cudaFree(to)) return 7;
    puts("objects are right");
    return 0;
}

#ifndef LIBRARY
int main() { return run(); }
#endif
