"""SGLang's FlashAttention 4 for SM12x in CuTe DSL: `python sglang_cute_dsl.py CASE` launches its kernel, with the tiles that SGLang's policy
selects, and prints the names and addresses of its buffers."""

import array
import importlib.util
import random
import sys
import types

# tvm_ffi, which no case calls, would look for all of torch's types.
sys.modules["torch"] = None
import tvm_ffi  # noqa: E402, F401

del sys.modules["torch"]
import torch  # noqa: E402


def package(name, root):
    """A package without what its own `__init__` imports."""
    module = types.ModuleType(name)
    module.__path__ = [root]
    sys.modules[name] = module


for top in ("sglang", "quack"):
    root = importlib.util.find_spec(top).submodule_search_locations[0]
    names = ("", ".kernels", ".kernels.ops", ".kernels.ops.attention", ".kernels.ops.attention.fa4_sm120")
    below = (".kernels.ops.attention.flash_attn", ".kernels.ops.attention.flash_attn.cute")
    for name in names + below if top == "sglang" else ("",):
        package(top + name, root + name.replace(".", "/"))
# What its annotations name.
for name in ("float4_e2m1fn_x2", "float8_e5m2", "float8_e8m0fnu", "int64"):
    vars(torch).setdefault(name, name)

import cuda.bindings.driver as driver  # noqa: E402
import cutlass  # noqa: E402
import cutlass.cute as cute  # noqa: E402
from cutlass.cute.runtime import from_dlpack  # noqa: E402
from sglang.kernels.ops.attention.fa4_sm120.runtime import sm120_forward_host as host  # noqa: E402
from sglang.kernels.ops.attention.flash_attn.cute.utils import AuxData  # noqa: E402


@cute.register_jit_arg_adapter(AuxData)
class NoData:
    """Of tensors and numbers for changed scores, which SGLang passes through tvm_ffi, there are none."""

    def __init__(self, data):
        self.data = data

    def __c_pointers__(self):
        return []

    def __get_mlir_types__(self):
        return []

    def __new_from_mlir_values__(self, values):
        return self.data



WIDTH, HEADS, KV_HEADS, SCALE = 64, 4, 2, 0.11
numbers = random.Random(1)


def named(name, tensor):
    print(name, tensor.data_ptr())
    return tensor


def reals(name, shape, size):
    """Numbers in [-size, size) with few enough bits for bf16."""
    count = 1
    for n in shape:
        count *= n
    bits = [array.array("f", [numbers.randrange(-128, 128) * size / 128]).tobytes()[2:] for _ in range(count)]
    return named(name, torch.frombuffer(b"".join(bits), shape, torch.bfloat16))


def bounds(name, lengths):
    points = [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    return named(name, torch.frombuffer(array.array("i", points).tobytes(), (len(points),), torch.int32))


def cute_tensor(tensor):
    """As SGLang passes it: only the last dimension has a stride that is known."""
    return from_dlpack(tensor, assumed_align=16 if tensor.ndim > 1 else 4).mark_layout_dynamic(leading_dim=tensor.ndim - 1)


def attention(rows, keys, window=None, sinks=False):
    total, heads = sum(rows), dict(head_dim=WIDTH, head_dim_v=WIDTH)
    q = reals("q", (total, HEADS, WIDTH), 2)
    k, v = reals("k", (sum(keys), KV_HEADS, WIDTH), 2), reals("v", (sum(keys), KV_HEADS, WIDTH), 1)
    out = named("o", torch.empty(total, HEADS, WIDTH, dtype=torch.bfloat16))
    lse = named("lse", torch.empty(HEADS, total, dtype=torch.float32))
    sink = reals("sinks", (HEADS,), 4) if sinks else None
    cu_q, cu_k = bounds("cu_seqlens_q", rows), bounds("cu_seqlens_k", keys)
    sees = dict(is_causal=window is None, is_local=window is not None)
    edges = dict(window_size_left=window, window_size_right=None if window is None else 0)
    group = HEADS // KV_HEADS
    config = host.select_config(**heads, **sees, **edges, tile_mn=None, has_bias=False, total_q_rows=total * group, num_sms=48, num_batch=len(rows),
                                seqlen_q=max(rows), seqlen_k=max(keys), num_head_kv=KV_HEADS, qhead_per_kvhead=group, pack_gqa=True, paged_kv=False)
    blocks = [-(-length * group // config.tile_m) for length in rows]
    plan = host.resolve_plan(
        **heads, **sees, **edges, requested_num_splits=1, generic_num_n_blocks=-(-max(keys) // config.tile_n), batch_size=len(rows), num_head_kv=KV_HEADS,
        paged_kv=False, page_size=None, k=None, v=None, max_seqlen_q=max(rows), max_seqlen_k=max(keys), pack_gqa=True, element_size=2,
        packed_q_rows=max(rows) * group, tile_m=config.tile_m, tile_n=config.tile_n, num_m_blocks=max(blocks), total_mblocks=sum(blocks) * KV_HEADS, num_sms=48,
        total_q=total, has_cu_seqlens_q=True, has_seqused_q=False, has_seqused_k=False, has_score_or_mask_mod=False, is_stream_capturing=False, device="cuda",
        fake_mode=False, generic_heuristic=lambda *_: 1)
    kernel = host.make_kernel(
        dtype=cutlass.BFloat16, **heads, **sees, qhead_per_kvhead=group, pack_gqa=True, config=config, paged_kv=False, score_mod=None, mask_mod=None,
        has_aux_tensors=False, is_split_kv=False, has_bias=False, bias_block_size=64, rel_extent_padded=128, plan=plan)
    tensors = [cute_tensor(t) for t in (q, k, v, out, lse)]
    left, right = (None if edge is None else cutlass.Int32(edge) for edge in edges.values())
    kernel(*tensors, cutlass.Float32(SCALE), cute_tensor(cu_q), cute_tensor(cu_k), window_size_left=left, window_size_right=right,
           learnable_sink=cute_tensor(sink) if sinks else None, stream=driver.CUstream(0))


CASES = {
    "fa4": lambda: attention((33, 20), (70, 20)),
    "fa4_window": lambda: attention((33, 20), (150, 45), window=31),
    "fa4_sinks": lambda: attention((33, 20), (70, 20), sinks=True),
}
CASES[sys.argv[1]]()
