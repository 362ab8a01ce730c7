"""Functions compiled by CuTe DSL, called with tensors, arrays, pointers and fake tensors."""

import os
import tempfile

import numpy as np
import pytest

import sm121probe as sm

# CuTe DSL reads it when it is imported, and keeps PTX in the current folder without it.
KEPT = tempfile.TemporaryDirectory()
os.environ.setdefault("CUTE_DSL_DUMP_DIR", KEPT.name)

cutlass = pytest.importorskip("cutlass")
cute = pytest.importorskip("cutlass.cute")
runtime = pytest.importorskip("cutlass.cute.runtime")
cpasync = pytest.importorskip("cutlass.cute.nvgpu").cpasync
driver = pytest.importorskip("cuda.bindings.driver")
try:
    from cutlass.memory import SmemAllocator
except ImportError:
    from cutlass.utils import SmemAllocator
from_dlpack = runtime.from_dlpack

OPTIONS = "--keep-ptx --gpu-arch=sm_120a"


@cute.kernel
def scaled_sum(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, scale: cutlass.Float32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < cute.size(c):
        c[i] = a[i] + b[i] * scale


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, scale: cutlass.Float32):
    scaled_sum(a, b, c, scale).launch(grid=(cute.ceil_div(cute.size(c), 128), 1, 1), block=(128, 1, 1))


@cute.jit
def add_twice(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, scale: cutlass.Float32):
    scaled_sum(a, b, c, scale).launch(grid=(cute.ceil_div(cute.size(c), 128), 1, 1), block=(128, 1, 1))
    scaled_sum(c, b, c, scale).launch(grid=(cute.ceil_div(cute.size(c), 128), 1, 1), block=(128, 1, 1))


@cute.jit
def never(a: cute.Tensor, count: cutlass.Int32):
    if count > 0:
        scaled_sum(a, a, a, cutlass.Float32(1)).launch(grid=(count, 1, 1), block=(128, 1, 1))


