// The kernels behind the functions of cuBLAS. `nvcc -ptx -arch=compute_80 --fmad=false` makes kernels.ptx.
//
// A matrix is an operand: the address of its first element, and the distances between rows, columns and matrices of a batch. Transposing it
// exchanges two distances; a vector is a matrix of one column. Sums are made in the order of their index, in 32 bits for types of 8 and 16
// bits, in the type itself otherwise, by fused multiply-adds; inner products and norms of 32 bits and less are summed in 64 bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

typedef long long i64;

template <class T> struct complex {
    T re, im;
};

// Exact where a wider type takes the value.
template <class W, class S> struct widened;
template <> struct widened<float, float> { static __device__ float of(float v) { return v; } };
template <> struct widened<double, float> { static __device__ double of(float v) { return v; } };
template <> struct widened<double, double> { static __device__ double of(double v) { return v; } };
template <> struct widened<float, __half> { static __device__ float of(__half v) { return __half2float(v); } };
template <> struct widened<double, __half> { static __device__ double of(__half v) { return __half2float(v); } };
template <> struct widened<float, __nv_bfloat16> { static __device__ float of(__nv_bfloat16 v) { return __bfloat162float(v); } };
template <> struct widened<double, __nv_bfloat16> { static __device__ double of(__nv_bfloat16 v) { return __bfloat162float(v); } };
template <> struct widened<int, signed char> { static __device__ int of(signed char v) { return v; } };
template <> struct widened<float, signed char> { static __device__ float of(signed char v) { return v; } };
template <> struct widened<int, int> { static __device__ int of(int v) { return v; } };
template <class T, class S> struct widened<complex<T>, complex<S>> {
    static __device__ complex<T> of(complex<S> v) { return {T(v.re), T(v.im)}; }
};

template <class S> __device__ S narrowed(float v);
template <> __device__ float narrowed<float>(float v) { return v; }
template <> __device__ __half narrowed<__half>(float v) { return __float2half_rn(v); }
template <> __device__ __nv_bfloat16 narrowed<__nv_bfloat16>(float v) { return __float2bfloat16_rn(v); }
template <class S> __device__ S narrowed(double v);
template <> __device__ double narrowed<double>(double v) { return v; }
template <> __device__ float narrowed<float>(double v) { return __double2float_rn(v); }
template <> __device__ __half narrowed<__half>(double v) { return __double2half(v); }
template <> __device__ __nv_bfloat16 narrowed<__nv_bfloat16>(double v) { return __double2bfloat16(v); }
template <class S> __device__ S narrowed(int v) { return v; }
template <class S, class T> __device__ S narrowed(complex<T> v) { return {decltype(S().re)(v.re), decltype(S().re)(v.im)}; }

__device__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ double product(double a, double b) { return __dmul_rn(a, b); }
__device__ int product(int a, int b) { return a * b; }
__device__ float sum(float a, float b) { return __fadd_rn(a, b); }
__device__ double sum(double a, double b) { return __dadd_rn(a, b); }
__device__ int sum(int a, int b) { return a + b; }
__device__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ int fused(int a, int b, int c) { return a * b + c; }
template <class T> __device__ complex<T> sum(complex<T> a, complex<T> b) { return {sum(a.re, b.re), sum(a.im, b.im)}; }
template <class T> __device__ complex<T> fused(complex<T> a, complex<T> b, complex<T> c) {
    return {fused(-a.im, b.im, fused(a.re, b.re, c.re)), fused(a.im, b.re, fused(a.re, b.im, c.im))};
}
template <class T> __device__ complex<T> product(complex<T> a, complex<T> b) {
    return {fused(-a.im, b.im, product(a.re, b.re)), fused(a.im, b.re, product(a.re, b.im))};
}
template <class T> __device__ T conjugate(T v) { return v; }
template <class T> __device__ complex<T> conjugate(complex<T> v) { return {v.re, -v.im}; }
template <class T> __device__ T real(T v) { return v; }
template <class T> __device__ complex<T> real(complex<T> v) { return {v.re, 0}; }
template <class T> __device__ bool is_zero(T v) { return v == T(0); }
template <class T> __device__ bool is_zero(complex<T> v) { return v.re == 0 && v.im == 0; }
template <class W> struct made { static __device__ W of(double re, double) { return W(re); } };
template <class T> struct made<complex<T>> { static __device__ complex<T> of(double re, double im) { return {T(re), T(im)}; } };

