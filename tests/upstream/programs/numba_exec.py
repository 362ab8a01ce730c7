# numba-cuda: kernels of Python, compiled by NVVM and linked by nvJitLink to machine code.
import numpy
from numba import cuda


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@cuda.jit
def total(x, out):
    shared = cuda.shared.array(128, dtype=numpy.float32)
    thread, i = cuda.threadIdx.x, cuda.grid(1)
    shared[thread] = x[i] if i < x.size else 0
    cuda.syncthreads()
    width = 64
    while width > 0:
        if thread < width:
            shared[thread] += shared[thread + width]
        cuda.syncthreads()
        width //= 2
    if thread == 0:
        cuda.atomic.add(out, 0, shared[0])


x = numpy.arange(1000, dtype=numpy.float32)
on_gpu, sums = cuda.to_device(x), cuda.to_device(numpy.ones(1000, numpy.float32))
saxpy[8, 128](numpy.float32(2), on_gpu, sums)
assert numpy.array_equal(sums.copy_to_host(), 2 * x + 1)
out = cuda.to_device(numpy.zeros(1, numpy.float32))
total[8, 128](on_gpu, out)
assert out.copy_to_host()[0] == x.sum()
print("numba is right")
