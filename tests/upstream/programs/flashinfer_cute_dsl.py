"""FlashInfer's kernels in CuTe DSL for SM12x, by their own entry functions: `python flashinfer_cute_dsl.py CASE` launches one and prints
the names and addresses of its buffers."""

import array
import importlib
import importlib.util
import random
import sys
import types

import torch

ROOT = importlib.util.find_spec("flashinfer").submodule_search_locations[0]


def package(name):
    """A package without what its own `__init__` imports: torch, Triton, and every other kernel."""
    module = types.ModuleType(name)
    module.__path__ = [ROOT + name.removeprefix("flashinfer").replace(".", "/")]
    sys.modules[name] = module


def module(name, **contents):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(contents)


MOE = "flashinfer.fused_moe.cute_dsl.blackwell_sm12x"
for name in ("flashinfer", "flashinfer.fused_moe", "flashinfer.fused_moe.cute_dsl", MOE):
    package(name)
module("flashinfer.utils", ceil_div=lambda x, y: -(-x // y), round_up=lambda x, y: -(-x // y) * y)
# No case tunes anything.
module("flashinfer.autotuner", AutoTuner=None, TunableRunner=object, TuningConfig=None, autotune=None)
module("flashinfer.api_logging", flashinfer_api=lambda function: function)


def entry(file, function):
    return getattr(importlib.import_module(f"{MOE}.{file}"), function)


numbers = random.Random(1)


def named(name, tensor):
    print(name, tensor.data_ptr())
    return tensor


def words(name, kind, values, code):
    return named(name, torch.frombuffer(array.array(code, values).tobytes(), (len(values),), kind))


def codes(name, shape, kind, allowed=range(256)):
    count = kind.itemsize
    for size in shape:
        count *= size
    return named(name, torch.frombuffer(bytes(numbers.choices(allowed, k=count)), shape, kind))


# E4M3 without its NaNs.
E4M3 = [code for code in range(256) if code & 127 != 127]
# Scales by which sums come near 1.
SCALES = range(116, 122)


def operands(first, n, k):
    """Tokens in MXFP8 with a scale for 128 elements, the rows of each expert from a multiple of 4 on; weights in MXFP4."""
    experts, rows = len(first) - 1, first[-1]
    packs, padded = -(-k // 512), (rows + experts * 3) // 4 * 4
    return (
        codes("a", (rows, k), torch.float8_e4m3fn, E4M3),
        codes("sa", (packs, padded), torch.int32, SCALES),
        codes("b", (experts, n, k // 2), torch.uint8),
        codes("sb", (experts, -(-k // 128), n), torch.int32, SCALES),
        words("first", torch.int32, first, "i"),
    )


def gemm(first, **options):
    run = entry("moe_mxfp8_mxfp4_gemm", "cute_dsl_sm12x_moe_gemm_mxfp8_mxfp4")
    named("d", run(*operands(first, 256, 640), **options))


def fc1(first, **options):
    run = entry("moe_mxfp8_mxfp4_fc1_act", "cute_dsl_sm12x_fc1_act_mxfp8_mxfp4")
    named("d", run(*operands(first, 512, 512), **options))


def fc1_quantized(first, **options):
    run = entry("moe_mxfp8_mxfp4_fc1_act_q1", "cute_dsl_sm12x_fc1_act_q1_mxfp8_mxfp4")
    values, scales = run(*operands(first, 512, 512), **options)
    named("d", values)
    named("sd", scales)


def fc2(first, tokens, **options):
    """Each token has two rows, so that the order of the two sums does not matter."""
    run = entry("moe_mxfp8_mxfp4_fc2_finalize", "cute_dsl_sm12x_fc2_finalize_mxfp8_mxfp4")
    all_of = operands(first, 256, 640)
    source = list(range(tokens)) * 2
    numbers.shuffle(source)
    pairs = words("token", torch.int32, source, "i"), words("weight", torch.float32, [numbers.random() for _ in source], "f")
    named("d", run(*all_of, *pairs, tokens, **options))


def fp8(first, **options):
    run = entry("moe_fp8_gemm", "cute_dsl_sm12x_moe_gemm_fp8")
    experts, rows, n, k = len(first) - 1, first[-1], 256, 512
    padded = (rows + experts * 3) // 4 * 4
    reals = [numbers.uniform(0.25, 1) / 256 for _ in range(k // 128 * padded + experts * (n // 128) * (k // 128))]
    shape = (k // 128, padded)
    a = codes("a", (rows, k), torch.float8_e4m3fn, E4M3)
    sa = named("sa", torch.frombuffer(array.array("f", reals[: k // 128 * padded]).tobytes(), shape, torch.float32))
    b = codes("b", (experts, n, k), torch.float8_e4m3fn, E4M3)
    rest = array.array("f", reals[k // 128 * padded :]).tobytes()
    sb = named("sb", torch.frombuffer(rest, (experts, k // 128, n // 128), torch.float32))
    named("d", run(a, sa, b, sb, words("first", torch.int32, first, "i"), **options))


def b12x(m, n, k, kind, tile, swap_ab=False, **options):
    """The dense GEMM from b12x, compiled and launched as `mm_fp4` and `mm_mxfp8` do. Scales lie in tiles of 128 rows by 4."""
    from cuda.bindings import driver
    from cutlass import Float4E2M1FN, Float8E4M3FN, Float8E8M0FNU, cute
    from cutlass.cute.runtime import from_dlpack, make_ptr

    for name in ("flashinfer.gemm", "flashinfer.gemm.kernels", "flashinfer.cute_dsl"):
        package(name)
    kernel = importlib.import_module("flashinfer.gemm.kernels.dense_blockscaled_gemm_sm120_b12x")
    block, scale, allowed = (16, Float8E4M3FN, range(44, 68)) if kind == "nvfp4" else (32, Float8E8M0FNU, SCALES)
    if kind == "mxfp8":
        options.update(mma_k=32, tile_k=128)
        a, b = (codes(name, (rows, k), torch.float8_e4m3fn, E4M3) for name, rows in (("a", m), ("b", n)))
    else:
        a, b = (codes(name, (rows, k // 2), torch.uint8) for name, rows in (("a", m), ("b", n)))
    tiles = [-(-m // 128), -(-n // 128), -(-(k // block) // 4)]
    sa = codes("sa", (512 * tiles[0] * tiles[2],), torch.uint8, allowed)
    sb = codes("sb", (512 * tiles[1] * tiles[2],), torch.uint8, allowed)
    alpha = words("alpha", torch.float32, [0.75], "f")
    d = named("d", torch.empty((m, n), dtype=torch.bfloat16))

    def tensor(of):
        return from_dlpack(of, assumed_align=16).mark_layout_dynamic()

    gemm = kernel.Sm120B12xBlockScaledDenseGemmKernel(block, tile, (1, 1), swap_ab=swap_ab, **options)
    pointers = [make_ptr(scale, of.data_ptr(), cute.AddressSpace.gmem, 16) for of in (sa, sb)]
    arguments = [tensor(a), tensor(b), tensor(d), *tiles, 1, *pointers, from_dlpack(alpha), 2, driver.CUstream(0)]
    cute.compile(gemm.wrapper, *arguments, False, options="--opt-level 2")(*arguments[:6], *pointers, from_dlpack(alpha), driver.CUstream(0))


CASES = {
    # Weights first, in tiles of 8 tokens.
    "gemm_few": lambda: gemm([0, 5, 5, 18]),
    "gemm": lambda: gemm([0, 40, 40, 110]),
    # The warps that multiply also store; by default another one does.
    "gemm_r2g": lambda: gemm([0, 40, 40, 110], tile=(64, 128, 128), epi=entry("_moe_utils.moe_epilogue", "EpiMethod").R2G_WG),
    "fc1": lambda: fc1([0, 40, 40, 75]),
    "fc1_quantized": lambda: fc1_quantized([0, 40, 40, 75]),
    "fc2": lambda: fc2([0, 40, 40, 76], 38),
    "fp8": lambda: fp8([0, 40, 40, 75]),
    "b12x_nvfp4": lambda: b12x(200, 192, 640, "nvfp4", (128, 64)),
    "b12x_nvfp4_swap_ab": lambda: b12x(70, 96, 384, "nvfp4", (64, 32), swap_ab=True),
    "b12x_mxfp4": lambda: b12x(140, 256, 768, "mxfp4", (64, 128), use_prefetch=True),
    "b12x_mxfp8": lambda: b12x(130, 128, 384, "mxfp8", (64, 64)),
    "b12x_mxfp8_few": lambda: b12x(9, 128, 384, "mxfp8", (16, 64)),
}
CASES[sys.argv[1]]()
