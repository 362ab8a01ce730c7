"""Why something did not work: the kernel, the emulator, the call, or the toolkit. The four never mix."""

from __future__ import annotations

from typing import List, Optional


class Error(Exception):
    """Everything that this package raises by itself."""


class ViolationError(Error):
    """A kernel violates a rule of PTX.

    `violation` is the one that ended the launch; `violations` are those that the launch went on behind before it (``rules="values"``).
    """

    def __init__(self, message: str, violation=None, violations: Optional[List] = None):
        super().__init__(message)
        self.violation = violation
        self.violations = violations or []


class DisagreementError(Error):
    """Results depend on the schedule, or on memory that nobody wrote. `violations` may say why."""

    def __init__(self, message: str, violations: Optional[List] = None):
        super().__init__(message)
        self.violations = violations or []


class UnsupportedError(Error):
    """The kernel uses what the emulator lacks. The message names the instruction and its line."""


class LaunchError(Error, ValueError):
    """The module or the launch is impossible: text that is no PTX, sizes, shared memory."""


class ToolkitError(Error):
    """NVRTC or ptxas is missing, refuses the source, or does not tell what it contracts."""


def of_json(failed: dict) -> Error:
    """The exception of what the emulator says."""
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
