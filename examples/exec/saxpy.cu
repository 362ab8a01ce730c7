// A test as kernel authors write them: y = 2x + y on 1000 numbers. With an argument, the kernel reads and writes one number too many.
#include <cstdio>
#include <vector>

__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

int main(int argc, char**) {
    const int n = 1000;
    std::vector<float> x(n), y(n, 1.0f);
    for (int i = 0; i < n; i++) x[i] = i;
    float *dx, *dy;
    cudaMalloc(&dx, n * sizeof(float));
    cudaMalloc(&dy, n * sizeof(float));
    cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    saxpy<<<(n + 255) / 256, 256>>>(argc > 1 ? n + 1 : n, 2.0f, dx, dy);
    cudaError_t error = cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(error));
        return 1;
    }
    cudaFree(dx);
    cudaFree(dy);
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += y[i] != 2.0f * i + 1.0f;
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}
