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
}
CASES[sys.argv[1]]()
