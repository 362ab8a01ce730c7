# A kernel that Triton compiles while the program runs, with the ptxas that it finds, launched through the driver's API.
import ctypes

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    error = getattr(cuda, name)(*arguments)
    assert error == 0, f"{name} returned {error}"


call("cuInit", 0)
context, module, function, memory = (ctypes.c_void_p() for _ in range(4))
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
numbers = [ctypes.c_int() for _ in range(2)]
for number, attribute in zip(numbers, (75, 76)):
    call("cuDeviceGetAttribute", ctypes.byref(number), attribute, 0)
target = GPUTarget("cuda", 10 * numbers[0].value + numbers[1].value, 32)
source = triton.compiler.ASTSource(double, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256})
compiled = triton.compile(source, target=target)
call("cuModuleLoadData", ctypes.byref(module), compiled.asm["cubin"])
call("cuModuleGetFunction", ctypes.byref(function), module, compiled.metadata.name.encode())
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4000))
values = (ctypes.c_float * 1000)(*range(1000))
call("cuMemcpyHtoD_v2", memory, values, ctypes.c_size_t(4000))
# Behind its own, Triton's kernels have two hidden arguments.
arguments = [memory, ctypes.c_int(1000), ctypes.c_uint64(0), ctypes.c_uint64(0)]
pointers = (ctypes.c_void_p * 4)(*[ctypes.addressof(a) for a in arguments])
warps = compiled.metadata.num_warps
call("cuLaunchKernel", function, 4, 1, 1, 32 * warps, 1, 1, compiled.metadata.shared, None, pointers, None)
call("cuMemcpyDtoH_v2", values, memory, ctypes.c_size_t(4000))
assert list(values) == [2.0 * i for i in range(1000)]
call("cuMemFree_v2", memory)
print("doubled")
