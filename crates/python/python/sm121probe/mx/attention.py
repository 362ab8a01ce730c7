"""Attention: derived bounds for tensors of any library, and what is wrong with a result.

Tensors and options have the names of the dump format (docs/attention.md), those of FlashInfer, vLLM and SGLang among them.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any, Dict, Tuple

import numpy as np

from .. import _native
from .check import Undecided

#: The names of types in safetensors, by those of NumPy, `ml_dtypes` and PyTorch.
_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "uint32": "U32",
    "uint16": "U16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
    "bool_": "BOOL",
}


@dataclass(frozen=True)
class AttentionBound:
    """The exact result of attention and the error bound of every element, f64. The bound leaves out the rounding to the type of the
    result; it is infinite where an element may have any value."""

    #: [rows, heads, elements]
    value: np.ndarray
    error: np.ndarray
    #: [rows, heads, 2], base 2: without and with the sink.
    lse: np.ndarray
    lse_error: np.ndarray


def _bytes(name: str, tensor: Any) -> Tuple[str, Tuple[int, ...], bytes]:
    """The safetensors type, the shape and the bytes of an array of NumPy, `ml_dtypes` or PyTorch."""
    if hasattr(tensor, "detach"):
        import torch

        tensor = tensor.detach().cpu().contiguous()
        found = str(tensor.dtype).replace("torch.", "")
        shape = tuple(tensor.shape)
        data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    else:
        array = np.ascontiguousarray(tensor)
        found, shape, data = array.dtype.name, np.shape(tensor), array.tobytes()
    if found not in _TYPES:
        raise TypeError(f"{name} has elements of {found}; convert them to one of {', '.join(sorted(set(_TYPES)))}")
    return _TYPES[found], shape, data


def attention_file(tensors: Dict[str, Any], **metadata: Any) -> bytes:
    """Return the bytes of a dump, which `sm121probe judge` reads. Tensors that are `None` are left out."""
    header: Dict[str, Any] = {}
    parts, offset = [], 0
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        kind, shape, data = _bytes(name, tensor)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    said = {"family": "attention", **{key: _word(value) for key, value in metadata.items() if value is not None}}
    text = json.dumps({**header, "__metadata__": said}).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def attention_bound(tensors: Dict[str, Any], **metadata: Any) -> AttentionBound:
    """Return the exact result and the bound of attention on these tensors.

    >>> import numpy
    >>> from sm121probe import mx
    >>> x = numpy.zeros((1, 2, 64), numpy.float16)
    >>> mx.attention_bound({"q": x, "k": x, "v": x + 1}).value.shape
    (1, 2, 64)

    `tensors` has `q`, keys and values, tables, scales and sinks; `metadata` says what cannot be seen from them. Raises `ValueError` with the
    tensor, the index and the remedy if they contradict one another.
    """
    found, error = _native.attention_bound(attention_file(tensors, **metadata))
    if found is None:
        raise ValueError(error)
    shape, output, lse = found
    pairs = np.frombuffer(output, np.float64).reshape(*shape, 2)
    logs = np.frombuffer(lse, np.float64).reshape(*shape[:2], 2, 2)
    return AttentionBound(pairs[..., 0], pairs[..., 1], logs[..., 0], logs[..., 1])


def assert_attention_within(tensors: Dict[str, Any], **metadata: Any) -> None:
    """Check `out`, and `lse` if it is there, against the bound of every element.

    Raises `AssertionError` with the first wrong element and what explains all of them: dropped sinks, a window off by one, pages or scales
    read in another layout, and the like. Raises `Undecided` if neither is there, or the bounds are too wide to decide.
    """
    __tracebackhide__ = True
    found, error = _native.judge_attention(attention_file(tensors, **metadata))
    if found is None:
        raise ValueError(error)
    verdict = json.loads(found)
    if verdict["wrong"]:
        raise AssertionError(verdict["text"].rstrip())
    if not verdict["judged"]:
        raise Undecided("nothing can be judged: neither `out` nor `lse` is there")
    if verdict["gaps"]:
        raise Undecided("; ".join(verdict["gaps"]))
