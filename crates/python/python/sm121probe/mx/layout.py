"""Layouts of scales in memory.

Sources: CUTLASS `detail/sm100_blockscaled_layout.hpp`; FlashInfer `quantization_utils.cuh`.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_TILES = {"linear": (1, 1), "128x4": (128, 4), "8x4": (8, 4)}


def _offsets(rows: int, columns: int, layout: str) -> Tuple[NDArray[np.int64], int]:
    if layout not in _TILES:
        raise ValueError(f"{layout!r} is no layout of scales; there are {', '.join(_TILES)}")
    tile = _TILES[layout][0]
    r, k = np.arange(rows)[:, None], np.arange(columns)[None, :]
    tiles = -(-columns // 4)
    if layout == "linear":
        return r * columns + k, rows * columns
    inner = r % 32 * 16 + r % 128 // 32 * 4 if tile == 128 else r % 8 * 4
    size = -(-rows // tile) * tile * tiles * 4
    return (r // tile * tiles + k // 4) * (tile * 4) + inner + k % 4, size


def swizzle_scales(scales: ArrayLike, layout: str = "128x4", *, padding: int = 0) -> "NDArray[np.uint8]":
    """Lay out scales u8 [rows, columns] as kernels read them, u8 [bytes]: rows padded to 128 (`128x4`) or 8 (`8x4`), columns to 4."""
    given = np.asarray(scales, dtype=np.uint8)
    rows, columns = given.shape
    at, size = _offsets(rows, columns, layout)
    out = np.full(size, padding, dtype=np.uint8)
    out[at] = given
    return out


def unswizzle_scales(
    swizzled: ArrayLike, rows: int, columns: int, layout: str = "128x4"
) -> "NDArray[np.uint8]":
    """Return scales u8 [rows, columns] from a layout: the inverse of `swizzle_scales`."""
    at, size = _offsets(rows, columns, layout)
    flat = np.asarray(swizzled, dtype=np.uint8).reshape(-1)
    if flat.size != size:
        raise ValueError(f"{rows}x{columns} scales have {size} bytes in layout {layout}, not {flat.size}")
    return flat[at]
