"""PyTorch with `device="cuda"` on memory of the CPU: programs written for a GPU run unchanged, their Triton kernels on the emulator."""

import importlib.util
import inspect
import threading

import pytest

import sm121probe as sm

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

SOURCE = """
import torch, triton, triton.language as tl

@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@triton.jit
def fill(table, BLOCK: tl.constexpr):
    p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(p + tl.arange(0, BLOCK), tl.full((BLOCK,), 2.0, tl.float32))

def doubled(x):
    y = torch.empty_like(x)
    twice[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return doubled(x)

    @staticmethod
    def backward(ctx, gradient):
        assert gradient.is_cuda and gradient.device.type == "cuda"
        return doubled(gradient.contiguous())
"""


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "kernels_of_torch.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("kernels_of_torch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sm.triton.reports.clear()
    sm.triton.activate("sm_120", torch=True)
    yield module
    sm.triton.deactivate()


def test_everything_is_restored():
    before = {name: value for name, value in vars(torch.cuda).items()}
    start, load = threading.Thread.start, torch.load
    generator, available = torch.Generator, torch.cuda.is_available()
    sm.triton.activate("sm_120", torch=True)
    assert torch.cuda.is_available() and torch.zeros(1, device="cuda").is_cuda
    sm.triton.activate("sm_120")
    assert torch.cuda.is_available() == available
    sm.triton.activate("sm_121", torch=True)
    assert torch.cuda.get_device_capability() == (12, 1)
    sm.triton.deactivate()
    assert threading.Thread.start is start and torch.load is load
    changed = [name for name, value in before.items() if getattr(torch.cuda, name) is not value]
    assert changed == [] and torch.Generator is generator and not torch.zeros(1).is_cuda


def test_kernels_run_on_tensors_of_cuda(kernels):
    x = torch.randn(1000, device="cuda")
    torch.testing.assert_close(kernels.doubled(x), 2 * x)
    assert len(sm.triton.reports) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "int32", "int64", "uint8"])
def test_element_types(kernels, dtype):
    x = torch.arange(100, device="cuda").to(getattr(torch, dtype))
    assert (kernels.doubled(x) == 2 * x).all()


def test_tensors_that_need_gradients_or_have_gaps(kernels):
    base = torch.randn(40, 4, device="cuda", requires_grad=True)
    y = torch.zeros(40, device="cuda")
    kernels.twice[(1,)](torch.nn.Parameter(base[:, 0].detach().contiguous()), y, 40, BLOCK=64)
    assert (y == 2 * base[:, 0]).all()
    every_second = torch.zeros(80, device="cuda")
    kernels.twice[(1,)](base.detach().reshape(-1)[5:45], every_second[::2].contiguous(), 40, BLOCK=64)
    assert not every_second.any()


def test_where_tensors_are(kernels):
    x = torch.zeros(4, device="cuda")
    assert x.device == torch.device("cuda", 0) and x.is_cuda and not x.is_cpu and x.get_device() == 0
    assert x[1:].is_cuda and x.view(2, 2).is_cuda and (x + 1).is_cuda and torch.zeros_like(x).is_cuda and x.new_empty(3).is_cuda
    assert torch.ones(2, device=x.device).is_cuda and torch.stack([x, x]).is_cuda and all(part.is_cuda for part in x.chunk(2))
    assert not torch.zeros(4).is_cuda and torch.zeros(4).device.type == "cpu" and not torch.ones(2, device="cpu").is_cuda
    with torch.device("cuda"):
        assert torch.zeros(2).is_cuda and not torch.zeros(2, device="cpu").is_cuda
    torch.set_default_device("cuda")
    try:
        assert torch.ones(2).is_cuda
    finally:
        torch.set_default_device(None)
    assert not torch.zeros(1).is_cuda


def test_a_move_is_a_copy_where_a_gpu_makes_one(kernels):
    host = torch.zeros(4)
    for moved in (host.cuda(), host.to("cuda"), host.to(device="cuda"), host.to(0), host.to(torch.zeros(1, device="cuda")), host.to("cuda", torch.float32)):
        moved.add_(1)
        assert moved.is_cuda and not host.any()
    there = torch.zeros(4, device="cuda")
    for moved in (there.cpu(), there.to("cpu"), there.to(torch.device("cpu"), torch.float32), there.to(host)):
        moved.add_(1)
        assert not moved.is_cuda and not there.any()
    for same in (there.cuda(), there.to("cuda"), there.to(there.device), there.to(torch.float32)):
        assert same.data_ptr() == there.data_ptr()
    assert there.to(torch.float16).is_cuda and not host.to(torch.float16).is_cuda


