"""Run and judge GPU kernels for NVIDIA SM12x without a GPU.

>>> import numpy, sm121probe
>>> twice = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
>>> module = sm121probe.Module(twice)                     # CUDA C++, PTX, or the path of either
>>> x = numpy.ones(32, numpy.float32)
>>> report = module.launch("twice", 1, 32, [x])           # x is changed in place
>>> x.tolist() == [2] * 32, report.violations
(True, [])

A launch is emulated according to the PTX ISA. The first violation of its rules raises `ViolationError`, which names the rule, the line
and the thread. No GPU is needed or used.
"""

from typing import TYPE_CHECKING, Any, List

from ._native import TensorMap as _NativeMap  # noqa: F401  (fails early where the extension is not built)
from .device import Device, DeviceArray, TensorMap
from .errors import (
    CostWarning,
    DisagreementError,
    Error,
    IncompleteError,
    LaunchError,
    RaceWarning,
    ToolkitError,
    UnsupportedError,
    ViolationError,
    ViolationWarning,
)
from .module import Kernel, Module, Parameter
from .origin import assert_allclose, last_write
from .report import Difference, FloatAtomics, OtherAccess, Place, Profile, Report, Traffic, Undetermined, Violation

if TYPE_CHECKING:
    from . import cute_dsl, matrix, mx, tools, torch_cuda, triton
    from .tools import audit, emulated, judge, lint

    #: The version of the package.
    __version__: str

__all__ = [
    "CostWarning",
    "Device",
    "DeviceArray",
    "Difference",
    "DisagreementError",
    "Error",
    "FloatAtomics",
    "IncompleteError",
    "Kernel",
    "LaunchError",
    "Module",
    "OtherAccess",
    "Parameter",
    "Place",
    "Profile",
    "RaceWarning",
    "Report",
    "TensorMap",
    "ToolkitError",
    "Traffic",
    "UnsupportedError",
    "Undetermined",
    "Violation",
    "ViolationError",
    "ViolationWarning",
    "__version__",
    "assert_allclose",
    "audit",
    "cute_dsl",
    "emulated",
    "judge",
    "last_write",
    "lint",
    "matrix",
    "mx",
    "tools",
    "torch_cuda",
    "triton",
]


def __getattr__(name: str) -> Any:
    # Imported lazily: they read a record or need NumPy.
    import importlib

    if name == "__version__":
        import importlib.metadata

        return importlib.metadata.version(__name__)
    if name in ("cute_dsl", "matrix", "mx", "torch_cuda", "triton", "tools"):
        return importlib.import_module("." + name, __name__)
    if name in ("audit", "emulated", "judge", "lint"):
        return getattr(importlib.import_module(".tools", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