@cute.kernel
def past_the_end(a: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    c[thread] = a[thread + 1]


@cute.jit
def shift(a: cute.Tensor, c: cute.Tensor):
    past_the_end(a, c).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.kernel
def transposed(a: cute.Tensor, c: cute.Tensor):
    i, j, _ = cute.arch.thread_idx()
    c[j, i] = a[i, j]


@cute.jit
def transpose(a: cute.Tensor, c: cute.Tensor):
    rows, columns = a.shape
    transposed(a, c).launch(grid=(1, 1, 1), block=(rows, columns, 1))


@cute.kernel
def negated(a: cute.Pointer, count: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    x = cute.make_tensor(a, cute.make_layout(count))
    if thread < count:
        x[thread] = -x[thread]


@cute.jit
def negate(a: cute.Pointer, count: cutlass.Int32):
    negated(a, count).launch(grid=(1, 1, 1), block=(64, 1, 1))


@cute.kernel
def of_the_other_cta(c: cute.Tensor):
    rank = cute.arch.block_idx_in_cluster()
    c[rank] = rank + 10


@cute.jit
def clusters(c: cute.Tensor):
    of_the_other_cta(c).launch(grid=(2, 1, 1), block=(1, 1, 1), cluster=(2, 1, 1))


@cute.kernel
def doubled_tiles(atom: cute.CopyAtom, source: cute.Tensor, out: cute.Tensor, layout: cute.Layout):
    thread, _, _ = cute.arch.thread_idx()
    row, column, _ = cute.arch.block_idx()
    allocator = SmemAllocator()
    tile, barrier = allocator.allocate_tensor(cutlass.Float32, layout, 128), allocator.allocate_array(cutlass.Int64)
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    tiles = cute.group_modes(cute.local_tile(source, (16, 32), (row, column)), 0, 2)
    to, of = cpasync.tma_partition(atom, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), tiles)
    if thread < 32:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, 16 * 32 * 4)
        cute.copy(atom, of, to, tma_bar_ptr=barrier)
    cute.arch.mbarrier_wait(barrier, 0)
    results = cute.local_tile(out, (16, 32), (row, column))
    for n in range(4):
        at = thread + 128 * n
        results[at // 32, at % 32] = tile[at // 32, at % 32] * 2


@cute.jit
def double_by_tma(a: cute.Tensor, out: cute.Tensor, stream: driver.CUstream):
    layout = cute.make_layout((16, 32), stride=(32, 1))
    atom, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), a, layout, (16, 32))
    rows, columns = out.shape
    doubled_tiles(atom, source, out, layout).launch(grid=(rows // 16, columns // 32, 1), block=(128, 1, 1), stream=stream)


def inputs(count=1000):
    return np.arange(count, dtype=np.float32), np.full(count, 3, np.float32), np.zeros(count, np.float32)


def test_static_layouts():
    a, b, c = inputs()
    compiled = cute.compile(add, *map(from_dlpack, (a, b, c)), 2.0, options=OPTIONS)
    (report,) = sm.cute_dsl.launch(compiled, *map(from_dlpack, (a, b, c)), 2.0, schedules=2)
    assert report.schedules == 2 and (c == a + 6).all()
    # The scalar is that of the call.
    sm.cute_dsl.launch(compiled, *map(from_dlpack, (a, b, c)), -1.0)
    assert (c == a - 3).all()


def test_dynamic_layouts():
    compiled = cute.compile(add, *(from_dlpack(x).mark_layout_dynamic() for x in inputs()), 2.0, options=OPTIONS)
    for count in (1, 128, 300):
        a, b, c = inputs(count)
        sm.cute_dsl.launch(compiled, *(from_dlpack(x).mark_layout_dynamic() for x in (a, b, c)), 1.0)
        assert (c == a + 3).all()
        # An array has a dynamic layout.
        sm.cute_dsl.launch(compiled, a, b, c, 2.0)
        assert (c == a + 6).all()


def test_fake_tensors():
    count = cute.sym_int()
    fake = [runtime.make_fake_compact_tensor(cutlass.Float32, (count,), stride_order=(0,)) for _ in range(3)]
    compiled = cute.compile(add, *fake, 2.0, options=OPTIONS)
    a, b, c = inputs(200)
    sm.cute_dsl.launch(compiled, a, b, c, 2.0)
    assert (c == a + 6).all()


def test_strides():
    a, c = np.arange(12, dtype=np.int32).reshape(3, 4), np.zeros((4, 6), np.int32)[:, ::2]
    compiled = cute.compile(transpose, *(from_dlpack(x).mark_layout_dynamic() for x in (a, np.zeros((4, 3), np.int32))), options=OPTIONS)
    dense = np.zeros((4, 3), np.int32)
    sm.cute_dsl.launch(compiled, *(from_dlpack(x).mark_layout_dynamic() for x in (a, dense)))
    assert (dense == a.T).all()
    # The gaps between the elements are there, and stay as they are.
    static = cute.compile(transpose, from_dlpack(a), from_dlpack(c), options=OPTIONS)
    sm.cute_dsl.launch(static, from_dlpack(a), from_dlpack(c))
    assert (c == a.T).all() and (c.base[:, 1::2] == 0).all()


def test_several_launches():
    a, b, c = inputs(300)
    tensors = list(map(from_dlpack, (a, b, c)))
    compiled = cute.compile(add_twice, *tensors, 1.0, options=OPTIONS)
    assert len(sm.cute_dsl.launch(compiled, *tensors, 1.0)) == 2
    assert (c == a + 6).all()


def test_overlapping_tensors_share_memory():
    whole = np.arange(200, dtype=np.float32)
    low, shifted, high = from_dlpack(whole[:100]), from_dlpack(whole[99:199]), from_dlpack(whole[100:])
    compiled = cute.compile(add, low, low, high, 2.0, options=OPTIONS)
    # The kernel reads elements that other warps write.
    with pytest.raises(sm.ViolationError, match="race"):
        sm.cute_dsl.launch(compiled, low, shifted, high, 2.0)
    sm.cute_dsl.launch(compiled, low, low, high, 2.0)
    assert (whole[100:] == 3 * whole[:100]).all()


def test_pointers():
    a = np.arange(40, dtype=np.float32)
    pointer = runtime.make_ptr(cutlass.Float32, a[8:].ctypes.data, cute.AddressSpace.gmem, assumed_align=4)
    compiled = cute.compile(negate, pointer, 8, options=OPTIONS)
    sm.cute_dsl.launch(compiled, pointer, 8, memory=[a])
    assert (a == [*range(8), *(-n for n in range(8, 16)), *range(16, 40)]).all()
    # Without the array, the address means nothing.
    with pytest.raises(sm.ViolationError, match="out_of_bounds|no buffer"):
        sm.cute_dsl.launch(compiled, pointer, 8)
    assert a[8] == -8


def test_clusters():
    c = np.zeros(2, np.int32)
    compiled = cute.compile(clusters, from_dlpack(c), options=OPTIONS)
    sm.cute_dsl.launch(compiled, from_dlpack(c))
    assert c.tolist() == [10, 11]


def test_tensor_maps_and_a_stream():
    a = np.arange(48 * 64, dtype=np.float32).reshape(48, 64)
    out, stream = np.zeros_like(a), driver.CUstream(0)
    tensors = [from_dlpack(x, assumed_align=16).mark_layout_dynamic() for x in (a, out)]
    compiled = cute.compile(double_by_tma, *tensors, stream, options=OPTIONS)
    assert "cp.async.bulk.tensor" in compiled.__ptx__
    sm.cute_dsl.launch(compiled, *tensors, stream, schedules=2)
    assert (out == 2 * a).all()


def test_a_violation_is_raised_and_changes_nothing():
    a, c = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    tensors = [from_dlpack(a), from_dlpack(c)]
    compiled = cute.compile(shift, *tensors, options=OPTIONS)
    with pytest.raises(sm.ViolationError, match="tensor 0") as raised:
        sm.cute_dsl.launch(compiled, *tensors)
    assert raised.value.violation.rule == "out_of_bounds" and (c == 0).all()
    # The function can be called again.
    with pytest.raises(sm.ViolationError):
        sm.cute_dsl.launch(compiled, *tensors)


def test_refusals():
    a, b, c = inputs(10)
    tensors = list(map(from_dlpack, (a, b, c)))
    without = cute.compile(add, *tensors, 2.0, options="--gpu-arch=sm_120a")
    with pytest.raises(sm.LaunchError, match="--keep-ptx"):
        sm.cute_dsl.launch(without, *tensors, 2.0)
    compiled = cute.compile(add, *tensors, 2.0, options=OPTIONS)
    with pytest.raises(TypeError, match="no option grid"):
        sm.cute_dsl.launch(compiled, *tensors, 2.0, grid=1)
    with pytest.raises(TypeError, match="takes 4 arguments, but 3 were given"):
        sm.cute_dsl.launch(compiled, *tensors)
    idle = cute.compile(never, tensors[0], 1, options=OPTIONS)
    with pytest.raises(sm.LaunchError, match="nothing was checked"):
        sm.cute_dsl.launch(idle, tensors[0], 0)


def test_functions_of_cuda_that_are_not_there_are_refused_by_name():
    module = sm.Module(".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n")
    host = sm.cute_dsl._Runtime(module)
    code = "  llvm.func @_cuGraphAddNode(!llvm.ptr, i64) -> i32\n  llvm.func @_cudaGetDevice(!llvm.ptr) -> i32\n  llvm.func @printf(!llvm.ptr, ...) -> i32\n"
    functions = host.functions(code)
    assert set(functions) == {"_cuGraphAddNode", "_cudaGetDevice"}
    assert functions["_cuGraphAddNode"](None, 1) != 0
    assert isinstance(host.failed, sm.UnsupportedError) and "`cuGraphAddNode`" in str(host.failed)
    with pytest.raises(sm.UnsupportedError, match="type f128"):
        host.functions("  llvm.func @_cudaOther(f128) -> i32\n")
