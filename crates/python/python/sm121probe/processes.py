"""The emulator in processes that a program starts, and what their launches show to the process that started them.

The environment variable SM121PROBE_ACTIVATE makes the emulator active in every Python process that imports Triton or PyTorch, without a change of its
program: `sm121probe.pth`, which the wheel installs, sees it when Python starts. Its value is a target, such as `sm_121`, or JSON with the
arguments of `sm121probe.triton.activate`:

    SM121PROBE_ACTIVATE=sm_121 python train.py
    SM121PROBE_ACTIVATE='{"target": "sm_121", "torch": false, "schedules": 4}' python train.py

`pytest --sm12x` sets it for the processes of tests. There, `folder` names a folder in which each process writes a file (`Record`), and which the process of
pytest reads (`Children`). A file begins with a line of fixed length, the number of launches, warp instructions and violations, which each
launch writes anew: a process may end at any time, by a signal, too. Lines of JSON follow, one for each event.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple, Union

from . import module as _module
from .errors import DisagreementError, Error, UnsupportedError, ViolationError
from .report import Report, Violation

#: The environment variable.
VARIABLE = "SM121PROBE_ACTIVATE"

#: What the wheel installs beside the package.
_HOOK = "sm121probe.pth"


class Request:
    """What the environment asks for."""

    def __init__(self, target: str, torch: bool = True, folder: Optional[str] = None, **options: Any):
        self.target, self.torch, self.folder, self.options = target, torch, folder, options

    @classmethod
    def parse(cls, text: str) -> "Request":
        """Read the value of the environment variable."""
        if not text.lstrip().startswith("{"):
            return cls(text.strip())
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{VARIABLE} is neither a target nor JSON: {error}") from None
        if not isinstance(given.get("target"), str):
            raise ValueError(f'{VARIABLE} has no target, such as {{"target": "sm_121"}}')
        return cls(**given)

    def __str__(self) -> str:
        return json.dumps({"target": self.target, "torch": self.torch, "folder": self.folder, **self.options})


def is_hooked() -> bool:
    """Whether a Python process that this interpreter starts sees the environment variable."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sites = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    real = {os.path.realpath(path) for path in sites}
    return os.path.isfile(os.path.join(folder, _HOOK)) and os.path.realpath(folder) in real


#: The packages that have been imported, and the activation that followed.
_packages: Set[str] = set()
_activation: Any = None


def imported(package: str) -> None:
    """Do what the environment asks for, now that a package has been imported: `triton` or `torch`."""
    global _activation
    text = os.environ.get(VARIABLE)
    if not text:
        return
    _packages.add(package)
    request = Request.parse(text)
    import importlib.util

    # Without Triton, there is no kernel to run.
    if importlib.util.find_spec("triton") is None or (package == "torch" and not request.torch):
        return
    from . import triton

    current = triton.verdicts.current
    if current is not None and current is not _activation:
        # The program has called `activate` itself.
        return
    triton.activate(request.target, torch=request.torch and "torch" in _packages, **request.options)
    _activation = triton.verdicts.current
    if request.folder is not None and _record is None and _children is None:
        _begin_record(request.folder)


@dataclass
class Event:
    """What a process reports of a launch."""

    #: `warned`: of a violation on which no result depends; `raised`: an exception, which the program may expect; `uncaught`: an exception that
    #: ended the program or a thread.
    kind: str
    process: int
    #: The class of the exception, and its message.
    error: str = ""
    message: str = ""
    violations: List[Dict[str, Any]] = field(default_factory=list)

    def violation(self) -> Optional[Violation]:
        """The first violation."""
        return Violation._of(self.violations[0]) if self.violations else None

    def is_defect(self) -> bool:
        """Whether the test that started the process must fail: a failed assertion of a kernel is what a program may test by its end."""
        found = self.violation()
        return self.kind == "uncaught" and (found is None or found.rule != "trap")

    def exception(self) -> Error:
        """The exception again, in this process."""
        message = f"process {self.process}: {self.message}"
        found = [Violation._of(raw) for raw in self.violations]
        error: Error
        if self.error == UnsupportedError.__name__:
            error = UnsupportedError(message)
        elif self.error == DisagreementError.__name__:
            error = DisagreementError(message, found)
        else:
            error = ViolationError(message, found[0] if found else None, found[1:])
        setattr(error, "of_process", True)
        return error


def _event(kind: str, error: Error) -> Event:
    found = [getattr(error, "violation", None), *getattr(error, "violations", [])]
    return Event(kind, os.getpid(), type(error).__name__, str(error), [one._raw() for one in found if one is not None])


#: The first line of a file, and its format.
_COUNTS = "{:20} {:20} {:20}\n"
_COUNTS_BYTES = len(_COUNTS.format(0, 0, 0))


