"""`torch.compile`: what training and inference of models need, against PyTorch's own operations on the CPU."""

import pytest
import torch
import torch.nn.functional as F

import sm121probe

#: The bound on a difference, relative and absolute, by element type.
BOUNDS = {torch.float32: (1e-4, 1e-3), torch.float16: (2e-2, 1e-2), torch.bfloat16: (3e-2, 3e-2)}


def numbers(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype)


def indices(limit, *shape):
    return torch.randint(0, limit, shape, device="cuda")


def bytes_of(*shape):
    return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)


def compare(got, wanted):
    dtypes = [one.dtype for one in torch.utils._pytree.tree_leaves(wanted) if isinstance(one, torch.Tensor)]
    rtol, atol = max(BOUNDS.get(dtype, (1e-4, 1e-3)) for dtype in dtypes)
    torch.testing.assert_close(got, wanted, rtol=rtol, atol=atol, check_dtype=True)


def half_products(x, w):
    return (x.float() * w.float()).sum(-1).to(x.dtype)


def quantized(x):
    scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8), scale


def attention(q, k, v):
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    mask = torch.ones(q.shape[-2], k.shape[-2], device=q.device, dtype=torch.bool).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


def grouped_attention(q, k, v):
    return attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))


def moe(x, gate, up):
    weights, chosen = (x @ gate).softmax(-1).topk(2, -1)
    one_hot = F.one_hot(chosen, gate.shape[1]).to(x.dtype)
    return torch.einsum("tke,tk,td,edh->th", one_hot, weights, x, up)


