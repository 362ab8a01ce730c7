"""Kernels in Triton's language, compiled without a GPU: `python triton_kernels.py FOLDER` writes one folder for each case, with the
PTX and the metadata of Triton's cache and a launch file."""

import json
import os
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def vector_add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def softmax(x, o, rows, columns, B: tl.constexpr, S: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=S):
        i = tl.arange(0, B)
        v = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(o + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


@triton.jit
def layer_norm(x, w, b, o, columns, eps, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * columns + i, mask=i < columns, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / columns
    d = tl.where(i < columns, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / columns + eps)
    y = d * scale * tl.load(w + i, mask=i < columns) + tl.load(b + i, mask=i < columns)
    tl.store(o + row * columns + i, y, mask=i < columns)


@triton.jit
def layer_norm_backward_weights(dy, xh, dw, lock, columns, GROUPS: tl.constexpr, B: tl.constexpr):
    # The sums of the tutorial's layer norm: rows of a group add theirs under a lock, whose count says whether a sum is there.
    row = tl.program_id(0)
    i = tl.arange(0, B)
    lock += row % GROUPS
    count = lock + GROUPS
    dw = dw + row % GROUPS * columns + i
    part = tl.load(dy + row * columns + i, mask=i < columns) * tl.load(xh + row * columns + i, mask=i < columns)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(dw, mask=i < columns)
    tl.store(dw, part, mask=i < columns)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def sum_of_products(x, y, o, columns, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
    tl.store(o + row, tl.sum(v * tl.load(y + row * columns + i, mask=i < columns, other=0.0), 0))


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr, ACC: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (G * columns) * G
    size = min(rows - first, G)
    m = first + pid % (G * columns) % size
    n = pid % (G * columns) // size
    om, on, ok = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa = a + (om % M)[:, None] * K + ok[None, :]
    pb = b + ok[:, None] * N + (on % N)[None, :]
    acc = tl.zeros((BM, BN), ACC)
    for k in range(0, tl.cdiv(K, BK)):
        av = tl.load(pa, mask=ok[None, :] < K - k * BK, other=0.0)
        bv = tl.load(pb, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(av, bv, acc, out_dtype=ACC)
        pa += BK
        pb += BK * N
    tl.store(c + om[:, None] * N + on[None, :], acc.to(c.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def matmul_split_k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    om, on = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.program_id(2) * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK * SPLIT):
        av = tl.load(a + om[:, None] * K + (k + ok)[None, :], mask=(k + ok)[None, :] < K, other=0)
        bv = tl.load(b + (k + ok)[:, None] * N + on[None, :], mask=(k + ok)[:, None] < K, other=0)
        acc = tl.dot(av, bv, acc)
    tl.atomic_add(c + om[:, None] * N + on[None, :], acc, mask=(om[:, None] < M) & (on[None, :] < N), sem="relaxed")


@triton.jit
def matmul_descriptor(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([m, k]), db.load([k, n]), acc)
    dc.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_descriptor_transposed(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([m, k]), db.load([n, k]).T, acc)
    om, on = m + tl.arange(0, BM), n + tl.arange(0, BN)
    tl.store(c + om[:, None] * N + on[None, :], acc, mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def matmul_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, P: tl.constexpr, WS: tl.constexpr):
    columns = tl.cdiv(N, BN)
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, P, warp_specialize=WS):
        m, n = tile // columns * BM, tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(da.load([m, k * BK]), db.load([k * BK, n]), acc)
        dc.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def attention(q, k, v, o, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start, head = tl.program_id(0) * BM, tl.program_id(1) * T * D
    om, on, od = start + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    qv = tl.load(q + head + om[:, None] * D + od[None, :], mask=om[:, None] < T, other=0.0)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for s in range(0, min(T, start + BM), BN):
        j = s + on
        kv = tl.load(k + head + j[None, :] * D + od[:, None], mask=j[None, :] < T, other=0.0)
        qk = tl.dot(qv, kv) * (scale * 1.44269504)
        qk = tl.where((om[:, None] >= j[None, :]) & (j[None, :] < T), qk, -1.0e6)
        most = tl.maximum(top, tl.max(qk, 1))
        p = tl.math.exp2(qk - most[:, None])
        shrink = tl.math.exp2(top - most)
        vv = tl.load(v + head + j[:, None] * D + od[None, :], mask=j[:, None] < T, other=0.0)
        acc = tl.dot(p.to(vv.dtype), vv, acc * shrink[:, None])
        total = total * shrink + tl.sum(p, 1)
        top = most
    tl.store(o + head + om[:, None] * D + od[None, :], (acc / total[:, None]).to(o.dtype.element_ty), mask=om[:, None] < T)


@triton.jit
def attention_descriptor(q, k, v, o, scale, H, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, WS: tl.constexpr):
    start, head = tl.program_id(0) * BM, tl.program_id(1) * T
    dq = tl.make_tensor_descriptor(q, shape=[H * T, D], strides=[D, 1], block_shape=[BM, D])
    dk = tl.make_tensor_descriptor(k, shape=[H * T, D], strides=[D, 1], block_shape=[BN, D])
    dv = tl.make_tensor_descriptor(v, shape=[H * T, D], strides=[D, 1], block_shape=[BN, D])
    do = tl.make_tensor_descriptor(o, shape=[H * T, D], strides=[D, 1], block_shape=[BM, D])
    om, on = start + tl.arange(0, BM), tl.arange(0, BN)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    qv = dq.load([head + start, 0])
    for s in tl.range(0, start + BM, BN, warp_specialize=WS):
        qk = tl.dot(qv, dk.load([head + s, 0]).T) * (scale * 1.44269504)
        qk = tl.where(om[:, None] >= (s + on)[None, :], qk, -1.0e6)
        most = tl.maximum(top, tl.max(qk, 1))
        p = tl.math.exp2(qk - most[:, None])
        shrink = tl.math.exp2(top - most)
        vv = dv.load([head + s, 0])
        acc = tl.dot(p.to(vv.dtype), vv, acc * shrink[:, None])
        total = total * shrink + tl.sum(p, 1)
        top = most
    do.store([head + start, 0], (acc / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def dot_scaled(a, sa, b, sb, c, N, K, FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr, V: tl.constexpr,
               BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om, on = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        av = tl.load(a + om[:, None] * (K // PA) + (k // PA + tl.arange(0, BK // PA))[None, :])
        bv = tl.load(b + on[None, :] * (K // PB) + (k // PB + tl.arange(0, BK // PB))[:, None])
        scale = (k // V + tl.arange(0, BK // V))[None, :]
        acc = tl.dot_scaled(av, tl.load(sa + om[:, None] * (K // V) + scale), FA, bv, tl.load(sb + on[:, None] * (K // V) + scale), FB, acc)
    tl.store(c + om[:, None] * N + on[None, :], acc)


@triton.jit
def reductions(x, sums, most, where, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(sums + tl.arange(0, M), tl.sum(v, 1))
    tl.store(most + tl.arange(0, N), tl.max(v, 0))
    tl.store(where + tl.arange(0, N), tl.argmin(v, 0))


@triton.jit
def recurrence(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scans(x, y, sums, last, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + i)
    tl.store(sums + i, tl.cumsum(v, 1, reverse=True))
    _, r = tl.associative_scan((v, tl.load(y + i)), 0, recurrence)
    tl.store(last + i, r)


@triton.jit
def sort(x, o, most, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    v = tl.load(x + i * N + tl.arange(0, N)[None, :])
    tl.store(o + i * N + tl.arange(0, N)[None, :], tl.sort(v))
    tl.store(most + i * K + tl.arange(0, K)[None, :], tl.topk(v, K))


@triton.jit
def histogram(x, o, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    counts = tl.histogram(tl.load(x + i, mask=i < n, other=0) & (BINS - 1), BINS, mask=i < n)
    tl.atomic_add(o + tl.arange(0, BINS), counts)


@triton.jit
def atomics(x, sums, most, locked, lock, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0) & 1023
    tl.atomic_add(sums + i % BINS, v, mask=i < n)
    tl.atomic_max(most + i % BINS, v, mask=i < n)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(locked, tl.load(locked) + tl.sum(tl.where(i < n, v, 0), 0))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def grouped_matmul(pa, pb, pc, sizes, G, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, P: tl.constexpr):
    tile, last = tl.program_id(0), 0
    for g in range(G):
        M, N, K = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        columns = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * columns
        while tile >= last and tile < last + tiles:
            a, b = tl.load(pa + g).to(tl.pointer_type(tl.float16)), tl.load(pb + g).to(tl.pointer_type(tl.float16))
            c = tl.load(pc + g).to(tl.pointer_type(tl.float16))
            om = (tile - last) // columns * BM + tl.arange(0, BM)
            on = (tile - last) % columns * BN + tl.arange(0, BN)
            ok = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                acc += tl.dot(tl.load(a + om[:, None] * K + (k + ok)[None, :]), tl.load(b + (k + ok)[:, None] * N + on[None, :]))
            tl.store(c + om[:, None] * N + on[None, :], acc.to(tl.float16))
            tile += P
        last = last + tiles


@triton.jit
def cross_entropy(x, target, loss, columns, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    most = tl.max(v, 0)
    total = tl.log(tl.sum(tl.exp(v - most), 0)) + most
    tl.store(loss + row, total - tl.load(x + row * columns + tl.load(target + row)))


@triton.jit
def transpose(x, o, M, N, B: tl.constexpr):
    m, n = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(o + n[:, None] * M + m[None, :], tl.trans(v), mask=(m[None, :] < M) & (n[:, None] < N))


@triton.jit
def quantize(x, q, s, columns, B: tl.constexpr, G: tl.constexpr):
    row = tl.program_id(0)
    v = tl.reshape(tl.load(x + row * columns + tl.arange(0, B)).to(tl.float32), (B // G, G))
    scale = tl.max(tl.abs(v), 1) / 448.0
    tl.store(q + row * columns + tl.arange(0, B), tl.reshape(v / scale[:, None], (B,)).to(q.dtype.element_ty))
    tl.store(s + row * (columns // G) + tl.arange(0, B // G), scale)


NAMES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "s32": "i32", "s8": "i8", "u8": "u8", "u64": "i64", "e4m3": "fp8e4nv"}


class Buffer:
    """A buffer: its type, its elements, and the lines of the launch file that say what it holds."""

    def __init__(self, kind, count, contents=""):
        self.kind, self.count, self.contents = kind, count, contents


def random(kind, count, seed, low=-1, high=1):
    return Buffer(kind, count, f", random: {seed}" + ("" if low is None else f", range: [{low}, {high}]"))


def zeros(kind, count):
    return Buffer(kind, count, ", fill: zeros")


def output(kind, count):
    return Buffer(kind, count)


def case(name, kernel, grid, arguments, constants, extra=(), target=120, **options):
    """Compiles a kernel and writes its launch. A number among the arguments is a parameter of 32 bits."""
    signature, attributes, values, buffers, lines = {}, {}, {}, dict(extra), []
    for n, parameter in enumerate(kernel.arg_names):
        argument = constants.get(parameter, arguments.get(parameter))
        if parameter in constants:
            signature[parameter], values[(n,)] = "constexpr", argument
            continue
        if isinstance(argument, Buffer):
            signature[parameter], buffers[parameter] = "*" + NAMES[argument.kind], argument
            lines.append(f"buffer: {parameter}")
        else:
            kind = "f32" if isinstance(argument, float) else "s32"
            signature[parameter] = NAMES[kind]
            lines.append(f"{kind}: {argument}")
        if isinstance(argument, Buffer) or argument % 16 == 0:
            attributes[(n,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, values, attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options={"num_warps": 4, **options})
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    with open(os.path.join(folder, "kernel.ptx"), "w") as file:
        file.write(compiled.asm["ptx"])
    with open(os.path.join(folder, "kernel.json"), "w") as file:
        json.dump(compiled.metadata._asdict(), file, default=str)
    with open(os.path.join(folder, "launch.yaml"), "w") as file:
        file.write("modules: {kernel: {triton: .}}\nbuffers:\n")
        for parameter, buffer in buffers.items():
            file.write(f"  {parameter}: {{type: {buffer.kind}, shape: {buffer.count}{buffer.contents}}}\n")
        file.write(f"launches:\n- grid: {list(grid)}\n  args:\n" + "".join(f"  - {{{line}}}\n" for line in lines))


def matrices(kind, M, N, K, out):
    return dict(a=random(kind, M * K, 1), b=random(kind, K * N, 2), c=output(out, M * N), M=M, N=N, K=K)


def heads(kind, H, T, D):
    return dict(q=random(kind, H * T * D, 1, -2, 2), k=random(kind, H * T * D, 2, -2, 2), v=random(kind, H * T * D, 3),
                o=output(kind, H * T * D), scale=0.125, T=T)


def scaled(kind_a, kind_b, vector, M=64, N=64, K=256):
    def side(kind, rows, seed):
        return random("u8", rows * K // 2, seed, None) if kind == "e2m1" else random(kind, rows * K, seed)

    def scales(rows, seed):
        return random("e4m3", rows * K // 16, seed, 0.5, 2) if vector == 16 else random("u8", rows * K // 32, seed, 124, 130)

    packed = {"e2m1": 2, "e4m3": 1}
    arguments = dict(a=side(kind_a, M, 1), sa=scales(M, 2), b=side(kind_b, N, 3), sb=scales(N, 4), c=output("f32", M * N), N=N, K=K)
    return arguments, dict(FA=kind_a, FB=kind_b, PA=packed[kind_a], PB=packed[kind_b], V=vector, BM=32, BN=64, BK=128)


def products(columns=128):
    return dict(x=random("f32", 3 * columns, 1), y=random("f32", 3 * columns, 2), o=output("f32", 3), columns=columns)


def main():
    v = dict(x=random("f32", 1000, 1), y=random("f32", 1000, 2), o=output("f32", 1000), n=1000)
    case("vector_add", vector_add, [4], v, dict(B=256))
    case("softmax", softmax, [2], dict(x=random("f16", 1500, 1, -8, 8), o=output("f16", 1500), rows=5, columns=300), dict(B=512, S=2))
    norm = dict(x=random("f16", 1200, 1, -2, 2), w=random("f32", 400, 2), b=random("f32", 400, 3), o=output("f16", 1200), columns=400, eps=1e-5)
    case("layer_norm", layer_norm, [3], norm, dict(B=512))
    # Whole numbers, whose sums do not depend on the order in which rows take the lock. Each thread has one column.
    whole = [Buffer("f32", 800, f", values: {[n * step % 13 - 6 for n in range(800)]}") for step in (5, 8)]
    locks = dict(dy=whole[0], xh=whole[1], dw=output("f32", 400), lock=zeros("s32", 4), columns=200)
    case("layer_norm_backward", layer_norm_backward_weights, [4], locks, dict(GROUPS=2, B=256), num_warps=8)
    case("sum_of_products", sum_of_products, [3], products(), dict(B=128), num_warps=8, enable_fp_fusion=False)
    case("sum_of_products_fused", sum_of_products, [3], products(), dict(B=128), num_warps=8, enable_fp_fusion=True)
    tiles = dict(BM=32, BN=64, BK=32, G=2, ACC=tl.float32)
    case("matmul_f16", matmul, [6], matrices("f16", 80, 80, 112, "f16"), tiles, num_stages=3)
    case("matmul_tf32", matmul, [6], matrices("f32", 80, 80, 112, "f32"), tiles, num_stages=3)
    case("matmul_int8", matmul, [6], matrices("s8", 80, 80, 112, "s32"), {**tiles, "ACC": tl.int32}, num_stages=3)
    case("matmul_fp8", matmul, [6], matrices("e4m3", 80, 80, 224, "f32"), {**tiles, "BK": 64}, num_stages=4)
    split = {**matrices("f16", 64, 64, 256, "f32"), "c": zeros("f32", 64 * 64)}
    case("matmul_split_k", matmul_split_k, [2, 1, 2], split, dict(BM=32, BN=64, BK=32, SPLIT=2))
    case("matmul_descriptor", matmul_descriptor, [2, 2], matrices("f16", 80, 80, 112, "f16"), dict(BM=64, BN=64, BK=32), num_stages=3)
    case("matmul_descriptor_fp8", matmul_descriptor_transposed, [2, 2], matrices("e4m3", 80, 80, 224, "f32"), dict(BM=64, BN=64, BK=64), num_stages=2)
    case("matmul_persistent", matmul_persistent, [2], matrices("bf16", 80, 144, 96, "bf16"), dict(BM=64, BN=64, BK=32, P=2, WS=False))
    case("matmul_persistent_specialised", matmul_persistent, [2], matrices("f16", 80, 144, 96, "f16"), dict(BM=64, BN=64, BK=32, P=2, WS=True))
    case("attention", attention, [3, 2], heads("f16", 2, 80, 64), dict(D=64, BM=32, BN=32), num_stages=3)
    case("attention_bf16", attention, [2, 1], heads("bf16", 1, 80, 128), dict(D=128, BM=64, BN=32), num_stages=2, num_warps=8)
    described = {**heads("f16", 2, 128, 64), "H": 2}
    case("attention_descriptor", attention_descriptor, [2, 2], described, dict(D=64, BM=64, BN=32, WS=False), num_stages=3)
    described = {**heads("f16", 1, 128, 128), "H": 1}
    case("attention_specialised", attention_descriptor, [2, 1], described, dict(D=128, BM=64, BN=32, WS=True), num_stages=2, num_warps=8)
    for name, kinds in [("mxfp8", ("e4m3", "e4m3", 32)), ("mxfp8_mxfp4", ("e4m3", "e2m1", 32)), ("mxfp4", ("e2m1", "e2m1", 32)), ("nvfp4", ("e2m1", "e2m1", 16))]:
        if name != "nvfp4" or not triton.__version__.startswith("3.4."):
            case(f"dot_scaled_{name}", dot_scaled, [2, 1], *scaled(*kinds), num_stages=2)
    reduced = dict(x=random("f32", 32 * 64, 1), sums=output("f32", 32), most=output("f32", 64), where=output("s32", 64))
    case("reductions", reductions, [1], reduced, dict(M=32, N=64))
    scanned = dict(x=random("f32", 16 * 64, 1), y=random("f32", 16 * 64, 2), sums=output("f32", 16 * 64), last=output("f32", 16 * 64))
    case("scans", scans, [1], scanned, dict(M=16, N=64))
    case("sort", sort, [1], dict(x=random("s32", 8 * 64, 1, None), o=output("s32", 8 * 64), most=output("s32", 8 * 8)), dict(M=8, N=64, K=8))
    case("histogram", histogram, [4], dict(x=random("s32", 1000, 1, None), o=zeros("s32", 64), n=1000), dict(B=256, BINS=64))
    counted = dict(x=random("s32", 500, 1, None), sums=zeros("s32", 64), most=zeros("s32", 64), locked=zeros("s32", 1), lock=zeros("s32", 1), n=500)
    case("atomics", atomics, [4], counted, dict(B=128, BINS=64))
    groups = [(32, 64, 64), (64, 32, 96), (32, 32, 32)]
    buffers = {}
    for g, (M, N, K) in enumerate(groups):
        made = matrices("f16", M, N, K, "f16")
        buffers.update({f"{letter}{g}": made[letter] for letter in "abc"})
    tables = {f"p{letter}": Buffer("u64", 3, f", pointers: [{letter}0, {letter}1, {letter}2]") for letter in "abc"}
    sizes = Buffer("s32", 9, f", values: {[n for group in groups for n in group]}")
    case("grouped_matmul", grouped_matmul, [2], {**tables, "sizes": sizes, "G": 3}, dict(BM=32, BN=32, BK=32, P=2), extra=buffers)
    loss = dict(x=random("f32", 1200, 1, -4, 4), target=Buffer("s32", 4, ", values: [0, 17, 299, 123]"), loss=output("f32", 4), columns=300)
    case("cross_entropy", cross_entropy, [4], loss, dict(B=512))
    case("transpose", transpose, [3, 2], dict(x=random("f32", 72 * 50, 1), o=output("f32", 72 * 50), M=72, N=50), dict(B=32))
    case("quantize", quantize, [3], dict(x=random("f16", 768, 1), q=output("e4m3", 768), s=output("f32", 24), columns=256), dict(B=256, G=32))


main()
