"""Every example of the README and of the docstrings runs as it stands."""

import doctest
import importlib
import pathlib
import pkgutil
import re

import pytest

import sm121probe

README = pathlib.Path(__file__).parents[1] / "README.md"
JUDGING = README.parents[2] / "docs" / "judging.md"


def blocks_of(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S)


BLOCKS = blocks_of(README)

pytest_plugins = ["pytester"]


EXAMPLES = [block for block in BLOCKS if not block.startswith("# file: ")]


def needs(block):
    found = re.match(r"# needs: (\w+)\n", block)
    return found and found[1]


def run(blocks, folder):
    names = {}
    for n, block in enumerate(blocks):
        # Triton reads the source of a kernel from its file.
        path = folder / f"example_{n}.py"
        path.write_text(block)
        exec(compile(block, str(path), "exec"), names)


def test_the_examples_run(tmp_path):
    blocks = [block for block in EXAMPLES if not needs(block)]
    assert len(blocks) >= 5
    run(blocks, tmp_path)


@pytest.mark.parametrize("package", sorted({needs(block) for block in EXAMPLES if needs(block)}))
def test_the_examples_with_another_package_run(package, tmp_path):
    if not _there(package):
        pytest.skip(f"{package} is not installed")
    try:
        run([block for block in EXAMPLES if needs(block) in (None, package)], tmp_path)
    finally:
        if _there("triton"):
            sm121probe.triton.deactivate()


@pytest.mark.parametrize("package", [None, "triton", "cutlass"])
def test_the_examples_of_how_to_judge_run(package, tmp_path):
    if package and not _there(package):
        pytest.skip(f"{package} is not installed")
    blocks = [block for block in blocks_of(JUDGING) if needs(block) in (None, package)]
    assert len(blocks) >= 2
    try:
        run(blocks, tmp_path)
    finally:
        if _there("triton"):
            sm121probe.triton.deactivate()


# The library of `exec` lies in the package and is no module, although its file ends as an extension module's does.
NO_MODULES = {"sm121probe.__main__", "sm121probe.libsm121probe_cuda"}
MODULES = ["sm121probe", *(m.name for m in pkgutil.walk_packages(sm121probe.__path__, "sm121probe.") if m.name not in NO_MODULES)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run(name, tmp_path):
    # Their own imports tell what they need.
    if name.startswith("sm121probe.torch_cuda") and not (_there("torch") and _there("triton")):
        pytest.skip("PyTorch or Triton is not installed")
    module = importlib.import_module(name)
    found = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert found or name not in ("sm121probe", "sm121probe.mx", "sm121probe.triton")
    for n, test in enumerate(found):
        source = "".join(example.source for example in test.examples)
        for package in ("triton", "cutlass"):
            if re.search(rf"\bimport .*\b{package}\b", source) and not _there(package):
                pytest.skip(f"{package} is not installed")
        lines = []
        for example in test.examples:
            wanted = f"assert repr(({example.source.strip()})) == {example.want.strip()!r}\n"
            lines.append(wanted if example.want else example.source)
        # Triton reads the source of a kernel from its file.
        path = tmp_path / f"docstring_{n}.py"
        path.write_text("".join(lines))
        try:
            exec(compile(path.read_text(), str(path), "exec"), {"__name__": "docstring"})
        finally:
            if _there("triton"):
                sm121probe.triton.deactivate()


def test_the_example_of_the_plugin_runs(pytester):
    from sm121probe import pytest_plugin

    block = "".join(re.findall(r"^(?:    .*\n|\n(?=    ))+", pytest_plugin.__doc__, re.M))
    pytester.makepyfile(test_docstring=block.replace("\n    ", "\n").strip())
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def _there(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.startswith("# file: ")])
def test_the_files_run(block, pytester):
    name = re.match(r"# file: (\S+)\.py\n", block)[1]
    pytester.makepyfile(**{name: block})
    pytester.runpytest_subprocess("--sm12x-schedules=2").assert_outcomes(passed=1)
