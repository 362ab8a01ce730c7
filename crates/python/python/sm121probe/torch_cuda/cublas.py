"""Triton's interface to cuBLAS (`triton._C.libtriton.nvidia.cublas`), which its tests and tutorials compare kernels with: PyTorch's products on the CPU."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..errors import UnsupportedError


def _product(a: Any, b: Any) -> Any:
    """Return A times the transpose of B, in the precision of cuBLAS's sums."""
    return a.to(torch.float32) @ b.to(torch.float32).T


class CublasLt:
    """A handle of cuBLASLt. Rows of B are columns of the product, as in `triton._C.libtriton.nvidia.cublas.CublasLt`."""

    def __init__(self, workspace: Any):
        """Take a workspace, which nothing needs here."""

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """Store A [M, K] times the transpose of B [N, K] in C [M, N]."""
        c.copy_(_product(a, b))

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """Store alpha times that product plus beta times C in D."""
        d.copy_(alpha * _product(a, b) + beta * c.to(torch.float32))

    def block_scaled_matmul_mxfp8(self, *operands: Any) -> None:
        """Refuse: Triton has it for sm_100 alone."""
        raise UnsupportedError("cuBLAS's product of MXFP8 is not emulated; compare with a product of dequantized operands in PyTorch")

    def block_scaled_matmul_nvfp4(self, *operands: Any) -> None:
        """Refuse: Triton has it for sm_100 alone."""
        raise UnsupportedError("cuBLAS's product of NVFP4 is not emulated; compare with a product of dequantized operands in PyTorch")


def activate(replace: Callable[[Any, str, Any], None]) -> None:
    """Replace the interface, where Triton has it; `replace` restores it later."""
    try:
        from triton._C.libtriton import nvidia
    except ImportError:
        return
    if hasattr(nvidia, "cublas"):
        replace(nvidia.cublas, "CublasLt", CublasLt)
