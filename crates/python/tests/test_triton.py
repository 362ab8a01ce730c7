"""Triton's driver: what `activate` sets holds for every kernel that is launched afterwards."""

import importlib.util

import numpy as np
import pytest

import sm121probe as sm

pytest.importorskip("triton")

SOURCE = """
import triton, triton.language as tl

@triton.jit
def racy(out):
    tl.store(out, tl.load(out) + 1)
"""


@pytest.fixture
def racy(tmp_path):
    path = tmp_path / "racy.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("racy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.racy
    sm.triton.deactivate()


def target(kernel):
    return next(line for line in kernel.asm["ptx"].splitlines() if line.startswith(".target")).split()[1]


def test_a_second_activation_holds_for_kernels_that_ran(racy):
    out = sm.triton.Tensor(np.zeros(1, np.float32))
    sm.triton.activate("sm_120")
    first = racy[(1,)](out)
    assert target(first).startswith("sm_120")
    with pytest.raises(sm.DisagreementError, match="take turns at the race"):
        racy[(8,)](out)
    sm.triton.activate("sm_121", rules="strict")
    for kernel in (racy, first):
        with pytest.raises(sm.ViolationError, match="race"):
            kernel[(8, 1, 1)](out)
    sm.triton.activate("sm_121", schedules=3)
    second = racy[(1,)](out)
    assert target(second).startswith("sm_121") and sm.triton.reports[-1].schedules == 3
    sm.triton.activate("sm_120")
    assert target(racy[(1,)](out)).startswith("sm_120")
    sm.triton.deactivate()
    with pytest.raises(RuntimeError):
        first[(1, 1, 1)](out)


def test_buffers_of_another_device_are_refused(racy):
    sm.triton.activate("sm_120")
    kernel = racy[(1,)](sm.triton.Tensor(np.zeros(1, np.float32)))
    device = sm.Device()
    x = device.array(np.zeros(1, np.float32))
    sm.triton.launch(kernel, (1,), x, device=device)
    assert x.numpy()[0] == 1
    for other in (sm.Device(), None):
        with pytest.raises(ValueError, match="device"):
            sm.triton.launch(kernel, (1,), x, device=other)
