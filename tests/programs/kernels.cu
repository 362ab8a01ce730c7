//! What kernels of programs use, with a check of each: cooperative grids, textures and surfaces, managed variables, virtual functions, `malloc`,
//! tensor cores, half precision, shuffles, clusters.

#include <cmath>
#include <cstdio>
#include <vector>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace cg = cooperative_groups;

#define RUNTIME(call) do { cudaError_t status = (call); if (status) { printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(status)); return false; } } while (0)
#define EXPECT(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); return false; } } while (0)

constexpr int CTAS = 4, THREADS = 64, ALL = CTAS * THREADS;

template <typename T>
static T* managed(size_t count)
{
    T* at = nullptr;
    return cudaMallocManaged(&at, count * sizeof(T)) ? nullptr : at;
}

__global__ void across_the_grid(int* words, int* sum)
{
    cg::grid_group grid = cg::this_grid();
    int me = grid.thread_rank();
    words[me] = me;
    grid.sync();
    int other = words[grid.size() - 1 - me];
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());
    int total = cg::reduce(tile, other, cg::plus<int>());
    if (tile.thread_rank() == 0) atomicAdd(sum, total);
}

static bool cooperative()
{
    int *words = managed<int>(ALL), *sum = managed<int>(1);
    *sum = 0;
    void* arguments[] = {&words, &sum};
    RUNTIME(cudaLaunchCooperativeKernel(across_the_grid, dim3(CTAS), dim3(THREADS), arguments, 0, nullptr));
    RUNTIME(cudaDeviceSynchronize());
    EXPECT(*sum == ALL * (ALL - 1) / 2);
    RUNTIME(cudaFree(words));
    RUNTIME(cudaFree(sum));
    return true;
}

__global__ void half_way(cudaTextureObject_t texture, cudaSurfaceObject_t surface, int width)
{
    int x = threadIdx.x, y = threadIdx.y;
    float value = tex2D<float>(texture, x + 1.0f, y + 0.5f);
    surf2Dwrite(value, surface, (width - 1 - x) * int(sizeof(float)), y);
}

static bool textures()
{
    constexpr int W = 8, H = 4;
    float host[H][W], back[H][W];
    for (int y = 0; y < H; ++y) for (int x = 0; x < W; ++x) host[y][x] = 10 * y + x;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t from, to;
    RUNTIME(cudaMallocArray(&from, &format, W, H));
    RUNTIME(cudaMallocArray(&to, &format, W, H, cudaArraySurfaceLoadStore));
    RUNTIME(cudaMemcpy2DToArray(from, 0, 0, host, sizeof host[0], sizeof host[0], H, cudaMemcpyHostToDevice));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray, resource.res.array.array = from;
    cudaTextureDesc sampling{};
    sampling.filterMode = cudaFilterModeLinear, sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    RUNTIME(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
    resource.res.array.array = to;
    RUNTIME(cudaCreateSurfaceObject(&surface, &resource));
    half_way<<<1, dim3(W, H)>>>(texture, surface, W);
    RUNTIME(cudaMemcpy2DFromArray(back, sizeof back[0], to, 0, 0, sizeof back[0], H, cudaMemcpyDeviceToHost));
    // Half way between a texel and the next one; the last one is its own neighbour.
    for (int y = 0; y < H; ++y) for (int x = 0; x < W; ++x) EXPECT(back[y][W - 1 - x] == 10 * y + (x < W - 1 ? x + 0.5f : x));
    RUNTIME(cudaDestroyTextureObject(texture));
    RUNTIME(cudaDestroySurfaceObject(surface));
    RUNTIME(cudaFreeArray(from));
    RUNTIME(cudaFreeArray(to));
    return true;
}

struct Shape { virtual __device__ float area() const = 0; virtual __device__ ~Shape() {} };
struct Square : Shape { float side; __device__ Square(float s) : side(s) {} __device__ float area() const override { return side * side; } };
struct Strip : Shape { float side; __device__ Strip(float s) : side(s) {} __device__ float area() const override { return 2 * side; } };
__managed__ float total;

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__global__ void areas()
{
    Shape* shape = threadIdx.x % 2 ? static_cast<Shape*>(new Square(threadIdx.x)) : new Strip(threadIdx.x);
    atomicAdd(&total, shape->area() + fibonacci(threadIdx.x % 8));
    delete shape;
}

__device__ Shape* kept[32];
__global__ void keep() { kept[threadIdx.x] = new Square(threadIdx.x); }
__global__ void drop()
{
    atomicAdd(&total, kept[threadIdx.x]->area());
    delete kept[threadIdx.x];
}

static bool objects()
{
    float wanted = 0;
    int numbers[] = {0, 1, 1, 2, 3, 5, 8, 13};
    for (int n = 0; n < 32; ++n) wanted += (n % 2 ? n * n : 2 * n) + numbers[n % 8];
    total = 0;
    areas<<<1, 32>>>();
    RUNTIME(cudaDeviceSynchronize());
    EXPECT(total == wanted);
    // Objects outlive the kernel that makes them.
    total = 0;
    keep<<<1, 32>>>();
    drop<<<1, 32>>>();
    RUNTIME(cudaDeviceSynchronize());
    EXPECT(total == 31 * 32 * 63 / 6);
    return true;
}

__global__ void product(const half* a, const half* b, float* c)
{
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> left;
    fragment<matrix_b, 16, 16, 16, half, col_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 1.0f);
    load_matrix_sync(left, a, 16);
    load_matrix_sync(right, b, 16);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(c, sum, 16, mem_row_major);
}

static bool tensor_cores()
{
    half *a = managed<half>(256), *b = managed<half>(256);
    float* c = managed<float>(256);
    for (int n = 0; n < 256; ++n) a[n] = __float2half(n % 7 - 3), b[n] = __float2half(n % 5 - 2);
    product<<<1, 32>>>(a, b, c);
    RUNTIME(cudaDeviceSynchronize());
    for (int i = 0; i < 16; ++i) for (int j = 0; j < 16; ++j) {
        float sum = 1;
        for (int k = 0; k < 16; ++k) sum += __half2float(a[16 * i + k]) * __half2float(b[16 * j + k]);
        EXPECT(c[16 * i + j] == sum);
    }
    for (void* at : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)}) RUNTIME(cudaFree(at));
    return true;
}

__global__ void __cluster_dims__(2) neighbours(int* to)
{
    __shared__ int mine;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = 100 + blockIdx.x;
    cluster.sync();
    if (threadIdx.x == 0) to[blockIdx.x] = *cluster.map_shared_rank(&mine, cluster.block_rank() ^ 1);
    cluster.sync();
}

static bool clusters()
{
    int* to = managed<int>(4);
    neighbours<<<4, 32>>>(to);
    RUNTIME(cudaDeviceSynchronize());
    for (int n = 0; n < 4; ++n) EXPECT(to[n] == 100 + (n ^ 1));
    RUNTIME(cudaFree(to));
    return true;
}

int main()
{
    struct { const char* name; bool (*run)(); } checks[] = {
        {"cooperative", cooperative}, {"textures", textures}, {"objects", objects}, {"tensor cores", tensor_cores}, {"clusters", clusters},
    };
    int failed = 0;
    for (auto& check : checks) {
        bool good = check.run();
        printf("%s: %s\n", check.name, good ? "right" : "WRONG");
        failed += !good;
    }
    return failed;
}
