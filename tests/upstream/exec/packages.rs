//! Packages for Python programs under `exec`: the bindings of CUDA, and CuTe DSL.

use crate::packages::Package;

/// cuda-bindings, NVRTC and NumPy.
pub(super) static CUDA_PYTHON: [&Package; 4] = [
    &Package {
        name: "cuda-bindings",
        version: "13.0.3",
        file: "cuda_bindings-13.0.3-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "9afede5937474864aa794eb57399dbdf5d2b05427aadcac275209b0857528a61",
    },
    &Package {
        name: "cuda-pathfinder",
        version: "1.9.0",
        file: "cuda_pathfinder-1.9.0-py3-none-any.whl",
        sha256: "622df7440f7702f36b7a02a1699aa0b084fe04034d9939188fee9b16d0c36366",
    },
    &Package {
        name: "numpy",
        version: "2.4.6",
        file: "numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93",
    },
    &Package {
        name: "nvidia-cuda-nvrtc",
        version: "13.0.88",
        file: "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
    },
];

/// CuTe DSL.
pub(super) static CUTE_DSL: [&Package; 5] = [
    &Package {
        name: "nvidia-cutlass-dsl",
        version: "4.8.1",
        file: "nvidia_cutlass_dsl-4.8.1-py3-none-any.whl",
        sha256: "43ed46b21d151aa643c6765457c7310827b938c1cf45d5109a0152de4ef06227",
    },
    &Package {
        name: "nvidia-cutlass-dsl-libs-base",
        version: "4.8.1",
        file: "nvidia_cutlass_dsl_libs_base-4.8.1-cp311-cp311-manylinux_2_28_x86_64.whl",
        sha256: "04f60d4815d40b8588dc12bc58572923619f1b9547936195e80634a9468c0fb2",
    },
    &Package {
        name: "nvidia-cutlass-dsl-libs-core",
        version: "4.8.1",
        file: "nvidia_cutlass_dsl_libs_core-4.8.1-py3-none-any.whl",
        sha256: "bacc6760e3286db447d45720d32ae58ac2e6cecade1152345ef784b2d5e44431",
    },
    &Package {
        name: "nvidia-cutlass-dsl-libs-cu13",
        version: "4.8.1",
        file: "nvidia_cutlass_dsl_libs_cu13-4.8.1-cp311-cp311-manylinux_2_28_x86_64.whl",
        sha256: "969cdb8ecfe8c8b5181001f7f48429f7dd531d43c6609ae58ebf8c928185cf4f",
    },
    &Package {
        name: "typing_extensions",
        version: "4.16.0",
        file: "typing_extensions-4.16.0-py3-none-any.whl",
        sha256: "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8",
    },
];
