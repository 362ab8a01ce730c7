"""Arrays of other libraries: what their producers say is checked, their memory lives, and immutable ones do not change."""

import ctypes
import gc

import numpy as np
import pytest

import sm121probe as sm
from kernels import ADD, HEAD

#: Copies the first word of `p` to `q`, or the reverse.
COPY = HEAD + """
.visible .entry copy(.param .u64 p, .param .u64 q)
{
 .reg .b32 x; .reg .b64 a, b;
 ld.param.u64 a, [p]; ld.param.u64 b, [q]; ld.global.u32 x, [a]; st.global.u32 [b], x;
 ret;
}
"""


@pytest.fixture(scope="module")
def copy():
    module = sm.Module(COPY)
    return lambda source, to, **options: module.launch("copy", 1, 1, [source, to], **options)


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """Exports an array of u32 through DLPack, with fields to choose; `flags` makes the export versioned."""

    def __init__(self, array, *, flags=None, version=(1, 0), name=None, strides=None, shape=None, device=1, **fields):
        self.array, self.device = array, device
        self.managed = Managed() if flags is None else Versioned(*version, None, None, flags)
        self.name = name or (b"dltensor" if flags is None else b"dltensor_versioned")
        shape = array.shape if shape is None else shape
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        tensor = self.managed.tensor
        tensor.data, tensor.device_type, tensor.rank = array.ctypes.data, device, len(shape)
        tensor.code, tensor.bits, tensor.lanes, tensor.shape = 1, 32, 1, self.shape
        if self.strides is not None:
            tensor.strides = self.strides
        for field, value in fields.items():
            setattr(tensor, field, value)

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, *, max_version=None, **options):
        return new_capsule(ctypes.addressof(self.managed), self.name, None)

    def __setitem__(self, at, value):
        self.array[at] = value


def words(*values):
    return np.array(values or (7, 8, 9, 10), np.uint32)


@pytest.mark.parametrize("flags", [None, 0])
def test_dlpack_is_read_and_written(copy, flags):
    out = words(0)
    copy(Producer(words(), flags=flags, byte_offset=4), out)
    assert out[0] == 8
    to = words()
    copy(out, Producer(to, flags=flags, strides=(1,)))
    assert to.tolist() == [8, 8, 9, 10]
    # No strides are needed, nor is there memory, for an array without elements.
    empty = Producer(np.zeros((0, 3), np.uint32), flags=flags, data=None)
    sm.Module(ADD).launch("add", 1, 32, [empty, empty, empty, 0])


class Temporary:
    """Exports a copy that nothing but the capsule keeps alive."""

    def __init__(self, elements):
        self.elements = elements

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        return np.full(self.elements, 7, np.uint32).__dlpack__()

    def __setitem__(self, at, value):
        pass


@pytest.mark.parametrize("elements", [1000, 1 << 20])
def test_the_memory_of_a_producer_lives_as_long_as_the_launch(copy, elements):
    for _ in range(8):
        out = words(0)
        copy(Temporary(elements), out)
        assert out[0] == 7
    assert (sm.Device().array(Temporary(elements)).numpy().view(np.uint32) == 7).all()


class Noted(np.ndarray):
    """Counts how many capsules of it are alive."""

    alive = 0

    def __del__(self):
        Noted.alive -= 1


def test_the_memory_of_a_producer_is_freed_after_the_launch(copy):
    class Counted(Temporary):
        def __dlpack__(self, **options):
            Noted.alive += 1
            return np.full(self.elements, 7, np.uint32).view(Noted).__dlpack__()

    for elements in (10, 1 << 20):
        copy(Counted(elements), words(0))
    gc.collect()
    assert Noted.alive == 0


READ_ONLY = {
    "NumPy": lambda x: (x.setflags(write=False), x)[1],
    "a flag of DLPack": lambda x: Producer(x, flags=1),
    "a copy by DLPack": lambda x: Producer(x, flags=2),
    "it refuses assignments": lambda x: type("Frozen", (Producer,), {"__setitem__": refuse})(x),
    "it refuses assignments, and the version says nothing of it": lambda x: type("Frozen", (Producer,), {"__setitem__": refuse})(x, flags=0),
    "no assignment": lambda x: Bare(x),
    "the array interface": lambda x: Interface(x, data=(x.ctypes.data, True)),
    "the array interface says nothing, it refuses": lambda x: type("Frozen", (Interface,), {"__setitem__": refuse})(x),
}


