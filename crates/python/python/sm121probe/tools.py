"""Commands of `sm121probe` as functions that return parsed output.

They need the same toolkits as the command; `sm121probe toolkit install` fetches them.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .errors import Error, IncompleteError, ToolkitError

#: Exit codes of the command: two that are not errors, those of a check of nothing or less than everything, and of a missing toolkit.
_CONFORMS, _DIFFERS, _INCOMPLETE, _NO_TOOLKIT = 0, 100, 4, 120


def command(*words: str, answers: Sequence[int] = (_CONFORMS, _DIFFERS)) -> Tuple[int, str]:
    """Run `sm121probe` with these words and return exit code and standard output. Raises
    `IncompleteError` if the command checked nothing or less than it was asked to, and `Error` if the code is not in `answers`."""
    call = [sys.executable, "-m", "sm121probe", *words]
    done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode in answers:
        return done.returncode, done.stdout
    if done.returncode == _INCOMPLETE:
        raise IncompleteError(done.stderr.strip() or done.stdout.partition("\n")[0], done.stdout)
    kind = ToolkitError if done.returncode == _NO_TOOLKIT else Error
    raise kind(done.stderr.strip() or f"sm121probe ended with code {done.returncode}")


def lint(
    ptx: str,
    *,
    targets: Sequence[str] = (),
    toolkits: Sequence[str] = (),
    require: Optional[str] = None,
) -> Dict[str, Any]:
    """Assemble PTX with each toolkit for each target, and report rejections, their locations and accepted alternatives.

    `ptx` is PTX text or the path of a .ptx file. `require` is the requirement on every target: `all`, `rewritten`, … (see
    `sm121probe lint --help`). The result has `conforms`, and `files`, which contain `modules`, which contain `cells`.
    """
    options = [f"--target={t}" for t in targets] + [f"--toolkit={t}" for t in toolkits]
    if require:
        options.append(f"--require={require}")
    if "\n" not in ptx:
        return json.loads(command("lint", ptx, *options, "--format", "json")[1])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ptx)
        return json.loads(command("lint", path, *options, "--format", "json")[1])


def audit(paths: Sequence[str], *, device: str = "sm_121", require: Optional[str] = None) -> Dict[str, Any]:
    """Report how the device code in libraries, wheels and folders runs on a device: a dictionary with `entries`, `kernels` and `files`, and
    with `conforms`, which is whether every kernel meets `require` (`native` or `runs`)."""
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    words = ["audit", *map(os.fspath, paths), "--for", device, "--format", "json"]
    if require:
        words.append(f"--require={require}")
    code, output = command(*words)
    return {**json.loads(output)["audit"], "conforms": code == _CONFORMS}


def emulated() -> List[Dict[str, str]]:
    """Return the PTX instructions that the emulator supports, and those that it does not, as rows of the table of `sm121probe ops`."""
    return list(csv.DictReader(io.StringIO(command("ops", "--format", "csv")[1])))


def judge(tensors: Dict[str, Any], **metadata: Any) -> Dict[str, Any]:
    """Check the stages of an MXFP4 MoE run from their tensors, like `sm121probe judge`; `docs/dump.md` lists names, shapes and metadata.

    The result has `results`, one for each stage that could be checked, and `conforms`. Raises `IncompleteError` or `Error` if none can.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.safetensors")
        with open(path, "wb") as file:
            file.write(_safetensors(tensors, {k: str(v) for k, v in metadata.items()}))
        code, output = command("judge", path, "--format", "json")
        return {**json.loads(output), "conforms": code == _CONFORMS}


#: The types of safetensors by NumPy type.
_TYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


def _safetensors(tensors: Dict[str, Any], metadata: Dict[str, str]) -> bytes:
    """Return the contents of a safetensors file: the length of the header, the header as JSON, the data."""
    header: Dict[str, Any] = {"__metadata__": metadata}
    parts, at = [], 0
    for name, tensor in tensors.items():
        dtype = str(tensor.dtype).rpartition(".")[2]
        if dtype not in _TYPES:
            raise TypeError(f"tensor {name}: safetensors has no type for {dtype}")
        if dtype == "bfloat16" and hasattr(tensor, "view") and not hasattr(tensor, "tobytes"):
            import torch

            tensor = tensor.contiguous().view(torch.int16)
        data = tensor.tobytes() if hasattr(tensor, "tobytes") else tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": _TYPES[dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
