"""Triton kernels without a GPU: compiled kernels, and `kernel[grid](…)` itself.

>>> import numpy, sm121probe, triton, triton.language as tl
>>> from triton.backends.compiler import GPUTarget
>>> @triton.jit
... def twice(x, n, BLOCK: tl.constexpr):
...     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
...     tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
>>> source = triton.compiler.ASTSource(twice, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128})
>>> compiled = triton.compile(source, target=GPUTarget("cuda", 121, 32))
>>> x = numpy.ones(1000, numpy.float32)
>>> report = sm121probe.triton.launch(compiled, (8,), x, 1000)

>>> sm121probe.triton.activate("sm_121")      # a driver: kernel[grid](…) runs on the emulator from now on
>>> launched = twice[(8,)](sm121probe.triton.Tensor(x), 1000, BLOCK=128)
>>> x.tolist() == [4] * 1000
True
"""

from __future__ import annotations

import json
from typing import Any, List, Optional

from ..module import Module, _launch, _three
from ..report import Report
from . import benchmark, driver, pointers, proton, verdicts
from .driver import Kernel
from .verdicts import Reports, reports

#: Programs by PTX text.
_programs: dict = {}


def _program(ptx: str, name: str) -> Any:
    program = _programs.get(ptx)
    if program is None:
        program = _programs[ptx] = Module(ptx, name=f"kernel {name}")._program
    return program


def _metadata(metadata: Any) -> dict:
    raw = metadata._asdict() if hasattr(metadata, "_asdict") else dict(metadata)
    return {k: v for k, v in raw.items() if isinstance(v, (str, int, float, bool, list, tuple, type(None)))}


def launch(
    compiled: Any,
    grid: Any,
    *args: Any,
    schedules: Optional[int] = None,
    seed: int = 0,
    poisons: Optional[int] = None,
    rules: str = "values",
    strict: bool = False,
    require_equal: bool = False,
    fuel: Optional[int] = None,
    seconds: Optional[float] = None,
    profile: bool = False,
    model: Optional[str] = None,
    contract: str = "off",
    device: Any = None,
) -> Report:
    """Launch a compiled kernel as Triton's launcher does: `grid` is the number of programs, `args` are the kernel's arguments, with or
    without its constants.

    Arguments are converted by the kernel's signature: tuples, host descriptors, `triton.reinterpret`, numbers of every type. Warps, cluster,
    shared memory and hidden scratch arguments come from the kernel's metadata. Tensors may be strided; the kernel sees
    their memory with its gaps. Options and errors are those of `Module.launch`, except that the default is ``rules="values"``: races and
    undefined values are errors only if results depend on them. Results that PTX leaves open are in `Report.undetermined`, and the first
    result that differs between schedules although nothing races is `Report.nondeterministic`.
    """
    kernel = getattr(compiled, "_sm121probe_kernel", None)
    if kernel is None:
        kernel = Kernel(compiled.src, compiled.metadata, compiled.asm["ptx"])
        compiled._sm121probe_kernel = kernel
    flat = kernel.flatten(args)
    placed = pointers.pointees(flat.pointers)
    call = verdicts.call_of(
        kernel, schedules=schedules, seed=seed, poisons=poisons, rules=rules, strict=strict, require_equal=require_equal, fuel=fuel,
        seconds=seconds, profile=profile, model=model, contract=contract,
    )  # fmt: skip
    call["grid"] = _three("grid", grid)
    return _launch(kernel.program, None if device is None else device._memory, call, flat.values, placed.arrays)


