"""Where a wrong element comes from: the instruction that wrote it last, in a launch that runs again.

The last 32 launches are kept, with up to 64 MiB of the memory before them (`sm121probe.assert_allclose`).
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from . import _native
from .device import DeviceArray, _copies

def last_write(of: Any, index: Sequence[int]) -> Optional[str]:
    """Return which instruction of an emulated launch wrote an element last, with the values that it used, or in one sentence why that is not
    known; `None` if no launch had the memory of `of`.

    `of` is a `DeviceArray`, what its `numpy()` returned, an array of NumPy, a tensor of PyTorch in CPU memory or a `triton.Tensor`. The launch
    runs again, which takes a few times as long as it took.
    """
    index = tuple(int(n) for n in index)
    place = _place(of, index)
    if place is None:
        return None
    memory, address, found = place
    return _native.last_write(memory, address, found, f"[{','.join(map(str, index))}]")


def _place(of: Any, index: Tuple[int, ...]) -> Optional[Tuple[Any, int, bytes]]:
    """The memory of an element, its address, and its bytes."""
    import numpy

    of = getattr(of, "array", of)
    if isinstance(of, DeviceArray):
        array = of.numpy(unwritten="keep")
        flat = int(numpy.ravel_multi_index(index, array.shape)) if index else 0
        return of.device._memory, of.address + flat * array.itemsize, array[index].tobytes()
    if hasattr(of, "data_ptr"):
        return _place_of_tensor(of, index)
    if not isinstance(of, numpy.ndarray):
        return None
    address = of.__array_interface__["data"][0] + sum(n * stride for n, stride in zip(index, of.strides))
    bytes_there = of[index].tobytes()
    base: Any = of
    while isinstance(base, numpy.ndarray):
        reference, buffer = _copies.get(id(base), (None, None))
        if reference is not None and buffer is not None and reference() is base:
            # A view of a copy begins somewhere in it.
            return buffer.device._memory, buffer.address + address - base.__array_interface__["data"][0], bytes_there
        base = base.base
    return None, address, bytes_there


def _place_of_tensor(of: Any, index: Tuple[int, ...]) -> Optional[Tuple[Any, int, bytes]]:
    import torch

    with torch._C.DisableTorchFunction():
        if of.device.type != "cpu" or of.layout != torch.strided:
            return None
        size = of.element_size()
        address = of.data_ptr() + size * sum(n * stride for n, stride in zip(index, of.stride()))
        element = of.detach()[index].reshape(1).contiguous().view(torch.uint8)
        return None, address, bytes(element.tolist())


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 0.0, *, equal_nan: bool = True) -> None:
    """`numpy.testing.assert_allclose`, also for a `DeviceArray` or a tensor of PyTorch: the message names, too, which instruction of an
    emulated launch wrote the first wrong element last, with the values that it used.

    For that the launch runs again. The last 32 launches are kept, with their arguments and up to 64 MiB of the memory before them. Where that
    does not suffice, or the host has changed the element since, the message says so. Arrays of 1 MiB and more are kept if a copy of
    them takes little beside the launch: 16 bytes for each of its warp instructions.
    """
    __tracebackhide__ = True
    import numpy

    values, wanted = _values(actual), _values(desired)
    try:
        numpy.testing.assert_allclose(values, wanted, rtol, atol, equal_nan=equal_nan)
    except AssertionError as error:
        said = None
        if numpy.shape(wanted) in ((), values.shape):
            wrong = numpy.argwhere(~numpy.isclose(values, wanted, rtol, atol, equal_nan=equal_nan))
            said = last_write(actual, wrong[0]) if len(wrong) else None
        if said is None:
            raise
        raise AssertionError(f"{error}\n{said}") from None


def _values(of: Any) -> Any:
    import numpy

    of = getattr(of, "array", of)
    if isinstance(of, DeviceArray):
        return of.numpy()
    if hasattr(of, "detach"):
        of = of.detach().cpu()
        return (of.float() if str(of.dtype) == "torch.bfloat16" else of).numpy()
    return numpy.asarray(of)


def of_failed_assertion(traceback: Any, message: str) -> Optional[str]:
    """What `last_write` says of the first wrong element of a failed assertion of NumPy's or PyTorch's `testing`, from its traceback."""
    import re

    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
        function = frame.f_globals.get("__name__", "").partition(".")[0], frame.f_code.co_name
        local = frame.f_locals
        actual = local.get("actual", local.get("x"))
        if function == ("torch", "assert_close") and hasattr(actual, "data_ptr"):
            # The element that PyTorch names is that of the greatest difference.
            named = re.search(r"at index \(([\d, ]*)\)", message)
            return last_write(actual, [int(n) for n in named[1].split(",") if n.strip()]) if named else None
        if function in (("numpy", "assert_allclose"), ("numpy", "assert_array_equal"), ("numpy", "assert_equal")):
            return _of_numpy(actual, local.get("desired", local.get("y")), local.get("rtol", 0.0), local.get("atol", 0.0))
    return None


def _of_numpy(actual: Any, desired: Any, rtol: float, atol: float) -> Optional[str]:
    import numpy

    if not isinstance(actual, numpy.ndarray) or numpy.shape(desired) not in ((), actual.shape):
        return None
    try:
        wrong = numpy.argwhere(~numpy.isclose(actual, desired, rtol, atol, equal_nan=True))
    except TypeError:
        # Elements without a difference, such as records.
        return None
    return last_write(actual, wrong[0]) if len(wrong) else None
