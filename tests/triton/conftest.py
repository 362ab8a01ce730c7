"""Writes the table of results, if SM121PROBE_TABLE names a file: for each test function how many cases passed, and what the others met."""

import collections
import importlib.metadata
import os
import pathlib

import pytest

import sm121probe

#: For each file and function, the outcomes of its cases.
OUTCOMES = collections.OrderedDict()

#: What a case that did not pass met, by its exception.
CAUSES = (
    (sm121probe.ViolationError, "finding"),
    (sm121probe.DisagreementError, "finding"),
    (sm121probe.UnsupportedError, "refused"),
    (AssertionError, "wrong"),
)


def pytest_collection_modifyitems(items):
    if not items or items[0].config.getoption("--sm12x") != "triton":
        raise pytest.UsageError("this suite is for `pytest --sm12x`")


@pytest.fixture(autouse=True)
def seeded():
    import torch

    torch.manual_seed(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" and report.outcome == "passed":
        return
    if report.when == "teardown":
        return
    found = report.outcome
    if found == "failed":
        found = next((word for kind, word in CAUSES if call.excinfo.errisinstance(kind)), "error")
    OUTCOMES.setdefault((item.path.name, item.originalname), []).append((found, report.longrepr if found == "skipped" else call.excinfo))


def pytest_sessionfinish(session):
    path = os.environ.get("SM121PROBE_TABLE")
    if path and OUTCOMES:
        pathlib.Path(path).write_text(table())


def table():
    """The report."""
    versions = []
    for name in ("triton", "torch", "liger-kernel"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name).partition('+')[0]}")
        except importlib.metadata.PackageNotFoundError:
            continue
    counts = collections.Counter(found for cases in OUTCOMES.values() for found, _ in cases)
    ran = sum(counts.values()) - counts["skipped"]
    lines = [
        "# Triton kernels and compiled functions on the emulator",
        "",
        f"Written by `tests/triton/run`, for `sm_120` with {', '.join(versions)}: {counts['passed']} of {ran} cases pass; wrong numbers: {counts['wrong']}.",
        "A *finding* is a violation or a result that depends on a race, *refused* what the emulator does not support, *wrong* a result that differs from PyTorch's on the CPU, *error*",
        "anything else. What is skipped does not exist in this version or on SM12x.",
        "",
        "| file | function | cases | pass | finding | refused | wrong | error | skipped |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (file, function), cases in OUTCOMES.items():
        per = collections.Counter(found for found, _ in cases)
        cells = "|".join(str(per[word]) if per[word] else "" for word in ("passed", "finding", "refused", "wrong", "error", "skipped"))
        lines.append(f"|`{file}`|`{function}`|{len(cases)}|{cells}|")
    others = [(file, function, found, met) for (file, function), cases in OUTCOMES.items() for found, met in cases if found not in ("passed", "skipped")]
    if others:
        lines += ["", "| file | function | outcome | message |", "|---|---|---|---|"]
        for file, function, found, met in others:
            message = str(met.value).strip().splitlines()[0][:200].replace("|", "\\|")
            lines.append(f"|`{file}`|`{function}`|{found}|{message}|")
    return "\n".join(lines) + "\n"
