//! What works instead of functions that `exec` refuses, one check for each remedy of `crates/cuda/src/api/refusals.rs`. With two GPUs.

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#define RUNTIME(call) do { cudaError_t status = (call); if (status) { printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(status)); return false; } } while (0)
#define DRIVER(call) do { CUresult status = (call); if (status) { printf("line %d: %s: %d\n", __LINE__, #call, status); return false; } } while (0)
#define EXPECT(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); return false; } } while (0)

constexpr int N = 32;
__device__ int numbers[N];

__global__ void add(int* to, int value) { to[threadIdx.x] += value; }
__device__ int twice(int x) { return 2 * x; }
__device__ int (*device_function)(int) = twice;
__global__ void apply(int (*function)(int), int* to) { to[threadIdx.x] = function(threadIdx.x); }
__global__ void fetch(cudaTextureObject_t from, float* to) { to[threadIdx.x] = tex1Dfetch<float>(from, threadIdx.x); }

/// Device memory of N words with a value.
static int* filled(int value)
{
    std::vector<int> host(N, value);
    int* to = nullptr;
    if (cudaMalloc(&to, sizeof(int) * N) || cudaMemcpy(to, host.data(), sizeof(int) * N, cudaMemcpyHostToDevice)) return nullptr;
    return to;
}

static bool holds(const int* from, int value)
{
    std::vector<int> host(N);
    if (cudaMemcpy(host.data(), from, sizeof(int) * N, cudaMemcpyDeviceToHost)) return false;
    for (int word : host) if (word != value) return false;
    return true;
}

/// cuDeviceGetLuid, cuDeviceGetCliqueInfo, cudaDeviceGetHostAtomicCapabilities, cudaDeviceGetTexture1DLinearMaxWidth, cudaMemGetLocationInfo.
static bool questions()
{
    CUuuid uuid;
    int width = 0, native = -1, rank = -1, can = 0;
    DRIVER(cuDeviceGetUuid(&uuid, 0));
    RUNTIME(cudaDeviceGetAttribute(&width, cudaDevAttrMaxTexture1DLinearWidth, 0));
    RUNTIME(cudaDeviceGetAttribute(&native, cudaDevAttrHostNativeAtomicSupported, 0));
    RUNTIME(cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrNativeAtomicSupported, 0, 1));
    RUNTIME(cudaDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(!memcmp(uuid.bytes, "sm121probe exec", 15) && width > 0 && native >= 0 && rank >= 0 && can == 1);
    int* at = filled(1);
    cudaPointerAttributes attributes;
    RUNTIME(cudaPointerGetAttributes(&attributes, at));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    RUNTIME(cudaFree(at));
    return true;
}

/// The forms of CUDA 3.1 of cuArrayCreate, cuArray3DCreate, cuArrayGetDescriptor, cuMemcpyAtoH and their like: the forms _v2.
static bool forms_with_sizes_of_64_bits()
{
    CUDA_ARRAY_DESCRIPTOR plane{N, 2, CU_AD_FORMAT_UNSIGNED_INT32, 1}, seen;
    CUDA_ARRAY3D_DESCRIPTOR box{N, 2, 2, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0}, seen_box;
    CUarray one, other, boxes;
    DRIVER(cuArrayCreate(&one, &plane));
    DRIVER(cuArrayCreate(&other, &plane));
    DRIVER(cuArray3DCreate(&boxes, &box));
    DRIVER(cuArrayGetDescriptor(&seen, one));
    DRIVER(cuArray3DGetDescriptor(&seen_box, boxes));
    EXPECT(seen.Width == N && seen.Height == 2 && seen_box.Depth == 2);
    int host[N], back[N] = {0};
    for (int n = 0; n < N; ++n) host[n] = 100 + n;
    CUdeviceptr at;
    DRIVER(cuMemAlloc(&at, sizeof host));
    CUarray line;
    CUDA_ARRAY_DESCRIPTOR row{N, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1};
    CUarray line_too;
    DRIVER(cuArrayCreate(&line, &row));
    DRIVER(cuArrayCreate(&line_too, &row));
    DRIVER(cuMemcpyHtoA(line, 0, host, sizeof host));
    DRIVER(cuMemcpyAtoA(line_too, 0, line, 0, sizeof host));
    DRIVER(cuMemcpyAtoD(at, line_too, 0, sizeof host));
    DRIVER(cuMemcpyDtoA(line, 0, at, sizeof host));
    DRIVER(cuMemcpyAtoH(back, line, 0, sizeof host));
    EXPECT(!memcmp(host, back, sizeof host));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = host, copy.srcPitch = sizeof host;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = boxes;
    copy.WidthInBytes = sizeof host, copy.Height = 1, copy.Depth = 1;
    DRIVER(cuMemcpy3D(&copy));
    DRIVER(cuMemcpy3DAsync(&copy, nullptr));
    DRIVER(cuMemsetD2D16(at, sizeof host, 7, N, 1));
    for (CUarray array : {one, other, boxes, line, line_too}) DRIVER(cuArrayDestroy(array));
    DRIVER(cuMemFree(at));
    return true;
}

