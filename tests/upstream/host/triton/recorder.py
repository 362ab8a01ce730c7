"""A driver for Triton that compiles for a GB10 and launches nothing: a case of a suite is a folder with the PTX and the metadata of each
kernel, and a launch file with the launches of upstream's host function."""

import json
import os
import sys

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import driver
from triton.runtime.jit import JITFunction

# What the host function has launched: grid, kernel, and arguments with their types.
launches = []


class Launcher:
    def __init__(self, source, metadata):
        self.types = [kind for kind in source.signature.values()]

    def __call__(self, x, y, z, stream, function, packed, launch_metadata, enter, leave, *args):
        launches.append(([x, y, z], [pair for pair in zip(self.types, args) if pair[0] != "constexpr"]))


class Utils:
    @staticmethod
    def load_binary(name, kernel, shared, device):
        # Module, function, registers, spills, threads of a CTA.
        return name, name, 0, 0, 1024

    @staticmethod
    def get_device_properties(device):
        return {"max_shared_mem": 101376, "multiprocessor_count": 48, "warpSize": 32}

    @staticmethod
    def unload_module(module):
        pass


class Driver(DriverBase):
    utils, launcher_cls = Utils(), Launcher

    def __init__(self):
        pass

    @classmethod
    def is_active(cls):
        return True

    def get_current_target(self):
        return GPUTarget("cuda", 121, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=0):
        return 0

    def get_active_torch_device(self):
        return "cuda"

    def get_benchmarker(self):
        raise RuntimeError("nothing is timed")

    def map_python_to_cpp_type(self, kind):
        return kind


driver.set_active(Driver())
launch_kernel = JITFunction.run


def run(self, *args, **options):
    kernel = launch_kernel(self, *args, **options)
    launches[-1] += (kernel,)
    return kernel


JITFunction.run = run


def random(name, kind, shape, seed, low=-1, high=1):
    return torch.Tensor(name, kind, shape, f", random: {seed}, range: [{low}, {high}]")


def values(name, kind, numbers):
    return torch.Tensor(name, kind, [len(numbers)], f", values: {numbers}")


def output(name, kind, shape):
    return torch.Tensor(name, kind, shape)


def scratch(name, kind, shape):
    """What a kernel leaves for the next."""
    return torch.Tensor(name, kind, shape, ", scratch: true")


def line(kind, argument):
    if isinstance(argument, torch.Tensor):
        return f"buffer: {argument.name}"
    names = {"i1": "u8", "i32": "s32", "i64": "s64", "fp32": "f32"}
    return f"{names[kind]}: {argument}"


def case(name, function, *args, **options):
    """Calls a host function, and writes what it launched. Buffers lie in the order of the arguments."""
    launches.clear()
    function(*args, **options)
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    modules, lines = [], []
    for n, (grid, arguments, kernel) in enumerate(launches):
        part = os.path.join(folder, f"kernel{n}")
        os.makedirs(part)
        with open(os.path.join(part, "kernel.ptx"), "w") as file:
            file.write(kernel.asm["ptx"])
        with open(os.path.join(part, "kernel.json"), "w") as file:
            json.dump(kernel.metadata._asdict(), file, default=str)
        modules.append(f"  kernel{n}: {{triton: kernel{n}}}\n")
        lines.append(f"- module: kernel{n}\n  grid: {grid}\n  args:\n")
        lines += [f"  - {{{line(kind, argument)}}}\n" for kind, argument in arguments]
    buffers = {}
    for argument in [*args, *options.values()] + [argument for _, arguments, _ in launches for _, argument in arguments]:
        if isinstance(argument, torch.Tensor):
            buffers[argument.name] = argument
    with open(os.path.join(folder, "launch.yaml"), "w") as file:
        file.write("modules:\n" + "".join(modules) + "buffers:\n")
        for buffer in buffers.values():
            shape = list(buffer.shape)
            file.write(f"  {buffer.name}: {{type: {buffer.dtype.kind}, shape: {shape}{buffer.contents}}}\n")
        file.write("launches:\n" + "".join(lines))
