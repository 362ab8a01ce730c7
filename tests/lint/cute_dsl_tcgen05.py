"""A product of one tile by tcgen05. Its PTX beside this was kept by CuTe DSL 4.8.1 (CUTE_DSL_KEEP_PTX), the path of the source shortened."""
import os

os.environ["CUTE_DSL_ARCH"] = "sm_100a"
os.environ["CUTE_DSL_KEEP_PTX"] = "1"
os.environ["CUTE_DSL_LINEINFO"] = "1"

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
import cutlass.utils.blackwell_helpers as sm100
from cutlass.cute.nvgpu import tcgen05
from cutlass.cute.runtime import make_fake_compact_tensor

TILE = (128, 64, 64)


@cute.kernel
def product_kernel(mma: cute.TiledMma, a_layout: cute.ComposedLayout, b_layout: cute.ComposedLayout, out: cute.Tensor):
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = memory.SmemAllocator()
    holder = smem.allocate(4, 16)
    a = smem.allocate_tensor(cutlass.Float16, a_layout.outer, 128, a_layout.inner)
    b = smem.allocate_tensor(cutlass.Float16, b_layout.outer, 128, b_layout.inner)
    holder = cute.recast_ptr(holder, dtype=cutlass.Int32)
    if warp == 0:
        cute.arch.alloc_tmem(64, holder)
        cute.arch.relinquish_tmem_alloc_permit()
    cute.arch.sync_threads()
    address = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, holder)
    sums = cute.make_tensor(address, mma.make_fragment_C(mma.partition_shape_C(TILE[:2])).layout)
    if warp == 0:
        cute.gemm(mma, sums, mma.make_fragment_A(a)[None, None, 0, 0], mma.make_fragment_B(b)[None, None, 0, 0], sums)
    cute.arch.sync_threads()
    if warp == 0:
        cute.arch.dealloc_tmem(address, 64)
    out[cute.arch.thread_idx()[0]] = cutlass.Float32(1.0)


@cute.jit
def product(out: cute.Tensor):
    major = cute.nvgpu.OperandMajorMode.K
    mma = sm100.make_trivial_tiled_mma(cutlass.Float16, major, major, cutlass.Float32, tcgen05.CtaGroup.ONE, TILE[:2])
    a_layout = sm100.make_smem_layout_a(mma, TILE, cutlass.Float16, 1)
    b_layout = sm100.make_smem_layout_b(mma, TILE, cutlass.Float16, 1)
    product_kernel(mma, a_layout, b_layout, out).launch(grid=(1, 1, 1), block=(128, 1, 1))


cute.compile(product, make_fake_compact_tensor(cutlass.Float32, (128,)))
