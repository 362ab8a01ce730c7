"""Custom operators of `torch.library`: their functions in Python run inside the mode, and what is registered for CUDA takes tensors of the CPU.

The dispatcher calls an operator's function past the mode, which the call of the operator has left. The function must be in the mode
again to create tensors "on cuda" and to launch kernels on them.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from .mode import CudaOnCpu


def in_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function run inside the mode, while the emulation is active."""
    if getattr(function, "_sm121probe_in_mode", False):
        return function

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        from . import is_active

        modes = torch.overrides._get_current_function_mode_stack()
        if not is_active() or torch.compiler.is_compiling() or any(isinstance(mode, CudaOnCpu) for mode in modes):
            return function(*args, **options)
        with CudaOnCpu():
            return function(*args, **options)

    run._sm121probe_in_mode = True  # type: ignore[attr-defined]
    return run


def _with_cpu(device_types: Any) -> Any:
    """The device types of a registration, with the CPU for CUDA."""
    if device_types is None:
        return None
    named = [device_types] if isinstance(device_types, str) else list(device_types)
    return list(dict.fromkeys("cpu" if name == "cuda" else name for name in named))


def activate(replace: Callable[[Any, str, Any], None]) -> None:
    """Replace what registers operators; `replace` restores it later."""
    try:
        from torch._library.custom_ops import CustomOpDef
    except ImportError:
        # Before PyTorch 2.4.
        return
    init, register, impl = CustomOpDef.__init__, CustomOpDef.register_kernel, torch.library.Library.impl

    @functools.wraps(init)
    def define(self: Any, namespace: Any, name: Any, schema: Any, fn: Any, *args: Any, **options: Any) -> None:
        init(self, namespace, name, schema, in_mode(fn), *args, **options)

    @functools.wraps(register)
    def register_kernel(self: Any, device_types: Any, fn: Any = None, /) -> Any:
        types = _with_cpu(device_types)
        if fn is not None:
            return register(self, types, in_mode(fn))
        return lambda fn: register(self, types, in_mode(fn))

    @functools.wraps(impl)
    def implement(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
        if callable(fn) and dispatch_key in ("CUDA", "CPU", "CompositeExplicitAutograd"):
            fn = in_mode(fn)
        return impl(self, op_name, fn, "CPU" if dispatch_key == "CUDA" else dispatch_key, **options)

    replace(CustomOpDef, "__init__", define)
    replace(CustomOpDef, "register_kernel", register_kernel)
    replace(torch.library.Library, "impl", implement)