// A factor: on the host, as numbers; on the device, at an address, in one of the types of `cudaDataType`.
struct Scalar {
    const void *at;
    double re, im;
    int type;
};

// Called, not copied, so that the text stays short.
__device__ __noinline__ complex<double> number_of(const void *at, int type) {
    switch (type) {
        case 0: return {*(const float *)at, 0};
        case 1: return {*(const double *)at, 0};
        case 2: return {__half2float(*(const __half *)at), 0};
        case 4: return {((const complex<float> *)at)->re, ((const complex<float> *)at)->im};
        case 5: return *(const complex<double> *)at;
        case 10: return {double(*(const int *)at), 0};
        default: return {__bfloat162float(*(const __nv_bfloat16 *)at), 0};
    }
}

template <class W> __device__ W value(const Scalar &s) {
    if (s.at == nullptr) return made<W>::of(s.re, s.im);
    complex<double> v = number_of(s.at, s.type);
    return made<W>::of(v.re, v.im);
}

// What an operand is.
enum : int {
    CONJUGATE = 1,   // its elements are conjugated
    LIST = 2,        // `at` is a list of addresses, one for each matrix of a batch
    LOWER = 4,       // only the lower triangle is stored,
    UPPER = 8,       // or the upper one;
    MIRRORED = 16,   // the other one is its mirror image,
    HERMITIAN = 32,  // conjugated, and the diagonal is real; else it is zero
    UNIT = 64,       // the diagonal is 1 and not stored
};

struct Operand {
    const void *at;
    i64 rows, columns, batch;  // distances in elements
    int flags;
};

template <class S> __device__ S *matrix(const Operand &o, i64 n) {
    return o.flags & LIST ? ((S *const *)o.at)[n] : (S *)o.at + n * o.batch;
}

template <class W, class S, bool SPECIAL> __device__ W element(const Operand &o, const S *at, i64 row, i64 column) {
    bool conjugated = o.flags & CONJUGATE;
    if (SPECIAL && o.flags & (LOWER | UPPER)) {
        if (row == column && o.flags & UNIT) return made<W>::of(1, 0);
        if (o.flags & LOWER ? row < column : row > column) {
            if (!(o.flags & (MIRRORED | HERMITIAN))) return made<W>::of(0, 0);
            i64 other = row;
            row = column, column = other;
            conjugated ^= bool(o.flags & HERMITIAN);
        }
    }
    W v = widened<W, S>::of(at[row * o.rows + column * o.columns]);
    if (SPECIAL && o.flags & HERMITIAN && row == column) v = real(v);
    return conjugated ? conjugate(v) : v;
}

// What follows a product: a bias for each row, unless `bias` is null, and a function of each element.
struct Epilogue {
    const void *bias;
    i64 step, batch;  // distances in bytes
    int type, kind;
};

// The bits of `cublasLtEpilogue_t` that name a function.
enum : int { RELU = 2, GELU = 32 };

// Called, not copied, so that the text stays short. A number that is none stays none.
template <class W> __device__ __noinline__ W activated(W v, int kind) {
    if (kind & RELU) return v < 0 ? W(0) : v;
    if (kind & GELU) return W(0.5) * v * (W(1) + W(tanh(W(0.79788456080286535588) * (v + W(0.044715) * v * v * v))));
    return v;
}

