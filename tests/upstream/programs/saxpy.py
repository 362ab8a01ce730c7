# NVRTC and the driver's API through cuda-bindings, as its documentation introduces them.
import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = b"""
extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *out, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""


def done(result):
    error, *rest = result
    assert int(error) == 0, error
    return rest[0] if len(rest) == 1 else rest


done(driver.cuInit(0))
device = done(driver.cuDeviceGet(0))
context = done(driver.cuCtxCreate(None, 0, device))
attribute = driver.CUdevice_attribute
major = done(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
minor = done(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
program = done(nvrtc.nvrtcCreateProgram(SOURCE, b"saxpy.cu", 0, [], []))
options = [b"--fmad=false", f"--gpu-architecture=compute_{major}{minor}".encode()]
done(nvrtc.nvrtcCompileProgram(program, len(options), options))
ptx = b" " * done(nvrtc.nvrtcGetPTXSize(program))
done(nvrtc.nvrtcGetPTX(program, ptx))
module = done(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
kernel = done(driver.cuModuleGetFunction(module, b"saxpy"))

n = 512 * 64
random = np.random.default_rng(1)
a = np.array([2.0], dtype=np.float32)
x, y = (random.random(n).astype(np.float32) for _ in range(2))
out = np.zeros(n, dtype=np.float32)
stream = done(driver.cuStreamCreate(0))
buffers = [done(driver.cuMemAlloc(x.nbytes)) for _ in range(3)]
for buffer, values in zip(buffers, (x, y)):
    done(driver.cuMemcpyHtoDAsync(buffer, values.ctypes.data, values.nbytes, stream))
arguments = [a, *(np.array([int(buffer)], dtype=np.uint64) for buffer in buffers), np.array([n], dtype=np.uint64)]
pointers = np.array([argument.ctypes.data for argument in arguments], dtype=np.uint64)
done(driver.cuLaunchKernel(kernel, 64, 1, 1, 512, 1, 1, 0, stream, pointers.ctypes.data, 0))
done(driver.cuMemcpyDtoHAsync(out.ctypes.data, buffers[2], out.nbytes, stream))
done(driver.cuStreamSynchronize(stream))
assert np.array_equal(out, a * x + y)
for buffer in buffers:
    done(driver.cuMemFree(buffer))
done(driver.cuModuleUnload(module))
done(driver.cuCtxDestroy(context))
print("saxpy is right")
