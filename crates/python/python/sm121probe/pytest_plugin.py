"""pytest: the fixture `sm12x`, the marker `sm12x`, and options.

    @pytest.mark.sm12x(target="sm_121a")
    def test_double(sm12x):
        module = sm12x.module(KERNEL)
        sm12x.launch(module, "double", 1, 32, [x])

A violation fails the test and reports the line of the kernel. `--sm12x-schedules N` runs every launch under N schedules.
"""

from __future__ import annotations

from typing import Any, List, Sequence

import pytest

from .device import Device
from .errors import DisagreementError, UnsupportedError, ViolationError
from .gpu import GpuDevice
from .module import Module
from .report import Report


def pytest_addoption(parser):
    group = parser.getgroup("sm12x", "kernels for NVIDIA SM12x")
    group.addoption(
        "--sm12x",
        choices=("emulator", "gpu"),
        default="emulator",
        help="where kernels run (default: emulator)",
    )
    group.addoption(
        "--sm12x-schedules",
        type=int,
        default=1,
        metavar="N",
        help="run every launch under N schedules and demand equal results (default: 1)",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "sm12x(target='sm_121a', rules='strict'): how the fixture `sm12x` compiles and judges kernels"
    )


class _Modules:
    """The module constructors of both devices, with the target of the marker."""

    target: str

    def module(self, source: Any, **options: Any) -> Module:
        """Create a module from PTX or from a file."""
        return Module(source, **options)

    def cuda(self, source: Any, **options: Any) -> Module:
        """Create a module from CUDA C++ for the target of the marker or, on a GPU, for that GPU."""
        return Module(source, self.target, **options)


class GpuTester(_Modules, GpuDevice):
    """A GPU for one test."""

    def __init__(self) -> None:
        super().__init__()
        # Architecture-specific features need the suffix `a`; every GPU accepts PTX of its architecture with it.
        self.target = self.architecture + "a"


class Tester(_Modules, Device):
    """A device for one test. Its launches are checked as the marker and the options specify."""

    def __init__(self, target: str, rules: str, schedules: int):
        super().__init__()
        self.target = target
        self.rules = rules
        self.schedules = schedules
        #: The reports of all launches of the test.
        self.reports: List[Report] = []

    def launch(self, module: Module, name: str, grid: Any, block: Any = None, args: Sequence[Any] = (), **options: Any) -> Report:
        options.setdefault("rules", self.rules)
        if self.schedules > 1 and "seed" not in options:
            options.setdefault("schedules", self.schedules)
        report = super().launch(module, name, grid, block, args, **options)
        self.reports.append(report)
        return report


@pytest.fixture
def sm12x(request):
    """A device for launching kernels: the emulator, which checks them, or the GPU with `--sm12x=gpu`."""
    marker = request.node.get_closest_marker("sm12x")
    options = {"target": "sm_121a", "rules": "strict", **(marker.kwargs if marker else {})}
    unknown = sorted(set(options) - {"target", "rules"})
    if unknown:
        raise pytest.UsageError(f"the marker sm12x has no {', '.join(unknown)}; it has target and rules")
    if request.config.getoption("--sm12x") == "gpu":
        tester = GpuTester()
    else:
        tester = Tester(options["target"], options["rules"], request.config.getoption("--sm12x-schedules"))
    yield tester
    if tester.reports:
        properties = {
            "sm12x.target": tester.target,
            "sm12x.launches": len(tester.reports),
            "sm12x.instructions": sum(r.instructions for r in tester.reports),
            "sm12x.schedules": max(r.schedules for r in tester.reports),
            "sm12x.violations": sum(len(r.violations) for r in tester.reports),
        }
        request.node.user_properties.extend(properties.items())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, (ViolationError, DisagreementError, UnsupportedError)):
        report = outcome.get_result()
        place = getattr(getattr(error, "violation", None), "place", None)
        lines = [str(error)]
        if place is not None and place.line:
            where = f"{place.source[0]}:{place.source[1]}" if place.source else f"PTX line {place.line}"
            lines.insert(0, f"{where}: {error.violation.rule} in kernel {place.kernel}: {place.instruction}")
            item.user_properties.append(("sm12x.violation", f"{error.violation.rule} at {where}"))
        lines += [f"before it: {v}" for v in error.violations] if hasattr(error, "violations") else []
        report.sections.append(("sm12x", "\n".join(lines)))
