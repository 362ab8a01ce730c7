//! Recognizes names that mean an architecture, and evaluates the compiler's feature macros for a target.

use ptx::arch::{Suffix, Target};

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// `__CUDA_ARCH__`: 1200.
    Macro,
    /// 120, (12, 0) or 12.0.
    Architecture,
    /// 12.
    Major,
    /// 0 or 1.
    Minor,
}

/// Names that mean an architecture.
const WHOLE: [&str; 14] = [
    "sm",
    "cc",
    "arch",
    "cap",
    "capability",
    "capabilities",
    "sm_arch",
    "sm_",
    "compute_cap",
    "sm_num",
    "sm_ver",
    "m_sm",
    "msm",
    "_sm",
];

/// Substrings of names that mean an architecture.
const PARTS: [&str; 14] = [
    "cuda_arch",
    "sm_version",
    "smversion",
    "compute_capability",
    "computecapability",
    "device_capability",
    "devicecapability",
    "device_cc",
    "gpu_arch",
    "device_arch",
    "sm_arch",
    "arch_version",
    "getsm",
    "device_sm",
];

/// Substrings of names with other meanings: counts, sizes and software versions.
const OTHERS: [&str; 17] = [
    "mincomputecapability",
    "count",
    "num_sm",
    "size",
    "smem",
    "name",
    "cuda_version",
    "cudart",
    "driver",
    "runtime",
    "nvcc",
    "toolkit",
    "toolchain",
    "torch_version",
    "cuda_major",
    "cuda_minor",
    "cudacc_ver",
];

/// Returns the meaning of a name with its members; `None` if it does not mean an architecture.
pub(super) fn meaning(names: &[String]) -> Option<Meaning> {
    // `major.value` of an enumeration.
    let names = match names {
        [owners @ .., last] if (last == "value" || last == "to_int") && !owners.is_empty() => owners,
        _ => names,
    };
    let last = names.last()?.to_ascii_lowercase();
    if last == "__cuda_arch__" {
        return Some(Meaning::Macro);
    }
    let whole = names.join(".").to_ascii_lowercase();
    if OTHERS.iter().any(|other| whole.contains(other)) || whole.contains("version.cuda") {
        return None;
    }
    let software = names.len() > 1
        && names[..names.len() - 1].iter().any(|n| n.to_ascii_lowercase().contains("version"));
    if last == "major" || last.ends_with("_major") || last == "capability_major" {
        return (!software).then_some(Meaning::Major);
    }
    if last == "minor" || last.ends_with("_minor") {
        return (!software).then_some(Meaning::Minor);
    }
    // `gemm.arch` and `profile.sm_version` belong to a kernel, and one kernel serves all of SM12x.
    let owners: Vec<String> = names[..names.len() - 1].iter().map(|n| n.to_ascii_lowercase()).collect();
    let of = |words: &[&str]| owners.iter().any(|owner| words.iter().any(|word| owner.contains(word)));
    if of(&["profile", "config", "kernel", "gemm", "tag"])
        || (last == "arch" && !owners.is_empty() && !of(&["device", "prop", "gpu", "param"]))
    {
        return None;
    }
    let means = WHOLE.contains(&last.as_str()) || PARTS.iter().any(|part| last.contains(part));
    means.then_some(Meaning::Architecture)
}

/// Whether a variable holds the architectures of a build, of which there may be several.
pub(super) fn holds_several(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["ARCHS", "ARCHITECTURES", "ARCHES", "LIST", "FLAGS"].iter().any(|part| name.contains(part))
}

/// Computes the value of a feature macro for a target; `None` if the compiler does not define it.
type Feature = fn(Target) -> Option<f64>;

/// Returns the function that evaluates a feature macro of the compiler; `None` for other names.
pub(super) fn feature(name: &str) -> Option<Feature> {
    fn number(target: Target) -> f64 {
        f64::from(target.number) * 10.0
    }
    Some(match name {
        "__CUDA_ARCH__" => |t| Some(number(t)),
        "__CUDA_ARCH_FEAT_SM120_ALL" => |t| (t.number == 120 && t.suffix == Suffix::Arch).then_some(1.0),
        "__CUDA_ARCH_FEAT_SM121_ALL" => |t| (t.number == 121 && t.suffix == Suffix::Arch).then_some(1.0),
        "__CUDA_ARCH_SPECIFIC__" => |t| (t.suffix == Suffix::Arch).then(|| number(t)),
        "__CUDA_ARCH_FAMILY_SPECIFIC__" => |t| (t.suffix != Suffix::Base).then(|| number(t)),
        // SM12x has none of the others.
        other if other.starts_with("__CUDA_ARCH_FEAT_SM") => |_| None,
        _ => return None,
    })
}

