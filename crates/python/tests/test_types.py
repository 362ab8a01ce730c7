"""The package as type checkers and notebooks see it."""

import subprocess
import sys
import warnings

import numpy
import pytest

import sm121probe
from kernels import ADD

USE = '''
import numpy
import sm121probe
from sm121probe import mx


def version() -> str:
    return sm121probe.__version__


module = sm121probe.Module("kernel.ptx", name="kernel")
x = numpy.zeros(32, numpy.float32)
grid: "numpy.int32" = numpy.int32(1)
report: sm121probe.Report = module.launch("add", grid, (32, 1), [x, x, x, 32], rules="values", contract="on")
try:
    module.kernels["add"](1, 32, [x])
except sm121probe.ViolationError as error:
    rule: "str | None" = error.violation.rule if error.violation is not None else None
    lines: "list[int]" = [violation.place.line for violation in error.violations]
found: "dict[str, object]" = sm121probe.lint("kernel.ptx", targets=["sm_121a"])
device = sm121probe.Device()
array: sm121probe.DeviceArray = device.array(x)
a = mx.quantize(x.reshape(1, 32), "mxfp8")
bound: mx.Bound = mx.assert_within(x, a, a, accumulation="native", out_type="bf16")
accepted: bool = sm121probe.matrix.accepts("mma.mxf4nvf4.4X", "sm_121f")
'''
WRONG = '''
import sm121probe

module = sm121probe.Module("kernel.ptx")
module.launch("add", 1, 32, [], rules="value")
module.launch("add", "1", 32, [])
sm121probe.lint(1)
'''


def checked(text, folder):
    pytest.importorskip("mypy")
    path = folder / "use.py"
    path.write_text(text)
    words = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def test_a_strict_type_checker_knows_the_package(tmp_path):
    code, said = checked(USE, tmp_path)
    assert code == 0, said


def test_a_type_checker_finds_wrong_words_and_types(tmp_path):
    code, said = checked(WRONG, tmp_path)
    assert code == 1
    for line in (5, 6, 7):
        assert f"use.py:{line}: error" in said, said


def test_names_that_are_imported_lazily_are_listed():
    assert {"audit", "judge", "lint", "matrix", "mx", "__version__"} <= set(dir(sm121probe))
    assert sm121probe.__version__.count(".") == 2


def test_a_grid_of_numpy_numbers_is_taken():
    x, y, out = (numpy.ones(32, numpy.float32) for _ in range(3))
    module = sm121probe.Module(ADD)
    grid = numpy.array([1, 1], numpy.int64)
    assert module.launch("add", grid, numpy.uint32(32), [x, y, out, 32]).verdict == "equal"


def test_a_notebook_shows_a_report():
    x, y, out = (numpy.ones(32, numpy.float32) for _ in range(3))
    shown = sm121probe.Module(ADD).launch("add", 1, 32, [x, y, out, 32])._repr_html_()
    assert shown.startswith("<table>") and "verdict" in shown and "equal" in shown
    race = 'extern "C" __global__ void both(int *x) { x[0] = 1; x[1] = 2; if (x[0] == 1) printf("<b>"); }'
    try:
        module = sm121probe.Module(race)
    except sm121probe.ToolkitError:
        pytest.skip("no NVRTC")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sm121probe.ViolationWarning)
        report = module.launch("both", 1, 64, [numpy.zeros(2, numpy.int32)], rules="values")
    # What a kernel says is text, not markup.
    assert "&lt;b&gt;" in report._repr_html_() and "<b>" not in report._repr_html_()


def test_a_failing_test_ends_at_its_own_line(tmp_path):
    (tmp_path / "test_own.py").write_text(
        "import numpy, sm121probe\n"
        f"ADD = {ADD!r}\n"
        "def test_short():\n"
        "    x = numpy.ones(8, numpy.float32)\n"
        '    sm121probe.Module(ADD).launch("add", 1, 32, [x, x, numpy.ones(8, numpy.float32), 32])\n'
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own.py"]
    said = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "test_own.py:5: " in said and "module.py" not in said, said
