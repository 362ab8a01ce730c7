"""Devices, whose memory persists between launches, and tensor maps."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Optional, Sequence, SupportsIndex, Tuple, Union

from . import _native
from .module import Module
from .report import Report

#: CUDA's names for the element types of NumPy, PyTorch and `ml_dtypes`.
_TYPES = {
    "uint8": "u8",
    "int8": "u8",
    "bool": "u8",
    "uint16": "u16",
    "int16": "u16",
    "uint32": "u32",
    "int32": "s32",
    "uint64": "u64",
    "int64": "s64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float8_e4m3fn": "u8",
    "float8_e5m2": "u8",
    "float8_e8m0fnu": "u8",
}


#: Copies that `DeviceArray.numpy` returned and that are alive, by identity: an element of a copy is one of the buffer.
_copies: "Dict[int, Tuple[weakref.ref[Any], DeviceArray]]" = {}


class DeviceArray:
    """A buffer in the memory of a `Device`. Its address is stable until it is freed, so it can be stored in other buffers."""

    def __init__(self, device: "Device", address: int, shape: Tuple[int, ...], dtype: Any, nbytes: int) -> None:
        self.device: "Device" = device
        self.address: int = address
        self.shape: Tuple[int, ...] = shape
        self.dtype: Any = dtype
        self.nbytes: int = nbytes

    @property
    def __sm121probe_buffer__(self) -> Tuple[Any, int, int]:
        """The memory that the address belongs to, the address, and the size in bytes."""
        return self.device._memory, self.address, self.nbytes

    def numpy(self, *, unwritten: str = "raise") -> Any:
        """Return a copy as a NumPy array. Bytes that were never written, or computed from such bytes, raise `ValueError`; with
        ``unwritten="keep"``, they are copied as they are."""
        import numpy

        out = numpy.empty(self.shape, self.dtype)
        missing = self.device._memory.read(self.address, out.reshape(-1).view(numpy.uint8))
        if missing and unwritten == "raise":
            untouched, computed, kernel = self.device._memory.undefined(self.address)
            never = f"{untouched} of {self.nbytes} bytes were never written"
            who = f"`{kernel}`" if kernel else "a kernel"
            derived = f"{computed} of {self.nbytes} bytes are undefined: {who} computed them from unwritten memory"
            raise ValueError("; ".join(text for text, count in ((never, untouched), (derived, computed)) if count))
        key = id(out)
        _copies[key] = (weakref.ref(out, lambda _: _copies.pop(key, None)), self)
        return out

    def copy_from(self, array: Any) -> None:
        """Replace the contents by those of an array of the same size in bytes."""
        self.device._memory.write(self.address, array)

    def free(self) -> None:
        """Free the buffer; a kernel that uses it afterwards violates a rule."""
        self.device._memory.free(self.address)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} at {self.address:#x}>"


class Device:
    """Global memory shared by several launches. Threads may share a device; its launches run one after the other."""

    def __init__(self) -> None:
        self._memory = _native.Memory()
        self._count = 0

    def _name(self, name: Optional[str]) -> str:
        self._count += 1
        return name or f"buffer {self._count - 1}"

    def array(self, array: Any, *, name: Optional[str] = None) -> DeviceArray:
        """Allocate a buffer with the contents of a contiguous array; `name` is its name in messages."""
        if isinstance(array, DeviceArray):
            array = array.numpy()
        address, nbytes = self._memory.allocate(array, self._name(name))
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            # An array that states them only through its protocol.
            return DeviceArray(self, address, (nbytes,), "uint8", nbytes)
        shape = tuple(int(n) for n in array.shape)
        dtype = array.dtype if hasattr(array, "__array_interface__") else str(array.dtype).rpartition(".")[2]
        return DeviceArray(self, address, shape, dtype, nbytes)

    def empty(self, shape: Union[SupportsIndex, Sequence[SupportsIndex]], dtype: Any = "float32", *, name: Optional[str] = None) -> DeviceArray:
        """Allocate an unwritten buffer; a kernel whose behaviour depends on its contents violates a rule."""
        import numpy

        shape = (int(shape),) if numpy.ndim(shape) == 0 else tuple(int(n) for n in shape)  # type: ignore[arg-type,union-attr]
        kind = numpy.dtype(dtype)
        nbytes = int(numpy.prod(shape, dtype=numpy.int64)) * kind.itemsize
        return DeviceArray(self, self._memory.allocate_unwritten(nbytes, self._name(name)), shape, kind, nbytes)

    def launch(self, module: Module, name: str, grid: Any, block: Any = None, args: Sequence[Any] = (), **options: Any) -> Report:
        """Call `Module.launch` with the memory of this device."""
        __tracebackhide__ = True
        return module.launch(name, grid, block, args, device=self, **options)


def TensorMap(
    array: Any,
    box: Sequence[int],
    swizzle: str = "none",
    *,
    type: Optional[str] = None,
    shape: Optional[Sequence[int]] = None,
    strides: Optional[Sequence[int]] = None,
    element_strides: Optional[Sequence[int]] = None,
    interleave: str = "none",
    oob: str = "zeros",
    l2: str = "none",
    offset: int = 0,
    im2col: Optional[Tuple[Sequence[int], Sequence[int], int]] = None,
) -> Any:
    """Create a tensor map over an array or a `DeviceArray`, for use as a launch argument.

    `box` is the box size in elements, in the order of the array's dimensions: the innermost comes **last**, as in `array.shape`, which is
    the reverse of `cuTensorMapEncodeTiled`. The same order applies to `shape` (default: the array's), `strides` (in bytes, without the
    innermost one) and `element_strides`.

    `type` is CUDA's element type, by default that of the array: `u8`, `u16`, `u32`, `s32`, `u64`, `s64`, `f16`, `f32`, `f64`, `bf16`,
    `16u4_align8b`, `16u4_align16b`, `16u6_align16b`, … `swizzle` is `none`, `32B`, `64B`, `128B` or an atom form; `interleave` is `none`,
    `16B` or `32B`; `oob` is `zeros` or `nan`; `l2` is `none`, `64B`, `128B` or `256B`. `offset` is the byte offset of the first element.

    `im2col` makes a map for im2col copies, like `cuTensorMapEncodeIm2col`: the lower and the upper corner of the bounding box, in the order
    of the array's dimensions without the images and the channels, and the number of pixels of a copy. `box` is then the channels of a pixel.

    Raises `ValueError` for maps that `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` rejects.
    """
    if type is None:
        named = str(array.dtype).rpartition(".")[2]
        if named not in _TYPES:
            raise ValueError(f"a tensor map has no type for {named}; name one by `type`")
        type = _TYPES[named]
    dims = [int(n) for n in (array.shape if shape is None else shape)]
    if strides is None and shape is None and getattr(array, "strides", None) is not None:
        strides = _byte_strides(array)[:-1]
    back = lambda numbers: None if numbers is None else [int(n) for n in reversed(list(numbers))]  # noqa: E731
    walk = None
    if im2col is not None:
        lower, upper, pixels = im2col
        walk = back(lower), back(upper), int(pixels)
        if len(box) != 1:
            raise ValueError(f"the box of an im2col map is one number, the channels of a pixel, not {list(box)}")
        box = [1] * (len(dims) - 1) + [int(box[0])]
    return _native.TensorMap(
        array,
        type,
        back(dims),
        back(box),
        strides=back(strides),
        element_strides=back(element_strides),
        swizzle=swizzle,
        interleave=interleave,
        oob=oob,
        l2=l2,
        offset=offset,
        im2col=walk,
    )


def _byte_strides(array: Any) -> Tuple[int, ...]:
    return tuple(int(n) for n in array.strides)
