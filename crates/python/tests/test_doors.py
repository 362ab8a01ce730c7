"""The verdict of the Python module on the emulator's file tests is the one that their headers state, as it is through every other door
(`tests/exec/doors.rs`). The files are those of the repository; a test is skipped where Python cannot describe its launch."""

import pathlib
import re
import warnings

import numpy as np
import pytest

import sm121probe as sm

ROOT = pathlib.Path(__file__).parents[2] / "emulator" / "tests" / "filetests"

TYPES = {"u8": "u1", "u16": "u2", "u32": "u4", "s32": "i4", "u64": "u8", "s64": "i8", "f32": "f4", "f64": "f8", "f16": "f2"}


class Unfit(Exception):
    """A test that Python cannot run as its header says, with the reason."""


def sections(path):
    """The header lines shared by all variants, and those of each variant, as (key, value) pairs; and the PTX."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    end = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("//")), len(lines))
    shared, variants = [], []
    for line in lines[:end]:
        if not line.startswith("//@"):
            continue
        key, _, value = line[3:].partition(":")
        key, value = key.strip(), value.strip()
        if key == "variant":
            name, _, edit = value.partition(":")
            variants.append((name.strip(), [("replace", edit.strip())] if edit.strip() else []))
        else:
            (variants[-1][1] if variants else shared).append((key, value))
    return shared, variants or [("", [])], "".join(lines[end:])


def cases():
    for path in sorted(ROOT.rglob("*.ptx")):
        shared, variants, body = sections(path)
        for name, own in variants:
            yield pytest.param(shared, own, body, id=f"{path.relative_to(ROOT).with_suffix('')}/{name}")


def edited(body, shared, own):
    for key, value in [*shared, *own]:
        if key.startswith("replace"):
            old, _, new = value.partition("=>")
            old, new = old.strip(), new.strip()
            if key != "replace" or body.count(old) != 1:
                raise Unfit("an edit of several places")
            body = body.replace(old, new)
    return body


def merged(shared, own, key):
    mine = [value for k, value in own if k == key]
    return mine or [value for k, value in shared if k == key]


def array(content):
    """The buffer's name and its contents; `None` for unwritten ones, with the shape."""
    match = re.fullmatch(r"(?:buf|out):(\w+)=(?:(zeros|iota):)?(\w+)\[([\d,]+)\]", content)
    if not match or match[3] not in TYPES:
        raise Unfit(f"the argument {content}")
    kind, shape = np.dtype(TYPES[match[3]]), tuple(int(n) for n in match[4].split(","))
    if match[2] == "zeros":
        return match[1], np.zeros(shape, kind), shape, kind
    if match[2] == "iota" and kind.kind in "ui" and np.prod(shape) <= np.iinfo(kind).max:
        return match[1], np.arange(np.prod(shape), dtype=kind).reshape(shape), shape, kind
    if match[2] is None and content.startswith("out:"):
        return match[1], None, shape, kind
    raise Unfit(f"the argument {content}")


def launch(shared, own, ptx):
    runs, checks = merged(shared, own, "run"), merged(shared, own, "checks")
    if len(runs) > 1 or checks or merged(shared, own, "source") or merged(shared, own, "buf"):
        raise Unfit("several launches, other checks, or another file")
    words = runs[0].split() if runs else []
    call = {"grid": (1,), "block": (32,), "args": merged(shared, own, "arg")}
    for word, value in zip(words[::2], words[1::2]):
        if word in ("--grid", "--block"):
            call[word[2:]] = tuple(int(n) for n in value.split(","))
        elif word == "--smem":
            call["smem"] = int(value)
        elif word == "--entry":
            call["entry"] = value
        else:
            raise Unfit(word)
    if len(words) % 2:
        raise Unfit("a word without a value")
    device, args, known = sm.Device(), [], {}
    for text in call["args"]:
        number = re.fullmatch(r"([us](?:8|16|32|64)|f32|f64):(\S+)", text)
        if number:
            kind = np.dtype(TYPES.get(number[1], "u1")).type
            args.append(kind(float(number[2]) if number[1][0] == "f" else int(number[2], 0)))
            continue
        name, contents, shape, kind = array(text)
        known[name] = device.empty(shape, kind, name=name) if contents is None else device.array(contents, name=name)
        args.append(known[name])
    schedules = (merged(shared, own, "schedules") or ["1"])[0].split()[0]
    contract = (merged(shared, own, "contract") or ["off"])[0]
    fuel = int((merged(shared, own, "fuel") or ["10000000"])[0])
    module = sm.Module(ptx)
    entry = call.get("entry") or next(iter(module.kernels))
    if call.get("entry") is None and len(module.kernels) != 1:
        raise Unfit("a kernel that is not named")
    device.launch(
        module, entry, call["grid"], call["block"], args, smem=call.get("smem"), schedules=int(schedules), contract=contract, fuel=fuel
    )
    # Memory of a device persists: bytes that a kernel left undefined are an error where the host reads them.
    return known.values()


