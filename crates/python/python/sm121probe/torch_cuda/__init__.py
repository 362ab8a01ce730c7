"""PyTorch without a GPU: `torch.cuda` and ``device="cuda"`` on memory of the CPU, for programs whose GPU code is in Triton.

`sm121probe.triton.activate(torch=True)` turns it on. PyTorch's own operations run on the CPU; kernels of Triton, and those that `torch.compile`
generates, run on the emulator. A tensor "on cuda:0" is a tensor in CPU memory whose storage has a mark; `device`, `is_cuda`, `.cpu()`,
`.cuda()` and `.to(…)` follow the mark, so that a copy is made where a GPU makes one. Threads that Python starts later see the same. Everything
else is as it was: CUDA graphs are refused, and C++ extensions see tensors of the CPU.
"""

from __future__ import annotations

from typing import Optional

from . import inductor, mode, runtime

#: The mode that is entered, while the emulation is active.
_entered: Optional[mode.CudaOnCpu] = None


def is_active() -> bool:
    """Whether `torch.cuda` is emulated."""
    return _entered is not None


def activate(architecture: int) -> None:
    """Emulate `torch.cuda` for a device of this architecture, such as 121."""
    global _entered
    runtime.activate(architecture)
    if _entered is None:
        _entered = mode.CudaOnCpu()
        _entered.__enter__()
        inductor.activate()


def deactivate() -> None:
    """Undo `activate`."""
    global _entered
    if _entered is not None:
        inductor.deactivate()
        _entered.__exit__(None, None, None)
        _entered = None
    runtime.deactivate()
