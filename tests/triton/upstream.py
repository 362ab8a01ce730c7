"""Writes the part of the report on Triton's own tests, from the results of the plugin `sample`.

    python upstream.py --revision TEXT --seed SEED RESULTS...

Each failure is read by hand once; `EXPLAINED` keeps what was found, by file, function and message. A failure that it does not explain counts as
wrong or as an error.
"""

import argparse
import collections
import importlib.metadata
import json
import re

#: The columns: what a case met.
COLUMNS = ("passed", "finding", "refused", "hardware", "version", "environment", "time", "wrong", "error", "skipped")

#: The packages whose versions the report names.
PACKAGES = ("triton", "torch")

#: What failures are: files, functions and messages as regular expressions, the column, and the reason.
EXPLAINED = (
    ("language/test_core.py", "test_atomic_poll.*", r"assert 2 == 1.*ld\.relaxed", "version", "the test counts loads in the PTX; this version of LLVM writes the first round of the loop twice"),
    ("language/test_core.py", "test_atomic_rmw", r"'atom\.global\.gpu\.relaxed' in", "version", "the test looks for `atom` in the PTX; this version of LLVM writes `red` where the old value is not used"),
    ("language/test_core.py", "test_softmax_vectorization_correctness", r"'\.target sm_100' in", "hardware", "the test looks for the target sm_100 in the PTX"),
    (".*", ".*", r"module 'triton\.language' has no attribute|Block pointers have been removed|got an unexpected keyword argument", "version", "this version does not have the function"),
    ("language/test_(codegen_binop|nanobind_optional_args).py", ".*", r"x \+ x \+ x|ir\.builder has no method|has no argument named", "version", "the test is of a change of the front end that this version lacks: it fails without the plugin, too"),
    ("language/test_compile_only.py", ".*", "Parse MLIR file failed", "version", "this version does not read the IR of the test: it fails without the plugin, too"),
    ("language/test_core.py", "test_cat", "Tensor-likes are not equal", "version", "`tl.cat(can_reorder=True)` of this version reorders, as its documentation says; all values are there"),
    ("language/test_core.py", "test_reduce", "too many indices for tensor of rank 0", "version", "the front end of this version refuses the index"),
    ("language/test_core.py", "test_scan2d", "Not equal to tolerance rtol=0.01", "version", "this version adds bfloat16 by `add.bf16`, which rounds every sum; the test expects sums in binary32"),
    ("language/test_core.py", "test_pointer_arguments", "DID NOT RAISE", "environment", "memory of the CPU is the memory of kernels, so that a tensor of the CPU is no error"),
    ("language/test_matmul.py", "test_preshuffle_scale_mxfp_cdna4", r"Mismatched elements: 1 / 1048576 .*absolute difference: 2\.", "environment", "the reference is the CPU's product in binary32; one of a million sums of 1,024 products is 2.3e-5 away, less than one rounding of the sum of the magnitudes, and the test allows 2e-5"),
    ("language/test_frontend.py", "test_atomic_poll_rejects_tensor_pointer", "DID NOT RAISE", "version", "the front end of this version accepts what the test refuses"),
    ("language/test_(frontend|line_info).py", ".*", "CHECK: expected string not found", "version", "the test compares the text of Triton's IR, which differs in this version"),
    (".*", ".*", r"out of resource: shared memory, Required: \d+, Hardware limit: 101376", "hardware", "more shared memory than the 99 KiB of SM12x"),
    (".*", ".*", r"a cluster of .* CTAs; the limit of sm_12\d is 8", "hardware", "a cluster of more than the 8 CTAs of SM12x"),
    (".*", ".*", r"an access to the shared memory of CTA rank \d+, which may not have started", "finding", "Triton writes no `barrier.cluster` before the first access to another CTA's shared memory, which need not have started"),
    (".*", ".*", r"which this version of Triton does not compile", "refused", "SM12x has the instruction, but Triton's compiler refuses it there"),
    (".*", ".*", r"which sm_12\d lacks", "hardware", "an instruction of another architecture, refused by name at compile time"),
    ("language/test_core.py", "test_if_call", "out_of_bounds", "finding", "warps read `Out` again after another has stored 1, and load from `Out + 1`"),
    ("language/test_annotations.py", "test_int_annotation", "out_of_bounds", "finding", "the kernel stores to `X + v`, and `X` has one element"),
)


