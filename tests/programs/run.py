#!/usr/bin/env python3
"""Builds the programs of a folder, runs each under `sm121probe exec`, and prints a table by cause.

run.py FOLDER --probe target/debug/sm121probe [--cuda FOLDER] [--seed N] [--count N] [--jobs N] [--json FILE]

A program is a folder with a Makefile or a CMakeLists.txt that mentions CUDA (HeCBench's `src/*-cuda`, cuda-samples, Rodinia). It is built by its own
files, in a copy. Only the compiler's options for architectures are changed, by an `nvcc` in front of the real one: they become the one that keeps PTX for
the simulated GPU. Programs that include a graphics library are left out.

Exit code 0 if every program passes, 3 if one does anything else, 2 if nothing could be drawn or built.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

# An include of a graphics library, in a source file.
GRAPHICS = re.compile(r'^\s*#\s*include\s*[<"](?:GL/|GLFW|GLES|EGL/|helper_gl|vulkan|d3d\w*\.h|dxgi|nvsci|cudla|FreeImage|rendercheck_)', re.M | re.I)
# What a self-check prints if it fails. Counts of zero failures are no failures.
WRONG = re.compile(r"\b(?:test\s+failed|fail(?:ed|ure)?!*\s*$|result:?\s+fail|verification failed|mismatch(?:es)? (?:at|found)|incorrect results?|not correct)|(?-i:^[ \t]*FAIL(?:ED)?\b)|error:.*\bverif", re.I | re.M)
SOURCES = {".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp"}
# Every cause, in the order of the table.
CAUSES = ["pass", "finding", "wrong", "failed", "too slow", "refused", "nothing checked", "build failed"]

NVCC = """#!/bin/sh
# Runs nvcc with PTX for the simulated GPU instead of the architectures that a build file asks for. nvlink of CUDA 13.0 links no objects that
# have PTX alone: separate compilation adds machine code.
skip= code={arch}
for word; do
    shift
    case "$word" in -dc | -dlink | -rdc* | --relocatable-device-code* | --device-c | --device-link) code={arch},{machine} ;; esac
    if [ -n "$skip" ]; then skip=; continue; fi
    case "$word" in
        -gencode | --generate-code | -arch | --gpu-architecture | -code | --gpu-code) skip=yes; continue ;;
        -gencode=* | --generate-code=* | -arch=* | --gpu-architecture=* | -code=* | --gpu-code=*) continue ;;
    esac
    set -- "$@" "$word"
done
exec {nvcc} -gencode "arch={arch},code=[$code]" -lineinfo -L{links} "$@"
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="the folder with the programs")
    parser.add_argument("--probe", type=pathlib.Path, help="the command; by default the one on PATH")
    parser.add_argument("--cuda", type=pathlib.Path, help="the folder with bin/nvcc; by default that of the nvcc on PATH")
    parser.add_argument("--gpu", default="gb10", help="the simulated GPU (exec --gpu)")
    parser.add_argument("--arch", default="compute_121a", help="the architecture of the PTX")
    parser.add_argument("--filter", default="", help="a regular expression of the names to draw from")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the draw")
    parser.add_argument("--count", type=int, help="how many programs to draw; all by default")
    parser.add_argument("--limit", type=float, default=30, help="seconds that a program may run")
    parser.add_argument("--build-limit", type=float, default=300, help="seconds that a build may take")
    parser.add_argument("--jobs", type=int, default=1, help="how many programs are built and run at a time")
    parser.add_argument("--json", type=pathlib.Path, help="write the results to this file after each program; programs that it has are not run again")
    parser.add_argument("--work", type=pathlib.Path, help="keep the builds in this folder, and use those that are there")
    given = parser.parse_args()
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder; name the folder with the programs")
    for name, value, remedy in [("probe", "sm121probe", "name it with --probe"), ("cuda", "nvcc", "name its toolkit with --cuda (pip: nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl, whose folder is nvidia/cu13)")]:
        if getattr(given, name) is None:
            found = shutil.which(value)
            if found is None:
                parser.error(f"no {value} on PATH; {remedy}")
            path = pathlib.Path(found).resolve()
            setattr(given, name, path if name == "probe" else path.parent.parent)
    given.probe, given.cuda, given.folder = given.probe.resolve(), given.cuda.resolve(), given.folder.resolve()
    if not (given.cuda / "bin/nvcc").is_file():
        parser.error(f"{given.cuda} has no bin/nvcc")
    return given


