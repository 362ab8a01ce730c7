"""Launches on a GPU through the driver (`libcuda.so.1`), for tests that run both on the emulator and on hardware.

A GPU only computes results and checks no rules; whether the results are reliable is for the emulator to decide.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .errors import Error, LaunchError, UnsupportedError
from .module import Module, _three
from .report import FloatAtomics, Report

_SHARED_LIMIT = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER, …_SIZE_BYTES


class GpuArray:
    """A buffer in the memory of a GPU."""

    def __init__(self, device: "GpuDevice", address: int, shape: Tuple[int, ...], dtype: Any, nbytes: int) -> None:
        self.device: "GpuDevice" = device
        self.address: int = address
        self.shape: Tuple[int, ...] = shape
        self.dtype: Any = dtype
        self.nbytes: int = nbytes

    @property
    def __sm121probe_buffer__(self) -> Tuple[Any, int, int]:
        """The device that the address belongs to, the address, and the size in bytes."""
        return self.device, self.address, self.nbytes

    def numpy(self, *, unwritten: str = "raise") -> Any:
        """Return a copy as a NumPy array."""
        import numpy

        out = numpy.empty(self.shape, self.dtype)
        self.device._call("cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), self.address, self.nbytes)
        return out

    def copy_from(self, array: Any) -> None:
        """Replace the contents by those of an array of the same size in bytes."""
        import numpy

        array = numpy.ascontiguousarray(array)
        if array.nbytes != self.nbytes:
            raise ValueError(f"a contiguous array of {self.nbytes} bytes is wanted")
        self.device._call("cuMemcpyHtoD_v2", self.address, ctypes.c_void_p(array.ctypes.data), self.nbytes)

    def free(self) -> None:
        """Free the buffer."""
        self.device._call("cuMemFree_v2", self.address)


class GpuDevice:
    """A CUDA GPU with the methods of `Device`. Only the emulator supports tensor maps, Triton and several schedules."""

    def __init__(self, number: int = 0) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Error(f"no driver of a GPU: {error}") from error
        self._call("cuInit", 0)
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), number)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._call("cuCtxSetCurrent", self._context)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(major), _MAJOR, device)
        self._call("cuDeviceGetAttribute", ctypes.byref(minor), _MINOR, device)
        #: As in `sm_121`.
        self.architecture: str = f"sm_{major.value}{minor.value}"
        self._modules: Dict[Any, Any] = {}
        self.reports: List[Report] = []

    def _call(self, name: str, *args: Any) -> None:
        args = tuple(ctypes.c_uint64(a) if isinstance(a, int) and a >= 1 << 31 else a for a in args)
        code = getattr(self._cuda, name)(*args)
        if code != 0:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(code, ctypes.byref(text))
            raise Error(f"{name}: {(text.value or b'unknown').decode()} (error {code})")

    def array(self, array: Any, *, name: Optional[str] = None) -> GpuArray:
        """Allocate a buffer with the contents of an array."""
        made = self.empty(array.shape, array.dtype)
        made.copy_from(array)
        return made

    def empty(self, shape: Any, dtype: Any = "float32", *, name: Optional[str] = None) -> GpuArray:
        """Allocate a buffer with unspecified contents."""
        import numpy

        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind, address = numpy.dtype(dtype), ctypes.c_uint64()
        nbytes = int(numpy.prod(shape, dtype=numpy.int64)) * kind.itemsize
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(nbytes, 1)))
        return GpuArray(self, address.value, shape, kind, nbytes)

    def _function(self, module: Module, name: str) -> ctypes.c_void_p:
        if (module.ptx, name) not in self._modules:
            loaded, function = ctypes.c_void_p(), ctypes.c_void_p()
            log = ctypes.create_string_buffer(4096)
            options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
            values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
            try:
                self._call("cuModuleLoadDataEx", ctypes.byref(loaded), module.ptx.encode() + b"\0", 2, options, values)
                self._call("cuModuleGetFunction", ctypes.byref(function), loaded, name.encode())
            except Error as error:
                raise LaunchError(f"{module.name}: {error} {log.value.decode(errors='replace').strip()}".strip()) from error
            self._modules[module.ptx, name] = function
        return self._modules[module.ptx, name]

    def launch(
        self,
        module: Module,
        name: str,
        grid: Any,
        block: Any = None,
        args: Sequence[Any] = (),
        *,
        smem: Optional[int] = None,
        **options: Any,
    ) -> Report:
        """Launch a kernel. Arrays among `args` are copied to the GPU and back; options for the emulator's checks have no effect."""
        import numpy

        unknown = sorted(set(options) - {"schedules", "seed", "poisons", "rules", "fuel", "profile", "model", "contract", "strict", "require_equal"})
        if unknown:
            raise UnsupportedError(f"{', '.join(unknown)} cannot be launched on a GPU from here")
        function = self._function(module, name)
        parameters = module.kernels[name].parameters
        if len(parameters) != len(args):
            raise TypeError(f"{name} takes {len(parameters)} arguments, not {len(args)}")
        copies: List[Tuple[Any, GpuArray]] = []
        values: List[bytes] = []
        for argument, parameter in zip(args, parameters):
            owner, address, _ = getattr(argument, "__sm121probe_buffer__", (self, None, 0))
            if owner is not self:
                raise ValueError(f"the buffer for parameter `{parameter.name}` is in the memory of another device")
            if address is None and isinstance(argument, numpy.ndarray):
                made = next((made for array, made in copies if array is argument), None)
                if made is None:
                    made = self.array(argument)
                    copies.append((argument, made))
                address = made.address
            if address is not None:
                values.append(address.to_bytes(8, "little"))
            elif isinstance(argument, float):
                values.append(numpy.array(argument, "f4" if parameter.size == 4 else "f8").tobytes())
            elif isinstance(argument, int):
                values.append(argument.to_bytes(parameter.size, "little", signed=argument < 0))
            else:
                values.append(argument.tobytes() if hasattr(argument, "tobytes") else bytes(argument))
            if len(values[-1]) != parameter.size:
                raise ValueError(f"{len(values[-1])} bytes for parameter `{parameter.name}` of {parameter.size}")
        kept = [ctypes.create_string_buffer(value, len(value)) for value in values]
        pointers = (ctypes.c_void_p * max(len(kept), 1))(*[ctypes.addressof(one) for one in kept])
        if smem:
            self._call("cuFuncSetAttribute", function, _SHARED_LIMIT, smem)
        self._call(
            "cuLaunchKernel", function, *_three("grid", grid), *_three("block", block or 32), smem or 0, None, pointers, None
        )
        self._call("cuCtxSynchronize")
        for array, made in copies:
            array[...] = made.numpy()
            made.free()
        report = Report(0, 1, 1, [], [], FloatAtomics(0, 0, 0.0), "")
        self.reports.append(report)
        return report
