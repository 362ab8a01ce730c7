"""Exceptions, one for each cause: the kernel, the emulator, the call, or the toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from .report import Report, Violation


class Error(Exception):
    """Base class of the exceptions of this package."""


class ViolationError(Error, RuntimeError):
    """A kernel violates a rule of PTX; on a GPU, it may end with a `RuntimeError` of PyTorch or Triton.

    `violation` is the one that ended the launch; `violations` are earlier ones after which the launch continued (``rules="values"``).
    """

    #: The one that ended the launch.
    violation: "Optional[Violation]"
    #: Earlier ones, after which the launch continued.
    violations: "List[Violation]"
    #: The report of the trials, if they ended.
    report: "Optional[Report]"

    def __init__(
        self, message: str, violation: "Optional[Violation]" = None, violations: "Optional[List[Violation]]" = None
    ) -> None:
        super().__init__(message)
        self.violation = violation
        self.violations = violations or []
        self.report = None


class DisagreementError(Error):
    """Results depend on a race or on unwritten memory; on the schedule, where `require_equal` is set; or on what PTX leaves open, with
    `strict`. `violations` may explain why. `report` is the report of the trials. Without a race or unwritten memory, the arrays hold the
    results of the first schedule."""

    #: Always `None`: no violation ended the launch.
    violation: "Optional[Violation]"
    #: What may explain the disagreement.
    violations: "List[Violation]"
    #: The report of the trials.
    report: "Optional[Report]"

    def __init__(self, message: str, violations: "Optional[List[Violation]]" = None) -> None:
        super().__init__(message)
        self.violation = None
        self.violations = violations or []
        self.report = None


class ViolationWarning(UserWarning):
    """A Triton kernel breaks a rule of PTX, although no result depends on it."""


class CostWarning(UserWarning):
    """A benchmark under emulation counts instructions: its results are no times."""


class RaceWarning(ViolationWarning):
    """A launch with ``rules="values"`` races, whether or not a result depends on it."""


class UnsupportedError(Error):
    """The kernel uses a feature that the emulator does not support. The message names the instruction and its line."""


class LaunchError(Error, ValueError):
    """The module or the launch is invalid: text that is not PTX, sizes, shared memory."""


class IncompleteError(Error):
    """A command checked nothing, or less than it was asked to. `output` is what it printed."""

    #: What the command printed.
    output: str

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class ToolkitError(Error):
    """NVRTC or ptxas is missing, rejects the source, or does not show what it contracts."""


def of_json(failed: Dict[str, Any]) -> Error:
    """Return the exception for an error of the native module."""
    from .report import Violation

    error, found = failed["error"], [Violation._of(v) for v in failed.get("violations", [])]
    if "error" in error:
        error = error["error"]
    kind, what = error["kind"], error["what"]
    if kind == "violation":
        return ViolationError(what, Violation._of(error["violation"]), found)
    if kind == "disagreement":
        return DisagreementError(what, found)
    return {"unsupported": UnsupportedError, "launch": LaunchError, "toolkit": ToolkitError}.get(kind, Error)(what)
