"""Kernels of FlashInfer, in Triton's language, from its wheel: cases of its own tests with their tolerances, and others with derived bounds.

SM121PROBE_VERDICTS names a file for the table of the first kind, of which `reports/flashinfer.md` is the committed one.

The wheel is only read (`pip download --no-deps flashinfer-python`): SM121PROBE_FLASHINFER names the folder that holds `flashinfer`, which is
otherwise looked for where Python finds packages. FlashInfer itself is not imported, since it asks for PyTorch.
"""

import functools
import importlib.metadata
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
            for name in ["norm", "activation", "cascade", "sm_constraint_gemm"]
        }
        if os.environ.get("SM121PROBE_VERDICTS") and VERDICTS:
            pathlib.Path(os.environ["SM121PROBE_VERDICTS"]).write_text(table())
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


#: Rows of the table: test, case, kernel, tolerance, and what the run gave.
VERDICTS = []


def table():
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ["flashinfer-python", "triton"])
    head = f"""# FlashInfer's own tests on the emulator

Cases of FlashInfer's test files for its kernels in Triton's language, run by `crates/python/tests/test_upstream.py` for `sm_120`, under four
schedules, with {versions}.

`SM121PROBE_VERDICTS` makes that test write this file. The tolerance is that of FlashInfer's test; results are compared with binary64 where it
compares with PyTorch or with its CUDA kernel. `rows` says that the grid has so many rows of the test's, each a CTA of its own.

| test | case | kernel | tolerance | violations | largest error, of the tolerance | verdict |
|---|---|---|---|--:|--:|---|
"""
    rows = [f"|{test}|{case}|`{kernel}`|{tolerance}|{violations}|{worst}|{verdict}|" for test, case, kernel, tolerance, violations, worst, verdict in VERDICTS]
    return head + "\n".join(rows) + "\n"


def verdict(test, case, kernel, pairs, atol, rtol=1e-5, races=False):
    """What `torch.allclose` says of results and what they should be, and the emulator of the launch before: it may list races that no result
    depends on where some are known."""
    report = sm.triton.reports[-1]
    worst = max((np.abs(out.astype(np.float64) - want) / (atol + rtol * np.abs(want))).max() for out, want in pairs)
    assert report.schedules == 4
    rules = sorted({violation.rule for violation in report.violations})
    right = worst <= 1 and rules == (["race"] if races else [])
    tolerance = f"{atol:g}" if rtol == 1e-5 else f"{atol:g} + {rtol:g} of the value"
    row = (test, case, kernel, tolerance, len(report.violations), f"{worst:.2g}", ("right; races without effect" if races else "right") if right else f"wrong {rules}")
    VERDICTS.append(row)
    assert right, row


def normed(x, w, eps):
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps) * w


