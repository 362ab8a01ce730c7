// Running sums of a whole array in one pass: shuffles within warps, shared memory between them, and a chain of blocks
// that wait for the one before them.
extern "C" __global__ void scan(const unsigned* in, unsigned* out, unsigned long long* chain, unsigned n)
{
    __shared__ unsigned totals[32];
    __shared__ unsigned before_block;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned value = i < n ? in[i] : 0;
    for (int distance = 1; distance < 32; distance <<= 1) {
        unsigned other = __shfl_up_sync(0xffffffffu, value, distance);
        if (lane >= distance)
            value += other;
    }
    if (lane == 31)
        totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        unsigned total = lane < (blockDim.x >> 5) ? totals[lane] : 0;
        for (int distance = 1; distance < 32; distance <<= 1) {
            unsigned other = __shfl_up_sync(0xffffffffu, total, distance);
            if (lane >= distance)
                total += other;
        }
        totals[lane] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        // The upper half says "there"; the lower half is the sum of all blocks before.
        unsigned long long found = 1ull << 32;
        if (blockIdx.x > 0)
            do
                asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(chain + blockIdx.x - 1) : "memory");
            while (found >> 32 == 0);
        before_block = (unsigned)found;
        unsigned long long mine = (1ull << 32) | ((unsigned)found + totals[(blockDim.x >> 5) - 1]);
        asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(chain + blockIdx.x), "l"(mine) : "memory");
    }
    __syncthreads();
    if (i < n)
        out[i] = value + (warp > 0 ? totals[warp - 1] : 0) + before_block;
}