/// cudaMallocArray instead of sparse arrays, planes and mapped arrays; cudaMemcpyArrayToArray; texture references.
static bool arrays_and_textures()
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t planes[2];
    float host[N], back[N];
    for (int n = 0; n < N; ++n) host[n] = n / 2.0f;
    for (cudaArray_t& plane : planes) RUNTIME(cudaMallocArray(&plane, &format, N, 1));
    RUNTIME(cudaMemcpy2DToArray(planes[0], 0, 0, host, sizeof host, sizeof host, 1, cudaMemcpyHostToDevice));
    RUNTIME(cudaMemcpy2DArrayToArray(planes[1], 0, 0, planes[0], 0, 0, sizeof host, 1, cudaMemcpyDeviceToDevice));
    cudaMemcpy3DParms copy{};
    copy.srcArray = planes[0], copy.dstArray = planes[1], copy.extent = make_cudaExtent(N, 1, 1), copy.kind = cudaMemcpyDeviceToDevice;
    RUNTIME(cudaMemcpy3D(&copy));
    RUNTIME(cudaMemcpy3DAsync(&copy, 0));
    RUNTIME(cudaMemcpy2DFromArray(back, sizeof back, planes[1], 0, 0, sizeof back, 1, cudaMemcpyDeviceToHost));
    EXPECT(!memcmp(host, back, sizeof host));
    float *linear, *to;
    RUNTIME(cudaMalloc(&linear, sizeof host));
    RUNTIME(cudaMalloc(&to, sizeof host));
    RUNTIME(cudaMemcpy(linear, host, sizeof host, cudaMemcpyHostToDevice));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear, resource.res.linear.devPtr = linear, resource.res.linear.desc = format, resource.res.linear.sizeInBytes = sizeof host;
    cudaTextureDesc sampling{};
    cudaTextureObject_t texture;
    RUNTIME(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
    fetch<<<1, N>>>(texture, to);
    RUNTIME(cudaMemcpy(back, to, sizeof back, cudaMemcpyDeviceToHost));
    EXPECT(!memcmp(host, back, sizeof host));
    RUNTIME(cudaDestroyTextureObject(texture));
    for (cudaArray_t plane : planes) RUNTIME(cudaFreeArray(plane));
    RUNTIME(cudaFree(linear));
    RUNTIME(cudaFree(to));
    return true;
}