def refuse(self, at, value):
    raise TypeError("immutable")


class Bare:
    """An array without `__setitem__`, whose export cannot say whether it may be changed."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self):
        return self.array.__dlpack__()


class Interface:
    """An array with the array interface alone, with fields to choose; those that are `None` are left out."""

    def __init__(self, array, **fields):
        self.array, self.fields = array, fields

    @property
    def __array_interface__(self):
        fields = {**self.array.__array_interface__, **self.fields}
        return {name: value for name, value in fields.items() if value is not None}

    def __setitem__(self, at, value):
        self.array[at] = value


@pytest.mark.parametrize("kind", READ_ONLY)
@pytest.mark.parametrize("elements", [4, 1 << 19])
def test_what_is_not_known_to_be_writable_is_an_input_only(copy, kind, elements):
    x = np.full(elements, 3, np.uint32)
    frozen, other, out = READ_ONLY[kind](x), words(5), words(0)
    copy(frozen, out)
    assert out[0] == 3
    with pytest.raises(ValueError, match=r"argument 1 of copy \(`q`\): .*read-only.*pass a copy"):
        copy(other, frozen)
    with pytest.raises(ValueError, match="read-only"):
        copy(other, frozen, device=sm.Device())
    assert (x == 3).all()


def test_an_array_of_jax_stays_as_it_is(copy):
    jnp = pytest.importorskip("jax.numpy")
    x, out = jnp.full(4, 3, jnp.uint32), words(0)
    copy(x, out)
    assert out[0] == 3
    with pytest.raises(ValueError, match="read-only: it is immutable"):
        copy(words(), x)
    assert x.tolist() == [3] * 4


def test_a_writable_array_interface_is_enough(copy):
    x = words()
    copy(words(1), Interface(x))
    assert x[0] == 1
    scalar = np.array(0, np.uint32)
    copy(words(2), scalar)
    copy(words(2), Producer(scalar))
    assert scalar == 2


WRONG = [
    (lambda x: Producer(x, rank=-1), ValueError, "-1 dimensions"),
    (lambda x: Producer(x, rank=1 << 30), ValueError, "dimensions; 0 to 64"),
    (lambda x: Producer(x, shape=(-4,)), ValueError, "negative size"),
    (lambda x: Producer(x, shape=(1 << 62,)), ValueError, "larger than the address space"),
    (lambda x: Producer(x, shape=(1 << 40, 1 << 40)), ValueError, "larger than the address space"),
    (lambda x: Producer(x, shape=(2, 2), strides=(1 << 62, 1)), ValueError, "larger than the address space"),
    (lambda x: Producer(x, strides=(-1,)), ValueError, "negative stride"),
    (lambda x: Producer(x, strides=(2,)), ValueError, "not contiguous"),
    (lambda x: Producer(x, strides=(0,)), ValueError, "not contiguous"),
    (lambda x: Producer(x, data=None), ValueError, "16 bytes at address 0x0"),
    (lambda x: Producer(x, byte_offset=(1 << 64) - 1), ValueError, "larger than the address space"),
    (lambda x: Producer(x, code=5, bits=64), TypeError, "DLPack type 5 of 64 bits and 1 lanes"),
    (lambda x: Producer(x, lanes=2), TypeError, "DLPack type 1 of 32 bits and 2 lanes"),
    (lambda x: Producer(x, code=0, bits=4), TypeError, "DLPack type 0 of 4 bits"),
    (lambda x: Producer(x, device=2), ValueError, "not in the memory of the CPU"),
    (lambda x: Producer(x, device_type=2), ValueError, "not in the memory of the CPU"),
    (lambda x: Producer(x, flags=0, version=(2, 0)), BufferError, "DLPack 2.0"),
    (lambda x: Producer(x, name=b"used_dltensor"), BufferError, "was consumed"),
    (lambda x: Interface(x, strides=(4, 4)), ValueError, "2 strides for 1 dimensions"),
    (lambda x: Interface(x, shape=(2, 2), strides=(4,)), ValueError, "1 strides for 2 dimensions"),
    (lambda x: Interface(x, shape=(-4,)), ValueError, "negative size"),
    (lambda x: Interface(x, shape=(1 << 40, 1 << 40)), ValueError, "larger than the address space"),
    (lambda x: Interface(x, shape=4), TypeError, "`shape` of its `__array_interface__`"),
    (lambda x: Interface(x, data=(0, False)), ValueError, "16 bytes at address 0x0"),
    (lambda x: Interface(x, data=((1 << 64) - 8, False)), ValueError, "16 bytes at address 0xf"),
    (lambda x: Interface(x, data=b"bytes"), TypeError, "`data` of its `__array_interface__`"),
    (lambda x: Interface(x, data=None), TypeError, "no `data`"),
    (lambda x: Interface(x, typestr=None), TypeError, "no `typestr`"),
    (lambda x: Interface(x, typestr="|V4"), TypeError, "cannot be arguments"),
    (lambda x: Interface(x, typestr=">u4"), TypeError, "cannot be arguments"),
    (lambda x: Interface(x, mask=x), TypeError, "masked array"),
    (lambda x: type("Gpu", (), {"__cuda_array_interface__": x.__array_interface__})(), ValueError, "in the memory of a GPU"),
]


@pytest.mark.parametrize(("wrong", "kind", "says"), WRONG, ids=[says for _, _, says in WRONG])
def test_exports_that_contradict_themselves_are_refused(copy, wrong, kind, says):
    x = words()
    for args in ((words(), wrong(x)), (wrong(x), words())):
        with pytest.raises(kind) as caught:
            copy(*args)
        assert says in str(caught.value)
    assert x.tolist() == words().tolist()
    for call in (sm.Device().array, sm.Device().array(words()).copy_from):
        with pytest.raises(kind) as caught:
            call(wrong(x))
        assert says in str(caught.value) or "contiguous" in str(caught.value)


def test_an_export_that_fails_says_why(copy):
    class Refuses(Producer):
        def __dlpack__(self, **options):
            raise BufferError("it requires a gradient")

    with pytest.raises(BufferError, match="it requires a gradient"):
        copy(Refuses(words()), words())
    with pytest.raises(TypeError, match="pass an array .* not list"):
        sm.Device().array([1, 2])


def test_buffers_of_another_device_are_refused(copy):
    one, two = sm.Device(), sm.Device()
    a, b = one.array(words(1)), two.array(words(2))
    map_of_a = sm.TensorMap(one.array(np.zeros((8, 64), np.uint32)), (8, 16))
    for args in ((a, b), (b, a), (a, words())):
        for device, says in ((two, "another device"), (None, "launch on that device")):
            if device is None or a in args:
                with pytest.raises(ValueError, match=says):
                    copy(*args, device=device)
    box = HEAD.replace("sm_120", "sm_120a") + ".visible .entry take(.param .align 64 .b8 map[128]) { ret; }\n"
    sm.Module(box).launch("take", 1, 1, [map_of_a], device=one)
    for device in (two, None):
        with pytest.raises(ValueError, match="device"):
            sm.Module(box).launch("take", 1, 1, [map_of_a], device=device)
    assert (a.numpy()[0], b.numpy()[0]) == (1, 2)
    with pytest.raises(ValueError, match="spans 2048 bytes of an array that has 16"):
        small = sm.TensorMap(one.array(words()), (8, 16), shape=(8, 64), strides=(256,))
        sm.Module(box).launch("take", 1, 1, [small], device=one)
    copied = two.array(a)
    copy(copied, b, device=two)
    assert b.numpy()[0] == 1


def test_more_memory_than_there_is_raises(copy):
    for size in (1 << 62, 1 << 46):
        with pytest.raises((MemoryError, OverflowError)):
            sm.Device().empty(size, "uint8")


def test_numbers_of_numpy_are_dimensions(copy):
    out = words(0)
    sm.Module(COPY).launch("copy", np.int64(1), (np.uint32(1), np.int8(1)), [words(), out])
    assert out[0] == 7
    with pytest.raises(TypeError):
        sm.Module(COPY).launch("copy", 1.5, 1, [words(), out])
