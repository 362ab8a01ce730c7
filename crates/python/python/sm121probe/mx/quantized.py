"""Quantized matrices: codes, scales, and the rules for choosing scales."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike

from .formats import decode, encode, named, pack4

#: By format: element formats, the first being the default; scale format; elements per scale.
_LAYOUTS = {
    "mxfp8": (("e4m3", "e5m2"), "ue8m0", 32),
    "mxfp6": (("e2m3", "e3m2"), "ue8m0", 32),
    "mxfp4": (("e2m1",), "ue8m0", 32),
    "nvfp4": (("e2m1",), "ue4m3", 16),
}

#: How the power-of-two scale of a block is chosen from its largest magnitude amax. With M the largest value of the element format:
#: `ceil`: the smallest without overflow, ⌈log2(amax/M)⌉; `floor`: ⌊log2 amax⌋ − ⌊log2 M⌋ (OCP MX 1.0); `even`: the same for amax rounded to
#: the mantissa of the element format; `nearest`: the power of two nearest to amax/M; `rz`: ⌊log2(amax/M)⌋; `identity`: always 1.
RULES = ("ceil", "floor", "even", "nearest", "rz", "identity")


@dataclass(frozen=True)
class Quantized:
    """A matrix [rows, K] in a microscaling format."""

    #: `mxfp8`, `mxfp6`, `mxfp4` or `nvfp4`.
    format: str
    #: The format of the elements.
    element: str
    #: u8 [rows, K], one code per byte.
    codes: np.ndarray = field(repr=False)
    #: u8 [rows, K/block].
    scales: np.ndarray = field(repr=False)
    #: A factor of all values, used only by `nvfp4`.
    global_scale: float = 1.0

    @property
    def block(self) -> int:
        """Elements per scale."""
        return _LAYOUTS[self.format][2]

    @property
    def scale_format(self) -> str:
        """The format of the scales."""
        return _LAYOUTS[self.format][1]

    @property
    def shape(self) -> Tuple[int, ...]:
        """Rows and K."""
        return self.codes.shape

    @property
    def packed(self) -> np.ndarray:
        """The codes as kernels read them: two per byte for 4-bit elements, otherwise one per byte."""
        return pack4(self.codes) if named(self.element).bits == 4 else self.codes

    def scale_values(self) -> np.ndarray:
        """Return the values of the scales, f64 [rows, K/block], without the global scale."""
        return decode(self.scales, self.scale_format)

    def __post_init__(self) -> None:
        rows, depth = self.codes.shape
        if depth % self.block or self.scales.shape != (rows, depth // self.block):
            raise ValueError(
                f"codes {self.codes.shape} want scales {(rows, -(-depth // self.block))}, and K a multiple of {self.block}; "
                f"the scales are {self.scales.shape}"
            )


def dequantize(q: Quantized) -> np.ndarray:
    """Return the values, f64 [rows, K]: exact for power-of-two scales; for `nvfp4`, up to the rounding of the last product to f64."""
    scales = np.repeat(q.scale_values(), q.block, axis=1)
    return decode(q.codes, q.element) * scales * q.global_scale


def quantize(
    x: ArrayLike,
    format: str = "mxfp8",
    *,
    rule: str = "ceil",
    element: Optional[str] = None,
    global_scale: Optional[float] = None,
) -> Quantized:
    """Quantize a matrix [rows, K].

    `rule` selects how the power-of-two scale of a block is chosen (`RULES`). It does not apply to `nvfp4`: the scale of a block is amax/6
    divided by the global scale and rounded to ue4m3, and the global scale, by default, is amax of the matrix divided by 448·6.

    A block with a NaN has a NaN scale; infinities saturate under the largest scale.
    """
    if format not in _LAYOUTS:
        raise ValueError(f"{format!r} is not a format; the formats are {', '.join(_LAYOUTS)}")
    elements, scale_format, block = _LAYOUTS[format]
    element = element or elements[0]
    if element not in elements:
        raise ValueError(f"{format} has no elements of {element}; it has {', '.join(elements)}")
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] % block:
        raise ValueError(f"a matrix whose K is a multiple of {block} is wanted, not {x.shape}")
    blocks = x.reshape(x.shape[0], -1, block)
    amax = np.abs(blocks).max(axis=2)
    if format == "nvfp4":
        if global_scale is None:
            most = np.abs(x[np.isfinite(x)]).max(initial=0.0)
            global_scale = float(np.float32(most / (448.0 * 6.0))) or 1.0
        with np.errstate(invalid="ignore"):
            scales = encode(amax / 6.0 / global_scale, scale_format)
        values = decode(scales, scale_format) * global_scale
    else:
        if global_scale is not None:
            raise ValueError(f"{format} has no global scale")
        global_scale = 1.0
        scales = power_of_two(amax, element, rule)
        values = decode(scales, scale_format)
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = np.where(values[..., None] == 0, 0.0, blocks / values[..., None])
    codes = encode(scaled, element)
    nan = named(element).nan
    if nan:
        # All elements of a block with a NaN become NaN.
        codes = np.where(np.isnan(amax)[..., None], np.uint8(nan[-1]), codes)
    return Quantized(format, element, codes.reshape(x.shape), scales, float(global_scale))


def power_of_two(amax: ArrayLike, element: str, rule: str) -> np.ndarray:
    """Return the ue8m0 scale codes of blocks with these largest magnitudes."""
    if rule not in RULES:
        raise ValueError(f"{rule!r} is no rule; there are {', '.join(RULES)}")
    amax = np.asarray(amax, dtype=np.float64)
    f = named(element)
    finite = np.where(np.isfinite(amax) & (amax > 0), amax, 1.0)
    mantissa, exponent = np.frexp(finite)
    mantissa, exponent = mantissa * 2, exponent - 1
    top_mantissa, top = np.frexp(f.largest)
    top_mantissa, top = top_mantissa * 2, top - 1
    x = exponent - top
    if rule == "ceil":
        x = x + (mantissa > top_mantissa)
    elif rule == "even":
        x = x + (mantissa >= 2 - 2.0 ** -(f.mantissa_bits + 1))
    elif rule == "nearest":
        x = x - (mantissa < 0.75 * top_mantissa)
    elif rule == "rz":
        x = x - (mantissa < top_mantissa)
    elif rule == "identity":
        x = np.zeros_like(x)
    codes = np.clip(x, -127, 127) + 127
    if rule != "identity":
        codes = np.where(amax == 0, 0, np.where(np.isinf(amax), 254, codes))
    return np.where(np.isnan(amax), 255, codes).astype(np.uint8)


def as_quantized(
    a: Union[Quantized, ArrayLike], b: Union[Quantized, ArrayLike], formats: Optional[Sequence[Optional[str]]]
) -> Tuple[Any, Any]:
    """Return both operands, quantized to `formats` unless they are quantized already or their format is `None`."""
    wanted = tuple(formats or (None, None))
    if len(wanted) != 2:
        raise ValueError(f"formats are two, of both operands, not {formats!r}")
    first, second = (quantize(x, f) if f and not isinstance(x, Quantized) else x for x, f in zip((a, b), wanted))
    return first, second
