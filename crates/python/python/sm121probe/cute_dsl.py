"""Functions compiled by CuTe DSL: their host code runs on this machine, the kernels that it launches on the emulator.

>>> import cutlass.cute as cute, numpy, sm121probe
>>> from cutlass.cute.runtime import from_dlpack
>>> @cute.kernel
... def fill(x: cute.Tensor):
...     i, _, _ = cute.arch.thread_idx()
...     x[i] = i + 1
>>> @cute.jit
... def run(x: cute.Tensor):
...     fill(x).launch(grid=(1, 1, 1), block=(cute.size(x), 1, 1))
>>> x = numpy.zeros(4, numpy.int32)
>>> compiled = cute.compile(run, from_dlpack(x), options="--keep-ptx --gpu-arch=sm_120a")
>>> (report,) = sm121probe.cute_dsl.launch(compiled, from_dlpack(x))
>>> x.tolist() == [1, 2, 3, 4]
True

The host code computes grids, layouts and tensor maps, and calls CUDA through functions that the machine code names (`_cudaLaunchKernelEx`, …).
It is linked a second time here, to functions of this module. Descriptors of arguments begin with an address, which is that of a buffer of the
emulator while the host code runs. What a caller does not see, such as the place of CUDA's status after the arguments, is passed as CuTe DSL
passes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from . import _native
from .device import Device
from .errors import LaunchError, UnsupportedError
from .module import Module
from .report import Report

#: Statuses of CUDA's runtime.
_SUCCESS, _LAUNCH_FAILURE = 0, 719

#: Attributes of a launch (`cudaLaunchAttributeID`): those that mean something here, and those that only tune.
_CLUSTER, _COOPERATIVE = 4, 2
_TUNING = {0, 1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}

#: Attributes of a device (`cudaDeviceAttr`): the most shared memory of a CTA that opts in, and others that host code asks for.
_DEVICE_ATTRIBUTES = {1: 1024, 8: 49_152, 10: 32, 16: 48, 39: 1536, 81: 102_400, 95: 1, 97: 101_376}

#: The attribute of a kernel that is its static shared memory (`CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`).
_STATIC_SHARED = 1

_DTYPES = {
    "Boolean": "bool", "Int8": "int8", "Int16": "int16", "Int32": "int32", "Int64": "int64",
    "Uint8": "uint8", "Uint16": "uint16", "Uint32": "uint32", "Uint64": "uint64",
    "Float16": "float16", "BFloat16": "bfloat16", "Float32": "float32", "Float64": "float64",
    "Float8E4M3FN": "float8_e4m3fn", "Float8E5M2": "float8_e5m2", "Float8E8M0FNU": "float8_e8m0fnu",
}  # fmt: skip


class _LaunchAttribute(ctypes.Structure):
    """`cudaLaunchAttribute`."""

    id: int
    value: Any
    _fields_ = [("id", ctypes.c_int32), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16)]


class _LaunchConfig(ctypes.Structure):
    """`cudaLaunchConfig_t`."""

    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", ctypes.c_uint32),
    ]


def launch(compiled: Any, *args: Any, memory: Sequence[Any] = (), device: Optional[Device] = None, **options: Any) -> List[Report]:
    """Call a function that `cute.compile` returned, with its kernels on the emulator; return the report of each launch, in order.

    `args` are those of the compiled function, without its constants: tensors of `from_dlpack`, with static or dynamic layouts; arrays of NumPy
    or PyTorch in CPU memory, where the function was compiled for fake tensors or dynamic layouts; pointers of `make_ptr`; numbers; tuples of
    these. `memory` names the arrays that pointers among the arguments point into. Arrays are changed in place. `options` are those of
    `Module.launch`; `grid`, `block`, `cluster` and shared memory come from the host code. Its kernels run one after the other.

    The function must be compiled with ``options="--keep-ptx --gpu-arch=sm_120a"`` or another target of SM12x, and not for TVM FFI.

    Raises what `Module.launch` raises; `UnsupportedError` if the host code calls a function of CUDA that the emulator lacks.
    """
    __tracebackhide__ = True
    for name in ("grid", "block", "cluster", "cooperative", "smem"):
        if name in options:
            raise TypeError(f"launch has no option {name}: the host code of the function decides it")
    host = _hosts.get(compiled)
    if host is None:
        host = _hosts[compiled] = _Host(compiled)
    return host.call(args, memory, device or Device(), options)


#: The host code of compiled functions.
_hosts: "weakref.WeakKeyDictionary[Any, _Host]" = weakref.WeakKeyDictionary()


class _Host:
    """The host code of a compiled function, linked to the functions of this module."""

    def __init__(self, compiled: Any):
        ptx = getattr(compiled, "__ptx__", None)
        if not ptx:
            raise LaunchError(f'{_named(compiled)} has no PTX: compile it with `options="--keep-ptx --gpu-arch=sm_120a"`')
        missing = [name for name in ("ir_module", "execution_args", "function_name") if getattr(compiled, name, None) is None]
        if missing:
            raise UnsupportedError(
                f"{_named(compiled)} is a {type(compiled).__name__} without `{missing[0]}`, so that its host code cannot be linked again; compile it "
                "without `--enable-tvm-ffi` by CuTe DSL 4.5 or later, or run the program under `sm121probe exec`"
            )
        from cutlass._mlir.execution_engine import ExecutionEngine

        self._arguments = compiled.execution_args
        #: Workspaces that extensions of CuTe DSL pass after the arguments.
        self._added = int(getattr(compiled, "total_added_arguments", 0))
        # Some versions end it as a string of C.
        self._module = Module(ptx.rstrip("\0"), name=f"function {compiled.function_name}")
        self._runtime = _Runtime(self._module)
        self._engine = ExecutionEngine(compiled.ir_module, opt_level=2, shared_libs=[])
        self._callbacks = self._runtime.functions(str(compiled.ir_module))
        for name, callback in self._callbacks.items():
            self._engine.raw_register_runtime(name, ctypes.cast(callback, ctypes.c_void_p))
        self._entry = self._engine.lookup(compiled.function_name)
        self._load()

    def _load(self) -> None:
        """Load the kernels, as CuTe DSL does before the first call."""
        library, device = ctypes.c_void_p(), ctypes.c_int32(0)
        place = ctypes.pointer(library)
        for name, inputs in (("cuda_init", (place,)), ("cuda_load_to_device", (place, device))):
            address = self._engine.raw_lookup(name)
            if not address:
                raise UnsupportedError(f"this version of CuTe DSL has no `{name}` in its host code, so that its kernels cannot be loaded")
            self._run(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address), [ctypes.addressof(one) for one in inputs], name)

    def _run(self, function: Any, places: List[int], name: str) -> None:
        """Call a function of the host code. After its arguments comes a hidden one: where it stores CUDA's status."""
        __tracebackhide__ = True
        status = ctypes.c_int32(_SUCCESS)
        packed = (ctypes.c_void_p * (len(places) + 1))(*places, ctypes.addressof(status))
        function(ctypes.addressof(packed))
        failed = self._runtime.failed
        if failed is not None:
            self._runtime.failed = None
            raise failed
        if status.value != _SUCCESS:
            raise LaunchError(f"{name} returns CUDA's status {status.value}")

    def call(self, args: Tuple[Any, ...], memory: Sequence[Any], device: Device, options: Dict[str, Any]) -> List[Report]:
        __tracebackhide__ = True
        count = self._arguments._meta.arg_count + self._added
        if len(args) != count:
            more = f", the last {self._added} of them workspaces" if self._added else ""
            raise TypeError(f"{self._module.name} takes {count} arguments{more}, but {len(args)} were given; constants are left out")
        places, adapted = self._arguments.generate_execution_args(args, {})
        tensors, pointers = _runtime_values((args, adapted))
        buffers = _Buffers()
        for one in (*tensors, *map(_tensor_of, memory)):
            buffers.cover(one)
        # The words that hold addresses: the first ones of descriptors, and pointers themselves.
        words = [one.__c_pointers__()[0] for one in (*tensors, *pointers)]
        with buffers.on(device, words), self._runtime.launching(device, options) as reports:
            self._run(self._entry, [_address(place) for place in places], f"the host code of {self._module.name}")
        if not reports:
            raise LaunchError(f"{self._module.name} launches no kernel with these arguments: nothing was checked")
        return reports


