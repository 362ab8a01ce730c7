//! Build settings for code that runs on a device, in the notation of nvcc, CMake and PyTorch.
//!
//! `compute_120f` compiles with CUDA 12.9 and later and runs on 12.0 and 12.1 (PTX ISA, "Architecture Families"); CMake passes
//! `120f-real` through to nvcc (used by rapids-cmake, `cuda/set_architectures.cmake`); PyTorch's list accepts `12.0a` and `12.1a`
//! and rejects `12.0f` (torch/utils/cpp_extension.py, `_get_cuda_arch_flags`).

use super::{Suffix, Target};

/// The settings for the three tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuild {
    /// Options of nvcc.
    pub nvcc: String,
    /// The value of `CMAKE_CUDA_ARCHITECTURES`.
    pub cmake: String,
    /// The value of `TORCH_CUDA_ARCH_LIST`.
    pub torch: String,
    /// The first CUDA version that supports it, such as `12.9`; `None` if every version in use does.
    pub cuda: Option<&'static str>,
}

/// The target that covers a device and later devices of its family: `sm_120f` for 12.1, `sm_90a` for 9.0, `sm_89` for 8.9.
fn covering(number: u16) -> Target {
    match number {
        0..90 => Target { number, suffix: Suffix::Base },
        90..100 => Target { number: 90, suffix: Suffix::Arch },
        _ => Target { number: number / 10 * 10, suffix: Suffix::Family },
    }
}

/// Returns the settings that build machine code for all of these architectures.
#[must_use]
pub fn rebuild(numbers: &[u16]) -> Rebuild {
    let mut targets: Vec<Target> = numbers.iter().map(|n| covering(*n)).collect();
    targets.sort();
    targets.dedup();
    let short = |t: &Target| t.to_string().trim_start_matches("sm_").to_owned();
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let torch = |number: &u16| {
        let a = if *number >= 90 { "a" } else { "" };
        format!("{}.{}{a}", number / 10, number % 10)
    };
    Rebuild {
        nvcc: targets
            .iter()
            .map(|t| format!("-gencode arch=compute_{0},code=sm_{0}", short(t)))
            .collect::<Vec<_>>()
            .join(" "),
        cmake: targets.iter().map(|t| format!("{}-real", short(t))).collect::<Vec<_>>().join(";"),
        torch: numbers.iter().map(torch).collect::<Vec<_>>().join(";"),
        cuda: targets.iter().any(|t| t.suffix == Suffix::Family).then_some("12.9"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_family_target_covers_both_devices_and_torch_takes_none() {
        let both = rebuild(&[121, 120]);
        assert_eq!(both.nvcc, "-gencode arch=compute_120f,code=sm_120f");
        assert_eq!(
            (both.cmake.as_str(), both.torch.as_str(), both.cuda),
            ("120f-real", "12.0a;12.1a", Some("12.9"))
        );
        assert_eq!(rebuild(&[121]).torch, "12.1a");
        let old = rebuild(&[90, 89]);
        assert_eq!(old.nvcc, "-gencode arch=compute_89,code=sm_89 -gencode arch=compute_90a,code=sm_90a");
        assert_eq!(
            (old.cmake.as_str(), old.torch.as_str(), old.cuda),
            ("89-real;90a-real", "8.9;9.0a", None)
        );
    }
}
