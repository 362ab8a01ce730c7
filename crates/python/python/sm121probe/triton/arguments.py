"""Arguments of Triton kernels: flattens them by the kernel's signature and converts them as Triton's own launcher does.

A signature maps each parameter to a type: `*fp32`, `i32`, `constexpr`, `tensordesc<…>`, or a tuple of types. Constants are no parameters of
the compiled kernel; a tuple is as many parameters as it has leaves, and a host descriptor is a tensor map (or its fields), a shape and strides.
"""

from __future__ import annotations

import operator
import re
import struct
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .. import _native
from ..device import TensorMap

#: CUDA's element types of tensor maps, by the numbers of the metadata, which are those of device code: 8 to 10 differ from the driver's.
_MAP_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b")
_SWIZZLES = ("none", "32B", "64B", "128B")

#: The descriptors of a kernel's parameters, from its metadata, in the order of the signature.
Descriptors = Iterator[Optional[dict]]


def _signed(size: int) -> Callable[[Any], bytes]:
    def convert(value: Any) -> bytes:
        # As C's conversion of a long: the value has 64 bits, of which the parameter takes the lowest.
        number = operator.index(value)
        if not -(1 << 63) <= number < 1 << 63:
            raise OverflowError(f"{number} does not fit into 64 bits")
        return (number & ((1 << 64) - 1)).to_bytes(8, "little")[:size]

    return convert


def _unsigned(size: int) -> Callable[[Any], bytes]:
    def convert(value: Any) -> bytes:
        number = operator.index(value)
        if not 0 <= number < 1 << 64:
            raise OverflowError(f"{number} is not an unsigned number of 64 bits")
        return number.to_bytes(8, "little")[:size]

    return convert


def _float(layout: str) -> Callable[[Any], bytes]:
    return lambda value: struct.pack(layout, float(value))


def _single(value: Any) -> bytes:
    number = float(value)
    try:
        return struct.pack("<f", number)
    except OverflowError:
        # A double beyond the range of a float becomes infinite in C.
        return struct.pack("<f", float("inf") if number > 0 else float("-inf"))


def _bfloat(value: Any) -> bytes:
    # Triton's launcher keeps the upper half of the binary32 number, without rounding.
    return _single(value)[2:]


_SCALARS: Dict[str, Callable[[Any], bytes]] = {
    **{f"i{8 * size}": _signed(size) for size in (1, 2, 4, 8)},
    **{f"u{8 * size}": _unsigned(size) for size in (1, 2, 4, 8)},
    "i1": _signed(1),
    "u1": _unsigned(1),
    "fp16": _float("<e"),
    "bf16": _bfloat,
    "fp32": _single,
    "f32": _single,
    "fp64": _float("<d"),
}


def _unwrapped(value: Any) -> Any:
    """The tensor of a `TensorWrapper`, which only reinterprets its type."""
    while hasattr(value, "base") and hasattr(value, "data_ptr") and type(value).__name__ == "TensorWrapper":
        value = value.base
    return value


#: The names of PyTorch's types.
_type_names: Dict[Any, str] = {}


def _tensor_array(tensor: Any) -> Any:
    """What the native module reads a tensor of PyTorch from; outside of modes."""
    if not tensor.is_cpu:
        raise ValueError(
            f"the tensor is in the memory of `{tensor.device}`: the emulator takes tensors of the CPU; move it there (`.cpu()`), or call "
            "`sm121probe.triton.activate(torch=True)` before tensors are created"
        )
    dtype = tensor.dtype
    name = _type_names.get(dtype)
    if name is None:
        name = _type_names[dtype] = str(dtype).rpartition(".")[2]
    return _native.HostArray(tensor, tensor.data_ptr(), tensor.shape, tensor.stride(), name, tensor.element_size())


def host_array(value: Any) -> Any:
    """What the native module reads an array from; other values are returned as they are."""
    value = _unwrapped(value)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return getattr(value, "array", value) if type(value).__module__.startswith(__package__) else value
    with torch._C.DisableTorchFunction():
        return _tensor_array(value)