// D = epilogue(alpha A B + beta C) for a batch. Of D, the part that the flags of C name is written. A thread computes up to WIDE elements of a row.
template <class A, class B, class C, class W, bool SPECIAL>
__device__ void gemm(i64 m, i64 n, i64 k, i64 count, const Scalar &alpha, const Operand &a, const Operand &b, const Scalar &beta, const Operand &c, const Operand &d, const Epilogue &e) {
    const int WIDE = SPECIAL ? 1 : 4;
    const bool FOLLOWED = !SPECIAL && std::is_floating_point<W>::value;
    i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    i64 column = (blockIdx.y * (i64)blockDim.y + threadIdx.y) * WIDE;
    if (row >= m || column >= n) return;
    W by = value<W>(alpha), old = value<W>(beta);
    int wide = n - column < WIDE ? n - column : WIDE;
#pragma unroll 1
    for (i64 number = blockIdx.z; number < count; number += gridDim.z) {
        W sums[WIDE] = {};
        if (!is_zero(by)) {
            const A *of_a = matrix<A>(a, number);
            const B *of_b = matrix<B>(b, number);
#pragma unroll 1
            for (i64 l = 0; l < k; l++) {
                W x = element<W, A, SPECIAL>(a, of_a, row, l);
#pragma unroll
                for (int j = 0; j < WIDE; j++)
                    if (j < wide) sums[j] = fused(x, element<W, B, SPECIAL>(b, of_b, l, column + j), sums[j]);
            }
        }
        const C *of_c = matrix<C>(c, number);
        C *of_d = matrix<C>(d, number);
        W bias = made<W>::of(0, 0);
        if (FOLLOWED && e.bias != nullptr) bias = made<W>::of(number_of((const char *)e.bias + number * e.batch + row * e.step, e.type).re, 0);
#pragma unroll
        for (int j = 0; j < WIDE; j++) {
            if (j >= wide) break;
            if (SPECIAL && (c.flags & LOWER ? row < column + j : c.flags & UPPER && row > column + j)) continue;
            W v = product(by, sums[j]);
            if (!is_zero(old)) v = sum(v, product(old, widened<W, C>::of(of_c[row * c.rows + (column + j) * c.columns])));
            if constexpr (FOLLOWED) {
                if (e.bias != nullptr) v = sum(v, bias);
                if (e.kind != 0) v = activated(v, e.kind);
            }
            of_d[row * d.rows + (column + j) * d.columns] = narrowed<C>(SPECIAL && c.flags & HERMITIAN && row == column + j ? real(v) : v);
        }
    }
}

#define GEMM(name, A, B, C, W, SPECIAL)                                                                                                               \
    extern "C" __global__ void name(i64 m, i64 n, i64 k, i64 count, Scalar alpha, Operand a, Operand b, Scalar beta, Operand c, Operand d,            \
                                    Epilogue e) {                                                                                                     \
        gemm<A, B, C, W, SPECIAL>(m, n, k, count, alpha, a, b, beta, c, d, e);                                                                        \
    }
GEMM(cublas_gemm_f32, float, float, float, float, false)
GEMM(cublas_gemm_f64, double, double, double, double, false)
GEMM(cublas_gemm_c32, complex<float>, complex<float>, complex<float>, complex<float>, false)
GEMM(cublas_gemm_c64, complex<double>, complex<double>, complex<double>, complex<double>, false)
GEMM(cublas_gemm_f16, __half, __half, __half, float, false)
GEMM(cublas_gemm_f16_f32, __half, __half, float, float, false)
GEMM(cublas_gemm_bf16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, false)
GEMM(cublas_gemm_bf16_f32, __nv_bfloat16, __nv_bfloat16, float, float, false)
GEMM(cublas_gemm_i8_i32, signed char, signed char, int, int, false)
GEMM(cublas_gemm_i8_f32, signed char, signed char, float, float, false)
GEMM(cublas_special_f32, float, float, float, float, true)
GEMM(cublas_special_f64, double, double, double, double, true)
GEMM(cublas_special_c32, complex<float>, complex<float>, complex<float>, complex<float>, true)
GEMM(cublas_special_c64, complex<double>, complex<double>, complex<double>, complex<double>, true)

// A thread of a grid, for each of `n` elements.
#define EACH(i, n) _Pragma("unroll 1") for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)

template <class S> __device__ S &at(const void *base, i64 step, i64 i) { return ((S *)base)[i * step]; }

