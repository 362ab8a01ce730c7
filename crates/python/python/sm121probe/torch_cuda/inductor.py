"""`torch.compile` without a GPU: Inductor's Triton code for CPU memory, launched on the emulator.

Inductor generates Triton code for the tensors of the CPU that stand for those of a GPU. A compiled function runs outside the mode, so that
Dynamo traces PyTorch and nothing of this package; what it returns is "on cuda" if an argument was. Devices that a compiled function names
are translated in its graph. Configurations are chosen by the cost model of `sm121probe.triton.benchmark`.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable, List, Tuple

import torch

from ..triton import benchmark, driver
from .mode import current_device, is_cuda_device, is_marked, mark, suspended

#: What was replaced: the owner, the name, and the value before.
_replaced: List[Tuple[Any, str, Any]] = []

#: The settings of Inductor, which knows this machine's CPU only.
_SETTINGS = {
    "cpu_backend": "triton",
    # Compilers in other processes have no driver.
    "compile_threads": 1,
    # Code for the emulator must not be taken for that of a CPU, nor the reverse.
    "fx_graph_cache": False,
    "autotune_local_cache": False,
    # What is asked for is a Triton kernel, whatever a BLAS of this CPU would cost.
    "max_autotune_gemm_backends": "TRITON",
    "benchmark_epilogue_fusion": False,
    "benchmark_fusion": False,
    "use_static_cuda_launcher": False,
    "triton.cudagraphs": False,
}


def _replace(owner: Any, name: str, value: Any) -> None:
    _replaced.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def activate() -> None:
    """Prepare `torch.compile`; Inductor itself, which takes long to import, when it is first called."""
    before = torch.compile

    @functools.wraps(before)
    def compile(*args: Any, **options: Any) -> Any:
        _prepare()
        return before(*args, **options)

    _replace(torch, "compile", compile)
    if "torch._dynamo" in sys.modules:
        _prepare()


def deactivate() -> None:
    """Undo `activate`."""
    while _replaced:
        owner, name, before = _replaced.pop()
        setattr(owner, name, before)
    if "torch._dynamo" in sys.modules:
        # What was compiled for the emulator must not run without it.
        torch._dynamo.reset()


def _prepare() -> None:
    from torch._dynamo import eval_frame

    if getattr(eval_frame._TorchDynamoContext.__call__, "_sm121probe", False):
        return
    torch._dynamo.reset()
    _replace_devices_of_dynamo()
    _replace_settings()
    _replace_autotuner()
    _replace_entries(eval_frame)


def _replace_entries(eval_frame: Any) -> None:
    before = eval_frame._TorchDynamoContext.__call__

    @functools.wraps(before)
    def call(self: Any, fn: Any) -> Any:
        compiled = before(self, fn)
        if not callable(compiled) or isinstance(compiled, (torch.nn.Module, type, staticmethod)):
            # A module calls its compiled `forward`, which comes here as a function.
            return compiled
        return _outside_the_mode(compiled)

    call._sm121probe = True  # type: ignore[attr-defined]
    _replace(eval_frame._TorchDynamoContext, "__call__", call)


def _outside_the_mode(compiled: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compiled)
    def run(*args: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():
            return compiled(*args, **options)
        with suspended() as was_on:
            tensors = _tensors((args, options))
            # One without tensors, or whose tensors are captured, computes where its author meant: on the GPU.
            on_cuda = was_on and (not tensors or any(map(is_marked, tensors)))
            result = compiled(*args, **options)
            return _mark_all(result) if on_cuda else result

    return run


def _tensors(value: Any) -> List[Any]:
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _mark_all(result: Any) -> Any:
    for tensor in _tensors(result):
        mark(tensor)
    return result


def _replace_devices_of_dynamo() -> None:
    """Translate the devices that compiled functions name: in the tensors that Dynamo traces with, and in the graph."""
    import torch._inductor.compile_fx as compile_fx
    from torch._subclasses import fake_tensor

    dispatch = fake_tensor.FakeTensorMode.dispatch

    @functools.wraps(dispatch)
    def dispatch_on_cpu(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kwargs and is_cuda_device(kwargs.get("device")):
            kwargs = {**kwargs, "device": torch.device("cpu")}
        return dispatch(self, func, types, args, kwargs)

    _replace(fake_tensor.FakeTensorMode, "dispatch", dispatch_on_cpu)
    _replace_run_node()
    before = compile_fx.compile_fx

    @functools.wraps(before)
    def compile_on_cpu(model: Any, *args: Any, **options: Any) -> Any:
        if isinstance(model, torch.fx.GraphModule):
            _translate(model)
        with suspended():
            return before(model, *args, **options)

    _replace(compile_fx, "compile_fx", compile_on_cpu)
    # The backward graph is compiled when it first runs, within autograd.
    for name in ("compile_fx_inner", "_compile_fx_inner"):
        if hasattr(compile_fx, name):
            _replace(compile_fx, name, _suspending(getattr(compile_fx, name)))


def _replace_run_node() -> None:
    """Let Dynamo try each operation on the CPU."""
    import torch._dynamo.utils as utils

    run_node = utils.run_node

    @functools.wraps(run_node)
    def run_on_cpu(tracer: Any, node: Any, args: Any, kwargs: Any, nnmodule: Any) -> Any:
        if node.op == "call_method" and node.target == "cuda":
            return args[0].clone()
        return run_node(tracer, node, _translated(args), _translated(kwargs), nnmodule)

    _replace(utils, "run_node", run_on_cpu)


def _suspending(before: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(before)
    def call(*args: Any, **options: Any) -> Any:
        with suspended():
            return before(*args, **options)

    return call


def _translated(values: Any) -> Any:
    """Arguments with the CPU in the place of CUDA devices."""
    cpu = torch.device("cpu")
    return torch.fx.node.map_aggregate(values, lambda value: cpu if is_cuda_device(value) else value)


def _translate(model: Any) -> None:
    """Replace the CUDA devices in a graph of Dynamo by the CPU."""
    for module in model.modules():
        graph = getattr(module, "graph", None)
        if graph is None:
            continue
        for node in graph.nodes:
            node.args, node.kwargs = _translated(node.args), _translated(node.kwargs)
            if node.op == "call_method" and node.target == "cuda":
                node.target, node.args = "cpu", node.args[:1]
        module.recompile()


def _replace_settings() -> None:
    import torch._inductor.config as config

    for name, value in _SETTINGS.items():
        owner, _, last = name.rpartition(".")
        holder = getattr(config, owner) if owner else config
        if hasattr(holder, last):
            _replace(holder, last, value)


def _properties() -> Any:
    """What the heuristics of Inductor know of the device."""
    from torch._inductor.runtime.hints import DeviceProperties

    properties = torch.cuda.get_device_properties()
    known = {
        "type": "cuda",
        "index": 0,
        "multi_processor_count": driver.MULTIPROCESSORS,
        "cc": 10 * properties.major + properties.minor,
        "major": properties.major,
        "regs_per_multiprocessor": properties.regs_per_multiprocessor,
        "max_threads_per_multi_processor": properties.max_threads_per_multi_processor,
        "max_threads_per_block": properties.max_threads_per_block,
        "warp_size": 32,
    }
    return DeviceProperties(**{name: value for name, value in known.items() if name in DeviceProperties._fields})


def _replace_autotuner() -> None:
    import torch._dynamo.device_interface as device_interface
    from torch._inductor.runtime import hints, triton_helpers, triton_heuristics

    # The active driver is the emulator's.
    for name in ("set_driver_to_cpu", "set_driver_to_gpu"):
        if hasattr(triton_helpers, name):
            _replace(triton_helpers, name, lambda: None)
    _replace(hints.DeviceProperties, "create", lambda device: _properties())
    interface = device_interface.CudaInterface
    for name, value in {
        "current_device": lambda: current_device().index,
        "set_device": lambda device: None,
        "exchange_device": lambda device: current_device().index,
        "maybe_exchange_device": lambda device: current_device().index,
        "device_count": lambda: 1,
        "synchronize": lambda device=None: None,
        "get_raw_stream": lambda device: 0,
        "memory_allocated": lambda device=None: 0,
        "get_device_properties": lambda device=None: torch.cuda.get_device_properties(),
        "current_stream": lambda device=None: torch.cuda.current_stream(),
        "is_bf16_supported": lambda including_emulation=True: True,
    }.items():
        if hasattr(interface, name):
            _replaced.append((interface, name, interface.__dict__[name]))
            setattr(interface, name, staticmethod(value))
    for name, value in {"raise_if_triton_unavailable": lambda device=None: None, "is_triton_capable": lambda device=None: True}.items():
        if hasattr(device_interface.CpuInterface, name):
            _replaced.append((device_interface.CpuInterface, name, device_interface.CpuInterface.__dict__[name]))
            setattr(device_interface.CpuInterface, name, staticmethod(value))
    _replace(triton_heuristics.CachingAutotuner, "bench", _bench)
    with contextlib.suppress(ImportError):
        from torch._inductor.runtime import benchmarking

        for kind in vars(benchmarking).values():
            if isinstance(kind, type) and issubclass(kind, benchmarking.Benchmarker):
                for name in ("benchmark_cpu", "benchmark_gpu"):
                    if name in vars(kind):
                        _replace(kind, name, _benchmark)


def _benchmark(self: Any, call: Callable[[], Any], *args: Any, **options: Any) -> float:
    """Take the place of the methods of Inductor's benchmarkers: the cost of one run."""
    return benchmark.cost(call)


def _bench(self: Any, launcher: Any, *args: Any, with_profiler: bool = False, **options: Any) -> float:
    """Take the place of `CachingAutotuner.bench`: the cost of one run on copies of what the kernel changes."""

    def call() -> None:
        with contextlib.suppress(AttributeError):
            self.reset_to_zero_args(*args, **options)
        copies, named = self.maybe_clone_args((), *args, **options)
        launcher(*copies, **named, stream=0)

    return benchmark.cost(call)
