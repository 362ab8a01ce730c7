"""Microscaling formats, bounds, and faults that are found and named."""

import contextlib
import io
import textwrap
from fractions import Fraction

import numpy as np
import pytest

from sm121probe import mx
from sm121probe.mx import check


@pytest.mark.parametrize("name", mx.FORMATS)
def test_every_code_reads_back(name):
    f = mx.FORMATS[name]
    codes = np.arange(1 << f.bits, dtype=np.uint8)
    values = mx.decode(codes, name)
    finite = np.isfinite(values)
    again = mx.encode(values[finite], name)
    assert (mx.decode(again, name) == values[finite]).all() and (again == codes[finite]).all()


def test_known_values():
    assert mx.decode([0x7E, 0x01, 0xFE], "e4m3").tolist() == [448.0, 2.0**-9, -448.0]
    assert mx.decode(range(8), "e2m1").tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert mx.decode([0, 127, 254], "ue8m0").tolist() == [2.0**-127, 1.0, 2.0**127]
    assert mx.FORMATS["e5m2"].largest == 57344 and mx.FORMATS["e3m2"].largest == 28 and mx.FORMATS["e2m3"].largest == 7.5


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "ue4m3"])
def test_rounding_is_to_nearest_even(name):
    f = mx.FORMATS[name]
    ladder = f.values[: 1 << (f.bits - f.signed)]
    ladder = [Fraction(v) for v in ladder[np.isfinite(ladder)]]
    random = np.random.default_rng(1)
    xs = [float((a + b) / 2) for a, b in zip(ladder, ladder[1:])]
    xs += list(random.uniform(0, float(ladder[-1]) * 1.1, 500))
    for x, code in zip(xs, mx.encode(xs, name)):
        exact = Fraction(x)
        best = min(abs(v - exact) for v in ladder)
        nearest = [n for n, v in enumerate(ladder) if abs(v - exact) == best]
        assert code in nearest and (len(nearest) == 1 or code % 2 == 0)


def test_rules_choose_the_documented_scale():
    """docs/numerics.md, 9.2."""
    for mantissa, wanted in {
        1.0: {"ceil": -8, "floor": -8, "even": -8, "nearest": -9, "rz": -9},
        1.3125: {"ceil": -8, "floor": -8, "even": -8, "nearest": -8, "rz": -9},
        1.75: {"ceil": -8, "floor": -8, "even": -8, "nearest": -8, "rz": -8},
        1.8: {"ceil": -7, "floor": -8, "even": -8, "nearest": -8, "rz": -8},
        1.9375: {"ceil": -7, "floor": -8, "even": -7, "nearest": -8, "rz": -8},
    }.items():
        x = np.zeros((1, 32))
        x[0, 3] = mantissa * 2.0**5
        for rule, exponent in wanted.items():
            assert int(mx.quantize(x, rule=rule).scales[0, 0]) == 127 + 5 + exponent, (mantissa, rule)
    x[0, 3] = np.nan
    assert mx.quantize(x).scales[0, 0] == 255 and (mx.quantize(x).codes == 0x7F).all()
    assert mx.quantize(np.zeros((1, 32))).scales[0, 0] == 0
    assert mx.quantize(np.full((1, 32), np.inf)).scales[0, 0] == 254


def test_ceil_loses_no_magnitude():
    x = np.random.default_rng(0).standard_normal((32, 128)) * 10.0 ** np.random.default_rng(1).integers(-20, 20, (32, 1))
    for f, relative in (("mxfp8", 1 / 16), ("mxfp4", 1 / 2)):
        q = mx.quantize(x, f)
        amax = np.abs(x.reshape(32, -1, 32)).max(axis=2, keepdims=True)
        error = np.abs(mx.dequantize(q) - x).reshape(32, -1, 32)
        assert (error <= amax * relative).all()


def test_nvfp4_has_a_scale_per_sixteen_and_one_for_all():
    x = np.random.default_rng(0).standard_normal((8, 64)) * 1000
    q = mx.quantize(x, "nvfp4")
    assert q.scales.shape == (8, 4) and q.packed.shape == (8, 32)
    assert q.global_scale == pytest.approx(np.abs(x).max() / (448 * 6), rel=1e-6)
    assert np.abs(mx.dequantize(q) - x).max() < np.abs(x).max() / 5
    assert (mx.unpack4(q.packed) == q.codes).all()


