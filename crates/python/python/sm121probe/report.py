"""Reports of launches."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Tuple


@dataclass(frozen=True)
class Place:
    """A location in a kernel."""

    kernel: str
    #: Line of the PTX, from 1; 0 if the location is not a single instruction.
    line: int
    #: The instruction, as written.
    instruction: str
    #: File and line of the source, if the PTX has line information (``-lineinfo``).
    source: Optional[Tuple[str, int]]
    cta: Tuple[int, int, int]
    warp: int
    lane: Optional[int]
    #: The text of the source's line, if the file could be read.
    source_text: Optional[str] = None

    @classmethod
    def _of(cls, raw: Dict[str, Any]) -> "Place":
        source = tuple(raw["source"]) if raw["source"] else None
        kernel, line, instruction, cta = raw["kernel"], raw["line"], raw["instruction"], tuple(raw["cta"])
        return cls(kernel, line, instruction, source, cta, raw["warp"], raw["lane"], raw["source_text"])

    def __str__(self) -> str:
        text = f"kernel {self.kernel}"
        if self.line:
            text += f", PTX line {self.line} `{self.instruction}`"
        if self.source:
            text += f", {self.source[0]}:{self.source[1]}"
        if self.source_text:
            text += f" `{self.source_text}`"
        x, y, z = self.cta
        text += f", CTA ({x},{y},{z}), warp {self.warp}"
        return text if self.lane is None else f"{text}, lane {self.lane}"


@dataclass(frozen=True)
class OtherAccess:
    """The other one of two accesses that race."""

    #: Whether it wrote.
    wrote: bool
    place: Place

    @classmethod
    def _of(cls, raw: Optional[Dict[str, Any]]) -> Optional["OtherAccess"]:
        return None if raw is None else cls(raw["wrote"], Place._of(raw))


@dataclass(frozen=True)
class Violation:
    """A violation of a rule, or a remark, whose `rule` is `None`."""

    #: `race`, `uninitialised`, `out_of_bounds`, …
    rule: Optional[str]
    what: str
    place: Place
    #: Number of occurrences at this instruction.
    times: int
    #: Of a race: the other access.
    other: Optional[OtherAccess] = None

    @classmethod
    def _of(cls, raw: Dict[str, Any]) -> "Violation":
        other = OtherAccess._of(raw["other"])
        return cls(raw["rule"], raw["what"], Place._of(raw["place"]), raw["times"], other)

    def _raw(self) -> Dict[str, Any]:
        """What `_of` reads."""
        raw = asdict(self)
        if raw["other"] is not None:
            raw["other"] = {"wrote": raw["other"]["wrote"], **raw["other"]["place"]}
        return raw

    def __str__(self) -> str:
        rule = f"{self.rule}: " if self.rule else ""
        other = f"; the other access: {self.other.place}" if self.other else ""
        return f"{rule}{self.what}; {self.place}{other}; {self.times} times"


@dataclass(frozen=True)
class Traffic:
    """Memory traffic of one kind of access."""

    #: Warp-level instructions.
    accesses: int
    #: Bytes requested by lanes.
    bytes: int
    #: Sectors of 32 bytes (global memory), or passes over the banks (shared memory).
    transactions: int
    #: Transactions beyond those of a fully coalesced, conflict-free access.
    excess: int


@dataclass(frozen=True)
class Profile:
    """Counts from the first schedule."""

    #: Opcode, warp-level executions, active lanes.
    instructions: List[Tuple[str, int, int]]
    global_loads: Traffic
    global_stores: Traffic
    shared_loads: Traffic
    shared_stores: Traffic
    #: Line, instruction, extra passes.
    bank_conflicts: List[Tuple[int, str, int]]

    @classmethod
    def _of(cls, raw: Dict[str, Any]) -> "Profile":
        traffic = {
            name: Traffic(**raw[name]) for name in ("global_loads", "global_stores", "shared_loads", "shared_stores")
        }
        return cls(
            instructions=[(i["opcode"], i["executions"], i["lanes"]) for i in raw["instructions"]],
            bank_conflicts=[(c["line"], c["instruction"], c["extra_passes"]) for c in raw["bank_conflicts"]],
            **traffic,
        )


@dataclass(frozen=True)
class FloatAtomics:
    """Sums by floating-point atomics, whose rounding depends on the order of the additions."""

    #: Buffer elements that are such sums.
    elements: int
    #: Differences between schedules, all within the bound for reordering.
    differences: int
    #: The largest difference, as a fraction of its bound.
    worst: float


@dataclass(frozen=True)
class Undetermined:
    """Elements of a buffer that PTX does not determine: they depend on whether an unqualified `mul` and the `add` or `sub` that uses it are
    contracted, or on which lane's value remains where lanes of one store write different values to one address."""

    #: `contraction` or `store_lane`.
    by: str
    #: The array, such as `array 1` for the second array argument, or the name of a buffer of a `Device`.
    buffer: str
    #: Number of elements that differ, and of all elements.
    differing: int
    elements: int
    #: The index of the first element that differs; its value as launched (without contraction, of the highest lane), and its other value.
    index: Tuple[int, ...]
    first: str
    other: str
    #: The largest difference of finite elements.
    largest: float

    @property
    def separate(self) -> str:
        """The value without contraction."""
        return self.first

    @property
    def contracted(self) -> str:
        """The value with contraction."""
        return self.other

    @classmethod
    def _of(cls, raw: Dict[str, Any]) -> "Undetermined":
        return cls(**{**raw, "index": tuple(raw["index"])})

    def __str__(self) -> str:
        index = ",".join(str(n) for n in self.index)
        other = "contracted" if self.by == "contraction" else "of the lowest lane"
        return (
            f"undetermined by PTX: {self.differing} of {self.elements} elements of {self.buffer}, the first at [{index}]: "
            f"{self.first}, {other} {self.other}; the largest difference is {self.largest:g}"
        )


