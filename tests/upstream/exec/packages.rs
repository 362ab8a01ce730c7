//! What only programs under `exec` need: the CUDA release whose compiler and host compiler agree on CUTLASS's names (13.5 and g++ 12 do not),
//! CUTLASS, and the bindings of Python.

use crate::packages::{CUDA, Package};

/// The CUDA compiler of 13.0, with what its host code includes.
pub(super) static CUDA_13_0: [&Package; 6] = [
    &Package {
        name: "nvidia-cuda-nvcc",
        version: "13.0.88",
        file: "nvidia_cuda_nvcc-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
    },
    &Package {
        name: "nvidia-nvvm",
        version: "13.0.88",
        file: "nvidia_nvvm-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0",
    },
    &Package {
        name: "nvidia-cuda-crt",
        version: "13.0.88",
        file: "nvidia_cuda_crt-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
    },
    &Package {
        name: "nvidia-cuda-runtime",
        version: "13.0.96",
        file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
    },
    &Package {
        name: "nvidia-cuda-cccl",
        version: "13.0.85",
        file: "nvidia_cuda_cccl-13.0.85-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649",
    },
    // cuRAND.
    CUDA[4],
];

/// CUTLASS with its examples.
pub(super) static CUTLASS: Package = Package {
    name: "nvidia-cutlass",
    version: "4.2.0.0",
    file: "nvidia_cutlass-4.2.0.0-py3-none-any.whl",
    sha256: "f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6",
};

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