/// Copies of symbols, recapture, cudaGraphDebugDotPrint, ids of graphs and nodes, cudaGraphNodeGetParams, cuGraphAddBatchMemOpNode.
static bool graphs()
{
    cudaStream_t stream;
    RUNTIME(cudaStreamCreate(&stream));
    int* at = filled(1);
    void* symbol;
    RUNTIME(cudaGetSymbolAddress(&symbol, numbers));
    cudaGraph_t graph;
    RUNTIME(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t copy, kernel, nodes[2], from, to;
    RUNTIME(cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, symbol, at, sizeof(int) * N, cudaMemcpyDeviceToDevice));
    int value = 3;
    int* numbers_at = static_cast<int*>(symbol);
    void* arguments[] = {&numbers_at, &value};
    cudaKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void*>(add), parameters.gridDim = dim3(1), parameters.blockDim = dim3(N), parameters.kernelParams = arguments;
    RUNTIME(cudaGraphAddKernelNode(&kernel, graph, &copy, 1, &parameters));
    size_t count = 2, edges = 1;
    RUNTIME(cudaGraphGetNodes(graph, nodes, &count));
    RUNTIME(cudaGraphGetEdges(graph, &from, &to, nullptr, &edges));
    EXPECT(count == 2 && edges == 1 && from == copy && to == kernel);
    cudaKernelNodeParams seen{};
    RUNTIME(cudaGraphKernelNodeGetParams(kernel, &seen));
    EXPECT(seen.blockDim.x == N && *static_cast<int*>(seen.kernelParams[1]) == 3);
    cudaGraphExec_t instance;
    RUNTIME(cudaGraphInstantiate(&instance, graph, 0));
    RUNTIME(cudaGraphLaunch(instance, stream));
    // The host decides between launches whether the other graph runs, which was captured anew.
    for (int round = 0; round < 2; ++round) {
        std::vector<int> host(N);
        RUNTIME(cudaMemcpyFromSymbol(host.data(), numbers, sizeof(int) * N));
        if (host[0] == 4) {
            cudaGraph_t captured;
            cudaGraphExec_t other;
            CUstreamBatchMemOpParams words[1] = {};
            words[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
            words[0].writeValue.address = reinterpret_cast<CUdeviceptr>(at);
            words[0].writeValue.value = 1;
            RUNTIME(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
            add<<<1, N, 0, stream>>>(numbers_at, 10);
            DRIVER(cuStreamBatchMemOp(stream, 1, words, 0));
            RUNTIME(cudaStreamEndCapture(stream, &captured));
            RUNTIME(cudaGraphInstantiate(&other, captured, 0));
            RUNTIME(cudaGraphLaunch(other, stream));
            RUNTIME(cudaGraphExecDestroy(other));
            RUNTIME(cudaGraphDestroy(captured));
        }
    }
    EXPECT(holds(numbers_at, 14) && holds(at, 1));
    RUNTIME(cudaGraphExecDestroy(instance));
    RUNTIME(cudaGraphDestroy(graph));
    RUNTIME(cudaStreamDestroy(stream));
    RUNTIME(cudaFree(at));
    return true;
}

/// cuCtxRecordEvent, cuCtxWaitEvent and external semaphores: events; copies with attributes; batches of prefetches; discarded pages; pools; DMA-BUF.
static bool streams_and_memory()
{
    cudaStream_t one, other;
    cudaEvent_t event;
    RUNTIME(cudaStreamCreate(&one));
    RUNTIME(cudaStreamCreate(&other));
    RUNTIME(cudaEventCreate(&event));
    int *at = filled(2), *pinned, *managed;
    DRIVER(cuEventRecord(event, one));
    DRIVER(cuStreamWaitEvent(other, event, 0));
    RUNTIME(cudaMallocHost(&pinned, sizeof(int) * N));
    RUNTIME(cudaMemcpyAsync(pinned, at, sizeof(int) * N, cudaMemcpyDeviceToHost, other));
    RUNTIME(cudaStreamSynchronize(other));
    EXPECT(pinned[N - 1] == 2);
    RUNTIME(cudaMallocManaged(&managed, sizeof(int) * N));
    cudaMemLocation place{cudaMemLocationTypeDevice, 0};
    RUNTIME(cudaMemPrefetchAsync(managed, sizeof(int) * N, place, 0, one));
    RUNTIME(cudaMemsetAsync(managed, 0, sizeof(int) * N, one));
    add<<<1, N, 0, one>>>(managed, 5);
    RUNTIME(cudaStreamSynchronize(one));
    EXPECT(managed[N - 1] == 5);
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned, properties.location = place;
    cudaMemPool_t pool, seen;
    RUNTIME(cudaMemPoolCreate(&pool, &properties));
    RUNTIME(cudaDeviceSetMemPool(0, pool));
    RUNTIME(cudaDeviceGetMemPool(&seen, 0));
    EXPECT(seen == pool);
    int* from_pool;
    RUNTIME(cudaMallocAsync(&from_pool, sizeof(int) * N, one));
    RUNTIME(cudaFreeAsync(from_pool, one));
    RUNTIME(cudaEventDestroy(event));
    RUNTIME(cudaStreamDestroy(one));
    RUNTIME(cudaStreamDestroy(other));
    RUNTIME(cudaMemPoolDestroy(pool));
    RUNTIME(cudaFreeHost(pinned));
    RUNTIME(cudaFree(managed));
    RUNTIME(cudaFree(at));
    return true;
}

/// cudaLibraryGetUnifiedFunction; cuTensorMapEncodeIm2colWide; contexts of a part of the multiprocessors.
static bool functions_and_contexts()
{
    int (*function)(int);
    RUNTIME(cudaMemcpyFromSymbol(&function, device_function, sizeof function));
    int *to = filled(0), host[N];
    apply<<<1, N>>>(function, to);
    RUNTIME(cudaMemcpy(host, to, sizeof host, cudaMemcpyDeviceToHost));
    EXPECT(host[N - 1] == 2 * (N - 1));
    CUtensorMap map;
    CUdeviceptr at;
    DRIVER(cuMemAlloc(&at, 16 * 8 * 2 * 4));
    cuuint64_t dims[] = {16, 8, 2}, strides[] = {16, 128};
    cuuint32_t steps[] = {1, 1, 1};
    int corner[] = {0};
    DRIVER(cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, reinterpret_cast<void*>(at), dims, strides, corner, corner, 16, 8, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CUcontext primary, current;
    DRIVER(cuDevicePrimaryCtxRetain(&primary, 0));
    DRIVER(cuCtxGetCurrent(&current));
    EXPECT(primary == current);
    DRIVER(cuDevicePrimaryCtxRelease(0));
    DRIVER(cuMemFree(at));
    RUNTIME(cudaFree(to));
    return true;
}

/// cudaIpcGetMemHandle, cuMemExportToShareableHandle and multicast objects: ranks as threads of one process, and copies between GPUs.
static bool ranks()
{
    int* memory[2] = {nullptr, nullptr};
    bool good[2] = {false, false};
    auto rank = [&](int number) {
        good[number] = !cudaSetDevice(number) && (memory[number] = filled(number + 1)) != nullptr;
    };
    std::thread first(rank, 0), second(rank, 1);
    first.join(), second.join();
    EXPECT(good[0] && good[1]);
    RUNTIME(cudaMemcpyPeer(memory[1], 1, memory[0], 0, sizeof(int) * N));
    EXPECT(holds(memory[1], 1));
    for (int* at : memory) RUNTIME(cudaFree(at));
    return true;
}

int main()
{
    if (cudaSetDevice(0) || cuInit(0)) return 2;
    struct { const char* name; bool (*run)(); } checks[] = {
        {"questions", questions}, {"forms", forms_with_sizes_of_64_bits}, {"arrays", arrays_and_textures}, {"graphs", graphs},
        {"streams", streams_and_memory}, {"functions", functions_and_contexts}, {"ranks", ranks},
    };
    int failed = 0;
    for (auto& check : checks) {
        bool good = check.run();
        printf("%s: %s\n", check.name, good ? "right" : "WRONG");
        failed += !good;
    }
    return failed;
}
