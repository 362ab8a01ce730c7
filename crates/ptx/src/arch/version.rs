//! Versions of the PTX ISA and of toolkits.

use std::fmt;
use std::str::FromStr;

/// A PTX ISA version, as in `.version 9.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxIsa {
    /// Major version: 9 of 9.5.
    pub major: u16,
    /// Minor version: 5 of 9.5.
    pub minor: u16,
}

/// A toolkit version, named by its ptxas: 13.5.37.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolkitVersion {
    /// Major version: 13 of 13.5.37.
    pub major: u16,
    /// Minor version: 5 of 13.5.37.
    pub minor: u16,
    /// Patch version: 37 of 13.5.37.
    pub patch: u16,
}

/// A text that is not a version number of the required form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct BadVersion {
    text: String,
    wanted: &'static str,
}

fn numbers<const N: usize>(text: &str, wanted: &'static str) -> Result<[u16; N], BadVersion> {
    let bad = || BadVersion { text: text.to_owned(), wanted };
    let mut out = [0; N];
    let mut parts = text.split('.');
    for slot in &mut out {
        *slot = parts.next().and_then(|p| p.parse().ok()).ok_or_else(bad)?;
    }
    if parts.next().is_some() { Err(bad()) } else { Ok(out) }
}

impl FromStr for PtxIsa {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let [major, minor] = numbers(text, "a PTX ISA version such as 9.5")?;
        Ok(Self { major, minor })
    }
}

impl fmt::Display for PtxIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.major, self.minor))
    }
}

impl PtxIsa {
    /// Returns the version that CUDA `12.9` introduces (PTX ISA, Release Notes: from 13.0 on the minor numbers are equal).
    #[must_use]
    pub fn of_cuda(cuda: &str) -> Option<Self> {
        let [major, minor] = numbers(cuda, "a CUDA version such as 13.0").ok()?;
        match (major, minor) {
            (12, 0..=5) => Some(Self { major: 8, minor }),
            (12, 6) => Some(Self { major: 8, minor: 5 }),
            (12, 7..) => Some(Self { major: 8, minor: minor - 1 }),
            (13, _) => Some(Self { major: 9, minor }),
            _ => None,
        }
    }
}

impl PtxIsa {
    /// Returns the first CUDA version that supports it, such as `12.9`; `None` for a PTX version before 7.0 (PTX
    /// ISA, Release Notes).
    #[must_use]
    pub fn cuda(self) -> Option<String> {
        let (major, minor) = match (self.major, self.minor) {
            (7, minor @ 0..=8) => (11, minor),
            (8, minor @ 0..=5) => (12, minor),
            // 8.6 came with 12.7, which was released only with drivers.
            (8, minor @ 6..=8) => (12, minor + 1),
            (9, minor) => (13, minor),
            _ => return None,
        };
        Some(format!("{major}.{minor}"))
    }
}

impl ToolkitVersion {
    /// Returns the usual short form: `13.5` for 13.5.37.
    #[must_use]
    pub fn short(self) -> String {
        format!("{}.{}", self.major, self.minor)
    }

    /// Whether `name` (`13`, `13.5` or `13.5.37`) denotes this version.
    #[must_use]
    pub fn is_named(self, name: &str) -> bool {
        let full = self.to_string();
        full == name || full.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    }
}

impl FromStr for ToolkitVersion {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let [major, minor, patch] = numbers(text, "a toolkit version such as 13.5.37")?;
        Ok(Self { major, minor, patch })
    }
}

impl fmt::Display for ToolkitVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}.{}", self.major, self.minor, self.patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ptx_version_names_the_cuda_that_brings_it() {
        for cuda in ["12.0", "12.5", "12.7", "12.8", "12.9", "13.0", "13.5"] {
            assert_eq!(PtxIsa::of_cuda(cuda).unwrap().cuda().as_deref(), Some(cuda));
        }
        let cuda = |isa: &str| isa.parse::<PtxIsa>().unwrap().cuda();
        assert_eq!(cuda("8.8").as_deref(), Some("12.9"));
        assert_eq!(cuda("7.8").as_deref(), Some("11.8"));
        assert_eq!((cuda("6.0"), cuda("8.9")), (None, None));
    }

    #[test]
    fn versions_are_named_by_prefix_parts() {
        let v: ToolkitVersion = "13.5.37".parse().unwrap();
        assert!(v.is_named("13.5.37") && v.is_named("13.5") && v.is_named("13"));
        assert!(!v.is_named("13.50") && !v.is_named("3.5") && !v.is_named("13.5.3") && !v.is_named(""));
        assert!("13.5".parse::<ToolkitVersion>().is_err() && "13.5.37.1".parse::<ToolkitVersion>().is_err());
    }
}
