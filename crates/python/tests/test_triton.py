"""Triton's driver: what `activate` sets holds for every kernel that is launched afterwards, and a launch takes what Triton's own takes."""

import importlib.util
import warnings

import numpy as np
import pytest

import sm121probe as sm

triton = pytest.importorskip("triton")
tl = triton.language
Tensor = sm.triton.Tensor

SOURCE = """
import triton, triton.language as tl

@triton.jit
def racy(out):
    tl.store(out, tl.load(out) + 1)

@triton.jit
def both(pair, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(pair[1] + i, tl.load(pair[0] + i, mask=i < n) + pair[2], mask=i < n)

@triton.jit
def put16(x, v: tl.float16): tl.store(x, v)
@triton.jit
def putb16(x, v: tl.bfloat16): tl.store(x, v)
@triton.jit
def put32(x, v: tl.float32): tl.store(x, v)
@triton.jit
def put64(x, v: tl.float64): tl.store(x, v)
@triton.jit
def putu8(x, v: tl.uint8): tl.store(x, v)
@triton.jit
def puti8(x, v: tl.int8): tl.store(x, v)
@triton.jit
def puti64(x, v: tl.int64): tl.store(x, v)
@triton.jit
def puti1(x, v: tl.int1): tl.store(x, v.to(tl.int32))

@triton.jit
def shift(x):
    tl.store(x, tl.load(x) >> 31)

@triton.jit
def copy(x, y):
    y.store([0, 0], x.load([0, 0]))

@triton.jit
def sum_descriptors(pair, y, ROWS: tl.constexpr):
    y.store([0, 0], pair[0].load([8, 0]) + pair[1].load([0, 0]))

@triton.jit
def fill(table, value, BLOCK: tl.constexpr):
    p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(p + tl.arange(0, BLOCK), tl.full((BLOCK,), 1.0, tl.float32) * value)

@triton.jit
def optional(x, bias, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    if bias is not None:
        v += tl.load(bias + i)
    tl.store(x + i, v)

@triton.jit
def one_of_two_writes(x):
    i = tl.arange(0, 64)
    tl.store(x + i // 2, i // 2)

@triton.jit
def show(x, BLOCK: tl.constexpr):
    tl.device_print("value", tl.load(x + tl.arange(0, BLOCK)))

@triton.jit(debug=True)
def check(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.device_assert(v < 31, "v must be less than 31")

@triton.jit
def wait(flag):
    while tl.atomic_add(flag, 0) == 0: pass

@triton.jit
def count(x, n):
    for _ in range(n):
        tl.atomic_add(x, 1)

@triton.jit
def ticket(counter, mine):
    tl.store(mine + tl.program_id(0), tl.atomic_add(counter, 1))

@triton.jit
def locked(data, lock):
    while tl.atomic_cas(lock, 0, 1) == 1: pass
    tl.store(data, tl.load(data) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)

@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 128})], key=["n"], reset_to_zero=["x"])
@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
"""

IR = """
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, "ttg.target" = "cuda:120"} {
  tt.func public @seven(%x: !tt.ptr<i32> {tt.divisibility = 16 : i32}) attributes {noinline = false} {
    %c = arith.constant 7 : i32
    tt.store %x, %c : !tt.ptr<i32>
    tt.return
  }
}"""


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "kernels_of_triton.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("kernels_of_triton", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sm.triton.reports.clear()
    sm.triton.activate("sm_120")
    yield module
    sm.triton.deactivate()


@pytest.fixture
def racy(kernels):
    return kernels.racy


def target(kernel):
    return next(line for line in kernel.asm["ptx"].splitlines() if line.startswith(".target")).split()[1]


def test_a_second_activation_holds_for_kernels_that_ran(racy):
    out = Tensor(np.zeros(1, np.float32))
    first = racy[(1,)](out)
    assert target(first).startswith("sm_120")
    with pytest.raises(sm.DisagreementError, match="take turns at the race"):
        racy[(8,)](out)
    sm.triton.activate("sm_90", rules="strict")
    for kernel in (racy, first):
        with pytest.raises(sm.ViolationError, match="race"):
            kernel[(8, 1, 1)](out)
    sm.triton.activate("sm_90", schedules=3)
    second = racy[(1,)](out)
    assert target(second).startswith("sm_90") and sm.triton.reports[-1].schedules == 3
    sm.triton.activate("sm_120")
    assert target(racy[(1,)](out)).startswith("sm_120")
    sm.triton.deactivate()
    with pytest.raises(RuntimeError):
        first[(1, 1, 1)](out)


