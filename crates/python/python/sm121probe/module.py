"""Modules of kernels."""

from __future__ import annotations

import json
import operator
import os
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, SupportsIndex, Tuple, Union

from . import _native
from .errors import DisagreementError, Error, RaceWarning, UnsupportedError, ViolationError, of_json
from .report import Report

#: The dimensions of a grid in CTAs or of a CTA in threads: one to three whole numbers, of Python or NumPy.
Dim = Union[SupportsIndex, Sequence[SupportsIndex]]
#: Which rules end or list a launch, or none for speed.
Rules = Literal["all", "values", "none"]
#: Whether an unqualified product and the sum that uses it are rounded once.
Contract = Literal["off", "on", "as-ptxas"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel."""

    name: str
    #: The PTX type, such as `u64`; `b8` for structs.
    type: str
    #: The size in bytes.
    size: int


class Kernel:
    """A kernel of a module. `kernel(grid, block, args)` launches it."""

    #: Its module.
    module: "Module"
    #: Its name in the PTX.
    name: str

    def __init__(self, module: "Module", name: str) -> None:
        self.module = module
        self.name = name

    @property
    def parameters(self) -> List[Parameter]:
        """The parameters, in order."""
        parameters, failed = self.module._program.parameters(self.name)
        if failed:
            raise of_json({"error": json.loads(failed)})
        return [Parameter(*one) for one in parameters]

    def __call__(self, grid: Dim, block: Optional[Dim] = None, args: Sequence[Any] = (), **options: Any) -> Report:
        __tracebackhide__ = True
        return self.module.launch(self.name, grid, block, args, **options)

    def __repr__(self) -> str:
        return f"<Kernel {self.name} of {self.module.name}>"


class Module:
    """Kernels from PTX or CUDA C++.

    `source` is PTX, CUDA C++, or the path of a `.ptx` or `.cu` file. CUDA C++ is compiled for `target` by the newest NVRTC, or by that of
    version `toolkit`; if the machine has none, it is fetched with pip. PTX already names its target.
    """

    #: Its name in messages.
    name: str

    def __init__(
        self,
        source: Union[str, "os.PathLike[str]"],
        target: Optional[str] = None,
        *,
        toolkit: Optional[str] = None,
        name: Optional[str] = None,
    ) -> None:
        text, is_cuda, found = _source(source)
        self.name = name or found
        if is_cuda:
            from .__main__ import program

            ptx, notices, failed = _native.compile_cuda(text, self.name, target, toolkit, program())
            for notice in notices:
                warnings.warn(notice, stacklevel=2)
            if failed:
                raise of_json(json.loads(failed))
            text = ptx
        elif target is not None and f".target {target}" not in text:
            raise ValueError(f"the PTX names its own target, which is not {target}")
        self._program, failed = _native.Program.read(text, self.name)
        if failed:
            error = of_json({"error": json.loads(failed)})
            if isinstance(error, UnsupportedError):
                _observed(error)
            raise error

    @property
    def ptx(self) -> str:
        """The PTX text."""
        return self._program.text

    @property
    def kernels(self) -> Dict[str, Kernel]:
        """The kernels by name."""
        return {name: Kernel(self, name) for name in self._program.entries}

    def launch(
        self,
        name: str,
        grid: Dim,
        block: Optional[Dim] = None,
        args: Sequence[Any] = (),
        *,
        cluster: Optional[Dim] = None,
        cooperative: bool = False,
        smem: Optional[int] = None,
        schedules: Optional[int] = None,
        seed: int = 0,
        poisons: Optional[int] = None,
        rules: Rules = "all",
        strict: bool = False,
        require_equal: bool = False,
        fuel: Optional[int] = None,
        seconds: Optional[float] = None,
        profile: bool = False,
        model: Optional[str] = None,
        contract: Contract = "off",
        device: Any = None,
    ) -> Report:
        """Launch a kernel and check it. Arrays among `args` are changed in place.

        `args` are, in the order of the parameters: arrays in CPU memory (NumPy, or any object with DLPack), whose address is passed to the
        kernel; `DeviceArray` of `device`; `TensorMap`; numbers, which must be NumPy scalars if the parameter type does not distinguish integers from
        floats; `bytes` and structs of `ctypes` for parameters by value; `None` for a null pointer. Overlapping arrays share memory.
        A read-only or immutable array (of NumPy, JAX, …) is an input only: `ValueError` if the kernel changes it. An array may be changed if its
        producer says so, or if it cannot say so and the array has a `__setitem__` that does not raise.
        An array of 1 MiB or more is read in place, and only pages that the kernel writes are copied: until this call returns, do not change
        the array, nor pass it to another launch that writes it. The GIL is released during the launch.

        `grid` is the number of CTAs, `block` the number of threads (default: the kernel's `.reqntid`, or 32), and `smem` the dynamic shared
        memory in bytes.

        `schedules=N` runs the launch under N orders of warps and CTAs from the same memory and compares the results; `poisons=N` does so
        with N fill patterns for unwritten memory and registers. With ``rules="all"``, the first violation raises `ViolationError`.
        With ``rules="values"``, races and undefined values are listed in the report, and 4 schedules and 2 fill patterns (by default)
        decide whether a result depends on them; each listed race is also a `RaceWarning`. With ``rules="none"``, no race and no undefined
        value is looked for: as fast as it goes, for benchmarks.

        Results that differ between schedules although nothing races (tickets, work lists, old values of atomics) are
        `Report.nondeterministic`; with `require_equal`, they raise `DisagreementError`. Results that PTX leaves open, by contraction or where
        lanes of one store write different values to one address, are `Report.undetermined`; with `strict`, they raise `DisagreementError`.

        A launch that executes more than `fuel` warp instructions, or takes longer than `seconds` for all its trials, violates the rule `fuel`;
        the message says where it has come to. An interrupt (Ctrl-C) ends any launch.

        `model` is the architecture whose tensor-core sums and special functions are modelled, such as ``"sm_90"``; default: the target's.
        `contract` determines whether an unqualified product and the sum that uses it are contracted, that is, rounded once: ``"off"``,
        never; ``"on"``, wherever PTX allows it within a basic block; ``"as-ptxas"``, where the newest ptxas on the machine does so
        (`ToolkitError` if there is none, or if its machine code does not show it). With ``rules="values"`` or `strict`, and ``"off"``, both
        variants run, and `Report.undetermined` lists the elements that differ.

        Raises `ViolationError`, `DisagreementError`, `UnsupportedError`, `LaunchError`; `TypeError`, `ValueError` and `OverflowError` for
        arguments that do not fit; `KeyError` for an unknown kernel. If it raises, no array has changed, except that arrays hold the results
        of the first schedule where `require_equal` or `strict` makes it raise.
        """
        __tracebackhide__ = True
        return _launch(
            self._program,
            None if device is None else device._memory,
            {
                "entry": name,
                "grid": _three("grid", grid),
                "block": None if block is None else _three("block", block),
                "cluster": None if cluster is None else _three("cluster", cluster),
                "cooperative": cooperative,
                "smem": smem,
                "rules": rules,
                "strict": strict,
                "require_equal": require_equal,
                "seed": seed,
                "schedules": _positive("schedules", schedules),
                "poisons": _positive("poisons", poisons),
                "fuel": fuel,
                "seconds": seconds,
                "profile": profile,
                "model": model,
                "contract": contract,
                "triton": None,
            },
            args,
        )

    def __repr__(self) -> str:
        return f"<Module {self.name}: {', '.join(self._program.entries)}>"


#: Called with the result of every launch of this process, a report or an exception, and with the exception of a module that the emulator
#: does not support: the pytest plugin counts what a test checks.
_observers: List[Callable[[Union[Report, Error]], None]] = []


def _observed(result: Union[Report, Error]) -> None:
    for observe in list(_observers):
        observe(result)


#: Reports that say nothing but numbers, by their text, and how many of them are kept: a kernel that is launched again mostly has the same.
_plain: Dict[str, Report] = {}
_PLAIN = 256


def _launch(
    program: Any, memory: Any, call: Dict[str, Any], args: Sequence[Any], placed: Sequence[Any] = (), warn_at: Optional[int] = 3
) -> Report:
    """Launch, and warn of races at the caller so many frames away; by default the caller of the method that launches."""
    __tracebackhide__ = True
    text = _native.launch(program, memory, call, list(args), list(placed))
    plain = _plain.get(text)
    if plain is not None:
        report = plain._again()
        for observe in list(_observers):
            observe(report)
        return report
    raw = json.loads(text)
    result = of_json(raw) if "error" in raw else Report._of(raw)
    if isinstance(result, Report) and result._is_plain():
        if len(_plain) >= _PLAIN:
            _plain.clear()
        _plain[text] = result._again()
    if isinstance(result, (DisagreementError, ViolationError)) and raw.get("report"):
        result.report = Report._of(raw["report"])
    if warn_at is not None:
        for violation in result.violations if isinstance(result, Report) else getattr(result, "violations", []):
            if violation.rule == "race":
                warnings.warn(str(violation), RaceWarning, stacklevel=warn_at)
    _observed(result)
    if isinstance(result, Error):
        raise result
    return result


def _source(source: Any) -> Tuple[str, bool, str]:
    """Return the text, whether it is CUDA C++, and its name in messages."""
    if isinstance(source, str) and ("\n" in source or "{" in source):
        is_cuda = ".version" not in source or ".target" not in source
        return source, is_cuda, "kernel.cu" if is_cuda else "the module"
    path = os.fspath(source)
    kind = os.path.splitext(path)[1]
    if kind not in (".ptx", ".cu"):
        raise ValueError(f"{path!r} is neither PTX, nor CUDA C++, nor the path of a .ptx or .cu file")
    with open(path, encoding="utf-8") as file:
        return file.read(), kind == ".cu", path


def _three(what: str, dim: Dim) -> Tuple[int, int, int]:
    numbers: Tuple[int, ...]
    if isinstance(dim, tuple):
        numbers = tuple(map(operator.index, dim))
    else:
        try:
            numbers = (operator.index(dim),)  # type: ignore[arg-type]
        except TypeError:
            # An array has `__index__`, too.
            numbers = tuple(operator.index(n) for n in dim)  # type: ignore[union-attr]
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1 or max(numbers) >= 1 << 32:
        raise ValueError(f"{what} is one to three positive numbers, not {dim!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _positive(what: str, number: Optional[int]) -> Optional[int]:
    if number is not None and number < 1:
        raise ValueError(f"{what} is at least 1, not {number}")
    return number
