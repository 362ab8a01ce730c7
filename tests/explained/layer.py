"""Faults of a mixture-of-experts layer: MXFP8 activations, MXFP4 weights, the activation of gpt-oss. The first wrong stage is explained."""

import numpy as np

from sm121probe import mx

TOKENS, HIDDEN, INTER, EXPERTS, TOP = 24, 128, 128, 4, 2


def bf16(x):
    """The codes of the nearest bf16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def wide(codes):
    return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def weights(random, rows, depth):
    spread = np.repeat(2.0 ** random.uniform(-2, 2, (EXPERTS * rows, depth // 32)), 32, axis=1)
    return mx.quantize(random.standard_normal((EXPERTS * rows, depth)) * spread / depth**0.5, "mxfp4")


def value(q, codes=None, scales=None):
    codes, scales = (q.codes if codes is None else codes), (q.scales if scales is None else scales)
    return mx.decode(codes, q.element) * np.repeat(mx.decode(scales, "ue8m0"), 32, axis=1)


def same(x):
    return x


class Layer:
    """A layer whose stages can be changed: a stage's name, and what happens instead."""

    def __init__(self, **changed):
        self.changed = changed
        random = np.random.default_rng(5)
        self.x = bf16(random.standard_normal((TOKENS, HIDDEN)) * 2.0 ** random.uniform(-2, 2, (TOKENS, 1)))
        self.logits = random.standard_normal((TOKENS, EXPERTS)).astype(np.float32)
        self.w13, self.w2 = weights(random, 2 * INTER, HIDDEN), weights(random, HIDDEN, INTER)
        self.b13, self.b2 = (random.standard_normal((EXPERTS, n)).astype(np.float32) for n in (2 * INTER, HIDDEN))

    def do(self, stage, usual, *args):
        return self.changed.get(stage, usual)(*args)

    def dump(self):
        ids, shares = self.do("route", route, self.logits)
        order = sorted((ids[t, j], t, j) for t in range(TOKENS) for j in range(TOP))
        expert, token = (np.array([row[n] for row in order], np.int32) for n in (0, 1))
        a1 = self.do("quantize", mx.quantize, wide(self.x)[self.do("permute", same, token)])
        fc1 = bf16(self.do("fc1", gemm, a1, self.w13, self.b13, expert))
        act = self.do("act", activation, wide(fc1))
        a2 = self.do("requantize", mx.quantize, act)
        fc2 = bf16(self.do("fc2", gemm, a2, self.w2, self.b2, expert))
        slot = {(t, j): row for row, (_, t, j) in enumerate(order)}
        rows = np.array([[slot[t, j] for j in range(TOP)] for t in range(TOKENS)])
        out = bf16(self.do("finalize", finalize, wide(fc2), rows, shares))
        pack = lambda q, rows: q.packed.reshape(EXPERTS, rows, -1)  # noqa: E731
        tensors = {
            "hidden_states": self.x, "router_logits": self.logits, "topk_ids": ids, "topk_weights": shares,
            "row_token": token, "row_expert": expert, "a1_codes": a1.codes, "a1_scales": a1.scales, "fc1_out": fc1,
            "w13_blocks": pack(self.w13, 2 * INTER), "w13_scales": self.w13.scales.reshape(EXPERTS, 2 * INTER, -1), "w13_bias": self.b13,
            "w2_blocks": pack(self.w2, HIDDEN), "w2_scales": self.w2.scales.reshape(EXPERTS, HIDDEN, -1), "w2_bias": self.b2,
            "a2_codes": a2.codes, "a2_scales": a2.scales, "fc2_out": fc2, "output": out,
        }
        return ("layer", tensors, {})


def route(logits, choose=lambda x: np.argsort(-x, axis=1, kind="stable")[:, :TOP], share=None):
    ids = choose(logits)
    chosen = np.take_along_axis(logits.astype(np.float64), ids, 1)
    e = np.exp(chosen - chosen.max(1, keepdims=True))
    shares = e / e.sum(1, keepdims=True) if share is None else share(logits.astype(np.float64), ids)
    return ids.astype(np.int32), shares.astype(np.float32)


