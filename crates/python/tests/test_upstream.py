"""Kernels of FlashInfer, in Triton's language, from its wheel: the shapes of its own tests, judged with derived bounds.

The wheel is only read (`pip download --no-deps flashinfer-python`): SM121PROBE_FLASHINFER names the folder that holds `flashinfer`, which is
otherwise looked for where Python finds packages. FlashInfer itself is not imported, since it asks for PyTorch.
"""

import importlib.util
import os
import pathlib
import sys
import types

import numpy as np
import pytest

import sm121probe as sm

triton = pytest.importorskip("triton")

U = 2.0**-24  # half a unit in the last place of binary32, relative
HALF = 2.0**-11  # of binary16
TINY = 2.0**-24  # the smallest binary16


@pytest.fixture(scope="module")
def kernels():
    folder = os.environ.get("SM121PROBE_FLASHINFER")
    if folder is None:
        spec = importlib.util.find_spec("flashinfer")
        if spec is None or not spec.submodule_search_locations:
            pytest.skip("flashinfer-python is not installed, and SM121PROBE_FLASHINFER is not set")
        folder = pathlib.Path(spec.submodule_search_locations[0]).parent
    saved = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "flashinfer"}
    for name in saved:
        del sys.modules[name]
    for name in ["flashinfer", "flashinfer.triton", "flashinfer.triton.kernels"]:
        package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(folder, *name.split(".")))]
        sys.modules[name] = package
    try:
        sm.triton.activate("sm_120", schedules=4)
        yield {
            name: importlib.import_module(f"flashinfer.triton.kernels.{name}")
            for name in ["norm", "activation", "cascade"]
        }
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "flashinfer"]:
            del sys.modules[name]
        sys.modules.update(saved)


def tensor(array):
    return sm.triton.Tensor(array)


def within(out, want, bound):
    error = np.abs(out.astype(np.float64) - want)
    worst = np.unravel_index(np.argmax(error / bound), error.shape)
    assert (error <= bound).all(), f"{worst}: {out[worst]}, {want[worst]} within {bound[worst]}"


def judged():
    report = sm.triton.reports[-1]
    assert not report.violations and report.schedules == 4
    return report


