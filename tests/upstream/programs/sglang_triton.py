"""SGLang's attention in Triton's language, by its own host functions: `python sglang_triton.py FOLDER` writes a folder for each case."""

import importlib
import importlib.util
import sys
import types

import recorder
import torch
from recorder import case, output, random, scratch, values

ROOT = importlib.util.find_spec("sglang").submodule_search_locations[0]


def package(name):
    """A package without what its own `__init__` imports."""
    module = types.ModuleType(name)
    module.__path__ = [ROOT + name.removeprefix("sglang").replace(".", "/")]
    sys.modules[name] = module


def module(name, **contents):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(contents)


for name in ("sglang", "sglang.srt", "sglang.kernels", "sglang.kernels.ops", "sglang.kernels.ops.attention"):
    package(name)
# No case reads a variable of the environment.
module("sglang.srt.environ", envs=None)
no = lambda *_: False
module("sglang.srt.utils", is_cuda=lambda: True, is_hip=no, is_gfx95_supported=no, is_gfx1250_supported=no, get_device_core_count=lambda *_: 48)


def entry(file, function):
    return getattr(importlib.import_module(f"sglang.kernels.ops.attention.{file}"), function)


SCALE = 0.11
# Two requests in a cache of 256 slots, which they take in no order.
LENGTHS, SLOTS = (100, 37), 256


def cache(kind, heads, width):
    return [random(name, kind, [SLOTS, heads, width], seed, -high, high) for name, seed, high in (("k_cache", 2, 2), ("v_cache", 3, 1))]


def slots(lengths):
    """The bounds of each request and its slots: 89 is prime to their number."""
    bounds = [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    return values("kv_indptr", torch.int32, bounds), values("kv_indices", torch.int32, [(n * 89 + 7) % SLOTS for n in range(bounds[-1])])


def decode(name, kind, heads, kv_heads, width, splits=4, cap=0.0):
    rows = len(LENGTHS)
    q = random("q", kind, [rows, heads, width], 1, -2, 2)
    out = output("out", kind, [rows, heads, width])
    logits = scratch("logits", torch.float32, [rows, heads, splits, width])
    lse = scratch("partial_lse", torch.float32, [rows, heads, splits])
    counts = values("splits", torch.int32, [splits, splits // 2])
    sinks = random("sinks", torch.float32, [heads], 4, -4, 4)
    case(name, entry("decode_attention", "decode_attention_fwd"), q, *cache(kind, kv_heads, width), out, *slots(LENGTHS), logits, lse, counts, splits,
         SCALE, 1.0, 1.0, logit_cap=cap, sinks=sinks)


def extend(name, kind, heads, kv_heads, width, prefixes, extends, window=-1):
    rows, longest = sum(extends), max(extends)
    q = random("q", kind, [rows, heads, width], 1, -2, 2)
    k = random("k_extend", kind, [rows, kv_heads, width], 5, -2, 2)
    v = random("v_extend", kind, [rows, kv_heads, width], 6)
    out = output("out", kind, [rows, heads, width])
    qo_indptr = values("qo_indptr", torch.int32, [sum(extends[:n]) for n in range(len(extends) + 1)])
    sinks = random("sinks", torch.float32, [heads], 4, -4, 4)
    lse = output("lse", torch.float32, [rows, heads])
    case(name, entry("extend_attention", "extend_attention_fwd"), q, k, v, out, *cache(kind, kv_heads, width), qo_indptr, *slots(prefixes), None, True,
         None, longest, 1.0, 1.0, sm_scale=SCALE, sliding_window_size=window, sinks=sinks, lse_extend=lse)


def prefill(name, kind, heads, kv_heads, width, lengths):
    """Rows that see no cache, as those of an image."""
    rows = sum(lengths)
    q = random("q", kind, [rows, heads, width], 1, -2, 2)
    k, v = random("k", kind, [rows, kv_heads, width], 2, -2, 2), random("v", kind, [rows, kv_heads, width], 3)
    out = output("out", kind, [rows, heads, width])
    first = values("first", torch.int32, [sum(lengths[:n]) for n in range(len(lengths))])
    case(name, entry("prefill_attention", "context_attention_fwd"), q, k, v, out, first, values("lengths", torch.int32, list(lengths)), max(lengths),
         sm_scale=SCALE)


decode("decode", torch.bfloat16, 2, 2, 64)
decode("decode_f16", torch.float16, 2, 2, 64)
decode("decode_grouped", torch.bfloat16, 8, 2, 64)
decode("decode_grouped_cap", torch.bfloat16, 4, 1, 64, cap=5.0)
extend("extend", torch.bfloat16, 2, 1, 64, (70, 0), (20, 33))
extend("extend_window", torch.bfloat16, 2, 1, 64, (150, 40), (9, 5), window=63)
prefill("prefill", torch.bfloat16, 2, 1, 64, (150, 37))