template <class W> __device__ W quotient(W a, W b) { return a / b; }
template <class T> __device__ complex<T> quotient(complex<T> a, complex<T> b) {
    // Smith's method: no square leaves the range.
    if (fabs(double(b.re)) >= fabs(double(b.im))) {
        T r = b.im / b.re, d = fused(b.im, r, b.re);
        return {fused(a.im, r, a.re) / d, fused(-a.re, r, a.im) / d};
    }
    T r = b.re / b.im, d = fused(b.re, r, b.im);
    return {fused(a.re, r, a.im) / d, fused(a.im, r, -a.re) / d};
}

// A triangular system with `n` right sides: the solution replaces alpha B. A thread solves for one column.
template <class S> __device__ void solve(i64 m, i64 n, i64 count, const Scalar &alpha, const Operand &a, const Operand &b) {
    S by = value<S>(alpha);
#pragma unroll 1
    for (i64 number = blockIdx.z; number < count; number += gridDim.z) {
        const S *of_a = matrix<S>(a, number);
        S *of_b = matrix<S>(b, number);
        EACH(column, n) {
#pragma unroll 1
            for (i64 step = 0; step < m; step++) {
                bool down = a.flags & LOWER;
                i64 row = down ? step : m - 1 - step;
                S *at = of_b + row * b.rows + column * b.columns;
                S v = is_zero(by) ? by : product(by, *at);
#pragma unroll 1
                for (i64 l = down ? 0 : row + 1; l < (down ? row : m); l++) {
                    S x = element<S, S, true>(a, of_a, row, l);
                    v = fused(S(product(made<S>::of(-1, 0), x)), of_b[l * b.rows + column * b.columns], v);
                }
                *at = a.flags & UNIT ? v : quotient(v, element<S, S, true>(a, of_a, row, row));
            }
        }
    }
}

template <class S, class W> __device__ void axpy(i64 n, const Scalar &alpha, const void *x, i64 of_x, void *y, i64 of_y) {
    W by = value<W>(alpha);
    EACH(i, n) {
        S &to = at<S>(y, of_y, i);
        to = narrowed<S>(fused(by, widened<W, S>::of(at<S>(x, of_x, i)), widened<W, S>::of(to)));
    }
}

template <class S, class W> __device__ void scal(i64 n, const Scalar &alpha, void *x, i64 of_x) {
    W by = value<W>(alpha);
    EACH(i, n) {
        S &to = at<S>(x, of_x, i);
        to = narrowed<S>(product(by, widened<W, S>::of(to)));
    }
}

// x = c x + s y, y = c y - conj(s) x
template <class S> __device__ void rot(i64 n, void *x, i64 of_x, void *y, i64 of_y, const Scalar &c, const Scalar &s) {
    S cosine = value<S>(c), sine = value<S>(s), back = product(made<S>::of(-1, 0), conjugate(sine));
    EACH(i, n) {
        S &to_x = at<S>(x, of_x, i), &to_y = at<S>(y, of_y, i);
        S a = to_x, b = to_y;
        to_x = fused(cosine, a, product(sine, b));
        to_y = fused(cosine, b, product(back, a));
    }
}

template <class S> __device__ void copy(i64 n, const void *x, i64 of_x, void *y, i64 of_y) {
    EACH(i, n) at<S>(y, of_y, i) = at<S>(x, of_x, i);
}

template <class S> __device__ void swap(i64 n, void *x, i64 of_x, void *y, i64 of_y) {
    EACH(i, n) {
        S kept = at<S>(x, of_x, i);
        at<S>(x, of_x, i) = at<S>(y, of_y, i);
        at<S>(y, of_y, i) = kept;
    }
}

// C = alpha A + beta B, elementwise; C may be A or B.
template <class S> __device__ void geam(i64 m, i64 n, const Scalar &alpha, const Operand &a, const Scalar &beta, const Operand &b, const Operand &c) {
    S by_a = value<S>(alpha), by_b = value<S>(beta);
    EACH(i, m * n) {
        i64 row = i % m, column = i / m;
        S v = {};
        if (!is_zero(by_a)) v = product(by_a, element<S, S, false>(a, (const S *)a.at, row, column));
        if (!is_zero(by_b)) v = sum(v, product(by_b, element<S, S, false>(b, (const S *)b.at, row, column)));
        ((S *)c.at)[row * c.rows + column * c.columns] = v;
    }
}

