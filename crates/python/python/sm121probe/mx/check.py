"""Comparison of results with their bounds, and recognition of known faults."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple, Union

import numpy as np

from .bounds import Bound, bound
from .quantized import Quantized, as_quantized


class Undecided(AssertionError, ValueError):
    """The check cannot decide whether the result is right: there is no element, or the bounds are too wide.

    An `AssertionError`, since the result does not pass; a `ValueError`, since other operands or options would decide.
    """


def assert_within(
    out,
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

    `out` is an array of f32, f16, bf16 (of `ml_dtypes` or PyTorch) or f64; `out_type` is the type to which the kernel rounded, if it differs
    from the array's. Raises `AssertionError` with the first wrong row and column, the largest ratio of error to bound, and the known fault
    that explains the whole result, if any. Raises `Undecided` if fewer than half of the elements are decided (`Bound.decides`): without any
    element, or with bounds wider than the values, a result of zeros would pass.
    """
    values, found = _values(out)
    a, b = as_quantized(a, b, formats)
    how = {"accumulation": accumulation, "order": order, "out": out_type or found}
    expected = bound(a, b, bias=bias, **how)
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
    fault = _explain(values, judged, a, b, bias, how)
    raise AssertionError(text + (f"; explained entirely by: {fault}" if fault else ""))


def _values(out) -> Tuple[np.ndarray, str]:
    dtype = str(out.dtype).rpartition(".")[2]
    named = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}
    if dtype not in named:
        raise TypeError(f"results of {dtype} cannot be judged; f32, f16, bf16 and f64 can")
    if dtype == "bfloat16" and hasattr(out, "float"):
        out = out.float().numpy()
    return np.asarray(out).astype(np.float64), named[dtype]


def _within(values: np.ndarray, expected: Bound) -> np.ndarray:
    return np.abs(values - expected.value) <= expected.error


def _explain(values, judged, a, b, bias, how) -> Optional[str]:
    """Return the known fault that explains the whole result, if any."""
    for what, other in _faults(a, b, bias):
        try:
            expected = bound(other[0], other[1], bias=other[2], **how)
        except ValueError:
            continue
        if expected.value.shape != values.shape:
            continue
        if _within(values, expected)[judged & np.isfinite(expected.error)].all():
            return what
    return None


def _faults(a, b, bias):
    """Yield known kernel faults: a description, and the operands that reproduce the fault."""
    for name, x, put in (("A", a, lambda y: (y, b, bias)), ("B", b, lambda y: (a, y, bias))):
        if isinstance(x, Quantized):
            for what, scales in _scale_faults(x):
                yield f"{what} of {name}", put(_with(x, scales=scales))
            if x.element == "e2m1":
                swapped = x.codes.reshape(x.shape[0], -1, 2)[:, :, ::-1].reshape(x.shape)
                yield f"the two elements of each byte of {name} exchanged", put(_with(x, codes=swapped))
            if x.global_scale != 1.0:
                yield f"the global scale of {name} left out", put(_with(x, global_scale=1.0))
            for part in (x.block, 2 * x.block, 4 * x.block):
                if x.shape[1] > part:
                    codes = x.codes.copy()
                    codes[:, -part:] = 0
                    yield f"the last {part} of K left out of {name}", put(_with(x, codes=codes))
            codes = np.roll(x.codes, 1, axis=0), np.roll(x.scales, 1, axis=0)
            yield f"each row of {name} taken from the row before", put(_with(x, codes=codes[0], scales=codes[1]))
    if bias is not None:
        yield "the bias left out", (a, b, None)
        yield "the bias of the column before", (a, b, np.roll(np.asarray(bias), 1))


def _scale_faults(x: Quantized):
    scales = x.scales
    one = np.uint8({"ue8m0": 127, "ue4m3": 0x38}[x.scale_format])
    yield "scales left out", np.full_like(scales, one)
    if scales.shape[1] > 1:
        pairs = scales.copy()
        even = scales.shape[1] // 2 * 2
        pairs[:, 0:even:2], pairs[:, 1:even:2] = scales[:, 1:even:2], scales[:, 0:even:2]
        yield "scales of neighbouring blocks exchanged", pairs
        yield "the scale of each block taken from the block before", np.roll(scales, 1, axis=1)
        yield "the scale of each block taken from the next block", np.roll(scales, -1, axis=1)
        yield "the first scale of a row taken for all of it", np.broadcast_to(scales[:, :1], scales.shape).copy()
        last = scales.copy()
        last[:, -1] = scales[:, -2]
        yield "the last scale of a row taken from the block before", last
    if scales.shape[0] > 1:
        yield "scales taken from the row before", np.roll(scales, 1, axis=0)
        yield "scales taken from the next row", np.roll(scales, -1, axis=0)


def _with(x: Quantized, **changes) -> Quantized:
    fields = {"codes": x.codes, "scales": x.scales, "global_scale": x.global_scale, **changes}
    return Quantized(x.format, x.element, **fields)
