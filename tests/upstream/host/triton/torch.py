"""In place of torch, for host functions of kernels in Triton's language: tensors that are the buffers of a launch file, and a GB10."""

import math
import types


class dtype:
    """A type of elements: Triton reads its name, a launch file `kind`."""

    def __init__(self, name, kind, itemsize, largest=math.inf):
        self.name, self.kind, self.itemsize, self.largest = name, kind, itemsize, largest

    def __repr__(self):
        return f"torch.{self.name}"


int32, uint8 = dtype("int32", "s32", 4), dtype("uint8", "u8", 1)
float32, float16, bfloat16 = dtype("float32", "f32", 4), dtype("float16", "f16", 2), dtype("bfloat16", "bf16", 2)
float8_e4m3fn = dtype("float8_e4m3fn", "e4m3", 1, 448.0)


def finfo(kind):
    return types.SimpleNamespace(min=-kind.largest, max=kind.largest)


class Tensor:
    """A dense buffer, which a launch file names; `contents` are the lines there that say what it holds."""

    def __init__(self, name, kind, shape, contents=""):
        self.name, self.dtype, self.shape, self.contents = name, kind, tuple(shape), contents
        self.ndim = len(self.shape)

    def __len__(self):
        return self.shape[0]

    def data_ptr(self):
        # Triton asks only whether it is a multiple of 16.
        return 0

    def element_size(self):
        return self.dtype.itemsize

    def dim(self):
        return self.ndim

    def stride(self, dim=None):
        strides = tuple(math.prod(self.shape[n + 1 :]) for n in range(self.ndim))
        return strides if dim is None else strides[dim]


cuda = types.SimpleNamespace(get_device_capability=lambda device=None: (12, 1))
