"""The driver that Triton asks for devices, loads kernels with and launches through: the emulator in the place of CUDA's."""

from __future__ import annotations

import json
import struct
import sys
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..errors import LaunchError, UnsupportedError
from . import arguments, benchmark, pointers, verdicts

#: Opt-in shared memory of a CTA in bytes, by architecture (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
_SHARED = {75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448, 100: 232_448, 103: 232_448, 110: 232_448}

#: Of SM12x.
_SHARED_SM12X = 101_376

#: Multiprocessors of GB10. Persistent kernels take their grid from it.
MULTIPROCESSORS = 48

#: The most CTAs of a cluster without opting in.
_PORTABLE_CLUSTER = 8

#: Compiled kernels by hash, for the launcher.
_compiled: "weakref.WeakValueDictionary[str, Any]" = weakref.WeakValueDictionary()

#: The number of the device of each target, in the order of their activation. Triton keeps kernels by device, whatever its target is.
_devices: Dict[int, int] = {}


def architecture_of(target: str) -> int:
    """The number of a target, such as 121 of `sm_121a`."""
    digits = "".join(c for c in target if c.isdigit())
    if not target.startswith("sm_") or not digits:
        raise ValueError(f"{target!r} is not a target, such as 'sm_121'")
    return int(digits)


def device_of(architecture: int) -> int:
    """The number of the device that stands for an architecture."""
    return _devices.setdefault(architecture, len(_devices))


def device_properties(architecture: int) -> Dict[str, int]:
    """What Triton asks a CUDA device for."""
    return {
        "max_shared_mem": _SHARED.get(architecture, _SHARED_SM12X),
        "max_num_regs": 65_536,
        "multiprocessor_count": MULTIPROCESSORS,
        "warpSize": 32,
        "sm_clock_rate": 2_400_000,
        "mem_clock_rate": 4_266_000,
        "mem_bus_width": 256,
    }


def registers_and_spills(cubin: bytes, kernel: str) -> Tuple[int, int]:
    """The registers of a thread of a kernel and the words of its local memory, which ptxas has written into the machine code."""
    try:
        return _elf_resources(cubin, kernel)
    except (struct.error, IndexError, ValueError) as error:
        raise LaunchError(f"the machine code of {kernel} is no cubin: {error}") from error


