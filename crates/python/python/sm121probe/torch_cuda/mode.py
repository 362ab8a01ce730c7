"""The mode that makes ``device="cuda"`` a mark on CPU memory.

Every function of PyTorch that Python calls comes through the mode. The mark is an attribute of the storage, which all views share and which
lives as long as the memory. A result is marked if an argument is, or if its device was asked for by name.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, Optional

import torch
from torch.overrides import TorchFunctionMode

#: The attribute of a storage that is "on cuda".
_MARK = "_sm121probe_cuda"


def current_device() -> Any:
    """The device of new tensors "on cuda"."""
    from triton.runtime import driver

    return torch.device("cuda", driver.active.get_current_device())


def is_marked(tensor: Any) -> bool:
    """Whether a tensor is "on cuda". Call it outside the mode."""
    try:
        if hasattr(tensor.untyped_storage(), _MARK):
            return True
    except (RuntimeError, NotImplementedError):
        # Sparse or fake: it has no storage.
        return False
    if torch._C._current_graph_task_id() != -1:
        # Gradients come from the engine of autograd, past the mode. What a backward function receives is where the forward pass was.
        mark(tensor)
        return True
    return False


def mark(value: Any) -> Any:
    """Put a tensor, or those in tuples, lists and dictionaries, "on cuda"; return it."""
    if isinstance(value, torch.Tensor):
        with contextlib.suppress(RuntimeError, NotImplementedError):
            setattr(value.untyped_storage(), _MARK, True)
    elif isinstance(value, (tuple, list)):
        for item in value:
            mark(item)
    elif isinstance(value, dict):
        for item in value.values():
            mark(item)
    return value


def _has_marked(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return is_marked(value)
    return isinstance(value, (tuple, list)) and any(_has_marked(item) for item in value)


def is_cuda_device(value: Any) -> bool:
    """Whether a value names a CUDA device."""
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, torch.device) and value.type == "cuda"


_CPU = torch.device("cpu")


def _device_get(args: tuple, kwargs: dict) -> Any:
    (tensor,) = args
    return current_device() if is_marked(tensor) else tensor.device


def _is_cuda_get(args: tuple, kwargs: dict) -> bool:
    (tensor,) = args
    return is_marked(tensor) or tensor.is_cuda


def _is_cpu_get(args: tuple, kwargs: dict) -> bool:
    (tensor,) = args
    return tensor.is_cpu and not is_marked(tensor)


def _get_device(args: tuple, kwargs: dict) -> int:
    return current_device().index if is_marked(args[0]) else args[0].get_device()


def _grad_get(args: tuple, kwargs: dict) -> Any:
    (tensor,) = args
    gradient = tensor.grad
    return mark(gradient) if gradient is not None and is_marked(tensor) else gradient


def _copied_from(source: Any, result: Any) -> Any:
    """`result`, which is elsewhere than `source`: a copy, where PyTorch saw no reason for one."""
    if not isinstance(result, torch.Tensor) or result.untyped_storage()._cdata != source.untyped_storage()._cdata:
        return result
    return result.clone()


def _cpu(args: tuple, kwargs: dict) -> Any:
    source = args[0]
    result = source.cpu(*args[1:], **kwargs)
    return _copied_from(source, result) if is_marked(source) else result


def _cuda(args: tuple, kwargs: dict) -> Any:
    source = args[0]
    return source if is_marked(source) else mark(source.clone())


def _to(args: tuple, kwargs: dict) -> Any:
    source, rest, named = args[0], list(args[1:]), dict(kwargs)
    asked = named.get("device", rest[0] if rest else None)
    if isinstance(asked, int) and not isinstance(asked, bool):
        asked = torch.device("cuda", asked)
    other = named.get("other", asked)
    if isinstance(other, torch.Tensor):
        target: Optional[bool] = is_marked(other)
    elif isinstance(asked, (str, torch.device)):
        target = is_cuda_device(asked)
        if target and "device" in named:
            named["device"] = _CPU
        elif target:
            rest[0] = _CPU
    else:
        target = None
    result = source.to(*rest, **named)
    was = is_marked(source)
    if target is None or target == was:
        return mark(result) if was else result
    result = _copied_from(source, result)
    return mark(result) if target else result


def _unchanged(args: tuple, kwargs: dict) -> Any:
    return args[0]


def _none(args: tuple, kwargs: dict) -> None:
    return None


def _false(args: tuple, kwargs: dict) -> bool:
    return False


_HANDLERS: Dict[Any, Callable[[tuple, dict], Any]] = {
    torch.Tensor.device.__get__: _device_get,
    torch.Tensor.is_cuda.__get__: _is_cuda_get,
    torch.Tensor.is_cpu.__get__: _is_cpu_get,
    torch.Tensor.grad.__get__: _grad_get,
    torch.Tensor.get_device: _get_device,
    torch.get_device: _get_device,
    torch.Tensor.cpu: _cpu,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.to: _to,
    torch.Tensor.pin_memory: _unchanged,
    torch.Tensor.is_pinned: _false,
    torch.Tensor.record_stream: _none,
}

#: Getters and methods that return no tensor, called often: nothing is looked at.
_PLAIN = {
    torch.device,
    torch._C._nn._parse_to,
    torch.Tensor.shape.__get__, torch.Tensor.dtype.__get__, torch.Tensor.data_ptr, torch.Tensor.stride, torch.Tensor.size,
    torch.Tensor.numel, torch.Tensor.element_size, torch.Tensor.is_contiguous, torch.Tensor.dim, torch.Tensor.item, torch.Tensor.tolist,
    torch.Tensor.numpy, torch.Tensor.untyped_storage, torch.Tensor.requires_grad.__get__, torch.Tensor.layout.__get__,
    torch.Tensor.ndim.__get__, torch.Tensor.storage_offset,
}  # fmt: skip


#: Matrix products. cuBLAS sums products of fp16 in binary32 and rounds once; PyTorch's own loop for the CPU is a hundred times slower than in binary32.
_PRODUCTS = {
    torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.baddbmm, torch.nn.functional.linear,
    torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.bmm, torch.Tensor.addmm, torch.Tensor.baddbmm, torch.Tensor.__matmul__,
    torch.Tensor.__rmatmul__,
}  # fmt: skip


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float16


def _product(func: Any, args: tuple, kwargs: dict) -> Any:
    """Compute a product of matrices, of fp16 as cuBLAS does."""
    operands = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    if not all(_is_half(value) for value in operands) or "out" in kwargs or torch.compiler.is_compiling():
        return func(*args, **kwargs)
    args = tuple(value.float() if _is_half(value) else value for value in args)
    kwargs = {name: value.float() if _is_half(value) else value for name, value in kwargs.items()}
    return func(*args, **kwargs).half()


class CudaOnCpu(TorchFunctionMode):
    """Translates what Python asks of PyTorch for "cuda"."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _PLAIN:
            return func(*args, **kwargs)
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(args, kwargs)
        asked = False
        device = kwargs.get("device")
        if device is not None and (is_cuda_device(device) or isinstance(device, int)):
            kwargs, asked = {**kwargs, "device": _CPU}, True
        named_cpu = device is not None and not asked
        for n, value in enumerate(args):
            if isinstance(value, torch.device) and value.type == "cuda":
                args, asked = (*args[:n], _CPU, *args[n + 1 :]), True
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        result = _product(func, args, kwargs) if func in _PRODUCTS else func(*args, **kwargs)
        if result is None or isinstance(result, (bool, int, float, str)):
            return result
        if asked or (not named_cpu and any(_has_marked(value) for value in (*args, *kwargs.values()))):
            return mark(result)
        return result


class _Suspensions(threading.local):
    """How many callers have taken the mode off, in each thread."""

    count = 0


_suspensions = _Suspensions()


def is_suspended() -> bool:
    """Whether the mode is off on purpose in this thread."""
    return _suspensions.count > 0


@contextlib.contextmanager
def suspended() -> Iterator[bool]:
    """Take the mode off for a while; the value says whether it was on."""
    taken = []
    while torch._C._len_torch_function_stack():
        taken.append(torch._C._pop_torch_function_stack())
    was_on = any(isinstance(one, CudaOnCpu) for one in taken)
    kept = [one for one in reversed(taken) if not isinstance(one, CudaOnCpu)]
    for one in kept:
        torch._C._push_on_torch_function_stack(one)
    _suspensions.count += 1
    try:
        yield was_on
    finally:
        _suspensions.count -= 1
        for _ in kept:
            torch._C._pop_torch_function_stack()
        for one in reversed(taken):
            torch._C._push_on_torch_function_stack(one)