@pytest.mark.parametrize("shared, own, body", cases())
def test_the_verdict_is_that_of_the_header(shared, own, body):
    ends = [(k, v) for k, v in own if k in ("expect", "violation", "unsupported", "error")]
    ends = ends or [(k, v) for k, v in shared if k in ("expect", "violation", "unsupported", "error")]
    # An expectation may follow an instruction.
    wanted = ends[0][0] if ends else "expect"
    rules = {value.split("@")[0].strip() for key, value in ends if key == "violation"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sm.RaceWarning)
        try:
            buffers = launch(shared, own, edited(body, shared, own))
        except Unfit as why:
            pytest.skip(str(why))
        except sm.ViolationError as error:
            assert wanted == "violation" and error.violation.rule in rules, str(error)
        except sm.UnsupportedError as error:
            assert wanted in ("unsupported", "error"), str(error)
        except (sm.LaunchError, TypeError, ValueError, OverflowError, KeyError) as error:
            assert wanted in ("error", "unsupported"), str(error)
        else:
            if wanted == "violation" and rules == {"uninitialised"}:
                with pytest.raises(ValueError, match="never written|are undefined: "):
                    [buffer.numpy() for buffer in buffers]
            else:
                assert wanted == "expect", "no violation"


def test_a_nondeterministic_result_is_reported_and_raised_only_where_equality_is_required():
    ticket = (
        ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 p_c, .param .u64 p_y) {\n"
        ".reg .b64 c, y;\n.reg .b32 t, n;\nld.param.u64 c, [p_c];\nld.param.u64 y, [p_y];\nmov.u32 t, %tid.x;\nmad.wide.u32 y, t, 4, y;\n"
        "atom.global.add.u32 n, [c], 1;\nst.global.u32 [y], n;\nret;\n}\n"
    )
    for options in ({"schedules": 6}, {"rules": "values"}, {"rules": "none", "schedules": 6}):
        c, y = np.zeros(1, np.uint32), np.zeros(128, np.uint32)
        report = sm.Module(ticket).launch("k", 1, 128, [c, y], **options)
        assert report.verdict == "nondeterministic" and y.tolist() == list(range(128)) and not report.violations
        difference = report.nondeterministic
        assert difference.buffer == "array 1" and difference.values[0] == str(difference.index[0]) != difference.values[1]
        y[:] = 0
        c[:] = 0
        with pytest.raises(sm.DisagreementError, match="no race is found") as caught:
            sm.Module(ticket).launch("k", 1, 128, [c, y], require_equal=True, **options)
        # The results of the first schedule are there all the same.
        assert y.tolist() == list(range(128)) and caught.value.report.nondeterministic.buffer == "array 1"


def test_lanes_that_store_to_one_address_are_left_open():
    store = (
        ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 p_y) {\n"
        ".reg .b64 y;\n.reg .b32 t;\n.reg .f32 f;\nld.param.u64 y, [p_y];\nmov.u32 t, %tid.x;\ncvt.rn.f32.u32 f, t;\n"
        "st.global.f32 [y], f;\nret;\n}\n"
    )
    for options in ({}, {"rules": "values"}):
        y = np.zeros(1, np.float32)
        report = sm.Module(store).launch("k", 1, 32, [y], **options)
        assert (report.verdict, y[0], len(report.undetermined_stores)) == ("undetermined", 31, 1) and not report.violations
        (found,) = report.undetermined
        assert (found.by, found.buffer, found.differing, found.first, found.other) == ("store_lane", "array 0", 1, "31", "0")
        assert found.largest == 31 and "of the lowest lane 0" in str(found)
        with pytest.raises(sm.DisagreementError, match="undetermined by PTX"):
            sm.Module(store).launch("k", 1, 32, [y], strict=True, **options)


def test_a_listed_race_is_a_warning_also_where_nothing_depends_on_it():
    racy = (
        ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 p_y) {\n"
        ".reg .b64 y;\n.reg .b32 t, w;\n.reg .pred p;\n.shared .b32 box;\nld.param.u64 y, [p_y];\nmov.u32 t, %tid.x;\n"
        "and.b32 w, t, 31;\nsetp.eq.u32 p, w, 0;\n@p st.shared.u32 [box], t;\nmad.wide.u32 y, t, 4, y;\nst.global.u32 [y], t;\nret;\n}\n"
    )
    y = np.zeros(64, np.uint32)
    with pytest.warns(sm.RaceWarning, match="writes shared address"):
        report = sm.Module(racy).launch("k", 1, 64, [y], rules="values")
    assert [v.rule for v in report.violations] == ["race"] and report.verdict == "equal"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = sm.Module(racy).launch("k", 1, 64, [y], rules="none")
        assert not report.violations