@pytest.mark.parametrize("layout", ["linear", "128x4", "8x4"])
@pytest.mark.parametrize("shape", [(1, 1), (128, 4), (130, 5), (9, 12)])
def test_layouts_are_reversible(layout, shape):
    scales = np.random.default_rng(0).integers(1, 255, shape).astype(np.uint8)
    flat = mx.swizzle_scales(scales, layout)
    assert (mx.unswizzle_scales(flat, *shape, layout) == scales).all()
    assert np.count_nonzero(flat) == scales.size
    if layout == "128x4" and shape == (130, 5):
        assert flat[(0 * 2 + 1) * 512 + 33 % 32 * 16 + 33 // 32 * 4] == scales[33, 4]


def kernel(a, b, length, fraction, out=np.float32):
    """A tensor core by the model, in exact arithmetic: terms cut `fraction` bits below the largest exponent, sums cut to 24 bits."""
    x, y = mx.dequantize(a), mx.dequantize(b)
    result = np.zeros((x.shape[0], y.shape[0]))

    def cut(value, exponent):
        unit = Fraction(2) ** exponent
        return (abs(value) // unit) * unit * (1 if value >= 0 else -1)

    def exponent(value):
        return int(np.frexp(float(value))[1]) - 1 if value else -132

    for m in range(x.shape[0]):
        for n in range(y.shape[0]):
            c = Fraction(0)
            for at in range(0, x.shape[1], length):
                terms = [Fraction(p) * Fraction(q) for p, q in zip(x[m, at : at + length], y[n, at : at + length])]
                top = max(exponent(t) for t in [*terms, c])
                total = sum((cut(t, top - fraction) for t in [*terms, c]), Fraction(0))
                c = cut(total, exponent(total) - 23) if total else Fraction(0)
            result[m, n] = float(c)
    return result.astype(out)


@pytest.mark.parametrize("accumulation", ["native", "bf16", "ampere", "unknown"])
def test_the_model_is_within_its_own_bound(accumulation):
    # No scale is 0x7F, which is NaN in ue4m3.
    random = np.random.default_rng(7)
    x = random.standard_normal((4, 128)) * 2.0 ** random.integers(-12, 12, (4, 128))
    w = random.standard_normal((5, 128)) * 2.0 ** random.integers(-12, 12, (5, 128))
    a, b = mx.quantize(x), mx.quantize(w, "mxfp4")
    length, fraction, _ = mx.ACCUMULATIONS[accumulation]
    bound = mx.assert_within(kernel(a, b, length, fraction), a, b, accumulation=accumulation)
    assert (bound.error < 1e-3 * np.abs(mx.dequantize(a)).sum()).all()


def test_exact_data_leave_no_room():
    a, b = mx.exact(16, 256), mx.exact(24, 256, "mxfp4", seed=1)
    right = (mx.dequantize(a) @ mx.dequantize(b).T).astype(np.float32)
    for accumulation in mx.ACCUMULATIONS:
        assert mx.bound(a, b, accumulation=accumulation, out="f32").error.max() == 0
    wrong = right.copy()
    wrong[3, 5] = np.nextafter(wrong[3, 5], np.float32(np.inf))
    mx.assert_within(right, a, b)
    with pytest.raises(AssertionError, match="1 of 384 elements are wrong, first row 3, column 5"):
        mx.assert_within(wrong, a, b)


def test_a_result_without_a_type_is_refused():
    a, b = mx.exact(2, 32), mx.exact(2, 32, "mxfp4", seed=1)
    with pytest.raises(TypeError, match="out is a list, whose numbers have no type"):
        mx.assert_within([[0.0, 0.0], [0.0, 0.0]], a, b)


def test_an_impulse_shows_one_element():
    a, b = mx.impulse(4, 64, (2, 40)), mx.impulse(6, 64, (5, 40), "mxfp4")
    out = (mx.dequantize(a) @ mx.dequantize(b).T).astype(np.float32)
    assert out[2, 5] == 1 and np.count_nonzero(out) == 1
    mx.assert_within(out, a, b)


def altered(q, **changes):
    fields = {"codes": q.codes, "scales": q.scales, "global_scale": q.global_scale, **changes}
    return mx.Quantized(q.format, q.element, **fields)


def product(a, b):
    return mx.dequantize(a) @ mx.dequantize(b).T


def read_otherwise(q, stored, read):
    """The scales stored in one layout and read as another."""
    rows, columns = q.scales.shape
    flat = mx.swizzle_scales(q.scales, stored)
    size = mx.swizzle_scales(q.scales, read).size
    return altered(q, scales=mx.unswizzle_scales(np.resize(flat, size), rows, columns, read))


def of_scales(change):
    return lambda q: altered(q, scales=np.ascontiguousarray(change(q.scales)).reshape(q.scales.shape))


def of_codes(change):
    return lambda q: altered(q, codes=np.ascontiguousarray(change(q.codes)).reshape(q.codes.shape))


def values_scales_swizzled(scales):
    """As trtllm-gen stores the scales of values: 4x4 tiles, flat 4·S·(t / 4) + 4·s + t % 4."""
    rows, columns = scales.shape
    return scales.reshape(rows // 4, 4, columns).transpose(0, 2, 1)


#: How explanations name the operands.
NAMES = ("operand `a`", "operand `b`")

# What a kernel does with one operand, and the words that name it; `X` stands for the operand.
OPERAND_FAULTS = [
    (lambda q: read_otherwise(q, "128x4", "linear"), "the scales of the X are stored 128x4 and read as linear"),
    (lambda q: read_otherwise(q, "8x4", "linear"), "the scales of the X are stored 8x4 and read as linear"),
    (lambda q: read_otherwise(q, "linear", "8x4"), "the scales of the X are stored linear and read 8x4"),
    (of_scales(values_scales_swizzled), "the scales of the X are stored in tiles of 4x4 and read as linear"),
    (of_scales(lambda s: s.T), "the scales of the X are stored as [K, rows]"),
    (of_scales(lambda s: np.roll(s, 1, axis=1)), "the scale of the block before is taken, of the X"),
    (of_scales(lambda s: np.roll(s, -1, axis=1)), "the scale of the next block is taken, of the X"),
    (of_scales(lambda s: s.reshape(len(s), -1, 2)[:, :, ::-1]), "the scale of the neighbouring block, in pairs, is taken, of the X"),
    (of_scales(lambda s: np.roll(s, -1, axis=0)), "the scale of the next row is taken, of the X"),
    (of_scales(lambda s: s[np.arange(len(s)) ^ 8]), "the scale of the row 8 apart is taken, of the X"),
    (of_scales(lambda s: s[:, np.arange(s.shape[1]) // 4 * 4]), "the scale of the first of each four blocks is taken, of the X"),
    (of_scales(lambda s: np.full_like(s, 0x38)), "the scales of the X are left out"),
    (of_scales(lambda s: s & 0xF8), "the scales of the X are read as powers of two"),
    (of_codes(lambda c: c.reshape(len(c), -1, 2)[:, :, ::-1]), "the two codes of each byte of the X are exchanged"),
    (of_codes(lambda c: c >> 2), "the codes of the X are not shifted by 2 bits"),
    (of_codes(lambda c: c & 7), "the signs of the X are lost"),
    (of_codes(lambda c: np.where(c == 15, 7, c).astype(np.uint8)), "-6 is read as 6, of the X"),
    (of_codes(lambda c: np.where(c & 7 == 7, c - 1, c).astype(np.uint8)), "6 is read as 4, of the X"),
    (of_codes(lambda c: np.repeat(c[:, 1::2], 2, axis=1)), "the high codes of the X are read twice"),
    (of_scales(lambda s: s.reshape(len(s), -1, 4)[:, :, ::-1]), "the scale of the four blocks in reverse is taken, of the X"),
    (of_scales(lambda s: s.reshape(len(s), -1, 4)[:, :, [1, 2, 3, 0]]), "the scale of the next block of each four is taken, of the X"),
    (of_codes(lambda c: np.where(np.arange(256) < 224, c, 0).astype(np.uint8)), "the last 32 of K are left out"),
    (of_codes(lambda c: np.where(np.arange(256) < 128, c, 0).astype(np.uint8)), "the second half of K is left out"),
    (of_codes(lambda c: c.reshape(len(c), -1, 2, 8)[:, :, ::-1]), "halves of each 16 of K of the X are exchanged"),
    (lambda q: altered(q, codes=np.roll(q.codes, 1, axis=0), scales=np.roll(q.scales, 1, axis=0)), "the X of the row before is read"),
]

# What a kernel does with the right product, and the words that name it.
RESULT_FAULTS = [
    (lambda y: y.T, "the result is stored with rows and columns exchanged"),
    (lambda y: 2 * y, "the result has a constant factor: two"),
    (lambda y: -y, "the result has a constant factor: -1"),
    (lambda y: 0.137 * y, "the result has a constant factor: 0.137"),
    (lambda y: y[:, np.arange(64) ^ 4], "the result is stored with halves of 8 columns exchanged"),
    (lambda y: y.reshape(8, 8, 8, 8).transpose(0, 3, 2, 1).reshape(64, 64), "the result is stored with 8×8 tiles transposed"),
    (lambda y: y + np.concatenate([np.zeros((16, 64)), y[:-16]]), "the result of the 16 rows before is added"),
    (lambda y: y + np.concatenate([np.zeros((64, 32)), y[:, :-32]], axis=1), "the result of the 32 columns before is added"),
    (lambda y: np.roll(y, 16, axis=0), "the result is stored with every row 16 too far"),
]


def nvfp4_operands():
    random = np.random.default_rng(3)
    # Every scale differs from its neighbours.
    scale = lambda: np.repeat(2.0 ** random.uniform(-3, 4, (64, 16)), 16, axis=1)  # noqa: E731
    return tuple(mx.quantize(random.standard_normal((64, 256)) * scale(), "nvfp4") for _ in range(2))


def diagnosis(out, a, b, **how):
    with pytest.raises(AssertionError) as caught:
        mx.assert_within(out.astype(np.float32), a, b, accumulation="native", **how)
    return str(caught.value)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("fault", "says"), OPERAND_FAULTS)
def test_faults_of_operands_are_named(side, fault, says):
    operands = nvfp4_operands()
    faulty = list(operands)
    faulty[side] = fault(operands[side])
    text = diagnosis(product(*faulty), *operands)
    assert says.replace("X", NAMES[side]) in text and "unexplained" not in text, text


@pytest.mark.parametrize(("fault", "says"), RESULT_FAULTS)
def test_faults_of_results_are_named(fault, says):
    a, b = nvfp4_operands()
    text = diagnosis(fault(product(a, b)), a, b)
    assert "\nexplained, all " in text and says in text, text


@pytest.mark.parametrize("side", [0, 1])
def test_scales_that_are_read_otherwise_are_named(side):
    # No scale is 0x7F, which is NaN in ue4m3.
    random = np.random.default_rng(7)
    scale = lambda: np.repeat(2.0 ** random.integers(-9, -3, (64, 8)), 32, axis=1)  # noqa: E731
    operands = [mx.quantize(random.standard_normal((64, 256)) * scale(), "mxfp4") for _ in range(2)]
    q = operands[side]
    flat = mx.decode(q.scales, "ue8m0").reshape(-1)
    elements = mx.decode(q.codes, "e2m1")
    at = lambda stride: np.arange(64)[:, None] * 8 * stride + np.arange(16)  # noqa: E731
    for scales, says in (
        (np.repeat(mx.decode(q.scales & 0x7F, "ue4m3"), 32, axis=1), "the ue8m0 scales of the X are read as ue4m3"),
        (np.repeat(flat[at(1) % flat.size], 16, axis=1), "the scales of the X are read for blocks of 16 instead of 32"),
        (np.repeat(flat[at(2) % flat.size], 16, axis=1), "blocks of 16 instead of 32, with rows of as many scales"),
    ):
        values = [mx.dequantize(x) for x in operands]
        values[side] = elements * scales
        text = diagnosis(values[0] @ values[1].T, *operands)
        assert says.replace("X", NAMES[side]) in text and "unexplained" not in text, text


def test_global_scales_and_biases_are_named():
    a, b = nvfp4_operands()
    right = product(a, b)
    for factor, says in (
        (1 / a.global_scale, "the global scale of the operand `a` is left out"),
        (b.global_scale, "the global scale of the operand `b` is applied twice"),
        (1 / b.global_scale**2, "the global scale of the operand `b` is inverted"),
        (b.global_scale / a.global_scale, "the global scale of the operand `a` is that of the other operand"),
    ):
        assert says in diagnosis(factor * right, a, b)
    bias = np.random.default_rng(4).standard_normal(64) * np.abs(right).max()
    for added, says in ((0 * bias, "the bias is left out"), (2 * bias, "the bias is added twice"), (np.roll(bias, 1), "the bias is that of the column before")):
        assert says in diagnosis(right + added, a, b, bias=bias)


def test_the_bias_of_the_row_is_named():
    a, b = nvfp4_operands()
    right = product(a, b)
    bias = np.random.default_rng(6).standard_normal(64) * np.abs(right).max()
    assert "the bias of the row is added instead of that of the column" in diagnosis(right + bias[:, None], a, b, bias=bias)


def test_faults_of_a_part_are_named_with_their_rows_and_columns():
    a, b = nvfp4_operands()
    right = product(a, b)
    wrong = product(a, read_otherwise(b, "linear", "8x4"))
    for part, where in (
        (np.s_[16:32, :], "in rows 16 to 31 alone: "),
        (np.s_[:, 8:24], "in columns 8 to 23 alone: "),
        (np.s_[32:64, 32:64], "in rows 32 to 63, columns 32 to 63 alone: "),
    ):
        mixed = right.copy()
        mixed[part] = wrong[part]
        assert where + "the scales of the operand `b` are stored linear and read 8x4" in diagnosis(mixed, a, b)
    # One tile of K, everywhere and in some columns.
    some = product(altered(a, codes=np.where(np.arange(256) // 32 == 3, 0, a.codes).astype(np.uint8)), b)
    assert ": tile 3 of K, of 32 elements, is left out" in diagnosis(some, a, b)
    mixed = right.copy()
    mixed[:, 40:] = some[:, 40:]
    assert "in columns 40 to 63 alone: tile 3 of K, of 32 elements, is left out" in diagnosis(mixed, a, b)


def test_a_fault_and_a_factor_are_named_together():
    a, b = nvfp4_operands()
    text = diagnosis(3 * product(a, read_otherwise(b, "8x4", "linear")), a, b)
    assert "the scales of the operand `b` are stored 8x4 and read as linear; and the result has a constant factor: 3" in text


def test_what_fits_equally_is_said_together():
    a, b = nvfp4_operands()
    swapped = of_codes(lambda c: c.reshape(len(c), -1, 2)[:, :, ::-1])
    # The same sum in another order of K, whichever operand is changed.
    text = diagnosis(product(swapped(a), b), a, b)
    assert all(f"each byte of the {name} are exchanged" in text for name in NAMES), text


@pytest.mark.parametrize("formats", [("mxfp8", "mxfp4"), ("nvfp4", "nvfp4"), (None, "mxfp4")])
def test_the_arithmetic_of_the_first_wrong_element_runs(formats):
    random = np.random.default_rng(2)
    operands = [random.standard_normal((8, 128)).astype(np.float16).astype(np.float64) for _ in range(2)]
    a, b = (x if of is None else mx.quantize(x, of) for x, of in zip(operands, formats))
    decoded = [x if of is None else mx.dequantize(x) for x, of in zip((a, b), formats)]
    bias = random.standard_normal(8)
    right = decoded[0] @ decoded[1].T + bias
    wrong = right.astype(np.float32)
    wrong[3, 5:] += 1
    with pytest.raises(AssertionError) as caught:
        mx.assert_within(wrong, a, b, bias=bias)
    _, _, program = str(caught.value).partition("the first wrong element in Python:\n")
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(textwrap.dedent(program), {})
    exact, value, stored, found = shown.getvalue().split()
    assert (exact, stored) == ("exact", "stored")
    assert float(value) == pytest.approx(right[3, 5], rel=1e-12) and float(found) == wrong[3, 5]
    # One that nobody would read is left out.
    long = mx.exact(4, 1024)
    with pytest.raises(AssertionError) as caught:
        mx.assert_within(np.ones((4, 4), np.float32) * 1e9, long, long)
    assert "in Python" not in str(caught.value)


def test_of_a_large_product_a_sample_is_explained(monkeypatch):
    a, b = nvfp4_operands()
    right = product(a, b)
    monkeypatch.setattr(check, "_MOST_PRODUCTS", 1000)
    monkeypatch.setattr(check, "_SAMPLE", 24)
    assert mx.assert_within(right.astype(np.float32), a, b).value.shape == right.shape
    text = diagnosis(product(read_otherwise(a, "8x4", "linear"), b), a, b)
    assert "the rest is not judged" in text and "of a sample of 24 rows and 24 columns: every row, every column" in text, text
    assert "the scales of the operand `a` are stored 8x4 and read as linear" in text, text
    # A row between those of the sample is found by all bounds.
    mixed = right.copy()
    mixed[1] *= 2
    text = diagnosis(mixed, a, b)
    assert "first row 1, column 0" in text and "in row 1 alone: the result has a constant factor: two" in text, text


def test_what_nothing_explains_is_described():
    a, b = nvfp4_operands()
    right = product(a, b)
    nobody = right.copy()
    nobody[16:32] = 0
    text = diagnosis(nobody, a, b)
    assert "unexplained" in text and "rows 16 to 31, every column, each wrong element is 0" in text
    random = np.random.default_rng(5)
    text = diagnosis(random.standard_normal(right.shape), a, b)
    assert "unexplained" in text and "every row, every column" in text
    other = product(mx.exact(64, 256, "nvfp4", seed=8), mx.exact(64, 256, "nvfp4", seed=9))
    assert "unexplained" in diagnosis(other, a, b)


def test_nan_is_wrong_where_a_number_is_right():
    a, b = mx.exact(4, 64), mx.exact(4, 64, seed=2)
    out = (mx.dequantize(a) @ mx.dequantize(b).T).astype(np.float32)
    out[1, 1] = np.nan
    with pytest.raises(AssertionError, match="row 1, column 1"):
        mx.assert_within(out, a, b)
    with pytest.raises(AssertionError, match="nothing can be judged"):
        mx.assert_within(out, np.full((4, 64), np.nan), b)
    with pytest.raises(ValueError, match="nothing can be judged"):
        mx.assert_within(out, np.full((4, 64), np.nan), b)
    with pytest.raises(AssertionError, match="should be"):
        mx.assert_within(out[:2], a, b)


def test_a_check_that_decides_nothing_does_not_pass():
    a, b = mx.exact(4, 64), mx.exact(4, 64, seed=2)
    for shape in ((0, 4), (4, 0), (0, 0)):
        x, y = np.ones((shape[0], 64)), np.ones((shape[1], 64))
        with pytest.raises(ValueError, match="no element"):
            mx.assert_within(np.zeros(shape, np.float32), x, y)
    # The terms cancel: the bound allows for their magnitude, of which the value has nothing left.
    x = np.ones((4, 64))
    x[:, ::2] = 2.0**30
    y = np.ones((4, 64)) * 1.000001
    y[:, 2::4] = -1.000001
    wide = mx.bound(x, y, accumulation="unknown", out="f32")
    assert not wide.decides.any()
    with pytest.raises(mx.Undecided, match="only 0 of 16 elements can be judged"):
        mx.assert_within(np.zeros((4, 4), np.float32), x, y)
    # The same terms beside others that decide.
    both = np.concatenate([x, np.ones((12, 64))])
    right = (both @ y.T).astype(np.float32)
    assert mx.assert_within(right, both, y).decides.sum() >= 32
    # A zero that is exact is decided.
    assert mx.bound(a, b).decides.all() and mx.bound(np.zeros((2, 32)), np.zeros((2, 32))).decides.all()


def test_what_makes_no_sense_is_said():
    with pytest.raises(ValueError, match="K is a multiple of 32"):
        mx.quantize(np.zeros((2, 33)))
    with pytest.raises(ValueError, match="is no rule"):
        mx.quantize(np.zeros((2, 32)), rule="up")
    with pytest.raises(ValueError, match="is no accumulation"):
        mx.bound(np.zeros((2, 32)), np.zeros((2, 32)), accumulation="x")
    with pytest.raises(ValueError, match="K differs"):
        mx.bound(np.zeros((2, 32)), np.zeros((2, 64)))
