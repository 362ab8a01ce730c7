// Sums of an array, one per block: strided loads, shuffles within warps, shared memory between them.
extern "C" __global__ void reduction(const float* in, float* out, unsigned n)
{
    __shared__ float partial[32];
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum = __fadd_rn(sum, in[i]);
    for (int distance = 16; distance > 0; distance >>= 1)
        sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, distance));
    unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0)
        partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < (blockDim.x >> 5) ? partial[lane] : 0.0f;
        for (int distance = 16; distance > 0; distance >>= 1)
            sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, distance));
        if (lane == 0)
            out[blockIdx.x] = sum;
    }
}
