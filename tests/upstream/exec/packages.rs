//! Packages for Python programs under `exec`: the bindings of CUDA, CuPy, numba, and CuTe DSL.

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

/// CuPy, with the compiler and the headers that it uses, and NumPy.
pub(super) static CUPY: [&Package; 6] = [
    &Package {
        name: "cupy-cuda13x",
        version: "14.2.0",
        file: "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl",
        sha256: "f94843e54500a9c8c169135f79572bfaba946efe4f7178e834c227280c1b0c12",
    },
    &Package {
        name: "cuda-pathfinder",
        version: "1.9.1",
        file: "cuda_pathfinder-1.9.1-py3-none-any.whl",
        sha256: "b743c132f90ad2d1e71d43fd28f31ebcde518f943e50fd44aca62b2a80d5230d",
    },
    &Package {
        name: "nvidia-cuda-nvrtc",
        version: "13.5.37",
        file: "nvidia_cuda_nvrtc-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc",
    },
    &Package {
        name: "nvidia-cuda-runtime",
        version: "13.5.37",
        file: "nvidia_cuda_runtime-13.5.37-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
    },
    &Package {
        name: "nvidia-cuda-cccl",
        version: "13.3.5.0.6",
        file: "nvidia_cuda_cccl-13.3.5.0.6-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "d5230098fa2df5021e1a00c0c4eee41797671a91119d31e892463e5ccf3ee326",
    },
    &Package {
        name: "numpy",
        version: "2.4.6",
        file: "numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93",
    },
];

/// numba-cuda, with its compilers, and NumPy.
pub(super) static NUMBA: [&Package; 13] = [
    &Package {
        name: "numba-cuda",
        version: "0.30.4",
        file: "numba_cuda-0.30.4-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "59b0e895a4884a26323b9581ac6966b7b063b6f0ce87ac23d1192c95158f4d1e",
    },
    &Package {
        name: "numba",
        version: "0.68.1",
        file: "numba-0.68.1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "58fe7a3810261cf13797d8aa94c018cfe91e1e8adf634df60eb60ef834f9367b",
    },
    &Package {
        name: "llvmlite",
        version: "0.50.0",
        file: "llvmlite-0.50.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "a6ffde00d4be8772a24e3e8b3af6bf86a79e7cf066d944ef56136b3957d707dc",
    },
    &Package {
        name: "cuda-core",
        version: "1.2.2",
        file: "cuda_core-1.2.2-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "55a0ea9e590e54e696f04f20b037f52dbac3af09bce0039602324cd4151daab9",
    },
    &Package {
        name: "cuda-bindings",
        version: "13.5.0",
        file: "cuda_bindings-13.5.0-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "08b7e8d674c3266facb00453a7e34ea7d3ea965c2f594bb728f269f45f39fbe2",
    },
    &Package {
        name: "cuda-pathfinder",
        version: "1.9.1",
        file: "cuda_pathfinder-1.9.1-py3-none-any.whl",
        sha256: "b743c132f90ad2d1e71d43fd28f31ebcde518f943e50fd44aca62b2a80d5230d",
    },
    &Package {
        name: "nvidia-nvvm",
        version: "13.5.37",
        file: "nvidia_nvvm-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070",
    },
    &Package {
        name: "nvidia-nvjitlink",
        version: "13.5.37",
        file: "nvidia_nvjitlink-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "280d7cb9649704145f074b8dbde500de04ce02d0872e066e20a83c17bcaa93eb",
    },
    &Package {
        name: "nvidia-cuda-nvrtc",
        version: "13.5.37",
        file: "nvidia_cuda_nvrtc-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc",
    },
    &Package {
        name: "nvidia-cuda-runtime",
        version: "13.5.37",
        file: "nvidia_cuda_runtime-13.5.37-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
    },
    &Package {
        name: "nvidia-cuda-cccl",
        version: "13.3.5.0.6",
        file: "nvidia_cuda_cccl-13.3.5.0.6-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "d5230098fa2df5021e1a00c0c4eee41797671a91119d31e892463e5ccf3ee326",
    },
    &Package {
        name: "packaging",
        version: "26.4",
        file: "packaging-26.4-py3-none-any.whl",
        sha256: "81383611a09c1bc0b08b76e0fd5829d7c6824c65b27a6aee339da133f4233ea2",
    },
    &Package {
        name: "numpy",
        version: "2.4.6",
        file: "numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93",
    },
];
