"""Attention on NumPy arrays: right results pass, wrong ones are explained, contradictions are named."""

import numpy as np
import pytest

from sm121probe import mx


def problem(rows=5, keys=40, heads=4, kv_heads=2, width=64, seed=0):
    random = np.random.default_rng(seed)
    q = (2 * random.standard_normal((rows, heads, width))).astype(np.float16)
    k = random.standard_normal((keys, kv_heads, width)).astype(np.float16)
    v = random.standard_normal((keys, kv_heads, width)).astype(np.float16)
    sinks = (4 + random.standard_normal(heads)).astype(np.float32)
    return {"q": q, "k": k, "v": v, "sinks": sinks}


def attend(q, k, v, sinks, window=None):
    """Causal attention with sinks in f32, the result in f16."""
    rows, heads, width = q.shape
    group = heads // k.shape[1]
    out = np.zeros(q.shape, np.float16)
    for row in range(rows):
        last = len(k) - rows + row
        first = 0 if window is None else max(0, last + 1 - window)
        for head in range(heads):
            keys = k[first : last + 1, head // group].astype(np.float32)
            scores = keys @ q[row, head].astype(np.float32) * np.float32(width**-0.5)
            most = max(scores.max(), sinks[head])
            weights = np.exp(scores - most)
            total = weights.sum() + np.exp(sinks[head] - most)
            out[row, head] = (weights / total) @ v[first : last + 1, head // group].astype(np.float32)
    return out


def test_right_results_pass():
    tensors = problem()
    out = attend(**tensors)
    mx.assert_attention_within({**tensors, "out": out}, causal=True)
    bound = mx.attention_bound(tensors, causal=True)
    assert bound.value.shape == out.shape and (bound.error >= 0).all()
    half_step = np.spacing(np.abs(out)).astype(np.float64)
    assert (np.abs(out - bound.value) <= bound.error + half_step).all()


def test_a_dropped_sink_is_explained():
    tensors = problem()
    out = attend(tensors["q"], tensors["k"], tensors["v"], np.full(4, -np.inf, np.float32))
    with pytest.raises(AssertionError, match="all [0-9]+ wrong values.*:\\s+the sinks are dropped"):
        mx.assert_attention_within({**tensors, "out": out}, causal=True)


def test_a_window_off_by_one_is_explained():
    tensors = problem()
    out = attend(**tensors, window=9)
    mx.assert_attention_within({**tensors, "out": out}, causal=True, window=9)
    with pytest.raises(AssertionError, match="one key more"):
        mx.assert_attention_within({**tensors, "out": out}, causal=True, window=8)


def test_what_would_show_more_is_named():
    tensors = problem()
    garbage = np.random.default_rng(4).standard_normal(tensors["q"].shape).astype(np.float16)
    with pytest.raises(AssertionError, match="unexplained.*\n(?s:.*)show more if they were there: `lse`"):
        mx.assert_attention_within({**tensors, "out": garbage}, causal=True)
    with pytest.raises(AssertionError, match="were there: `out`\nwrong: the logarithms; the output is not there"):
        mx.assert_attention_within({**tensors, "lse": np.zeros((5, 4), np.float32)}, causal=True)


def test_what_cannot_be_judged_does_not_pass():
    tensors = problem()
    with pytest.raises(mx.Undecided, match="neither `out` nor `lse`"):
        mx.assert_attention_within(tensors, causal=True)
    with pytest.raises(ValueError, match="`sinks` is .*one number for each of 4 heads"):
        mx.attention_bound({**tensors, "sinks": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match="no metadata `windows`"):
        mx.attention_bound(tensors, windows=3)
    with pytest.raises(TypeError, match="q has elements of complex64"):
        mx.attention_bound({**tensors, "q": tensors["q"].astype(np.complex64)})