// C = diag(x) A, or A diag(x).
template <class S> __device__ void dgmm(i64 m, i64 n, int left, const Operand &a, const void *x, i64 of_x, const Operand &c) {
    EACH(i, m * n) {
        i64 row = i % m, column = i / m;
        ((S *)c.at)[row * c.rows + column * c.columns] = product(element<S, S, false>(a, (const S *)a.at, row, column), at<S>(x, of_x, left ? row : column));
    }
}

// The sum over one CTA, in every thread.
#define THREADS 256
template <class W> __device__ W over_cta(W mine, W *shared) {
    shared[threadIdx.x] = mine;
#pragma unroll 1
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] = sum(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
    W all = shared[0];
    __syncthreads();
    return all;
}

template <class S, class W> __device__ void dot(i64 n, const void *x, i64 of_x, const void *y, i64 of_y, int conjugated, void *result) {
    __shared__ W shared[THREADS];
    W mine = made<W>::of(0, 0);
#pragma unroll 1
    for (i64 i = threadIdx.x; i < n; i += THREADS) {
        W a = widened<W, S>::of(at<S>(x, of_x, i));
        mine = fused(conjugated ? conjugate(a) : a, widened<W, S>::of(at<S>(y, of_y, i)), mine);
    }
    W all = over_cta(mine, shared);
    if (threadIdx.x == 0) *(S *)result = narrowed<S>(all);
}

__device__ double size(float v) { return fabsf(v); }
__device__ double size(double v) { return fabs(v); }
__device__ double size(__half v) { return fabsf(__half2float(v)); }
__device__ double size(__nv_bfloat16 v) { return fabsf(__bfloat162float(v)); }
template <class T> __device__ double size(complex<T> v) { return fabs(double(v.re)) + fabs(double(v.im)); }
// The size in the type's own rounding, as BLAS compares it.
__device__ double own_size(float v) { return fabsf(v); }
__device__ double own_size(double v) { return fabs(v); }
template <class T> __device__ double own_size(complex<T> v) { return sum(T(fabs(double(v.re))), T(fabs(double(v.im)))); }
__device__ double square(double v, double by) { return (v * by) * (v * by); }
template <class S> __device__ double squares(S v, double by) { return square(size(v), by); }
template <class T> __device__ double squares(complex<T> v, double by) { return square(v.re, by) + square(v.im, by); }

template <class S, class R> __device__ void nrm2(i64 n, const void *x, i64 of_x, void *result) {
    __shared__ double shared[THREADS];
    double most = 0;
#pragma unroll 1
    for (i64 i = threadIdx.x; i < n; i += THREADS) most = fmax(most, size(at<S>(x, of_x, i)));
    shared[threadIdx.x] = most;
#pragma unroll 1
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] = fmax(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
    most = shared[0];
    __syncthreads();
    // A power of two keeps the squares in range, and costs no rounding.
    double by = most > 0x1p+400 ? 0x1p-600 : most < 0x1p-400 ? 0x1p+600 : 1;
    double mine = 0;
#pragma unroll 1
    for (i64 i = threadIdx.x; i < n; i += THREADS) mine += squares(at<S>(x, of_x, i), by);
    double all = sqrt(over_cta(mine, shared)) / by;
    if (threadIdx.x == 0) *(R *)result = narrowed<R>(all);
}

template <class S, class R> __device__ void asum(i64 n, const void *x, i64 of_x, void *result) {
    __shared__ double shared[THREADS];
    double mine = 0;
#pragma unroll 1
    for (i64 i = threadIdx.x; i < n; i += THREADS) mine += size(at<S>(x, of_x, i));
    double all = over_cta(mine, shared);
    if (threadIdx.x == 0) *(R *)result = narrowed<R>(all);
}