FORWARD = {
    "int8 quantization": (quantized, lambda: [numbers(12, 96)]),
    "int8 dequantization": (lambda q, s: q.float() * s, lambda: [bytes_of(20, 64), numbers(20, 1)]),
    "int8 gemm": (lambda a, b: (a.int().unsqueeze(-1) * b.int()).sum(1), lambda: [bytes_of(6, 24), bytes_of(24, 8)]),
    "uint8 bits": (lambda x: ((x.to(torch.uint8) >> 4) & 15) | (x.to(torch.uint8) << 4), lambda: [indices(256, 300)]),
    "bf16 rms_norm": (lambda x, w: (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w, lambda: [numbers(6, 160, dtype=torch.bfloat16), numbers(160, dtype=torch.bfloat16)]),
    "fp16 layer_norm": (lambda x: F.layer_norm(x, (80,)), lambda: [numbers(9, 80, dtype=torch.float16)]),
    "fp16 products": (half_products, lambda: [numbers(7, 200, dtype=torch.float16), numbers(7, 200, dtype=torch.float16)]),
    "bf16 softmax": (lambda x: x.softmax(-1), lambda: [numbers(5, 70, dtype=torch.bfloat16)]),
    "fp8 round trip": (lambda x: x.to(torch.float8_e4m3fn).float() * 2, lambda: [numbers(256)]),
    "causal attention": (attention, lambda: [numbers(1, 2, 24, 16), numbers(1, 2, 24, 16), numbers(1, 2, 24, 16)]),
    "grouped attention": (grouped_attention, lambda: [numbers(1, 4, 12, 16), numbers(1, 2, 12, 16), numbers(1, 2, 12, 16)]),
    "scaled_dot_product_attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2, lambda: [numbers(1, 2, 20, 16) for _ in range(3)]),
    "sliding window": (lambda x: x.unfold(1, 5, 2).mean(-1), lambda: [numbers(6, 41)]),
    "index_put": (lambda x, i, v: x.index_put((i,), v), lambda: [numbers(40, 6), torch.randperm(40, device="cuda")[:20], numbers(20, 6)]),
    "index_put accumulates": (lambda x, i, v: x.index_put((i,), v, accumulate=True), lambda: [numbers(16), indices(16, 100), numbers(100)]),
    "scatter": (lambda x, i, v: x.scatter(1, i, v), lambda: [numbers(8, 20), torch.rand(8, 20, device="cuda").argsort(1)[:, :10], numbers(8, 10)]),
    "scatter_reduce": (lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), lambda: [numbers(10), indices(10, 64), numbers(64)]),
    "index_add": (lambda x, i, v: x.index_add(0, i, v), lambda: [numbers(12, 5), indices(12, 30), numbers(30, 5)]),
    "masked_scatter by cumsum": (lambda x, m: torch.where(m, x[(m.int().cumsum(0) - 1).clamp_min(0)], 0.0), lambda: [numbers(200), torch.rand(200, device="cuda") > 0.5]),
    "take_along_dim": (lambda x: x.take_along_dim(x.argsort(-1), -1), lambda: [numbers(6, 32)]),
    "cumsum of integers": (lambda x: x.cumsum(0), lambda: [indices(9, 500)]),
    "long cumsum": (lambda x: x.cumsum(-1), lambda: [numbers(2, 3000).abs() / 3000]),
    "cummax": (lambda x: x.cummax(1), lambda: [numbers(4, 90)]),
    "descending sort": (lambda x: x.sort(-1, descending=True).values, lambda: [numbers(5, 100)]),
    "stable sort": (lambda x: x.sort(dim=-1, stable=True).indices, lambda: [indices(4, 3, 50)]),
    "topk": (lambda x: (x * 2).topk(5, -1), lambda: [numbers(6, 120)]),
    "mode of experts": (moe, lambda: [numbers(6, 16), numbers(16, 4), numbers(4, 16, 8) / 4]),
    "conv1d": (lambda x, w: F.silu(F.conv1d(x, w, padding=1)), lambda: [numbers(2, 4, 20), numbers(6, 4, 3)]),
    "strided conv": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1).relu(), lambda: [numbers(1, 4, 11, 11), numbers(8, 4, 3, 3), numbers(8)]),
    "depthwise conv": (lambda x, w: F.conv2d(x, w, groups=6), lambda: [numbers(1, 6, 9, 9), numbers(6, 1, 3, 3)]),
    "average pool": (lambda x: F.avg_pool2d(x, 3, 2, 1), lambda: [numbers(1, 3, 13, 13)]),
    "adaptive pool": (lambda x: F.adaptive_avg_pool2d(x, 3) + 1, lambda: [numbers(1, 2, 10, 10)]),
    "variance and mean": (lambda x: torch.var_mean(x, (0, 2)), lambda: [numbers(4, 5, 60)]),
    "welford over all": (lambda x: torch.var_mean(x), lambda: [numbers(50, 300) + 100]),
    "logsumexp": (lambda x: x.logsumexp(-1), lambda: [10 * numbers(7, 130)]),
    "split reductions": (lambda x: (x.sum(), x.amax(), x.square().mean()), lambda: [numbers(30000)]),
    "norms": (lambda x: (torch.linalg.vector_norm(x, 2, -1), torch.linalg.vector_norm(x, float("inf"), 0)), lambda: [numbers(20, 30)]),
    "nan and inf": (lambda x: torch.nan_to_num(x / x.round()).clamp(-9, 9), lambda: [numbers(300)]),
    "integer division": (lambda x, y: (x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")), lambda: [indices(2000, 200) - 1000, indices(9, 200) - 20]),
    "special functions": (lambda x: (torch.erf(x), torch.lgamma(x.abs() + 1), torch.expm1(x), torch.atan2(x, x + 2), torch.hypot(x, x)), lambda: [numbers(200)]),
    "int64 addresses": (lambda i: (i * 2654435761) % 4294967296 >> 7, lambda: [indices(1 << 30, 200)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name):
    function, make = FORWARD[name]
    args = make()
    before = sm121probe.triton.benchmark.executed
    got = torch.compile(function)(*args)
    compare(got, function(*args))
    assert sm121probe.triton.benchmark.executed > before, "nothing ran on the emulator"


BACKWARD = {
    "attention": (lambda q, k, v: attention(q, k, v).square().sum(), [(1, 2, 12, 8)] * 3),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (48,), w, b).square().sum(), [(10, 48), (48,), (48,)]),
    "log_softmax": (lambda x: F.nll_loss(x.log_softmax(-1), torch.arange(8, device="cuda")), [(8, 40)]),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1).tanh().sum(), [(1, 3, 8, 8), (4, 3, 3, 3)]),
    "index": (lambda x: x[torch.arange(30, device="cuda") % 7].square().sum(), [(9, 5)]),
    "scatter_add": (lambda x: torch.zeros(6, device="cuda").scatter_add(0, torch.arange(40, device="cuda") % 6, x).square().sum(), [(40,)]),
    "rms_norm and swiglu": (lambda x, a, b: (F.silu(F.rms_norm(x, (32,)) @ a) * (x @ b)).sum(), [(6, 32), (32, 24), (32, 24)]),
    "max_pool": (lambda x: F.max_pool2d(x, 2).square().sum(), [(1, 2, 8, 8)]),
    "gather": (lambda x: x.gather(1, torch.arange(12, device="cuda").view(3, 4) % 5).exp().sum(), [(3, 5)]),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w).pow(3).sum(), [(2, 4, 5, 5), (4,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name):
    function, shapes = BACKWARD[name]
    args = [numbers(*shape).requires_grad_() for shape in shapes]
    wanted = torch.autograd.grad(function(*args), args)
    torch.compile(function)(*args).backward()
    compare([tensor.grad for tensor in args], list(wanted))


DYNAMIC = {
    "softmax": (lambda x: x.softmax(-1), lambda n: [numbers(3, n)]),
    "sum of rows": (lambda x: x.sum(0), lambda n: [numbers(n, 20)]),
    "gemm": (lambda x, y: x @ y, lambda n: [numbers(n, 16), numbers(16, 2 * n)]),
    "cumsum": (lambda x: x.cumsum(0), lambda n: [numbers(n)]),
    "cat": (lambda x, y: torch.cat([x, y * 2]), lambda n: [numbers(n, 3), numbers(n + 1, 3)]),
    "attention": (attention, lambda n: [numbers(1, 1, n, 8), numbers(1, 1, n, 8), numbers(1, 1, n, 8)]),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_shapes(name):
    function, make = DYNAMIC[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, dynamic=True)
    for n in (3, 17, 64, 130):
        args = make(n)
        compare(compiled(*args), function(*args))


SETTINGS = {
    "combo kernels": {"combo_kernels": True, "combo_kernels_autotune": 1},
    "combo kernels of foreach": {"combo_kernel_foreach_dynamic_shapes": True, "combo_kernels": True},
    "cooperative reductions": {"triton.cooperative_reductions": True, "triton.force_cooperative_reductions": True},
    "no persistent reductions": {"triton.persistent_reductions": False},
    "mix order reductions": {"triton.mix_order_reduction": True},
    "tiling in three dimensions": {"triton.max_tiles": 3, "triton.prefer_nd_tiling": True},
    "tensor descriptors": {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True},
    "index assertions": {"assert_indirect_indexing": True},
    "inplace off": {"inplace_buffers": False, "allow_buffer_reuse": False},
    "coordinate descent": {"coordinate_descent_tuning": True},
    "no fast math": {"use_fast_math": False, "eager_numerics.division_rounding": True},
    "max autotune of pointwise": {"max_autotune_pointwise": True},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name):
    def function(a, b, c, i):
        return a + 1, b.softmax(-1) * 2, c.sin().sum(-1), c.var(0), b.t() + b[0, 0], a[i] / 3

    known = {key: value for key, value in SETTINGS[name].items() if _has_setting(key)}
    if not known:
        pytest.skip("this PyTorch has none of these settings")
    torch._dynamo.reset()
    with torch._inductor.config.patch(known):
        args = [numbers(100), numbers(24, 24), numbers(8, 700), indices(100, 50)]
        compare(torch.compile(function)(*args), function(*args))


def _has_setting(name):
    holder = torch._inductor.config
    *owners, last = name.split(".")
    for owner in owners:
        holder = getattr(holder, owner, None)
    return hasattr(holder, last)


TEMPLATES = {
    "gemm": (lambda x, y: x @ y, lambda: [numbers(32, 32), numbers(32, 48)]),
    "gemm with bias": (lambda x, y, b: torch.addmm(b, x, y).relu(), lambda: [numbers(32, 64), numbers(64, 32), numbers(32)]),
    "bf16 gemm": (lambda x, y: (x @ y) * 2, lambda: [numbers(32, 64, dtype=torch.bfloat16), numbers(64, 32, dtype=torch.bfloat16)]),
    "batched gemm": (lambda x, y: torch.bmm(x, y), lambda: [numbers(2, 16, 32), numbers(2, 32, 16)]),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1), lambda: [numbers(1, 8, 8, 8), numbers(8, 8, 3, 3)]),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(name):
    function, make = TEMPLATES[name]
    args = make()
    torch._dynamo.reset()
    settings = {"max_autotune": True, "max_autotune_gemm_search_space": "DEFAULT", "max_autotune_conv_backends": "TRITON"}
    with torch._inductor.config.patch({key: value for key, value in settings.items() if _has_setting(key)}):
        got = torch.compile(function)(*args)
    # Tensor cores multiply binary32 as TF32 or in BF16x3 pieces.
    torch.testing.assert_close(got, function(*args), rtol=3e-2, atol=1e-1)


OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, foreach=True),
    "Adam": lambda parameters: torch.optim.Adam(parameters, 0.01, foreach=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, 0.01, foreach=True, capturable=True),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.1, foreach=True),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, 0.01, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    """A compiled step of a foreach optimiser changes the parameters as the optimiser itself does."""
    shapes, steps = [(5, 7), (64,), (3, 3, 3)], 3
    start = [numbers(*shape) for shape in shapes]
    gradients = [[numbers(*shape) for shape in shapes] for _ in range(steps)]

    def trained(compile):
        parameters = [torch.nn.Parameter(tensor.clone()) for tensor in start]
        optimizer = OPTIMIZERS[name](parameters)
        step = torch.compile(optimizer.step) if compile else optimizer.step
        for one in gradients:
            for parameter, gradient in zip(parameters, one):
                parameter.grad = gradient.clone()
            step()
        return [parameter.detach() for parameter in parameters]

    torch._dynamo.reset()
    before = sm121probe.triton.benchmark.executed
    compare(trained(True), trained(False))
    assert sm121probe.triton.benchmark.executed > before, "nothing ran on the emulator"


