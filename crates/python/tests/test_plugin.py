"""The pytest plugin, on test files of its own."""

import importlib.util
import re
import textwrap

import pytest

pytest_plugins = ["pytester"]

BODY = """
import numpy as np, pytest
from kernels import ADD, REVERSE

def test_right(sm12x):
    x = np.ones(32, np.float32)
    sm12x.launch(sm12x.module(ADD), "add", 1, 32, [x, x, x, 32])
    assert (x == 2).all()

@pytest.mark.sm12x(target="sm_120a")
def test_race(sm12x):
    out = np.zeros(64, np.uint32)
    sm12x.launch(sm12x.module(REVERSE.replace("BARRIER", "")), "reverse", 1, 64, [out])
"""


def run(pytester, body, *options):
    import pathlib

    kernels = pathlib.Path(__file__).with_name("kernels.py").read_text()
    pytester.makepyfile(kernels=kernels, test_kernels=textwrap.dedent(body))
    return pytester.runpytest_subprocess(*options)


def test_a_violation_fails_the_test_with_its_line(pytester):
    result = run(pytester, BODY, "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*PTX line *: race in kernel reverse: st.shared.u32 *; the other access is at PTX line *: ld.shared.u32 *"])
    report = (pytester.path / "out.xml").read_text()
    assert 'name="sm12x.instructions" value="' in report
    assert re.search('name="sm12x.violation" value="race at PTX line [0-9]+, with PTX line [0-9]+"', report)


def test_schedules_are_compared(pytester):
    body = """
    import numpy as np
    from kernels import ADD

    def test_schedules(sm12x):
        x = np.ones(32, np.float32)
        assert sm12x.launch(sm12x.module(ADD), "add", 1, 32, [x, x, x, 32]).schedules == 5
    """
    run(pytester, body, "--sm12x-schedules=5").assert_outcomes(passed=1)


ON_BOTH = """
import numpy as np

def test_on_both(sm12x):
    x = np.arange(100, dtype=np.float32)
    y = sm12x.array(2 * x)
    module = sm12x.cuda('''extern "C" __global__ void axpy(float *x, const float *y, float a, int n) {
        extern __shared__ float tile[];
        int i = threadIdx.x;
        tile[i] = i < n ? y[i] : 0.0f;
        __syncthreads();
        if (i < n) x[i] += a * tile[i];
    }''')
    sm12x.launch(module, "axpy", 1, 128, [x, y, 0.5, 100], smem=512)
    assert (x == 2 * np.arange(100)).all()
    assert (y.numpy() == 2 * np.arange(100)).all()
"""


def test_one_test_runs_on_the_emulator_and_on_a_gpu(pytester):
    run(pytester, ON_BOTH).assert_outcomes(passed=1)
    import sm121probe.gpu

    try:
        sm121probe.gpu.GpuDevice()
    except sm121probe.Error as error:
        result = run(pytester, ON_BOTH, "--sm12x=gpu")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines([f"*{str(error)[:40]}*"])
    else:
        run(pytester, ON_BOTH, "--sm12x=gpu").assert_outcomes(passed=1)


UNCHECKED = """
import numpy as np, pytest, sm121probe
from kernels import ADD

X = np.ones(32, np.float32)
UNSUPPORTED = ADD.replace(".target sm_120", ".target sm_90a").replace("add.f32 f, f, g;", "wgmma.fence.sync.aligned;")

def test_launches_nothing(sm12x):
    sm12x.module(ADD)

def test_cannot_run(sm12x):
    try:
        sm12x.launch(sm12x.module(UNSUPPORTED), "add", 1, 32, [X, X, X, 32])
    except sm121probe.UnsupportedError:
        pass

def test_runs_in_part(sm12x):
    sm12x.launch(sm12x.module(ADD), "add", 1, 32, [X, X, X, 32])
    with pytest.raises(sm121probe.UnsupportedError):
        sm12x.launch(sm12x.module(UNSUPPORTED), "add", 1, 32, [X, X, X, 32])

def test_refuses_at_the_launch(sm12x):
    module = sm12x.module(UNSUPPORTED + ADD[ADD.index(".visible"):].replace("add(", "other("))
    try:
        module.launch("add", 1, 32, [X, X, X, 32])
    except sm121probe.UnsupportedError:
        pass

def test_launches_without_the_fixture(sm12x):
    sm12x.module(ADD).launch("add", 1, 32, [X, X, X, 32])

def test_expects_a_violation(sm12x):
    with pytest.raises(sm121probe.ViolationError):
        sm12x.launch(sm12x.module(ADD), "add", 2, 32, [X, X, X, 64])

def test_skips(sm12x):
    pytest.skip("for a reason")

@pytest.mark.xfail
def test_fails_as_expected(sm12x):
    assert False
"""


def test_a_test_that_checks_nothing_fails(pytester):
    result = run(pytester, UNCHECKED)
    result.assert_outcomes(passed=2, failed=4, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines_random(
        [
            "NOTHING CHECKED: the test launched no kernel",
            "NOTHING CHECKED: no kernel could run: *wgmma*",
            "INCOMPLETE: 1 of 2 kernels could not run: *wgmma*",
        ]
    )


def test_a_marker_that_makes_no_sense_is_an_error(pytester):
    body = """
    import pytest

    @pytest.mark.sm12x(targets="sm_120a")
    def test_marked(sm12x):
        pass
    """
    run(pytester, body).assert_outcomes(errors=1)


def needs(package):
    # Not imported here: the fixture forgets what a test imports, and Triton's library cannot be imported twice.
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


TRITON = """
import numpy as np, pytest, triton, triton.language as tl
from sm121probe.triton import Tensor

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@pytest.mark.parametrize("n", [10, 200])
def test_right(n):
    x = np.ones(n, np.float32)
    double[(triton.cdiv(n, 64),)](Tensor(x), n, BLOCK=64)
    assert (x == 2).all()

def test_without_its_mask():
    double[(1,)](Tensor(np.ones(10, np.float32)), 11, BLOCK=64)
"""


def test_triton_kernels_run_without_a_gpu(pytester):
    needs("triton")
    for words in (["--sm12x"], ["--sm12x", "test_kernels.py"], ["--sm12x=triton", "--sm12x-target=sm_121"]):
        result = run(pytester, TRITON, *words)
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(["*sm12x: Triton kernels for sm_12*", "*out_of_bounds*", "3 launches, * warp instructions, *"])
    result = run(pytester, TRITON, "--sm12x", "test_kernels.py::test_right", "--sm12x-schedules=3")
    result.assert_outcomes(passed=2)
    run(pytester, "def test_nothing(): pass", "--sm12x").stdout.fnmatch_lines(["no Triton kernel was launched: *"])
    result = run(pytester, TRITON, "--sm12x=cpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'cpu' is neither a path nor one of emulator, gpu, triton*"])


CUDA = """
import pytest, torch, triton, triton.language as tl

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

@triton.jit
def add(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

def test_add():
    x, y = torch.randn(2, 100, device="cuda")
    o = torch.empty_like(x)
    add[(2,)](x, y, o, 100, BLOCK=64)
    torch.testing.assert_close(o.cpu(), x.cpu() + y.cpu())
"""


def test_tests_for_a_gpu_run_unchanged(pytester):
    needs("triton")
    needs("torch")
    run(pytester, CUDA, "--sm12x").assert_outcomes(passed=1)
