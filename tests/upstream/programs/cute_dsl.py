"""A kernel of CuTe DSL, called as on a GPU; with `wide`, it reads past the end of its inputs."""

import ctypes
import sys

import cutlass
import cutlass.cute as cute
from cuda.bindings import runtime
from cutlass.cute.runtime import make_ptr

COUNT = 64
WIDE = 32 if "wide" in sys.argv else 0


@cute.kernel
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 32 + thread
    c[i] = a[i] + b[i]


@cute.jit
def run(a: cute.Pointer, b: cute.Pointer, c: cute.Pointer):
    layout = cute.make_layout((COUNT,))
    tensors = [cute.make_tensor(pointer, layout) for pointer in (a, b, c)]
    add(*tensors).launch(grid=((COUNT + WIDE) // 32, 1, 1), block=(32, 1, 1))


def ok(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) > 1 else None


to_device = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
to_host = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
Words = ctypes.c_float * COUNT
inputs = [Words(*range(COUNT)), Words(*[2] * COUNT)]
places = [ok(runtime.cudaMalloc(ctypes.sizeof(Words))) for _ in range(3)]
for place, values in zip(places, inputs):
    ok(runtime.cudaMemcpy(place, ctypes.addressof(values), ctypes.sizeof(Words), to_device))
run(*[make_ptr(cutlass.Float32, place, cute.AddressSpace.gmem, assumed_align=16) for place in places])
sums = Words()
ok(runtime.cudaMemcpy(ctypes.addressof(sums), places[2], ctypes.sizeof(Words), to_host))
for place in places:
    ok(runtime.cudaFree(place))
assert list(sums) == [i + 2 for i in range(COUNT)], list(sums)
print("sums are right")