@pytest.mark.parametrize("rows, n", [(1, 1024), (4, 3072), (4, 4096), (1, 8192)])
def test_upstream_rms_norm(kernels, rows, n):
    x, w, out = halves(11, rows, n), halves(12, n), np.zeros((rows, n), np.float16)
    block = triton.next_power_of_2(n)
    kernels["norm"].rms_norm_kernel[(rows,)](
        n=n, b=rows, x_ptr=tensor(x), x_stride=n, x_scale_ptr=None, r_ptr=None, r_stride=0, w_ptr=tensor(w), o_ptr=tensor(out), o_stride=n,
        o_scale_ptr=None, EPS=1e-6, BLOCK_SIZE=block, HAS_IN_SCALE=False, HAS_OUT_SCALE=False, HAS_OUTPUT=True, HAS_RESIDUAL=False,
        num_warps=max(8, min(32, block // 256)),
    )
    verdict("test_triton_rms_norm_fastpath", f"{rows} × {n}, f16", "rms_norm_kernel", [(out, normed(x, w, 1e-6))], 1e-3, 1e-3)


def test_upstream_rms_norm_residual(kernels):
    rows, n = 16, 4096
    x, r, w, out = halves(13, rows, n), halves(14, rows, n), halves(15, n), np.zeros((rows, n), np.float16)
    total = (r.astype(np.float32) + x.astype(np.float32)).astype(np.float16)
    kernels["norm"].rms_norm_kernel[(rows,)](
        n=n, b=rows, x_ptr=tensor(x), x_stride=n, x_scale_ptr=None, r_ptr=tensor(r), r_stride=n, w_ptr=tensor(w), o_ptr=tensor(out), o_stride=n,
        o_scale_ptr=None, EPS=1e-6, BLOCK_SIZE=n, HAS_IN_SCALE=False, HAS_OUT_SCALE=False, HAS_OUTPUT=True, HAS_RESIDUAL=True, num_warps=32,
    )
    pairs = [(r, total.astype(np.float64)), (out, normed(total, w, 1e-6))]
    verdict("test_triton_rms_norm_residual_unaffected", f"{rows} × {n}, f16", "rms_norm_kernel", pairs, 1e-3, 1e-3)


@pytest.mark.parametrize("in_place", [False, True])
def test_upstream_merge_state(kernels, in_place):
    # FlashInfer's test has 2048 rows.
    rows, heads, dim = 2, 32, 128
    va, vb = halves(16, rows, heads, dim), halves(17, rows, heads, dim)
    sa, sb = (np.random.default_rng(n).standard_normal((rows, heads)).astype(np.float32) for n in (18, 19))
    want, want_s, _ = merged(np.stack([va, vb], 1).astype(np.float64), np.stack([sa, sb], 1).astype(np.float64))
    if in_place:
        # All warps load what the first thread of the CTA replaces, with no barrier; only its own value is used.
        name, out, out_s = "merge_state_in_place", va, sa
        kernels["cascade"].merge_state_in_place_kernel[(rows,)](*map(tensor, [va, sa, vb, sb]), heads, dim, None, bdx=dim, bdy=heads)
    else:
        name, out, out_s = "merge_state", np.zeros_like(va), np.zeros_like(sa)
        kernels["cascade"].merge_state_kernel[(rows,)](*map(tensor, [va, sa, vb, sb, out, out_s]), heads, dim, bdx=dim, bdy=heads)
    verdict(f"test_{name}", f"{rows} rows × {heads} × {dim}, f16", f"{name}_kernel", [(out, want), (out_s, want_s)], 1e-2, races=in_place)


GEMMS = [
    (128, 128, 128, 1.0, 0.0, 1, np.float16),
    (128, 128, 512, 0.5, 2.0, 16, np.float16),
    (512, 128, 128, 2.0, 0.5, 1, np.float16),
    (512, 512, 128, 1.0, 0.5, 16, np.float16),
    (128, 128, 128, 2.0, 0.5, 16, np.float32),
]


@pytest.mark.parametrize("kernel", ["gemm_kernel", "gemm_kernel_persistent"])
@pytest.mark.parametrize("m, n, k, alpha, beta, sms, dtype", GEMMS)
def test_upstream_gemm(kernels, kernel, m, n, k, alpha, beta, sms, dtype):
    a, b = halves(21, m, k).astype(dtype), np.ascontiguousarray(halves(22, k, n).astype(dtype).T)
    c = halves(23, m, n).astype(dtype)
    want = alpha * (a.astype(np.float64) @ b.astype(np.float64).T) + beta * c.astype(np.float64)
    tiles = -(-m // 128) * -(-n // 128)
    persistent = kernel == "gemm_kernel_persistent"
    grid = min(sms, tiles) if persistent else tiles
    constants = {"NUM_SMS": sms} if persistent else {}
    case = f"{m} × {n} × {k}, α {alpha:g}, β {beta:g}, {'f16' if dtype is np.float16 else 'f32'}" + (f", grid of {grid}" if persistent else "")
    # `b` is given transposed, by its strides.
    launch = functools.partial(
        getattr(kernels["sm_constraint_gemm"], kernel)[(grid,)],
        tensor(a), tensor(b), tensor(c), m, n, k, k, 1, 1, k, n, 1, alpha=alpha, beta=beta, **constants,
    )
    if dtype is np.float32:
        # The tiles of FlashInfer are made for GPUs with more.
        with pytest.raises(triton.runtime.errors.OutOfResources, match="shared memory") as error:
            launch()
        what = f"does not run on SM12x: {error.value.required} bytes of shared memory, of {error.value.limit}"
        VERDICTS.append(("test_sm_constraint_gemm", case, kernel, "1", "", "", what))
        return
    launch()
    verdict("test_sm_constraint_gemm", case, kernel, [(c, want)], 1.0)