def test_modules_and_gradients(kernels):
    module = torch.nn.Linear(4, 4).cuda()
    assert all(parameter.is_cuda for parameter in module.parameters())
    module(torch.randn(2, 4, device="cuda")).sum().backward()
    assert module.weight.grad.is_cuda and module.weight.grad.device.type == "cuda"
    x = torch.randn(10, device="cuda", requires_grad=True)
    kernels.Double.apply(x).sum().backward()
    assert (x.grad == 2).all()
    (gradient,) = torch.autograd.grad(kernels.Double.apply(x).sum(), x)
    assert (gradient == 2).all()


def test_queries_streams_and_events(kernels):
    assert torch.cuda.device_count() >= 1 and "emulator" in torch.cuda.get_device_name()
    properties = torch.cuda.get_device_properties(0)
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability() == (12, 0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream), torch.cuda.device(0):
        begin.record()
        kernels.doubled(torch.zeros(10, device="cuda"))
        end.record()
    torch.cuda.synchronize()
    with pytest.warns(sm.CostWarning):
        assert begin.elapsed_time(end) == sm.triton.reports[-1].instructions * 1e-3
    assert torch.cuda.memory_allocated() == 0 and torch.cuda.mem_get_info()[0] > 0
    with pytest.raises(RuntimeError, match="invalid device ordinal 99"):
        torch.cuda.set_device(99)
    with pytest.raises(sm.UnsupportedError, match="CUDA graphs"):
        torch.cuda.CUDAGraph()


def public(kind):
    return {name for name in dir(kind) if not name.startswith("__")}


@pytest.mark.parametrize("name", ["Stream", "Event"])
def test_streams_and_events_have_what_those_of_pytorch_have(name):
    wanted = public(getattr(torch.cuda, name))
    sm.triton.activate("sm_120", torch=True)
    try:
        missing = wanted - public(getattr(torch.cuda, name)())
    finally:
        sm.triton.deactivate()
    assert not missing


#: What a machine without NVIDIA's driver tools lacks, and what is there for graphs only.
OF_NVML = {"clock_rate", "device_memory_used", "memory_usage", "power_draw", "temperature", "utilization"}


@pytest.mark.parametrize("module", ["cuda", "accelerator"])
def test_queries_without_arguments_answer_or_are_refused_by_name(kernels, module):
    owner = getattr(torch, module)
    failed = {}
    for name in dir(owner):
        function = getattr(owner, name)
        if name.startswith("_") or name in OF_NVML or not inspect.isfunction(function):
            continue
        kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
        if any(one.default is one.empty and one.kind not in kinds for one in inspect.signature(function).parameters.values()):
            continue
        try:
            function()
        except sm.UnsupportedError as error:
            assert name in str(error)
        except Exception as error:
            failed[name] = error
    assert not failed


def test_random_numbers_repeat(kernels):
    generator = torch.Generator(device="cuda")
    assert isinstance(generator, torch.Generator)
    generator.manual_seed(3)
    first = torch.randn(4, device="cuda", generator=generator)
    generator.manual_seed(3)
    assert (torch.randn(4, device="cuda", generator=generator) == first).all()
    torch.cuda.manual_seed(5)
    second = torch.randn(4, device="cuda")
    torch.manual_seed(5)
    assert (torch.randn(4, device="cuda") == second).all()


