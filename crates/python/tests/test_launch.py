"""Launches: results in place, verdicts, arguments, and what is wrong with them."""

import ctypes
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import sm121probe as sm
from kernels import ADD, BOX, FOREVER, HEAD, OPEN, REVERSE


@pytest.fixture(scope="module")
def add():
    return sm.Module(ADD)


def test_arrays_change_in_place(add):
    x = np.arange(1000, dtype=np.float32)
    y, z = 2 * x, np.zeros_like(x)
    report = add.launch("add", 8, 128, [x, y, z, 1000])
    assert (z == 3 * x).all() and (y == 2 * x).all()
    assert report.instructions > 8 * 4 * 15 and report.schedules == 1 and not report.violations
    add.kernels["add"]((8, 1), [128], [z, z, z, np.uint32(1000)], schedules=3)
    assert (z == 6 * x).all()


def test_kernels_tell_their_parameters(add):
    assert list(add.kernels) == ["add"]
    parameters = add.kernels["add"].parameters
    assert [(p.name, p.type, p.size) for p in parameters][-1] == ("n", "u32", 4)


def test_overlapping_arrays_are_one_piece_of_memory(add):
    x = np.arange(64, dtype=np.float32)
    want = x.copy()
    want[32:] = 2 * want[:32]
    add.launch("add", 1, 32, [x, x[:32], x[32:], 32])
    assert (x == want).all()
    # Lanes of one warp race where one reads what another writes.
    with pytest.raises(sm.DisagreementError, match="lane"):
        add.launch("add", 1, 32, [x[:32], x[32:], x[16:48], 32])


def test_a_device_keeps_memory_between_launches(add):
    device = sm.Device()
    x = device.array(np.arange(100, dtype=np.float32), name="x")
    y = device.empty(100)
    with pytest.raises(ValueError, match="400 of 400 bytes were never written"):
        y.numpy()
    device.launch(add, "add", 1, 128, [x, x, y, 100])
    device.launch(add, "add", 1, 128, [y, y, y, 100])
    assert (y.numpy() == 4 * np.arange(100)).all()
    host = np.ones(100, dtype=np.float32)
    device.launch(add, "add", 1, 128, [y, x, host, 100])
    assert (host == 5 * np.arange(100)).all()
    x.copy_from(host)
    assert (x.numpy() == host).all()
    x.free()
    with pytest.raises(sm.ViolationError, match="use_after_free"):
        device.launch(add, "add", 1, 128, [x, y, y, 100])
    with pytest.raises(ValueError, match="freed"):
        x.numpy()


def test_what_nobody_wrote_stays_unwritten(add):
    device = sm.Device()
    x, y = device.empty(32), device.empty(32)
    # To copy such values is no violation; what comes of them is as unwritten as they are.
    device.launch(add, "add", 1, 32, [x, x, y, 32])
    with pytest.raises(ValueError, match="^128 of 128 bytes are undefined: `add` computed them from unwritten memory$"):
        y.numpy()
    host = np.zeros(32, np.float32)
    with pytest.raises(sm.ViolationError) as caught:
        device.launch(add, "add", 1, 32, [x, x, host, 32])
    assert caught.value.violation.rule == "uninitialised" and not host.any()


def test_a_violation_names_rule_line_and_thread(add):
    x, z = np.zeros(100, np.float32), np.zeros(50, np.float32)
    with pytest.raises(sm.ViolationError) as caught:
        add.launch("add", 1, 128, [x, x, z, 100])
    found = caught.value.violation
    assert (found.rule, found.place.kernel, found.place.warp, found.place.lane) == ("out_of_bounds", "add", 1, 18)
    assert found.place.instruction == "st.global.f32 [r], f;"
    assert ADD.splitlines()[found.place.line - 1].rstrip().endswith("st.global.f32 [r], f;")
    assert not z.any()


def test_a_race_is_found_and_its_twin_is_not():
    out = np.zeros(64, np.uint32)
    with pytest.raises(sm.ViolationError) as caught:
        sm.Module(REVERSE.replace("BARRIER", "")).launch("reverse", 1, 64, [out])
    violation = caught.value.violation
    assert violation.rule == "race"
    # Both sides: the write, and the read of the other warp, which went first.
    other = violation.other
    assert violation.place.instruction.startswith("st.shared") and other.place.instruction.startswith("ld.shared")
    assert not other.wrote and other.place.warp != violation.place.warp
    assert str(violation.other.place) in str(violation) and str(violation.other.place) in str(caught.value)
    with pytest.raises(sm.DisagreementError) as caught:
        sm.Module(REVERSE.replace("BARRIER", "")).launch("reverse", 1, 64, [out], rules="values")
    assert [v.rule for v in caught.value.violations][:1] == ["race"]
    assert not out.any()
    report = sm.Module(REVERSE.replace("BARRIER", "bar.sync 0;")).launch("reverse", 1, 64, [out], rules="values")
    assert (report.schedules, report.poisons, report.violations) == (4, 2, [])
    assert (out == np.arange(64)[::-1]).all()


