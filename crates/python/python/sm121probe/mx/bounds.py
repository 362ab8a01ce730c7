"""The exact result of a GEMM, and a bound on the error of a correct kernel.

Section 4 of `docs/numerics.md` has the model of a tensor-core step and the derivation: a step adds L products to the accumulator; each term
is truncated toward zero F bits below the largest exponent, and the sum is truncated to 24 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple, Union

import numpy as np

from .. import _native
from .formats import decode, named
from .quantized import Quantized, as_quantized, dequantize

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

#: Mantissa bits of the result types.
RESULTS = {"f32": 23, "bf16": 7, "f16": 10, "f64": 52}

#: The nominal exponent of zeros.
_ZERO = -132


@dataclass(frozen=True)
class Bound:
    """The exact value and the error bound of every element, f64 [M, N]."""

    value: np.ndarray
    error: np.ndarray

    @property
    def decides(self) -> np.ndarray:
        """Whether the bound of each element is narrower than its value, bool [M, N]. At other elements, 0 would pass."""
        return np.isfinite(self.error) & ((self.error == 0) | (self.error < np.abs(self.value)))


@dataclass(frozen=True)
class _Operand:
    values: np.ndarray
    #: Nominal exponent of each element; `_ZERO` for zeros.
    exponents: np.ndarray
    #: Exponent of the lowest set bit of each element; large for zeros.
    units: np.ndarray


_NONE = 10_000


def _operand(x: Union[Quantized, np.ndarray]) -> _Operand:
    if isinstance(x, Quantized):
        values = dequantize(x)
        scales = np.repeat(x.scale_values() * x.global_scale, x.block, axis=1)
        f = named(x.element)
        # A scale of 1.m·2^e may raise a product to the next exponent.
        lift = np.frexp(scales)[1] - 1 + (np.frexp(scales)[0] != 0.5)
        nominal = f.nominal_exponent(x.codes) + lift
        zero = decode(x.codes, x.element) == 0
    else:
        values = np.asarray(x, dtype=np.float64)
        if values.ndim != 2:
            raise ValueError(f"a matrix is wanted, not {values.shape}")
        nominal = np.maximum(np.frexp(values)[1] - 1, -126)
        zero = values == 0
    return _Operand(values, np.where(zero, _ZERO, nominal), np.where(zero, _NONE, _unit(values)))


def _unit(values: np.ndarray) -> np.ndarray:
    """Return the exponent of the lowest set bit."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    integer = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = integer & -integer
    return exponent - 53 + np.where(integer == 0, 0, np.log2(np.maximum(lowest, 1)).astype(np.int64))


def _exponent(x: np.ndarray) -> np.ndarray:
    return np.frexp(x)[1] - 1


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
    if accumulation not in ACCUMULATIONS:
        raise ValueError(f"{accumulation!r} is no accumulation; there are {', '.join(ACCUMULATIONS)}")
    if out not in RESULTS:
        raise ValueError(f"{out!r} is no type of results; there are {', '.join(RESULTS)}")
    if order not in (None, "any", "ascending"):
        raise ValueError(f"{order!r} is no order; there are any, ascending")
    a, b = as_quantized(a, b, formats)
    left, right = _operand(a), _operand(b)
    if left.values.shape[1] != right.values.shape[1]:
        raise ValueError(f"K differs: {left.values.shape} and {right.values.shape}")
    length, fraction, rising = ACCUMULATIONS[accumulation]
    rising = rising if order is None else order == "ascending"
    if accumulation == "fma":
        value, error = _fma(left, right)
    else:
        value, error = _steps(left, right, length, fraction, rising)
    if bias is not None:
        value = value + np.asarray(bias, dtype=np.float64)
        error = error + np.ldexp(1.0, _exponent(np.abs(value) + error) - 23)
    reach = np.abs(value) + error
    bits = RESULTS[out]
    if bits < 23:
        # Half a unit in the last place of the largest possible accumulator; zero if its exact value is representable in the type.
        lowest = -24 if out == "f16" else -133
        half = np.ldexp(1.0, np.maximum(_exponent(reach) - bits, lowest) - 1)
        kept = (error == 0) & (np.ldexp(np.round(np.ldexp(value, -_exponent(value) + bits)), _exponent(value) - bits) == value)
        error = error + np.where(kept | (reach == 0), 0.0, half)
    limit = 65504.0 if out == "f16" else float(np.finfo(np.float32).max)
    open_ = ~np.isfinite(value) | (reach > limit)
    return Bound(np.where(open_, np.nan, value), np.where(open_, np.inf, error))


def _fma(left: _Operand, right: _Operand) -> Tuple[np.ndarray, np.ndarray]:
    """At most K roundings of relative error 2^-24, each of a partial sum no larger than the sum of magnitudes (Jeannerod and Rump 2013), and as
    many of subnormals."""
    depth = left.values.shape[1]
    value = left.values @ right.values.T
    magnitude = np.abs(left.values) @ np.abs(right.values).T
    unit = np.minimum(left.units.min(axis=1)[:, None] + right.units.min(axis=1)[None, :], _NONE)
    exact = (magnitude < np.ldexp(1.0, np.clip(unit, -1000, 900) + 24)) & (unit >= -149)
    error = depth * (2.0**-24 * magnitude + 2.0**-150) + depth * 2.0**-53 * magnitude
    return value, np.where(exact, 0.0, error)


def _steps(
    left: _Operand, right: _Operand, length: int, fraction: int, rising: bool
) -> Tuple[np.ndarray, np.ndarray]:
    """Section 4.2 for steps with ascending k; otherwise the same with the sum of all magnitudes for every partial sum."""
    def arrays(of: _Operand) -> List[bytes]:
        return [
            np.ascontiguousarray(of.values, dtype="<f8").tobytes(),
            np.ascontiguousarray(of.exponents, dtype="<i8").tobytes(),
            np.ascontiguousarray(of.units, dtype="<i8").tobytes(),
        ]

    shape = (left.values.shape[0], right.values.shape[0])
    done = _native.step_bounds(arrays(left), arrays(right), left.values.shape[1], (length, fraction, rising))
    value, error = (np.frombuffer(of, dtype="<f8").reshape(shape) for of in done)
    return value, error
