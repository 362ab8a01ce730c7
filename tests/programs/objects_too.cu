//! The second of two objects: what the first one uses.

__device__ int calls;
__constant__ int factor = 1;

__device__ int scaled(int value)
{
    atomicAdd(&calls, 1);
    return factor * value;
}

static __device__ int negative(int value) { return -scaled(value); }
__device__ int (*chosen)(int) = negative;