def test_what_a_launch_leaves_out_is_reported(add):
    x, z = np.ones(32, np.float32), np.zeros(32, np.float32)
    report = add.launch("add", 1, 32, [x, x.copy(), z, 32])
    assert report.omissions == []
    # No thread has an element: nothing is read and nothing is written.
    report = add.launch("add", 1, 32, [x, x.copy(), z, 0])
    assert [said.endswith("was never read by any launch") for said in report.omissions] == [True] * 3


def test_the_profile_counts(add):
    x = np.zeros(1024, np.float32)
    report = add.launch("add", 8, 128, [x, x, x, 1024], profile=True)
    assert report.profile.global_loads.bytes == 2 * 4096 and report.profile.global_loads.excess == 0
    assert ("add.f32", 32, 1024) in report.profile.instructions


def test_a_tensor_map_over_an_array():
    table = np.arange(64 * 40, dtype=np.uint32).reshape(40, 64)
    out = np.zeros((8, 16), np.uint32)
    tensor_map = sm.TensorMap(table, (8, 16))
    module = sm.Module(BOX)
    module.launch("box", 1, 64, [tensor_map, out, 32, 5], schedules=3)
    assert (out == table[5:13, 32:48]).all()
    module.launch("box", 1, 64, [tensor_map, out, 56, 36])
    assert (out[:4, :8] == table[36:, 56:]).all() and not out[4:].any() and not out[:, 8:].any()
    device = sm.Device()
    module.launch("box", 1, 64, [sm.TensorMap(device.array(table), (8, 16)), out, 0, 0], device=device)
    assert (out == table[:8, :16]).all()
    with pytest.raises(ValueError, match="cannot be encoded"):
        sm.TensorMap(table, (8, 16), strides=(17,))
    with pytest.raises(ValueError, match="`3b` is not a swizzle"):
        sm.TensorMap(table, (8, 16), "3b")
    image = np.zeros((2, 4, 6, 8), np.float32)
    assert sm.TensorMap(image, (8,), "32B", im2col=((-1, 0), (-1, 0), 16)).span == image.nbytes
    for box, walk, said in (
        ((8,), ((-1,), (-1, 0), 16), "a corner of 1 coordinates; a tensor of rank 4 has 2"),
        ((8,), ((5, 0), (-1, 0), 16), "bounding box is empty"),
        ((8,), ((0, 0), (0, 0), 2000), "2000 pixels"),
        ((6, 8), ((0, 0), (0, 0), 16), "the box of an im2col map is one number"),
    ):
        with pytest.raises(ValueError, match=said):
            sm.TensorMap(image, box, im2col=walk)


def test_structs_are_passed_by_value():
    text = HEAD + """
.visible .entry pick(.param .align 8 .b8 s[16], .param .u64 out)
{
 .reg .b64 p; .reg .b32 a;
 ld.param.u32 a, [s+8]; ld.param.u64 p, [out]; st.global.u32 [p], a;
 ret;
}
"""

    class Pair(ctypes.Structure):
        _fields_ = [("address", ctypes.c_uint64), ("number", ctypes.c_uint32)]

    out = np.zeros(1, np.uint32)
    module = sm.Module(text)
    module.launch("pick", 1, 1, [Pair(1, 77), out])
    assert out[0] == 77
    module.launch("pick", 1, 1, [b"\0" * 8 + b"\5\0\0\0" + b"\0" * 4, out])
    assert out[0] == 5
    with pytest.raises(ValueError, match="15 bytes for a parameter of 16"):
        module.launch("pick", 1, 1, [b"\0" * 15, out])


