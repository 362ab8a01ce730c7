"""pytest: the fixture `sm12x`, the marker `sm12x`, and options.

    import numpy, pytest

    @pytest.mark.sm12x(target="sm_121a")
    def test_twice(sm12x):
        module = sm12x.cuda('extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }')
        x = numpy.ones(32, numpy.float32)
        sm12x.launch(module, "twice", 1, 32, [x])
        assert (x == 2).all()

`pytest --sm12x` runs a repository's tests of Triton kernels without a GPU: Triton's driver is the emulator, and with PyTorch `device="cuda"` is
memory of the CPU (`sm121probe.triton.activate(torch=True)`). No test has to be changed. Python processes that tests start, and workers of
pytest-xdist, get the same (`sm121probe.processes`).

A violation fails the test and reports the line of the kernel; so does a test that passes although it launches no kernel, or although the
emulator does not support one that it launches. If an assertion of `numpy.testing` or `torch.testing` fails on the result of a launch, the report
names the instruction that wrote the wrong element last. `--sm12x-schedules N` runs every launch under N schedules.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple, Union

import pytest

from . import module as _module
from . import processes
from .device import Device
from .errors import DisagreementError, Error, RaceWarning, UnsupportedError, ViolationError, ViolationWarning
from .gpu import GpuDevice
from .module import Module
from .origin import of_failed_assertion
from .report import Place, Report, Violation

#: The device of a test.
_TESTER = pytest.StashKey()


#: Where kernels run.
_WHERE = ("emulator", "gpu", "triton")


class _Where(argparse.Action):
    """`--sm12x` alone stands for `--sm12x=triton`; what follows it may be a path, which is then left to pytest."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if values is None:
            values = "triton"
        elif values not in _WHERE:
            if not os.path.exists(values.partition("::")[0]):
                raise argparse.ArgumentError(self, f"{values!r} is neither a path nor one of {', '.join(_WHERE)}")
            namespace.sm12x_paths = [*(getattr(namespace, "sm12x_paths", None) or []), values]
            values = "triton"
        setattr(namespace, self.dest, values)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sm12x", "kernels for NVIDIA SM12x")
    group.addoption(
        "--sm12x",
        action=_Where,
        nargs="?",
        default="emulator",
        metavar="emulator|gpu|triton",
        help="where the kernels of the fixture `sm12x` run (default: emulator); alone or as `triton`, all Triton kernels and "
        "`torch.cuda` run on the emulator, too",
    )
    group.addoption(
        "--sm12x-schedules",
        type=int,
        default=1,
        metavar="N",
        help="run every launch under N schedules and demand equal results (default: 1)",
    )
    group.addoption(
        "--sm12x-target",
        default="sm_120",
        metavar="TARGET",
        help="what Triton compiles for with `--sm12x` (default: sm_120)",
    )
    group.addoption(
        "--sm12x-rules",
        choices=("values", "all", "none"),
        default="values",
        help="the rules of Triton kernels with `--sm12x` (default: values: races are warnings unless a result depends on them)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "sm12x(target='sm_121a', rules='all'): how the fixture `sm12x` compiles and judges kernels"
    )
    paths = getattr(config.option, "sm12x_paths", None)
    if paths:
        given = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
        config.args = [*paths, *given]
        config.args_source = pytest.Config.ArgsSource.ARGS
    if config.getoption("--sm12x") == "triton":
        config.stash[_KERNELS] = _Kernels(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    kernels = config.stash.get(_KERNELS, None)
    if kernels is not None:
        kernels.end()


def pytest_report_header(config: pytest.Config) -> Optional[str]:
    kernels = config.stash.get(_KERNELS, None)
    return None if kernels is None else kernels.header


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Report what processes of the test have met: as warnings, and as the failure of a test that has not failed itself."""
    outcome = yield
    kernels = item.config.stash.get(_KERNELS, None)
    if kernels is None:
        return
    defects = kernels.hear()
    if defects and outcome.excinfo is None:
        outcome.force_exception(defects.pop(0))
    for error in defects:
        item.add_report_section("call", "sm12x", f"{type(error).__name__}: {error}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    kernels = session.config.stash.get(_KERNELS, None)
    if kernels is None:
        return
    kernels.finish()
    if kernels.late and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_WORKER] = kernels.to_controller()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Take over what a worker of pytest-xdist has counted."""
    kernels = node.config.stash.get(_KERNELS, None)
    if kernels is not None:
        kernels.add_worker(getattr(node, "workeroutput", {}).get(_WORKER))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    kernels = config.stash.get(_KERNELS, None)
    if kernels is not None:
        terminalreporter.section("sm12x")
        for line in kernels.summary():
            terminalreporter.write_line(line)


#: The key of what a worker of pytest-xdist sends.
_WORKER = "sm121probe"


class _Kernels:
    """Triton kernels on the emulator, for a whole run of pytest."""

    def __init__(self, config: Any):
        if hasattr(config, "workerinput"):
            # A worker of pytest-xdist reports to its controller by itself.
            os.environ.pop(processes.VARIABLE, None)
            processes.end_record()
        from . import triton

        target = config.getoption("--sm12x-target")
        options = {"rules": config.getoption("--sm12x-rules")}
        schedules = config.getoption("--sm12x-schedules")
        if schedules > 1:
            options.update(schedules=schedules, require_equal=True)
        torch = importlib.util.find_spec("torch") is not None
        triton.activate(target, torch=torch, **options)
        cuda = 'and device="cuda" are the emulator\'s' if torch else "run on the emulator; PyTorch is not installed"
        self.header = f"sm12x: Triton kernels for {target} {cuda}"
        if not processes.is_hooked():
            self.header += "; processes that tests start do not get it, since the package is not in a folder of site packages"
        #: Launches, warp instructions, violations: of this process, and of workers of pytest-xdist with their processes.
        self._counts, self._workers = [0, 0, 0], [0, 0, 0]
        self._worker_processes = 0
        #: Exceptions that ended processes after their tests, and all that processes raised, for the summary.
        self.late: List[str] = []
        self._raised: List[str] = []
        self._warned: Set[Tuple[Any, ...]] = set()
        self._children = processes.Children(target, torch, options)
        _module._observers.append(self._observe)
        processes._counters.append(self._observe)
        if torch:
            _run_clients_in_this_process()

    def _observe(self, result: Union[Report, Error]) -> None:
        self._counts[0] += 1
        if isinstance(result, Report):
            self._counts[1] += result.instructions
            self._counts[2] += len(result.violations)

    def hear(self) -> List[Exception]:
        """Warn of what processes report, and return what a test must fail for."""
        defects: List[Exception] = []
        for event in self._children.news():
            violation = event.violation()
            if event.is_defect():
                defects.append(event.exception())
            elif event.kind == "warned" and violation is not None:
                try:
                    self._warn(event.process, violation)
                except Warning as error:
                    # The settings of the tests turn warnings into errors.
                    defects.append(error)
        return defects

    def _warn(self, process: int, violation: Violation) -> None:
        """Warn once for each place of a kernel."""
        place = violation.place
        key = (violation.rule, place.kernel, place.line)
        if key in self._warned:
            return
        self._warned.add(key)
        category = RaceWarning if violation.rule == "race" else ViolationWarning
        file, line = place.source or (place.kernel, place.line)
        warnings.warn_explicit(f"process {process}: {violation}", category, file, line)

    def finish(self) -> None:
        """Hear what processes have reported since the last test."""
        self.late += [f"{type(error).__name__}: {error}" for error in self.hear()]
        self._raised += [f"process {event.process}: {event.error}: {event.message}" for event in self._children.raised]

    def to_controller(self) -> List[Any]:
        """What a worker of pytest-xdist sends."""
        return [[own + of for own, of in zip(self._counts, self._children.totals())], self._children.processes(), self.late, self._raised]

    def add_worker(self, sent: Any) -> None:
        """Add what a worker has sent; one that has crashed sends nothing."""
        if sent is None:
            return
        counts, started, late, raised = sent
        self._workers = [own + of for own, of in zip(self._workers, counts)]
        self._worker_processes += started
        self.late += late
        self._raised += raised

    def summary(self) -> List[str]:
        """What ran."""
        theirs = self._children.totals()
        launches, instructions, violations = (sum(three) for three in zip(self._counts, theirs, self._workers))
        if launches == 0:
            return ["no Triton kernel was launched: nothing was checked on the emulator"]
        lines = [
            f"{launches} launches, {instructions} warp instructions, {violations} violations on which no result depends (see the warnings)"
        ]
        started = self._children.processes() + self._worker_processes
        if started:
            lines.append(f"{'1 process that a test started has' if started == 1 else f'{started} processes that tests started have'} launched kernels")
        lines += [f"raised in {text}" for text in self._raised]
        lines += [f"after the tests, {text}" for text in self.late]
        return lines

    def end(self) -> None:
        """Undo everything."""
        from . import triton

        if self._observe not in _module._observers:
            # A forked process, which has no part in this.
            return
        _module._observers.remove(self._observe)
        processes._counters.remove(self._observe)
        self._children.end()
        triton.deactivate()


#: What `--sm12x` sets up.
_KERNELS = pytest.StashKey()


def _run_clients_in_this_process() -> None:
    """Let tests that use Triton's test tools run their failing kernels here: a kernel that fails on the emulator breaks no process."""
    try:
        import triton._internal_testing as tools
    except ImportError:
        return
    if not hasattr(tools, "run_in_process") or not hasattr(tools, "ProcessResult"):
        return

    def run_in_process(client_fn: Any, args: Any = (), kwargs: Any = None, env: Any = None) -> Any:
        before = dict(os.environ)
        os.environ.update(env or {})
        try:
            client_fn(*args, **(kwargs or {}))
        except Exception as error:
            return tools.ProcessResult(error, str(error))
        finally:
            os.environ.clear()
            os.environ.update(before)
        return tools.ProcessResult(None, "")

    tools.run_in_process = run_in_process


class _Modules:
    """What both devices share: the module constructors, with the target of the marker, and what the launches of the test show."""

    target: str
    #: What the emulator does not support of the launches and modules of the test; the number of all of them, wherever they run.
    refused: List[UnsupportedError]
    launches: int = 0

    def observe(self, result: Union[Report, Error]) -> None:
        """Count a launch, or a module that cannot be launched."""
        self.launches += 1
        if isinstance(result, UnsupportedError):
            self.refused.append(result)

    def unchecked(self) -> str:
        """Return what a test that passed has not checked; an empty string if that is nothing."""
        if len(self.refused) == self.launches:
            return "NOTHING CHECKED: " + (f"no kernel could run: {self.refused[0]}" if self.refused else "the test launched no kernel")
        if self.refused:
            return f"INCOMPLETE: {len(self.refused)} of {self.launches} kernels could not run: {self.refused[0]}"
        return ""

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
        self.refused = []
        # Architecture-specific features need the suffix `a`; every GPU accepts PTX of its architecture with it.
        self.target = self.architecture + "a"

    def launch(self, *args: Any, **options: Any) -> Report:
        report = super().launch(*args, **options)
        self.observe(report)
        return report


class Tester(_Modules, Device):
    """A device for one test. Its launches are checked as the marker and the options specify."""

    def __init__(self, target: str, rules: str, schedules: int):
        super().__init__()
        self.target = target
        self.rules = rules
        self.schedules = schedules
        self.refused = []
        #: The reports of all launches of the test.
        self.reports: List[Report] = []

    def launch(self, module: Module, name: str, grid: Any, block: Any = None, args: Sequence[Any] = (), **options: Any) -> Report:
        options.setdefault("rules", self.rules)
        if self.schedules > 1 and "seed" not in options:
            options.setdefault("schedules", self.schedules)
            options.setdefault("require_equal", True)
        report = super().launch(module, name, grid, block, args, **options)
        self.reports.append(report)
        return report


@pytest.fixture
def sm12x(request: pytest.FixtureRequest) -> Iterator[Union["Tester", "GpuTester"]]:
    """A device for launching kernels: the emulator, which checks them, or the GPU with `--sm12x=gpu`."""
    marker = request.node.get_closest_marker("sm12x")
    options = {"target": "sm_121a", "rules": "all", **(marker.kwargs if marker else {})}
    unknown = sorted(set(options) - {"target", "rules"})
    if unknown:
        raise pytest.UsageError(f"the marker sm12x has no {', '.join(unknown)}; it has target and rules")
    tester: Union[Tester, GpuTester]
    if request.config.getoption("--sm12x") == "gpu":
        tester = GpuTester()
    else:
        tester = Tester(options["target"], options["rules"], request.config.getoption("--sm12x-schedules"))
    request.node.stash[_TESTER] = tester
    _module._observers.append(tester.observe)
    try:
        yield tester
    finally:
        _module._observers.remove(tester.observe)
    if tester.reports:
        properties: Dict[str, Any] = {"sm12x.target": tester.target, "sm12x.launches": len(tester.reports)}
        # A GPU counts no instructions and checks no rules.
        if isinstance(tester, Tester):
            properties["sm12x.instructions"] = sum(r.instructions for r in tester.reports)
            properties["sm12x.schedules"] = max(r.schedules for r in tester.reports)
            properties["sm12x.violations"] = sum(len(r.violations) for r in tester.reports)
        request.node.user_properties.extend(properties.items())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Any:
    outcome = yield
    tester = item.stash.get(_TESTER, None)
    if tester is not None and call.when == "call":
        report = outcome.get_result()
        unchecked = tester.unchecked() if report.passed and not hasattr(report, "wasxfail") else ""
        if unchecked:
            report.outcome, report.longrepr = "failed", unchecked
    error = call.excinfo.value if call.excinfo else None
    if call.when == "call" and isinstance(error, AssertionError) and "numpy" in sys.modules:
        written = of_failed_assertion(error.__traceback__, str(error))
        if written:
            outcome.get_result().sections.append(("sm12x", written))
    if isinstance(error, Error) and getattr(error, "of_process", False):
        # Its traceback is that of pytest.
        outcome.get_result().longrepr = f"{type(error).__name__}: {error}"
    if isinstance(error, (ViolationError, DisagreementError, UnsupportedError)):
        report = outcome.get_result()
        place = getattr(getattr(error, "violation", None), "place", None)
        lines = [str(error)]
        if place is not None and place.line:
            where, said = _where(place), f"{error.violation.rule} in kernel {place.kernel}: {place.instruction}"
            other = error.violation.other.place if error.violation.other else None
            if other is not None:
                said += f"; the other access is at {_where(other)}: {other.instruction}"
            beside = "" if other is None else f", with {_where(other)}"
            lines.insert(0, f"{where}: {said}")
            item.user_properties.append(("sm12x.violation", f"{error.violation.rule} at {where}{beside}"))
        lines += [f"before it: {v}" for v in error.violations] if hasattr(error, "violations") else []
        report.sections.append(("sm12x", "\n".join(lines)))


def _where(place: Place) -> str:
    """The line of the source, or of the PTX."""
    return f"{place.source[0]}:{place.source[1]}" if place.source else f"PTX line {place.line}"
