// Softmax of the rows of a matrix, one block per row. exp is a polynomial of fused multiply-adds, so that every machine
// gets the same bits.
__device__ float exponential(float x)
{
    x = fmaxf(x, -87.0f);
    float n = rintf(__fmul_rn(x, 1.44269504f));
    float r = __fmaf_rn(n, -0.693145752f, x);
    r = __fmaf_rn(n, -1.42860677e-6f, r);
    float p = 0.00138888889f;
    p = __fmaf_rn(p, r, 0.00833333333f);
    p = __fmaf_rn(p, r, 0.0416666667f);
    p = __fmaf_rn(p, r, 0.166666667f);
    p = __fmaf_rn(p, r, 0.5f);
    p = __fmaf_rn(p, r, 1.0f);
    p = __fmaf_rn(p, r, 1.0f);
    return __int_as_float(__float_as_int(p) + ((int)n << 23));
}

__device__ float across(float* shared, float value, bool maximum)
{
    for (int distance = 16; distance > 0; distance >>= 1) {
        float other = __shfl_xor_sync(0xffffffffu, value, distance);
        value = maximum ? fmaxf(value, other) : __fadd_rn(value, other);
    }
    if ((threadIdx.x & 31) == 0)
        shared[threadIdx.x >> 5] = value;
    __syncthreads();
    value = shared[0];
    for (unsigned warp = 1; warp < blockDim.x >> 5; ++warp)
        value = maximum ? fmaxf(value, shared[warp]) : __fadd_rn(value, shared[warp]);
    __syncthreads();
    return value;
}

extern "C" __global__ void softmax(const float* in, float* out, unsigned columns)
{
    __shared__ float shared[32];
    extern __shared__ float row[];
    const float* from = in + (unsigned long long)blockIdx.x * columns;
    float largest = __int_as_float(0xff800000);
    for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
        row[i] = from[i];
        largest = fmaxf(largest, row[i]);
    }
    largest = across(shared, largest, true);
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
        row[i] = exponential(__fsub_rn(row[i], largest));
        sum = __fadd_rn(sum, row[i]);
    }
    sum = across(shared, sum, false);
    for (unsigned i = threadIdx.x; i < columns; i += blockDim.x)
        out[(unsigned long long)blockIdx.x * columns + i] = __fdiv_rn(row[i], sum);
}
