"""`torch.cuda` without a driver: queries, streams, events and seeds of a device that runs everything at once, in order."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..errors import UnsupportedError
from ..triton import benchmark, driver
from . import cublas, operators
from .mode import CudaOnCpu, current_device, is_cuda_device, is_suspended, mark, suspended

#: Bytes of the memory that the emulated device states.
_MEMORY = 32 << 30

#: The element types of tensors "on cuda".
_DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128")

#: What was replaced: the owner, the name, and the value before, or nothing.
_replaced: List[Tuple[Any, str, Tuple[Any, ...]]] = []


class Properties:
    """What `torch.cuda.get_device_properties` returns."""

    def __init__(self, architecture: int):
        self.major, self.minor = divmod(architecture, 10)
        self.name = _name(architecture)
        self.multi_processor_count = driver.MULTIPROCESSORS
        self.total_memory = _MEMORY
        self.warp_size = 32
        self.regs_per_multiprocessor = 65_536
        self.max_threads_per_multi_processor = 1536
        self.max_threads_per_block = 1024
        self.shared_memory_per_block = 49_152
        self.shared_memory_per_block_optin = driver.device_properties(architecture)["max_shared_mem"]
        self.shared_memory_per_multiprocessor = self.shared_memory_per_block_optin + 1024
        self.L2_cache_size = 24 << 20
        self.is_integrated = self.is_multi_gpu_board = 0
        self.clock_rate, self.memory_clock_rate, self.memory_bus_width = 2_400_000, 4_266_000, 256
        self.gcnArchName = ""
        self.pci_bus_id = self.pci_domain_id = self.pci_device_id = 0
        self.uuid = "00000000-0000-0000-0000-000000000000"

    def __repr__(self) -> str:
        return f"Properties(name={self.name!r}, major={self.major}, minor={self.minor}, multi_processor_count={self.multi_processor_count})"


def _name(architecture: int) -> str:
    return f"sm121probe emulator (sm_{architecture})"


class Stream:
    """A stream, whose work is done when it is submitted."""

    cuda_stream = 0
    stream_id = 0
    native_handle = 0
    _as_parameter_ = ctypes.c_void_p(0)

    def __init__(self, device: Any = None, priority: int = 0, **options: Any):
        self.device, self.priority = current_device(), priority
        self.device_index, self.device_type = self.device.index, 1

    def synchronize(self) -> None:
        """Do nothing: all work is done."""

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: all work is done."""

    def wait_event(self, event: Any) -> None:
        """Do nothing: all work is done."""

    def query(self) -> bool:
        """Return whether all work is done; it is."""
        return True

    def is_capturing(self) -> bool:
        """Return whether a graph records the stream; none does."""
        return False

    @staticmethod
    def priority_range() -> Tuple[int, int]:
        """Return the lowest and the highest priority, which do not matter."""
        return 0, -5

    def record_event(self, event: Any = None) -> Any:
        """Record an event."""
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *raised: Any) -> None:
        pass


class ExternalStream(Stream):
    """A stream of another library."""

    def __init__(self, stream_ptr: int = 0, device: Any = None, **options: Any):
        super().__init__(device)
        self.cuda_stream = stream_ptr


class Event(benchmark.Event):
    """An event of a stream, in this process only."""

    cuda_event = 0
    event_id = 0
    _as_parameter_ = ctypes.c_void_p(0)

    @property
    def device(self) -> Any:
        """Return the device."""
        return current_device()

    def ipc_handle(self) -> bytes:
        """Raise `UnsupportedError`."""
        raise UnsupportedError("events of other processes are not emulated: `ipc_handle` has nothing to export; use one process")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> "Event":
        """Raise `UnsupportedError`."""
        raise UnsupportedError("events of other processes are not emulated: `from_ipc_handle` has nothing to open; use one process")


class StreamContext:
    """`torch.cuda.stream`."""

    def __init__(self, stream: Any = None):
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: Any) -> None:
        pass


class DeviceContext:
    """`torch.cuda.device` and `torch.cuda.device_of`."""

    def __init__(self, device: Any = None):
        self.idx, self.prev_idx = _index(device), current_device().index

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: Any) -> bool:
        return False


def _index(device: Any) -> int:
    if isinstance(device, torch.Tensor) or device is None:
        return current_device().index
    number = device if isinstance(device, int) else torch.device(device).index
    if number is None or number < 0:
        return current_device().index
    if number >= _device_count():
        raise RuntimeError(f"CUDA error: invalid device ordinal {number}: the emulator has {_device_count()}")
    return number


def _device_count() -> int:
    return max(driver._devices.values(), default=0) + 1


class Graph:
    """`torch.cuda.CUDAGraph` and `torch.cuda.graph`, which cannot be."""

    def __init__(self, *args: Any, **options: Any):
        raise UnsupportedError("CUDA graphs are not emulated: PyTorch's operations run on the CPU and cannot be recorded; call the function itself")


