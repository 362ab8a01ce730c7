//! A program that calls nvcc while it runs, as JIT compilers do: `jit NVCC OPTIONS` compiles a kernel, loads the result and launches it.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <cuda.h>
#include <cuda_runtime.h>

int main(int count, char** words)
{
    if (count < 3) return 2;
    std::string folder = words[1], command = words[2];
    for (int n = 3; n < count; ++n) command += std::string(" ") + words[n];
    std::string source = folder + "/kernel.cu", made = folder + "/kernel.out";
    for (int factor : {3, 5}) {
        std::ofstream(source) << "extern \"C\" __global__ void times(int* to) { to[threadIdx.x] = " << factor << " * threadIdx.x; }\n";
        if (std::system((command + " " + source + " -o " + made).c_str())) return 3;
        CUmodule module;
        CUfunction kernel;
        int *to, host[32];
        void* arguments[] = {&to};
        if (cudaMalloc(&to, sizeof host) || cuModuleLoad(&module, made.c_str()) || cuModuleGetFunction(&kernel, module, "times")) return 4;
        if (cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr)) return 5;
        if (cudaMemcpy(host, to, sizeof host, cudaMemcpyDeviceToHost)) return 6;
        for (int n = 0; n < 32; ++n) if (host[n] != factor * n) return 7;
        if (cuModuleUnload(module) || cudaFree(to)) return 8;
    }
    puts("compiled kernels are right");
    return 0;
}
