"""Every example of the README runs as it stands."""

import pathlib
import re

import pytest

README = pathlib.Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)

pytest_plugins = ["pytester"]


def test_the_examples_run(tmp_path):
    names = {}
    ran = 0
    for n, block in enumerate(BLOCKS):
        needs = re.match(r"# needs: (\w+)\n", block)
        if block.startswith("# file: ") or needs and not _there(needs[1]):
            continue
        # Triton reads the source of a kernel from its file.
        path = tmp_path / f"example_{n}.py"
        path.write_text(block)
        exec(compile(block, str(path), "exec"), names)
        ran += 1
    assert ran >= 6
    if _there("triton"):
        names["sm121probe"].triton.deactivate()


def _there(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.startswith("# file: ")])
def test_the_files_run(block, pytester):
    name = re.match(r"# file: (\S+)\.py\n", block)[1]
    pytester.makepyfile(**{name: block})
    pytester.runpytest_subprocess("--sm12x-schedules=2").assert_outcomes(passed=1)