def _named(compiled: Any) -> str:
    return f"the function {getattr(compiled, 'function_name', None) or type(compiled).__name__}"


def _address(place: Any) -> int:
    return (place.value or 0) if isinstance(place, ctypes.c_void_p) else int(place)


class _Runtime:
    """The functions of CUDA that the host code calls."""

    def __init__(self, module: Module):
        self._module = module
        self._parameters = {name: [one.size for one in kernel.parameters] for name, kernel in module.kernels.items()}
        #: The kernels that the host code has asked for; a handle is a position in it, counted from 1.
        self._handles: List[str] = []
        self._device: Device = Device()
        self._options: Dict[str, Any] = {}
        self._reports: List[Report] = []
        #: What was raised while the host code ran, through which no exception passes.
        self.failed: Optional[BaseException] = None

    def functions(self, code: str) -> Dict[str, Any]:
        """A function for each one of CUDA that the host code declares, by name."""
        return {name: self._function(name, parameters) for name, parameters in _declared(code)}

    def _function(self, name: str, parameters: List[Any]) -> Any:
        called = getattr(self, name[1:], None)

        def call(*args: Any) -> int:
            if self.failed is not None:
                return _LAUNCH_FAILURE
            try:
                if called is None:
                    raise UnsupportedError(f"the host code calls `{name[1:]}` of CUDA, which `sm121probe.cute_dsl` does not have")
                return called(*(arg or 0 for arg in args))
            except BaseException as error:  # Also an interrupt: the caller raises it.
                self.failed = error
                return _LAUNCH_FAILURE

        return ctypes.CFUNCTYPE(ctypes.c_int32, *parameters)(call)

    @contextlib.contextmanager
    def launching(self, device: Device, options: Dict[str, Any]) -> Iterator[List[Report]]:
        """Launch on a device, and collect the reports."""
        reports: List[Report] = []
        self._device, self._options, self._reports = device, options, reports
        yield reports

    def _launch(self, handle: int, grid: Any, block: Any, shared: int, arguments: int, **options: Any) -> int:
        __tracebackhide__ = True
        name = self._handles[handle - 1]
        sizes = self._parameters[name]
        places = (ctypes.c_void_p * len(sizes)).from_address(arguments) if sizes else ()
        values = [ctypes.string_at(place, size) for place, size in zip(places, sizes)]
        report = self._module.launch(
            name, tuple(grid), tuple(block), values, smem=shared, device=self._device, **options, **self._options
        )
        self._reports.append(report)
        return _SUCCESS

    # The names of what follows are CUDA's, and the parameters those of the host code's declarations.

    def cudaLaunchKernelEx(self, config: int, kernel: int, arguments: int) -> int:
        __tracebackhide__ = True
        asked = _LaunchConfig.from_address(config)
        options: Dict[str, Any] = {}
        for attribute in asked.attributes[: asked.attribute_count]:
            if attribute.id == _CLUSTER:
                options["cluster"] = tuple(attribute.value[:3])
            elif attribute.id == _COOPERATIVE:
                options["cooperative"] = attribute.value[0] != 0
            elif attribute.id not in _TUNING:
                raise UnsupportedError(f"the launch has the attribute {attribute.id} of `cudaLaunchAttributeID`, which the emulator does not know")
        return self._launch(kernel, asked.grid, asked.block, asked.shared, arguments, **options)

    def cudaLaunchKernel(self, kernel: int, *numbers: int) -> int:
        __tracebackhide__ = True
        grid, block, (arguments, shared, _) = numbers[:3], numbers[3:6], numbers[6:]
        return self._launch(kernel, grid, block, shared, arguments)

    def cudaLibraryLoadData(self, library: int, *ignored: int) -> int:
        ctypes.c_void_p.from_address(library).value = 1
        return _SUCCESS

    def cudaLibraryGetKernel(self, kernel: int, library: int, name: int) -> int:
        wanted = ctypes.string_at(name).decode()
        if wanted not in self._parameters:
            raise LaunchError(f"the host code asks for the kernel {wanted}, but the PTX has {', '.join(self._parameters)}")
        self._handles.append(wanted)
        ctypes.c_void_p.from_address(kernel).value = len(self._handles)
        return _SUCCESS

    def cudaGetDevice(self, device: int) -> int:
        ctypes.c_int32.from_address(device).value = 0
        return _SUCCESS

    def cudaDeviceGetAttribute(self, value: int, attribute: int, device: int) -> int:
        if attribute not in _DEVICE_ATTRIBUTES:
            raise UnsupportedError(f"the host code asks for the attribute {attribute} of `cudaDeviceAttr`, which `sm121probe.cute_dsl` does not have")
        ctypes.c_int32.from_address(value).value = _DEVICE_ATTRIBUTES[attribute]
        return _SUCCESS

    def cuKernelGetAttribute(self, value: int, attribute: int, kernel: int, device: int) -> int:
        if attribute != _STATIC_SHARED:
            raise UnsupportedError(f"the host code asks for the attribute {attribute} of a kernel, which `sm121probe.cute_dsl` does not have")
        # The emulator adds it to the dynamic shared memory and checks the sum.
        ctypes.c_int32.from_address(value).value = 0
        return _SUCCESS

    def cudaFuncSetAttribute(self, kernel: int, attribute: int, value: int) -> int:
        return _SUCCESS

    def cudaKernelSetAttributeForDevice(self, kernel: int, attribute: int, value: int, device: int) -> int:
        return _SUCCESS