class Foreign:
    """An array that has nothing but DLPack, as tensors of PyTorch."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __setitem__(self, at, value):
        self.array[at] = value


def test_dlpack_is_enough(add):
    x = np.arange(32, dtype=np.float32)
    z = np.zeros(64, np.float32)
    add.launch("add", 1, 32, [Foreign(x), Foreign(x), Foreign(z[32:]), 32])
    assert (z[32:] == 2 * x).all() and not z[:32].any()


class OnGpu(Foreign):
    def __dlpack_device__(self):
        return (2, 0)


@pytest.mark.parametrize(
    ("args", "kind", "says"),
    [
        (lambda x: [x, x, x], TypeError, "takes 4 arguments, not 3"),
        (lambda x: [x, x, x, 1 << 40], OverflowError, "argument 3 of add (`n`): 1099511627776 does not fit into 4 bytes"),
        (lambda x: [x, x, x, -(1 << 31) - 1], OverflowError, "does not fit"),
        (lambda x: [x, x, x, 1.5], TypeError, "a float does not fit 4 bytes of .u32"),
        (lambda x: [x, x, x, np.float64(1)], ValueError, "8 bytes for a parameter of 4"),
        (lambda x: [x[::2], x, x, 1], ValueError, "not contiguous"),
        (lambda x: [x[::-1], x, x, 1], ValueError, "negative stride"),
        (lambda x: ["x", x, x, 1], TypeError, "cannot be an argument"),
        (lambda x: [x, x, x, x], TypeError, "the parameter has 4 bytes"),
        (lambda x: [x.astype(complex), x, x, 1], TypeError, "complex128"),
        (lambda x: [x.astype(">f4"), x, x, 1], TypeError, "cannot be arguments"),
        (lambda x: [OnGpu(x), x, x, 1], ValueError, "not in the memory of the CPU"),
        (lambda x: [sm.TensorMap(x, (16,)), x, x, 1], TypeError, "a tensor map has 128 bytes"),
    ],
)
def test_arguments_that_do_not_fit(add, args, kind, says):
    with pytest.raises(kind) as caught:
        add.launch("add", 1, 32, args(np.zeros(32, np.float32)))
    assert says in str(caught.value)


def test_calls_that_make_no_sense(add):
    x = np.zeros(32, np.float32)
    read_only = x.copy()
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        add.launch("add", 1, 32, [x + 1, x, read_only, 32])
    add.launch("add", 1, 32, [read_only, x, x, 32])
    for options in ({"schedules": 0}, {"poisons": 0}, {"rules": "lax"}, {"smem": 1 << 20}, {"cluster": 32}):
        with pytest.raises(ValueError):
            add.launch("add", 1, 32, [x, x, x, 32], **options)
    for grid in (0, (1, 2, 3, 4), -1, 1 << 32):
        with pytest.raises(ValueError, match="one to three positive numbers"):
            add.launch("add", grid, 32, [x, x, x, 32])
    with pytest.raises(ValueError):
        add.launch("add", 1, 2048, [x, x, x, 32])
    with pytest.raises(KeyError, match="no kernel `sub`; its kernels: add"):
        add.launch("sub", 1, 32, [])
    with pytest.raises(sm.LaunchError, match=r"expected"):
        sm.Module(ADD.replace("ld.param.u64 p, [a];", "ld.param.u64 p, [a"))
    with pytest.raises(ValueError, match="neither PTX"):
        sm.Module("kernel.txt")
    with pytest.raises(FileNotFoundError):
        sm.Module("nowhere.ptx")
    with pytest.raises(ValueError, match="names its own target"):
        sm.Module(ADD, "sm_90a")
    with pytest.raises(sm.UnsupportedError, match="wgmma"):
        sm.Module(ADD.replace(".target sm_120", ".target sm_90a").replace("add.f32 f, f, g;", "wgmma.fence.sync.aligned;")).launch("add", 1, 1, [x, x, x, 1])


def test_empty_arrays_and_null_pointers(add):
    x, empty = np.ones(4, np.float32), np.zeros(0, np.float32)
    add.launch("add", 1, 32, [empty, None, empty, 0])
    with pytest.raises(sm.ViolationError, match="out_of_bounds"):
        add.launch("add", 1, 32, [None, x, x, 1])


def test_threads_launch_at_once(add):
    results = [np.zeros(256, np.float32) for _ in range(8)]
    x = np.arange(256, dtype=np.float32)

    def work(n):
        for _ in range(5):
            add.launch("add", 2, 128, [x, np.full(256, n, np.float32), results[n], 256])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all((results[n] == x + n).all() for n in range(8))


def test_an_interrupt_ends_a_long_launch():
    program = "import sm121probe, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nfrom kernels import FOREVER\nm = sm121probe.Module(FOREVER)\nprint('ready', flush=True)\ntry:\n    m.launch('forever', 1, 32)\nexcept KeyboardInterrupt:\n    sys.exit(42)\n"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=os.path.dirname(__file__))
    assert child.stdout.readline() == b"ready\n"
    import time

    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 42


def open_sums():
    x = np.random.default_rng(1).standard_normal((32, 3)).astype(np.float32)
    once = (x[:, 0].astype(np.float64) * x[:, 1] + x[:, 2]).astype(np.float32)
    twice = x[:, 0] * x[:, 1] + x[:, 2]
    return x, once, twice


def test_contraction_is_chosen():
    module, (x, once, twice) = sm.Module(OPEN), open_sums()
    y = np.zeros(32, np.float32)
    for contract, want in (("off", twice), ("on", once)):
        report = module.launch("open", 1, 32, [x, y], contract=contract)
        assert (y == want).all() and report.undetermined is None
    device = sm.Device()
    z = device.array(y)
    device.launch(module, "open", 1, 32, [device.array(x), z], contract="off")
    assert (z.numpy() == twice).all()
    with pytest.raises(ValueError, match="none of off, on, as-ptxas"):
        module.launch("open", 1, 32, [x, y], contract="maybe")


def test_ptxas_is_asked_what_it_contracts():
    module, (x, once, _) = sm.Module(OPEN), open_sums()
    y = np.zeros(32, np.float32)
    try:
        report = module.launch("open", 1, 32, [x, y], contract="as-ptxas")
    except sm.ToolkitError as error:
        assert "needs a ptxas" in str(error)
    else:
        assert (y == once).all() and report.undetermined is None


def test_what_ptx_leaves_open_is_named(add):
    module, (x, once, twice) = sm.Module(OPEN), open_sums()
    y = np.zeros(32, np.float32)
    (found,) = module.launch("open", 1, 32, [x, y], rules="values").undetermined
    first = int(np.flatnonzero(once != twice)[0])
    assert (y == twice).all()
    assert (found.differing, found.elements, found.index) == (int((once != twice).sum()), 32, (first,))
    assert np.float32(found.separate) == twice[first] and np.float32(found.contracted) == once[first]
    assert str(found).startswith("undetermined by PTX: ")
    # Zeros round once or twice alike; a kernel without a product leaves nothing open.
    assert module.launch("open", 1, 32, [np.zeros_like(x), y], rules="values").undetermined == []
    assert add.launch("add", 1, 32, [y, y, y, 32], rules="values").undetermined is None


def test_what_launches_keep_does_not_hide_what_ptx_leaves_open():
    module, (x, once, twice) = sm.Module(OPEN), open_sums()
    y = np.zeros(32, np.float32)
    for _ in range(2):
        module.launch("open", 1, 32, [x, y], rules="values", contract="on")
        assert (y == once).all()
        (found,) = module.launch("open", 1, 32, [x, y], rules="values").undetermined
        assert (y == twice).all() and found.differing == int((once != twice).sum())


def test_reports_of_equal_launches_are_apart(add):
    y = np.zeros(32, np.float32)
    first, second = (add.launch("add", 1, 32, [y, y, y, 32]) for _ in range(2))
    assert first == second and first is not second
    first.violations.append("changed")
    assert second.violations == [] and add.launch("add", 1, 32, [y, y, y, 32]).violations == []


def test_fuel_ends_a_launch():
    with pytest.raises(sm.ViolationError, match="fuel: more than 1000 instructions"):
        sm.Module(FOREVER).launch("forever", 1, 32, fuel=1000)


def test_forked_processes_launch_too(add):
    x = np.ones(32, np.float32)
    add.launch("add", 1, 32, [x, x, x, 32])
    child = os.fork()
    if child == 0:
        y = np.zeros(32, np.float32)
        try:
            add.launch("add", 1, 32, [x, x, y, 32])
            os._exit(0 if (y == 4).all() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_print_in_order():
    text = HEAD + """
.extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 list);
.global .align 1 .b8 words[7] = {104, 105, 32, 37, 100, 10, 0};
.visible .entry say()
{
 .local .align 8 .b8 frame[8];
 .reg .b64 f, l; .reg .b32 i;
 mov.u32 i, %tid.x;
 st.local.u32 [frame], i;
 mov.u64 l, frame; cvta.local.u64 l, l;
 mov.u64 f, words; cvta.global.u64 f, f;
 { .param .b64 a; .param .b64 b; .param .b32 r;
 st.param.b64 [a], f; st.param.b64 [b], l;
 call.uni (r), vprintf, (a, b); }
 ret;
}
"""
    assert sm.Module(text).launch("say", 1, 3).printed == "hi 0\nhi 1\nhi 2\n"


def test_a_number_of_schedules_needs_no_memory():
    racy = sm.Module(REVERSE.replace("BARRIER", ""))
    # An early schedule already differs: the others are not even listed.
    for schedules in (1 << 31, (1 << 64) - 1):
        with pytest.raises(sm.DisagreementError):
            racy.launch("reverse", 1, 64, [np.zeros(64, np.uint32)], rules="values", schedules=schedules)