def kind_of(result):
    """The column of a result, and the reason if it was explained."""
    outcome = result["outcome"]
    if outcome in ("passed", "skipped", "time"):
        return outcome, ""
    if outcome in ("xfailed", "xpassed"):
        return "skipped", ""
    for file, function, message, column, reason in EXPLAINED:
        if re.fullmatch(file, result["file"]) and re.fullmatch(function, result["function"]) and re.search(message, result.get("message", ""), re.DOTALL):
            return column, reason
    return outcome, ""


def table(rows):
    """The counts by function."""
    lines = [
        "",
        "| file | function | cases | pass | finding | refused | hardware | version | environment | time | wrong | error | skipped |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (file, function), counts in sorted(rows.items()):
        cells = "|".join(str(counts[column]) if counts[column] else "" for column in COLUMNS)
        lines.append(f"|`{file}`|`{function}`|{sum(counts.values())}|{cells}|")
    return lines


def report(results, revision, seed, brief=False):
    """The Markdown; if `brief`, without the table by function, as a part of another report."""
    rows, reasons, unexplained = collections.OrderedDict(), collections.OrderedDict(), []
    for result in results:
        column, reason = kind_of(result)
        rows.setdefault((result["file"], result["function"]), collections.Counter())[column] += 1
        if reason:
            reasons.setdefault((column, result["file"], result["function"], reason), []).append(result)
        elif column not in ("passed", "skipped", "time"):
            unexplained.append((column, result))
    total = sum(rows.values(), collections.Counter())
    ran = sum(total.values()) - total["skipped"]
    versions = " and ".join(f"{name} {importlib.metadata.version(name).partition('+')[0]}" for name in PACKAGES)
    able = ran - total["version"] - total["hardware"] - total["refused"]
    lines = [
        "### Another sample of Triton's own tests" if brief else "## Triton's own tests",
        "",
        f"A sample of {sum(total.values())} cases, drawn with the seed {seed} from the tests of revision {revision}, with {versions}, by `pytest --sm12x`:",
        f"{total['passed']} of {ran} cases that run pass; wrong numbers: {total['wrong']}. *Finding*, *refused*, *wrong* and *error* are as above. *Hardware*: SM12x lacks what the case needs. *Version*: the test is",
        "of another version of Triton than the package, so that it would fail on a GPU, too. *Environment*: the reference, or memory, is the CPU's. *Time*: the case is too large to emulate within its limit. Skipped are those that the tests themselves",
        "skip for SM12x.",
    ]
    if brief:
        lines.append(f"Of the {able} cases that neither need another version of Triton nor other hardware, {total['passed']} pass.")
    else:
        lines += table(rows)
    if reasons:
        lines += ["", "| outcome | file | function | cases | why |", "|---|---|---|--:|---|"]
        lines += [f"|{column}|`{file}`|`{function}`|{len(cases)}|{reason}|" for (column, file, function, reason), cases in sorted(reasons.items())]
    if unexplained:
        lines += ["", "| not explained | case | message |", "|---|---|---|"]
        for column, result in unexplained:
            message = (result.get("message", "").strip().splitlines() or [""])[0][:200].replace("|", "\\|")
            lines.append(f"|{column}|`{result['file']}::{result['case']}`|{message}|")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--revision", required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--brief", action="store_true", help="leave out the table by function")
    parser.add_argument("results", nargs="+")
    given = parser.parse_args()
    results = []
    for path in given.results:
        with open(path, encoding="utf-8") as file:
            results += map(json.loads, file)
    print(report(results, given.revision, given.seed, given.brief), end="")


if __name__ == "__main__":
    main()
