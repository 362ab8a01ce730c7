// Blocks that take tiles from a global counter until there are none left; each tile is a sum of squares.
extern "C" __global__ void persistent(const int* in, int* out, unsigned* counter, unsigned tiles, unsigned size)
{
    __shared__ unsigned taken;
    __shared__ int partial[32];
    for (;;) {
        if (threadIdx.x == 0)
            taken = atomicAdd(counter, 1u);
        __syncthreads();
        unsigned tile = taken;
        if (tile >= tiles)
            break;
        int sum = 0;
        for (unsigned i = threadIdx.x; i < size; i += blockDim.x) {
            int x = in[tile * size + i];
            sum += x * x;
        }
        sum = __reduce_add_sync(0xffffffffu, sum);
        if ((threadIdx.x & 31) == 0)
            partial[threadIdx.x >> 5] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            sum = 0;
            for (unsigned warp = 0; warp < blockDim.x >> 5; ++warp)
                sum += partial[warp];
            out[tile] = sum;
        }
    }
}