def test_buffers_of_another_device_are_refused(racy):
    kernel = racy[(1,)](Tensor(np.zeros(1, np.float32)))
    device = sm.Device()
    x = device.array(np.zeros(1, np.float32))
    sm.triton.launch(kernel, (1,), x, device=device)
    assert x.numpy()[0] == 1
    for other in (sm.Device(), None):
        with pytest.raises(ValueError, match="device"):
            sm.triton.launch(kernel, (1,), x, device=other)


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="no option schedule;"):
        sm.triton.activate("sm_120", schedule=3)
    for seconds in (0, -1, float("nan")):
        sm.triton.activate("sm_120", seconds=seconds)
        sm.triton.deactivate()


def test_tuples_are_flattened(kernels):
    a, b = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    kernels.both[(1,)]((Tensor(a), Tensor(b), 2.5), 31, BLOCK=32)
    assert (b[:31] == a[:31] + 2.5).all() and b[31] == 0


@pytest.mark.parametrize(
    "name, dtype, value, stored",
    [
        ("put16", np.float32, 1.5, 1.5),
        ("put16", np.float32, 0.1, float(np.float16(0.1))),
        # Cut off, not rounded.
        ("putb16", np.float32, 1.00781, 1.0),
        ("put32", np.float32, 3, 3.0),
        ("put32", np.float32, 1e300, np.inf),
        ("put64", np.float64, 0.1, 0.1),
        ("putu8", np.int32, 200, 200),
        ("puti8", np.int32, -3, -3),
        ("puti64", np.int64, -(1 << 40), -(1 << 40)),
        ("puti1", np.int32, True, 1),
        ("puti1", np.int32, 1, 1),
    ],
)
def test_numbers_have_the_types_of_the_signature(kernels, name, dtype, value, stored):
    x = np.zeros(1, dtype)
    getattr(kernels, name)[(1,)](Tensor(x), value)
    assert x[0] == stored


@pytest.mark.parametrize("name, value, error", [("putu8", -1, OverflowError), ("put16", 1e6, OverflowError)])
def test_numbers_that_do_not_fit_are_refused_by_name(kernels, name, value, error):
    with pytest.raises(error, match="argument `v` has the type"):
        getattr(kernels, name)[(1,)](Tensor(np.zeros(1, np.float32)), value)


def test_a_reinterpreted_tensor_is_its_tensor(kernels):
    x = np.array([-1], np.int32)
    kernels.shift[(1,)](triton.reinterpret(Tensor(x), tl.uint32))
    assert x[0] == 1


def test_host_descriptors(kernels):
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")
    a, b = np.arange(1024, dtype=np.float32).reshape(32, 32), np.zeros((32, 32), np.float32)
    described = [descriptors.TensorDescriptor.from_tensor(Tensor(x), [32, 32]) for x in (a, b)]
    kernels.copy[(1,)](*described)
    assert (a == b).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16"])
def test_host_descriptors_of_every_element_type(kernels, dtype):
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    # The tensor is smaller than the box: what lies outside is filled by element.
    a, b = np.arange(24 * 32).reshape(24, 32).astype(dtype), np.ones((32, 32), dtype)
    make = descriptors.TensorDescriptor.from_tensor
    kernels.copy[(1,)](make(Tensor(a), [32, 32]), make(Tensor(b), [32, 32]))
    assert (b[:24] == a).all() and not b[24:].any()