def gemm(a, w, bias, expert, *, codes=same, scales=same, w_codes=same, w_scales=same, experts=same, bias_experts=same, biases=same, keep=None):
    """Rows times the weights of their experts; each word changes what is read."""
    left = value(a, codes(a.codes), scales(a.scales))
    if keep is not None:
        left = left * keep(np.arange(left.shape[1]))
    right = value(w, w_codes(w.codes), w_scales(w.scales)).reshape(EXPERTS, -1, left.shape[1])
    of = experts(expert)
    return np.einsum("rk,rnk->rn", left, right[of]) + biases(bias.astype(np.float64))[bias_experts(expert)]


def activation(fc1, gate=slice(0, None, 2), up=slice(1, None, 2), alpha=1.702, beta=1.0, limit=7.0, clamp_low=True, clamp_gate=True):
    g, u = fc1[:, gate], fc1[:, up]
    g = np.minimum(g, limit) if clamp_gate else g
    u = np.clip(u, -limit if clamp_low else -np.inf, limit)
    return g / (1 + np.exp(-alpha * g)) * (u + beta)


def finalize(fc2, rows, shares):
    return (fc2[rows] * shares.astype(np.float64)[:, :, None]).sum(1)


def part(function, **how):
    return lambda *args: function(*args, **how)


def after(function, change):
    return lambda *args: change(function(*args))


def right():
    yield "the layer", Layer().dump()


