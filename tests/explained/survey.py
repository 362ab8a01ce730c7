"""Counts how many planted faults are explained: each is computed in NumPy, by no code of the judges, and judged as a dump.

survey.py [--report FILE] [FAMILY...]      needs sm121probe with NumPy; the command is $SM121PROBE, or `sm121probe`
"""

import argparse
import contextlib
import io
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np

import attention
import layer
import product


def diagnosed(problem):
    """What a judge says of a result that is wrong, or `None` if it finds nothing wrong."""
    kind, *data = problem
    if kind == "layer":
        return of_command(*data)
    try:
        data[0]()
    except AssertionError as error:
        return str(error)
    return None


def of_command(tensors, metadata):
    header, parts, offset = {"__metadata__": metadata}, [], 0
    names = {"float32": "F32", "uint8": "U8", "int32": "I32", "uint16": "BF16"}
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": names[array.dtype.name], "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
        file.flush()
        ran = subprocess.run([os.environ.get("SM121PROBE", "sm121probe"), "judge", file.name], capture_output=True, text=True)
    if ran.returncode not in (0, 100):
        raise RuntimeError(f"judge: {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout if ran.returncode else None


def outcome(text, wanted):
    """`named`, `among equals`, `unexplained`, `wrong` or `not seen`."""
    if text is None:
        return "not seen"
    if "unexplained:" in text:
        return "unexplained"
    answers = re.split(r"\n(?:look at|next best|wrong:|to tell)", text[text.index("all ") :])[0]
    if not re.search(wanted, answers):
        return "wrong"
    return "among equals" if "fit all" in text or not re.search(wanted, answers.split("\n")[0]) else "named"


def program_runs(text):
    """Whether the program of a diagnosis runs and shows an exact value that is not the stored one; `None` without a program."""
    _, found, program = text.partition("in Python:\n")
    if not found:
        return None
    lines = [line for line in program.split("\n") if line.startswith("    ")]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(textwrap.dedent("\n".join(lines)), {})
    words = shown.getvalue().split()
    return words[0] == "exact" and words[2] == "stored" and float(words[1]) != float(words[3])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--report")
    parser.add_argument("families", nargs="*", default=["product", "attention", "layer"])
    args = parser.parse_args()
    counts, listed, slowest, legal, programs = {}, [], 0.0, [], 0
    for family in args.families:
        module = {"product": product, "attention": attention, "layer": layer}[family]
        for name, problem in module.right():
            text = diagnosed(problem)
            legal.append(name)
            if text is not None:
                sys.exit(f"{family}: {name} is right, and the judge says\n{text}")
        for name, wanted, is_new, problem in module.faults():
            start = time.perf_counter()
            text = diagnosed(problem)
            seconds = time.perf_counter() - start
            slowest = max(slowest, seconds)
            found = outcome(text, wanted)
            counts.setdefault((family, is_new), []).append(found)
            runs = program_runs(text) if text else None
            programs += runs is not None
            if runs is False:
                sys.exit(f"{family}: {name}: the program shows no difference\n{text}")
            said = re.search("explain.*", text or "")
            print(f"{family}: {name}: {found}, {seconds:.2f} s: {said[0] if said else 'right'}", flush=True)
            if found not in ("named", "among equals"):
                listed.append((family, name, found, wanted))
                print(textwrap.indent(text or "", "    "))
    lines = table(counts, listed, len(legal), programs)
    print("\n".join(lines), f"\nslowest: {slowest:.2f} s")
    if args.report:
        with open(args.report, "w") as file:
            file.write("\n".join(lines) + "\n")
    every = [found for of in counts.values() for found in of]
    named = sum(found in ("named", "among equals") for found in every)
    if "wrong" in every or 100 * named < 85 * len(every):
        sys.exit(f"{named} of {len(every)} faults are named, {every.count('wrong')} wrongly")


def table(counts, listed, legal, programs):
    outcomes = ("named", "among equals", "unexplained", "not seen", "wrong")
    total = sum(map(len, counts.values()))
    lines = [
        "# Which planted faults are explained",
        "",
        f"`tests/explained/survey.py` plants {total} single faults, each computed in NumPy, and judges the results. Each is reported in public threads, or a slip in one step that such kernels have. *In no other test* are those that",
        "the tests beside the tables of hypotheses do not plant. *Among equals*: several explanations are given, as they make the same numbers with these data, and the right one is one of them.",
        "",
        "| family | faults | | " + " | ".join(outcomes) + " |",
        "|---" * (len(outcomes) + 3) + "|",
    ]
    for (family, is_new), of in counts.items():
        which = "in no other test" if is_new else "in the table's tests, too"
        lines.append(f"| {family} | {len(of)} | {which} | " + " | ".join(str(of.count(one)) for one in outcomes) + " |")
    every = [found for of in counts.values() for found in of]
    lines.append(f"| all | {total} | | " + " | ".join(str(every.count(one)) for one in outcomes) + " |")
    lines += ["", f"{legal} right results have no diagnosis. {programs} diagnoses have a program with the arithmetic of the first wrong element; each runs and shows another value than the stored one."]
    if listed:
        lines += ["", "Those that are not named:", ""]
        lines += [f"* {family}: {name}: {found}" for family, name, found, _ in listed]
    return lines


if __name__ == "__main__":
    main()