def text_of(path):
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def programs(folder, pattern):
    """The folders of programs, by name; and those that draw, which are left out."""
    kept, left_out = {}, []
    for file in sorted([*folder.rglob("Makefile"), *folder.rglob("CMakeLists.txt")]):
        place = file.parent
        name = str(place.relative_to(folder))
        if name in kept or not re.search(pattern, name):
            continue
        if file.name == "CMakeLists.txt" and not re.search(r"project\s*\([^)]*\bCUDA\b", text_of(file), re.I):
            continue
        sources = [path for path in place.rglob("*") if path.suffix in SOURCES]
        if not any(path.suffix == ".cu" for path in sources) and not re.search(r"CUDA|nvcc", text_of(file)):
            continue
        if any(parent in kept for parent in map(str, pathlib.Path(name).parents)):
            continue
        if any(GRAPHICS.search(text_of(path)) for path in sources):
            left_out.append(name)
        else:
            kept[name] = place
    return kept, left_out


def limited(command, limit, **more):
    """Runs a command in a process group of its own. Its exit code (None at the limit), what it printed, and the seconds."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, **more)
        except FileNotFoundError as error:
            return 127, f"error: {command[0]} not found: install it, or put it on PATH ({error})", 0.0
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            # `exec` passes the signal on and writes its report.
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        out.seek(0)
        return code, out.read().decode(errors="replace"), time.monotonic() - began


class Suite:
    """The programs of a folder, and what builds and runs them."""

    def __init__(self, given, work):
        self.given, self.work = given, work
        # Programs lie in one tree, whose links a copy changes.
        self.tree = threading.Lock()
        self.front = work / "front"
        links = self.front / "lib"
        links.mkdir(parents=True, exist_ok=True)
        self.link_libraries(links)
        compiler = self.front / "nvcc"
        compiler.write_text(NVCC.replace("{nvcc}", str(given.cuda / "bin/nvcc")).replace("{machine}", given.arch.replace("compute", "sm")).replace("{arch}", given.arch).replace("{links}", str(links)))
        compiler.chmod(0o755)
        libraries = f"{given.cuda / 'lib'}:{links}"
        path = f"{self.front}:{given.cuda / 'bin'}:{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "LD_LIBRARY_PATH": libraries, "CUDACXX": str(compiler), "CUDA_PATH": str(given.cuda), "CUDA_HOME": str(given.cuda)}

    def link_libraries(self, folder):
        """Wheels have no `libNAME.so`, which linkers look for, and no `lib64`, where nvcc looks; the driver's is the one of `exec`."""
        cuda = self.given.cuda
        for place in [cuda / "lib", cuda / "lib64"]:
            for file in [*place.glob("lib*.so.*"), *place.glob("lib*.a")]:
                name = folder / (file.name if file.suffix == ".a" else file.name.split(".so.")[0] + ".so")
                if not name.is_symlink():
                    name.symlink_to(file)
        driver = folder / "libcuda.so"
        if driver.exists():
            return
        beside = [self.given.probe.parent / name for name in ["libsm121probe_cuda.so", "lib/libsm121probe_cuda.so"]]
        library = next((path for path in beside if path.is_file()), None)
        if library is None:
            print(f"no libsm121probe_cuda.so beside {self.given.probe}: name the command of a whole build or package with --probe", file=sys.stderr)
            sys.exit(2)
        exported = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        names = re.findall(r" T (cu[A-Z]\w*)$", exported, re.M)
        stub = "".join(f"void {name}(void) {{}}\n" for name in names)
        subprocess.run(["gcc", "-shared", "-nostdlib", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o", driver], input=stub, text=True, check=True)

    def build(self, name):
        """The folder and the command of a built program; or the reason why it is none, as text."""
        place = self.given.folder / name
        copy = self.work / "tree" / name
        marker = copy / ".built"
        if not marker.exists():
            with self.tree:
                self.copy(place, copy)
        return self.build_by_make(copy, marker) if (copy / "Makefile").exists() else self.build_by_cmake(name, copy, marker)

    def copy(self, place, copy):
        """A copy of a program, beside links to all that lies beside it and above it."""
        above, to = self.given.folder, self.work / "tree"
        for part in [*place.relative_to(above).parts, None]:
            if to.is_symlink():
                to.unlink()
            to.mkdir(parents=True, exist_ok=True)
            if part is None:
                break
            # Files that programs share lie above them, as `../../Common`.
            for other in above.iterdir():
                link = to / other.name
                if other.name != part and not link.exists() and not link.is_symlink():
                    link.symlink_to(other)
            above, to = above / part, to / part
        shutil.copytree(place, copy, symlinks=True, dirs_exist_ok=True)

    def build_by_make(self, copy, marker):
        make = ["make", "-C", str(copy)]
        if not marker.exists():
            subprocess.run([*make, "clean"], env=self.environment, capture_output=True, stdin=subprocess.DEVNULL)
            code, text, _ = limited(make, self.given.build_limit, env=self.environment)
            if code != 0:
                return reason(text, code)
            marker.touch()
        code, text, _ = limited([*make, "-n", "run"], 30, env=self.environment)
        if code == 0:
            return copy, ["make", "-s", "run"]
        found = sorted((path for path in copy.iterdir() if is_program(path)), key=lambda path: path.stat().st_mtime)
        return (copy, [str(found[-1])]) if found else "the Makefile has no target `run`, and no program is built"

    def build_by_cmake(self, name, copy, marker):
        build = copy / "build"
        if not marker.exists():
            # The architecture is asked for in two ways: some files set their own, which the compiler in front replaces.
            configure = ["cmake", "-S", str(copy), "-B", str(build), "-DCMAKE_CUDA_ARCHITECTURES=" + self.given.arch.removeprefix("compute_") + "-virtual", f"-DCUDAToolkit_ROOT={self.given.cuda}", f"-DCMAKE_CUDA_COMPILER={self.front / 'nvcc'}", f"-DCMAKE_LIBRARY_PATH={self.front / 'lib'}"]
            code, text, _ = limited(configure, self.given.build_limit, env=self.environment)
            if code == 0:
                code, text, _ = limited(["cmake", "--build", str(build)], self.given.build_limit, env=self.environment)
            if code != 0:
                return reason(text, code)
            marker.touch()
        found = [path for path in build.rglob("*") if is_program(path) and "CMakeFiles" not in path.parts]
        wanted = [path for path in found if path.name == pathlib.Path(name).name] or found
        return (wanted[0].parent, [str(wanted[0])]) if wanted else "no program is built"

    def run(self, name):
        """What a program does: its cause, and the reasons."""
        built = self.build(name)
        if isinstance(built, str):
            return {"cause": "build failed", "why": [built]}
        folder, command = built
        report = self.work / "reports" / (name.replace("/", "_") + ".json")
        report.parent.mkdir(exist_ok=True)
        report.unlink(missing_ok=True)
        exec_ = [str(self.given.probe), "exec", "--gpu", self.given.gpu, "--time-limit", str(max(self.given.limit - 3, 1)), "--format", "json", "-o", str(report), "--"]
        code, text, seconds = limited([*exec_, *command], self.given.limit, cwd=folder, env=self.environment)
        try:
            found = json.loads(report.read_text())
        except (OSError, ValueError):
            return {"cause": "failed", "why": [f"no report: {text[-400:]}"], "code": code, "seconds": round(seconds, 1)}
        return judged(found, code, text, seconds)


def is_program(path):
    if not path.is_file() or not os.access(path, os.X_OK) or path.suffix in {".so", ".o", ".a", ".sh", ".py"}:
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def reason(text, code):
    """The first line that looks like an error of a build."""
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if re.search(r"\berror\b|fatal|cannot find|not found|undefined reference|No such file", line, re.I)]
    return (errors or lines or ["nothing printed"])[0][:300] + (" (at the time limit)" if code is None else "")


def judged(report, code, text, seconds):
    launches = sum(kernel["launches"] for kernel in report["kernels"].values())
    instructions = sum(kernel["instructions"] for kernel in report["kernels"].values())
    out = {"code": code, "seconds": round(seconds, 1), "launches": launches, "instructions": instructions, "why": []}
    refused = [*report["missing"], *(f"{kernel}: {why}" for kernel, why in report["refused"].items()), *report["unchecked"]]
    wrong = WRONG.search(text)
    if report["violations"]:
        out["cause"] = "finding"
        out["why"] = [f"{each['rule']}: {each['message']}" for each in report["violations"]]
    elif any("--time-limit" in why for why in report["unchecked"]):
        out["cause"], out["why"] = "too slow", [why for why in report["unchecked"] if "--time-limit" in why]
    elif code is None:
        out["cause"] = "too slow"
        out["why"] = [f"{launches} launches, {instructions / seconds / 1e6:.1f} M warp instructions per second; in {', '.join(report['unfinished']) or 'host code'}"]
    elif refused:
        out["cause"], out["why"] = "refused", refused
    elif wrong:
        line = text[: wrong.start()].count("\n")
        out["cause"], out["why"] = "wrong", [text.splitlines()[line].strip()[:200]]
    elif code == 0:
        out["cause"] = "pass"
    elif code == 4:
        out["cause"], out["why"] = "nothing checked", report["incomplete"]["reasons"]
    else:
        out["cause"], out["why"] = "failed", [f"exit code {report['code']}: {text.strip()[-300:]}"]
    return out


def table(results):
    counts = collections.Counter(result["cause"] for result in results.values())
    lines = ["| cause | programs | |", "|---|---|---|"]
    for cause in CAUSES:
        names = [name for name, result in results.items() if result["cause"] == cause]
        if counts[cause]:
            lines.append(f"| {cause} | {counts[cause]} | {', '.join(names)} |")
    for name, result in results.items():
        if result["cause"] != "pass":
            lines.extend(f"{name}: {result['cause']}: {why}" for why in result["why"][:4])
    return "\n".join(lines)


def main():
    given = arguments()
    kept, left_out = programs(given.folder, given.filter)
    names = sorted(kept)
    random.seed(given.seed)
    drawn = sorted(random.sample(names, min(given.count or len(names), len(names))))
    if not drawn:
        print(f"no program in {given.folder}: no folder has a Makefile or a CMakeLists.txt that builds CUDA", file=sys.stderr)
        return 2
    print(f"{len(drawn)} of {len(names)} programs, seed {given.seed}; {len(left_out)} with graphics are left out", flush=True)
    results = {}
    if given.json and given.json.exists():
        before = json.loads(given.json.read_text())["programs"]
        results = {name: before[name] for name in drawn if name in before}
    tools = {"nm", "gcc"} | {"make" if (kept[name] / "Makefile").exists() else "cmake" for name in drawn if name not in results}
    missing = sorted(tool for tool in tools if shutil.which(tool) is None)
    if missing:
        print(f"{' and '.join(missing)} not found: install what builds these programs, or put it on PATH", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        work = (given.work or pathlib.Path(scratch)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        suite = Suite(given, work)
        with concurrent.futures.ThreadPoolExecutor(given.jobs) as jobs:
            running = {jobs.submit(suite.run, name): name for name in drawn if name not in results}
            for job in concurrent.futures.as_completed(running):
                name = running[job]
                results[name] = job.result()
                print(f"{name}: {results[name]['cause']} {'; '.join(results[name]['why'])[:200]}", flush=True)
                if given.json:
                    given.json.write_text(json.dumps({"seed": given.seed, "of": len(names), "left_out": left_out, "programs": results}, indent=1) + "\n")
    results = {name: results[name] for name in drawn}
    print(table(results))
    return 0 if all(result["cause"] == "pass" for result in results.values()) else 3


if __name__ == "__main__":
    sys.exit(main())
