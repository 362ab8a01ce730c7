"""The emulator in processes that a program or a test starts."""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

from sm121probe import processes

pytest_plugins = ["pytester"]

KERNELS = """
import numpy as np, triton, triton.language as tl
from sm121probe.triton import Tensor

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@triton.jit
def positive(x):
    tl.device_assert(tl.load(x) > 0, "a number that is not positive")

def right():
    x = np.ones(10, np.float32)
    double[(1,)](Tensor(x), 10, BLOCK=128)
    assert (x == 2).all()

def beyond():
    double[(1,)](Tensor(np.ones(10, np.float32)), 11, BLOCK=128)

def asserts():
    positive[(1,)](Tensor(-np.ones(1, np.float32)), debug=True)

def races():
    # Two warps each have the same 32 elements.
    double[(1,)](Tensor(np.ones(10, np.float32)), 10, BLOCK=64)
"""

HEAD = """
import multiprocessing, subprocess, sys
import pytest

def python(text, *options):
    return subprocess.run([sys.executable, *options, "-c", "import sys; sys.path.insert(0, '.'); from kernels import *; " + text], capture_output=True, text=True)
"""


@pytest.fixture(autouse=True)
def hooked():
    if not processes.is_hooked():
        pytest.skip("the package is not installed as a wheel")
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")


def run(pytester, body, *options):
    pytester.makepyfile(kernels=KERNELS, test_processes=HEAD + textwrap.dedent(body))
    return pytester.runpytest_subprocess("--sm12x", "-p", "no:cacheprovider", *options)


def python(*words, activate, text=""):
    environment = {name: value for name, value in os.environ.items() if name != processes.VARIABLE}
    if activate is not None:
        environment[processes.VARIABLE] = activate
    return subprocess.run([sys.executable, *words], env=environment, input=text, capture_output=True, text=True, check=False)


def test_processes_of_a_test_run_kernels(pytester):
    body = """
    import kernels

    @pytest.mark.parametrize("options", [[], ["-I"], ["-E"], ["-s"]])
    def test_command(options):
        done = python("right()", *options)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_multiprocessing(method):
        kernels.right()
        context = multiprocessing.get_context(method)
        process = context.Process(target=kernels.right)
        process.start()
        process.join()
        assert process.exitcode == 0
        with context.Pool(1) as pool:
            pool.apply(kernels.right)
    """
    result = run(pytester, body)
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["13 launches, *", "10 processes that tests started have launched kernels"])


def test_a_violation_in_a_process_fails_the_test_that_ignores_it(pytester):
    body = """
    import kernels

    def test_command():
        python("beyond()")

    def test_thread():
        python("import threading; t = threading.Thread(target=beyond); t.start(); t.join()")

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_multiprocessing(method):
        process = multiprocessing.get_context(method).Process(target=kernels.beyond)
        process.start()
        process.join()
        assert process.exitcode == 1

    @pytest.mark.xfail(strict=True)
    def test_expected():
        python("beyond()")
    """
    result = run(pytester, body)
    result.assert_outcomes(failed=4, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*kernels.py:7: out_of_bounds in kernel double: *", "process *: *out_of_bounds*", "raised in process *: ViolationError: *"])


def test_what_a_process_handles_fails_no_test(pytester):
    body = """
    def test_assertion():
        done = python("asserts()")
        assert done.returncode == 1 and "a number that is not positive" in done.stderr

    def test_handled():
        assert python("try: beyond()\\nexcept RuntimeError: print('handled')").stdout == "handled\\n"
    """
    body = body.replace("try: beyond()", "import sys\\ntry: beyond()")
    result = run(pytester, body)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["raised in process *not positive*", "raised in process *out_of_bounds*"])


def test_a_race_in_a_process_is_a_warning_of_the_test(pytester):
    body = """
    def test_race():
        assert python("races()").returncode == 0
    """
    result = run(pytester, body)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*kernels.py:7: RaceWarning: process *: race: *", "1 launches, * 2 violations on which no result depends *"])
    result = run(pytester, body, "-W", "error::sm121probe.RaceWarning")
    result.assert_outcomes(failed=1)


def test_a_violation_after_the_last_test_is_the_exit_status(pytester):
    body = """
    @pytest.fixture(scope="session")
    def late():
        yield
        python("beyond()")

    def test_right(late):
        assert python("right()").returncode == 0
    """
    result = run(pytester, body)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["after the tests, ViolationError: process *out_of_bounds*"])


def test_workers_of_xdist_count_for_their_controller(pytester):
    if importlib.util.find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    body = """
    import kernels

    @pytest.mark.parametrize("n", range(4))
    def test_right(n):
        kernels.right()

    def test_process():
        assert python("right()").returncode == 0

    def test_beyond():
        python("beyond()")
    """
    for words in (["-n", "2"], ["test_processes.py", "-n", "2"]):
        result = run(pytester, body, *words)
        result.assert_outcomes(passed=5, failed=1)
        result.stdout.fnmatch_lines(["6 launches, *", "2 processes that tests started have launched kernels", "raised in process *out_of_bounds*"])


def test_a_program_runs_unchanged(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    program = tmp_path / "program.py"
    program.write_text("from kernels import *\nimport sm121probe\nright()\nprint(sm121probe.triton.verdicts.current.target, len(sm121probe.triton.reports))")
    for value in ("sm_121", '{"target": "sm_121", "schedules": 2}'):
        done = python(str(program), activate=value)
        assert done.stdout == "sm_121 1\n", done.stderr
    done = python(str(program), activate="blackwell")
    assert done.returncode == 1 and "'blackwell' is not a target" in done.stderr
    done = python(str(program), activate='{"target": "sm_121", "rule": "all"}')
    assert done.returncode == 1 and "activate has no option rule" in done.stderr
    done = python(str(program), activate="{")
    assert done.returncode == 1 and "SM121PROBE_ACTIVATE is neither a target nor JSON" in done.stderr


def test_a_program_that_activates_keeps_its_options(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    program = tmp_path / "program.py"
    program.write_text(
        "import sm121probe\nsm121probe.triton.activate('sm_120', schedules=3)\nfrom kernels import *\nright()\n"
        "print(sm121probe.triton.verdicts.current.target, sm121probe.triton.reports[0].schedules)"
    )
    done = python(str(program), activate="sm_121")
    assert done.stdout == "sm_120 3\n", done.stderr


def test_nothing_is_imported_before_it_is_needed():
    shown = "import sys; print(sorted({'sm121probe', 'sm121probe_start', 'torch', 'triton'} & set(sys.modules)))"
    assert python("-c", shown, activate=None).stdout == "[]\n"
    assert python("-c", shown, activate="").stdout == "[]\n"
    assert python("-c", shown, activate="sm_121").stdout == "['sm121probe_start']\n"
    # Without site packages, there is no package either.
    assert python("-S", "-c", shown, activate="sm_121").stdout == "[]\n"


def test_pytorch_gets_the_emulator_where_a_program_imports_it(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    program = tmp_path / "program.py"
    program.write_text("import torch\nx = torch.ones(3, device='cuda')\nprint(torch.cuda.get_device_capability(), x.device, (x + x).sum().item())")
    done = python(str(program), activate="sm_121")
    assert done.stdout == "(12, 1) cuda:0 6.0\n", done.stderr
