"""What may be wrong with the kernel of a wrong product: changes of its operands or of its stores, one of which may explain every element.

A hypothesis is tried on a few wrong elements, then on a sample of wrong and of right ones, then on everything. It explains the result only if
it makes every wrong element right and leaves every right one right, and if its bounds decide. If none does, a constant factor is fitted, alone
and together with each hypothesis; then a hypothesis may explain a part: it makes every wrong element right and breaks others only outside the
rows and columns of the wrong ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from .bounds import RESULTS, Bound, bound
from .formats import decode
from .layout import _offsets
from .quantized import Quantized

Operand = Union[Quantized, np.ndarray]
#: The element of the right product that a kernel stores at rows and columns.
Places = Callable[[np.ndarray, np.ndarray], Tuple[np.ndarray, np.ndarray]]

#: The most wrong and the most right elements of a sample, and of the first look.
_SAMPLE, _FEW = 32, 4
#: Products beyond this many are verified on rows and columns evenly spread.
_ALL = 1 << 27
_SPREAD = 96
#: The wrong elements that an explanation of a part needs at least.
_LEAST_PART = 24
#: The most tiles of K that are left out alone.
_TILES = 32
#: A fitted factor must be known to this.
_NARROW = 0.05


@dataclass(frozen=True)
class Variant:
    """What a kernel with a fault would compute."""

    what: str
    #: Where to look.
    look: str
    a: Operand
    b: Operand
    bias: Optional[np.ndarray]
    places: Optional[Places] = None
    #: Elements whose product is added to that of an element: what an accumulator that is not cleared holds.
    stale: Optional[Places] = None
    factor: float = 1.0
    #: What is added to each row.
    row_bias: Optional[np.ndarray] = None


@dataclass(frozen=True)
class Diagnosis:
    """What explains a wrong product."""

    #: Everything that explains all of it, in sentences, and where to look; those that cannot differ with these data are joined.
    explanations: List[Tuple[str, str]]
    #: The best of the others and the share of a sample of wrong elements that it explains.
    best: Optional[Tuple[str, float]]
    #: Which rows and columns are wrong.
    extent: str
    #: Elements on which explanations were verified, of all.
    verified: Tuple[int, int]

    def __str__(self) -> str:
        if len(self.explanations) == 1:
            what, look = self.explanations[0]
            text = f"explained entirely by: {what}; look at {look}"
        elif self.explanations:
            text = f"{len(self.explanations)} faults explain it entirely: " + "; or ".join(what for what, _ in self.explanations)
        else:
            text = "unexplained: no known fault makes every element right"
            if self.best:
                text += f"; the best explains {self.best[1]:.0%} of a sample: {self.best[0]}"
        if self.explanations and self.verified[0] < self.verified[1]:
            text += f" (verified on {self.verified[0]} of {self.verified[1]} elements)"
        return f"{text}; wrong: {self.extent}"


def explain(
    values: np.ndarray,
    expected: Bound,
    wrong: np.ndarray,
    a: Operand,
    b: Operand,
    bias: Optional[np.ndarray],
    how: Dict[str, Any],
) -> Diagnosis:
    """Search for what explains the `wrong` elements of `values`, whose right values are `expected`."""
    return _Search(values, expected, wrong, a, b, bias, how).run()


class _Search:
    def __init__(self, values, expected, wrong, a, b, bias, how):
        self.values, self.expected, self.wrong, self.how = values, expected, wrong, how
        self.right = Variant("", "", a, b, None if bias is None else np.asarray(bias, dtype=np.float64))
        judged = np.isfinite(expected.error)
        # Half of the wrong ones are those whose bounds are narrowest for their size: a fitted factor must hold there, too.
        at = np.argwhere(wrong)
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.nan_to_num(expected.error[wrong] / np.abs(expected.value[wrong]), nan=np.inf)
        narrow = at[np.argsort(width, kind="stable")[: _SAMPLE // 2]]
        of_wrong = np.unique(np.concatenate([_spread(at, _SAMPLE // 2), narrow]), axis=0)
        self.sample = [of_wrong, _spread(np.argwhere(judged & ~wrong), _SAMPLE)]
        self.best: Optional[Tuple[str, float]] = None
        self.found: List[Tuple[Variant, np.ndarray]] = []
        self.verified = values.size
        #: Those that make every wrong element of the sample right, and break others.
        self.partial: List[Variant] = []
        # What is added or multiplied behind the bound is rounded once more, to binary32 and to the type of the result.
        self.roundoff = 2.0 ** -min(RESULTS[how["out"]], 22)

    def run(self) -> Diagnosis:
        variants = list(_variants(self.right))
        for variant in variants:
            self._try(variant)
        # A factor fits as well as a fault that comes to one.
        self._try_factor(self.right)
        if not self.found:
            for variant in variants:
                self._try_factor(variant)
        if not self.found:
            self._try_parts()
        texts = [(variant.what, variant.look) for variant, _ in self.found]
        return Diagnosis(texts, self.best, _extent(self.wrong, self.values), (self.verified, self.values.size))

    def _predicted(self, variant: Variant, at: np.ndarray) -> Optional[Bound]:
        """What the variant stores at elements [n, 2]; `None` if it reads what is not there."""
        try:
            rows, columns = (variant.places or _same)(at[:, 0], at[:, 1])
            out = self._product(variant, rows, columns)
            if variant.stale:
                rows, columns = variant.stale(at[:, 0], at[:, 1])
                # The first tile finds a clear accumulator.
                there = (rows >= 0) & (columns >= 0)
                more = self._product(variant, np.maximum(rows, 0), np.maximum(columns, 0))
                value = out.value + np.where(there, more.value, 0)
                error = np.where(there, out.error + more.error + self.roundoff * np.abs(value), out.error)
                out = Bound(value, error)
            if variant.row_bias is not None:
                value = out.value + variant.row_bias[at[:, 0]]
                out = Bound(value, out.error + self.roundoff * (np.abs(value) + np.abs(out.value)))
        except (ValueError, IndexError):
            return None
        if variant.factor == 1:
            return out
        value = out.value * variant.factor
        return Bound(value, np.abs(variant.factor) * out.error + self.roundoff * np.abs(value))

    def _product(self, variant: Variant, rows: np.ndarray, columns: np.ndarray) -> Bound:
        whole = rows.size == self.values.size
        if whole and variant.a is self.right.a and variant.b is self.right.b and variant.bias is self.right.bias:
            return Bound(self.expected.value[rows, columns], self.expected.error[rows, columns])
        some_rows, row_of = np.unique(rows, return_inverse=True)
        some_columns, column_of = np.unique(columns, return_inverse=True)
        bias = None if variant.bias is None else np.broadcast_to(variant.bias, (_count(variant.b),))[some_columns]
        of = bound(_taken(variant.a, some_rows), _taken(variant.b, some_columns), bias=bias, **self.how)
        return Bound(of.value[row_of, column_of], of.error[row_of, column_of])

    def _fits(self, variant: Variant, at: np.ndarray) -> np.ndarray:
        predicted = self._predicted(variant, at)
        if predicted is None:
            return np.zeros(len(at), dtype=bool)
        found = self.values[at[:, 0], at[:, 1]]
        with np.errstate(invalid="ignore"):
            # What may be anything explains nothing.
            return (np.abs(found - predicted.value) <= predicted.error) & np.isfinite(predicted.error)

    def _try(self, variant: Variant) -> bool:
        wrong, right = self.sample
        if not self._fits(variant, _spread(wrong, _FEW)).any():
            return False
        fits = self._fits(variant, wrong)
        if not fits.all() or not self._fits(variant, right).all():
            share = float(fits.mean())
            if share > (self.best[1] if self.best else 0) and self._fits(variant, right).all():
                self.best = (variant.what, share)
            if fits.all():
                self.partial.append(variant)
            return False
        predicted = self._predicted(variant, wrong)
        if 2 * predicted.decides.sum() < len(wrong) or not self._verify(variant):
            return False
        self._add(variant, predicted.value)
        return True

    def _try_parts(self) -> None:
        """Looks for what explains the rows and columns of the wrong elements alone."""
        rows, columns = np.flatnonzero(self.wrong.any(axis=1)), np.flatnonzero(self.wrong.any(axis=0))
        is_part = [len(at) < count for at, count in zip((rows, columns), self.wrong.shape)]
        # One of many hypotheses fits a few elements by chance.
        if not any(is_part) or int(self.wrong.sum()) < _LEAST_PART:
            return
        names = [_axis(what, at, count) for what, at, count in zip(("row", "column"), (rows, columns), self.wrong.shape)]
        where = ", ".join(name for name, part in zip(names, is_part) if part)
        at = np.stack(np.meshgrid(_thinned(rows), _thinned(columns), indexing="ij"), axis=-1).reshape(-1, 2)
        judged = np.isfinite(self.expected.error[at[:, 0], at[:, 1]])
        for variant in self.partial:
            predicted = self._predicted(variant, self.sample[0])
            if 2 * predicted.decides.sum() < len(self.sample[0]) or not self._fits(variant, at)[judged].all():
                continue
            self.verified = len(at)
            self._add(replace(variant, what=f"in {where} alone: {variant.what}"), predicted.value)

    def _add(self, variant: Variant, values: np.ndarray) -> None:
        for n, (known, others) in enumerate(self.found):
            if np.array_equal(others, values, equal_nan=True):
                self.found[n] = (replace(known, what=f"{known.what} (or, the same with these data, {variant.what})"), others)
                return
        self.found.append((variant, values))

    def _verify(self, variant: Variant) -> bool:
        """Whether it explains everything, or rows and columns evenly spread of a large product."""
        rows, columns = self.values.shape
        depth = _depth(self.right.a)
        if rows * columns * depth > _ALL:
            rows, columns = _thinned(np.arange(rows)), _thinned(np.arange(columns))
        else:
            rows, columns = np.arange(rows), np.arange(columns)
        at = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
        self.verified = len(at)
        judged = np.isfinite(self.expected.error[at[:, 0], at[:, 1]])
        return bool(self._fits(variant, at)[judged].all())

    def _ratios(self, variant: Variant, at: np.ndarray) -> Optional[Tuple[float, float]]:
        """The least and the greatest factor that makes every one of these elements right, the least greater than the greatest if there is
        none; `None` if too few of them tell."""
        predicted = self._predicted(variant, at)
        if predicted is None:
            return None
        found = self.values[at[:, 0], at[:, 1]]
        with np.errstate(divide="ignore", invalid="ignore"):
            sure = np.isfinite(found) & (found != 0) & (np.abs(predicted.value) > 4 * predicted.error)
            ratio = found[sure] / predicted.value[sure]
            off = np.abs(ratio) * 2 * predicted.error[sure] / (np.abs(predicted.value[sure]) - predicted.error[sure])
            # The product with the factor is rounded, also where the right value is exact.
            off = off + np.abs(ratio) * self.roundoff
        if sure.sum() < min(4, len(at)) or sure.sum() * 2 < len(at):
            return None
        return (ratio - off).max(), (ratio + off).min()

    def _try_factor(self, variant: Variant) -> bool:
        wrong = self.sample[0]
        # Most variants have no factor that fits even a few elements.
        few = self._ratios(variant, _spread(wrong, _FEW))
        if few is not None and few[0] > few[1]:
            return False
        ratios = self._ratios(variant, wrong)
        if ratios is None:
            return False
        least, most = ratios
        if least > most or most - least > _NARROW * abs(least + most) / 2:
            return False
        factor, name = _named_factor(least, most, self.right)
        if factor == 1:
            return False
        what = f"a constant factor of {name}" if not variant.what else f"{variant.what}, and a constant factor of {name}"
        look = variant.look or "the factors of the result: global scales, alpha, a reduction over too many or too few lanes"
        return self._try(replace(variant, what=what, look=look, factor=factor))


def _named_factor(least: float, most: float, right: Variant) -> Tuple[float, str]:
    plain = [1.0, -1.0, 2.0, 0.5, 4.0, 0.25, 8.0, 0.125, 16.0, 0.0625, 3.0, 1 / 3, 6.0, 1 / 6, 448.0, 1 / 448.0, 2688.0, 1 / 2688.0]
    names = [(x, f"1/{round(1 / x)}" if 0 < x < 1 else f"{x:g}") for x in plain]
    for name, x in (("A", right.a), ("B", right.b)):
        scale = getattr(x, "global_scale", 1.0)
        names += [(scale, f"the global scale of {name}"), (1 / scale, f"1 over the global scale of {name}")]
    for factor, name in names:
        if least <= factor <= most:
            return factor, name
    # The shortest decimal number that fits.
    middle = (least + most) / 2
    for digits in range(1, 17):
        text = f"{middle:.{digits}g}"
        if least <= float(text) <= most:
            return float(text), text
    return middle, f"{middle:g}"


def _same(rows, columns):
    return rows, columns


def _spread(at: np.ndarray, most: int) -> np.ndarray:
    """At most so many elements, evenly spread."""
    count = min(len(at), most)
    return at[(np.arange(count) * len(at)) // max(count, 1)]


def _thinned(at: np.ndarray) -> np.ndarray:
    """Some of the rows or columns, evenly spread, the first and the last among them."""
    return at[np.unique(np.linspace(0, len(at) - 1, min(len(at), _SPREAD)).astype(int))]


def _count(x: Operand) -> int:
    return x.shape[0]


def _depth(x: Operand) -> int:
    return x.shape[1]


def _taken(x: Operand, rows: np.ndarray) -> Operand:
    if isinstance(x, Quantized):
        return replace(x, codes=x.codes[rows], scales=x.scales[rows])
    return np.asarray(x)[rows]


def _variants(right: Variant) -> Iterator[Variant]:
    """Every hypothesis, the more frequent first."""
    a, b = right.a, right.b
    sides = (("A", a, lambda x: replace(right, a=x)), ("B", b, lambda x: replace(right, b=x)))
    for name, x, put in sides:
        if isinstance(x, Quantized):
            for what, look, other in _of_quantized(x):
                yield replace(put(other), what=what.format(x=name), look=look)
        for what, look, other in _of_operand(x):
            yield replace(put(other), what=what.format(x=name), look=look)
    yield from _of_tiles(right)
    yield from _of_both(right)
    yield from _of_global_scales(right)
    yield from _of_bias(right)
    yield from _of_stores(right)


_SCALE_LOOK = "the layout of the scales that the quantizer stores and that the kernel reads"
_INDEX_LOOK = "the index of the scale: row, block, and the byte selector of the mma"


def _of_tiles(right: Variant) -> Iterator[Variant]:
    """One tile of K that is left out."""
    depth = _depth(right.a)
    for size in (16, 32, 64, 128, 256):
        for tile in range(1, min(-(-depth // size) - 1, _TILES)):
            what = f"tile {tile} of K, of {size} elements, left out"
            look = "the stages of the loop over K, and the barrier of each"
            yield replace(right, a=_without(right.a, slice(tile * size, (tile + 1) * size)), what=what, look=look)


def _without(x: Operand, cut) -> Operand:
    """An operand with elements of K set to zero."""
    if isinstance(x, Quantized):
        codes = x.codes.copy()
        codes[:, cut] = 0
        return replace(x, codes=codes)
    values = np.array(x, dtype=np.float64)
    values[:, cut] = 0
    return values


def _of_both(right: Variant) -> Iterator[Variant]:
    """The same fault on both sides, and one operand's scales for the other."""
    a, b = right.a, right.b
    if not (isinstance(a, Quantized) and isinstance(b, Quantized)):
        return
    of_b = {what: (look, other) for what, look, other in _of_quantized(b)}
    for what, look, other in _of_quantized(a):
        if what in of_b:
            yield replace(right, a=other, b=of_b[what][1], what=what.format(x="A and B"), look=look)
    if a.scale_format == b.scale_format and a.scales.shape[1] == b.scales.shape[1]:
        for name, x, y, put in (("A", a, b, "a"), ("B", b, a, "b")):
            rows = np.arange(x.shape[0]) % y.shape[0]
            other = replace(x, scales=y.scales[rows])
            look = "which scales each operand of the mma gets"
            yield replace(right, **{put: other}, what=f"the other operand's scales for those of {name}", look=look)


