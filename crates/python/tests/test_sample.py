"""The sample of Triton's own tests: which cases are drawn, and what becomes of their results."""

import importlib.util
import json
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[3] / "tests" / "triton"

pytest_plugins = ["pytester"]

CASES = """
import time
import pytest
import sm121probe

@pytest.mark.parametrize("n", range(20))
def test_many(n):
    pass

def test_one():
    pass

def test_wrong():
    assert 1 == 2

def test_refused():
    try:
        raise sm121probe.UnsupportedError("no such thing")
    except sm121probe.UnsupportedError as error:
        raise RuntimeError("the launch failed") from error

def test_skipped():
    pytest.skip("it needs another GPU")

def test_endless():
    time.sleep(60)
"""


@pytest.fixture
def drawn(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FOLDER), prepend=":")
    pytester.makepyfile(test_cases=CASES)

    def draw(results, *options):
        pytester.runpytest_subprocess("-p", "sample", "--sample-seconds=1", f"--sample-results={results}", *options)
        path = pytester.path / results
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return draw


def cases(results):
    return [result["case"] for result in results]


def test_a_seed_draws_the_same_cases_and_every_function(drawn):
    first = drawn("first", "--sample=10", "--sample-seed=3")
    assert len(first) == 10 and {result["function"] for result in first} >= {"test_many", "test_one", "test_wrong", "test_endless"}
    assert cases(first) == cases(drawn("second", "--sample=10", "--sample-seed=3"))
    assert cases(first) != cases(drawn("third", "--sample=10", "--sample-seed=4"))


def test_what_cases_meet(drawn):
    met = {result["function"]: result["outcome"] for result in drawn("results")}
    wanted = {"test_many": "passed", "test_one": "passed", "test_wrong": "wrong", "test_refused": "refused", "test_skipped": "skipped", "test_endless": "time"}
    assert met == wanted


def test_results_that_are_there_are_not_run_again(drawn):
    few = drawn("results", "--sample=8")
    more = drawn("results", "--sample=10")
    assert cases(more)[: len(few)] == cases(few) and len(set(cases(more))) == len(more) == 10


def test_the_report_explains_known_failures_and_lists_others(monkeypatch):
    spec = importlib.util.spec_from_file_location("upstream", FOLDER / "upstream.py")
    upstream = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(upstream)
    monkeypatch.setattr(upstream, "PACKAGES", ("pytest",))
    shared = "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes may help."
    results = [
        {"file": "language/test_core.py", "function": "test_a", "case": "test_a[1]", "outcome": "passed"},
        {"file": "language/test_core.py", "function": "test_a", "case": "test_a[2]", "outcome": "error", "message": shared},
        {"file": "language/test_core.py", "function": "test_b", "case": "test_b", "outcome": "wrong", "message": "1 is not 2\nsecond line"},
    ]
    text = upstream.report(results, "abc", "7")
    assert "1 of 3 cases that run pass; wrong numbers: 1." in text
    assert "|`language/test_core.py`|`test_a`|2|1|||1|||||||\n" in text
    assert "|hardware|`language/test_core.py`|`test_a`|1|more shared memory than the 99 KiB of SM12x|" in text
    assert "|wrong|`language/test_core.py::test_b`|1 is not 2|" in text
    # A message that is known of one function says nothing of another.
    assert upstream.kind_of({**results[2], "function": "test_cat", "message": "Tensor-likes are not equal!"})[0] == "version"
    assert upstream.kind_of({**results[2], "message": "Tensor-likes are not equal!"})[0] == "wrong"
