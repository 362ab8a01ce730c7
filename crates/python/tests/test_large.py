"""Large arrays: a launch reads them where they lie, and copies the pages that it writes."""

import subprocess
import sys

import numpy as np
import pytest

import sm121probe as sm
from kernels import ADD, HEAD

#: Elements of an array that is read in place.
LARGE = 1 << 19

#: Copies the word in the middle of 256 MiB.
PICK = HEAD + """
.visible .entry pick(.param .u64 x, .param .u64 y) {
.reg .b64 %x, %y;
.reg .b32 %v;
ld.param.u64 %x, [x];
ld.param.u64 %y, [y];
ld.global.u32 %v, [%x+134217728];
add.u32 %v, %v, 1;
st.global.u32 [%y], %v;
ret;
}
"""

#: What 256 MiB add to the most memory that the process has had, in MiB.
PEAK = """
import resource, sys
import numpy as np
import sm121probe as sm
from kernels import ADD
from test_large import PICK

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

pick, device = sm.Module(PICK), sm.Device()
x, y = np.full(1 << 26, 6, np.uint32), np.zeros(1, np.uint32)
large = device.array(x) if sys.argv[1] == "device" else x
before = peak()
for options in ({}, {"schedules": 4}, {"rules": "values"}):
    device.launch(pick, "pick", 1, 1, [large, y], **options)
    assert y[0] == 7
    device.launch(pick, "pick", 1, 1, [large, large], **options)
print(peak() - before)
if sys.argv[1] == "device":
    x = large.numpy()
assert x[0] == 7 and (x[1:] == 6).all()
"""


@pytest.mark.parametrize("kind", ["array", "device"])
def test_no_launch_copies_what_it_does_not_write(kind):
    run = subprocess.run(
        [sys.executable, "-c", PEAK, kind], capture_output=True, text=True, cwd=__file__.rpartition("/")[0]
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 32, f"256 MiB of {kind} cost {run.stdout.strip()} MiB"


@pytest.mark.parametrize("options", [{}, {"schedules": 3}, {"rules": "values"}])
def test_results_arrive_in_place(options):
    x = np.arange(LARGE, dtype=np.float32)
    z = np.zeros(LARGE, np.float32)
    z[4000:] = 5
    sm.Module(ADD).launch("add", 32, 128, [x, x, z[100:], 4000], **options)
    assert (x == np.arange(LARGE, dtype=np.float32)).all()
    assert (z[:100] == 0).all() and (z[100:4100] == 2 * x[:4000]).all() and (z[4100:] == 5).all()


def test_all_of_an_array_may_be_written():
    x = np.arange(LARGE, dtype=np.float32)
    sm.Module(ADD).launch("add", LARGE // 1024, 1024, [x, x, x, LARGE])
    assert (x == 2 * np.arange(LARGE, dtype=np.float32)).all()


def test_views_of_one_array_are_one_piece_of_memory():
    x = np.arange(LARGE, dtype=np.float32)
    want = x.copy()
    want[1000:1064] = want[:64] + want[500:564]
    sm.Module(ADD).launch("add", 1, 64, [x, x[500:], x[1000:], 64])
    assert (x == want).all()


@pytest.mark.parametrize("view", [slice(None), slice(0, 128)])
def test_a_read_only_array_stays_as_it_is(view):
    x = np.zeros(LARGE, np.float32)
    y = np.ones(LARGE, np.float32)
    shut = x[view]
    shut.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        sm.Module(ADD).launch("add", 1, 64, [y, y, shut, 64] if view.stop is None else [x, y, shut, 64])
    assert (x == 0).all() and (y == 1).all()
    sm.Module(ADD).launch("add", 1, 64, [shut, y, y, 64])
    assert (y == 1).all()


def test_what_raises_changes_nothing():
    x = np.ones(LARGE, np.float32)
    with pytest.raises(sm.ViolationError):
        sm.Module(ADD).launch("add", 4, 64, [x, x, x[LARGE - 128 :], 256])
    assert (x == 1).all()


def test_a_device_keeps_what_launches_wrote():
    device, module = sm.Device(), sm.Module(ADD)
    x = device.array(np.ones(LARGE, np.float32))
    for times in range(3):
        device.launch(module, "add", 8, 128, [x, x, x, 1000], schedules=2)
        got = x.numpy()
        assert (got[:1000] == 2 << times).all() and (got[1000:] == 1).all()
    y = device.empty(LARGE, np.float32)
    device.launch(module, "add", 8, 128, [x, x, y, 1000])
    with pytest.raises(ValueError, match=f"{4 * (LARGE - 1000)} of"):
        y.numpy()
    x.copy_from(np.full(LARGE, 3, np.float32))
    device.launch(module, "add", 8, 128, [x, x, x, 10])
    assert (x.numpy()[:10] == 6).all() and (x.numpy()[10:] == 3).all()