def _of_quantized(x: Quantized) -> Iterator[Tuple[str, str, Operand]]:
    for what, look, scales in _of_scales(x):
        yield what, look, replace(x, scales=scales)
    if x.element == "e2m1":
        swapped = x.codes.reshape(x.shape[0], -1, 2)[:, :, ::-1].reshape(x.shape)
        yield "the two elements of each byte of {x} exchanged", "the order of codes in a byte: the even element is in the low bits", replace(x, codes=swapped)
        yield "the codes of {x} not shifted by 2 bits", "`<< 2` behind ldmatrix b4x16: the mma reads e2m1 in bits 2 to 5", replace(x, codes=x.codes >> 2)
        yield "the signs of {x} left out", "the sign bit of the codes", replace(x, codes=x.codes & 7)
        yield "-6 of {x} read as 6", "the conversion of 0xF, the code of -6", replace(x, codes=np.where(x.codes == 15, 7, x.codes).astype(np.uint8))
        largest = np.where(x.codes & 7 == 7, x.codes - 1, x.codes).astype(np.uint8)
        yield "6 of {x} read as 4", "the conversion of the codes, and its largest magnitude", replace(x, codes=largest)
        pairs, shift = x.codes.reshape(x.shape[0], -1, 2), "the shift by four bits that brings the odd codes down"
        for which, half in (("low", 0), ("high", 1)):
            twice = np.repeat(pairs[:, :, half], 2, axis=1)
            yield f"the {which} codes of each byte of {{x}} read twice", shift, replace(x, codes=twice)
    yield from _of_scale_types(x)
    for one, other in (("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e2m3", "e3m2"), ("e3m2", "e2m3")):
        if x.element == one:
            # The values of the other type, if it has them all.
            values = decode(x.codes, other) * np.repeat(x.scale_values(), x.block, axis=1) * x.global_scale
            if np.isfinite(values).all():
                yield f"elements of {{x}} read as {other}", "the types in the name of the mma", values