class Record:
    """The file of this process."""

    def __init__(self, folder: str):
        self._folder = folder
        self._lock = threading.Lock()
        self._file: Optional[int] = None
        self._launches = self._instructions = self._violations = 0
        self._warned: Set[Tuple[Optional[str], str, int]] = set()

    def observe(self, result: Union[Report, Error]) -> None:
        """Write what a launch shows."""
        with self._lock:
            self._launches += 1
            events = []
            if isinstance(result, Report):
                self._instructions += result.instructions
                self._violations += len(result.violations)
                new = [one for one in result.violations if self._is_new(one)]
                events = [Event("warned", os.getpid(), violations=[one._raw()]) for one in new]
            elif isinstance(result, (ViolationError, DisagreementError, UnsupportedError)):
                events = [_event("raised", result)]
            self._write(events)

    def uncaught(self, error: Optional[BaseException]) -> None:
        """Write that an exception has ended the program or a thread, if it is of a launch."""
        if isinstance(error, SystemExit):
            # The program has chosen how it ends.
            return
        seen: Set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if isinstance(error, (ViolationError, DisagreementError, UnsupportedError)):
                with self._lock:
                    self._write([_event("uncaught", error)])
                return
            error = error.__cause__ or error.__context__

    def _is_new(self, violation: Violation) -> bool:
        key = (violation.rule, violation.place.kernel, violation.place.line)
        is_new = key not in self._warned
        self._warned.add(key)
        return is_new

    def _write(self, events: List[Event]) -> None:
        if self._file is None:
            self._file, _ = tempfile.mkstemp(dir=self._folder, prefix=f"{os.getpid()}-")
        counts = _COUNTS.format(self._launches, self._instructions, self._violations)
        os.pwrite(self._file, counts.encode(), 0)
        if events:
            os.lseek(self._file, 0, os.SEEK_END)
            os.write(self._file, "".join(json.dumps(asdict(event)) + "\n" for event in events).encode())


#: The record of this process, if a process that started it reads one.
_record: Optional[Record] = None


def _begin_record(folder: str) -> None:
    global _record
    if not os.path.isdir(folder):
        # The process that read it has ended.
        return
    _record = Record(folder)
    _module._observers.append(_record.observe)
    _note_uncaught()


def end_record() -> None:
    """Write no record any more: this process reports in another way."""
    global _record
    if _record is not None:
        _module._observers.remove(_record.observe)
        _record = None


def _uncaught(error: Optional[BaseException]) -> None:
    if _record is not None:
        _record.uncaught(error)


#: Whether exceptions that nothing catches are noted.
_notes_uncaught = False


def _note_uncaught() -> None:
    """Note exceptions that end the program, a thread, or a process of `multiprocessing`."""
    global _notes_uncaught
    if _notes_uncaught:
        return
    _notes_uncaught = True
    import multiprocessing.util as util

    before, before_thread, before_exit = sys.excepthook, threading.excepthook, util._exit_function  # type: ignore[attr-defined]

    def of_program(kind: Any, error: Any, trace: Any) -> None:
        _uncaught(error)
        before(kind, error, trace)

    def of_thread(given: Any) -> None:
        _uncaught(given.exc_value)
        before_thread(given)

    def of_process(*args: Any, **options: Any) -> None:
        # Called where the process has run, while the exception that ended it is on its way.
        _uncaught(sys.exc_info()[1])
        before_exit(*args, **options)

    sys.excepthook = of_program
    threading.excepthook = of_thread
    util._exit_function = of_process  # type: ignore[attr-defined]


class Children:
    """What the processes report that this process starts from now on."""

    def __init__(self, target: str, torch: bool, options: Dict[str, Any]):
        global _children
        self._folder = tempfile.mkdtemp(prefix="sm121probe-")
        self._before = os.environ.get(VARIABLE)
        self._owner = os.getpid()
        #: How much of each file has been read, and its counts.
        self._read: Dict[str, int] = {}
        self._counts: Dict[str, Tuple[int, ...]] = {}
        #: The exceptions that launches have raised.
        self.raised: List[Event] = []
        os.environ[VARIABLE] = str(Request(target, torch, self._folder, **options))
        _children = self

    def processes(self) -> int:
        """The number of processes that have launched kernels."""
        return len(self._counts)

    def totals(self) -> Tuple[int, int, int]:
        """The launches, warp instructions and violations of all processes."""
        columns = list(zip(*self._counts.values())) or [(0,), (0,), (0,)]
        launches, instructions, violations = map(sum, columns)
        return launches, instructions, violations

    def news(self) -> Iterator[Event]:
        """What has been reported since the last call; of exceptions that are raised, only `raised` keeps those that are not uncaught."""
        for name in sorted(os.listdir(self._folder)):
            with open(os.path.join(self._folder, name), "rb") as file:
                counts = file.read(_COUNTS_BYTES)
                if len(counts) < _COUNTS_BYTES:
                    # It is being made.
                    continue
                self._counts[name] = tuple(map(int, counts.split()))
                file.seek(self._read.get(name, _COUNTS_BYTES))
                # A line that is being written has no end yet.
                text, _, _ = file.read().rpartition(b"\n")
            if not text:
                continue
            self._read[name] = self._read.get(name, _COUNTS_BYTES) + len(text) + 1
            for line in text.decode().splitlines():
                event = Event(**json.loads(line))
                if event.kind == "raised":
                    self.raised.append(event)
                else:
                    yield event

    def end(self) -> None:
        """Restore the environment, and forget the files."""
        global _children
        if self._before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._before
        shutil.rmtree(self._folder, ignore_errors=True)
        _children = None

    def adopt(self, observers: List[Any]) -> None:
        """Report from now on, in a process that has been forked, instead of reading."""
        global _children
        for observer in observers:
            if observer in _module._observers:
                _module._observers.remove(observer)
        _children = None
        _begin_record(self._folder)


#: What this process reads, if it does.
_children: Optional[Children] = None

#: What counts launches in this process, and must not in a forked one.
_counters: List[Any] = []


def _after_fork() -> None:
    global _record
    if _children is not None:
        _children.adopt(_counters)
        _counters.clear()
    elif _record is not None:
        folder = _record._folder
        end_record()
        _begin_record(folder)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
