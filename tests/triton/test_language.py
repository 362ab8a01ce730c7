"""Triton's language: elementwise operations and types, reductions, scans, sort, gather, atomics, control flow, random numbers, inline PTX."""

import pytest
import torch
import triton
import triton.language as tl

INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def data(dtype, *shape):
    if dtype.is_floating_point:
        return torch.randn(shape, device="cuda").to(dtype)
    return torch.randint(-100, 100, shape, device="cuda").to(dtype)


def close(got, wanted, tolerance=None):
    assert got.is_cuda
    options = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(got, wanted, **options)


BINARY = {
    "add": ("a + b", lambda a, b: a + b),
    "sub": ("a - b", lambda a, b: a - b),
    "mul": ("a * b", lambda a, b: a * b),
    "min": ("tl.minimum(a, b)", torch.minimum),
    "max": ("tl.maximum(a, b)", torch.maximum),
    "less": ("(a < b).to(a.dtype)", lambda a, b: (a < b).to(a.dtype)),
    "equal": ("(a == b).to(a.dtype)", lambda a, b: (a == b).to(a.dtype)),
    "where": ("tl.where(a > b, a, b)", lambda a, b: torch.where(a > b, a, b)),
}
BITWISE = {
    "and": ("a & b", lambda a, b: a & b),
    "or": ("a | b", lambda a, b: a | b),
    "xor": ("a ^ b", lambda a, b: a ^ b),
    "shift": ("a << 3", lambda a, b: a << 3),
    "arithmetic shift": ("a >> 2", lambda a, b: a >> 2),
    "not": ("~a", lambda a, b: ~a),
    "remainder": ("a % 7", lambda a, b: torch.fmod(a, 7)),
}
UNARY = {
    "exp": ("tl.exp(a)", torch.exp),
    "exp2": ("tl.exp2(a)", torch.exp2),
    "log": ("tl.log(tl.abs(a) + 0.5)", lambda a: torch.log(a.abs() + 0.5)),
    "log2": ("tl.log2(tl.abs(a) + 0.5)", lambda a: torch.log2(a.abs() + 0.5)),
    "sin": ("tl.sin(a)", torch.sin),
    "cos": ("tl.cos(a)", torch.cos),
    "sqrt": ("tl.sqrt(tl.abs(a))", lambda a: a.abs().sqrt()),
    "sqrt_rn": ("tl.sqrt_rn(tl.abs(a))", lambda a: a.abs().sqrt()),
    "rsqrt": ("tl.rsqrt(tl.abs(a) + 1)", lambda a: (a.abs() + 1).rsqrt()),
    "abs": ("tl.abs(a)", torch.abs),
    "floor": ("tl.floor(a)", torch.floor),
    "ceil": ("tl.ceil(a)", torch.ceil),
    "erf": ("tl.erf(a)", torch.erf),
    "sigmoid": ("tl.sigmoid(a)", torch.sigmoid),
    "fma": ("tl.fma(a, a, a)", lambda a: a * a + a),
    "divide": ("1.0 / (tl.abs(a) + 1)", lambda a: 1 / (a.abs() + 1)),
    "div_rn": ("tl.div_rn(a, tl.abs(a) + 1)", lambda a: a / (a.abs() + 1)),
    "clamp": ("tl.clamp(a, -1.0, 0.5)", lambda a: a.clamp(-1, 0.5)),
    "libdevice": ("libdevice.tanh(a)", torch.tanh),
}


