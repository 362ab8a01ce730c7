"""Tables of pointers: tensors of addresses (grouped GEMM, multi-tensor optimisers), and addresses passed as integers.

The host stores what `data_ptr()` returns, an address of this process, which means nothing in the emulator's memory. What such an address
belongs to is therefore placed at that very address for the launch.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, Dict, List, Sequence, Tuple

from .. import _native
from .arguments import _unwrapped, host_array

#: Addresses of Linux processes that can hold tensors. Smaller numbers are indices or sizes.
_LOWEST, _HIGHEST = 1 << 32, 1 << 47

#: Larger tensors of integers are data. The largest tables have a few entries for each parameter of a model.
_LARGEST_TABLE = 1 << 16

#: Tensors that an address was found to belong to, by that address.
_known: Dict[int, "weakref.ref[Any]"] = {}


class Pointees:
    """What the pointers of a launch point to."""

    def __init__(self) -> None:
        #: Arrays for the native module, to be placed at their addresses.
        self.arrays: List[Any] = []
        #: Where addresses came from that belong to no tensor that is alive, with the first one.
        self.unknown: List[Tuple[str, int]] = []

    def explanation(self) -> str:
        """A clause for the message of a launch that went out of bounds; empty if every address is known."""
        return "".join(
            f"; {name} holds {address:#x}, which looks like an address of this process but belongs to no tensor that is alive: keep a "
            "reference to the tensor whose `data_ptr()` it is"
            for name, address in self.unknown
        )


def _addresses(value: Any) -> List[int]:
    """The numbers of an argument that may be addresses, without repetition."""
    if isinstance(value, int):
        return [value] if _LOWEST <= value < _HIGHEST else []
    value = _unwrapped(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.dtype not in (torch.int64, getattr(torch, "uint64", torch.int64)):
            return []
        with torch._C.DisableTorchFunction():
            if not 0 < value.numel() <= _LARGEST_TABLE or value.device.type != "cpu":
                return []
            numbers = value.detach().view(torch.int64)
            # Most integer tensors hold indices: one comparison shows it.
            if not _LOWEST <= int(numbers.max()) < _HIGHEST:
                return []
            numbers = set(numbers.flatten().tolist())
    else:
        array = getattr(value, "array", value)
        if str(getattr(array, "dtype", "")) not in ("int64", "uint64") or not hasattr(array, "tolist"):
            return []
        if not 0 < array.size <= _LARGEST_TABLE or not _LOWEST <= int(array.max()) < _HIGHEST:
            return []
        numbers = set(array.reshape(-1).tolist())
    return sorted(n for n in numbers if _LOWEST <= n < _HIGHEST)


def _span(owner: Any) -> Tuple[int, int]:
    """The first address of the memory of a tensor, and the one after its last."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(owner, torch.Tensor):
        with torch._C.DisableTorchFunction():
            if owner.device.type != "cpu" or owner.layout != torch.strided:
                return 0, 0
            storage = owner.untyped_storage()
            return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    start = owner.data_ptr()
    return start, start + owner.array.nbytes


def _whole(owner: Any) -> Any:
    """All memory of a tensor, of its own type if it covers its storage."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(owner, torch.Tensor):
        with torch._C.DisableTorchFunction():
            start, end = _span(owner)
            if owner.is_contiguous() and owner.data_ptr() == start and owner.numel() * owner.element_size() == end - start:
                return host_array(owner)
            return _native.HostArray(owner, start, (end - start,), (1,), "uint8", 1)
    return host_array(owner)


def _owners(addresses: Sequence[int]) -> Dict[int, Any]:
    """The tensors that are alive and whose memory contains these addresses."""
    from . import Tensor

    found: Dict[int, Any] = {}
    for address in addresses:
        owner = _known[address]() if address in _known else None
        if owner is not None and _span(owner)[0] <= address < _span(owner)[1]:
            found[address] = owner
    missing = [a for a in addresses if a not in found]
    if not missing:
        return found
    torch = sys.modules.get("torch")
    kinds = (Tensor,) if torch is None else (Tensor, torch.Tensor)
    for candidate in gc.get_objects():
        # `isinstance` would ask proxies for their class.
        if not issubclass(type(candidate), kinds):
            continue
        try:
            start, end = _span(candidate)
        except (RuntimeError, NotImplementedError):
            # A tensor without storage: sparse, fake, or one that is being made.
            continue
        for address in missing:
            if start <= address < end and address not in found:
                found[address] = candidate
                _known[address] = weakref.ref(candidate)
    return found


def pointees(pointers: Sequence[Tuple[str, Any]]) -> Pointees:
    """What the addresses in these arguments belong to, and what the addresses there belong to."""
    result, seen = Pointees(), set()
    queue = list(pointers)
    while queue:
        name, value = queue.pop()
        addresses = [a for a in _addresses(value) if a not in seen]
        if not addresses:
            continue
        seen.update(addresses)
        found = _owners(addresses)
        unknown = [a for a in addresses if a not in found]
        # Numbers of which none is an address are data, such as hashes.
        if unknown:
            result.unknown.append((name, unknown[0]))
        for owner in {id(owner): owner for owner in found.values()}.values():
            result.arrays.append(_whole(owner))
            queue.append((f"a tensor that {name} points to", owner))
    return result