class Flattened:
    """The arguments of one launch, flattened and converted."""

    def __init__(self) -> None:
        #: For the native module, one for each parameter.
        self.values: List[Any] = []
        #: The pointers among the arguments as they were given, with their parameters' names.
        self.pointers: List[Tuple[str, Any]] = []

    def add(self, ty: Any, value: Any, path: Tuple[str, ...], descriptors: Descriptors) -> None:
        """Add an argument of a type of the signature."""
        if isinstance(ty, (tuple, list)):
            inner = tuple(value)
            if len(inner) != len(ty):
                raise TypeError(f"{_named(path)} is a tuple of {len(inner)}, but the kernel was compiled for {len(ty)}")
            for n, (one, item) in enumerate(zip(ty, inner)):
                self.add(one, item, (*path, str(n)), descriptors)
        elif ty == "constexpr":
            return
        elif ty.startswith("tensordesc"):
            self._add_descriptor(ty, value, path, next(descriptors, None))
        elif ty in _SCALARS:
            try:
                self.values.append(_SCALARS[ty](value))
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"{_named(path)} has the type {ty}: {error}") from None
        else:
            self._add_pointer(value, path)

    def _add_pointer(self, value: Any, path: Tuple[str, ...]) -> None:
        self.pointers.append((_named(path), value))
        try:
            self.values.append(host_array(value))
        except ValueError as error:
            raise ValueError(f"{_named(path)}: {error}") from None

    def _add_descriptor(self, ty: str, value: Any, path: Tuple[str, ...], meta: Optional[dict]) -> None:
        if not all(hasattr(value, name) for name in ("base", "shape", "strides", "block_shape")):
            raise TypeError(f"{_named(path)} is a tensor descriptor, not {type(value).__name__}; make one by `TensorDescriptor.from_tensor`")
        shape, strides = [operator.index(n) for n in value.shape], [operator.index(n) for n in value.strides]
        nan, rounds = getattr(value, "padding", "zero") == "nan", bool(getattr(value, "round_f32_to_tf32", False))
        if meta is None:
            # The kernel addresses elements itself.
            self._add_pointer(value.base, path)
            self.values += [_SCALARS["i64"](n) for n in (*shape, *strides)]
            self.values += [_Optional(_SCALARS["i1"](flag)) for flag in (nan, rounds)]
        else:
            self.values.append(_tensor_map(value, meta, shape, strides, nan, rounds, path))
        self.values += [_SCALARS["i32"](n) for n in shape] + [_SCALARS["i64"](n) for n in strides]

    def fitted(self, parameters: int) -> List[Any]:
        """The values for a kernel of so many parameters: older versions of Triton pass fewer fields of a descriptor."""
        spare = len(self.values) - parameters
        optional = [n for n, value in enumerate(self.values) if isinstance(value, _Optional)]
        descriptors = len(optional) // 2
        left_out = set()
        if descriptors and spare == descriptors:
            left_out = set(optional[1::2])
        elif descriptors and spare == 2 * descriptors:
            left_out = set(optional)
        return [bytes(value) if isinstance(value, _Optional) else value for n, value in enumerate(self.values) if n not in left_out]


class _Optional(bytes):
    """A field of a descriptor that Triton passes since some version: the padding since 3.5, the rounding since 3.7."""


def _named(path: Tuple[str, ...]) -> str:
    return f"argument `{path[0]}`" + "".join(f"[{n}]" for n in path[1:])


def _tensor_map(value: Any, meta: dict, shape: List[int], strides: List[int], nan: bool, rounds: bool, path: Tuple[str, ...]) -> Any:
    if meta["fp4_padded"]:
        shape = [*shape[:-1], 2 * shape[-1]]
    if strides[-1] != 1:
        raise ValueError(f"{_named(path)}: the last dimension of a descriptor is contiguous, but its stride is {strides[-1]}")
    element = "tf32" if rounds else _MAP_TYPES[meta["elem_type"]]
    box, walk, steps = list(meta["block_size"]), None, None
    if meta.get("is_im2col"):
        pixels, channels = box
        box, walk, steps = [channels], (value.pixel_box_lower_corner, value.pixel_box_upper_corner, pixels), value.element_strides
    try:
        return TensorMap(
            host_array(value.base),
            box,
            _SWIZZLES[meta["swizzle"]],
            type=element,
            shape=shape,
            strides=[n * meta["elem_size"] for n in strides[:-1]],
            element_strides=steps,
            oob="nan" if nan else "zeros",
            im2col=walk,
        )
    except ValueError as error:
        raise ValueError(f"{_named(path)}: {error}") from None


