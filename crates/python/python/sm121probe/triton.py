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

from . import _native
from .module import Module, _launch, _positive, _three
from .report import Report

#: Programs by PTX text.
_programs: dict = {}


def _metadata(compiled: Any) -> dict:
    metadata = compiled.metadata
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
    profile: bool = False,
    model: Optional[str] = None,
    contract: str = "off",
    device: Any = None,
) -> Report:
    """Launch a compiled kernel as Triton's launcher does: `grid` is the number of programs, `args` are the non-constant parameters.

    Warps, cluster, shared memory and hidden scratch arguments come from the kernel's metadata. Tensors may be strided; the kernel sees
    their memory with its gaps. Options and errors are those of `Module.launch`, except that the default is ``rules="values"``: races and
    undefined values are errors only if results depend on them. Results that PTX leaves open are in `Report.undetermined`, and the first
    result that differs between schedules although nothing races is `Report.nondeterministic`.
    """
    text = compiled.asm["ptx"]
    program = _programs.get(text)
    if program is None:
        program = _programs[text] = Module(text, name=f"kernel {compiled.metadata.name}")._program
    metadata = _metadata(compiled)
    return _launch(
        program,
        None if device is None else device._memory,
        {
            "entry": metadata["name"],
            "grid": _three("grid", grid),
            "block": None,
            "cluster": None,
            "cooperative": False,
            "smem": None,
            "rules": rules,
            "strict": strict,
            "require_equal": require_equal,
            "seed": seed,
            "schedules": _positive("schedules", schedules),
            "poisons": _positive("poisons", poisons),
            "fuel": None,
            "profile": profile,
            "model": model,
            "contract": contract,
            "triton": json.dumps(metadata),
        },
        args,
    )


#: The reports of launches through `kernel[grid](…)`, in order.
reports: List[Report] = []

#: The options of the last `activate`; `None` while the emulator is not active. Triton keeps launchers, which therefore look them up here.
_options: Optional[dict] = None


def activate(target: str = "sm_121", **options: Any) -> None:
    """Make the emulator Triton's active driver: `kernel[grid](…)` compiles for `target` and runs on the CPU, with CPU tensors.

    `options` are those of `launch`. Reports are kept in `sm121probe.triton.reports`. A further call replaces target and options, also for
    kernels that have run. `deactivate` restores Triton's default driver.
    """
    global _options
    from triton.runtime import driver

    driver.set_active(_driver(target))
    _options = options


def deactivate() -> None:
    """Undo `activate`. Without a GPU, Triton then has no driver."""
    global _options
    from triton.runtime import driver

    _options = None
    try:
        driver.reset_active()
    except RuntimeError:
        driver._active = None


def _driver(target: str) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    digits = "".join(c for c in target if c.isdigit())
    if not target.startswith("sm_") or not digits:
        raise ValueError(f"{target!r} is not a target, such as 'sm_121'")

    class Utils:
        """Triton's interface to loaded kernels: nothing is loaded, and the name of the kernel serves as its handle."""

        @staticmethod
        def load_binary(name, kernel, shared, device):
            # Module, function, registers, spills, maximum threads per block.
            return name, name, 0, 0, 1024

        @staticmethod
        def get_device_properties(device):
            return {
                "max_shared_mem": 101_376,
                "max_num_regs": 65_536,
                "multiprocessor_count": 48,
                "warpSize": 32,
                "sm_clock_rate": 2_400_000,
                "mem_clock_rate": 4_266_000,
                "mem_bus_width": 256,
            }

        @staticmethod
        def unload_module(module):
            pass

    class Launcher:
        """Called by `kernel[grid](…)` with the grid, the stream, the function, Triton's arguments, and then those of the kernel."""

        def __init__(self, source, metadata):
            self.source, self.metadata = source, metadata
            self.constants = {path[0] for path in source.constants if len(path) == 1}

        def __call__(self, x, y, z, stream, function, kernel_metadata, launch_metadata, enter, leave, *args):
            compiled = _compiled.get(self.metadata.hash)
            if compiled is None:
                raise RuntimeError("this kernel was compiled before `sm121probe.triton.activate`")
            if _options is None:
                raise RuntimeError("this kernel was compiled for the emulator, which is not active: call `sm121probe.triton.activate`")
            if enter is not None:
                enter(launch_metadata)
            kept = [a for n, a in enumerate(args) if n not in self.constants]
            reports.append(launch(compiled, (x, y, z), *kept, **_options))
            if leave is not None:
                leave(launch_metadata)

    class Driver(DriverBase):
        utils = Utils()
        launcher_cls = Launcher

        def __init__(self):
            pass

        @classmethod
        def is_active(cls):
            return False

        def get_current_target(self):
            return GPUTarget("cuda", int(digits), 32)

        def get_current_device(self):
            # Triton keeps compiled kernels by device, whatever its target: each target is a device.
            return int(digits)

        def set_current_device(self, device):
            pass

        def get_device_capability(self, device=0):
            return divmod(int(digits), 10)

        def get_current_stream(self, device=0):
            return 0

        def get_active_torch_device(self):
            import torch

            return torch.device("cpu")

        def get_device_interface(self):
            raise RuntimeError("there is no GPU to be timed: results come from an emulator")

        def get_benchmarker(self):
            raise RuntimeError("the emulator does not measure times")

        def map_python_to_cpp_type(self, ty):
            return "void*" if ty.startswith("*") else ty

    _watch_compiled()
    return Driver()


#: Compiled kernels by hash, for the launcher.
_compiled: dict = {}


def _watch_compiled() -> None:
    from triton.compiler import compiler

    if getattr(compiler.CompiledKernel, "_sm121probe", False):
        return
    before = compiler.CompiledKernel.__init__

    def init(self, *args, **kwargs):
        before(self, *args, **kwargs)
        _compiled[self.metadata.hash] = self

    compiler.CompiledKernel.__init__ = init
    compiler.CompiledKernel._sm121probe = True


class Tensor:
    """A NumPy array with the interface of a Triton tensor, for `kernel[grid](…)` without PyTorch."""

    def __init__(self, array: Any):
        self.array = array
        self.dtype = str(array.dtype)
        self.shape = array.shape
        self.__array_interface__ = array.__array_interface__

    def data_ptr(self) -> int:
        """Return the address of the first element in this process; kernels see a different one."""
        return self.array.__array_interface__["data"][0]

    def stride(self, dim: Optional[int] = None) -> Any:
        """Return the stride of a dimension in elements, or the strides of all dimensions."""
        all_ = tuple(s // self.array.itemsize for s in self.array.strides)
        return all_ if dim is None else all_[dim]

    def __setitem__(self, at: Any, value: Any) -> None:
        self.array[at] = value

    def __getitem__(self, at: Any) -> Any:
        return self.array[at]
