"""Faults of single products of quantized operands."""

import numpy as np

from sm121probe import mx


def altered(q, **changes):
    fields = {"codes": q.codes, "scales": q.scales, "global_scale": q.global_scale, **changes}
    return mx.Quantized(q.format, q.element, **fields)


def operands(formats, rows=(64, 64), depth=256, seed=11):
    random = np.random.default_rng(seed)
    # Scales differ from their neighbours.
    made = []
    for of, count in zip(formats, rows):
        block = 32 if of is None or of.startswith("mx") else 16
        spread = np.repeat(2.0 ** random.uniform(-3, 3, (count, depth // block)), block, axis=1)
        values = random.standard_normal((count, depth)) * spread
        made.append(mx.quantize(values, of) if of else values.astype(np.float16).astype(np.float64))
    return made


def value(x):
    return mx.dequantize(x) if isinstance(x, mx.Quantized) else x


def times(a, b):
    return value(a) @ value(b).T


def scales(change):
    return lambda q: altered(q, scales=np.ascontiguousarray(change(q.scales)).astype(np.uint8).reshape(q.scales.shape))


def codes(change):
    return lambda q: altered(q, codes=np.ascontiguousarray(change(q.codes)).astype(np.uint8).reshape(q.codes.shape))


def relaid(stored, read):
    """The scales stored in one layout and read as another, which may have less or more padding."""
    return scales(lambda s: mx.unswizzle_scales(np.resize(mx.swizzle_scales(s, stored), mx.swizzle_scales(s, read).size), *s.shape, read))


def in_64(s):
    """SageAttention's order: in chunks of 64 rows, 16 rows of 4 row groups by 4 blocks."""
    rows, blocks = s.shape
    return s.reshape(rows // 64, 4, 16, blocks // 4, 4).transpose(0, 3, 2, 1, 4)


def rows_read(index):
    """Codes and scales of other rows."""
    return lambda q: altered(q, codes=q.codes[index(len(q.codes))], scales=q.scales[index(len(q.codes))])


# Layouts without padding need 128 rows. Name, the words of the explanation (X is the operand), whether no other test has it, and the change of an operand. All for NVFP4.
LAYOUTS = [
    ("scales stored 128x4, read linear", "the scales of the X are stored 128x4 and read as linear", False, relaid("128x4", "linear")),
    ("scales stored linear, read 128x4", "stored linear and read 128x4", False, relaid("linear", "128x4")),
    ("scales stored 128x4, read 8x4", "stored 128x4 and read 8x4", True, relaid("128x4", "8x4")),
    ("scales stored 8x4, read 128x4", "stored 8x4 and read 128x4", True, relaid("8x4", "128x4")),
    ("scales stored in chunks of 64 rows", "stored in chunks of 64 rows and read as linear", True, scales(in_64)),
    ("scales stored in chunks of 64 rows, read 128x4", "stored in chunks of 64 rows and read 128x4", True, scales(lambda s: mx.unswizzle_scales(in_64(s).reshape(-1), *s.shape, "128x4"))),
]

def fragment(of):
    """Codes at other places: `of` gives row and element of K for those of each place, where 16 bytes hold 32 codes."""
    row, k = np.indices((64, 256))
    return codes(lambda c: c[of(row, k)])


def doubled(row, block):
    """Places of scales whose stride is doubled; beyond the matrix, their own."""
    place = row * 16 + 2 * block
    return np.where(place < 64 * 16, place, row * 16 + block)


# Other changes of an operand.
OF_OPERAND = [
    ("scale of the block two apart", "two apart", True, scales(lambda s: s[:, np.arange(16) ^ 2])),
    ("byte selector 0 for all", "first of each four blocks", False, scales(lambda s: s[:, np.arange(16) // 4 * 4])),
    ("byte selector one too far", "next block of each four", False, scales(lambda s: s[:, np.arange(16) // 4 * 4 + (np.arange(16) + 1) % 4])),
    ("byte selector 1 of each pair", "odd block of each pair", True, scales(lambda s: s[:, np.arange(16) | 1])),
    ("scale of row ^ 1", "other row of a pair", False, scales(lambda s: s[np.arange(64) ^ 1])),
    ("scale of row ^ 16", "row 16 apart", True, scales(lambda s: s[np.arange(64) ^ 16])),
    ("scale of row 0", "of the first row", True, scales(lambda s: s[np.zeros(64, int)])),
    ("ue4m3 bias off by one", "twice as large|constant factor", False, scales(lambda s: np.where((s >= 8) & (s < 0x77), s + 8, s))),
    ("ue4m3 without its mantissa", "powers of two", False, scales(lambda s: s & 0x78)),
    ("nibbles exchanged", "two codes of each byte", False, codes(lambda c: c.reshape(64, -1, 2)[:, :, ::-1])),
    ("<< 2 after ldmatrix missing", "not shifted by 2 bits", False, codes(lambda c: c >> 2)),
    ("low nibbles twice", "low codes of the X are read twice", True, codes(lambda c: np.repeat(c[:, ::2], 2, axis=1))),
    ("signs lost", "signs of the X are lost", False, codes(lambda c: c & 7)),
    ("halves of 32 exchanged", "halves of each 32 of K", True, codes(lambda c: c.reshape(64, -1, 2, 16)[:, :, ::-1])),
    ("neighbours in K exchanged, codes alone", "neighbouring elements|two codes of each byte", True, codes(lambda c: c[:, np.arange(256) ^ 1])),
    ("rows of the previous tile of 16", "row 16 before|16 before", True, rows_read(lambda n: np.where(np.arange(n) < 16, np.arange(n), np.arange(n) - 16))),
    ("row 8 apart", "row 8 apart", False, rows_read(lambda n: np.arange(n) ^ 8)),
    ("tile of the stage before", "tile before", False, codes(lambda c: c.reshape(64, 4, 64)[:, [0, 0, 1, 2]])),
    ("scale of the last block taken from the one before", "for the last block of a row", True, scales(lambda s: s[:, np.minimum(np.arange(16), 14)])),
    ("scale of the block of half the number", "half the number", True, scales(lambda s: s[:, np.arange(16) // 2])),
    ("scale of the first block", "first block of a row", True, scales(lambda s: s[:, np.zeros(16, int)])),
    ("scale of the even block of each pair", "even block of each pair", True, scales(lambda s: s[:, np.arange(16) & ~1])),
    ("scale of row ^ 32", "row 32 apart", True, scales(lambda s: s[np.arange(64) ^ 32])),
    ("byte selector one too early", "block before of each four", True, scales(lambda s: s[:, np.arange(16) // 4 * 4 + (np.arange(16) + 3) % 4])),
    ("ue4m3 bias one too low", "half as large", True, scales(lambda s: np.where(s >= 16, s - 8, s))),
    ("6 read as 4", "6 is read as 4", False, codes(lambda c: np.where(c & 7 == 7, c - 1, c))),
    ("first row for all", "first row is read", True, rows_read(lambda n: np.zeros(n, int))),
    ("row ^ 1", "other row of a pair is read", True, rows_read(lambda n: np.arange(n) ^ 1)),
    ("rows of the next tile of 32", "row 32 behind", True, rows_read(lambda n: np.where(np.arange(n) + 32 < n, np.arange(n) + 32, np.arange(n)))),
    ("halves of 64 exchanged", "halves of each 64", True, codes(lambda c: c.reshape(64, -1, 2, 32)[:, :, ::-1])),
    ("tile of the next stage", "next tile", True, codes(lambda c: c.reshape(64, 4, 64)[:, [1, 2, 3, 3]])),
    ("first stage for all", "first tile", True, codes(lambda c: c.reshape(64, 4, 64)[:, [0, 0, 0, 0]])),
    ("first 32 of K dropped", "first 32 of K", True, codes(lambda c: np.where(np.arange(256) < 32, 0, c))),
    ("all but the first 64 of K dropped", "all but the first 64", True, codes(lambda c: np.where(np.arange(256) < 64, c, 0))),
    ("the tail of 64 of K dropped", "last 64 of K", False, codes(lambda c: np.where(np.arange(256) < 192, c, 0))),
    ("stages of 64 exchanged", "other tile of a pair|tiles? of a pair", True, codes(lambda c: c.reshape(64, 2, 2, 64)[:, :, ::-1])),
    ("8 by 8 blocks transposed", "8×8 blocks of the X are transposed", True, fragment(lambda r, k: (r & ~7 | k & 7, k & ~7 | r & 7))),
    ("16 by 16 blocks transposed", "16×16 blocks of the X are transposed", True, fragment(lambda r, k: (r & ~15 | k & 15, k & ~15 | r & 15))),
    ("ldmatrix.x4 with its middle matrices exchanged", "quarters of each fragment", True, fragment(lambda r, k: (np.where((r // 8 + k // 32) % 2, r ^ 8, r), np.where((r // 8 + k // 32) % 2, k ^ 32, k)))),
    ("half of a fragment's rows twice", "codes of the first 8 rows of each 16 are read twice", True, fragment(lambda r, k: (r & ~8, k))),
    ("half of a fragment's K twice", "first of every two chunks of 16 bytes", True, fragment(lambda r, k: (r, k & ~32))),
    ("tile read without its swizzle of 128 bytes", "swizzle of 128 bytes", True, fragment(lambda r, k: (r, k ^ (r % 8 * 32)))),
    ("tile read without its swizzle of 64 bytes", "swizzle of 64 bytes", True, fragment(lambda r, k: (r, k ^ (r // 2 % 4 * 32)))),
    ("tile read without its swizzle of 32 bytes", "swizzle of 32 bytes", True, fragment(lambda r, k: (r, k ^ (r // 4 % 2 * 32)))),
    ("even row of each pair", "even row of each pair is read", True, rows_read(lambda n: np.arange(n) & ~1)),
    ("first half of each 16 rows", "first half of each 16 rows is read", True, rows_read(lambda n: np.arange(n) & ~8)),
    ("row stride halved", "row of half the number is read", True, rows_read(lambda n: np.arange(n) // 2)),
    ("row stride doubled", "row of twice the number is read", True, rows_read(lambda n: 2 * np.arange(n) % n)),
    ("scale of the row before", "scale of the row before", True, scales(lambda s: np.roll(s, 1, axis=0))),
    ("scale stride doubled", "block of twice the number", True, scales(lambda s: s.reshape(-1)[doubled(np.arange(64)[:, None], np.arange(16))])),
    ("scales of the stage before", "the scales of the tile before of 64", True, scales(lambda s: s.reshape(64, 4, 4)[:, [0, 0, 1, 2]])),
    ("codes and scales of the stage before", "the codes and scales of the tile before of 64", True, lambda q: altered(q, codes=np.ascontiguousarray(q.codes.reshape(64, 4, 64)[:, [0, 0, 1, 2]]).reshape(64, 256), scales=np.ascontiguousarray(q.scales.reshape(64, 4, 4)[:, [0, 0, 1, 2]]).reshape(64, 16))),
]


def zero_first(x, tile):
    return np.concatenate([np.zeros((tile, x.shape[1])), x[:-tile]])


# The same for results.
OF_RESULT = [
    ("transposed", "rows and columns exchanged", False, lambda y: y.T),
    ("twice as large", "constant factor: two|twice as large|applied twice", False, lambda y: 2 * y),
    ("factor -0.5", "constant factor", False, lambda y: -0.5 * y),
    ("factor 6", "constant factor", False, lambda y: 6 * y),
    ("column pairs exchanged", "columns of pairs exchanged|other row of a pair", False, lambda y: y[:, np.arange(64) ^ 1]),
    ("8 by 8 tiles transposed", "8×8 tiles transposed", False, lambda y: y.reshape(8, 8, 8, 8).transpose(0, 3, 2, 1).reshape(64, 64)),
    ("rows 8 apart exchanged", "8 apart", False, lambda y: y[np.arange(64) ^ 8]),
    ("16 by 16 tiles crosswise", "16×16 tiles exchanged crosswise|8 apart", True, lambda y: y[np.arange(64) ^ 8][:, np.arange(64) ^ 8]),
    ("columns in tiles of 32 exchanged", "32 apart|halves of a row|other half", True, lambda y: y[:, np.arange(64) ^ 32]),
    ("rows in reverse", "reverse", False, lambda y: y[::-1]),
    ("columns 16 apart exchanged", "columns 16 apart|16 apart", True, lambda y: y[:, np.arange(64) ^ 16]),
    ("rows 16 apart exchanged", "16 apart", True, lambda y: y[np.arange(64) ^ 16]),
    ("rows 32 apart exchanged", "32 apart", True, lambda y: y[np.arange(64) ^ 32]),
    ("rows 8 too far", "every row 8 too far", True, lambda y: np.roll(y, 8, axis=0)),
    ("rows 32 too far", "32 too far|32 apart", True, lambda y: np.roll(y, 32, axis=0)),
    ("columns 8 too far", "every column 8 too far", True, lambda y: np.roll(y, 8, axis=1)),
    ("columns one too early", "every column one too early", True, lambda y: np.roll(y, -1, axis=1)),
    ("rows of pairs exchanged", "rows of pairs exchanged|other row of a pair", True, lambda y: y[np.arange(64) ^ 1]),
    ("tiles of 8 columns exchanged", "tiles of 8 columns exchanged|8 apart", True, lambda y: y[:, np.arange(64) ^ 8]),
    ("accumulator of the 8 columns before", "8 columns before is added", True, lambda y: y + zero_first(y.T, 8).T),
    ("factor 448", "constant factor", True, lambda y: 448 * y),
    ("accumulator of the 8 rows before", "8 rows before is added", True, lambda y: y + zero_first(y, 8)),
    ("accumulator of the 32 rows before", "32 rows before is added", True, lambda y: y + zero_first(y, 32)),
    ("last row not stored", "the last row holds zero", True, lambda y: np.where(np.arange(64)[:, None] < 63, y, 0)),
    ("last tile of 16 rows not stored", "the last 16 rows hold zero", True, lambda y: np.where(np.arange(64)[:, None] < 48, y, 0)),
    ("last 8 columns not stored", "the last 8 columns hold zero", True, lambda y: np.where(np.arange(64) < 56, y, 0)),
    ("stored through f16", "the sum is rounded to f16", True, lambda y: cut(y, "f16")),
    ("stored through bf16", "the sum is rounded to bf16", True, lambda y: cut(y, "bf16")),
]


def cut(x, kind):
    if kind == "f16":
        return x.astype(np.float16).astype(np.float64)
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)


def accumulated(a, b, kind, step=16):
    total = np.zeros((len(value(a)), len(value(b))))
    for k in range(0, 256, step):
        total = cut(total + value(a)[:, k : k + step] @ value(b)[:, k : k + step].T, kind)
    return total


def judged(out, a, b, how):
    return ("product", lambda: mx.assert_within(out.astype(np.float32), a, b, **how))


def right():
    for formats in (("nvfp4", "nvfp4"), ("mxfp8", "mxfp4"), ("mxfp8", "mxfp8"), (None, "mxfp4")):
        a, b = operands(formats)
        for accumulation in ("native", "unknown"):
            yield f"{formats}, {accumulation}", judged(times(a, b), a, b, {"accumulation": accumulation})


def faults():
    native = {"accumulation": "native"}
    a, b = operands(("nvfp4", "nvfp4"), rows=(128, 128))
    for n, (name, words, is_new, change) in enumerate(LAYOUTS):
        faulty = [change(q) if at == n % 2 else q for at, q in enumerate((a, b))]
        yield name, words.replace("X", f"operand `{'ab'[n % 2]}`"), is_new, judged(times(*faulty), a, b, native)
    a, b = operands(("nvfp4", "nvfp4"))
    for n, (name, words, is_new, change) in enumerate(OF_OPERAND):
        side = n % 2
        faulty = [change(q) if at == side else q for at, q in enumerate((a, b))]
        yield name, words.replace("X", f"operand `{'ab'[side]}`"), is_new, judged(times(*faulty), a, b, native)
    for name, words, is_new, change in OF_RESULT:
        yield name, words, is_new, judged(change(times(a, b)), a, b, native)
    x, y = operands(("mxfp8", "mxfp4"))
    plus = scales(lambda s: s + 1)
    yield "ue8m0 bias off by one", "scales of the .* are twice as large|constant factor: two", True, judged(times(plus(x), y), x, y, native)
    yield "ue8m0 scales left out", "are left out", False, judged(times(scales(lambda s: 0 * s + 127)(x), y), x, y, native)
    flat = 2.0 ** (y.scales.astype(float).reshape(-1) - 127)
    wrong = mx.decode(y.codes, "e2m1") * np.repeat(flat[(np.arange(64)[:, None] * 8 + np.arange(16)) % flat.size], 16, axis=1)
    yield "blocks of 16 for 32", "blocks of 16", False, judged(value(x) @ wrong.T, x, y, native)
    yield "e4m3 read as e5m2", "read as e5m2", True, judged(
        mx.decode(x.codes, "e5m2") * np.repeat(2.0 ** (x.scales.astype(float) - 127), 32, axis=1) @ value(y).T, x, y, native
    )
    ga, gb = a.global_scale, b.global_scale
    for name, factor, words, is_new in (
        ("global scale of b missing", 1 / gb, "global scale of the operand `b` is left out", True),
        ("global scale of a twice", ga, "global scale of the operand `a` is applied twice", True),
        ("both global scales missing", 1 / (ga * gb), "global scales.* left out|constant factor", True),
    ):
        yield name, words, is_new, judged(times(a, b) * factor, a, b, native)
    bias = np.random.default_rng(3).standard_normal(64) * np.abs(times(a, b)).mean()
    for name, added, words, is_new in (
        ("bias missing", 0 * bias, "bias is left out", False),
        ("bias halved", bias / 2, "bias is halved", True),
        ("bias subtracted", -bias, "bias is subtracted", True),
        ("bias of the next column", np.roll(bias, -1), "bias is that of the next column", True),
        ("bias of column 0", np.full(64, bias[0]), "bias is that of column 0", True),
    ):
        yield name, words, is_new, judged(times(a, b) + added, a, b, {**native, "bias": bias})
    swapped = altered(a, scales=b.scales)
    yield "scales of the other operand", "scales of the operand `a` are those of the other operand", True, judged(times(swapped, b), a, b, native)
    for name, added, words, is_new in (
        ("bias added by each of 4 splits", 4 * bias, "added four times", True),
        ("bias added by each of 3 splits", 3 * bias, "added three times", True),
        ("alpha times the bias as well", ga * gb * bias, "multiplied by the global scales, too", True),
        ("bias of the other column of a pair", bias[np.arange(64) ^ 1], "other column of a pair", True),
        ("bias of the other half", np.roll(bias, 32), "other half of the columns", True),
    ):
        yield name, words, is_new, judged(times(a, b) + added, a, b, {**native, "bias": bias})
    low = [mx.Quantized(x.format, x.element, codes=np.where(x.codes & 0x7F < 0x70, x.codes, x.codes & 0x80 | 0x6F).astype(np.uint8), scales=x.scales) for x in (x,)][0]
    wrong = mx.decode(low.codes, "e5m2") * np.repeat(2.0 ** (low.scales.astype(float) - 127), 32, axis=1)
    yield "e4m3 read as e5m2, no code of it NaN", "read as e5m2", True, judged(wrong @ value(y).T, low, y, native)
    wide = times(a, b)
    chopped = (wide.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    yield "bf16 by a shift of 16 bits", "cut to its type, not rounded", True, judged(chopped, a, b, {**native, "out_type": "bf16"})
    yield "sums in bf16", "rounded to bf16 after each 16", False, judged(accumulated(a, b, "bf16"), a, b, native)
    yield "sums in f16", "rounded to f16 after each 16", True, judged(accumulated(a, b, "f16"), a, b, native)
    yield "sums in bf16 between steps of 64", "rounded to bf16 after each 64", True, judged(accumulated(a, b, "bf16", 64), a, b, native)
    yield "accumulator in f16 between steps of 128", "rounded to f16 after each 128", True, judged(accumulated(a, b, "f16", 128), a, b, native)
    yield "the first 32 of K twice", "twice|32 of K", False, judged(times(a, b) + value(a)[:, :32] @ value(b)[:, :32].T, a, b, native)
    yield "the last 64 of K twice", "twice|64 of K", False, judged(times(a, b) + value(a)[:, -64:] @ value(b)[:, -64:].T, a, b, native)
    yield "every second tile of 64 dropped", "of every two|every second", True, judged(
        sum(value(a)[:, k : k + 64] @ value(b)[:, k : k + 64].T for k in (0, 128)), a, b, native
    )
