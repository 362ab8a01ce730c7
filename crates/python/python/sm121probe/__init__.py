"""Run and judge GPU kernels for NVIDIA SM12x without a GPU.

>>> import numpy, sm121probe
>>> module = sm121probe.Module(PTX)                       # or CUDA C++, or a path
>>> x = numpy.arange(32, dtype=numpy.uint32)
>>> report = module.launch("double", 1, 32, [x])          # x is changed in place
>>> report.instructions
9

A launch is emulated according to the PTX ISA. The first violation of its rules raises `ViolationError`, which names the rule, the line
and the thread. No GPU is needed or used.
"""

from ._native import TensorMap as _NativeMap  # noqa: F401  (fails early where the extension is not built)
from .device import Device, DeviceArray, TensorMap
from .errors import (
    DisagreementError,
    Error,
    LaunchError,
    ToolkitError,
    UnsupportedError,
    ViolationError,
)
from .module import Kernel, Module, Parameter
from .report import FloatAtomics, Place, Profile, Report, Traffic, Undetermined, Violation

__all__ = [
    "Device",
    "DeviceArray",
    "DisagreementError",
    "Error",
    "FloatAtomics",
    "Kernel",
    "LaunchError",
    "Module",
    "Parameter",
    "Place",
    "Profile",
    "Report",
    "TensorMap",
    "ToolkitError",
    "Traffic",
    "UnsupportedError",
    "Undetermined",
    "Violation",
    "ViolationError",
]


def __getattr__(name):
    # Imported lazily: they read a record or need NumPy.
    import importlib

    if name in ("matrix", "mx", "triton", "tools"):
        return importlib.import_module("." + name, __name__)
    if name in ("audit", "emulated", "judge", "lint"):
        return getattr(importlib.import_module(".tools", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