def faults():
    flat_scales = lambda stored, read, rows: lambda s: np.concatenate(  # noqa: E731
        [mx.unswizzle_scales(mx.swizzle_scales(one, stored), *one.shape, read) for one in s.reshape(EXPERTS, rows, -1)]
    )
    blocks = np.arange(4)
    for stage, name, rows in (("fc1", "FC1", 2 * INTER), ("fc2", "FC2", HIDDEN)):
        other = lambda **how: Layer(**{stage: part(gemm, **how)}).dump()  # noqa: B023,E731
        stored = lambda change: Layer(**{stage: after(gemm, change)}).dump()  # noqa: B023,E731
        yield f"{name}: nibbles of weights exchanged", f"two codes of each byte of the weights of {name}", False, other(w_codes=lambda c: c.reshape(len(c), -1, 2)[:, :, ::-1].reshape(c.shape))
        yield f"{name}: << 2 missing", "not shifted by 2 bits", False, other(w_codes=lambda c: c >> 2)
        yield f"{name}: signs of weights lost", "signs of the weights", False, other(w_codes=lambda c: c & 7)
        yield f"{name}: scales of weights linear, read 128x4", "stored linear and read 128x4", False, other(w_scales=flat_scales("linear", "128x4", rows))
        yield f"{name}: scales of weights 128x4, read linear", "stored 128x4 and read as linear", False, other(w_scales=flat_scales("128x4", "linear", rows))
        yield f"{name}: scale of weights of the neighbour", "neighbouring block", False, other(w_scales=lambda s: s[:, blocks ^ 1])
        yield f"{name}: scale of activations of the next row", "next row", False, other(scales=lambda s: np.roll(s, -1, axis=0))
        yield f"{name}: scale of activations of the next block", "next block", False, other(scales=lambda s: np.roll(s, -1, axis=1))
        yield f"{name}: scales of weights twice as large", "twice as large|constant factor", False, other(w_scales=lambda s: s + 1, biases=same)
        yield f"{name}: tail of 32 of K dropped", "last 32 of K", False, other(keep=lambda k: k < 96)
        yield f"{name}: half of K", "half of K|64 of K", False, other(keep=lambda k: k < 64)
        yield f"{name}: bias left out", f"bias of {name} is left out", False, other(biases=lambda b: 0 * b)
        yield f"{name}: bias doubled", f"bias of {name} is added twice", False, other(biases=lambda b: 2 * b)
        yield f"{name}: bias of the next expert", "that of the next expert", False, other(biases=lambda b: np.roll(b, -1, axis=0))
        yield f"{name}: weights of the next expert", "next expert", False, other(experts=lambda e: (e + 1) % EXPERTS)
        yield f"{name}: weights of the first expert", "first expert", True, other(experts=lambda e: 0 * e)
        wide = rows  # noqa: B023
        of_experts = lambda q: q.reshape(EXPERTS, -1, q.shape[1])  # noqa: E731
        moved = lambda change: lambda s: change(of_experts(s)).reshape(s.shape)  # noqa: E731
        first = lambda tile: lambda e: e[np.arange(len(e)) // tile * tile]  # noqa: E731
        with_bias = lambda change: other(experts=change, bias_experts=change)  # noqa: B023,E731
        row, k = np.indices((wide, 128))
        element = lambda change: other(w_codes=lambda c: c.reshape(EXPERTS, wide, 128)[(slice(None), *change(row, k))].reshape(c.shape))  # noqa: B023,E731
        yield f"{name}: scales of the next expert", "scales of the weights are those of the next expert", True, other(w_scales=moved(lambda s: np.roll(s, -1, axis=0)))
        yield f"{name}: scales of the expert before", "scales of the weights are those of the expert before", True, other(w_scales=moved(lambda s: np.roll(s, 1, axis=0)))
        yield f"{name}: expert of the row before", "a row has the expert of the row before", True, with_bias(lambda e: e[np.maximum(np.arange(len(e)) - 1, 0)])
        yield f"{name}: expert of the first row of a tile of 8", "expert of the first row of its 8", True, with_bias(first(8))
        yield f"{name}: expert of the first row of a tile of 16", "expert of the first row of its 16", True, with_bias(first(16))
        yield f"{name}: bias of the first expert", "that of the first expert", False, other(biases=lambda b: np.repeat(b[:1], EXPERTS, axis=0))
        yield f"{name}: bias of the expert before", "that of the expert before", True, other(biases=lambda b: np.roll(b, 1, axis=0))
        yield f"{name}: bias twice in one expert", "alone: .*added twice", True, other(biases=lambda b: b * np.where(np.arange(EXPERTS) == 1, 2, 1)[:, None])
        yield f"{name}: scales of weights linear in one expert", "alone: .*stored linear and read 128x4", True, other(w_scales=in_one(rows))  # noqa: B023
        yield f"{name}: bias by each of 4 splits", "added four times", True, other(biases=lambda b: 4 * b)
        yield f"{name}: 8 by 8 blocks of weights transposed", f"8×8 blocks of the weights of {name} are transposed", True, element(lambda r, k: (r & ~7 | k & 7, k & ~7 | r & 7))
        yield f"{name}: weights without their swizzle of 64 bytes", "swizzle of 64 bytes", True, element(lambda r, k: (r, k ^ (r // 2 % 4 * 32)))
        yield f"{name}: half of a fragment of weights twice", "first 8 rows of each 16 are read twice", True, element(lambda r, k: (r & ~8, k))
        yield f"{name}: 8 columns exchanged", "8 columns exchanged|8 apart", False, stored(lambda y: y[:, np.arange(y.shape[1]) ^ 8])
        yield f"{name}: rows one too far", "one too far|row before", False, stored(lambda y: np.roll(y, 1, axis=0))
    act = lambda **how: Layer(act=part(activation, **how)).dump()  # noqa: E731
    yield "gate and up exchanged", "gate and up are exchanged", False, act(gate=slice(1, None, 2), up=slice(0, None, 2))
    yield "gate first for interleaved", "gate and up", False, act(gate=slice(0, INTER), up=slice(INTER, None))
    yield "up first for interleaved", "gate and up", False, act(gate=slice(INTER, None), up=slice(0, INTER))
    yield "alpha 1", "alpha is 1|without constants", False, act(alpha=1.0)
    yield "beta 0", "beta is 0", False, act(beta=0.0)
    yield "no limit", "limit is|no limit|limit clamps", False, act(limit=np.inf)
    yield "clamp of up one-sided", "limit clamps", True, act(clamp_low=False)
    yield "gate not clamped", "limit clamps", True, act(clamp_gate=False)
    for stage in ("quantize", "requantize"):
        yield f"{stage}: rule floor", "rule `floor`", False, Layer(**{stage: part(mx.quantize, rule="floor")}).dump()
        yield f"{stage}: rule even", "rule `even`", True, Layer(**{stage: part(mx.quantize, rule="even")}).dump()
        yield f"{stage}: amax of a pair of blocks", "largest magnitude of", False, Layer(**{stage: paired}).dump()
    yield "hidden states of the next token", "next token", True, Layer(permute=lambda token: (token + 1) % TOKENS).dump()
    yield "rows quantized one too early", "right if it is read so: the activations of the row before", True, Layer(permute=lambda token: np.roll(token, -1)).dump()
    yield "softmax over all", "softmax_all`, and weights are not divided", False, Layer(route=part(route, share=over_all)).dump()
    yield "last expert never chosen", "last expert is never chosen", True, Layer(route=part(route, choose=lambda x: np.argsort(-x[:, :-1], axis=1, kind="stable")[:, :TOP])).dump()
    final = lambda shares=same, rows=same: Layer(finalize=lambda y, r, s: finalize(y, rows(r), shares(s))).dump()  # noqa: E731
    yield "shares left out", "weights of the experts are left out", True, final(lambda s: 0 * s + 1)
    yield "shares exchanged", "in reverse", False, final(lambda s: s[:, ::-1])
    yield "last choice lost", "last expert of each token is lost", True, final(lambda s: s * [1, 0])
    yield "first choice lost", "first expert of each token is lost", True, final(lambda s: s * [0, 1])
    yield "shares applied twice", "count twice", True, final(lambda s: s * s)
    yield "share of the first choice for both", "the weight of the first", True, final(lambda s: np.repeat(s[:, :1], TOP, axis=1))
    yield "equal shares", "the same weight", True, final(lambda s: np.full_like(s, 1 / TOP))
    yield "rows of the sum one too far", "the next ones|those before", True, final(rows=lambda r: (r + 1) % (TOKENS * TOP))
    yield "shares of the token before", "those of the token before", True, final(lambda s: np.roll(s, 1, axis=0))
    yield "hidden states of the token before", "token before", True, Layer(permute=lambda token: (token - 1) % TOKENS).dump()
    yield "hidden states of token 0", "first token", True, Layer(permute=lambda token: 0 * token).dump()
    yield "shares of the next token", "weights are those of the next token", True, final(lambda s: np.roll(s, -1, axis=0))
    yield "rows of the sum exchanged", "exchanged in pairs", True, final(rows=lambda r: r ^ 1)


def in_one(rows):
    """Scales of expert 1 alone that are linear and read as 128x4."""

    def change(s):
        s = s.copy().reshape(EXPERTS, rows, -1)
        s[1] = mx.unswizzle_scales(mx.swizzle_scales(s[1], "linear"), *s[1].shape, "128x4")
        return s.reshape(EXPERTS * rows, -1)

    return change


def paired(x):
    """Both blocks of a pair have the larger one's scale."""
    q = mx.quantize(x)
    larger = np.repeat(q.scales.reshape(len(x), -1, 2).max(2), 2, axis=1)
    codes = mx.encode(x / np.repeat(mx.decode(larger, "ue8m0"), 32, axis=1), q.element)
    return type(q)(q.format, q.element, codes=codes.astype(np.uint8), scales=larger)


def over_all(logits, ids):
    e = np.exp(logits - logits.max(1, keepdims=True))
    return np.take_along_axis(e / e.sum(1, keepdims=True), ids, 1)