def _of_scale_types(x: Quantized) -> Iterator[Tuple[str, str, Operand]]:
    """Scales that are read as another type or for blocks of half the size: the operand's values, if all are finite."""
    elements = decode(x.codes, x.element) * x.global_scale

    def with_scales(scales: np.ndarray, block: int) -> Optional[np.ndarray]:
        values = elements * np.repeat(scales, block, axis=1)
        return values if np.isfinite(values).all() else None

    for one, other, bits in (("ue8m0", "ue4m3", 0x7F), ("ue4m3", "ue8m0", 0xFF)):
        if x.scale_format == one:
            values = with_scales(decode(x.scales & bits, other), x.block)
            if values is not None:
                look = "the type of the scales: `ue8m0` or `ue4m3` in the mma, or in the conversion to f32"
                yield f"the {one} scales of {{x}} read as {other}", look, values
    if x.block == 32:
        rows, columns = x.scales.shape
        flat, look = x.scales.reshape(-1), "the elements of a scale, or the size of the scale vector"
        for stride, rest in ((1, ""), (2, ", with rows of as many scales")):
            at = np.arange(rows)[:, None] * columns * stride + np.arange(2 * columns)[None, :]
            values = with_scales(decode(flat[at % flat.size], x.scale_format), 16)
            if values is not None:
                yield f"the scales of {{x}} read for blocks of 16 instead of 32{rest}", look, values