def _elf_resources(cubin: bytes, kernel: str) -> Tuple[int, int]:
    if cubin[:4] != b"\x7fELF":
        raise ValueError("it does not begin as an ELF file")
    (headers,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    # Name, type, flags, address, offset, size, link, info.
    sections = [struct.unpack_from("<IIQQQQII", cubin, headers + n * size) for n in range(count)]

    def text(table: int, at: int) -> str:
        start = sections[table][4] + at
        return cubin[start : cubin.index(b"\0", start)].decode(errors="replace")

    by_name = {text(names, section[0]): section for section in sections}
    registers = by_name[f".text.{kernel}"][7] >> 24 if f".text.{kernel}" in by_name else 0
    symbols = by_name.get(".symtab")
    kernel_symbol = None
    if symbols is not None:
        for n in range(symbols[5] // 24):
            (name,) = struct.unpack_from("<I", cubin, symbols[4] + 24 * n)
            if text(symbols[6], name) == kernel:
                kernel_symbol = n
    frame = 0
    for attribute, symbol, value in _attributes(cubin, by_name.get(".nv.info")):
        if symbol == kernel_symbol and attribute == _REGISTERS:
            registers = value
        elif symbol == kernel_symbol and attribute == _FRAME:
            frame = value
    return registers, frame // 4


#: Attributes of `.nv.info` that state a number of a symbol, and their form.
_FRAME, _REGISTERS, _SIZED = 0x11, 0x2F, 0x04


def _attributes(cubin: bytes, section: Optional[tuple]) -> List[Tuple[int, int, int]]:
    found: List[Tuple[int, int, int]] = []
    if section is None:
        return found
    at, end = section[4], section[4] + section[5]
    while at + 4 <= end:
        form, attribute, size = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if form != _SIZED:
            # The value is in the place of the size.
            continue
        if size == 8:
            found.append((attribute, *struct.unpack_from("<II", cubin, at)))
        at += size
    return found


class Utils:
    """Triton's interface to loaded kernels: nothing is loaded, and the name of the kernel serves as its handle."""

    def __init__(self, architecture: int):
        self._architecture = architecture

    @staticmethod
    def load_binary(name: str, kernel: bytes, shared: int, device: int) -> Tuple[str, str, int, int, int]:
        # Module, function, registers, spills, maximum threads per block.
        return name, name, *registers_and_spills(kernel, name), 1024

    def get_device_properties(self, device: int) -> Dict[str, int]:
        architectures = {number: architecture for architecture, number in _devices.items()}
        return device_properties(architectures.get(device, self._architecture))

    @staticmethod
    def unload_module(module: Any) -> None:
        pass

    @staticmethod
    def set_printf_fifo_size(size: int) -> None:
        # The output of a launch is not limited.
        pass

    @staticmethod
    def get_default_stream(device: int = 0) -> int:
        return 0

    @staticmethod
    def is_stream_capturing(stream: int) -> bool:
        return False

    @staticmethod
    def cuOccupancyMaxActiveClusters(function: Any, shared: int, ctas: int) -> int:
        return MULTIPROCESSORS // ctas if 0 < ctas <= _PORTABLE_CLUSTER else 0

    cu_occupancy_max_active_clusters = cuOccupancyMaxActiveClusters


class Launcher:
    """Called by `kernel[grid](…)` with the grid, the stream, the function, Triton's arguments, and then those of the kernel."""

    def __init__(self, source: Any, metadata: Any):
        self._metadata = metadata
        #: Bytes of scratch memory of a CTA.
        self._scratch = getattr(metadata, "global_scratch_size", 0) or 0
        self._kernel = Kernel(source, metadata, _ptx_of(source, metadata))

    def __call__(self, x, y, z, stream, function, kernel_metadata, launch_metadata, enter, leave, *args):
        active = verdicts.active()
        if enter is not None:
            enter(launch_metadata)
        if x * y * z > 0:
            if self._scratch > 0:
                self._allocate(x * y * z, stream)
            flat = self._kernel.flatten(args)
            active.launch(self._kernel, (x, y, z), flat, pointers.pointees(flat.pointers))
        if leave is not None:
            leave(launch_metadata)

    def _allocate(self, programs: int, stream: Any) -> None:
        """Call the allocator of Triton's user, as on a GPU, where a kernel with scratch memory fails without one. The emulator's scratch
        memory is its own, which shows what was never written."""
        from triton.runtime import _allocation

        ctas = programs * getattr(self._metadata, "num_ctas", 1)
        allocator = _allocation._allocator
        # A context variable since Triton 3.4.
        allocate = allocator.get() if hasattr(allocator, "get") else allocator
        allocate(ctas * self._scratch, getattr(self._metadata, "global_scratch_align", 1), stream)


class Kernel:
    """A compiled kernel, as the launcher knows it."""

    def __init__(self, source: Any, metadata: Any, ptx: str):
        from . import _metadata, _program

        self.name = metadata.name
        self.hash = metadata.hash
        self.metadata = _metadata(metadata)
        self.metadata_json = json.dumps(self.metadata)
        self.program = _program(ptx, metadata.name)
        # The parameters of PTX have the types of machine words.
        self._signature = None if getattr(source, "ext", None) == "ptx" else arguments.signature_of(source)
        self._descriptors = getattr(metadata, "tensordesc_meta", None) or ()
        hidden = sum(self.metadata.get(name) is not None for name in ("global_scratch_size", "profile_scratch_size"))
        self._parameters = arguments.parameter_count(ptx, metadata.name) - hidden
        #: What the last activation that launched it tells the native module, and that activation.
        self.prepared: Tuple[Any, Dict[str, Any]] = (None, {})
        #: Conversions of simple signatures, by the number of arguments.
        self._plans: Dict[int, arguments.Plan] = {}

    def flatten(self, args: Any) -> arguments.Flattened:
        """Flatten the arguments of a launch, with or without its constants."""
        plan = self._plans.get(len(args))
        if plan is not None:
            return plan.flatten(args)
        signature = self._signature
        if signature is None:
            flat = arguments.Flattened()
            for n, value in enumerate(args):
                flat.add("*", value, (str(n),), iter(()))
            return flat
        if len(args) < len(signature):
            signature = {name: ty for name, ty in signature.items() if ty != "constexpr"}
        if len(args) == len(signature) and arguments.Plan.fits(signature):
            plan = self._plans[len(args)] = arguments.Plan(signature)
            return plan.flatten(args)
        flat = arguments.flatten(signature, args, self._descriptors)
        flat.values = flat.fitted(self._parameters)
        return flat


def _ptx_of(source: Any, metadata: Any) -> str:
    """The PTX of a kernel: of those that were compiled since the activation, or else from Triton's cache."""
    compiled = _compiled.get(metadata.hash)
    if compiled is not None:
        return compiled.asm["ptx"]
    from triton.runtime.cache import get_cache_manager

    name = getattr(source, "name", metadata.name)[:150]
    group = get_cache_manager(metadata.hash).get_group(f"{name}.json") or {}
    path = group.get(f"{name}.ptx")
    if path is None:
        raise LaunchError(
            f"the PTX of {metadata.name} is not in Triton's cache: call `sm121probe.triton.activate` before it is compiled, and leave "
            "TRITON_STORE_BINARY_ONLY unset"
        )
    with open(path, encoding="utf-8") as file:
        return file.read()


def watch_compiled() -> None:
    """Note every kernel that Triton compiles from now on."""
    from triton.compiler import compiler

    if getattr(compiler.CompiledKernel, "_sm121probe", False):
        return
    before = compiler.CompiledKernel.__init__

    def init(self, *args, **kwargs):
        before(self, *args, **kwargs)
        _compiled[self.metadata.hash] = self

    def delete(self):
        # Nothing is to be unloaded, and the driver may be gone.
        if isinstance(getattr(self, "module", None), str):
            self.module = None
        if before_delete is not None:
            before_delete(self)

    before_delete = getattr(compiler.CompiledKernel, "__del__", None)
    compiler.CompiledKernel.__init__ = init
    compiler.CompiledKernel.__del__ = delete
    compiler.CompiledKernel._sm121probe = True


#: Operations of Triton's GPU dialect that only some architectures have, what they become, and which have it.
_ABSENT = {
    "ttng.warp_group_dot": ("wgmma", "sm_90a", "`mma_v2`, or `tl.dot`"),
    "ttng.tc_gen5_mma": ("tcgen05.mma", "sm_100, sm_103 and sm_110", "`mma_v2`, or `tl.dot`"),
    "ttng.tc_gen5_commit": ("tcgen05.commit", "sm_100, sm_103 and sm_110", "an arrival at an mbarrier"),
    "ttng.tmem_alloc": ("tcgen05.alloc", "sm_100, sm_103 and sm_110", "shared memory"),
}


#: Operations that SM12x has and some versions of Triton do not compile for it: the instruction, and what to use instead.
_UNCOMPILED = {
    "ttng.async_shared_store": ("st.async", "a store to shared memory and an arrival at the mbarrier"),
}


def refuse_absent_operations() -> None:
    """Refuse kernels whose operations SM12x lacks before LLVM sees them: for `wgmma` it ends the process."""
    from triton.backends.nvidia import compiler

    backend = compiler.CUDABackend
    if hasattr(backend, "_sm121probe_make_llir"):
        return
    backend._sm121probe_make_llir = before = backend.make_llir

    def make_llir(self, src, metadata, options, capability, *args, **kwargs):
        if capability // 10 == 12:
            text = str(src)
            name = metadata.get("name") or getattr(src, "name", None) or "the kernel"
            for operation, (instruction, where, instead) in _ABSENT.items():
                if operation in text:
                    raise UnsupportedError(
                        f"{name} contains `{operation}`, the instruction {instruction} of {where}, which sm_{capability} lacks; use {instead}"
                    )
            try:
                return before(self, src, metadata, options, capability, *args, **kwargs)
            except RuntimeError as error:
                for operation, (instruction, instead) in _UNCOMPILED.items():
                    if operation in text:
                        raise UnsupportedError(
                            f"{name} contains `{operation}`, the instruction {instruction}, which this version of Triton does not compile for "
                            f"sm_{capability}; use {instead}"
                        ) from error
                raise
        return before(self, src, metadata, options, capability, *args, **kwargs)

    backend.make_llir = make_llir


def make_driver(architecture: int) -> Any:
    """The driver for an architecture."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    target, device = GPUTarget("cuda", architecture, 32), device_of(architecture)

    class Driver(DriverBase):
        launcher_cls = Launcher

        def __init__(self):
            self.utils = Utils(architecture)

        @classmethod
        def is_active(cls):
            return False

        def get_current_target(self):
            return target

        def get_current_device(self):
            return device

        def set_current_device(self, device):
            pass

        def get_device_capability(self, device=0):
            return divmod(architecture, 10)

        def get_current_stream(self, device=0):
            return 0

        def get_active_torch_device(self):
            import torch

            return torch.device("cuda", device) if emulates_torch() else torch.device("cpu")

        def get_device_interface(self):
            return benchmark.DeviceInterface

        def get_benchmarker(self):
            return benchmark.do_bench

        def get_empty_cache_for_benchmark(self):
            return None

        def clear_cache(self, cache):
            pass

        def map_python_to_cpp_type(self, ty):
            return "void*" if ty.startswith("*") else ty

    watch_compiled()
    refuse_absent_operations()
    return Driver()


def emulates_torch() -> bool:
    """Whether `torch.cuda` is emulated."""
    module = sys.modules.get(f"{__package__.rpartition('.')[0]}.torch_cuda")
    return module is not None and module.is_active()


def activate_backend(is_active: Callable[[], bool]) -> None:
    """Make Triton's own CUDA driver, which its tests and libraries ask, say whether the emulator is active."""
    from triton.backends import backends

    nvidia = backends["nvidia"].driver
    if not hasattr(nvidia, "_sm121probe"):
        nvidia._sm121probe = nvidia.is_active
    before = nvidia._sm121probe
    nvidia.is_active = staticmethod(lambda: is_active() or before())
