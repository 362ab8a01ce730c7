"""Launches through `kernel[grid](…)`: the options of the activation, reports, output, and warnings where the author of a kernel looks."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Dict, List, Optional, Set, Tuple

from ..errors import DisagreementError, RaceWarning, ViolationError, ViolationWarning
from ..module import _launch, _positive, _three
from ..report import Report, Violation
from . import benchmark
from .arguments import Flattened
from .pointers import Pointees

#: The time limit of a launch in seconds, unless `activate(seconds=…)` sets another.
SECONDS = 300.0


#: The most violations that the message of a disagreement names; `violations` has all.
_CAUSES = 3


class Reports(List[Report]):
    """The reports of launches, oldest first. Beyond `limit`, the oldest are forgotten."""

    limit = 1000

    def append(self, report: Report) -> None:
        """Add a report."""
        if len(self) >= self.limit:
            del self[: len(self) + 1 - self.limit]
        super().append(report)


#: The reports of launches through `kernel[grid](…)`, oldest first; the last 1,000.
reports: Reports = Reports()


def call_of(
    kernel: Any,
    *,
    schedules: Optional[int] = None,
    seed: int = 0,
    poisons: Optional[int] = None,
    rules: str = "values",
    strict: bool = False,
    require_equal: bool = False,
    fuel: Optional[int] = None,
    seconds: Optional[float] = None,
    profile: bool = False,
    model: Optional[str] = None,
    contract: str = "off",
) -> Dict[str, Any]:
    """What the native module needs to know of a launch of a kernel, besides its grid."""
    return {
        "entry": kernel.name,
        "block": None,
        "cluster": None,
        "cooperative": False,
        "smem": None,
        "rules": rules,
        "strict": strict,
        "require_equal": require_equal,
        "seed": seed,
        "schedules": _positive("schedules", schedules),
        "poisons": _positive("poisons", poisons),
        "fuel": fuel,
        "seconds": seconds,
        "profile": profile,
        "model": model,
        "contract": contract,
        "triton": kernel.metadata_json,
    }


class Activation:
    """One call of `activate`: its target, its options, and where it has warned."""

    def __init__(self, target: str, options: Dict[str, Any]):
        self.target = target
        self.options = {"seconds": SECONDS, **options}
        self._device = self.options.pop("device", None)
        self._warned: Set[Tuple[str, Optional[str], int]] = set()

    def launch(self, kernel: Any, grid: Any, flat: Flattened, pointees: Pointees) -> None:
        """Launch a kernel as `kernel[grid](…)` does."""
        memory = None if self._device is None else self._device._memory
        if benchmark.is_running():
            options = {**self.options, "rules": "none", "strict": False, "require_equal": False, "schedules": 1, "poisons": 1}
            call = {**call_of(kernel, **options), "grid": _three("grid", grid)}
            benchmark.count(kernel.name, _launch(kernel.program, memory, call, flat.values, pointees.arrays, warn_at=None).instructions)
            return
        activation, call = kernel.prepared
        if activation is not self:
            call = call_of(kernel, **self.options)
            kernel.prepared = self, call
        try:
            report = _launch(kernel.program, memory, {**call, "grid": _three("grid", grid)}, flat.values, pointees.arrays, warn_at=None)
        except (ViolationError, DisagreementError) as error:
            more = pointees.explanation() if getattr(error.violation, "rule", None) == "out_of_bounds" else ""
            if isinstance(error, DisagreementError) and error.violations:
                # Where it comes from, which the difference does not say.
                more = "".join(f"\n{violation}" for violation in error.violations[:_CAUSES])
            if more:
                error.args = (f"{error}{more}",)
            printed = error.report.printed if error.report is not None else ""
            _print(printed)
            raise
        reports.append(report)
        benchmark.count(kernel.name, report.instructions)
        _print(report.printed)
        for violation in report.violations:
            self._warn(kernel, violation)

    def _warn(self, kernel: Any, violation: Violation) -> None:
        """Warn once for each place of a kernel."""
        key = (kernel.hash, violation.rule, violation.place.line)
        if key in self._warned:
            return
        self._warned.add(key)
        category = RaceWarning if violation.rule == "race" else ViolationWarning
        place = violation.place
        if place.source and os.path.isfile(place.source[0]):
            # At the line of the kernel, which is what has to be changed.
            warnings.warn_explicit(str(violation), category, place.source[0], place.source[1])
        else:
            warnings.warn(str(violation), category, stacklevel=_frames_to_caller())


def _print(text: str) -> None:
    if text:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()


def _frames_to_caller() -> int:
    """The number of frames between the caller of this function and the code that launched a kernel."""
    inside = tuple(f"{os.sep}{name}{os.sep}" for name in ("triton", "sm121probe", "torch"))
    frame, level = sys._getframe(1), 1
    while frame is not None and any(part in frame.f_code.co_filename for part in inside):
        frame, level = frame.f_back, level + 1
    return level


#: The last activation; `None` while the emulator is not active. Triton keeps launchers, which therefore look it up here.
current: Optional[Activation] = None


def active() -> Activation:
    """The activation that holds for a launch."""
    if current is None:
        raise RuntimeError("this kernel was compiled for the emulator, which is not active: call `sm121probe.triton.activate`")
    return current
