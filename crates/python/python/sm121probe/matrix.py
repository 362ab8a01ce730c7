"""The committed capability matrix: what each toolkit accepts for each target."""

from __future__ import annotations

import functools
import json
from typing import Any, Dict, List, Optional

from . import _native


@functools.lru_cache(maxsize=1)
def record() -> Dict[str, Any]:
    """Return the built-in record."""
    return json.loads(_native.matrix_record())["matrix"]


#: The letter in `outcomes` for an accepted form.
_ACCEPTED = "A"
#: The letter in `native` for machine code that contains the instruction itself.
_NATIVE = "N"


@functools.lru_cache(maxsize=1)
def _variants() -> Dict[str, Dict[str, Any]]:
    return {variant["id"]: variant for variant in record()["variants"]}


def variants(pattern: str = "*") -> List[str]:
    """Return the instruction forms in the matrix that match a pattern (`mma.*`) or begin with it."""
    import fnmatch

    names = _variants()
    if pattern in names:
        return [pattern]
    return [n for n in names if fnmatch.fnmatchcase(n, pattern) or n.startswith(pattern)]


def toolkits() -> List[str]:
    """Return the CUDA toolkit versions in the matrix, oldest first."""
    return [t["version"] for t in record()["toolkits"]]


def targets() -> List[str]:
    """Return the targets in the matrix, sorted by architecture."""
    return sorted({p["target"] for p in record()["pairs"]}, key=lambda t: (int("".join(filter(str.isdigit, t))), t))


def accepts(form: str, target: str, toolkit: Optional[str] = None, *, native: bool = False) -> bool:
    """Return whether a toolkit's ptxas accepts a form for a target; with `native`, whether the machine code has the instruction too.

    `form` is one of `variants()`, or a pattern or prefix of several, which must agree. `toolkit` is a version or a prefix of one
    (`13.0`), by default the newest. Every answer was recorded from that ptxas; none is inferred. Raises `KeyError` for a form, toolkit or
    target that is not in the matrix, and `ValueError` if the forms of a pattern disagree.
    """
    found = variants(form)
    if not found:
        import difflib

        near = ", ".join(difflib.get_close_matches(form, _variants(), 3, 0.3))
        raise KeyError(f"the matrix has no form {form!r}" + (f"; near it are {near}" if near else ""))
    versions = [v for v in toolkits() if toolkit is None or v == toolkit or v.startswith(toolkit + ".")]
    if not versions:
        raise KeyError(f"the matrix has no toolkit {toolkit!r}; it has {', '.join(toolkits())}")
    wanted = {"toolkit": versions[-1], "target": target, "arch": target}
    try:
        pair = record()["pairs"].index(wanted)
    except ValueError:
        raise KeyError(f"the matrix has no target {target!r}; it has {', '.join(targets())}") from None
    answers = {}
    for name in found:
        variant = _variants()[name]
        accepted = variant["outcomes"][pair : pair + 1]
        if not accepted:
            raise KeyError(f"{name} was not assembled for {target} by {versions[-1]}")
        answers[name] = accepted == _ACCEPTED and (not native or variant["native"][pair : pair + 1] == _NATIVE)
    if len(set(answers.values())) > 1:
        yes = [n for n, answer in answers.items() if answer]
        no = [n for n, answer in answers.items() if not answer]
        raise ValueError(f"the forms do not agree: accepted {', '.join(yes[:5])}, …; not {', '.join(no[:5])}, …")
    return next(iter(answers.values()))
