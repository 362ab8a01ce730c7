// The kernels of `../kernels/programs.cu` in OpenCL C, for opencl.c.
//
// They differ in spelling only. Pragmas that forbid unrolling are left out: the compiler of the CPU decides for itself.

kernel void vecadd(global const float* a, global const float* b, global float* c, int n) {
    int i = get_group_id(0) * get_local_size(0) + get_local_id(0);
    if (i < n) c[i] = a[i] + b[i];
}

kernel void reduce(global const float* x, global float* sums, int n) {
    local float partial[256];
    int t = get_local_id(0), i = get_group_id(0) * 256 + t;
    partial[t] = i < n ? x[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = 128; width > 0; width >>= 1) {
        if (t < width) partial[t] += partial[t + width];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == 0) sums[get_group_id(0)] = partial[0];
}

kernel void gemm_naive(global const float* a, global const float* b, global float* c, int n) {
    int column = get_group_id(0) * 16 + get_local_id(0), row = get_group_id(1) * 16 + get_local_id(1);
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

kernel void gemm_tiled(global const float* a, global const float* b, global float* c, int n) {
    local float as[16][16], bs[16][16];
    int x = get_local_id(0), y = get_local_id(1), column = get_group_id(0) * 16 + x, row = get_group_id(1) * 16 + y;
    float sum = 0.0f;
    for (int from = 0; from < n; from += 16) {
        as[y][x] = a[row * n + from + x];
        bs[y][x] = b[(from + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int k = 0; k < 16; ++k) sum += as[y][k] * bs[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}

kernel void softmax(global const float* x, global float* y, int columns) {
    local float partial[256];
    int t = get_local_id(0);
    global const float* row = x + get_group_id(0) * columns;
    global float* out = y + get_group_id(0) * columns;
    float largest = -1e30f;
    for (int i = t; i < columns; i += 256) largest = row[i] > largest ? row[i] : largest;
    partial[t] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = 128; width > 0; width >>= 1) {
        if (t < width && partial[t + width] > partial[t]) partial[t] = partial[t + width];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    largest = partial[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (int i = t; i < columns; i += 256) {
        float e = native_exp2((row[i] - largest) * 1.44269504f);
        out[i] = e;
        sum += e;
    }
    partial[t] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = 128; width > 0; width >>= 1) {
        if (t < width) partial[t] += partial[t + width];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float inverse = 1.0f / partial[0];
    for (int i = t; i < columns; i += 256) out[i] *= inverse;
}

kernel void bitonic(global uint* keys) {
    local uint s[1024];
    int t = get_local_id(0);
    global uint* mine = keys + get_group_id(0) * 1024;
    s[t] = mine[t];
    s[t + 512] = mine[t + 512];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int size = 2; size <= 1024; size <<= 1) {
        for (int step = size >> 1; step > 0; step >>= 1) {
            int low = (t & ~(step - 1)) << 1 | (t & (step - 1)), high = low | step;
            uint a = s[low], b = s[high];
            if ((a > b) == ((low & size) == 0)) {
                s[low] = b;
                s[high] = a;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    mine[t] = s[t];
    mine[t + 512] = s[t + 512];
}

kernel void histogram(global const uint* x, global uint* bins, int n) {
    local uint counts[256];
    int t = get_local_id(0);
    counts[t] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_group_id(0) * 1024 + t; i < get_group_id(0) * 1024 + 1024; i += 256) {
        if (i < n) atomic_add(&counts[x[i] >> 7 & 255], 1u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&bins[t], counts[t]);
}

kernel void mandelbrot(global int* iterations, int width, int most) {
    int column = get_group_id(0) * 16 + get_local_id(0), row = get_group_id(1) * 16 + get_local_id(1);
    float cx = -2.0f + column * (3.0f / width), cy = -1.5f + row * (3.0f / width), x = 0.0f, y = 0.0f;
    int n = 0;
    while (n < most && x * x + y * y < 4.0f) {
        float next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        ++n;
    }
    iterations[row * width + column] = n;
}

kernel void nbody(global const float* px, global const float* py, global const float* pz, global const float* mass, global float* force, int n) {
    local float sx[256], sy[256], sz[256], sm[256];
    int t = get_local_id(0), i = get_group_id(0) * 256 + t;
    float x = px[i], y = py[i], z = pz[i], fx = 0.0f, fy = 0.0f, fz = 0.0f;
    for (int from = 0; from < n; from += 256) {
        sx[t] = px[from + t];
        sy[t] = py[from + t];
        sz[t] = pz[from + t];
        sm[t] = mass[from + t];
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
        for (int j = 0; j < 256; ++j) {
            float dx = sx[j] - x, dy = sy[j] - y, dz = sz[j] - z;
            float inverse = native_rsqrt(dx * dx + dy * dy + dz * dz + 1e-4f);
            float scale = sm[j] * inverse * inverse * inverse;
            fx += scale * dx;
            fy += scale * dy;
            fz += scale * dz;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    force[i] = fx;
    force[n + i] = fy;
    force[2 * n + i] = fz;
}
