"""A pytest plugin: runs a seeded sample of the cases that were collected, and writes what each met to a file, a line of JSON each.

    pytest -p sample --sm12x=triton --sample 400 --sample-seed 1 --sample-results FILE python/test/unit/language/test_core.py
"""

import json
import os
import random
import signal

import pytest

import sm121probe



class TooLong(Exception):
    """A case took longer than it may."""


#: What a case that did not pass met, by its exception: the first of these in the chain of its causes.
CAUSES = (
    (TooLong, "time"),
    (sm121probe.ViolationError, "finding"),
    (sm121probe.DisagreementError, "finding"),
    (sm121probe.UnsupportedError, "refused"),
)

#: Characters of a message that are kept.
MESSAGE = 1500


def pytest_addoption(parser):
    group = parser.getgroup("sample", "a seeded sample of the cases")
    group.addoption("--sample", type=int, default=0, metavar="N", help="run N cases: of every test function as many, as far as it has them")
    group.addoption("--sample-seed", type=int, default=0, metavar="SEED", help="which cases (default: 0)")
    group.addoption("--sample-results", metavar="FILE", help="append a line of JSON for each case to FILE; those that it has are not run again")
    group.addoption("--sample-seconds", type=int, default=120, metavar="N", help="end a case after N seconds (default: 120)")


def pytest_collection_modifyitems(config, items):
    done = _results(config.getoption("--sample-results"))
    chosen = {id(item) for item in _chosen(config, items) if (_file(item), item.name) not in done}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = [item for item in items if id(item) in chosen]


def _file(item):
    """The file of a case, with its folder: two of Triton's have the same name."""
    return f"{item.path.parent.name}/{item.path.name}"


def _results(path):
    """The cases whose results a file has."""
    if path is None or not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as file:
        return {(result["file"], result["case"]) for result in map(json.loads, file)}


def _chosen(config, items):
    count = config.getoption("--sample")
    if not 0 < count < len(items):
        return items
    functions = {}
    for item in items:
        functions.setdefault((_file(item), item.originalname), []).append(item)
    draw = random.Random(config.getoption("--sample-seed"))
    for cases in functions.values():
        draw.shuffle(cases)
    # Rounds over the functions: a function with thousands of cases does not crowd out the others.
    return [case for cases in _rounds(list(functions.values())) for case in cases][:count]


def _rounds(functions):
    """The first case of every function, the second of every function, …"""
    for n in range(max(map(len, functions))):
        yield [cases[n] for cases in functions if n < len(cases)]


def chain(error):
    """An exception and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def kind_of(error):
    """What a failed case met, and the exception that says so."""
    for one in chain(error):
        for kind, word in CAUSES:
            if isinstance(one, kind):
                return word, one
    return ("wrong" if isinstance(error, AssertionError) else "error"), error


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report, path = outcome.get_result(), item.config.getoption("--sample-results")
    if path is None or report.when == "teardown" or (report.when == "setup" and report.outcome == "passed"):
        return
    result = {"file": _file(item), "function": item.originalname, "case": item.name, "outcome": report.outcome, "seconds": round(report.duration, 2)}
    if hasattr(report, "wasxfail"):
        result["outcome"] = "xfailed" if report.outcome == "skipped" else "xpassed"
    elif report.outcome == "skipped":
        result["message"] = str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)[:MESSAGE]
    elif report.outcome == "failed":
        error = call.excinfo.value if call.excinfo else None
        result["outcome"], met = kind_of(error)
        result["error"], result["message"] = type(met).__name__, str(met)[:MESSAGE]
        result["at"] = [f"{entry.path.name}:{entry.lineno + 1}" for entry in call.excinfo.traceback][-4:] if call.excinfo else []
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    seconds = item.config.getoption("--sample-seconds")

    def end(*_):
        raise TooLong(f"the case has not ended after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
