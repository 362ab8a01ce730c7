"""Faults of attention, computed in f64 on gathered keys and values."""

import numpy as np

from sm121probe import mx

ROWS, KEYS, HEADS, KV, WIDTH, PAGE = 6, 44, 8, 2, 64, 8


def attend(q, k, v, *, seen, scale=WIDTH**-0.5, sinks=None, sink_times=1, cap=None, slopes=None, heads=None, v_heads=None, weights=None):
    """softmax(q·k)·v of one request; `seen` is [rows, keys], `heads` the head of keys of each head of queries."""
    rows, count, width = q.shape
    group = count // k.shape[1]
    heads = np.arange(count) // group if heads is None else heads
    v_heads = heads if v_heads is None else v_heads
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    scores = np.einsum("rhd,khd->rhk", q, k[:, heads]) * scale
    if slopes is not None:
        distance = np.arange(len(k))[None, :] - (np.arange(rows)[:, None] + len(k) - rows)
        scores += slopes[None, :, None] * distance[:, None, :]
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
    scores = np.where(seen[:, None, :], scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    e = np.exp(scores - most)
    total = e.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + sink_times * np.exp(np.asarray(sinks, np.float64)[None, :, None] - most)
    p = e / total
    if weights is not None:
        p = weights(p)
    return np.einsum("rhk,khd->rhd", p, v[:, v_heads])


def causal(rows=ROWS, keys=KEYS, shift=0, window=None):
    last = np.arange(rows)[:, None] + keys - rows + shift
    at = np.arange(keys)[None, :]
    return (at <= last) & ((at > last - window) if window else True)


def data(seed=0, rows=ROWS, keys=KEYS):
    random = np.random.default_rng(seed)
    q = (1.5 * random.standard_normal((rows, HEADS, WIDTH))).astype(np.float16)
    k, v = (random.standard_normal((keys, KV, WIDTH)).astype(np.float16) for _ in range(2))
    return q, k, v, (2 + random.standard_normal(HEADS)).astype(np.float32)


def judged(tensors, out, **metadata):
    return ("attention", lambda: mx.assert_attention_within({**tensors, "out": out.astype(np.float16)}, kernel="triton", **metadata))


def paged(x, order, layout):
    """Keys in pages in this order of pages, NHD or HND."""
    pages = np.zeros((len(order), PAGE, KV, WIDTH), x.dtype)
    padded = np.concatenate([x, np.full((len(order) * PAGE - len(x), KV, WIDTH), 0.25, x.dtype)])
    pages[order] = padded.reshape(len(order), PAGE, KV, WIDTH)
    return pages if layout == "NHD" else np.ascontiguousarray(pages.transpose(0, 2, 1, 3))


ORDER = np.array([3, 0, 5, 1, 4, 2])


def gathered(pages, table, layout):
    rows = pages[table] if layout == "NHD" else pages[table].transpose(0, 2, 1, 3)
    return rows.reshape(-1, KV, WIDTH)[:KEYS]


def cases():
    """Each base: its name, tensors, metadata, and what a right kernel computes."""
    q, k, v, sinks = data()
    plain, seen = {"q": q, "k": k, "v": v}, causal()
    yield "sinks", {**plain, "sinks": sinks}, {"causal": True}, attend(q, k, v, seen=seen, sinks=sinks)
    yield "window", plain, {"causal": True, "window": 12}, attend(q, k, v, seen=causal(window=12))
    yield "cap", plain, {"causal": True, "soft_cap": 3.0}, attend(q, k, v, seen=seen, cap=3.0)
    yield "slopes", {**plain, "alibi_slopes": SLOPES}, {"causal": True}, attend(q, k, v, seen=seen, slopes=SLOPES)
    for layout in ("NHD", "HND"):
        yield f"pages {layout}", *pages_of(layout), attend(q, k, v, seen=seen)


SLOPES = (2.0 ** -np.arange(1, 1 + HEADS)).astype(np.float32)


def pages_of(layout):
    q, k, v, _ = data()
    tensors = {
        "q": q, "k_cache": paged(k, ORDER, layout), "v_cache": paged(v, ORDER, layout),
        "block_table": ORDER[None].astype(np.int32), "seq_lens": np.array([KEYS], np.int32),
    }
    return tensors, {"causal": True, "kv_layout": layout}


def right():
    for name, tensors, metadata, out in cases():
        yield name, judged(tensors, out, **metadata)


def faults():
    q, k, v, sinks = data()
    seen, group = causal(), HEADS // KV
    with_sinks = {"q": q, "k": k, "v": v, "sinks": sinks}
    of = lambda **how: judged(with_sinks, attend(q, k, v, **{"seen": seen, "sinks": sinks, **how}), causal=True)  # noqa: E731
    h = np.arange(HEADS)
    yield "sink dropped (vl 52148)", "sinks are dropped", False, of(sinks=None)
    yield "sink for each of 4 splits", "once for each split", False, of(sink_times=4)
    yield "sink times sm_scale", "by sm_scale", False, of(sinks=sinks * WIDTH**-0.5)
    yield "sink in base 2", "base e read as base 2", True, of(sinks=sinks * np.log(2))
    yield "sink of the next head", "sink of another head.*next head|next head", True, of(sinks=np.roll(sinks, -1))
    yield "sink of head mod group (modular 6591)", "mod the size of a group", False, of(sinks=sinks[h % group])
    yield "sink of head 0", "head 0", False, of(sinks=sinks[0 * h])
    yield "sink of the head before", "previous head", True, of(sinks=np.roll(sinks, 1))
    yield "sink halved", "by one half", True, of(sinks=sinks / 2)
    yield "sink twice as large", "by two", True, of(sinks=2 * sinks)
    yield "values of the heads of keys exchanged alone", "of values alone", False, of(v_heads=1 - h // group)
    yield "causal from the top left", "top left", False, of(seen=causal(shift=ROWS - KEYS))
    yield "no mask", "mask is applied.*none|mask", True, of(seen=np.ones_like(seen))
    yield "key after the own seen", "sees the key after its own", False, of(seen=causal(shift=1))
    yield "own key not seen", "does not see its own key", False, of(seen=causal(shift=-1))
    yield "head of keys h % Hkv", "mod the heads of keys|other head of keys|another head of keys", False, of(heads=h % KV)
    yield "head 0 of keys for all", "head 0 for all", True, of(heads=0 * h)
    yield "heads of keys exchanged", "another head of keys", False, of(heads=1 - h // group)
    yield "values of head 0 alone", "of values alone", False, of(v_heads=0 * h)
    yield "sm_scale missing", "sm_scale is missing", False, of(scale=1.0)
    yield "sm_scale of width 128", "1 / √128", False, of(scale=128**-0.5)
    yield "log2 e missing", "log2 e is missing", False, of(scale=WIDTH**-0.5 * np.log(2))
    yield "log2 e twice", "log2 e is applied twice", True, of(scale=WIDTH**-0.5 / np.log(2))
    yield "keys and values exchanged", "exchanged", False, judged(with_sinks, attend(q, v, k, seen=seen, sinks=sinks), causal=True)
    yield "values read as keys", "read as keys|read as values", False, judged(with_sinks, attend(q, k, k, seen=seen, sinks=sinks), causal=True)
    right_out = attend(q, k, v, seen=seen, sinks=sinks)
    stored = lambda out: judged(with_sinks, out, causal=True)  # noqa: E731
    yield "row sum doubled (fi 3838)", "factor", False, stored(right_out / 2)
    yield "column pairs exchanged (fa 2553)", "output is permuted", False, stored(right_out[:, :, np.arange(WIDTH) ^ 1])
    yield "halves of 16 columns exchanged", "output is permuted", True, stored(right_out[:, :, np.arange(WIDTH) ^ 8])
    yield "heads in reverse", "heads", False, stored(right_out[:, ::-1])
    yield "heads of pairs exchanged", "heads", False, stored(right_out[:, h ^ 1])
    yield "rows one too far", "row", False, stored(np.roll(right_out, 1, axis=0))
    yield "result of the row before added (fi 5029)", "result of 1 rows before|accumulator of another row", True, stored(right_out + np.concatenate([0 * right_out[:1], right_out[:-1]]))
    yield "rows one too early", "the next row|the previous row", False, stored(np.roll(right_out, -1, axis=0))
    yield "halves of a head exchanged", "halves of a head exchanged", True, stored(np.roll(right_out, WIDTH // 2, axis=2))
    yield "output as [heads, rows]", "rows and heads exchanged", True, stored(right_out.transpose(1, 0, 2).reshape(right_out.shape))
    yield "output as [columns, heads]", "heads and columns exchanged", True, stored(right_out.transpose(0, 2, 1).reshape(right_out.shape))
    yield "queries of the row before", "of the previous row", True, judged(with_sinks, attend(np.roll(q, 1, axis=0), k, v, seen=seen, sinks=sinks), causal=True)
    yield "queries as [heads, rows]", "as \\[heads, rows", True, judged(with_sinks, attend(q.reshape(HEADS, ROWS, WIDTH).transpose(1, 0, 2), k, v, seen=seen, sinks=sinks), causal=True)
    yield "halves of a query exchanged (RoPE as NeoX)", "halves of a head exchanged", True, judged(with_sinks, attend(np.roll(q, WIDTH // 2, axis=2), k, v, seen=seen, sinks=sinks), causal=True)
    yield "pairs of a query exchanged (RoPE as GPT-J)", "elements of pairs exchanged", True, judged(with_sinks, attend(q[:, :, np.arange(WIDTH) ^ 1], k, v, seen=seen, sinks=sinks), causal=True)
    yield "half of a head of the queries", "first 32 elements", False, judged(with_sinks, attend(np.where(np.arange(WIDTH) < 32, q, 0), k, v, seen=seen, sinks=sinks), causal=True)
    yield "queries of the next row", "other queries", False, judged(with_sinks, attend(np.roll(q, -1, axis=0), k, v, seen=seen, sinks=sinks), causal=True)
    yield "queries of the next head", "other queries", False, judged(with_sinks, attend(np.roll(q, -1, axis=1), k, v, seen=seen, sinks=sinks), causal=True)
    last = seen & (np.arange(KEYS) < 32)
    yield "last tile of keys left out", "keys are left out", False, of(seen=last)
    yield "first 16 keys left out", "keys are left out", False, of(seen=seen & (np.arange(KEYS) >= 16))
    yield "last split alone", "keys are left out", False, of(seen=seen & (np.arange(KEYS) >= 22))
    halves = [attend(q, k, v, seen=seen & part) for part in (np.arange(KEYS) < 22, np.arange(KEYS) >= 22)]
    without = {"q": q, "k": k, "v": v}
    yield "two splits averaged (fi 4382)", "they are averaged|merged wrongly", False, judged(without, sum(halves) / 2, causal=True)
    def merged(shares, divided=True):
        """Both splits by shares of their sums of weights, (first, second)."""
        sums = []
        for at in (np.arange(KEYS) < 22, np.arange(KEYS) >= 22):
            scores = np.einsum("rhd,khd->rhk", q.astype(float), k.astype(float)[:, h // group]) * WIDTH**-0.5
            sums.append(np.exp(np.where((seen & at)[:, None, :], scores, -np.inf)).sum(-1))
        first, second = shares(*sums)
        return (halves[0] * first[..., None] + halves[1] * second[..., None]) / ((first + second)[..., None] if divided else 1)

    log2, ln2 = 1 / np.log(2), np.log(2)
    yield "merge reads LSE of base 2 as base e", "base 2 are read as those of base e", True, judged(without, merged(lambda a, b: (a**log2, b**log2)), causal=True)
    yield "merge reads LSE of base e as base 2", "base e are read as those of base 2", True, judged(without, merged(lambda a, b: (a**ln2, b**ln2)), causal=True)
    yield "weights of two splits exchanged", "their weights are in reverse", True, judged(without, merged(lambda a, b: (b, a)), causal=True)
    yield "last split twice", "the last one counts twice", True, judged(without, merged(lambda a, b: (a, 2 * b)), causal=True)
    scores = np.where(seen[:, None], np.einsum("rhd,khd->rhk", q.astype(float), k.astype(float)[:, h // group]) * WIDTH**-0.5, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weighted = np.einsum("rhk,khd->rhd", e, v.astype(float)[:, h // group])
    yield "not divided by the row sum", "nothing is", True, judged(without, weighted, causal=True)
    yield "row sum without the last tile of 16 keys", "lacks the last tile of 16", True, judged(without, weighted / e[..., :32].sum(-1, keepdims=True), causal=True)
    yield "two splits added", "they are added|merged wrongly", True, judged(without, sum(halves), causal=True)
    windowed = lambda window, shift=0: judged(without, attend(q, k, v, seen=causal(window=window, shift=shift) & seen), causal=True, window=12)  # noqa: E731
    yield "window one more", "one key more", False, windowed(13)
    yield "window one less", "one key fewer", False, windowed(11)
    yield "window ignored", "window has another size.*none|there is none", True, windowed(None)
    yield "window doubled", "twice as many", True, windowed(24)
    last_row = causal(window=12)[-1:] | (np.arange(KEYS)[None] > KEYS - 7)
    yield "all rows share the window of the last (fi 4137)", "window of one row", False, judged(without, attend(q, k, v, seen=seen & last_row), causal=True, window=12)
    first = causal(window=12)
    tiled = seen & (np.arange(KEYS)[None] >= np.array([[row.argmax() // 16 * 16] for row in first]))
    yield "keys before the window in a tile of 16", "tile of 16", False, judged(without, attend(q, k, v, seen=tiled), causal=True, window=12)
    capped = lambda **how: judged(without, attend(q, k, v, seen=seen, **how), causal=True, soft_cap=3.0)  # noqa: E731
    yield "soft cap absent", "soft cap", False, capped()
    yield "soft cap halved", "soft cap|cap", False, capped(cap=1.5)
    yield "soft cap of unscaled scores", "soft cap", False, judged(without, uncapped(q, k, v, seen), causal=True, soft_cap=3.0)
    sloped = lambda slopes: judged({**without, "alibi_slopes": SLOPES}, attend(q, k, v, seen=seen, slopes=slopes), causal=True)  # noqa: E731
    yield "slopes missing", "slopes.*missing", True, sloped(None)
    yield "slopes of the next head", "slopes.*next head", True, sloped(np.roll(SLOPES, -1))
    yield "slopes without log2 e", "without log2 e", True, sloped(SLOPES * np.float32(np.log(2)))
    yield "slopes times log2 e twice", "log2 e twice", True, sloped(SLOPES / np.float32(np.log(2)))
    yield "soft cap in base 2", "times log2 e", True, capped(cap=3.0 / np.log(2))
    yield "every second tile of 16 keys", "every tile of 16 with an odd number", False, judged(without, attend(q, k, v, seen=seen & (np.arange(KEYS) // 16 % 2 == 0)), causal=True)
    yield "slopes negated", "slopes.*other sign", True, sloped(-SLOPES)
    for layout, other in (("NHD", "HND"), ("HND", "NHD")):
        tensors, metadata = pages_of(layout)
        caches = [tensors[name] for name in ("k_cache", "v_cache")]
        # The slot behind the last key is there, too.
        shifted = np.concatenate([k[1:], np.full_like(k[:1], 0.25)])
        run = lambda k, v, seen=seen: judged(tensors, attend(q, k, v, seen=seen), **metadata)  # noqa: B023,E731
        swapped = [gathered(x.reshape(paged(k, ORDER, other).shape), ORDER, other) for x in caches]
        yield f"{layout} read as {other} (vl 56550)", f"as {other}", False, run(*swapped)
        yield f"{layout}: values alone read as {other}", f"values alone, as {other}", True, run(k, swapped[1])
        yield f"{layout}: the first page for all (sg 36531)", "table of pages", False, run(*(gathered(x, ORDER[[0] * 6], layout) for x in caches))
        yield f"{layout}: the page before", "table of pages", False, run(*(gathered(x, ORDER[[0, 0, 1, 2, 3, 4]], layout) for x in caches))
        yield f"{layout}: the table is not read", "table of pages", False, run(*(gathered(x, np.arange(6), layout) for x in caches))
        yield f"{layout}: keys of the next slot", "keys of the next key, through the table", True, run(shifted, v)
        yield f"{layout}: values of the next slot across pages", "values of the next key, through the table", True, run(k, np.concatenate([v[1:], np.full_like(v[:1], 0.25)]))
        yield f"{layout}: keys of the slot before", "keys of the key before, through the table", True, run(np.concatenate([k[:1], k[:-1]]), v)
        yield f"{layout}: the next page", "the next page", True, run(*(gathered(x, ORDER[[1, 2, 3, 4, 5, 5]], layout) for x in caches))
        yield f"{layout}: a page left out", "keys are left out", False, run(k, v, seen & (np.arange(KEYS) // PAGE != 2))


def uncapped(q, k, v, seen):
    """The cap before the scale."""
    scores = np.einsum("rhd,khd->rhk", q.astype(float), k.astype(float)[:, np.arange(HEADS) // (HEADS // KV)])
    scores = np.where(seen[:, None], 3 * np.tanh(scores / 3) * WIDTH**-0.5, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("rhk,khd->rhd", e / e.sum(-1, keepdims=True), v.astype(float)[:, np.arange(HEADS) // (HEADS // KV)])
