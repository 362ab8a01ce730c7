"""The last write behind a failed assertion: the instruction, the values that it used, and why none is named."""

import numpy as np
import pytest

import sm121probe as sm
from kernels import ADD, HEAD

pytest_plugins = ["pytester"]

#: y[i] = x[i] + 1, of 32 threads; thread 5 adds 2.
PLUS = HEAD + """
.visible .entry plus(.param .u64 x, .param .u64 y)
{
 .reg .b64 %p, %q; .reg .b32 %i; .reg .f32 %f, %g; .reg .pred %five;
 ld.param.u64 %p, [x]; ld.param.u64 %q, [y];
 mov.u32 %i, %tid.x; mad.wide.u32 %p, %i, 4, %p; mad.wide.u32 %q, %i, 4, %q;
 ld.global.f32 %f, [%p];
 setp.eq.u32 %five, %i, 5;
 add.f32 %g, %f, 0f3F800000;
 @%five add.f32 %g, %f, 0f40000000;
 st.global.f32 [%q], %g;
 ret;
}
"""

#: `ADD` with an instruction in each line.
SUM = ADD.replace("; ", ";\n")

#: The line of `PLUS` that stores.
STORE = next(n for n, line in enumerate(PLUS.split("\n"), 1) if "st.global" in line)


def failed(actual, desired, **tolerance):
    with pytest.raises(AssertionError) as caught:
        sm.assert_allclose(actual, desired, **tolerance)
    return str(caught.value)


def launched_on_device():
    device = sm.Device()
    x, y = device.array(np.arange(32, dtype=np.float32), name="x"), device.empty(32, np.float32, name="y")
    device.launch(sm.Module(PLUS), "plus", 1, 32, [x, y])
    return device, x, y


def test_a_device_array_names_the_write_and_its_inputs():
    _, _, y = launched_on_device()
    for actual in (y, y.numpy()):
        text = failed(actual, np.arange(32) + 1)
        assert f"[5] was last written by kernel plus, PTX line {STORE} `st.global.f32 [%q], %g;`" in text, text
        assert "uses %g = 7" in text and "uses %f = 5" in text and "loads x[5]" in text, text
    sm.assert_allclose(y, np.where(np.arange(32) == 5, 7, np.arange(32) + 1))