def test_dropout_with_a_seed():
    """The same seed drops the same elements; the gradient is zero where the output is."""
    compiled = torch.compile(lambda x: F.dropout(x, 0.25))

    def run():
        torch.manual_seed(7)
        x = torch.ones(3000, device="cuda", requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        return y.detach(), x.grad

    (first, gradient), (second, _) = run(), run()
    assert torch.equal(first, second) and torch.equal(gradient == 0, first == 0)
    assert 0.2 < (first == 0).float().mean() < 0.3


def test_random_numbers():
    """Random numbers of compiled code have the distribution that was asked for."""
    uniform, normal = torch.compile(lambda x: (torch.rand_like(x), torch.randn_like(x)))(torch.empty(4000, device="cuda"))
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.03
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1


def test_a_cumsum_of_a_long_row():
    """The scan of a long row takes several CTAs, which wait for each other."""
    x = torch.rand(1, 20000, device="cuda", dtype=torch.float64)
    compare(torch.compile(lambda x: x.cumsum(-1))(x), x.cumsum(-1))


def test_checkpointing():
    from torch.utils.checkpoint import checkpoint

    def function(x, w):
        return checkpoint(lambda x: F.gelu(x @ w).softmax(-1), x, use_reentrant=False).square().sum()

    args = [numbers(6, 12).requires_grad_(), numbers(12, 10).requires_grad_()]
    wanted = torch.autograd.grad(function(*args), args)
    torch.compile(function)(*args).backward()
    compare([tensor.grad for tensor in args], list(wanted))
