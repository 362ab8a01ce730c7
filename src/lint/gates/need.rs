//! The target suffix that instructions need on SM12x, according to the matrix.
//!
//! `tests/product/lint/gates.rs` compares each row with the committed record.

use ptx::arch::{Suffix, Target};

/// The minimum suffix with which SM12x supports an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// `f` or `a`.
    Family,
    /// `a`.
    Arch,
    /// No SM12x target supports it.
    Absent,
}

impl Need {
    /// Whether code for the target may contain the instruction.
    #[must_use]
    pub fn is_met_by(self, target: Target) -> bool {
        match self {
            Self::Family => target.suffix != Suffix::Base,
            Self::Arch => target.suffix == Suffix::Arch,
            Self::Absent => false,
        }
    }
}

/// Prefix and further parts of an instruction, and the suffix that it needs; the first matching row applies.
const NEEDS: [(&str, &[&str], Need); 12] = [
    ("tcgen05.", &[], Need::Absent),
    ("wgmma.", &[], Need::Absent),
    ("mma.sp", &["kind::mxf8f6f4"], Need::Family),
    ("mma.sp", &["kind::mxf4"], Need::Arch),
    ("mma.sp", &["kind::f8f6f4"], Need::Family),
    ("mma.sync", &["kind::mxf8f6f4"], Need::Family),
    ("mma.sync", &["kind::mxf4"], Need::Family),
    ("mma.sync", &["kind::f8f6f4"], Need::Family),
    ("cvt.", &[".e2m1x2"], Need::Family),
    ("cvt.", &[".ue8m0x2"], Need::Family),
    ("ldmatrix.", &[".b8x16."], Need::Family),
    ("ldmatrix.", &[".m16n16."], Need::Family),
];

/// Returns the suffix that an instruction with its modifiers needs; `None` if base targets support it or nothing is known.
#[must_use]
pub fn need(instruction: &str) -> Option<Need> {
    let fits = |(start, parts, _): &&(&str, &[&str], Need)| {
        instruction.starts_with(start) && parts.iter().all(|part| instruction.contains(part))
    };
    NEEDS.iter().find(fits).map(|(_, _, need)| *need)
}

/// Returns the instructions with a known need in an assembly string.
pub(super) fn instructions(text: &str) -> Vec<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':');
    let spaced = text.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ");
    spaced.split(|c| !part(c)).filter(|word| need(word).is_some()).map(str::to_owned).collect()
}
