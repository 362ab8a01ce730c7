// Programs that people write first for a GPU, for `benches/programs.rs`.
// NVRTC with -arch=compute_121a -lineinfo compiles this file to programs.ptx.

static __device__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ float rsqrt_approx(float x) {
    float y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

extern "C" __global__ void vecadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// One sum per CTA of 256 threads, in shared memory.
extern "C" __global__ void reduce(const float* x, float* sums, int n) {
    __shared__ float partial[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    partial[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
#pragma unroll 1
    for (int half = 128; half > 0; half >>= 1) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = partial[0];
}

extern "C" __global__ void gemm_naive(const float* a, const float* b, float* c, int n) {
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void gemm_tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0.0f;
#pragma unroll 1
    for (int from = 0; from < n; from += 16) {
        as[y][x] = a[row * n + from + x];
        bs[y][x] = b[(from + y) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k) sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// One row per CTA of 256 threads.
extern "C" __global__ void softmax(const float* x, float* y, int columns) {
    __shared__ float partial[256];
    int t = threadIdx.x;
    const float* row = x + blockIdx.x * columns;
    float* out = y + blockIdx.x * columns;
    float largest = -1e30f;
#pragma unroll 1
    for (int i = t; i < columns; i += 256) largest = row[i] > largest ? row[i] : largest;
    partial[t] = largest;
    __syncthreads();
#pragma unroll 1
    for (int half = 128; half > 0; half >>= 1) {
        if (t < half && partial[t + half] > partial[t]) partial[t] = partial[t + half];
        __syncthreads();
    }
    largest = partial[0];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 1
    for (int i = t; i < columns; i += 256) {
        float e = exp2_approx((row[i] - largest) * 1.44269504f);
        out[i] = e;
        sum += e;
    }
    partial[t] = sum;
    __syncthreads();
#pragma unroll 1
    for (int half = 128; half > 0; half >>= 1) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    float inverse = 1.0f / partial[0];
#pragma unroll 1
    for (int i = t; i < columns; i += 256) out[i] *= inverse;
}

// Sorts 1,024 keys per CTA of 512 threads.
extern "C" __global__ void bitonic(unsigned* keys) {
    __shared__ unsigned s[1024];
    int t = threadIdx.x;
    unsigned* mine = keys + blockIdx.x * 1024;
    s[t] = mine[t];
    s[t + 512] = mine[t + 512];
    __syncthreads();
#pragma unroll 1
    for (int size = 2; size <= 1024; size <<= 1) {
#pragma unroll 1
        for (int step = size >> 1; step > 0; step >>= 1) {
            int low = (t & ~(step - 1)) << 1 | (t & (step - 1)), high = low | step;
            unsigned a = s[low], b = s[high];
            if ((a > b) == ((low & size) == 0)) {
                s[low] = b;
                s[high] = a;
            }
            __syncthreads();
        }
    }
    mine[t] = s[t];
    mine[t + 512] = s[t + 512];
}

// 256 bins, first in shared memory: 1,024 values per CTA of 256 threads.
extern "C" __global__ void histogram(const unsigned* x, unsigned* bins, int n) {
    __shared__ unsigned counts[256];
    int t = threadIdx.x;
    counts[t] = 0;
    __syncthreads();
#pragma unroll 1
    for (int i = blockIdx.x * 1024 + t; i < blockIdx.x * 1024 + 1024; i += 256) {
        if (i < n) atomicAdd(&counts[x[i] >> 7 & 255], 1u);
    }
    __syncthreads();
    atomicAdd(&bins[t], counts[t]);
}

extern "C" __global__ void mandelbrot(int* iterations, int width, int most) {
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float cx = -2.0f + column * (3.0f / width), cy = -1.5f + row * (3.0f / width), x = 0.0f, y = 0.0f;
    int n = 0;
#pragma unroll 1
    while (n < most && x * x + y * y < 4.0f) {
        float next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        ++n;
    }
    iterations[row * width + column] = n;
}

// Forces on each of n bodies, 256 bodies at a time in shared memory.
extern "C" __global__ void nbody(const float* px, const float* py, const float* pz, const float* mass, float* force, int n) {
    __shared__ float sx[256], sy[256], sz[256], sm[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float x = px[i], y = py[i], z = pz[i], fx = 0.0f, fy = 0.0f, fz = 0.0f;
#pragma unroll 1
    for (int from = 0; from < n; from += 256) {
        sx[t] = px[from + t];
        sy[t] = py[from + t];
        sz[t] = pz[from + t];
        sm[t] = mass[from + t];
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < 256; ++j) {
            float dx = sx[j] - x, dy = sy[j] - y, dz = sz[j] - z;
            float inverse = rsqrt_approx(dx * dx + dy * dy + dz * dz + 1e-4f);
            float scale = sm[j] * inverse * inverse * inverse;
            fx += scale * dx;
            fy += scale * dy;
            fz += scale * dz;
        }
        __syncthreads();
    }
    force[i] = fx;
    force[n + i] = fy;
    force[2 * n + i] = fz;
}