#: A function of CUDA that the host code declares and does not define.
_DECLARATION = re.compile(r"^ *llvm\.func @(_cu\w+)\(([^()]*)\) -> i32(?: attributes .*)?$", re.MULTILINE)

_C_TYPES = {"!llvm.ptr": ctypes.c_void_p, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float}


def _declared(code: str) -> Iterator[Tuple[str, List[Any]]]:
    for name, parameters in _DECLARATION.findall(code):
        words = [word.strip() for word in parameters.split(",")] if parameters.strip() else []
        unknown = [word for word in words if word not in _C_TYPES]
        if unknown:
            raise UnsupportedError(f"the host code declares `{name}` with a parameter of the type {unknown[0]}, which `sm121probe.cute_dsl` does not have")
        yield name, [_C_TYPES[word] for word in words]


#: Depth of nested arguments, beyond which nothing is looked for.
_DEPTH = 8


def _runtime_values(value: Any, depth: int = 0) -> Tuple[List[Any], List[Any]]:
    """The tensors and the pointers of CuTe DSL among arguments, also in tuples, dictionaries and fields."""
    from cutlass.cute import runtime

    kind = type(value)
    if kind is runtime._Tensor:
        return [value], []
    if kind is runtime._Pointer:
        return [], [value]
    if depth > _DEPTH or value is None or isinstance(value, (str, bytes, int, float)):
        return [], []
    if isinstance(value, (tuple, list)):
        inner: Sequence[Any] = value
    elif isinstance(value, dict):
        inner = list(value.values())
    elif hasattr(value, "__c_pointers__"):
        inner = list(getattr(value, "__dict__", {}).values())
    else:
        return [], []
    found = [_runtime_values(one, depth + 1) for one in inner]
    return [tensor for tensors, _ in found for tensor in tensors], [pointer for _, pointers in found for pointer in pointers]


