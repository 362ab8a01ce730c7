// Sorts each CTA's 1024 keys, with their places, by a bitonic network in shared memory: 256 threads.
typedef unsigned int u32;
typedef unsigned long long u64;

#define KEYS 1024

extern "C" __global__ void __launch_bounds__(256) sort(u32* keys, u32* places)
{
    __shared__ u64 pairs[KEYS];
    u64 first = (u64)blockIdx.x * KEYS;
    for (u32 i = threadIdx.x; i < KEYS; i += 256) pairs[i] = (u64)keys[first + i] << 32 | i;
#pragma unroll 1
    for (u32 size = 2; size <= KEYS; size *= 2)
#pragma unroll 1
        for (u32 step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (u32 n = threadIdx.x; n < KEYS / 2; n += 256) {
                u32 i = n / step * step * 2 + n % step;
                u64 a = pairs[i], b = pairs[i + step];
                if (((i & size) == 0) == (a > b)) {
                    pairs[i] = b;
                    pairs[i + step] = a;
                }
            }
        }
    __syncthreads();
    for (u32 i = threadIdx.x; i < KEYS; i += 256) {
        keys[first + i] = (u32)(pairs[i] >> 32);
        places[first + i] = (u32)pairs[i];
    }
}
