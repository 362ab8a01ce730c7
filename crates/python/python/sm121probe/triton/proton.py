"""Triton's profiler, Proton, under emulation: what its library in C++ does, without CUPTI.

Scopes, metrics and hooks are those of `triton.profiler`. A kernel's time is its emulated warp instructions, as in `benchmark`: one counts as a
microsecond. Profiles are trees (`NAME.hatchet`), which `triton.profiler.viewer` reads.
"""

from __future__ import annotations

import json
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..errors import CostWarning, UnsupportedError
from . import benchmark

#: Nanoseconds of one warp instruction.
_NANOSECONDS = 1000

_NOTE = "the emulator measures no times: this profile counts emulated warp instructions, one as a microsecond"


class _Node:
    """A scope or a kernel of a profile."""

    def __init__(self, name: str):
        self.name = name
        self.metrics: Dict[str, Any] = {}
        self.children: Dict[str, "_Node"] = {}

    def child(self, name: str) -> "_Node":
        return self.children.setdefault(name, _Node(name))

    def add(self, metrics: Dict[str, Any]) -> None:
        for name, value in metrics.items():
            self.metrics[name] = value if isinstance(value, str) else self.metrics.get(name, 0) + value

    def frame(self) -> Dict[str, Any]:
        children = [child.frame() for child in self.children.values()]
        return {"frame": {"name": self.name, "type": "function"}, "metrics": self.metrics, "children": children}

    def names(self) -> List[str]:
        """The metrics of this node and of those below it that are numbers."""
        own = [name for name, value in self.metrics.items() if not isinstance(value, str)]
        return own + [name for child in self.children.values() for name in child.names()]


class _Session:
    """A profile that is recorded."""

    def __init__(self, name: str):
        self.name = name
        self.active = True
        self.root = _Node("ROOT")
        #: The scopes that are open, by their numbers.
        self.open: List[Tuple[Optional[int], _Node]] = [(None, self.root)]

    def enter(self, number: int, name: str) -> None:
        if self.active:
            self.open.append((number, self.open[-1][1].child(name)))

    def leave(self, number: int) -> None:
        # One that was entered while the session was not active is not there.
        if any(of == number for of, _ in self.open):
            while self.open.pop()[0] != number:
                pass

    def database(self) -> List[Any]:
        # A metric of the root is inclusive: that of a scope is the sum over what is below it.
        self.root.metrics = dict.fromkeys(["count", "time (ns)", *self.root.names()], 0)
        return [self.root.frame(), {"CUDA": {"0": _device()}}]


def _device() -> Dict[str, Any]:
    """What the viewer asks of the device, for shares of its peaks."""
    from triton.runtime import driver

    active = driver.active
    properties = active.utils.get_device_properties(active.get_current_device())
    return {
        "arch": str(active.get_current_target().arch),
        "num_sms": properties["multiprocessor_count"],
        "clock_rate": properties["sm_clock_rate"],
        "memory_clock_rate": properties["mem_clock_rate"],
        "bus_width": properties["mem_bus_width"],
    }


_sessions: Dict[int, _Session] = {}
#: The operation that is launched: its kernels have its name.
_operations: List[int] = []
_scopes = 0


def _of(session: Optional[int]) -> List[_Session]:
    return list(_sessions.values()) if session is None else [_sessions[session]]


def start(name: str, context: str, data: str, backend: str, mode: str) -> int:
    """Start a session, and return its number."""
    if data != "tree" or backend != "cupti" or mode not in ("", "None", None):
        raise UnsupportedError(f"proton.start(data={data!r}, backend={backend!r}, mode={mode!r}) is not emulated: only trees, by the default backend")
    warnings.warn(_NOTE, CostWarning, stacklevel=3)
    number = max(_sessions, default=-1) + 1
    _sessions[number] = _Session(name)
    return number


def _set_active(session: Optional[int], active: bool) -> None:
    for of in _of(session):
        of.active = active


def finalize(session: Optional[int], output_format: Optional[str] = "") -> None:
    """Write the profile of a session, or of all, and end it."""
    if output_format not in ("", "hatchet", None):
        raise UnsupportedError(f"proton.finalize(output_format={output_format!r}) is not emulated: only hatchet")
    for number in list(_sessions) if session is None else [session]:
        ended = _sessions.pop(number)
        with open(f"{ended.name}.hatchet", "w") as file:
            json.dump(ended.database(), file)


def record_scope() -> int:
    """Return a new number for a scope."""
    global _scopes
    _scopes += 1
    return _scopes


def enter_scope(number: int, name: str) -> None:
    """Open a scope in every active session."""
    for session in _sessions.values():
        session.enter(number, name)


def exit_scope(number: int, name: str) -> None:
    """Close a scope, and those that were left open in it."""
    for session in _sessions.values():
        session.leave(number)


def enter_op(number: int, name: str) -> None:
    """Open the scope of an operation, whose kernels have its name."""
    enter_scope(number, name)
    _operations.append(number)


def exit_op(number: int, name: str) -> None:
    """Close the scope of an operation."""
    _operations.pop()
    exit_scope(number, name)


def add_metrics(number: int, numbers: Dict[str, Any], tensors: Optional[Dict[str, Any]] = None) -> None:
    """Add metrics to an open scope."""
    if tensors:
        raise UnsupportedError(f"the metric {next(iter(tensors))!r} of a profile is a tensor, which is not emulated: pass a number")
    for session in _sessions.values():
        for of, node in session.open:
            if of == number:
                node.add(numbers)


def _launched(kernel: str, instructions: int) -> None:
    """Record a launch."""
    for session in _sessions.values():
        if session.active:
            node = session.open[-1][1]
            node = node if _operations else node.child(kernel)
            node.add({"count": 1, "time (ns)": instructions * _NANOSECONDS, "device_id": "0", "device_type": "CUDA"})


#: What takes the place of functions of the library.
_REPLACEMENTS: Dict[str, Callable[..., Any]] = {
    "start": start,
    "activate": lambda session: _set_active(session, True),
    "activate_all": lambda: _set_active(None, True),
    "deactivate": lambda session, flushing=False: _set_active(session, False),
    "deactivate_all": lambda flushing=False: _set_active(None, False),
    "finalize": finalize,
    "finalize_all": lambda output_format="": finalize(None, output_format),
    "record_scope": record_scope,
    "enter_scope": enter_scope,
    "exit_scope": exit_scope,
    "enter_op": enter_op,
    "exit_op": exit_op,
    "add_metrics": add_metrics,
    "enter_state": lambda name: None,
    "exit_state": lambda: None,
    "set_metric_kernels": lambda *kernels: None,
    "get_context_depth": lambda session=0: len(_sessions[session].open) - 1,
    "get_data": lambda session, phase=0: json.dumps(_sessions[session].database()),
}

#: The library's own functions, while they are replaced.
_replaced: Dict[str, Any] = {}


def activate() -> None:
    """Replace the functions of Proton's library, where Triton has one."""
    try:
        from triton._C.libproton import proton
    except ImportError:
        return
    for name, ours in _REPLACEMENTS.items():
        if hasattr(proton, name):
            _replaced.setdefault(name, getattr(proton, name))
            setattr(proton, name, ours)
    if _launched not in benchmark.listeners:
        benchmark.listeners.append(_launched)


def deactivate() -> None:
    """Undo `activate`; sessions that are open end without a file."""
    if _replaced:
        from triton._C.libproton import proton

        for name, before in _replaced.items():
            setattr(proton, name, before)
        _replaced.clear()
    _sessions.clear()
    if _launched in benchmark.listeners:
        benchmark.listeners.remove(_launched)