def halves(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("n, residual", [(111, False), (500, True), (1024, False), (1024, True)])
def test_rms_norm(kernels, n, residual):
    rows, eps = 3, 1e-6
    x, w, out = halves(1, rows, n), halves(2, n), np.zeros((rows, n), np.float16)
    r = halves(3, rows, n)
    total = x.astype(np.float64) + (r if residual else 0)
    # Shape, block and arguments are those of `flashinfer.triton.norm`.
    block = triton.next_power_of_2(n)
    kernels["norm"].rms_norm_kernel[(rows,)](
        n=n, b=rows, x_ptr=tensor(x), x_stride=n, x_scale_ptr=None, r_ptr=tensor(r) if residual else None, r_stride=n if residual else 0,
        w_ptr=tensor(w), o_ptr=tensor(out), o_stride=n, o_scale_ptr=None, EPS=eps, BLOCK_SIZE=block, HAS_IN_SCALE=False,
        HAS_OUT_SCALE=False, HAS_OUTPUT=True, HAS_RESIDUAL=residual,
    )
    judged()
    if residual:
        # The sum is stored once as binary16, which the second loop reads.
        within(r, total, HALF * np.abs(total) + TINY)
    scale = 1 / np.sqrt((total**2).mean(axis=1, keepdims=True) + eps)
    second = r.astype(np.float64) if residual else total
    want = second * scale * w
    # n + 8 roundings of binary32 and `rsqrt.approx` (2^-22.9), then one of binary16.
    within(out, want, ((n + 8) * U + 2.0**-22.9) * np.abs(want) + HALF * np.abs(want) + TINY)


@pytest.mark.parametrize("d", [128, 500, 1024])
def test_silu_and_mul(kernels, d):
    rows, block = 4, 256
    x, out, scale = halves(5, rows, 2 * d), np.zeros((rows, d), np.float16), np.array([0.5], np.float32)
    kernels["activation"].silu_and_mul_kernel[(rows, -(-d // block))](
        o_ptr=tensor(out), o_stride=d, o_scale_ptr=tensor(scale), x_ptr=tensor(x), x_stride=2 * d, x_scale_ptr=None, d=d, BLOCK_SIZE=block,
        HAS_X_SCALE=False, HAS_O_SCALE=True,
    )
    judged()
    a, b = x[:, :d].astype(np.float64), x[:, d:].astype(np.float64)
    want = a / (1 + np.exp(-a)) * b * 0.5
    # `ex2.approx` (2^-22) of a product with log2(e) whose rounding counts |a| times; `div.full` (2 ulp); five roundings.
    within(out, want, ((2.0**-22 + 2 * np.abs(a) * U) + 9 * U) * np.abs(want) + HALF * np.abs(want) + TINY)


def merged(v, s):
    """The state of several (value, log2 of its weight), on the second axis."""
    largest = s.max(axis=1, keepdims=True)
    weights = np.exp2(s - largest)
    total = weights.sum(axis=1, keepdims=True)
    return (v * (weights / total)[..., None]).sum(axis=1), (np.log2(total) + largest)[:, 0], np.abs(v).max(axis=1)


def test_merge_state(kernels):
    length, heads, dim = 3, 2, 8
    rng = np.random.default_rng(7)
    v = rng.standard_normal((length, 2, heads, dim)).astype(np.float32)
    s = (4 * rng.standard_normal((length, 2, heads))).astype(np.float32)
    parts = [np.ascontiguousarray(x) for x in (v[:, 0], s[:, 0], v[:, 1], s[:, 1])]
    out, out_s = np.zeros((length, heads, dim), np.float32), np.zeros((length, heads), np.float32)
    kernels["cascade"].merge_state_kernel[(length,)](*map(tensor, [*parts, out, out_s]), heads, dim, bdx=dim, bdy=heads)
    judged()
    want, want_s, size = merged(v.astype(np.float64), s.astype(np.float64))
    # Two `ex2.approx` (2^-22 each), whose arguments are rounded differences, and a few roundings.
    bound = 2.0**-20 + 16 * U * np.abs(s).max()
    within(out, want, bound * size)
    within(out_s, want_s, bound * (1 + np.abs(want_s)))


def test_merge_states(kernels):
    length, sets, heads, dim = 2, 5, 2, 4
    rng = np.random.default_rng(8)
    v = rng.standard_normal((length, sets, heads, dim)).astype(np.float32)
    s = (4 * rng.standard_normal((length, sets, heads))).astype(np.float32)
    out, out_s = np.zeros((length, heads, dim), np.float32), np.zeros((length, heads), np.float32)
    kernels["cascade"].merge_states_kernel[(length,)](*map(tensor, [v, s, out, out_s]), sets, heads, dim, bdx=dim, bdy=heads)
    judged()
    want, want_s, size = merged(v.astype(np.float64), s.astype(np.float64))
    bound = sets * (2.0**-20 + 16 * U * np.abs(s).max())
    within(out, want, bound * size)
    within(out_s, want_s, bound * (1 + np.abs(want_s)))


def test_a_row_too_long_for_its_buffer_is_told(kernels):
    x, out = halves(9, 1, 64), np.zeros((1, 32), np.float16)
    with pytest.raises(sm.ViolationError, match="out_of_bounds|outside|past the end") as error:
        kernels["activation"].silu_and_mul_kernel[(1, 1)](
            o_ptr=tensor(out), o_stride=32, o_scale_ptr=None, x_ptr=tensor(x), x_stride=64, x_scale_ptr=None, d=33, BLOCK_SIZE=64,
            HAS_X_SCALE=False, HAS_O_SCALE=False,
        )
    assert error.value.violation.rule == "out_of_bounds"