def _tensor_of(array: Any) -> Any:
    from cutlass.cute import runtime

    return array if type(array) is runtime._Tensor else runtime.from_dlpack(array)


def _numbers(nested: Any) -> List[int]:
    return [n for one in nested for n in _numbers(one)] if isinstance(nested, (tuple, list)) else [int(nested)]


class _Part:
    """Memory of this process that arguments cover without a gap, and its buffer."""

    def __init__(self, start: int, end: int, dtype: str, item: int, owners: List[Any]):
        self.start, self.end, self.dtype, self.item, self.owners = start, end, dtype, item, owners
        self.address = 0

    def host(self) -> Any:
        """The memory, as the native module takes it."""
        size = self.end - self.start
        dtype, item = (self.dtype, self.item) if size % self.item == 0 else ("uint8", 1)
        return _native.HostArray(self, self.start, (size // item,), (1,), dtype, item)


class _Buffers:
    """The memory that arguments point to: for each part, a buffer of the emulator. Tensors that overlap share one."""

    def __init__(self) -> None:
        self._parts: List[_Part] = []

    def cover(self, tensor: Any) -> None:
        """Add the memory of a tensor."""
        start, end, dtype, item = _span(tensor)
        if start == end:
            return
        owners: List[Any] = [tensor]
        apart = []
        for part in self._parts:
            if part.end <= start or end <= part.start:
                apart.append(part)
                continue
            if part.dtype != dtype:
                dtype, item = "uint8", 1
            start, end, owners = min(start, part.start), max(end, part.end), [*part.owners, *owners]
        self._parts = [*apart, _Part(start, end, dtype, item, owners)]

    @contextlib.contextmanager
    def on(self, device: Device, words: List[int]) -> Iterator[None]:
        """Copy the memory to buffers of a device, let the `words`, which are places of addresses, hold those of the buffers, and undo both."""
        memory, before = device._memory, []
        try:
            for n, part in enumerate(self._parts):
                part.address, _ = memory.allocate(part.host(), f"tensor {n}")
            for word in words:
                place = ctypes.c_uint64.from_address(word)
                for part in self._parts:
                    if part.start <= place.value < part.end:
                        before.append((place, place.value))
                        place.value += part.address - part.start
                        break
            yield
        finally:
            for place, value in before:
                place.value = value
            for part in self._parts:
                if part.address:
                    memory.read(part.address, part.host())
                    memory.free(part.address)


def _span(tensor: Any) -> Tuple[int, int, str, int]:
    """The first address of a tensor's memory, the one after its last, its element type, and the size of that in bytes."""
    start, element = tensor.data_ptr, tensor._dltensor_wrapper.dtype
    shape, strides = _numbers(tensor.shape), _numbers(tensor.stride)
    dtype, bits = _DTYPES.get(element.__name__, "uint8"), int(element.width)
    if not all(shape):
        return start, start, dtype, 1
    reach = [(n - 1) * stride for n, stride in zip(shape, strides)]
    low, high = sum(n for n in reach if n < 0), sum(n for n in reach if n > 0) + 1
    item = max(bits // 8, 1) if element.__name__ in _DTYPES else 1
    return start + low * bits // 8, start - (-high * bits // 8), dtype, item
