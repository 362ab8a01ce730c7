"""Runs Triton's tutorials on the emulator at small sizes: each in a process of its own, as `python TUTORIAL` would, with the numbers below changed.

python tests/triton/tutorials.py CHECKOUT [--seconds N] [--report FILE.md --revision TEXT] [NAME...]

The interpreter has sm121probe, torch, triton and what tutorials need: pandas, matplotlib, tabulate and llnl-hatchet.
"""

import argparse
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple

#: Where a checkout has them.
TUTORIALS_IN = pathlib.Path("python", "tutorials")

#: What is called in a tutorial that is a test for pytest, with the names that it passes.
_TEST = "\ntest_op(Z=1, H=2, N_CTX=128, HEAD_DIM=64, causal={causal}, warp_specialize=False, mode={mode!r}, provider={provider!r})\n"


class Tutorial(NamedTuple):
    """A tutorial, and what makes it small."""

    name: str
    #: Texts and what takes their place. Each must occur: a tutorial that has changed is an error, not a long run.
    changes: Dict[str, str] = {}
    arguments: List[str] = []
    #: What runs behind it.
    tail: str = ""
    #: What the report adds.
    note: str = ""


#: The first size of a benchmark is enough to run it.
_SIZES = re.compile(r"x_vals=\[[^\]]*\]")

TUTORIALS = [
    Tutorial("01-vector-add"),
    Tutorial("02-fused-softmax", {"'M': 4096": "'M': 64"}),
    Tutorial("03-matrix-multiplication", {"(512, 512)": "(128, 128)"}),
    Tutorial("04-low-memory-dropout"),
    Tutorial("05-layer-norm", {"test_layer_norm(1151, 8192,": "test_layer_norm(67, 1024,", "'M': 4096": "'M': 32"}),
    Tutorial(
        "06-fused-attention",
        # The gradient of heads of 128 needs more shared memory than SM12x has.
        {
            "BATCH, N_HEADS = 4, 32": "BATCH, N_HEADS = 1, 1",
            "for HEAD_DIM in [64, 128]": "for HEAD_DIM in [64]",
            "2**i for i in range(10, 15)": "128",
        },
        tail=_TEST.format(causal=True, mode="bwd", provider="triton-fp16") + _TEST.format(causal=False, mode="fwd", provider="triton-fp8"),
    ),
    Tutorial("07-extern-functions"),
    Tutorial("08-grouped-gemm", {"[1024, 512, 256, 128]": "[256, 128, 128, 128]", "= 8192": "= 256"}),
    Tutorial("09-persistent-matmul", {"8192": "256", "reps=10000, warmup_reps=10000": "reps=1, warmup_reps=1"}, ["-K", "128"]),
    Tutorial("10-block-scaled-matmul", {"8192": "256"}, ["-K", "256"], note=": it says that it needs compute capability 10, and ends, as on any GPU of SM12x"),
    Tutorial("11-programmatic-dependent-launch", {"2**i for i in range(23, 28, 1)": "4096"}),
]

#: Runs a tutorial as a script, under its own name.
_RUN = """
import runpy, sys
import sm121probe.triton
sm121probe.triton.activate(sys.argv.pop(1), torch=True)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _first_size(match: "re.Match[str]") -> str:
    """Keep the first size of a benchmark, without a change of lines."""
    inside = match.group(0)[len("x_vals=") :]
    return f"x_vals=({inside})[:1]"


def small(tutorial: Tutorial, text: str) -> str:
    """Return the text of a tutorial at small sizes."""
    for old, new in tutorial.changes.items():
        if old not in text:
            raise SystemExit(f"{tutorial.name}.py has no {old!r}: it has changed; adapt TUTORIALS in {__file__}")
        text = text.replace(old, new)
    return _SIZES.sub(_first_size, text) + tutorial.tail


def run(tutorial: Tutorial, checkout: pathlib.Path, target: str, seconds: float) -> Dict[str, Any]:
    """Run a tutorial, and return how it ended."""
    with tempfile.TemporaryDirectory() as work:
        # It looks for files from its own place in the checkout.
        script = pathlib.Path(work, TUTORIALS_IN, f"{tutorial.name}.py")
        script.parent.mkdir(parents=True)
        for entry in checkout.iterdir():
            if entry.name != TUTORIALS_IN.parts[0]:
                pathlib.Path(work, entry.name).symlink_to(entry.resolve())
        script.write_text(small(tutorial, (checkout / TUTORIALS_IN / script.name).read_text()))
        command = [sys.executable, "-c", _RUN, target, str(script), *tutorial.arguments]
        start = time.monotonic()
        environment = {**os.environ, "MPLBACKEND": "agg"}
        try:
            ended = subprocess.run(command, cwd=script.parent, env=environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"name": tutorial.name, "ended": f"not within {seconds:.0f} s", "seconds": seconds}
    said = (ended.stdout + ended.stderr).strip().splitlines()
    # Tutorials that compare by themselves print this beside what differs.
    wrong = [line for line in said if "❌" in line]
    if ended.returncode != 0:
        how = said[-1] if said else f"status {ended.returncode}"
    else:
        how = f"differs: {wrong[0]}" if wrong else "pass"
    if how != "pass":
        print("\n".join(said[-40:]), file=sys.stderr)
    how += tutorial.note if how == "pass" else ""
    return {"name": tutorial.name, "ended": how, "seconds": round(time.monotonic() - start, 1)}


def report(results: List[Dict[str, Any]], revision: str) -> str:
    """Return the section of the report."""
    passed = sum(result["ended"].startswith("pass") for result in results)
    versions = " and ".join(f"{name} {importlib.metadata.version(name).partition('+')[0]}" for name in ("triton", "torch"))
    lines = [
        "## Triton's tutorials",
        "",
        f"Those of revision {revision}, with {versions}, at the sizes of `tests/triton/tutorials.py`: {passed} of {len(results)} pass, with their own comparisons and benchmarks.",
        "",
        "| tutorial | ended | seconds |",
        "|---|---|--:|",
    ]
    lines += ["|`{name}`|{ended}|{seconds}|".format(**result) for result in results]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the tutorials, print a line for each, and return the status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=pathlib.Path, help="a checkout of Triton")
    parser.add_argument("names", nargs="*", help="tutorials, as 01-vector-add; all of them if left out")
    parser.add_argument("--target", default="sm_120", help="what the kernels are compiled for")
    parser.add_argument("--seconds", type=float, default=600, help="the longest that one may take")
    parser.add_argument("--report", type=pathlib.Path, help="write how each ended, as Markdown")
    parser.add_argument("--revision", default="of an unknown date", help="what the report calls the checkout")
    options = parser.parse_intermixed_args()
    if not (options.checkout / TUTORIALS_IN).is_dir():
        parser.error(f"{options.checkout} is no checkout of Triton: it has no {TUTORIALS_IN}")
    unknown = set(options.names) - {tutorial.name for tutorial in TUTORIALS}
    if unknown:
        parser.error(f"no tutorial {sorted(unknown)[0]}; there are {', '.join(tutorial.name for tutorial in TUTORIALS)}")
    results = []
    for tutorial in TUTORIALS:
        if not options.names or tutorial.name in options.names:
            results.append(run(tutorial, options.checkout, options.target, options.seconds))
            print(f"{tutorial.name}: {results[-1]['ended']} ({results[-1]['seconds']} s)", flush=True)
    if options.report:
        options.report.write_text(report(results, options.revision))
    return 0 if all(result["ended"].startswith("pass") for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
