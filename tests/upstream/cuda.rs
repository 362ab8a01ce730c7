//! Releases of the CUDA compiler, from packages.

use std::path::PathBuf;

use sm121probe::store::Store;

use super::packages::{self, Package};

/// A release of the CUDA compiler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Release {
    /// The compiler and the headers of host code.
    pub(crate) packages: &'static [&'static Package],
    /// The folder of the cache that they are unpacked into.
    folder: &'static str,
}

impl Release {
    /// The folder with `bin`, `include` and `lib`.
    ///
    /// # Errors
    /// Why a package is unavailable, as text.
    pub(crate) fn unpacked(self, store: &Store) -> Result<PathBuf, String> {
        let root = packages::unpacked(store, self.folder, self.packages)?.join("nvidia/cu13");
        for folder in ["bin", "nvvm/bin"] {
            packages::executable(&root.join(folder))?;
        }
        Ok(root)
    }
}

/// The newest release.
pub(crate) const CUDA_13_5: Release = Release { packages: &PACKAGES_13_5, folder: "cuda" };

/// The release whose compiler agrees with the host compiler on CUTLASS's names; 13.5 and g++ 12 do not.
pub(crate) const CUDA_13_0: Release = Release { packages: &PACKAGES_13_0, folder: "cuda-13.0" };

const PACKAGES_13_5: [&Package; 6] = [
    &Package {
        name: "nvidia-cuda-nvcc",
        version: "13.5.37",
        file: "nvidia_cuda_nvcc-13.5.37-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7",
    },
    &Package {
        name: "nvidia-nvvm",
        version: "13.5.37",
        file: "nvidia_nvvm-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        sha256: "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070",
    },
    &Package {
        name: "nvidia-cuda-crt",
        version: "13.5.37",
        file: "nvidia_cuda_crt-13.5.37-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "e898b7f73d3035fa89915a3f7bf3b54a73e90249746111aed295822c4729bb29",
    },
    &Package {
        name: "nvidia-cuda-runtime",
        version: "13.5.37",
        file: "nvidia_cuda_runtime-13.5.37-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
    },
    &Package {
        name: "nvidia-curand",
        version: "10.4.5.25",
        file: "nvidia_curand-10.4.5.25-py3-none-manylinux_2_27_x86_64.whl",
        sha256: "22bb226a857e5888fe6b54ae465fc4371296bcff13a35f79e19691bcf454f529",
    },
    &CCCL,
];

const PACKAGES_13_0: [&Package; 6] = [
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
    PACKAGES_13_5[4],
];

/// CUB, Thrust and libcu++.
pub(crate) static CCCL: Package = Package {
    name: "nvidia-cuda-cccl",
    version: "13.3.5.0.6",
    file: "nvidia_cuda_cccl-13.3.5.0.6-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    sha256: "d5230098fa2df5021e1a00c0c4eee41797671a91119d31e892463e5ccf3ee326",
};