// The first element of the greatest or smallest size, counted from 1; 0 if there is none.
template <class S> __device__ void extreme(i64 n, const void *x, i64 of_x, int least, int wide, void *result) {
    __shared__ double sizes[THREADS];
    __shared__ i64 places[THREADS];
    double best = 0;
    i64 place = 0;
#pragma unroll 1
    for (i64 i = threadIdx.x; i < n; i += THREADS) {
        double v = own_size(at<S>(x, of_x, i));
        if (place == 0 || (least ? v < best : v > best)) best = v, place = i + 1;
    }
    sizes[threadIdx.x] = best, places[threadIdx.x] = place;
#pragma unroll 1
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && places[threadIdx.x + half] != 0) {
            double v = sizes[threadIdx.x + half], mine = sizes[threadIdx.x];
            i64 p = places[threadIdx.x + half], own = places[threadIdx.x];
            if (own == 0 || (least ? v < mine : v > mine) || (v == mine && p < own)) sizes[threadIdx.x] = v, places[threadIdx.x] = p;
        }
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (wide)
        *(i64 *)result = places[0];
    else
        *(int *)result = places[0];
}

#define VECTORS(type, S, W, D, R)                                                                                                                     \
    extern "C" __global__ void cublas_axpy_##type(i64 n, Scalar alpha, const void *x, i64 of_x, void *y, i64 of_y) {                                  \
        axpy<S, W>(n, alpha, x, of_x, y, of_y);                                                                                                       \
    }                                                                                                                                                 \
    extern "C" __global__ void cublas_scal_##type(i64 n, Scalar alpha, void *x, i64 of_x) { scal<S, W>(n, alpha, x, of_x); }                          \
    extern "C" __global__ void cublas_dot_##type(i64 n, const void *x, i64 of_x, const void *y, i64 of_y, int conjugated, void *result) {             \
        dot<S, D>(n, x, of_x, y, of_y, conjugated, result);                                                                                           \
    }                                                                                                                                                 \
    extern "C" __global__ void cublas_nrm2_##type(i64 n, const void *x, i64 of_x, void *result) { nrm2<S, R>(n, x, of_x, result); }
VECTORS(f32, float, float, double, float)
VECTORS(f64, double, double, double, double)
VECTORS(c32, complex<float>, complex<float>, complex<double>, float)
VECTORS(c64, complex<double>, complex<double>, complex<double>, double)
VECTORS(f16, __half, float, double, __half)
VECTORS(bf16, __nv_bfloat16, float, double, __nv_bfloat16)

#define EXACT(type, S, R)                                                                                                                             \
    extern "C" __global__ void cublas_copy_##type(i64 n, const void *x, i64 of_x, void *y, i64 of_y) { copy<S>(n, x, of_x, y, of_y); }                \
    extern "C" __global__ void cublas_swap_##type(i64 n, void *x, i64 of_x, void *y, i64 of_y) { swap<S>(n, x, of_x, y, of_y); }                      \
    extern "C" __global__ void cublas_rot_##type(i64 n, void *x, i64 of_x, void *y, i64 of_y, Scalar c, Scalar s) {                                   \
        rot<S>(n, x, of_x, y, of_y, c, s);                                                                                                            \
    }                                                                                                                                                 \
    extern "C" __global__ void cublas_asum_##type(i64 n, const void *x, i64 of_x, void *result) { asum<S, R>(n, x, of_x, result); }                   \
    extern "C" __global__ void cublas_extreme_##type(i64 n, const void *x, i64 of_x, int least, int wide, void *result) {                             \
        extreme<S>(n, x, of_x, least, wide, result);                                                                                                  \
    }                                                                                                                                                 \
    extern "C" __global__ void cublas_geam_##type(i64 m, i64 n, Scalar alpha, Operand a, Scalar beta, Operand b, Operand c) {                         \
        geam<S>(m, n, alpha, a, beta, b, c);                                                                                                          \
    }                                                                                                                                                 \
    extern "C" __global__ void cublas_dgmm_##type(i64 m, i64 n, int left, Operand a, const void *x, i64 of_x, Operand c) {                            \
        dgmm<S>(m, n, left, a, x, of_x, c);                                                                                                           \
    }                                                                                                                                                 \
    extern "C" __global__ void cublas_solve_##type(i64 m, i64 n, i64 count, Scalar alpha, Operand a, Operand b) { solve<S>(m, n, count, alpha, a, b); }
EXACT(f32, float, float)
EXACT(f64, double, double)
EXACT(c32, complex<float>, float)
EXACT(c64, complex<double>, double)
