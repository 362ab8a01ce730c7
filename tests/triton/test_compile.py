"""`torch.compile`: the Triton code of Inductor, forward, backward, with dynamic shapes, and its special kinds of kernels."""

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

import sm121probe


def tensors(*shapes, dtype=torch.float32):
    return [torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes]


def indices(limit, *shape):
    return torch.randint(0, limit, shape, device="cuda")


FORWARD = {
    "sin": (lambda x: torch.sin(x) + 1, lambda: tensors((1000,))),
    "broadcast": (lambda x, y: x * y + x.sum(), lambda: tensors((30, 1), (1, 50))),
    "gelu": (F.gelu, lambda: tensors((33, 77))),
    "silu bf16": (lambda x: F.silu(x) * 2, lambda: tensors((500,), dtype=torch.bfloat16)),
    "fp16": (lambda x: torch.tanh(x) / 3, lambda: tensors((500,), dtype=torch.float16)),
    "float64": (lambda x: x.exp().log1p(), lambda: tensors((100,), dtype=torch.float64)),
    "integers": (lambda x: (x * 3 + 7) // 2 % 5, lambda: [indices(1000, 400)]),
    "softmax": (lambda x: x.softmax(-1), lambda: tensors((16, 300))),
    "log_softmax": (lambda x: x.log_softmax(0), lambda: tensors((40, 30))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (128,), w, b), lambda: tensors((16, 128), (128,), (128,))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (96,), w), lambda: tensors((8, 96), (96,))),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), lambda: tensors((4, 3, 8, 8))),
    "group_norm": (lambda x: F.group_norm(x, 2), lambda: tensors((2, 4, 6, 6))),
    "sums": (lambda x: (x.sum(0), x.mean(1), x.amax(), x.var(1)), lambda: tensors((64, 100))),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0)), lambda: tensors((20, 70))),
    "long reduction": (lambda x: x.sum(), lambda: tensors((20000,))),
    "any and all": (lambda x: ((x > 1).any(0), (x > -9).all()), lambda: tensors((50, 20))),
    "cumsum": (lambda x: x.cumsum(1), lambda: tensors((8, 200))),
    "cumprod": (lambda x: x.cumprod(0), lambda: tensors((20, 8))),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), lambda: tensors((4, 60))),
    "sort": (lambda x: x.sort(-1), lambda: tensors((4, 64))),
    "gather": (lambda x, i: x.gather(1, i), lambda: [*tensors((10, 20)), indices(20, 10, 7)]),
    "index": (lambda x, i: x[i] + 1, lambda: [*tensors((50, 8)), indices(50, 30)]),
    "scatter_add": (lambda x, i, s: x.scatter_add(0, i, s), lambda: [torch.zeros(50, device="cuda"), indices(50, 80), *tensors((80,))]),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, lambda: [*tensors((100, 16)), indices(100, 10)]),
    "one_hot": (lambda i: F.one_hot(i, 11).float().mean(0), lambda: [indices(11, 40)]),
    "where": (lambda x: torch.where(x > 0, x.exp(), -x), lambda: tensors((500,))),
    "clamp": (lambda x: x.clamp(-0.5, 0.5).round(), lambda: tensors((100,))),
    "transpose": (lambda x: x.t().contiguous() * 2, lambda: tensors((33, 70))),
    "permute": (lambda x: x.permute(2, 0, 1).contiguous() + 1, lambda: tensors((5, 6, 7))),
    "cat": (lambda x, y: torch.cat([x * 2, y + 1], 1), lambda: tensors((8, 10), (8, 15))),
    "stack and split": (lambda x: torch.stack(x.chunk(4), 1) * 2, lambda: tensors((40, 5))),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 0)), lambda: tensors((6, 7))),
    "roll": (lambda x: x.roll(3, 0) - x.flip(0), lambda: tensors((40,))),
    "max_pool": (lambda x: F.max_pool2d(x, 2) * 2, lambda: tensors((1, 3, 8, 8))),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: tensors((1, 2, 5, 5))),
    "gemm": (lambda x, y: (x @ y).relu() + 1, lambda: tensors((32, 64), (64, 48))),
    "bmm": (lambda x, y: torch.bmm(x, y) * 2, lambda: tensors((2, 16, 24), (2, 24, 8))),
    "conv": (lambda x, w: F.conv2d(x, w).relu(), lambda: tensors((1, 3, 12, 12), (4, 3, 3, 3))),
    "cross_entropy": (F.cross_entropy, lambda: [*tensors((16, 50)), indices(50, 16)]),
    "attention by hand": (lambda q, k, v: (q @ k.mT / 4).softmax(-1) @ v, lambda: tensors((2, 32, 16), (2, 32, 16), (2, 32, 16))),
    "rotary": (lambda x, c, s: x * c + torch.cat([-x[..., 16:], x[..., :16]], -1) * s, lambda: tensors((4, 10, 32), (10, 32), (10, 32))),
    "devices": (lambda x: x.to("cuda") + torch.arange(10, device="cuda") + torch.ones(10, device=x.device).cuda(), lambda: tensors((10,))),
    "complex views": (lambda x: torch.view_as_real(torch.view_as_complex(x) * 2), lambda: tensors((20, 2))),
    "bucketize": (lambda x, e: torch.bucketize(x, e) + 1, lambda: [*tensors((100,)), torch.linspace(-2, 2, 9, device="cuda")]),
    "topk": (lambda x: x.topk(3, -1).values * 2, lambda: tensors((6, 40))),
}
#: Pointwise work that Inductor leaves to PyTorch's own operations on the CPU.
WITHOUT_KERNELS = {"complex views"}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name):
    function, make = FORWARD[name]
    args = make()
    before = sm121probe.triton.benchmark.executed
    got = torch.compile(function)(*args)
    torch.testing.assert_close(got, function(*args), rtol=2e-2 if name in ("silu bf16", "fp16") else 1e-4, atol=1e-3)
    assert sm121probe.triton.benchmark.executed > before or name in WITHOUT_KERNELS


