"""Element formats: encoding and decoding.

Sources: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0, sections 5.3 and 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Format:
    """A narrow format with sign, exponent and mantissa; `ue8m0` has only an exponent."""

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    signed: bool
    #: Magnitude codes that are NaN.
    nan: Tuple[int, ...] = ()
    #: Magnitude codes that are infinite.
    infinite: Tuple[int, ...] = ()

    @property
    def values(self) -> np.ndarray:
        """The values of all codes, f64 [2^bits]."""
        return _VALUES[self.name]

    @property
    def largest(self) -> float:
        """The largest finite value."""
        finite = self.values[np.isfinite(self.values)]
        return float(finite.max())

    def nominal_exponent(self, codes: np.ndarray) -> np.ndarray:
        """Return the exponent that a tensor core uses for a code: for subnormals, that of the smallest normal number."""
        field = (codes.astype(np.int32) >> self.mantissa_bits) & ((1 << self.exponent_bits) - 1)
        return np.maximum(field, 1) - self.bias


def _values(f: Format) -> np.ndarray:
    codes = np.arange(1 << f.bits)
    magnitude = codes & ((1 << (f.bits - f.signed)) - 1)
    if f.name == "ue8m0":
        values = np.ldexp(1.0, codes - f.bias)
    else:
        field, mantissa = magnitude >> f.mantissa_bits, magnitude & ((1 << f.mantissa_bits) - 1)
        significand = np.where(field == 0, mantissa, mantissa + (1 << f.mantissa_bits)).astype(np.float64)
        values = np.ldexp(significand, np.maximum(field, 1) - f.bias - f.mantissa_bits)
    values = np.where(np.isin(magnitude, f.infinite), np.inf, values)
    values = np.where(np.isin(magnitude, f.nan), np.nan, values)
    return np.where(f.signed & (codes >> (f.bits - 1) == 1), -values, values)


#: The formats by name.
FORMATS = {
    f.name: f
    for f in (
        Format("e4m3", 8, 4, 3, 7, True, nan=(0x7F,)),
        Format("e5m2", 8, 5, 2, 15, True, nan=(0x7D, 0x7E, 0x7F), infinite=(0x7C,)),
        Format("e2m3", 6, 2, 3, 1, True),
        Format("e3m2", 6, 3, 2, 3, True),
        Format("e2m1", 4, 2, 1, 1, True),
        Format("ue8m0", 8, 8, 0, 127, False, nan=(0xFF,)),
        Format("ue4m3", 8, 4, 3, 7, False, nan=(0x7F, *range(0x80, 0x100))),
    )
}
_VALUES = {name: _values(f) for name, f in FORMATS.items()}


def named(name: str) -> Format:
    """Return the format `name`; raises `ValueError` for an unknown name."""
    if name not in FORMATS:
        raise ValueError(f"{name!r} is not a format; the formats are {', '.join(FORMATS)}")
    return FORMATS[name]


def decode(codes: ArrayLike, name: str) -> np.ndarray:
    """Return the exact values, f64, of codes (u8, one per byte)."""
    f = named(name)
    codes = np.asarray(codes, dtype=np.uint8)
    if f.bits < 8 and (codes >> f.bits).any():
        raise ValueError(f"a code of {name} has {f.bits} bits; unpack codes that share bytes first (`mx.unpack4`)")
    return f.values[codes]


def encode(x: ArrayLike, name: str) -> np.ndarray:
    """Return the codes of values, rounded to nearest, ties to even, and saturated at the largest finite value (`cvt.rn.satfinite`).

    NaN becomes the lowest positive NaN code or, in a format without NaN, the largest value. An unsigned format accepts no negative values.
    """
    f = named(name)
    x = np.asarray(x, dtype=np.float64)
    if not f.signed and (x < 0).any():
        raise ValueError(f"{name} has no negative values")
    half = 1 << (f.bits - f.signed)
    ladder = f.values[:half]
    count = int(np.isfinite(ladder).sum())
    ladder = ladder[:count]
    magnitude = np.minimum(np.abs(np.nan_to_num(x, nan=np.inf, posinf=np.inf, neginf=-np.inf)), ladder[-1])
    above = np.clip(np.searchsorted(ladder, magnitude), 1, count - 1)
    below = above - 1
    low, high = magnitude - ladder[below], ladder[above] - magnitude
    # On a tie, take the even one of two neighbouring codes.
    up = (high < low) | ((high == low) & (above % 2 == 0))
    code = np.where(up, above, below)
    code = np.where(np.isnan(x), f.nan[0] if f.nan else count - 1, code)
    negative = np.signbit(x) & ~np.isnan(x) & f.signed
    return (code | (negative.astype(np.int64) << (f.bits - 1))).astype(np.uint8)


def pack4(codes: ArrayLike) -> np.ndarray:
    """Pack 4-bit codes two per byte, the first in the low bits: u8 [..., K] to [..., K/2]."""
    codes = np.asarray(codes, dtype=np.uint8)
    if codes.shape[-1] % 2:
        raise ValueError("an odd number of elements does not fill bytes")
    return codes[..., 0::2] | codes[..., 1::2] << 4


def unpack4(packed: ArrayLike) -> np.ndarray:
    """Unpack 4-bit codes, the inverse of `pack4`: u8 [..., K/2] to [..., K]."""
    packed = np.asarray(packed, dtype=np.uint8)
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
