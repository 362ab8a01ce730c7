// A pair of kernels for programmatic dependent launch: the second may begin before the first has ended, and waits before
// it touches what the first writes.
extern "C" __global__ void primary(const float* in, float* middle, unsigned n)
{
    asm volatile("griddepcontrol.launch_dependents;");
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        middle[i] = __fmul_rn(in[i], 2.0f);
}

extern "C" __global__ void secondary(const float* middle, float* out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float scale = __fadd_rn(1.0f, (float)(i & 3));
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (i < n)
        out[i] = __fmaf_rn(middle[n - 1 - i], scale, 1.0f);
}
