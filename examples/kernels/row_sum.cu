// The sum of each row of 128 numbers, with a fault: `__syncthreads()` is missing before each step.
extern "C" __global__ void row_sum(const float* x, float* sum)
{
    __shared__ float half[128];
    unsigned i = threadIdx.x;
    half[i] = x[blockIdx.x * 128 + i];
    for (unsigned step = 64; step > 0; step /= 2) {
        if (i < step)
            half[i] += half[i + step];
    }
    if (i == 0)
        sum[blockIdx.x] = half[0];
}
