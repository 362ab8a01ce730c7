"""Kernels of quack (`quack-kernels` on PyPI), compiled by CuTe DSL for SM12x from its own classes, called by `sm121probe.cute_dsl.launch`."""

import dataclasses
import os
import tempfile

import pytest

import sm121probe as sm

# CuTe DSL reads both when it is imported: where it keeps PTX, and what quack compiles for.
KEPT = tempfile.TemporaryDirectory()
os.environ.setdefault("CUTE_DSL_DUMP_DIR", KEPT.name)
os.environ.setdefault("CUTE_DSL_ARCH", "sm_120a")

torch = pytest.importorskip("torch")
cutlass = pytest.importorskip("cutlass")
cute = pytest.importorskip("cutlass.cute")
driver = pytest.importorskip("cuda.bindings.driver")
pytest.importorskip("quack.rmsnorm")
from quack.compile_utils import make_fake_tensor  # noqa: E402
from quack.cross_entropy import CrossEntropy  # noqa: E402
from quack.rmsnorm import RMSNorm  # noqa: E402
from quack.rmsnorm_config import RmsNormFwdConfig  # noqa: E402
from quack.softmax import Softmax  # noqa: E402
from quack.topk import TopK  # noqa: E402

STREAM = driver.CUstream(0)
TYPES = {torch.bfloat16: cutlass.BFloat16, torch.float32: cutlass.Float32, torch.int32: cutlass.Int32, torch.int64: cutlass.Int64}


def fake(tensor, rows):
    """What a tensor is compiled for: any number of rows."""
    if tensor is None:
        return None
    of_rows = tensor.dim() > 1 or tensor.shape[0] == ROWS
    shape = (rows, *tensor.shape[1:]) if of_rows else tuple(tensor.shape)
    return make_fake_tensor(TYPES[tensor.dtype], shape, 1 if tensor.dim() == 1 and of_rows else 16 // tensor.element_size())


def launch(kernel, tensors, *numbers):
    """Compile a kernel for tensors, and call it."""
    rows = cute.sym_int()
    constants = [cutlass.Float32(number) if isinstance(number, float) else cutlass.Int32(number) for number in numbers]
    options = "--keep-ptx --gpu-arch=sm_120a"
    compiled = cute.compile(kernel, *(fake(tensor, rows) for tensor in tensors), *constants, STREAM, options=options)
    return sm.cute_dsl.launch(compiled, *tensors, *numbers, STREAM)


ROWS = 7


# Rows that are split over a cluster exchange their sums through distributed shared memory.
@pytest.mark.parametrize("columns, cluster", [(512, 1), (1000, 1), (32_768, 4)])
def test_rmsnorm(columns, cluster):
    torch.manual_seed(1)
    config = dataclasses.replace(RmsNormFwdConfig.from_analytical_heuristic(columns, 16), cluster_n=cluster)
    x, w = torch.randn(ROWS, columns).bfloat16(), torch.randn(columns).bfloat16()
    out, rstd = torch.zeros_like(x), torch.zeros(ROWS)
    (report,) = launch(RMSNorm(cutlass.BFloat16, columns, config=config), [x, w, None, None, out, None, rstd, None], 1e-6)
    assert report.violations == []
    expected = torch.rsqrt(x.float().square().mean(-1) + 1e-6)
    torch.testing.assert_close(rstd, expected)
    torch.testing.assert_close(out.float(), x.float() * expected[:, None] * w.float(), rtol=2**-7, atol=2**-7)


def test_rows_that_need_more_shared_memory_than_sm12x_has():
    x = torch.zeros(ROWS, 65_536).bfloat16()
    with pytest.raises(sm.LaunchError, match="131104 bytes of shared memory; the limit of sm_120 is 101376"):
        launch(RMSNorm(cutlass.BFloat16, 65_536), [x, None, None, None, x.clone(), None, None, None], 1e-6)


def test_softmax():
    torch.manual_seed(2)
    x = 4 * torch.randn(ROWS, 384)
    out = torch.zeros_like(x)
    (report,) = launch(Softmax(cutlass.Float32, 384), [x, out])
    assert report.violations == []
    torch.testing.assert_close(out, torch.softmax(x, -1))


def test_cross_entropy():
    torch.manual_seed(3)
    x, target = torch.randn(ROWS, 512), torch.randint(512, (ROWS,))
    loss, lse = torch.zeros(ROWS), torch.zeros(ROWS)
    (report,) = launch(CrossEntropy(cutlass.Float32, 512), [x, target, None, loss, lse, None, None], -100)
    assert report.violations == []
    torch.testing.assert_close(lse, torch.logsumexp(x, -1))
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(x, target, reduction="none"))


def test_top_k():
    torch.manual_seed(4)
    x = torch.randperm(ROWS * 256).reshape(ROWS, 256).float()
    values, indices = torch.zeros(ROWS, 8), torch.zeros(ROWS, 8, dtype=torch.int32)
    (report,) = launch(TopK(cutlass.Float32, 256, 8), [x, values, indices])
    assert report.violations == []
    # The index takes the lowest bits of a value, so that the last ones may differ.
    torch.testing.assert_close(values, x.topk(8).values, rtol=2**-14, atol=0)
    assert torch.equal(x.gather(1, indices.long()), x.topk(8).values)
