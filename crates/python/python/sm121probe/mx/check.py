"""Comparison of results with their bounds."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from ..origin import _values as _numbers
from ..origin import last_write
from .bounds import Bound, bound, explanation
from .quantized import Quantized, as_quantized


#: Products above which so many rows and columns are judged first.
_MOST_PRODUCTS, _SAMPLE = 1 << 30, 96


class Undecided(AssertionError, ValueError):
    """The check cannot decide whether the result is right: there is no element, or the bounds are too wide.

    An `AssertionError`, since the result does not pass; a `ValueError`, since other operands or options would decide.
    """


def assert_within(
    out: Any,
    a: Union[Quantized, np.ndarray],
    b: Union[Quantized, np.ndarray],
    formats: Optional[Sequence[Optional[str]]] = None,
    *,
    accumulation: str = "unknown",
    order: Optional[str] = None,
    out_type: Optional[str] = None,
    bias: Optional[np.ndarray] = None,
) -> Bound:
    """Check the result [M, N] of a GEMM against `bound`, and return the bound.

    `out` is an array of f32, f16, bf16 (of `ml_dtypes` or PyTorch) or f64, or a `DeviceArray`; `out_type` is the type to which the kernel rounded, if it differs
    from the array's. Raises `AssertionError` with the first wrong row and column, the largest ratio of error to bound, and
    every known fault that explains all of it, or what is wrong if none does; for a result of an emulated launch, also which instruction
    wrote the first wrong element last (`sm121probe.last_write`). Raises `Undecided` if fewer than half of the elements are decided (`Bound.decides`): without any
    element, or with bounds wider than the values, a result of zeros would pass. Of more than 2^30 products, 96 rows and 96 columns are judged first; if one of their elements is wrong, the rest
    is not judged.
    """
    __tracebackhide__ = True
    values, found = _values(out)
    a, b = as_quantized(a, b, formats)
    how: Dict[str, Any] = {"accumulation": accumulation, "order": order, "out": out_type or found, "bias": bias}
    shapes = [x.shape if isinstance(x, Quantized) else np.shape(x) for x in (a, b)]
    rows, columns = (shape[0] if len(shape) == 2 else 0 for shape in shapes)
    if values.shape == (rows, columns) and values.size * shapes[0][-1] > _MOST_PRODUCTS:
        why = explanation(values, a, b, **how, sample=_SAMPLE)
        if why:
            raise AssertionError(f"elements of a sample are wrong; the rest is not judged\n{why}")
    expected = bound(a, b, **how)
    if values.shape != expected.value.shape:
        raise AssertionError(f"the result is {values.shape}, but should be {expected.value.shape}")
    if values.size == 0:
        raise Undecided(f"nothing can be judged: the result has no element, but the shape {values.shape}")
    judged = np.isfinite(expected.error)
    if not judged.any():
        raise Undecided("nothing can be judged: every element is NaN, or may be infinite")
    wrong = judged & ~_within(values, expected)
    if not wrong.any():
        decided = int(expected.decides.sum())
        if 2 * decided < values.size:
            raise Undecided(
                f"only {decided} of {values.size} elements can be judged: the bounds of the others are wider than the values, and a result of "
                "zeros would pass; name the kernel's accumulation and order, or use data of `exact`"
            )
        return expected
    row, column = (int(n) for n in np.argwhere(wrong)[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.abs(values - expected.value) / expected.error
    over = np.where(wrong, np.where(np.isnan(over), np.inf, over), 0.0)
    worst = tuple(int(n) for n in np.unravel_index(np.argmax(over), over.shape))
    text = (
        f"{int(wrong.sum())} of {int(judged.sum())} elements are wrong, first row {row}, column {column}: {values[row, column]:.9g} where "
        f"{expected.value[row, column]:.9g} ± {expected.error[row, column]:.3g} is right; worst row {worst[0]}, column {worst[1]}: "
        f"{over[worst]:.3g} times its bound"
    )
    why = explanation(values, a, b, **how)
    written = last_write(out, (row, column))
    raise AssertionError("\n".join(part for part in (text, why, written) if part))


def _values(out: Any) -> Tuple[np.ndarray, str]:
    if not hasattr(out, "dtype"):
        raise TypeError(f"out is a {type(out).__name__}, whose numbers have no type; give an array of the type that the kernel wrote")
    dtype = str(out.dtype).rpartition(".")[2]
    named = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}
    if dtype not in named:
        raise TypeError(f"results of {dtype} cannot be judged; f32, f16, bf16 and f64 can")
    return _numbers(out).astype(np.float64), named[dtype]


def _within(values: np.ndarray, expected: Bound) -> np.ndarray:
    within: np.ndarray = np.abs(values - expected.value) <= expected.error
    return within