/// Whether a macro is defined in device code for SM12x; `None` if unknown.
pub(super) fn is_defined(name: &str) -> Option<bool> {
    match name {
        "__CUDACC__" | "__cplusplus" | "__CUDACC_VER_MAJOR__" | "__CUDACC_VER_MINOR__" => Some(true),
        "USE_ROCM" | "__HIPCC__" | "__HIP__" | "__HIP_PLATFORM_AMD__" | "__HIP_DEVICE_COMPILE__" => {
            Some(false)
        }
        // `GGML_USE_HIP`, `FLASHINFER_USE_ROCM`: builds for other vendors.
        other if ["USE_HIP", "USE_ROCM", "USE_MUSA"].iter().any(|vendor| other.contains(vendor)) => {
            Some(false)
        }
        _ => None,
    }
}

/// Returns the number of a member of an enumeration that is named as nvcc names targets, such as `Arch.sm_120a`. Names such as
/// `SM120` are not exact: projects name the family so.
pub(super) fn member(name: &str) -> Option<u16> {
    let digits = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"))?;
    digits.strip_suffix(['a', 'f']).unwrap_or(digits).parse().ok().filter(|n| (50..200).contains(n))
}

/// Whether a name without a known meaning may hold a member of an enumeration of architectures, such as `arch_enum`.
pub(super) fn may_hold_member(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("arch") || name == "sm" || name.ends_with("_sm") || name.contains("capab")
}

/// Returns the lowest toolkit version that supports SM12x, as encoded in this macro.
pub(super) fn toolkit(name: &str) -> Option<f64> {
    match name {
        "CUDA_VERSION" | "CUDART_VERSION" => Some(12_080.0),
        "__CUDACC_VER_MAJOR__" => Some(12.0),
        _ => None,
    }
}

/// Whether a number denotes an architecture, as in `sm_120`.
pub(super) fn is_architecture(number: f64) -> bool {
    const ALL: [f64; 25] = [
        50.0, 52.0, 53.0, 60.0, 61.0, 62.0, 70.0, 72.0, 75.0, 80.0, 86.0, 87.0, 88.0, 89.0, 90.0, 100.0,
        101.0, 102.0, 103.0, 107.0, 110.0, 120.0, 121.0, 122.0, 130.0,
    ];
    ALL.contains(&number)
}

/// Whether a formatted string of Python writes a major and a minor version: `f"{major}{minor}"`, `f"sm_{cc[0]}{cc[1]}"`.
pub(super) fn writes_pair(text: &str) -> bool {
    let bare = text.trim_matches(['"', '\'']);
    let bare = bare.strip_prefix("sm_").unwrap_or(bare);
    let Some(parts) = bare.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else { return false };
    let Some((major, minor)) = parts.split_once("}{").or_else(|| parts.split_once("}.{")) else {
        return false;
    };
    let means = |text: &str, of: Meaning| {
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        meaning(&names) == Some(of)
    };
    let of = |text: &str, end: &str, of: Meaning| {
        means(text, of) || text.strip_suffix(end).is_some_and(|owner| means(owner, Meaning::Architecture))
    };
    of(major, "[0]", Meaning::Major) && of(minor, "[1]", Meaning::Minor)
}

/// Whether a name says that what it holds is supported.
pub(super) fn says_supported(name: &str) -> bool {
    const WORDS: [&str; 7] =
        ["support", "available", "compatible", "usable", "allowed", "eligible", "can_run"];
    const OTHERWISE: [&str; 4] = ["unsupported", "not_", "disallowed", "incompatible"];
    let lower = name.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word)) && !OTHERWISE.iter().any(|word| lower.contains(word))
}

/// Whether a macro tests for the family of a number, or for that number's own suffix, as in CUTLASS.
pub(super) fn is_family(name: &str) -> bool {
    name.contains("ARCH_CONDITIONAL_OR_FAMILY") || name.ends_with("CUDA_ARCH_FAMILY")
}
