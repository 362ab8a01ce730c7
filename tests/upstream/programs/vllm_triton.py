"""vLLM's unified attention in Triton's language, by its own host function: `python vllm_triton.py FOLDER` writes a folder for each case."""

import enum
import logging
import sys
import types

import recorder
import torch
import triton
import triton.language
from recorder import case, output, random, scratch, values


def module(name, **contents):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(contents)


class Mode(enum.IntEnum):
    """How a cache is quantized, by vLLM's numbers."""

    NONE, FP8_PER_TENSOR, INT8_PER_TOKEN_HEAD, FP8_PER_TOKEN_HEAD, INT4_PER_TOKEN_HEAD = range(5)


module("vllm.envs", VLLM_BATCH_INVARIANT=False)
module("vllm.logger", init_logger=logging.getLogger)
platform = types.SimpleNamespace(fp8_dtype=lambda: torch.float8_e4m3fn, is_device_capability_family=lambda family: family == 120)
module("vllm.platforms", current_platform=platform)
module("vllm.triton_utils", tl=triton.language, triton=triton)
module("vllm.v1.kv_cache_interface", KVQuantMode=Mode)

from vllm.v1.attention.ops.triton_unified_attention import unified_attention  # noqa: E402

SCALE, PAGE, PAGES = 0.11, 16, 24
HEADS, KV_HEADS, WIDTH = 4, 2, 64
# The pages of two requests, in no order.
TABLE = [5, 17, 2, 23, 11, 8, 20, 14, 0, 6, 9, 21]


def attention(name, kind, rows, lengths, cache=None, window=-1, cap=0.0, segments=None, mode=Mode.NONE, **options):
    total = sum(rows)
    q = random("q", kind, [total, HEADS, WIDTH], 1, -2, 2)
    k, v = [random(side, cache or kind, [PAGES, PAGE, KV_HEADS, WIDTH], seed, -high, high) for side, seed, high in (("k_cache", 2, 2), ("v_cache", 3, 1))]
    out = output("out", kind, [total, HEADS, WIDTH])
    bounds = values("cu_seqlens_q", torch.int32, [sum(rows[:n]) for n in range(len(rows) + 1)])
    table = torch.Tensor("block_table", torch.int32, [2, len(TABLE) // 2], f", values: {TABLE}")
    partial = {}
    if segments:
        # As the backend allocates them, and with its bound on the grid of a decode.
        partial = dict(seq_threshold_3D=64, num_par_softmax_segments=segments,
                       softmax_segm_output=scratch("segm_output", torch.float32, [total, HEADS, segments, WIDTH]),
                       softmax_segm_max=scratch("segm_max", torch.float32, [total, HEADS, segments]),
                       softmax_segm_expsum=scratch("segm_expsum", torch.float32, [total, HEADS, segments]))
    case(name, unified_attention, q, k, v, out, bounds, max(rows), values("seq_lens", torch.int32, list(lengths)), max(lengths), SCALE, True,
         (window, 0 if window >= 0 else -1), table, cap, None, options.pop("k_scale", None), options.pop("v_scale", None), kv_quant_mode=mode,
         **partial, **options)


sinks = random("sinks", torch.bfloat16, [HEADS], 4, -4, 4)
attention("prefill", torch.bfloat16, (19, 5), (60, 37), sinks=sinks)
attention("prefill_window", torch.bfloat16, (19, 5), (90, 37), window=31, sinks=sinks)
attention("prefill_cap", torch.float16, (9, 5), (60, 37), cap=5.0)
attention("decode", torch.bfloat16, (1, 1), (90, 37), segments=4, sinks=sinks)
attention("decode_window", torch.bfloat16, (1, 3), (90, 37), segments=4, window=31, sinks=sinks)
attention("decode_alibi", torch.bfloat16, (1, 1), (90, 37), segments=4, alibi_slopes=random("alibi_slopes", torch.float32, [HEADS], 7, 0.05, 0.5))
of_tensor = dict(k_scale=values("k_scale", torch.float32, [0.7]), v_scale=values("v_scale", torch.float32, [1.3]))
attention("prefill_fp8", torch.bfloat16, (9, 5), (60, 37), cache=torch.float8_e4m3fn, mode=Mode.FP8_PER_TENSOR, sinks=sinks, **of_tensor)
per_head = {f"{side}_scale_cache": random(f"{side}_scale", torch.float32, [PAGES, PAGE, KV_HEADS], seed, 0.5, 1.5) for seed, side in ((8, "k"), (9, "v"))}
attention("decode_fp8", torch.bfloat16, (1, 1), (90, 37), cache=torch.float8_e4m3fn, segments=4, mode=Mode.FP8_PER_TOKEN_HEAD, sinks=sinks, **per_head)
