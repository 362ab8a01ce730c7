"""Python under `sm121probe exec`: `cuda.bindings.runtime` has a CUDA runtime of its own inside, which no library can stand in for.
Its common functions call the `libcudart` of the simulated GPU instead."""

import ctypes
import importlib.machinery
import operator
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = "cuda.bindings.runtime"


def _serve(runtime):
    library = ctypes.CDLL("libcudart.so.13")
    handle, integer, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t

    def call(name, *arguments):
        return runtime.cudaError_t(getattr(library, name)(*arguments))

    def plain(name, *types):
        """A function that gives nothing but its status."""

        def function(*given):
            words = [kind(_word(value)) for kind, value in zip(types, given)]
            return (call(name, *words),)

        setattr(runtime, name, function)

    def giving(name, made, *types):
        """A function whose first parameter is where its result goes."""
        out = handle if isinstance(made, str) else made

        def function(*given):
            place = out()
            words = [kind(_word(value)) for kind, value in zip(types, given)]
            status = call(name, ctypes.byref(place), *words)
            value = place.value or 0
            return status, getattr(runtime, made)(value) if isinstance(made, str) else value

        setattr(runtime, name, function)

    giving("cudaGetDeviceCount", integer)
    giving("cudaGetDevice", integer)
    giving("cudaDriverGetVersion", integer)
    giving("cudaRuntimeGetVersion", integer)
    giving("cudaDeviceGetAttribute", integer, integer, integer)
    giving("cudaMalloc", handle, size)
    giving("cudaMallocManaged", handle, size, integer)
    giving("cudaMallocHost", handle, size)
    giving("cudaHostAlloc", handle, size, integer)
    giving("cudaMallocAsync", handle, size, handle)
    giving("cudaStreamCreate", "cudaStream_t")
    giving("cudaStreamCreateWithFlags", "cudaStream_t", integer)
    giving("cudaEventCreate", "cudaEvent_t")
    giving("cudaEventCreateWithFlags", "cudaEvent_t", integer)
    giving("cudaEventElapsedTime", ctypes.c_float, handle, handle)
    plain("cudaSetDevice", integer)
    plain("cudaDeviceSynchronize")
    plain("cudaDeviceReset")
    plain("cudaGetLastError")
    plain("cudaPeekAtLastError")
    plain("cudaFree", handle)
    plain("cudaFreeHost", handle)
    plain("cudaFreeAsync", handle, handle)
    plain("cudaMemcpy", handle, handle, size, integer)
    plain("cudaMemcpyAsync", handle, handle, size, integer, handle)
    plain("cudaMemset", handle, integer, size)
    plain("cudaMemsetAsync", handle, integer, size, handle)
    plain("cudaStreamSynchronize", handle)
    plain("cudaStreamQuery", handle)
    plain("cudaStreamDestroy", handle)
    plain("cudaStreamWaitEvent", handle, handle, integer)
    plain("cudaEventRecord", handle, handle)
    plain("cudaEventSynchronize", handle)
    plain("cudaEventQuery", handle)
    plain("cudaEventDestroy", handle)
    plain("cudaLibraryUnload", handle)
    plain("cudaProfilerStart")
    plain("cudaProfilerStop")


def _word(value):
    """The number of a handle, an enumeration or a pointer; the address of a buffer."""
    if value is None:
        return 0
    if hasattr(value, "__index__"):
        return operator.index(value)
    try:
        view = memoryview(value)
    except TypeError:
        return int(value)
    if isinstance(value, bytes):
        return ctypes.cast(value, ctypes.c_void_p).value
    if view.readonly:
        raise TypeError("a buffer that cannot be written, other than bytes, has no address here")
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


class _Loader:
    """Loads the module as its own loader does, and replaces its functions."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        _serve(module)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != _NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = _Loader(spec.loader)
        return spec


sys.meta_path.insert(0, _Finder)

# The `sitecustomize` that this one hides.
_paths = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
_hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", _paths)
if _hidden is not None and _hidden.loader is not None:
    import importlib.util

    _hidden.loader.exec_module(importlib.util.module_from_spec(_hidden))