class _InstancesOfGenerator(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class Generator(metaclass=_InstancesOfGenerator):
    """`torch.Generator`, whose random numbers are always the CPU's."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator(device="cpu" if is_cuda_device(device) else device)


def _always(value: Any) -> Callable[..., Any]:
    # Each time another function: Dynamo has a rule for each of PyTorch's functions, and finds it by the function.
    return lambda *args, **options: value


def _refused(name: str, library: str, instead: str) -> Callable[..., Any]:
    def refuse(*args: Any, **options: Any) -> Any:
        raise UnsupportedError(f"`{name}` is not emulated: there is no {library}; {instead}")

    return refuse


def _replacements(architecture: int) -> Dict[str, Any]:
    properties = Properties(architecture)
    generator = torch.default_generator
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _always(None),
        "_lazy_init": _always(None),
        "_lazy_call": lambda call, **options: call(),
        "device_count": lambda: _device_count(),
        "_device_count_nvml": lambda: _device_count(),
        "current_device": lambda: current_device().index,
        "set_device": lambda device: None if _index(device) >= 0 else None,
        "device": DeviceContext,
        "device_of": type("device_of", (DeviceContext,), {}),
        "_DeviceGuard": type("_DeviceGuard", (DeviceContext,), {}),
        "_exchange_device": lambda device: current_device().index,
        "_maybe_exchange_device": lambda device: current_device().index,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [f"sm_{architecture}"],
        "get_gencode_flags": lambda: f"-gencode compute=compute_{architecture},code=sm_{architecture}",
        "can_device_access_peer": lambda device, peer: False,
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "synchronize": _always(None),
        "ipc_collect": _always(None),
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "StreamContext": StreamContext,
        "Event": Event,
        "stream": lambda stream: StreamContext(stream),
        "set_stream": _always(None),
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "CUDAGraph": Graph,
        "graph": type("graph", (Graph,), {}),
        "_sleep": _always(None),
        "empty_cache": _always(None),
        "memory_allocated": _always(0),
        "max_memory_allocated": _always(0),
        "memory_reserved": _always(0),
        "max_memory_reserved": _always(0),
        "reset_peak_memory_stats": _always(None),
        "reset_max_memory_allocated": _always(None),
        "reset_accumulated_memory_stats": _always(None),
        "memory_stats": lambda device=None: {},
        "memory_summary": lambda *args, **options: "the emulator's memory is the CPU's",
        "mem_get_info": lambda device=None: (_MEMORY, _MEMORY),
        "memory_stats_as_nested_dict": lambda device=None: {},
        "set_per_process_memory_fraction": _always(None),
        "get_per_process_memory_fraction": _always(1.0),
        "get_stream_from_external": lambda data_ptr, device=None: ExternalStream(data_ptr, device),
        "current_blas_handle": _refused("torch.cuda.current_blas_handle", "cuBLAS", "call PyTorch's own operations"),
        "current_solver_handle": _refused("torch.cuda.current_solver_handle", "cuSOLVER", "call PyTorch's own operations"),
        "manual_seed": lambda seed: generator.manual_seed(seed) and None,
        # `torch.manual_seed` has seeded the CPU before it calls this.
        "manual_seed_all": _always(None),
        "seed": lambda: generator.seed() and None,
        "seed_all": _always(None),
        "initial_seed": lambda: generator.initial_seed(),
        "get_rng_state": lambda device="cuda": generator.get_state(),
        "set_rng_state": lambda state, device="cuda": generator.set_state(state) and None,
        "get_rng_state_all": lambda: [generator.get_state()],
        "set_rng_state_all": lambda states: generator.set_state(states[0]) and None,
    }


def _replace(owner: Any, name: str, value: Any) -> None:
    before = (getattr(owner, name),) if hasattr(owner, name) else ()
    _replaced.append((owner, name, before))
    setattr(owner, name, value)


def _replace_accelerator() -> None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    for name, value in {
        # Dynamo, which runs outside the mode, would keep streams that only a GPU has.
        "is_available": lambda: not is_suspended(),
        "current_accelerator": lambda check_available=False: None if is_suspended() else torch.device("cuda"),
        "device_count": _device_count,
        "current_device_index": lambda: current_device().index,
        "current_device_idx": lambda: current_device().index,
        "set_device_index": lambda device: None,
        "set_device_idx": lambda device: None,
        "get_memory_info": lambda device=None: (_MEMORY, _MEMORY),
        "get_device_capability": lambda device=None: {"supported_dtypes": {getattr(torch, name) for name in _DTYPES}},
        "current_stream": lambda device=None: Stream(),
        "set_stream": lambda stream: None,
        "synchronize": lambda device=None: None,
    }.items():
        if hasattr(accelerator, name):
            _replace(accelerator, name, value)


def _replace_autocast() -> None:
    init = torch.autocast.__init__

    def on_cpu(self: Any, device_type: str = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        if device_type == "cuda":
            dtype = dtype or torch.get_autocast_dtype("cuda")
            device_type = "cpu"
        init(self, device_type, dtype, enabled, cache_enabled)

    _replace(torch.autocast, "__init__", on_cpu)


def _replace_default_device() -> None:
    """Let `torch.set_default_device("cuda")` and `with torch.device("cuda")` mark what they create."""
    from torch.utils import _device

    before = _device.DeviceContext.__torch_function__

    def marked(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.device.type != "cuda" or func not in _device._device_constructors() or kwargs.get("device") is not None:
            return before(self, func, types, args, kwargs) if self.device.type != "cuda" else func(*args, **kwargs)
        return mark(func(*args, **{**kwargs, "device": torch.device("cpu")}))

    _replace(_device.DeviceContext, "__torch_function__", marked)


def _replace_engine() -> None:
    """Let autograd run backward functions inside the mode: `Tensor.backward` and `torch.autograd.grad` are called outside of it."""
    for module in (torch.autograd.graph, torch.autograd):
        before = getattr(module, "_engine_run_backward", None)
        if before is not None:
            _replace(module, "_engine_run_backward", functools.partial(_run_backward, before))


def _run_backward(before: Callable[..., Any], *args: Any, **options: Any) -> Any:
    if is_suspended() or any(isinstance(mode, CudaOnCpu) for mode in torch.overrides._get_current_function_mode_stack()):
        return before(*args, **options)
    with CudaOnCpu():
        return before(*args, **options)


def _replace_threads() -> None:
    """Let threads begin in the mode, which belongs to one thread: autotuning, loaders of data, pools."""
    before = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap(self: Any) -> None:
        if is_suspended_at_start.pop(self, False):
            before(self)
            return
        with CudaOnCpu():
            before(self)

    start = threading.Thread.start
    is_suspended_at_start: "weakref.WeakKeyDictionary[Any, bool]" = weakref.WeakKeyDictionary()

    def noting(self: Any) -> None:
        is_suspended_at_start[self] = is_suspended()
        start(self)

    _replace(threading.Thread, "start", noting)
    _replace(threading.Thread, "_bootstrap_inner", bootstrap)


def _replace_load() -> None:
    before = torch.load

    @functools.wraps(before)
    def load(f: Any, map_location: Any = None, *args: Any, **options: Any) -> Any:
        if not is_cuda_device(map_location):
            return before(f, map_location, *args, **options)
        return mark(before(f, "cpu", *args, **options))

    _replace(torch, "load", load)


def _replace_checkpoints() -> None:
    """Compare the tensors of a checkpoint outside the mode: they are saved outside, and computed again inside."""
    import torch.utils.checkpoint as checkpoint

    known = getattr(checkpoint, "_allowed_determinism_checks_to_fns", {})
    before = known.get("default")
    if before is None:
        return

    def metadata(tensor: Any) -> Any:
        with suspended():
            return before(tensor)

    _replace(checkpoint, "_allowed_determinism_checks_to_fns", {**known, "default": metadata})


def activate(architecture: int) -> None:
    """Replace `torch.cuda`'s functions for a device of this architecture."""
    deactivate()
    replacements = _replacements(architecture)
    for name, value in replacements.items():
        if hasattr(torch.cuda, name):
            _replace(torch.cuda, name, value)
        for module in (torch.cuda.memory, torch.cuda.streams, torch.cuda.random, torch.cuda.graphs):
            if module.__dict__.get(name) is not None and not name.startswith("__"):
                _replace(module, name, value)
    for name in ("range_push", "range_pop", "mark"):
        _replace(torch.cuda.nvtx, name, lambda *args: 0)
    _replace(torch.cuda.nvtx, "range", lambda *args, **options: contextlib.nullcontext())
    for name, value in {
        "_cuda_getCurrentRawStream": lambda device: 0,
        "_cuda_getDevice": lambda: current_device().index,
        "_cuda_setDevice": lambda device: None,
        "_cuda_exchangeDevice": lambda device: current_device().index,
        "_cuda_maybeExchangeDevice": lambda device: current_device().index,
        "_cuda_isCurrentStreamCapturing": lambda: False,
    }.items():
        _replace(torch._C, name, value)
    if torch.version.cuda is None:
        _replace(torch.version, "cuda", "13.0")
    _replace(torch, "Generator", Generator)
    _replace_accelerator()
    _replace_autocast()
    _replace_default_device()
    _replace_engine()
    _replace_threads()
    _replace_load()
    _replace_checkpoints()
    operators.activate(_replace)
    cublas.activate(_replace)
    # cuDNN's layouts of weights are for a GPU.
    _replace(torch.backends.cudnn, "is_acceptable", lambda tensor: False)


def deactivate() -> None:
    """Restore PyTorch."""
    while _replaced:
        owner, name, before = _replaced.pop()
        if before:
            setattr(owner, name, before[0])
        else:
            delattr(owner, name)
