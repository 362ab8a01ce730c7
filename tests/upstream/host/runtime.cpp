// A CUDA runtime that runs nothing: it writes down what upstream's host code allocates, copies and launches. The suite replays that in the
// emulator. It speaks of one device, a GB10. A call that it lacks ends the program; so does an argument that it
// lacks, with a message.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "recording runtime: %s\n", what.c_str());
    std::_Exit(3);
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    if (!value) fail(std::string(name) + " is not set");
    return value;
}

// Addresses are those that the emulator gives to the same allocations in the same order.
constexpr uint64_t FIRST = 0x1000000000, GUARD = 4096;

struct Recorder {
    std::map<const void*, std::string> kernels, variables;
    std::map<std::string, std::vector<size_t>> parameters;
    std::map<uint64_t, size_t> buffers;
    uint64_t next = FIRST, written = 0;
    unsigned maps = 0;
    std::ofstream steps, bytes;
    struct Configuration { dim3 grid, block; size_t shared; cudaStream_t stream; };
    std::vector<Configuration> configurations;

    Recorder() : steps(variable("RECORD_STEPS")), bytes(variable("RECORD_BYTES"), std::ios::binary) {
        std::ifstream file(variable("RECORD_PARAMETERS"));
        for (std::string line; std::getline(file, line);) {
            std::istringstream words(line);
            std::string name;
            words >> name;
            auto& sizes = parameters[name];
            for (size_t size; words >> size;) sizes.push_back(size);
        }
    }

    uint64_t allocate(size_t size) {
        size = size ? size : 1;
        uint64_t at = next;
        buffers[at] = size;
        next = (at + size + GUARD + GUARD - 1) / GUARD * GUARD;
        steps << "allocate " << at << ' ' << size << '\n';
        return at;
    }

    bool is_device(const void* p) const { return (uint64_t)p >= FIRST && (uint64_t)p < next; }

    void write(uint64_t at, const void* from, size_t size) {
        steps << "write " << at << ' ' << written << ' ' << size << '\n';
        keep(from, size);
    }

    void keep(const void* from, size_t size) {
        bytes.write((const char*)from, (std::streamsize)size);
        written += size;
    }

    void launch(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, dim3 cluster, bool programmatic,
                bool cooperative) {
        auto kernel = kernels.find(function);
        if (kernel == kernels.end()) fail("a launch of a function that is not registered");
        auto sizes = parameters.find(kernel->second);
        if (sizes == parameters.end()) fail("the PTX has no entry " + kernel->second);
        size_t all = 0;
        for (size_t size : sizes->second) all += size;
        steps << "launch " << kernel->second;
        for (unsigned n : {grid.x, grid.y, grid.z, block.x, block.y, block.z}) steps << ' ' << n;
        steps << ' ' << shared << ' ' << cluster.x << ' ' << cluster.y << ' ' << cluster.z << ' ' << programmatic << ' ' << cooperative
              << ' ' << written << ' ' << all << '\n';
        for (size_t n = 0; n < sizes->second.size(); ++n) keep(arguments[n], sizes->second[n]);
    }
};

Recorder& recorder() {
    // Never destroyed: destructors of upstream's static objects free memory after the end of main.
    static Recorder* all = new Recorder;
    return *all;
}

cudaError_t attribute(int* value, int which) {
    switch (which) {
        case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
        case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *value = 1024; break;
        case cudaDevAttrMaxBlockDimZ: *value = 64; break;
        case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
        case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *value = 65535; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 101376; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 102400; break;
        case cudaDevAttrReservedSharedMemoryPerBlock: *value = 1024; break;
        case cudaDevAttrWarpSize: *value = 32; break;
        case cudaDevAttrMultiProcessorCount: *value = 48; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 1536; break;
        case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 24; break;
        case cudaDevAttrL2CacheSize: *value = 25165824; break;
        case cudaDevAttrComputeCapabilityMajor: *value = 12; break;
        case cudaDevAttrComputeCapabilityMinor: *value = 1; break;
        case cudaDevAttrCooperativeLaunch: case cudaDevAttrUnifiedAddressing: case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
        case cudaDevAttrClockRate: *value = 2418000; break;
        default: fail("device attribute " + std::to_string(which));
    }
    return cudaSuccess;
}

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
    // What stands in its place until the suite encodes it.
    std::memset(map, 0, sizeof *map);
    std::snprintf((char*)map, sizeof *map, "recorded tensor map %u", recorder().maps);
    auto& out = recorder().steps;
    out << "map " << recorder().maps++ << ' ' << (int)type << ' ' << rank << ' ' << (uint64_t)address << ' ' << (int)interleave << ' '
        << (int)swizzle << ' ' << (int)l2 << ' ' << (int)fill;
    for (unsigned n = 0; n < rank; ++n) out << ' ' << dims[n];
    for (unsigned n = 0; n + 1 < rank; ++n) out << ' ' << strides[n];
    for (unsigned n = 0; n < rank; ++n) out << ' ' << box[n];
    for (unsigned n = 0; n < rank; ++n) out << ' ' << steps[n];
    out << '\n';
    return CUDA_SUCCESS;
}

