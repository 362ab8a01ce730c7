"""Microscaling formats on NumPy arrays: quantization with every scale rule, scale layouts, exact and impulse data, derived bounds.

>>> import numpy
>>> from sm121probe import mx
>>> random = numpy.random.default_rng(0)
>>> a = mx.quantize(random.standard_normal((64, 256)), "mxfp8")      # [M, K]
>>> b = mx.quantize(random.standard_normal((96, 256)), "mxfp4")      # [N, K]
>>> out = (mx.dequantize(a) @ mx.dequantize(b).T).astype(numpy.float32)
>>> bound = mx.assert_within(out, a, b, accumulation="native", out_type="bf16")   # out is [M, N]

Formats: `mxfp8` (e4m3 or e5m2), `mxfp6` (e2m3 or e3m2) and `mxfp4` (e2m1) with one power-of-two scale per 32 elements (OCP MX 1.0), and
`nvfp4` (e2m1 with one ue4m3 scale per 16 elements and a global f32 scale).
"""

from .attention import AttentionBound, assert_attention_within, attention_bound, attention_file
from .bounds import ACCUMULATIONS, Bound, bound
from .check import Undecided, assert_within
from .data import exact, impulse
from .formats import FORMATS, decode, encode, pack4, unpack4
from .layout import swizzle_scales, unswizzle_scales
from .quantized import RULES, Quantized, dequantize, quantize

__all__ = [
    "ACCUMULATIONS",
    "AttentionBound",
    "Bound",
    "FORMATS",
    "Quantized",
    "RULES",
    "Undecided",
    "assert_attention_within",
    "assert_within",
    "attention_bound",
    "attention_file",
    "bound",
    "decode",
    "dequantize",
    "encode",
    "exact",
    "impulse",
    "pack4",
    "quantize",
    "swizzle_scales",
    "unpack4",
    "unswizzle_scales",
]