@pytest.fixture
def elementwise(tmp_path):
    """A kernel that stores an expression of its two arguments."""

    def make(expression):
        path = tmp_path / "elementwise.py"
        path.write_text(
            "import triton, triton.language as tl\nfrom triton.language.extra import libdevice\n\n@triton.jit\n"
            "def kernel(x, y, out, n, BLOCK: tl.constexpr):\n    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            f"    a = tl.load(x + i, mask=i < n)\n    b = tl.load(y + i, mask=i < n)\n    tl.store(out + i, {expression}, mask=i < n)\n"
        )
        import importlib.util

        spec = importlib.util.spec_from_file_location("elementwise", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    return make


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(elementwise, name, dtype):
    expression, wanted = BINARY[name]
    a, b = data(dtype, 300), data(dtype, 300)
    out = torch.empty_like(a)
    elementwise(expression)[(3,)](a, b, out, 300, BLOCK=128)
    close(out, wanted(a, b))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", BITWISE)
def test_bitwise(elementwise, name, dtype):
    expression, wanted = BITWISE[name]
    a, b = data(dtype, 300), data(dtype, 300)
    out = torch.empty_like(a)
    elementwise(expression)[(3,)](a, b, out, 300, BLOCK=128)
    close(out, wanted(a, b))


@pytest.mark.parametrize("name", UNARY)
def test_unary(elementwise, name):
    expression, wanted = UNARY[name]
    a = data(torch.float32, 300)
    out = torch.empty_like(a)
    elementwise(expression)[(3,)](a, a, out, 300, BLOCK=128)
    close(out, wanted(a), 1e-5)


CASTS = [torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2, torch.float8_e4m3fn]


@triton.jit
def cast(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(y.dtype.element_ty), mask=i < n)


@pytest.mark.parametrize("to", CASTS, ids=str)
@pytest.mark.parametrize("dtype", CASTS, ids=str)
def test_cast(dtype, to):
    if torch.float8_e5m2 in (dtype, to) and {dtype, to} & {torch.int8, torch.int32, torch.int64, torch.float64} or (
        torch.float8_e4m3fn in (dtype, to) and {dtype, to} & {torch.int8, torch.int32, torch.int64, torch.float64}
    ):
        pytest.skip("Triton converts eight-bit floats to and from floats of at most 32 bits")
    if {dtype, to} == {torch.float8_e5m2, torch.float8_e4m3fn}:
        pytest.skip("Triton has no conversion between the two eight-bit floats")
    x = torch.randint(-30, 30, (100,), device="cuda").to(torch.float32).to(dtype)
    y = torch.empty(100, device="cuda", dtype=to)
    cast[(1,)](x, y, 100, BLOCK=128)
    close(y.to(torch.float32), x.to(torch.float32).to(to).to(torch.float32))


@triton.jit
def reduce(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, OP: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        r = tl.sum(v, AXIS)
    elif OP == "max":
        r = tl.max(v, AXIS)
    elif OP == "min":
        r = tl.min(v, AXIS)
    elif OP == "argmax":
        r = tl.argmax(v, AXIS)
    elif OP == "argmin":
        r = tl.argmin(v, AXIS)
    else:
        r = tl.xor_sum(v, AXIS)
    tl.store(out + tl.arange(0, N if AXIS == 0 else M), r)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(32, 64), (1, 128), (256, 2)])
