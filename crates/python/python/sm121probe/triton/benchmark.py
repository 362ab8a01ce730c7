"""Benchmarks under emulation: a cost model in the place of times.

The cost of a call is the number of warp instructions that its launches execute, and one instruction counts as a microsecond. These are no
times: they do not know latencies, caches or occupancy. They are the same on every run, so that autotuning chooses the same configuration
everywhere: the one with the fewest instructions, and the first of those. What PyTorch computes has no instructions; it counts as one, so that
a rate of it is a number.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, List, Optional, Sequence, Union

from ..errors import CostWarning

#: Milliseconds of one warp instruction.
_MILLISECONDS = 1e-3

#: Warp instructions of all launches of this process.
executed = 0

#: The number of benchmarks that run: their launches are counted, not judged.
_running = 0

_NOTE = (
    "the emulator measures no times: this cost counts emulated warp instructions, one as a microsecond, and what PyTorch computes as one; what is "
    "benchmarked runs once, without checks"
)


def is_running() -> bool:
    """Whether launches belong to a benchmark."""
    return _running > 0


#: What is told of each launch: the name of its kernel and its instructions.
listeners: List[Callable[[str, int], None]] = []


def count(kernel: str, instructions: int) -> None:
    """Count the instructions of a launch of this kernel."""
    global executed
    executed += instructions
    for listener in listeners:
        listener(kernel, instructions)


def _milliseconds(instructions: int) -> float:
    """Return what instructions cost; a benchmark divides by it."""
    return max(instructions, 1) * _MILLISECONDS


def cost(call: Callable[[], Any]) -> float:
    """Run `call` once, and return what it costs, in milliseconds of the model."""
    global _running
    before = executed
    _running += 1
    try:
        call()
    finally:
        _running -= 1
    return _milliseconds(executed - before)


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Optional[Sequence[Any]] = None,
    quantiles: Optional[Sequence[float]] = None,
    return_mode: str = "mean",
    **ignored: Any,
) -> Union[float, List[float]]:
    """Take the place of `triton.testing.do_bench`: every quantile and every mean is the cost of one call."""
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ValueError(f"return_mode={return_mode!r} is none of min, max, mean, median, all")
    for tensor in grad_to_none or ():
        tensor.grad = None
    found = cost(fn)
    warnings.warn(_NOTE, CostWarning, stacklevel=2)
    if quantiles is not None:
        return found if len(quantiles) == 1 else [found] * len(quantiles)
    return [found] if return_mode == "all" else found


def do_bench_cudagraph(fn: Callable[[], Any], rep: float = 20, grad_to_none: Any = None, quantiles: Any = None, return_mode: str = "mean"):
    """Take the place of `triton.testing.do_bench_cudagraph`; no graph is recorded."""
    return do_bench(fn, rep=rep, grad_to_none=grad_to_none, quantiles=quantiles, return_mode=return_mode)


class Event:
    """An event of a stream. The time between two is the cost of what was launched between them."""

    def __init__(self, *args: Any, **options: Any):
        self.executed: Optional[int] = None

    def record(self, stream: Any = None) -> None:
        """Note what has been executed so far: launches are synchronous."""
        self.executed = executed

    def elapsed_time(self, end: "Event") -> float:
        """Return the cost in milliseconds of the model."""
        if self.executed is None or end.executed is None:
            raise RuntimeError("both events must be recorded before the time between them is asked for")
        warnings.warn(_NOTE, CostWarning, stacklevel=2)
        return _milliseconds(end.executed - self.executed)

    def query(self) -> bool:
        """Return whether all work before the event is done; it is."""
        return True

    def wait(self, stream: Any = None) -> None:
        """Do nothing: all work before the event is done."""

    def synchronize(self) -> None:
        """Do nothing: all work before the event is done."""


class DeviceInterface:
    """What Triton's benchmarks use of `torch.cuda`."""

    Event = Event

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Do nothing: launches are synchronous."""

    @staticmethod
    def current_device() -> int:
        """Return the number of Triton's device."""
        from triton.runtime import driver

        return driver.active.get_current_device()


#: Triton's own functions, while they are replaced.
_replaced: dict = {}


def activate() -> None:
    """Replace Triton's benchmarks, which repeat for a time, by one run."""
    import triton.testing

    for ours in (do_bench, do_bench_cudagraph):
        if hasattr(triton.testing, ours.__name__):
            _replaced.setdefault(ours.__name__, getattr(triton.testing, ours.__name__))
            setattr(triton.testing, ours.__name__, ours)


def deactivate() -> None:
    """Undo `activate`."""
    import triton.testing

    for name in list(_replaced):
        setattr(triton.testing, name, _replaced.pop(name))
