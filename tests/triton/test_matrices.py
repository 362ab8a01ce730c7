"""Products of tiles: `tl.dot` by type and shape, `tl.dot_scaled`, pipelined GEMM, descriptors, attention."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def dot(x, y, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    c = tl.dot(a, b, input_precision=PRECISION, out_dtype=out.dtype.element_ty)
    tl.store(out + m[:, None] * N + n[None, :], c)


DOTS = {
    "float16": (torch.float16, torch.float32, "tf32", 1e-3),
    "float16 in float16": (torch.float16, torch.float16, "tf32", 5e-2),
    "bfloat16": (torch.bfloat16, torch.float32, "tf32", 1e-3),
    "tf32": (torch.float32, torch.float32, "tf32", 5e-2),
    "tf32x3": (torch.float32, torch.float32, "tf32x3", 1e-4),
    "ieee": (torch.float32, torch.float32, "ieee", 1e-4),
    "int8": (torch.int8, torch.int32, "tf32", 0),
    "e4m3": (torch.float8_e4m3fn, torch.float32, "tf32", 1e-2),
    "e5m2": (torch.float8_e5m2, torch.float32, "tf32", 1e-2),
    "float64": (torch.float64, torch.float64, "ieee", 1e-9),
}


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("shape", [(16, 16, 32), (64, 32, 64), (32, 128, 32)])
@pytest.mark.parametrize("name", DOTS)
def test_dot(name, shape, warps):
    dtype, result, precision, tolerance = DOTS[name]
    m, n, k = shape
    if dtype == torch.int8:
        x, y = (torch.randint(-9, 9, size, device="cuda", dtype=dtype) for size in ((m, k), (k, n)))
    else:
        x, y = (torch.randn(size, device="cuda").to(dtype) for size in ((m, k), (k, n)))
    out = torch.empty(m, n, device="cuda", dtype=result)
    dot[(1,)](x, y, out, m, n, k, precision, num_warps=warps)
    wanted = (x.double() @ y.double()).to(result)
    torch.testing.assert_close(out, wanted, rtol=tolerance, atol=tolerance)


@triton.jit
def gemm(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        left = tl.load(a + m[:, None] * stride_am + (start + k)[None, :] * stride_ak, mask=(m < M)[:, None] & (start + k < K)[None, :], other=0.0)
        right = tl.load(b + (start + k)[:, None] * stride_bk + n[None, :] * stride_bn, mask=(start + k < K)[:, None] & (n < N)[None, :], other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_pipelined_gemm(dtype, stages, transposed):
    m, n, k = 70, 90, 130
    a = torch.randn(m, k, device="cuda").to(dtype)
    b = torch.randn(n, k, device="cuda").to(dtype).t() if transposed else torch.randn(k, n, device="cuda").to(dtype)
    c = torch.empty(m, n, device="cuda", dtype=dtype)
    gemm[(triton.cdiv(m, 32), triton.cdiv(n, 64))](a, b, c, m, n, k, *a.stride(), *b.stride(), 32, 64, 32, stages)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-2, atol=5e-2)


@triton.jit
def host_gemm(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        total = tl.dot(a.load([m, k]), b.load([k, n]), total)
    c.store([m, n], total.to(tl.float16))


@pytest.mark.parametrize("shape", [(64, 64, 64), (70, 96, 72)])
def test_host_descriptors(shape):
    describe = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor.from_tensor
    m, n, k = shape
    a, b, c = (torch.randn(size, device="cuda", dtype=torch.float16) for size in ((m, k), (k, n), (m, n)))
    host_gemm[(triton.cdiv(m, 32), triton.cdiv(n, 32))](describe(a, [32, 32]), describe(b, [32, 32]), describe(c, [32, 32]), k, 32, 32, 32)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-2, atol=5e-2)


@triton.jit
def host_copy(source, target, BLOCK: tl.constexpr):
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    target.store(at, source.load(at))


TYPES = ("bfloat16", "float16", "float32", "float64", "float8_e5m2", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@pytest.mark.parametrize("dtype", TYPES)
def test_host_descriptors_by_type(dtype):
    describe = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor.from_tensor
    x = torch.randint(0, 50, (48, 80), device="cuda").to(getattr(torch, dtype))
    y = torch.zeros_like(x)
    host_copy[(2, 3)](describe(x, [32, 32]), describe(y, [32, 32]), 32)
    assert torch.equal(y.view(torch.uint8), x.view(torch.uint8))


@triton.jit
def device_copy(x, y, M, N, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BLOCK, BLOCK])
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    target.store(at, source.load(at) * 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32, torch.uint8], ids=str)
def test_device_descriptors(dtype):
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    x = torch.randint(0, 100, (48, 80), device="cuda").to(dtype)
    y = torch.zeros_like(x)
    device_copy[(2, 3)](x, y, 48, 80, 32)
    torch.testing.assert_close(y, x * 2)


@triton.jit
def scaled(x, xs, y, ys, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PACK: tl.constexpr, FORMAT: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    k, s = tl.arange(0, K // PACK), tl.arange(0, K // 32)
    a = tl.load(x + m[:, None] * (K // PACK) + k[None, :])
    b = tl.load(y + n[:, None] * (K // PACK) + k[None, :])
    sa = tl.load(xs + m[:, None] * (K // 32) + s[None, :])
    sb = tl.load(ys + n[:, None] * (K // 32) + s[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot_scaled(a, sa, FORMAT, b.T, sb, FORMAT))


E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]


@pytest.mark.parametrize("shape", [(32, 32, 64), (64, 32, 128)])
@pytest.mark.parametrize("kind", ["e2m1", "e4m3", "e5m2"])
def test_dot_scaled(kind, shape):
    m, n, k = shape
    values, packed = [], []
    for rows in (m, n):
        if kind == "e2m1":
            bytes_ = torch.randint(0, 256, (rows, k // 2), device="cuda", dtype=torch.uint8)
            table = torch.tensor(E2M1, device="cuda", dtype=torch.float64)
            values.append(torch.stack([table[(bytes_ & 15).long()], table[(bytes_ >> 4).long()]], -1).reshape(rows, k))
            packed.append(bytes_)
        else:
            dtype = torch.float8_e4m3fn if kind == "e4m3" else torch.float8_e5m2
            packed.append(torch.randn(rows, k, device="cuda").to(dtype))
            values.append(packed[-1].double())
    scales = [torch.randint(125, 130, (rows, k // 32), device="cuda", dtype=torch.uint8) for rows in (m, n)]
    left, right = (v * torch.exp2(s.double() - 127).repeat_interleave(32, 1) for v, s in zip(values, scales))
    out = torch.empty(m, n, device="cuda")
    scaled[(1,)](packed[0], scales[0], packed[1], scales[1], out, m, n, k, 2 if kind == "e2m1" else 1, kind)
    torch.testing.assert_close(out.double(), left @ right.T, rtol=1e-2, atol=1e-1)


@triton.jit
def attention(q, k, v, out, T, scale, D: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr):
    rows, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    base = tl.program_id(1) * T * D
    query = tl.load(q + base + rows[:, None] * D + d[None, :], mask=(rows < T)[:, None], other=0.0)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total, result = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK if CAUSAL else T, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        key = tl.load(k + base + keys[None, :] * D + d[:, None], mask=(keys < T)[None, :], other=0.0)
        scores = tl.dot(query, key) * scale
        seen = (keys < T)[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        new = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - new[:, None])
        shrink = tl.exp(largest - new)
        total = total * shrink + tl.sum(weights, 1)
        value = tl.load(v + base + keys[:, None] * D + d[None, :], mask=(keys < T)[:, None], other=0.0)
        result = tl.dot(weights.to(tl.float16), value, result * shrink[:, None])
        largest = new
    tl.store(out + base + rows[:, None] * D + d[None, :], (result / total[:, None]).to(tl.float16), mask=(rows < T)[:, None])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [32, 77])
def test_attention(length, causal):
    q, k, v = (torch.randn(2, length, 32, device="cuda", dtype=torch.float16) for _ in range(3))
    out = torch.empty_like(q)
    attention[(triton.cdiv(length, 16), 2)](q, k, v, out, length, 32**-0.5, 32, 16, causal)
    wanted = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-2, atol=1e-2)