@pytest.mark.parametrize("op", ["sum", "max", "min", "argmax", "argmin", "xor"])
def test_reduce(op, shape, axis, warps):
    x = data(torch.int32 if op == "xor" else torch.float32, *shape)
    if op == "xor":
        wanted = torch.zeros(shape[1 - axis], dtype=torch.int32, device="cuda")
        for part in x.unbind(axis):
            wanted ^= part
    else:
        wanted = getattr(torch, {"max": "amax", "min": "amin"}.get(op, op))(x, axis)
    out = torch.empty(shape[1 - axis], device="cuda", dtype=torch.int32 if op.startswith("arg") else x.dtype)
    reduce[(1,)](x, out, *shape, axis, op, num_warps=warps)
    close(out.to(wanted.dtype), wanted, None if x.dtype == torch.int32 else 1e-4)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def compose(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def scan(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, OP: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    if OP == "cumsum":
        v = tl.cumsum(v, AXIS, reverse=REVERSE)
    elif OP == "cumprod":
        v = tl.cumprod(v, AXIS, reverse=REVERSE)
    elif OP == "associative":
        v = tl.associative_scan(v, AXIS, add, reverse=REVERSE)
    else:
        _, v = tl.associative_scan((tl.full((M, N), 0.5, tl.float32), v), AXIS, compose, reverse=REVERSE)
    tl.store(out + at, v)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["cumsum", "cumprod", "associative", "linear"])
def test_scan(op, axis, reverse):
    x = 1 + 0.1 * data(torch.float32, 32, 64)
    out = torch.empty_like(x)
    scan[(1,)](x, out, 32, 64, axis, op, reverse)
    ordered = x.flip(axis) if reverse else x
    if op == "linear":
        wanted, state = [], torch.zeros_like(ordered.select(axis, 0))
        for part in ordered.unbind(axis):
            state = 0.5 * state + part
            wanted.append(state)
        wanted = torch.stack(wanted, axis)
    else:
        wanted = torch.cumprod(ordered, axis) if op == "cumprod" else torch.cumsum(ordered, axis)
    close(out, wanted.flip(axis) if reverse else wanted, 1e-3)


@triton.jit
def rearrange(x, out, N: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if OP == "sort":
        v = tl.sort(v)
    elif OP == "sort descending":
        v = tl.sort(v, descending=True)
    elif OP == "flip":
        v = tl.flip(v)
    elif OP == "transpose":
        v = tl.trans(v.reshape(8, N // 8)).reshape(N)
    elif OP == "permute":
        v = v.reshape(4, 2, N // 8).permute(2, 0, 1).reshape(N)
    elif OP == "join":
        a, b = tl.split(v.reshape(N // 2, 2))
        v = tl.join(b, a).reshape(N)
    else:
        v = tl.gather(v, (i * 7) % N, 0)
    tl.store(out + i, v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
@pytest.mark.parametrize("op", ["sort", "sort descending", "flip", "transpose", "permute", "join", "gather"])
def test_rearrange(op, dtype):
    n = 128
    x = data(dtype, n)
    out = torch.empty_like(x)
    rearrange[(1,)](x, out, n, op)
    wanted = {
        "sort": lambda: x.sort().values,
        "sort descending": lambda: x.sort(descending=True).values,
        "flip": lambda: x.flip(0),
        "transpose": lambda: x.view(8, -1).t().reshape(-1),
        "permute": lambda: x.view(4, 2, -1).permute(2, 0, 1).reshape(-1),
        "join": lambda: x.view(-1, 2).flip(1).reshape(-1),
        "gather": lambda: x[(torch.arange(n, device="cuda") * 7) % n],
    }[op]()
    close(out, wanted)


@triton.jit
def histogram(x, out, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


@pytest.mark.parametrize("n, bins", [(256, 8), (512, 128), (64, 16)])
def test_histogram(n, bins):
    x = torch.randint(0, bins, (n,), device="cuda", dtype=torch.int32)
    out = torch.empty(bins, device="cuda", dtype=torch.int32)
    histogram[(1,)](x, out, n, bins)
    close(out.long(), torch.bincount(x.long(), minlength=bins))


@triton.jit
def atomic(x, out, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    if OP == "add":
        tl.atomic_add(out + i % 4, v)
    elif OP == "max":
        tl.atomic_max(out + i % 4, v)
    elif OP == "min":
        tl.atomic_min(out + i % 4, v)
    elif OP == "and":
        tl.atomic_and(out + i % 4, v)
    elif OP == "or":
        tl.atomic_or(out + i % 4, v)
    else:
        tl.atomic_xor(out + i % 4, v)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("op", ["add", "max", "min", "and", "or", "xor"])
def test_atomic(op, dtype):
    if dtype.is_floating_point and op not in ("add", "max", "min"):
        pytest.skip("bitwise operations are of integers")
    if op in ("max", "min") and dtype in (torch.float16, torch.float64) and dtype == torch.float16:
        pytest.skip("Triton has no such operation of 16-bit floats")
    x = data(dtype, 256)
    out = data(dtype, 4)
    wanted = out.clone()
    for row in x.view(-1, 4):
        wanted = {
            "add": torch.add, "max": torch.maximum, "min": torch.minimum, "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor,
        }[op](wanted, row)  # fmt: skip
    atomic[(4,)](x, out, op, 64)
    close(out, wanted, {torch.float16: 0.1, torch.float32: 1e-4}.get(dtype))


@triton.jit
def exchange(x, old, lock, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(old + i, tl.atomic_xchg(x + i, i))
    tl.atomic_cas(lock, 0, 7)


def test_exchange_and_compare():
    x, old, lock = torch.arange(100, 132, device="cuda"), torch.zeros(32, dtype=torch.int64, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
    exchange[(1,)](x, old, lock, BLOCK=32)
    close(old, torch.arange(100, 132, device="cuda"))
    close(x, torch.arange(32, device="cuda"))
    assert lock.item() == 7


@triton.jit
def collatz(x, steps, BLOCK: tl.constexpr):
    n = tl.load(x + tl.program_id(0))
    count = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    tl.store(steps + tl.program_id(0), count)


def test_control_flow():
    x = torch.arange(1, 20, device="cuda", dtype=torch.int32)
    steps = torch.empty_like(x)
    collatz[(19,)](x, steps, BLOCK=1)

    def count(n):
        return 0 if n == 1 else 1 + count(n // 2 if n % 2 == 0 else 3 * n + 1)

    assert steps.tolist() == [count(n) for n in range(1, 20)]


@triton.jit
def uniform(out, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.rand(seed, i))


def test_random_numbers():
    first, second, other = (torch.empty(4096, device="cuda") for _ in range(3))
    for out, seed in ((first, 1), (second, 1), (other, 2)):
        uniform[(4,)](out, seed, BLOCK=1024)
    close(first, second)
    assert (first != other).any() and 0 <= first.min() and first.max() < 1 and abs(first.mean() - 0.5) < 0.03


@triton.jit
def inline(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise("add.u32 $0, $1, 5;", "=r,r", [tl.load(x + i)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out + i, v)


def test_inline_ptx():
    x = data(torch.int32, 128)
    out = torch.empty_like(x)
    inline[(1,)](x, out, BLOCK=128)
    close(out, x + 5)


@triton.jit
def masked(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=-1.0), mask=i < n + 3, cache_modifier=".cg")


@pytest.mark.parametrize("n", [0, 1, 31, 128, 200])
def test_masks(n):
    x, out = data(torch.float32, max(n, 1)), torch.zeros(256, device="cuda")
    masked[(2,)](x, out, n, BLOCK=128)
    close(out[:n], x[:n])
    assert (out[n : n + 3] == -1).all() and not out[n + 3 :].any()