def test_threads_and_files(kernels, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        doubled = list(pool.map(lambda n: kernels.doubled(torch.full((n,), 1.0, device="cuda")), [10, 100]))
    assert all(tensor.is_cuda and (tensor == 2).all() for tensor in doubled)
    torch.save({"a": [doubled[0]]}, tmp_path / "saved.pt")
    assert torch.load(tmp_path / "saved.pt", map_location="cuda")["a"][0].is_cuda
    assert not torch.load(tmp_path / "saved.pt", map_location="cpu")["a"][0].is_cuda
    batches = list(torch.utils.data.DataLoader(torch.arange(8), batch_size=4, pin_memory=True))
    assert len(batches) == 2 and batches[0].cuda().is_cuda


def test_modules_move_by_device_and_without_cudnn(kernels):
    assert next(torch.nn.Linear(2, 2).to(torch.device("cuda:0")).parameters()).is_cuda
    assert next(torch.nn.Linear(2, 2, device="cuda").cpu().parameters()).device.type == "cpu"
    assert torch.nn.LSTM(4, 4).cuda()(torch.randn(3, 1, 4, device="cuda"))[0].is_cuda


def test_checkpoints(kernels):
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(10, device="cuda", requires_grad=True)
    checkpoint(lambda x: kernels.Double.apply(x.sin()), x, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())


def test_custom_operators(kernels):
    @torch.library.custom_op("sm121probe_test::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        y = torch.empty(x.shape, device="cuda")
        kernels.twice[(1,)](x, y, x.numel(), BLOCK=16)
        return y

    @torch.library.custom_op("sm121probe_test::only_cuda", mutates_args=("x",), device_types="cuda")
    def only_cuda(x: torch.Tensor) -> None:
        kernels.twice[(1,)](x, x, x.numel(), BLOCK=16)

    double.register_fake(torch.empty_like)
    x = torch.ones(10, device="cuda")
    assert (double(x) == 2).all() and (torch.compile(lambda x: double(x) + 1)(x) == 3).all()
    only_cuda(x)
    assert (x == 2).all()
    library = torch.library.Library("sm121probe_test_library", "DEF")
    library.define("zeros_of(Tensor x) -> Tensor")
    library.impl("zeros_of", lambda x: torch.zeros(x.shape, device="cuda"), "CUDA")
    assert torch.ops.sm121probe_test_library.zeros_of(x).is_cuda


def test_autocast(kernels):
    a = torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16


def test_products_of_fp16_are_summed_in_binary32(kernels):
    # 2048 + 1 is no fp16: a sum in fp16 stays 2048.
    a = torch.ones(1, 4096, device="cuda", dtype=torch.float16, requires_grad=True)
    b = torch.ones(4096, 1, device="cuda", dtype=torch.float16)
    products = [a @ b, torch.matmul(a, b), torch.nn.functional.linear(a, b.T), torch.mm(a, b), b.T.__rmatmul__(a.T[:1])[:, :1]]
    assert all(c.dtype == torch.float16 and c.is_cuda for c in products)
    assert [c.item() for c in products[:4]] == [4096.0] * 4
    products[0].sum().backward()
    assert a.grad.dtype == torch.float16 and (a.grad == 1).all()
    # One operand of another type is an error, as on a GPU.
    with pytest.raises(RuntimeError):
        a @ b.float()


def test_cublas_of_triton(kernels):
    nvidia = pytest.importorskip("triton._C.libtriton").nvidia
    if not hasattr(nvidia, "cublas"):
        pytest.skip("this version of Triton has no cuBLAS")
    handle = nvidia.cublas.CublasLt(torch.empty(1024, device="cuda", dtype=torch.uint8))
    a, b = torch.randn(16, 32, device="cuda").half(), torch.randn(8, 32, device="cuda").half()
    c, d = torch.empty(16, 8, device="cuda", dtype=torch.float16), torch.empty(16, 8, device="cuda", dtype=torch.float16)
    handle.matmul(a, b, c)
    assert torch.allclose(c, a @ b.T, atol=1e-2)
    handle.gemm(a, b, c, d, 2.0, 0.5)
    assert torch.allclose(d.float(), 2.5 * (a @ b.T).float(), rtol=1e-2, atol=1e-2)
    with pytest.raises(sm.UnsupportedError, match="NVFP4"):
        handle.block_scaled_matmul_nvfp4(a, b, c, a, b)


def test_profiles_of_proton(kernels, tmp_path):
    proton = pytest.importorskip("triton.profiler")
    from triton._C.libproton import proton as library

    x = torch.ones(256, device="cuda")
    with pytest.warns(sm.CostWarning, match="measures no times"):
        session = proton.start(str(tmp_path / "profile"), hook="triton")
    with proton.scope("outer", {"flops": 3.0}):
        kernels.doubled(x)
        proton.deactivate()
        kernels.doubled(x)
        proton.activate()
        with proton.scope("inner"):
            kernels.doubled(x)
    proton.finalize(session)
    import json

    root, devices = json.loads((tmp_path / "profile.hatchet").read_text())
    (outer,) = root["children"]
    assert outer["frame"]["name"] == "outer" and outer["metrics"] == {"flops": 3.0} and devices["CUDA"]["0"]["arch"] == "120"
    launched, inner = outer["children"]
    assert inner["frame"]["name"] == "inner" and inner["children"][0]["metrics"] == launched["metrics"]
    # What ran while the session was not active is not counted.
    assert launched["frame"]["name"] == "twice" and launched["metrics"]["count"] == 1
    assert launched["metrics"]["time (ns)"] == sm.triton.reports[0].instructions * 1000
    with pytest.raises(sm.UnsupportedError, match="trace"):
        proton.start(str(tmp_path / "trace"), data="trace")
    sm.triton.deactivate()
    assert library.record_scope is not sm.triton.proton.record_scope


def test_tables_of_pointers(kernels):
    parts = [torch.zeros(32, device="cuda") for _ in range(3)]
    kernels.fill[(3,)](torch.tensor([part.data_ptr() for part in parts], device="cuda"), BLOCK=32)
    assert all((part == 2).all() for part in parts)


def test_triton_knows_that_there_is_cuda(kernels):
    tools = pytest.importorskip("triton._internal_testing")
    assert tools.is_cuda() and not tools.is_hip()
    assert triton.runtime.driver.active.get_active_torch_device() == torch.device("cuda", 0)


COMPILED = {
    "pointwise": (lambda x, y: torch.sin(x) * y + 1, [(1000,), (1000,)]),
    "softmax": (lambda x: torch.softmax(x, -1), [(16, 300)]),
    "layer_norm": (lambda x, w, b: torch.nn.functional.layer_norm(x, (128,), w, b), [(16, 128), (128,), (128,)]),
    "reductions": (lambda x: (x.sum(0), x.mean(1), x.amax(), x.var(1)), [(64, 100)]),
    "scan": (lambda x: torch.cumsum(x, 1), [(8, 200)]),
    "gemm and epilogue": (lambda x, y: torch.relu(x @ y) + 1, [(32, 64), (64, 48)]),
    "devices that it names": (lambda x: x.to("cuda") + torch.arange(10, device="cuda") + torch.ones(10, device=x.device).cuda(), [(10,)]),
    "argsort": (lambda x: torch.sort(x, -1), [(4, 64)]),
    "where": (lambda x: torch.where(x > 0, x.exp(), -x), [(500,)]),
    "transpose": (lambda x: x.t().contiguous() * 2, [(33, 70)]),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_functions(kernels, name):
    function, shapes = COMPILED[name]
    args = [torch.randn(shape, device="cuda") for shape in shapes]
    before = len(sm.triton.reports)
    got = torch.compile(function)(*args)
    torch.testing.assert_close(got, function(*args), rtol=1e-4, atol=1e-4)
    assert len(sm.triton.reports) > before
    assert all(leaf.is_cuda for leaf in torch.utils._pytree.tree_leaves(got))


def test_compiled_backward_and_dynamic_shapes(kernels):
    def function(x, w):
        return torch.nn.functional.layer_norm(torch.tanh(x * w), (64,)).square().sum()

    x, w = (torch.randn(shape, device="cuda", requires_grad=True) for shape in ((8, 64), (64,)))
    wanted = torch.autograd.grad(function(x, w), (x, w))
    before = len(sm.triton.reports)
    torch.compile(function)(x, w).backward()
    torch.testing.assert_close((x.grad, w.grad), wanted, rtol=1e-4, atol=1e-4)
    assert len(sm.triton.reports) >= before + 2
    compiled = torch.compile(lambda x: torch.exp(x).sum(-1) + x.shape[0], dynamic=True)
    for n in (10, 33, 70):
        x = torch.randn(n, 50, device="cuda")
        torch.testing.assert_close(compiled(x), torch.exp(x).sum(-1) + n)


def test_a_compiled_module_and_a_kernel_within(kernels):
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU()).cuda()
    x = torch.randn(4, 16, device="cuda")
    torch.testing.assert_close(torch.compile(module)(x), module(x))
    torch.testing.assert_close(torch.compile(lambda x: kernels.doubled(x) + 1)(x), 2 * x + 1)


@pytest.mark.parametrize("mode", ["max-autotune-no-cudagraphs"])
def test_compiled_choices_follow_the_cost_model(kernels, mode):
    x = torch.randn(32, 32, device="cuda")
    torch.testing.assert_close(torch.compile(lambda x: (x @ x).relu(), mode=mode)(x), (x @ x).relu(), rtol=1e-2, atol=1e-2)


def test_a_race_of_a_compiled_function_names_the_generated_line(kernels):
    def function(x, index):
        # Which of the values remains is open: every thread stores to one of two elements.
        return torch.zeros(2, device="cuda").index_put((index,), x)

    x, index = torch.arange(64, device="cuda", dtype=torch.float32), torch.arange(64, device="cuda") % 2
    with pytest.raises(sm.DisagreementError, match=r"(?s)race: .*\.py:\d+ `tl\.store"):
        torch.compile(function)(x, index)