def test_host_descriptors_in_tuples_and_their_padding(kernels):
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")
    make = descriptors.TensorDescriptor.from_tensor
    a, b, out = np.ones((12, 16), np.float32), np.ones((16, 16), np.float32), np.zeros((8, 16), np.float32)
    padded = "padding" in descriptors.TensorDescriptor.__dataclass_fields__
    options = {"padding": "nan"} if padded else {}
    kernels.sum_descriptors[(1,)]((make(Tensor(a), [8, 16], **options), make(Tensor(b), [8, 16])), make(Tensor(out), [8, 16]), ROWS=8)
    assert (out[:4] == 2).all()
    assert np.isnan(out[4:]).all() if padded else (out[4:] == 1).all()


def test_tables_of_pointers_reach_their_tensors(kernels):
    parts = [Tensor(np.zeros(32, np.float32)) for _ in range(3)]
    table = Tensor(np.array([part.data_ptr() for part in parts]))
    kernels.fill[(3,)](table, 2.0, BLOCK=32)
    assert all((part.array == 2).all() for part in parts)
    # A part of the larger memory, whose other parts stay.
    whole = Tensor(np.zeros(64, np.float32))
    kernels.fill[(1,)](Tensor(np.array([whole.data_ptr() + 64])), 3.0, BLOCK=32)
    assert (whole.array[16:48] == 3).all() and not whole.array[:16].any() and not whole.array[48:].any()
    with pytest.raises(sm.ViolationError, match="out_of_bounds"):
        kernels.fill[(1,)](Tensor(np.array([whole.data_ptr() + 192])), 3.0, BLOCK=32)
    gone = np.zeros(1 << 20, np.float32)
    with pytest.raises(sm.ViolationError, match="argument `table` holds 0x.* belongs to no tensor that is alive"):
        kernels.fill[(1,)](Tensor(np.array([gone.ctypes.data])), 2.0, BLOCK=32)


def test_none_is_no_argument(kernels):
    x, bias = np.ones(32, np.float32), np.ones(32, np.float32)
    kernels.optional[(1,)](Tensor(x), None, BLOCK=32)
    kernels.optional[(1,)](Tensor(x), Tensor(bias), BLOCK=32)
    assert (x == 2).all()


def test_views_keep_their_gaps(kernels):
    base = np.arange(64, dtype=np.float32)
    y = np.zeros(32, np.float32)
    kernels.both[(1,)]((Tensor(base[7:39]), Tensor(y), 0.0), 32, BLOCK=32)
    assert (y == base[7:39]).all()


@pytest.mark.parametrize("ext", ["ttgir", "ptx"])
def test_kernels_from_ir(kernels, tmp_path, ext):
    path = tmp_path / f"seven.{ext}"
    if ext == "ttgir":
        path.write_text(IR)
        kernel = triton.compile(str(path))
    else:
        (tmp_path / "seven.ttgir").write_text(IR)
        compiled = triton.compile(str(tmp_path / "seven.ttgir"))
        path.write_text(compiled.asm["ptx"])
        try:
            kernel = triton.compile(str(path))
        except Exception as error:
            pytest.skip(f"this Triton does not compile PTX: {error}")
    x = np.zeros(1, np.int32)
    kernel[(1, 1, 1)](Tensor(x))
    assert x[0] == 7


def test_hooks_see_every_launch(kernels):
    seen = []
    knobs = pytest.importorskip("triton.knobs").runtime
    add = getattr(knobs.launch_enter_hook, "add", None)
    if add is None:
        pytest.skip("this Triton has one hook only")
    enter, leave = (lambda metadata: seen.append(("enter", metadata.get()["name"]))), (lambda metadata: seen.append(("exit", None)))
    knobs.launch_enter_hook.add(enter)
    knobs.launch_exit_hook.add(leave)
    try:
        kernels.shift[(1,)](Tensor(np.zeros(1, np.int32)))
        kernels.shift[(0,)](Tensor(np.zeros(1, np.int32)))
    finally:
        knobs.launch_enter_hook.remove(enter)
        knobs.launch_exit_hook.remove(leave)
    assert seen == [("enter", "shift"), ("exit", None)] * 2 and len(sm.triton.reports) == 1


def test_registers_are_those_of_ptxas(kernels):
    kernel = kernels.shift.warmup(triton.reinterpret(Tensor(np.zeros(1, np.int32)), tl.uint32), grid=(1,))
    kernel._init_handles()
    assert 4 <= kernel.n_regs <= 255 and kernel.n_spills == 0
    with pytest.raises(sm.LaunchError, match="no cubin"):
        sm.triton.driver.registers_and_spills(b"nothing", "shift")