class Plan:
    """The conversion of the arguments of a signature of pointers, numbers and constants, without tuples and descriptors."""

    def __init__(self, signature: Dict[Any, Any]):
        self._count = len(signature)
        #: Position, name, and conversion of each parameter; that of a pointer is `None`.
        self._steps = [
            (n, _named((str(name),)), ty, _SCALARS.get(ty)) for n, (name, ty) in enumerate(signature.items()) if ty != "constexpr"
        ]

    @staticmethod
    def fits(signature: Dict[Any, Any]) -> bool:
        """Whether a signature has no tuple and no descriptor."""
        return all(isinstance(ty, str) and not ty.startswith("tensordesc") for ty in signature.values())

    def flatten(self, args: Sequence[Any]) -> "Flattened":
        """As the function `flatten`; arguments that hold no address are left out of `pointers`."""
        flat = Flattened()
        torch = sys.modules.get("torch")
        if torch is None:
            self._convert(args, flat, (), ())
        else:
            with torch._C.DisableTorchFunction():
                self._convert(args, flat, torch.Tensor, (torch.int64, getattr(torch, "uint64", torch.int64)))
        return flat

    def _convert(self, args: Sequence[Any], flat: "Flattened", tensor: Any, of_addresses: Tuple[Any, ...]) -> None:
        values, pointers = flat.values, flat.pointers
        for n, name, ty, convert in self._steps:
            value = args[n]
            try:
                if convert is not None:
                    values.append(convert(value))
                elif isinstance(value, tensor):
                    values.append(_tensor_array(value))
                    if value.dtype in of_addresses:
                        pointers.append((name, value))
                else:
                    values.append(host_array(value))
                    pointers.append((name, value))
            except (TypeError, ValueError, OverflowError) as error:
                if convert is None:
                    if isinstance(error, ValueError):
                        raise ValueError(f"{name}: {error}") from None
                    raise
                raise type(error)(f"{name} has the type {ty}: {error}") from None


def flatten(signature: Dict[Any, Any], args: Sequence[Any], metas: Sequence[dict]) -> Flattened:
    """Flatten `args`, one for each entry of the signature; `metas` describe the tensor maps that the kernel takes."""
    flat, descriptors = Flattened(), iter(metas)
    if len(args) != len(signature):
        raise TypeError(f"the kernel has {len(signature)} arguments ({', '.join(map(str, signature))}), but {len(args)} were given")
    for (name, ty), value in zip(signature.items(), args):
        flat.add(ty, value, (str(name),), descriptors)
    return flat


def signature_of(source: Any) -> Optional[Dict[Any, Any]]:
    """The signature of a kernel's source, with its constants marked; `None` for a source that has none."""
    signature = getattr(source, "signature", None)
    if signature is None:
        return None
    names = list(getattr(getattr(source, "fn", None), "arg_names", []))
    constants = set()
    for key in getattr(source, "constants", None) or {}:
        constants.add((names.index(key),) if isinstance(key, str) else tuple(key) if isinstance(key, (tuple, list)) else (key,))

    def marked(ty: Any, path: Tuple[int, ...]) -> Any:
        if path in constants:
            return "constexpr"
        return tuple(marked(one, (*path, n)) for n, one in enumerate(ty)) if isinstance(ty, (tuple, list)) else ty

    if set(signature) <= set(names):
        # In the order of the parameters; what the signature leaves out is constant.
        return {name: marked(signature.get(name, "constexpr"), (n,)) for n, name in enumerate(names)}
    return {name: marked(ty, (n,)) for n, (name, ty) in enumerate(signature.items())}


#: A parameter in PTX.
_PTX_PARAMETER = re.compile(r"\.param\s")


def parameter_count(ptx: str, entry: str) -> int:
    """The number of parameters of an entry in PTX, including those that the launcher adds."""
    found = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx)
    return len(_PTX_PARAMETER.findall(found.group(1))) if found else 0