def activate(target: str = "sm_121", *, torch: bool = False, **options: Any) -> None:
    """Make the emulator Triton's active driver: `kernel[grid](…)` compiles for `target` and runs on the CPU, with CPU tensors.

    `options` are those of `launch`; `seconds` is 300 by default, and `None` for no limit. Reports are kept in `sm121probe.triton.reports`.
    A race or an undefined value on which no result depends is a warning at its line of the kernel, once for each place; what kernels print
    goes to `sys.stdout`. Benchmarks and autotuning count emulated instructions (`sm121probe.triton.benchmark`). A further call replaces
    target and options, also for kernels that have run. `deactivate` restores Triton's default driver.

    With ``torch=True``, `torch.cuda` and ``device="cuda"`` work, too, on memory of the CPU (`sm121probe.torch_cuda`), and `torch.compile` runs
    the Triton code that it generates on the emulator.
    """
    from triton.runtime import driver as active_driver

    architecture = driver.architecture_of(target)
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(f"activate has no option {', '.join(unknown)}; it has torch and those of launch: {', '.join(sorted(_OPTIONS))}")
    active_driver.set_active(driver.make_driver(architecture))
    verdicts.current = verdicts.Activation(target, options)
    driver.activate_backend(lambda: verdicts.current is not None)
    benchmark.activate()
    proton.activate()
    if torch:
        from .. import torch_cuda

        torch_cuda.activate(architecture)
    elif driver.emulates_torch():
        from .. import torch_cuda

        torch_cuda.deactivate()


#: The options of `activate`, besides `torch`.
_OPTIONS = {
    "schedules", "seed", "poisons", "rules", "strict", "require_equal", "fuel", "seconds", "profile", "model", "contract", "device",
}  # fmt: skip


def deactivate() -> None:
    """Undo `activate`. Without a GPU, Triton then has no driver."""
    from triton.runtime import driver as active_driver

    if driver.emulates_torch():
        from .. import torch_cuda

        torch_cuda.deactivate()
    verdicts.current = None
    benchmark.deactivate()
    proton.deactivate()
    try:
        active_driver.reset_active()
    except RuntimeError:
        active_driver._active = None


class _Dtype(str):
    """The name of an element type, with what Triton asks PyTorch's types for."""

    itemsize: int
    is_floating_point: bool

    @classmethod
    def of_array(cls, array: Any) -> "_Dtype":
        made = cls(array.dtype)
        made.itemsize = array.dtype.itemsize
        # Those of `ml_dtypes` have no kind of their own.
        made.is_floating_point = array.dtype.kind == "f" or "float" in made
        return made


class Tensor:
    """A NumPy array with the interface of a Triton tensor, for `kernel[grid](…)` without PyTorch."""

    #: As of a tensor of PyTorch.
    device: str = "cpu"

    def __init__(self, array: Any) -> None:
        self.array: Any = array
        self.dtype: Any = _Dtype.of_array(array)
        self.shape: Any = array.shape
        self.__array_interface__ = array.__array_interface__

    @property
    def data(self) -> "Tensor":
        """The tensor itself, without what PyTorch keeps for gradients."""
        return self

    def data_ptr(self) -> int:
        """Return the address of the first element in this process. A kernel sees another one, unless it finds this one in a table of
        pointers."""
        return self.array.__array_interface__["data"][0]

    def stride(self, dim: Optional[int] = None) -> Any:
        """Return the stride of a dimension in elements, or the strides of all dimensions."""
        all_ = tuple(s // self.array.itemsize for s in self.array.strides)
        return all_ if dim is None else all_[dim]

    def numel(self) -> int:
        """Return the number of elements."""
        return self.array.size

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return self.array.itemsize

    def zero_(self) -> "Tensor":
        """Set all elements to zero, for `reset_to_zero` of `triton.autotune`."""
        self.array[...] = 0
        return self

    def clone(self) -> "Tensor":
        """Return a copy, for `restore_value` of `triton.autotune`."""
        return Tensor(self.array.copy())

    def copy_(self, other: "Tensor") -> "Tensor":
        """Take the elements of another tensor."""
        self.array[...] = other.array
        return self

    def __setitem__(self, at: Any, value: Any) -> None:
        self.array[at] = value

    def __getitem__(self, at: Any) -> Any:
        return self.array[at]