cudaError_t entry_point(const char* symbol, void** function, cudaDriverEntryPointQueryResult* status) {
    bool known = std::string(symbol) == "cuTensorMapEncodeTiled";
    *function = known ? (void*)&encode_tiled : nullptr;
    if (status) *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return known ? cudaSuccess : cudaErrorInvalidValue;
}

int occupancy(int threads, size_t shared) {
    int by_threads = 1536 / (threads ? threads : 1), by_shared = (int)(102400 / (shared + 1024));
    return by_threads < by_shared ? by_threads : by_shared;
}

}  // namespace

// Gives a buffer the name by which the suite asks for it.
EXPORT void record_name(const void* buffer, const char* name) {
    recorder().steps << "name " << (uint64_t)buffer << ' ' << name << '\n';
}

EXPORT void** __cudaRegisterFatBinary(void*) { static void* handle; return &handle; }
EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
EXPORT void __cudaUnregisterFatBinary(void**) { recorder().steps.flush(); recorder().bytes.flush(); }
EXPORT void __cudaRegisterVar(void**, char* variable, char*, const char* name, int, size_t, int, int) {
    recorder().variables[variable] = name;
}
EXPORT void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
    recorder().kernels[function] = name;
}
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) { *kernel = (cudaKernel_t)function; return cudaSuccess; }
EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    recorder().configurations.push_back({grid, block, shared, stream});
    return 0;
}
EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    auto top = recorder().configurations.back();
    recorder().configurations.pop_back();
    *grid = top.grid, *block = top.block, *shared = top.shared, *(cudaStream_t*)stream = top.stream;
    return cudaSuccess;
}
EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
    recorder().launch(kernel, grid, block, arguments, shared, dim3(1, 1, 1), false, false);
    return cudaSuccess;
}
EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
    recorder().launch(function, grid, block, arguments, shared, dim3(1, 1, 1), false, false);
    return cudaSuccess;
}
EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
    recorder().launch(function, grid, block, arguments, shared, dim3(1, 1, 1), false, true);
    return cudaSuccess;
}
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* with, const void* function, void** arguments) {
    dim3 cluster(1, 1, 1);
    bool programmatic = false, cooperative = false;
    for (unsigned n = 0; n < with->numAttrs; ++n) {
        const auto& value = with->attrs[n].val;
        switch (with->attrs[n].id) {
            case cudaLaunchAttributeClusterDimension: cluster = dim3(value.clusterDim.x, value.clusterDim.y, value.clusterDim.z); break;
            case cudaLaunchAttributeProgrammaticStreamSerialization: programmatic = value.programmaticStreamSerializationAllowed; break;
            case cudaLaunchAttributeCooperative: cooperative = value.cooperative; break;
            case cudaLaunchAttributeIgnore: case cudaLaunchAttributePriority: case cudaLaunchAttributeAccessPolicyWindow: break;
            default: fail("launch attribute " + std::to_string(with->attrs[n].id));
        }
    }
    recorder().launch(function, with->gridDim, with->blockDim, arguments, with->dynamicSmemBytes, cluster, programmatic, cooperative);
    return cudaSuccess;
}

