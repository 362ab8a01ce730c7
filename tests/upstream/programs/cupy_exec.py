# CuPy with its own kernels, CUB's, and those that it compiles while it runs: its modules contain the static CUDA runtime.
import cupy
import numpy

x = numpy.random.default_rng(1).random(1000).astype(numpy.float32)
on_gpu = cupy.asarray(x)
assert numpy.array_equal((on_gpu * 2 + 1).get(), x * 2 + 1)
assert numpy.array_equal(cupy.sort(on_gpu).get(), numpy.sort(x))
assert numpy.array_equal(cupy.cumsum(cupy.ones(100, dtype=cupy.int32)).get(), numpy.arange(1, 101))
assert numpy.array_equal(cupy.unique(cupy.asarray(numpy.array([3, 1, 2, 3, 1]))).get(), [1, 2, 3])
assert abs(float(on_gpu.sum()) - float(x.sum(dtype=numpy.float64))) < 1e-2

double = cupy.RawKernel(
    r'extern "C" __global__ void twice(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }',
    "twice",
)
values = cupy.asarray(x)
double((8,), (128,), (values, cupy.int32(1000)))
assert numpy.array_equal(values.get(), x * 2)
multiply_add = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * y + 1", "multiply_add")
assert numpy.array_equal(multiply_add(cupy.ones(5, dtype=cupy.float32), cupy.full(5, 3, dtype=cupy.float32)).get(), [4] * 5)
largest = cupy.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", "0", "largest")
assert float(largest(on_gpu)) == x.max()


@cupy.fuse()
def length(a, b):
    return cupy.sqrt(a * a + b * b)


assert numpy.allclose(length(on_gpu, on_gpu).get(), numpy.sqrt(2) * x)
print("CuPy is right")