@pytest.mark.parametrize("columns", [8, 16])
def test_arrays_of_the_host_and_their_views(columns):
    x, y = np.arange(32, dtype=np.float32), np.zeros((32 // columns, columns), np.float32)
    sm.Module(PLUS).launch("plus", 1, 32, [x, y])
    text = failed(y, (x + 1).reshape(y.shape))
    assert "[0,5] was last written by kernel plus" in text and "loads array 0[5]" in text, text
    text = failed(y[:, 1::2], (x + 1).reshape(y.shape)[:, 1::2])
    assert "[0,2] was last written by kernel plus" in text and "%f = 5" in text, text


def test_the_last_of_several_launches_is_named():
    x = np.arange(32, dtype=np.float32)
    y, z = np.zeros(32, np.float32), np.zeros(32, np.float32)
    plus = sm.Module(PLUS)
    plus.launch("plus", 1, 32, [x, y])
    sm.Module(SUM).launch("add", 1, 32, [y, y, z, 32])
    text = failed(z, 2 * x + 2)
    assert "[5] was last written by kernel add" in text and "uses 14" in text and "loads array 0[5]" in text, text
    # The first launch wrote this one, the second only read it.
    assert "[5] was last written by kernel plus" in failed(y, x + 1)


def test_what_cannot_be_found_is_said():
    _, x, y = launched_on_device()
    changed = y.numpy()
    changed[7] = 99
    y.copy_from(changed)
    text = failed(y, np.where(np.arange(32) == 5, 7, np.arange(32) + 1))
    assert "[7]: the host has changed it since the launch of `plus` wrote it" in text, text
    assert "[3]: none of the last 1 launch with this memory wrote it" in failed(x, np.where(np.arange(32) == 3, 0, np.arange(32)))
    # No launch had it.
    assert sm.last_write(np.zeros(3), (0,)) is None and "\n[0]" not in failed(np.zeros(3), np.ones(3))


def test_large_memory_is_not_kept():
    x, y = np.zeros(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
    sm.Module(PLUS).launch("plus", 1, 32, [x, y])
    # Nothing is said of memory of the host that is not kept: it may be another array's by now.
    assert sm.last_write(y, (0,)) is None


def test_large_arrays_of_long_launches_are_kept():
    x = np.ones(1 << 18, np.float32)
    sm.Module(SUM).launch("add", 1 << 10, 256, [x, x, x, x.size])
    x[3] = 2
    text = failed(x, np.where(np.arange(x.size) == 9, 1, 2))
    assert "[9] was last written by kernel add" in text and "loads array 0[9]" in text and "uses 1" in text, text


def test_only_the_last_launches_are_kept():
    device, x, y = launched_on_device()
    z = np.zeros(32, np.float32)
    for _ in range(32):
        sm.Module(PLUS).launch("plus", 1, 32, [z, z.copy()])
    text = failed(y, np.arange(32) + 1)
    assert "cannot run again: only the last 32 launches and 64 MiB are kept" in text, text


def test_bounds_of_products_name_the_write():
    from sm121probe import mx

    random = np.random.default_rng(0)
    a, b = (mx.quantize(random.standard_normal((4, 32)), "mxfp8") for _ in range(2))
    right = (mx.dequantize(a) @ mx.dequantize(b).T).astype(np.float32)
    device = sm.Device()
    x, y = device.array(right.repeat(2, axis=0).reshape(-1) - 1), device.empty((8, 4), np.float32)
    device.launch(sm.Module(PLUS), "plus", 1, 32, [x, y])
    twice = mx.Quantized(a.format, a.element, codes=a.codes.repeat(2, axis=0), scales=a.scales.repeat(2, axis=0))
    with pytest.raises(AssertionError) as caught:
        mx.assert_within(y, twice, b)
    assert "was last written by kernel plus" in str(caught.value) and "loads buffer 0[" in str(caught.value), caught.value


BODY = """
import numpy as np
import sm121probe as sm
from test_origin import PLUS

def test_numpy(sm12x):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    sm12x.launch(sm12x.module(PLUS), "plus", 1, 32, [x, y])
    np.testing.assert_allclose(y, x + 1)

def test_device(sm12x):
    x, y = sm12x.array(np.arange(32, dtype=np.float32)), sm12x.empty(32)
    sm12x.launch(sm12x.module(PLUS), "plus", 1, 32, [x, y])
    np.testing.assert_array_equal(y.numpy(), np.arange(32) + 1)
"""


def test_the_plugin_names_the_write_of_numpys_assertions(pytester):
    import pathlib

    for name in ("kernels", "test_origin"):
        pytester.makepyfile(**{name: pathlib.Path(__file__).with_name(f"{name}.py").read_text()})
    pytester.makepyfile(test_body=BODY)
    result = pytester.runpytest_subprocess("test_body.py")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*[[]5[]] was last written by kernel plus, PTX line *", "*[[]5[]] was last written by kernel plus, PTX line *"])


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_tensors_of_triton(library):
    pytest.importorskip("triton")
    pytest.importorskip(library)
    import sm121probe.triton
    from origin_kernel import plus

    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    if library == "torch":
        import torch

        tensors = torch.from_numpy(x.copy()), torch.zeros(32)
    else:
        tensors = sm121probe.triton.Tensor(x), sm121probe.triton.Tensor(y)
    sm121probe.triton.activate("sm_120")
    try:
        plus[(1,)](*tensors, BLOCK=32)
    finally:
        sm121probe.triton.deactivate()
    text = failed(tensors[1], x + 1)
    assert "[5] was last written by kernel plus" in text and "origin_kernel.py:" in text, text
    if library == "torch":
        with pytest.raises(AssertionError) as caught:
            torch.testing.assert_close(tensors[1], tensors[0] + 1)
        from sm121probe.origin import of_failed_assertion

        said = of_failed_assertion(caught.value.__traceback__, str(caught.value))
        assert said is not None and "[5] was last written by kernel plus" in said
