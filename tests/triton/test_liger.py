"""Kernels that others wrote: Liger's, forward and backward, compared with PyTorch's functions."""

import importlib

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("liger_kernel")


def function(module, name):
    return getattr(importlib.import_module(f"liger_kernel.ops.{module}"), name).apply


OPERATIONS = {
    "rms_norm": (lambda x, w: function("rms_norm", "LigerRMSNormFunction")(x, w, 1e-6, 0.0, "llama", False), lambda x, w: F.rms_norm(x, (64,), w, 1e-6), [(4, 64), (64,)]),
    "layer_norm": (lambda x, w, b: function("layer_norm", "LigerLayerNormFunction")(x, w, b, 1e-5), lambda x, w, b: F.layer_norm(x, (64,), w, b), [(8, 64), (64,), (64,)]),
    "swiglu": (lambda a, b: function("swiglu", "LigerSiLUMulFunction")(a, b), lambda a, b: F.silu(a) * b, [(4, 100), (4, 100)]),
    "geglu": (lambda a, b: function("geglu", "LigerGELUMulFunction")(a, b), lambda a, b: F.gelu(a, approximate="tanh") * b, [(4, 100), (4, 100)]),
    "softmax": (lambda x: function("softmax", "LigerSoftmaxFunction")(x), lambda x: x.softmax(-1), [(8, 100)]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    theirs, wanted, shapes = OPERATIONS[name]
    args = [torch.randn(shape, device="cuda", requires_grad=True) for shape in shapes]
    copies = [tensor.detach().clone().requires_grad_() for tensor in args]
    got, right = theirs(*args), wanted(*copies)
    torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-4)
    gradient = torch.randn_like(right)
    got.backward(gradient)
    right.backward(gradient)
    torch.testing.assert_close([tensor.grad for tensor in args], [tensor.grad for tensor in copies], rtol=1e-3, atol=1e-3)


def test_cross_entropy():
    from liger_kernel.transformers.functional import liger_cross_entropy

    x, target = torch.randn(16, 50, device="cuda", requires_grad=True), torch.randint(0, 50, (16,), device="cuda")
    copy = x.detach().clone().requires_grad_()
    got, right = liger_cross_entropy(x, target), F.cross_entropy(copy, target)
    torch.testing.assert_close(got, right)
    got.backward()
    right.backward()
    torch.testing.assert_close(x.grad, copy.grad, rtol=1e-3, atol=1e-4)


def test_fused_linear_cross_entropy():
    x, w = torch.randn(16, 32, device="cuda", requires_grad=True), torch.randn(50, 32, device="cuda", requires_grad=True)
    target = torch.randint(0, 50, (16,), device="cuda")
    got = function("fused_linear_cross_entropy", "LigerFusedLinearCrossEntropyFunction")(x, w, target)
    got = got[0] if isinstance(got, tuple) else got
    torch.testing.assert_close(got, F.cross_entropy(x @ w.T, target), rtol=1e-3, atol=1e-3)
    got.backward()
    assert x.grad.isfinite().all() and w.grad.isfinite().all()


def test_divergence():
    x, y = torch.randn(8, 64, device="cuda").log_softmax(-1), torch.randn(8, 64, device="cuda").softmax(-1)
    torch.testing.assert_close(function("kl_div", "LigerKLDivLossFunction")(x, y), F.kl_div(x, y, reduction="batchmean"), rtol=1e-4, atol=1e-4)
