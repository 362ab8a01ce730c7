"""A Triton kernel with a fault: element 5 gets 2 instead of 1."""

import triton
import triton.language as tl


@triton.jit
def plus(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) + tl.where(i == 5, 2.0, 1.0))