EXPORT cudaError_t cudaMalloc(void** at, size_t size) { *at = (void*)recorder().allocate(size); return cudaSuccess; }
EXPORT cudaError_t cudaMallocAsync(void** at, size_t size, cudaStream_t) { return cudaMalloc(at, size); }
EXPORT cudaError_t cudaFree(void*) { return cudaSuccess; }
EXPORT cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }
EXPORT cudaError_t cudaMallocHost(void** at, size_t size) { *at = std::calloc(1, size); return cudaSuccess; }
EXPORT cudaError_t cudaFreeHost(void* at) { std::free(at); return cudaSuccess; }
EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t) {
    if (recorder().is_device(from)) fail("a copy from the device");
    if (!recorder().is_device(to)) fail("a copy to no buffer");
    recorder().write((uint64_t)to, from, size);
    return cudaSuccess;
}
EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) { return cudaMemcpyAsync(to, from, size, kind, nullptr); }
EXPORT cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t) {
    std::vector<char> bytes(size, (char)value);
    recorder().write((uint64_t)to, bytes.data(), size);
    return cudaSuccess;
}
// What the PTX says of a variable on the device: nothing here has written it.
EXPORT cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind) {
    auto variable_of = recorder().variables.find(symbol);
    if (variable_of == recorder().variables.end() || offset || size > 8) fail("a copy from a variable");
    std::ifstream file(variable("RECORD_VARIABLES"));
    std::string name;
    for (uint64_t value; file >> name >> value;)
        if (name == variable_of->second) return std::memcpy(to, &value, size), cudaSuccess;
    fail("the PTX has no value of the variable " + variable_of->second);
}
EXPORT cudaError_t cudaMemset(void* to, int value, size_t size) { return cudaMemsetAsync(to, value, size, nullptr); }

EXPORT cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
EXPORT cudaError_t cudaSetDevice(int) { return cudaSuccess; }
EXPORT cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) { return attribute(value, which); }
EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int) {
    std::memset(of, 0, sizeof *of);
    std::strcpy(of->name, "NVIDIA GB10");
    of->major = 12, of->minor = 1, of->multiProcessorCount = 48, of->warpSize = 32, of->maxThreadsPerBlock = 1024;
    of->sharedMemPerBlock = 49152, of->sharedMemPerBlockOptin = 101376, of->sharedMemPerMultiprocessor = 102400;
    of->reservedSharedMemPerBlock = 1024, of->regsPerBlock = of->regsPerMultiprocessor = 65536;
    of->maxThreadsPerMultiProcessor = 1536, of->l2CacheSize = 25165824, of->totalGlobalMem = 1ull << 37;
    of->maxGridSize[0] = 2147483647, of->maxGridSize[1] = of->maxGridSize[2] = 65535;
    return cudaSuccess;
}
EXPORT cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, const void*) {
    std::memset(of, 0, sizeof *of);
    of->ptxVersion = of->binaryVersion = 121, of->maxThreadsPerBlock = 1024, of->numRegs = 64, of->maxDynamicSharedSizeBytes = 101376;
    return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, const void*, int threads, size_t shared, unsigned) {
    *count = occupancy(threads, shared);
    return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void* f, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, f, threads, shared, 0);
}
EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* count, const void*, const cudaLaunchConfig_t*) { *count = 48; return cudaSuccess; }
EXPORT cudaError_t cudaGetLastError() { return cudaSuccess; }
EXPORT cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
EXPORT const char* cudaGetErrorString(cudaError_t) { return "an error of the recording runtime"; }
EXPORT const char* cudaGetErrorName(cudaError_t) { return "cudaErrorUnknown"; }
EXPORT cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { *stream = nullptr; return cudaSuccess; }
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) { *status = cudaStreamCaptureStatusNone; return cudaSuccess; }
EXPORT cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long, cudaDriverEntryPointQueryResult* status) {
    return entry_point(symbol, function, status);
}
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* status) {
    return entry_point(symbol, function, status);
}
EXPORT cudaError_t cudaDriverGetVersion(int* version) { *version = 13050; return cudaSuccess; }
EXPORT cudaError_t cudaRuntimeGetVersion(int* version) { *version = 13050; return cudaSuccess; }
EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dims,
                                       const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                       CUtensorMapFloatOOBfill fill) {
    return encode_tiled(map, type, rank, address, dims, strides, box, steps, interleave, swizzle, l2, fill);
}
