"""The command, the matrix, and the functions that run the command."""

import subprocess
import sys

import numpy as np
import pytest

import sm121probe as sm
from sm121probe import matrix, tools


def test_the_command_is_installed():
    done = subprocess.run([sys.executable, "-m", "sm121probe", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sm121probe ")
    bad = subprocess.run([sys.executable, "-m", "sm121probe", "--bad"], capture_output=True, check=False)
    assert bad.returncode == 2


def test_the_matrix_answers():
    assert matrix.accepts("mma.mxf4nvf4.isa.4X.ue4m3", "sm_121a", toolkit="13.0")
    assert not matrix.accepts("mma.mxf4nvf4.isa", "sm_121")
    with pytest.raises(ValueError, match="do not agree"):
        matrix.accepts("mma.mxf4nvf4.isa", "sm_121a")
    with pytest.raises(KeyError, match="near it are mma"):
        matrix.accepts("mma.mxf4nvf5", "sm_121a")
    with pytest.raises(KeyError, match="no target"):
        matrix.accepts("applypriority", "sm_33")
    with pytest.raises(KeyError, match="no toolkit"):
        matrix.accepts("applypriority", "sm_121", "9.1")
    assert "12.9.86" in matrix.toolkits() and "sm_121f" in matrix.targets()


def test_the_emulator_lists_its_instructions():
    rows = sm.emulated()
    assert len(rows) > 100 and {"mma", "ld"} <= {row[list(row)[1]].split(".")[0] for row in rows} | {
        value.split(".")[0] for row in rows for value in row.values()
    }


def test_a_run_is_judged_by_its_tensors():
    with pytest.raises(sm.Error):
        sm.judge({"nothing": np.zeros(3, np.float32)})


def test_files_of_safetensors():
    data = tools._safetensors({"x": np.arange(3, dtype=np.uint16)}, {"a": "b"})
    length = int.from_bytes(data[:8], "little")
    import json

    header = json.loads(data[8 : 8 + length])
    assert header == {"__metadata__": {"a": "b"}, "x": {"dtype": "U16", "shape": [3], "data_offsets": [0, 6]}}
    assert data[8 + length :] == np.arange(3, dtype=np.uint16).tobytes()