BACKWARD = {
    "softmax": (lambda x: x.softmax(-1).square().sum(), [(8, 100)]),
    "layer_norm": (lambda x, w: F.layer_norm(torch.tanh(x * w), (64,)).square().sum(), [(8, 64), (64,)]),
    "gelu": (lambda x: F.gelu(x).sum(), [(300,)]),
    "gemm": (lambda x, w: (x @ w).sigmoid().sum(), [(8, 16), (16, 8)]),
    "embedding": (lambda w: F.embedding(torch.arange(10, device="cuda") % 4, w).square().sum(), [(6, 16)]),
    "broadcast": (lambda x, y: (x * y).exp().mean(), [(10, 1), (1, 12)]),
    "cumsum": (lambda x: x.cumsum(0).square().sum(), [(40,)]),
    "max": (lambda x: x.amax(1).sum(), [(10, 20)]),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name):
    function, shapes = BACKWARD[name]
    args = [tensor.requires_grad_() for tensor in tensors(*shapes)]
    wanted = torch.autograd.grad(function(*args), args)
    torch.compile(function)(*args).backward()
    torch.testing.assert_close([tensor.grad for tensor in args], list(wanted), rtol=1e-4, atol=1e-4)


def test_a_training_step():
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, wanted = torch.randn(32, 16, device="cuda"), indices(4, 32)
    compiled, losses = torch.compile(model), []
    for _ in range(4):
        loss = F.cross_entropy(compiled(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


def test_dynamic_shapes():
    compiled = torch.compile(lambda x: x.exp().sum(-1) + x.shape[0], dynamic=True)
    for n in (2, 10, 33, 70):
        (x,) = tensors((n, 50))
        torch.testing.assert_close(compiled(x), x.exp().sum(-1) + n)


SETTINGS = {
    "combo kernels": {"combo_kernels": True},
    "cooperative reductions": {"triton.cooperative_reductions": True, "triton.force_cooperative_reductions": True},
    "persistent reductions off": {"triton.persistent_reductions": False},
    "block pointers": {"triton.use_block_ptr": True},
    "multi-kernel": {"triton.multi_kernel": 1},
    "split reductions off": {"split_reductions": False},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name):
    def function(a, b, c):
        return a + 1, b * 2, c.sin().sum(-1)

    with torch._inductor.config.patch(SETTINGS[name]):
        args = tensors((100,), (300,), (8, 1000))
        torch.testing.assert_close(torch.compile(function)(*args), function(*args), rtol=1e-3, atol=1e-3)


def test_max_autotune():
    def function(x, y):
        return (x @ y).relu()

    args = tensors((32, 64), (64, 32))
    torch.testing.assert_close(torch.compile(function, mode="max-autotune-no-cudagraphs")(*args), function(*args), rtol=1e-2, atol=1e-1)


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def doubled(x):
    y = torch.empty_like(x)
    twice[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


def test_a_kernel_within():
    (x,) = tensors((100,))
    torch.testing.assert_close(torch.compile(lambda x: doubled(x) + 1)(x), 2 * x + 1)


def test_an_operator_of_triton():
    if not hasattr(torch.library, "triton_op"):
        pytest.skip("this PyTorch has no triton_op")

    @torch.library.triton_op("sm121probe_suite::twice", mutates_args={})
    def operator(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        torch.library.wrap_triton(twice)[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y

    (x,) = tensors((100,))
    torch.testing.assert_close(operator(x), 2 * x)
    torch.testing.assert_close(torch.compile(lambda x: operator(x) + 1)(x), 2 * x + 1)


def test_a_graph_break():
    def function(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * torch.ones(10, device="cuda")

    (x,) = tensors((10,))
    torch.testing.assert_close(torch.compile(function)(x), x + 1)


def test_changes_in_place():
    def function(x):
        x.add_(1)
        return x * 2

    x = torch.zeros(100, device="cuda")
    assert (torch.compile(function)(x) == 2).all() and (x == 1).all()


def test_dropout():
    dropped = torch.compile(lambda x: F.dropout(x, 0.5))(torch.ones(2000, device="cuda"))
    assert 800 < (dropped == 0).sum() < 1200 and set(dropped.tolist()) == {0.0, 2.0}


def test_a_race_names_the_generated_line():
    def function(x, index):
        return torch.zeros(2, device="cuda").index_put((index,), x)

    with pytest.raises(sm121probe.DisagreementError, match=r"(?s)race: .*\.py:\d+ `tl\.store"):
        torch.compile(function)(torch.arange(64, device="cuda", dtype=torch.float32), torch.arange(64, device="cuda") % 2)
