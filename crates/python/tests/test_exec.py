"""`sm121probe exec` from the wheel: the library of the simulated GPU travels with it, and the command is a ptxas for JIT compilers."""

import os
import subprocess
import sys

import pytest
import sm121probe
from kernels import ADD

LIBRARY = os.path.join(os.path.dirname(sm121probe.__file__), "libsm121probe_cuda.so")
needs_library = pytest.mark.skipif(
    not os.path.exists(LIBRARY) and "SM121PROBE_VERDICTS" not in os.environ,
    reason="built without libsm121probe_cuda.so; .ci/python puts it there",
)

PROGRAM = f'''
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
def ok(status):
    assert status == 0, status
ok(driver.cuInit(0))
device, context = ctypes.c_int(), ctypes.c_void_p()
ok(driver.cuDeviceGet(ctypes.byref(device), 0))
ok(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
ok(driver.cuCtxSetCurrent(context))
module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
ok(driver.cuModuleLoadData(ctypes.byref(module), {ADD!r}.encode()))
ok(driver.cuModuleGetFunction(ctypes.byref(function), module, b"add"))
ok(driver.cuMemAlloc_v2(ctypes.byref(memory), 128))
values = (ctypes.c_float * 32)(*range(32))
ok(driver.cuMemcpyHtoD_v2(memory, values, 128))
words = [memory, memory, memory, ctypes.c_int(32)]
pointers = (ctypes.c_void_p * 4)(*map(ctypes.addressof, words))
ok(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, pointers, None))
ok(driver.cuMemcpyDtoH_v2(values, memory, 128))
assert list(values) == [2.0 * i for i in range(32)], list(values)
ok(driver.cuMemFree_v2(memory))
'''


def run(*words):
    command = [sys.executable, "-m", "sm121probe", "exec", "--", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@needs_library
def test_a_program_runs_on_the_simulated_gpu():
    done = run(sys.executable, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert "add: 1 launches" in done.stderr and "no violation" in done.stderr


@needs_library
def test_the_command_is_a_ptxas_of_its_own(tmp_path):
    source, made = tmp_path / "add.ptx", tmp_path / "add.cubin"
    source.write_text(ADD)
    done = run("ptxas", "--gpu-name", "sm_121a", str(source), "-o", str(made))
    assert done.returncode == 0, done.stdout + done.stderr
    assert b".entry add" in made.read_bytes()
