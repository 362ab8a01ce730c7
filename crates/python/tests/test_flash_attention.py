"""FlashAttention's kernels for SM12x (`flash-attn-4` on PyPI), compiled by CuTe DSL from its own classes, called by `sm121probe.cute_dsl.launch`."""

import math
import os
import tempfile

import pytest

import sm121probe as sm
from sm121probe import mx

# CuTe DSL reads both when it is imported: where it keeps PTX, and what it compiles for.
KEPT = tempfile.TemporaryDirectory()
os.environ.setdefault("CUTE_DSL_DUMP_DIR", KEPT.name)
os.environ.setdefault("CUTE_DSL_ARCH", "sm_120a")

torch = pytest.importorskip("torch")
cutlass = pytest.importorskip("cutlass")
cute = pytest.importorskip("cutlass.cute")
driver = pytest.importorskip("cuda.bindings.driver")
forward = pytest.importorskip("flash_attn.cute.flash_fwd_sm120", reason="flash-attn-4 is not installed")
pytest.importorskip("quack.compile_utils")
from flash_attn.cute.utils import AuxData  # noqa: E402
from quack.compile_utils import make_fake_tensor  # noqa: E402

STREAM = driver.CUstream(0)
TYPES = {torch.bfloat16: cutlass.BFloat16, torch.float16: cutlass.Float16, torch.float32: cutlass.Float32}


def fake(tensor):
    """What a tensor is compiled for: any sizes, in the memory of a GPU."""
    return make_fake_tensor(TYPES[tensor.dtype], [cute.sym_int() for _ in tensor.shape], 1 if tensor.ndim == 3 else 8)


def attend(q, k, v, causal, window=(None, None), tile=(64, 64)):
    """Run the forward kernel, in tiles of `tile` queries and keys; return the result, the logarithms of the sums, and the report."""
    group, width = q.shape[2] // k.shape[2], q.shape[3]
    local = window != (None, None)
    kernel = forward.FlashAttentionForwardSm120(
        TYPES[q.dtype], width, v.shape[3], group, is_causal=causal, is_local=local, pack_gqa=group > 1,
        tile_m=tile[0], tile_n=tile[1], num_stages=1, num_threads=128,
    )  # fmt: skip
    assert forward.FlashAttentionForwardSm120.can_implement(TYPES[q.dtype], width, v.shape[3], *tile, 1, 128, causal)
    out, lse = torch.zeros(*q.shape[:3], v.shape[3], dtype=q.dtype), torch.zeros(q.shape[0], q.shape[2], q.shape[1])
    tensors = [q, k, v, out, lse]
    # Of what follows the scale, only the window is used: lengths of sequences, page table; sink, sparsity, further data, places of tiles.
    rest = [None] * 5 + [None if n is None else cutlass.Int32(n) for n in window] + [None, None, AuxData(), None, None, STREAM]
    scale = cutlass.Float32(1 / math.sqrt(width))
    compiled = cute.compile(kernel, *map(fake, tensors), scale, *rest, options="--keep-ptx --gpu-arch=sm_120a")
    (report,) = sm.cute_dsl.launch(compiled, *tensors, scale, *rest)
    return out, lse, report


def problem(rows, keys, heads, kv_heads, width, dtype, batch=1):
    torch.manual_seed(rows + keys)
    q = 2 * torch.randn(batch, rows, heads, width)
    k, v = torch.randn(2, batch, keys, kv_heads, width)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def check(q, k, v, out, lse, **metadata):
    for one in range(q.shape[0]):
        mx.assert_attention_within({"q": q[one], "k": k[one], "v": v[one], "out": out[one], "lse": lse[one].T}, **metadata)


@pytest.mark.parametrize(
    "rows, keys, heads, kv_heads, width, tile, causal, dtype",
    [
        (64, 64, 1, 1, 64, (64, 64), False, torch.bfloat16),
        (70, 90, 2, 1, 64, (64, 64), True, torch.bfloat16),
        # The tiles that FlashAttention chooses for SM12x, and rows and keys that end within one.
        (130, 150, 1, 1, 64, (128, 128), True, torch.float16),
        (33, 200, 4, 1, 128, (128, 64), True, torch.bfloat16),
        # A width between two multiples of 16, which is padded.
        (20, 40, 2, 2, 72, (64, 64), False, torch.float16),
    ],
)
def test_forward(rows, keys, heads, kv_heads, width, tile, causal, dtype):
    q, k, v = problem(rows, keys, heads, kv_heads, width, dtype, batch=2 if rows == 64 else 1)
    out, lse, report = attend(q, k, v, causal, tile=tile)
    assert report.violations == [] and report.instructions > 0
    check(q, k, v, out, lse, causal=causal)


def test_a_window():
    q, k, v = problem(100, 100, 2, 2, 64, torch.bfloat16)
    out, lse, report = attend(q, k, v, False, window=(31, 0))
    assert report.violations == []
    check(q, k, v, out, lse, causal=True, window_left=31)


def test_another_mask_is_wrong():
    q, k, v = problem(40, 60, 1, 1, 64, torch.bfloat16)
    out, lse, _ = attend(q, k, v, True)
    with pytest.raises(AssertionError, match="causal"):
        check(q, k, v, out, lse, causal=False)
