"""Launches: arguments, grids, clusters, options, autotuning, hooks, cooperation."""

import collections

import pytest
import torch
import triton
import triton.language as tl

import sm121probe


@triton.jit
def ids(out, BLOCK: tl.constexpr):
    n = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    tl.store(out + n * BLOCK + tl.arange(0, BLOCK), n)


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("warps", [1, 2, 8])
@pytest.mark.parametrize("grid", [(5,), (2, 3), (2, 2, 3)])
def test_grids(grid, warps, ctas):
    programs = torch.Size(grid).numel()
    out = torch.empty(programs * 256, device="cuda", dtype=torch.int32)
    ids[grid](out, BLOCK=256, num_warps=warps, num_ctas=ctas)
    assert (out == torch.arange(programs, device="cuda").repeat_interleave(256)).all()


def test_an_empty_grid():
    out = torch.zeros(8, device="cuda", dtype=torch.int32)
    ids[(0,)](out, BLOCK=8)
    assert not out.any()


Pair = collections.namedtuple("Pair", ["first", "rest"])


@triton.jit
def nested(pair, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(pair[0] + i) * pair[1][1] + tl.load(pair[1][0] + i))


@pytest.mark.parametrize("kind", [tuple, Pair])
def test_nested_tuples(kind):
    a, b, out = torch.randn(64, device="cuda"), torch.randn(64, device="cuda"), torch.empty(64, device="cuda")
    nested[(1,)](Pair(a, (b, 3)) if kind is Pair else (a, (b, 3)), out, BLOCK=64)
    torch.testing.assert_close(out, 3 * a + b)


@triton.jit
def store(out, value):
    tl.store(out, value)


@pytest.mark.parametrize("value", [0, 1, -1, 16, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63)])
def test_integers(value):
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    store[(1,)](out, value)
    assert out.item() == value


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_floats(dtype):
    out = torch.zeros(1, dtype=dtype, device="cuda")
    store[(1,)](out, 0.1)
    torch.testing.assert_close(out, torch.tensor([0.1], device="cuda").to(dtype))


@triton.jit
def negate(x, out, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, -tl.load(x + i * stride, mask=i < n), mask=i < n)


VIEWS = {
    "offset": lambda x: x[3:],
    "every second": lambda x: x[::2],
    "column": lambda x: x.view(-1, 10)[:, 3],
    "parameter": lambda x: torch.nn.Parameter(x),
    "expanded": lambda x: x[:1].expand(7),
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    x = VIEWS[name](torch.randn(100, device="cuda"))
    out = torch.zeros(128, device="cuda")
    negate[(1,)](x, out, x.numel(), x.stride(0), BLOCK=128)
    torch.testing.assert_close(out[: x.numel()], -x.detach())


@triton.jit
def add_lists(table, sizes, BLOCK: tl.constexpr):
    p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    n = tl.load(sizes + tl.program_id(0))
    tl.store(p + i, tl.load(p + i, mask=i < n) + 1, mask=i < n)


def test_tables_of_pointers():
    parts = [torch.zeros(n, device="cuda") for n in (10, 200, 33)]
    table = torch.tensor([part.data_ptr() for part in parts], device="cuda")
    add_lists[(3,)](table, torch.tensor([10, 200, 33], device="cuda"), BLOCK=256)
    assert all((part == 1).all() for part in parts)


@triton.autotune([triton.Config({"BLOCK": n}, num_warps=warps) for n, warps in ((32, 1), (128, 4), (512, 4))], key=["n"], restore_value=["x"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def increment(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x + i, tl.load(x + i) + 1)
    else:
        tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@pytest.mark.parametrize("n", [512, 1000])
def test_autotuning(n):
    x = torch.zeros(n, device="cuda")
    increment[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n)
    assert (x == 1).all()


def test_benchmarks():
    x = torch.zeros(1000, device="cuda")
    grid = (8,)
    cost = triton.testing.do_bench(lambda: ids[grid](x.to(torch.int32), BLOCK=32))
    assert cost == triton.testing.do_bench_cudagraph(lambda: ids[grid](x.to(torch.int32), BLOCK=32)) > 0


@triton.jit
def barrier(count, out, PROGRAMS: tl.constexpr):
    tl.store(out + tl.program_id(0), tl.program_id(0))
    tl.debug_barrier()
    tl.atomic_add(count, 1, sem="acq_rel")
    while tl.atomic_add(count, 0, sem="acquire") < PROGRAMS:
        pass
    tl.debug_barrier()
    tl.store(out + PROGRAMS + tl.program_id(0), tl.load(out + (tl.program_id(0) + 1) % PROGRAMS))


def test_cooperative_grids():
    count, out = torch.zeros(1, device="cuda", dtype=torch.int32), torch.zeros(16, device="cuda", dtype=torch.int32)
    barrier[(8,)](count, out, PROGRAMS=8, launch_cooperative_grid=True)
    assert out.tolist() == [*range(8), *range(1, 8), 0]


@triton.jit(debug=True)
def positive(x):
    tl.device_assert(tl.load(x) > 0, "x must be positive")


def test_assertions():
    positive[(1,)](torch.ones(1, device="cuda"))
    with pytest.raises(RuntimeError, match="x must be positive"):
        positive[(1,)](-torch.ones(1, device="cuda"))


FAULTS = {
    "out of bounds": lambda: ids[(3,)](torch.zeros(16, device="cuda", dtype=torch.int32), BLOCK=8),
    "lost update": lambda: increment_without_atomics[(8,)](torch.zeros(1, device="cuda")),
    "deadlock": lambda: wait[(1,)](torch.zeros(1, device="cuda", dtype=torch.int32)),
}


@triton.jit
def increment_without_atomics(x):
    tl.store(x, tl.load(x) + 1)


@triton.jit
def wait(flag):
    while tl.atomic_add(flag, 0) == 0:
        pass


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name):
    with pytest.raises((sm121probe.ViolationError, sm121probe.DisagreementError)):
        FAULTS[name]()
