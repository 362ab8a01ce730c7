"""Data that expose faults: sums without any rounding, and single nonzero elements."""

from __future__ import annotations

from typing import Tuple

import numpy as np

from .formats import encode
from .quantized import _LAYOUTS, Quantized


def exact(rows: int, depth: int, format: str = "mxfp8", *, seed: int = 0) -> Quantized:
    """Return a matrix [rows, depth] of small integers with scales of 1/2, 1 and 2. Every sum of products with another such matrix is exact in
    f32 up to depth 2^15, in any order, so that every bit of a result is known."""
    random = np.random.default_rng(seed)
    elements, scale_format, block = _LAYOUTS[format]
    values = random.choice([-2.0, -1.0, 0.0, 1.0, 2.0], size=(rows, depth), p=[0.1, 0.3, 0.2, 0.3, 0.1])
    scales = random.choice([0.5, 1.0, 2.0], size=(rows, depth // block))
    return Quantized(format, elements[0], encode(values, elements[0]), encode(scales, scale_format))


def impulse(rows: int, depth: int, at: Tuple[int, int], format: str = "mxfp8", *, value: float = 1.0) -> Quantized:
    """Return a matrix that is zero except for `value` at element `at` = (row, k): a product with it shows which elements are paired."""
    elements, scale_format, block = _LAYOUTS[format]
    values = np.zeros((rows, depth))
    values[at] = value
    scales = np.ones((rows, depth // block))
    return Quantized(format, elements[0], encode(values, elements[0]), encode(scales, scale_format))
