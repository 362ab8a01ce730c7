"""In place of torch, which is large and of which FlashInfer's entry functions for CuTe DSL use little: tensors in a GPU's memory, and how
many SMs the GPU has."""

import ctypes
import math
import types

from cuda.bindings import runtime


class dtype:
    """A type of elements: its bytes, and its code and bits in DLPack."""

    def __init__(self, itemsize, code):
        self.itemsize, self.code = itemsize, code


int32, uint8 = dtype(4, 0), dtype(1, 1)
float16, float32, bfloat16 = dtype(2, 2), dtype(4, 2), dtype(2, 4)
float8_e4m3fn, float8_e8m0fnu = dtype(1, 10), dtype(1, 14)
device = str


def finfo(kind):
    assert kind is float32, "of f32 alone"
    return types.SimpleNamespace(max=(2 - 2**-23) * 2.0**127)


class _Array(ctypes.Structure):
    # DLTensor, and behind it what makes it a DLManagedTensor.
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


# What consumers of DLPack still read.
_lent = []
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _done(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) > 1 else None


class Tensor:
    """A contiguous tensor, never freed."""

    device = "cuda"

    def __init__(self, address, shape, kind):
        self.address, self.shape, self.dtype, self.ndim = address, tuple(shape), kind, len(shape)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        sizes = ctypes.c_int64 * self.ndim
        strides = [math.prod(self.shape[n + 1 :]) for n in range(self.ndim)]
        lists = sizes(*self.shape), sizes(*strides)
        array = _Array(self.address, (2, 0), self.ndim, self.dtype.code, 8 * self.dtype.itemsize, 1, *lists)
        _lent.append((array, lists))
        return _capsule(ctypes.addressof(array), b"dltensor", None)

    def contiguous(self):
        return self

    def is_contiguous(self):
        return True

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self.address

    def to(self, kind):
        assert kind is self.dtype, "no conversion here"
        return self

    def view(self, kind):
        size = self.shape[-1] * self.dtype.itemsize // kind.itemsize
        return Tensor(self.address, (*self.shape[:-1], size), kind)


def _sizes(sizes):
    return sizes[0] if isinstance(sizes[0], tuple) else sizes


def empty(*sizes, dtype, device=None):
    shape = _sizes(sizes)
    return Tensor(_done(runtime.cudaMalloc(math.prod(shape) * dtype.itemsize)), shape, dtype)


def zeros(*sizes, dtype, device=None):
    tensor = empty(*sizes, dtype=dtype)
    _done(runtime.cudaMemset(tensor.address, 0, math.prod(tensor.shape) * dtype.itemsize))
    return tensor


def frombuffer(data, shape, dtype):
    """Not as in torch: a tensor in the GPU's memory."""
    tensor = empty(tuple(shape), dtype=dtype)
    assert len(data) == math.prod(shape) * dtype.itemsize, "as many bytes as the shape says"
    _done(runtime.cudaMemcpy(tensor.address, bytes(data), len(data), runtime.cudaMemcpyKind.cudaMemcpyHostToDevice))
    return tensor


# Persistent kernels have a CTA for each SM: with two, each has several tiles.
_properties = types.SimpleNamespace(multi_processor_count=2, major=12, minor=1)
cuda = types.SimpleNamespace(
    get_device_properties=lambda device=None: _properties,
    get_device_capability=lambda device=None: (_properties.major, _properties.minor),
    current_stream=lambda device=None: types.SimpleNamespace(cuda_stream=0),
)