def _of_operand(x: Operand) -> Iterator[Tuple[str, str, Operand]]:
    """Parts of K that are left out or read twice, and rows of others."""
    depth = _depth(x)
    block = x.block if isinstance(x, Quantized) else 16
    look = "the loop over K: its end and its last tile"

    def without(cut) -> Operand:
        return _without(x, cut)

    for part in sorted({block, 16, 32, 64, 128, 256}):
        if depth > part:
            yield f"the last {part} of K left out of {{x}}", look, without(slice(depth - part, None))
            yield f"the first {part} of K left out of {{x}}", look, without(slice(0, part))
            if depth % part:
                yield f"all of K behind the last whole {part} left out of {{x}}", look, without(slice(depth // part * part, None))
            if depth > 2 * part:
                yield f"all but the last {part} of K left out of {{x}}", "the accumulator: it is cleared in each step", without(slice(0, depth - part))
                tiles = np.arange(depth) // part % 2
                yield f"every second {part} of K left out of {{x}}", "the stages of the pipeline", without(tiles == 1)
                yield f"the first of every two {part} of K left out of {{x}}", "the stages of the pipeline", without(tiles == 0)
    if depth >= 2 * block:
        yield "the second half of K left out of {x}", look, without(slice(depth // 2, None))
        yield "the first half of K left out of {x}", look, without(slice(0, depth // 2))
    rows = _count(x)
    if rows > 1:
        where = "the row that each thread or TMA box reads"
        for what, order in (
            ("each row of {x} taken from the row before", np.arange(rows) - 1),
            ("each row of {x} taken from the next row", (np.arange(rows) + 1) % rows),
            ("neighbouring rows of {x} exchanged", np.minimum(np.arange(rows) ^ 1, rows - 1)),
            ("rows of {x} 8 apart exchanged", np.minimum(np.arange(rows) ^ 8, rows - 1)),
            ("the first row of {x} taken for all", np.zeros(rows, dtype=int)),
        ):
            yield what, where, _taken(x, order)
    for what, order in (
        ("neighbouring elements of K of {x} exchanged", np.arange(depth) ^ 1),
        ("halves of each 16 of K of {x} exchanged", np.arange(depth) ^ 8),
        ("halves of each 32 of K of {x} exchanged", np.arange(depth) ^ 16),
        ("halves of each 64 of K of {x} exchanged", np.arange(depth) ^ 32),
    ):
        if order.max() < depth and not (isinstance(x, Quantized) and x.element == "e2m1" and order[0] == 1):
            codes = replace(x, codes=x.codes[:, order]) if isinstance(x, Quantized) else np.asarray(x)[:, order]
            yield what, "the fragment of the operand: ldmatrix, its address and its swizzle", codes


def _of_scales(x: Quantized) -> Iterator[Tuple[str, str, np.ndarray]]:
    scales = x.scales
    rows, columns = scales.shape
    one = np.uint8({"ue8m0": 127, "ue4m3": 0x38}[x.scale_format])
    yield "the scales of {x} left out", "whether the mma gets scales at all", np.full_like(scales, one)
    for layout in ("128x4", "8x4", "64-row", "4x4"):
        at = _scale_places(rows, columns, layout)
        if at is None:
            continue
        # Stored in the layout and read as linear: the bytes of the layout, taken in order.
        size = int(at.max()) + 1
        stored = np.zeros(max(size, rows * columns), dtype=np.uint8)
        stored[at] = scales
        yield f"the scales of {{x}} stored {layout} and read as linear", _SCALE_LOOK, stored[: rows * columns].reshape(rows, columns)
        flat = np.zeros(size, dtype=np.uint8)
        flat[: min(size, rows * columns)] = scales.reshape(-1)[:size]
        yield f"the scales of {{x}} stored linear and read as {layout}", _SCALE_LOOK, flat[at]
    if rows > 1 and columns > 1:
        yield "the scales of {x} stored [K, rows] and read as [rows, K]", _SCALE_LOOK, np.ascontiguousarray(scales.T).reshape(rows, columns)
        yield "the scales of {x} stored [rows, K] and read as [K, rows]", _SCALE_LOOK, scales.reshape(columns, rows).T.copy()
    if columns > 1:
        even = columns // 2 * 2
        pairs = scales.copy()
        pairs[:, 0:even:2], pairs[:, 1:even:2] = scales[:, 1:even:2], scales[:, 0:even:2]
        yield "the scales of neighbouring blocks of {x} exchanged", _INDEX_LOOK, pairs
        yield "the scale of each block of {x} taken from the block before", _INDEX_LOOK, np.roll(scales, 1, axis=1)
        yield "the scale of each block of {x} taken from the next block", _INDEX_LOOK, np.roll(scales, -1, axis=1)
        yield "the first scale of a row of {x} taken for all of it", _INDEX_LOOK, np.broadcast_to(scales[:, :1], scales.shape).copy()
        last = scales.copy()
        last[:, -1] = scales[:, -2]
        yield "the last scale of a row of {x} taken from the block before", _INDEX_LOOK, last
        group = min(4, columns)
        first = scales[:, np.arange(columns) // group * group]
        yield f"the first of each {group} scales of {{x}} taken for all of them", "the byte selector of the mma", first
        if columns > 3 and columns % 4 == 0:
            fours = scales.reshape(rows, -1, 4)
            for which, order in (("next block", [1, 2, 3, 0]), ("block before", [3, 0, 1, 2]), ("block two apart", [2, 3, 0, 1])):
                yield f"the scale of the {which} of each four of {{x}}", "the byte selector of the mma", fours[:, :, order].reshape(rows, columns)
            yield "the four scales of a word of {x} in reverse", "the byte selector of the mma, and the order of bytes in a word", fours[:, :, ::-1].reshape(rows, columns)
        yield "the scale of the odd block of {x} taken for both", "the size of a block: 32 for 16", scales[:, np.minimum(np.arange(columns) | 1, columns - 1)]
        yield "the scale of the even block of {x} taken for both", "the size of a block: 32 for 16", scales[:, np.arange(columns) // 2 * 2]
        flat = scales.reshape(-1)
        doubled = np.arange(rows)[:, None] * columns + 2 * np.arange(columns)[None, :]
        yield "the scale of the block of {x} of twice the number", "the size of a block: 16 for 32", flat[np.minimum(doubled, flat.size - 1)]
        halved = np.arange(rows)[:, None] * columns + np.arange(columns)[None, :] // 2
        yield "the scale of the block of {x} of half the number", "the size of a block: 32 for 16", flat[halved]
    if rows > 1:
        yield "the scales of {x} taken from the row before", _INDEX_LOOK, np.roll(scales, 1, axis=0)
        yield "the scales of {x} taken from the next row", _INDEX_LOOK, np.roll(scales, -1, axis=0)
        yield "the scales of the first row of {x} taken for all", _INDEX_LOOK, np.broadcast_to(scales[:1], scales.shape).copy()
        for step in (8, 16, 32, 64):
            if rows > step:
                order = np.minimum(np.arange(rows) ^ step, rows - 1)
                yield f"the scales of {{x}} taken from the row {step} apart", "the lane whose register holds the scale of a row", scales[order]
    if x.scale_format == "ue8m0" and (scales == 0xFF).any():
        for value, code in (("one", 127), ("the largest number", 254)):
            yield f"scales of {{x}} that are NaN read as {value}", "0xFF, which is NaN in ue8m0", np.where(scales == 0xFF, code, scales).astype(np.uint8)
    if x.scale_format == "ue4m3":
        yield "the scales of {x} read as powers of two", "the type of the scales: ue4m3 has a mantissa", scales & 0xF8


def _scale_places(rows: int, columns: int, layout: str) -> Optional[np.ndarray]:
    """The byte of each scale in a layout; `None` if the layout does not hold so many."""
    r, c = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if layout in ("128x4", "8x4"):
        return _offsets(rows, columns, layout)[0]
    if layout == "64-row":
        if rows % 64 or columns % 4:
            return None
        return r // 64 * 64 * columns + c // 4 * 256 + r % 16 * 16 + r % 64 // 16 * 4 + c % 4
    if rows % 4 or columns % 4:
        return None
    # The values' scales of trtllm-gen: row (r & ~3) + c / G, column (c mod G)·4 + (r & 3), G = columns / 4.
    group = columns // 4
    return ((r & ~3) + c // group) * columns + c % group * 4 + (r & 3)


def _of_global_scales(right: Variant) -> Iterator[Variant]:
    scales = {name: x.global_scale for name, x in (("A", right.a), ("B", right.b)) if isinstance(x, Quantized)}
    look = "the factors that alpha is made of"
    for name, scale in scales.items():
        if scale == 1.0:
            continue
        for what, factor in (("left out", 1 / scale), ("applied twice", scale), ("inverted", 1 / scale**2)):
            yield replace(right, what=f"the global scale of {name} {what}", look=look, factor=factor)
    if len(scales) == 2 and 1.0 not in scales.values():
        both = scales["A"] * scales["B"]
        for what, factor in (("left out", 1 / both), ("applied twice", both), ("inverted", 1 / both**2)):
            yield replace(right, what=f"both global scales {what}", look=look, factor=factor)
        if scales["A"] != scales["B"]:
            for one, other in (("A", "B"), ("B", "A")):
                factor = scales[other] / scales[one]
                yield replace(right, what=f"the global scale of {other} for that of {one}", look=look, factor=factor)


def _of_bias(right: Variant) -> Iterator[Variant]:
    if right.bias is None:
        return
    look = "the index and the factor of the bias in the epilogue"
    for what, bias in (
        ("the bias left out", None),
        ("the bias added twice", 2 * right.bias),
        ("half of the bias added", right.bias / 2),
        ("the bias subtracted", -right.bias),
        ("the bias of the column before", np.roll(right.bias, 1)),
        ("the bias of the next column", np.roll(right.bias, -1)),
        ("the first bias for all columns", np.full_like(right.bias, right.bias.flat[0] if right.bias.size else 0)),
    ):
        yield replace(right, what=what, look=look, bias=bias)
    by_row = np.resize(right.bias, _count(right.a))
    yield replace(right, what="the bias of the row instead of the column", look=look, bias=None, row_bias=by_row)


def _of_stores(right: Variant) -> Iterator[Variant]:
    rows, columns = _count(right.a), _count(right.b)
    look = "the store of the accumulators: fragments, tiles and strides of the output"

    def within(places: Places) -> Places:
        def checked(r, c):
            r, c = places(r, c)
            if (r >= rows).any() or (c >= columns).any() or (r < 0).any() or (c < 0).any():
                raise IndexError("beyond the product")
            return r, c

        return checked

    flat = lambda r, c: r * columns + c  # noqa: E731
    stores: List[Tuple[str, Places]] = [
        ("the output transposed", lambda r, c: (flat(r, c) % rows, flat(r, c) // rows)),
        ("columns of pairs of the output exchanged", lambda r, c: (r, c ^ 1)),
        ("halves of 8 columns of the output exchanged", lambda r, c: (r, c ^ 4)),
        ("tiles of 8 columns of the output exchanged", lambda r, c: (r, c ^ 8)),
        ("rows 8 apart of the output exchanged", lambda r, c: (r ^ 8, c)),
        ("neighbouring rows of the output exchanged", lambda r, c: (r ^ 1, c)),
        ("8x8 tiles of the output transposed", lambda r, c: (r // 8 * 8 + c % 8, c // 8 * 8 + r % 8)),
        ("16x8 halves of the output exchanged", lambda r, c: (r ^ 8, c ^ 8)),
        ("each row of the output one row too far", lambda r, c: ((r - 1) % rows, c)),
        ("each row of the output one row too early", lambda r, c: ((r + 1) % rows, c)),
        ("each column of the output one column too far", lambda r, c: (r, (c - 1) % columns)),
        ("each column of the output one column too early", lambda r, c: (r, (c + 1) % columns)),
    ]
    for tile in (16, 32, 64, 128):
        if rows > tile:
            stores.append((f"rows of the tile of {tile} before in the output", lambda r, c, t=tile: ((r - t) % rows, c)))
            stores.append((f"rows of the next tile of {tile} in the output", lambda r, c, t=tile: ((r + t) % rows, c)))
            stores.append((f"tiles of {tile} rows of the output exchanged", lambda r, c, t=tile: (r ^ t, c)))
        if columns > tile:
            stores.append((f"columns of the tile of {tile} before in the output", lambda r, c, t=tile: (r, (c - t) % columns)))
            stores.append((f"columns of the next tile of {tile} in the output", lambda r, c, t=tile: (r, (c + t) % columns)))
            stores.append((f"tiles of {tile} columns of the output exchanged", lambda r, c, t=tile: (r, c ^ t)))
    for what, places in stores:
        yield replace(right, what=what, look=look, places=within(places))
    clear = "where the accumulator is set to zero: once for each tile"
    for tile in (8, 16, 32, 64, 128, 256):
        for axis, size, places in (
            ("rows", rows, lambda r, c, t=tile: (r - t, c)),
            ("columns", columns, lambda r, c, t=tile: (r, c - t)),
        ):
            if size > tile:
                yield replace(right, what=f"the result of the {tile} {axis} before added", look=clear, stale=places)


def _extent(wrong: np.ndarray, values: np.ndarray) -> str:
    words = [_axis("row", np.flatnonzero(wrong.any(axis=1)), wrong.shape[0]), _axis("column", np.flatnonzero(wrong.any(axis=0)), wrong.shape[1])]
    found = values[wrong]
    if np.isnan(found).all():
        words.append("each wrong element is NaN")
    elif (found == found[0]).all():
        words.append(f"each wrong element is {found[0]:g}")
    return ", ".join(words)


def _axis(what: str, at: np.ndarray, count: int) -> str:
    if len(at) == count and count > 1:
        return f"every {what}"
    if len(at) == 1:
        return f"{what} {at[0]}"
    steps = np.diff(at)
    if (steps == 1).all():
        return f"{what}s {at[0]} to {at[-1]}"
    if (steps == steps[0]).all():
        return f"{what}s {at[0]}, {at[1]}, … {at[-1]}"
    return f"{len(at)} {what}s from {at[0]} to {at[-1]}"