def test_a_race_without_effect_is_one_warning_at_its_line(kernels, monkeypatch, tmp_path):
    # A kernel in the cache may have the lines of a file that is gone.
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    x = Tensor(np.zeros(1, np.int32))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            kernels.shift[(1,)](x)
    found = [one for one in found if issubclass(one.category, sm.RaceWarning)]
    places = {one.lineno for one in found}
    # Every warp loads what one of them stores: Triton needs no barrier for the same value.
    assert found and len(found) == len({str(one.message) for one in found}) <= 4 and len(sm.triton.reports) == 3
    assert all(one.filename.endswith("kernels_of_triton.py") for one in found) and places


def test_output_is_printed(kernels, capsys):
    kernels.show[(1,)](Tensor(np.arange(32, dtype=np.int32)), BLOCK=32, num_warps=1)
    assert len([line for line in capsys.readouterr().out.splitlines() if "value" in line]) == 32


def test_an_assertion_is_a_runtime_error(kernels):
    with pytest.raises(RuntimeError, match="v must be less than 31"):
        kernels.check[(1,)](Tensor(np.arange(32, dtype=np.int32)), BLOCK=32, num_warps=1)


def test_what_waits_for_ever_ends(kernels):
    with pytest.raises(sm.ViolationError, match="deadlock"):
        kernels.wait[(1,)](Tensor(np.zeros(1, np.int32)))
    sm.triton.activate("sm_120", seconds=0.2)
    with pytest.raises(sm.ViolationError, match="more than 0.2 s") as error:
        kernels.count[(1,)](Tensor(np.zeros(1, np.int32)), 2_000_000_000)
    assert error.value.violation.rule == "fuel"


def test_a_spin_lock_ends_and_tickets_are_recorded(kernels):
    data, lock = np.zeros(1, np.float32), np.zeros(1, np.int32)
    kernels.locked[(8,)](Tensor(data), Tensor(lock))
    assert data[0] == 8
    mine = np.zeros(8, np.int32)
    kernels.ticket[(8,)](Tensor(np.zeros(1, np.int32)), Tensor(mine))
    assert sorted(mine) == list(range(8)) and sm.triton.reports[-1].nondeterministic is not None


def test_reports_are_bounded(kernels, monkeypatch):
    monkeypatch.setattr(sm.triton.Reports, "limit", 3)
    for _ in range(5):
        kernels.optional[(1,)](Tensor(np.zeros(32, np.float32)), None, BLOCK=32)
    assert len(sm.triton.reports) == 3


def test_autotuning_takes_the_fewest_instructions(kernels):
    x = Tensor(np.zeros(1000, np.float32))
    with pytest.warns(sm.CostWarning, match="measures no times"):
        kernels.add_one[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, 1000)
    assert (x.array == 1).all() and kernels.add_one.best_config.kwargs["BLOCK"] == 128
    # What was benchmarked is in no report.
    assert len(sm.triton.reports) == 1
    import triton.testing as testing

    def call():
        kernels.optional[(4,)](x, None, BLOCK=32)

    with pytest.warns(sm.CostWarning):
        mean, three = testing.do_bench(call), testing.do_bench(call, quantiles=[0.5, 0.2, 0.8])
        graph = testing.do_bench_cudagraph(call)
        nothing = testing.do_bench(lambda: None)
    assert mean == graph == three[0] > nothing > 0 and len(three) == 3


def test_the_device_that_triton_asks_for(kernels):
    from triton.runtime import driver

    active = driver.active
    assert active.get_current_target().arch == 120 and active.get_device_capability() == (12, 0)
    assert active.utils.get_device_properties(active.get_current_device())["max_shared_mem"] == 101_376
    number = active.get_current_device()
    sm.triton.activate("sm_90")
    other = driver.active
    assert other.get_current_device() != number
    assert other.utils.get_device_properties(other.get_current_device())["max_shared_mem"] == 232_448


GLUON = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper

@gluon.jit
def copy(x, y, n, B: gl.constexpr):
    i = gl.arange(0, B, gl.BlockedLayout([1], [32], [4], [0]))
    gl.store(y + i, gl.load(x + i, mask=i < n), mask=i < n)

@gluon.jit
def product(x):
    s = gl.allocate_shared_memory(gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16, 2))
    c = gl.zeros([64, 64], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
    d = hopper.warpgroup_mma(s, s, c, is_async=False)
    b: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    i = gl.arange(0, 64, gl.SliceLayout(1, b))[:, None] * 64 + gl.arange(0, 64, gl.SliceLayout(0, b))[None, :]
    gl.store(x + i, gl.convert_layout(d, b))

@gluon.jit
def stored(x):
    b: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[0]])
    i = gl.arange(0, 128, b)
    s = gl.allocate_shared_memory(gl.int32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[[0]]))
    done = hopper.mbarrier.allocate_mbarrier()
    hopper.mbarrier.init(done, count=1)
    hopper.mbarrier.expect(done, 512)
    hopper.async_store(s, i, done)
    hopper.mbarrier.wait(done, phase=0)
    gl.store(x + i, s.load(b))
"""


def test_gluon_and_what_sm12x_lacks(kernels, tmp_path):
    gluon = pytest.importorskip("triton.experimental.gluon.language.nvidia.hopper")
    if not hasattr(gluon, "warpgroup_mma"):
        pytest.skip("this Gluon has no wgmma")
    path = tmp_path / "kernels_of_gluon.py"
    path.write_text(GLUON)
    spec = importlib.util.spec_from_file_location("kernels_of_gluon", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    module.copy[(1,)](Tensor(x), Tensor(y), 100, B=128)
    assert (x == y).all()
    with pytest.raises(sm.UnsupportedError, match="wgmma of sm_90a, which sm_120 lacks"):
        module.product[(1,)](Tensor(np.zeros((64, 64), np.float32)))
    if hasattr(gluon, "async_store"):
        # Later versions of Triton may compile it.
        try:
            module.stored.warmup(Tensor(np.zeros(128, np.int32)), grid=(1,), num_ctas=2)
        except sm.UnsupportedError as error:
            assert "`ttng.async_shared_store`, the instruction st.async, which this version of Triton does not compile for sm_120" in str(error)


IM2COL = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

@gluon.jit
def pixels(image, out, PIXELS: gl.constexpr, CHANNELS: gl.constexpr):
    block = gl.allocate_shared_memory(image.dtype, [PIXELS, CHANNELS], image.layout)
    barrier = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(barrier, count=1)
    mbarrier.expect(barrier, image.block_type.nbytes)
    tma.async_load_im2col(image, [0, -1, 0, 0], [0, 0], barrier, block)
    mbarrier.wait(barrier, phase=0)
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, PIXELS, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, CHANNELS, layout=gl.SliceLayout(0, layout))[None, :]
    gl.store(out + rows * CHANNELS + columns, block.load(layout))
"""


def test_im2col_descriptors(kernels, tmp_path):
    hopper = pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
    if not hasattr(hopper, "TensorDescriptorIm2Col"):
        pytest.skip("this Triton has no im2col descriptors")
    from triton.experimental.gluon import language as gl

    path = tmp_path / "kernels_of_im2col.py"
    path.write_text(IM2COL)
    spec = importlib.util.spec_from_file_location("kernels_of_im2col", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    image = np.arange(4 * 6 * 8, dtype=np.float32).reshape(1, 4, 6, 8)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=32, element_bitwidth=32, rank=2)
    # The box has a row of padding above the image and lacks the last row: it is not the same in both dimensions.
    corners = {"pixel_box_lower_corner": [-1, 0], "pixel_box_upper_corner": [-1, 0]}
    descriptor = hopper.TensorDescriptorIm2Col.from_tensor(Tensor(image), [16, 8], layout, **corners)
    out = np.full((16, 8), -1, np.float32)
    module.pixels[(1,)](descriptor, Tensor(out), PIXELS=16, CHANNELS=8, num_warps=4)
    assert (out == np.concatenate([np.zeros((6, 8)), image.reshape(24, 8)[:10]])).all()
