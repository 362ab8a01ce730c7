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


def run(*words, environment=None):
    command = [sys.executable, "-m", "sm121probe", "exec", "--", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


@needs_library
def test_a_program_runs_on_the_simulated_gpu():
    done = run(sys.executable, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert "add: 1 launch, " in done.stderr and "no violation" in done.stderr


@needs_library
def test_the_command_is_a_ptxas_of_its_own(tmp_path):
    source, made = tmp_path / "add.ptx", tmp_path / "add.cubin"
    source.write_text(ADD)
    done = run("ptxas", "--gpu-name", "sm_121a", str(source), "-o", str(made))
    # A compiler launches no kernel, so nothing is checked.
    assert done.returncode == 4 and "the program ended with 0" in done.stderr, done.stdout + done.stderr
    assert b".entry add" in made.read_bytes()


@needs_library
def test_the_runtime_of_cuda_bindings_is_the_simulated_one(tmp_path):
    package = tmp_path / "cuda" / "bindings"
    package.mkdir(parents=True)
    # As the real module: functions of a runtime of its own, which finds no GPU.
    (package / "runtime.py").write_text("cudaError_t = int\ndef cudaGetDeviceCount():\n    return 100, 0\n")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.own_start = True\n")
    program = (
        "import sys\nfrom cuda.bindings import runtime\n"
        "assert sys.own_start and runtime.cudaGetDeviceCount() == (0, 1), runtime.cudaGetDeviceCount()\n"
        "status, at = runtime.cudaMalloc(8)\n"
        "assert status == 0 and runtime.cudaMemcpy(at, bytearray(b'8 bytes.'), 8, 1) == (0,)\n"
        "back = bytearray(8)\n"
        "assert runtime.cudaMemcpy(back, at, 8, 2) == (0,) and back == b'8 bytes.', back\n"
        "assert runtime.cudaFree(at) == (0,)\n"
    )
    done = run(sys.executable, "-c", program, environment={**os.environ, "PYTHONPATH": str(tmp_path)})
    # The program's assertions hold; it launches no kernel, so nothing is checked.
    assert done.returncode == 4 and "the program launched no kernel" in done.stderr, done.stderr
    assert "the program ended with 0" in done.stderr, done.stderr