@dataclass(frozen=True)
class Difference:
    """The first result that differs between two schedules although nothing races."""

    #: The whole sentence.
    what: str
    buffer: str
    index: Tuple[int, ...]
    #: The first byte that differs.
    byte: int
    seeds: Tuple[int, int]
    values: Tuple[str, str]

    @classmethod
    def _of(cls, raw: Dict[str, Any]) -> "Difference":
        return cls(raw["what"], raw["buffer"], tuple(raw["index"]), raw["byte"], tuple(raw["seeds"]), tuple(raw["values"]))

    def __str__(self) -> str:
        return f"nondeterministic: {self.what}"


@dataclass(frozen=True)
class Report:
    """The report of a completed launch. Results are those of the first schedule."""

    #: Warp-level instructions executed in one schedule.
    instructions: int
    #: Numbers of schedules, and of fill patterns for unwritten memory, that were tried.
    schedules: int
    poisons: int
    #: Violations that do not affect any result (``rules="values"``).
    violations: List[Violation]
    #: Suspicious behaviour that violates no rule.
    remarks: List[Violation]
    float_atomics: FloatAtomics
    #: Output of ``printf``.
    printed: str
    profile: Optional[Profile] = field(repr=False, default=None)
    #: Elements that PTX does not determine. `None` if it leaves nothing open, or if that was not tried: contraction with ``rules="all"`` or with
    #: `contract` set.
    undetermined: Optional[List[Undetermined]] = None
    #: Stores whose lanes write different values to one address.
    undetermined_stores: List[Violation] = field(default_factory=list)
    #: The first result that differs between schedules although nothing races.
    nondeterministic: Optional[Difference] = None
    #: What the trials show: `equal`, `nondeterministic` or `undetermined`.
    verdict: str = "equal"
    #: What the launch left out: arrays that it neither read nor wrote, elements of unwritten arrays that it did not write. No failure by
    #: itself; beside a wrong result, the first clue.
    omissions: List[str] = field(default_factory=list)

    @classmethod
    def _of(cls, raw: Dict[str, Any]) -> "Report":
        return cls(
            instructions=raw["instructions"],
            schedules=raw["schedules"],
            poisons=raw["poisons"],
            violations=[Violation._of(v) for v in raw["violations"]],
            remarks=[Violation._of(v) for v in raw["remarks"]],
            float_atomics=FloatAtomics(**raw["float_atomics"]),
            printed=raw["printed"],
            profile=Profile._of(raw["profile"]) if raw["profile"] else None,
            undetermined=None if raw["undetermined"] is None else [Undetermined._of(u) for u in raw["undetermined"]],
            undetermined_stores=[Violation._of(v) for v in raw["undetermined_stores"]],
            nondeterministic=None if raw["nondeterministic"] is None else Difference._of(raw["nondeterministic"]),
            verdict=raw["verdict"],
            omissions=raw["omissions"],
        )

    def _is_plain(self) -> bool:
        """Whether it says nothing but numbers."""
        found = (self.violations, self.remarks, self.undetermined_stores, self.omissions, self.undetermined, self.nondeterministic)
        return not any(found) and not self.printed and self.profile is None

    def _again(self) -> "Report":
        """Another report with the same numbers; of a plain one."""
        other = object.__new__(Report)
        undetermined: Optional[List[Undetermined]] = None if self.undetermined is None else []
        other.__dict__.update(self.__dict__, violations=[], remarks=[], undetermined_stores=[], omissions=[], undetermined=undetermined)
        return other

    def _repr_html_(self) -> str:
        """The report as a notebook shows it."""
        rows = [
            ("verdict", self.verdict),
            ("warp instructions", f"{self.instructions:,}"),
            ("schedules", f"{self.schedules:,}"),
            ("patterns of unwritten memory", f"{self.poisons:,}"),
        ]
        rows += [("violation", str(violation)) for violation in self.violations]
        rows += [("remark", str(remark)) for remark in [*self.remarks, *self.undetermined_stores]]
        rows += [("undetermined", str(of)) for of in self.undetermined or []]
        rows += [("nondeterministic", self.nondeterministic.what)] if self.nondeterministic else []
        rows += [("left out", omission) for omission in self.omissions]
        rows += [("printed", self.printed)] if self.printed else []
        cell = '<td style="text-align: left; white-space: pre-wrap">'
        lines = (f"<tr><th style=\"text-align: left\">{name}</th>{cell}{html.escape(text)}</td></tr>" for name, text in rows)
        return f"<table>{''.join(lines)}</table>"
