"""The exact result of a GEMM, and a bound on the error of a correct kernel.

Section 4 of `docs/numerics.md` has the model of a tensor-core step and the derivation: a step adds L products to the accumulator; each term
is truncated toward zero F bits below the largest exponent, and the sum is truncated to 24 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike

from .. import _native
from .quantized import Quantized, as_quantized

#: By name: products L per step, bits F kept below the largest exponent, and whether steps accumulate in order of ascending k.
#: `native` is one block-scaled `mma` per 32 elements (sm_120), `bf16` an `mma` of 16 (sm_90, sm_100, sm_120), `ampere` one of 8 (sm_80, sm_86,
#: sm_89), `unknown` the loosest of these in any order. `fma` adds single products in f32, in any order.
ACCUMULATIONS = {
    "native": (32, 25, True),
    "bf16": (16, 25, True),
    "ampere": (8, 24, True),
    "unknown": (8, 24, False),
    "fma": (1, 24, False),
}

#: The types of results.
RESULTS = ("bf16", "f16", "f32", "f64")


@dataclass(frozen=True)
class Bound:
    """The exact value and the error bound of every element, f64 [M, N]."""

    value: np.ndarray
    error: np.ndarray

    @property
    def decides(self) -> np.ndarray:
        """Whether the bound of each element is narrower than its value, bool [M, N]. At other elements, 0 would pass."""
        return np.isfinite(self.error) & ((self.error == 0) | (self.error < np.abs(self.value)))


#: An operand, the bias, and how a kernel sums and what it stores, as the native module takes them.
_Problem = Tuple[Tuple[Any, ...], Tuple[Any, ...], Optional[bytes], Tuple[int, int, bool, str]]


def _operand(x: Any) -> Tuple[Any, ...]:
    if isinstance(x, Quantized):
        codes, scales = (np.ascontiguousarray(of, dtype=np.uint8).tobytes() for of in (x.codes, x.scales))
        return (x.element, x.shape[1], codes, x.scale_format, x.block, scales, float(x.global_scale))
    values = np.ascontiguousarray(x, dtype="<f8")
    if values.ndim != 2:
        raise ValueError(f"a matrix is wanted, not {values.shape}")
    return (values.shape[1], values.tobytes())


def _problem(
    a: Union[Quantized, ArrayLike],
    b: Union[Quantized, ArrayLike],
    accumulation: str,
    order: Optional[str],
    out: str,
    bias: Optional[ArrayLike],
) -> Tuple[_Problem, Tuple[int, int]]:
    """The problem, and the shape of its result."""
    if accumulation not in ACCUMULATIONS:
        raise ValueError(f"{accumulation!r} is no accumulation; there are {', '.join(ACCUMULATIONS)}")
    if out not in RESULTS:
        raise ValueError(f"{out!r} is no type of results; there are {', '.join(RESULTS)}")
    if order not in (None, "any", "ascending"):
        raise ValueError(f"{order!r} is no order; there are any, ascending")
    shapes = [of.shape if isinstance(of, Quantized) else np.shape(of) for of in (a, b)]
    operands = _operand(a), _operand(b)
    if shapes[0][1] != shapes[1][1]:
        raise ValueError(f"K differs: {shapes[0]} and {shapes[1]}")
    length, fraction, rising = ACCUMULATIONS[accumulation]
    rising = rising if order is None else order == "ascending"
    of_columns = None
    if bias is not None:
        of_columns = np.broadcast_to(np.asarray(bias, dtype="<f8"), (shapes[1][0],)).tobytes()
    # Single products have no steps.
    how = (0 if accumulation == "fma" else length, fraction, rising, out)
    return (*operands, of_columns, how), (shapes[0][0], shapes[1][0])


def bound(
    a: Union[Quantized, np.ndarray],
    b: Union[Quantized, np.ndarray],
    formats: Optional[Sequence[Optional[str]]] = None,
    *,
    accumulation: str = "unknown",
    order: Optional[str] = None,
    out: str = "bf16",
    bias: Optional[np.ndarray] = None,
) -> Bound:
    """Return the exact product of `a` [M, K] and the transpose of `b` [N, K], plus `bias` [N], and an error bound for a kernel that rounds it
    once to `out`.

    Operands are `Quantized`, or arrays whose elements the kernel multiplies as they are (bf16, f16). `accumulation` describes the kernel
    (`ACCUMULATIONS`). `order` overrides its order of steps: in order of ascending k to one accumulator (`ascending`), or in any order (`any`).
    `formats` quantizes operands that are not quantized yet (`("mxfp8", "mxfp4")`; `None` leaves an operand as it is). Where an operand is NaN
    or infinite, or the result may overflow, the value is NaN and the error infinite: such elements are not checked.

    For `nvfp4`, the bound assumes that the tensor core applies a pair of scales without rounding.
    """
    problem, shape = _problem(*as_quantized(a, b, formats), accumulation, order, out, bias)
    done = _native.product_bounds(*problem)
    assert done is not None, "the formats of a quantized matrix are known"
    value, error = (np.frombuffer(of, dtype="<f8").reshape(shape) for of in done)
    return Bound(value, error)


def explanation(
    values: np.ndarray,
    a: Union[Quantized, ArrayLike],
    b: Union[Quantized, ArrayLike],
    *,
    accumulation: str,
    order: Optional[str],
    out: str,
    bias: Optional[ArrayLike],
    sample: Optional[int] = None,
) -> str:
    """Return what explains the elements of `values` [M, N] that `bound` does not admit, in sentences; nothing if there are none. `sample` is the
    number of rows and of columns that are looked at, evenly spread."""
    problem, _ = _problem(a, b, accumulation, order, out, bias)
    return _native.explain_product(*problem, np.ascontiguousarray(values, dtype="<f8").tobytes(), sample) or ""
