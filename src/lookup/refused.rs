//! Why a target refuses a feature: it lacks the suffix, only targets with `a` have the feature, a later ptxas takes it, or no SM12x has it.

use ptx::arch::{Suffix, Target};

/// Which SM12x targets have what a message says that one of them lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// Targets with `a` or `f` have it.
    Suffix,
    /// Targets with `a` alone have it.
    ArchSuffix,
    /// The target itself has it, in a later ptxas.
    Toolkit,
    /// None has it.
    Absent,
}

impl Lack {
    /// Of a target that refuses a feature, and the SM12x targets that take it.
    pub(super) fn from_targets(target: Target, taking: &[Target]) -> Self {
        let takes = |suffix: Suffix| taking.iter().any(|other| other.suffix == suffix);
        if taking.contains(&target) {
            Self::Toolkit
        } else if takes(Suffix::Family) || takes(Suffix::Base) {
            Self::Suffix
        } else if takes(Suffix::Arch) {
            Self::ArchSuffix
        } else {
            Self::Absent
        }
    }

    /// The cause and the remedy.
    pub(super) const fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Suffix => (
                "SM12x has it, but only its targets with `a` or `f` do, and the target of this build has no suffix.",
                "Build for sm_120a (GB10: sm_121a), or for sm_120f, which both load (CUDA 12.9 or later).",
            ),
            Self::ArchSuffix => (
                "SM12x has it, but only its targets with `a` do: sm_120a and sm_121a.",
                "Build for sm_120a, for GB10 sm_121a; sm_120f and targets without suffix lack it.",
            ),
            Self::Toolkit => (
                "The target has it, but this ptxas is older.",
                "Use a later toolkit: the forms below name the first that accepts it.",
            ),
            Self::Absent => (
                "No target of SM12x takes this form, with or without suffix.",
                "Take a kernel without it, or write what stands in its place.",
            ),
        }
    }
}

/// The SM12x target that a message of ptxas says lacks something.
pub(super) fn target(message: &str) -> Option<Target> {
    let rest =
        ["not supported on .target '", "for arch '"].iter().find_map(|words| message.split_once(words))?.1;
    Target::written(rest.split_once('\'')?.0).filter(|target| target.is_sm12x())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_message_is_read() {
        let named = |text: &str| target(text).map(|target| target.to_string());
        assert_eq!(named("Feature '.rs' not supported on .target 'sm_120a'").as_deref(), Some("sm_120a"));
        assert_eq!(
            named("Illegal modifier '.x' for instruction 'y', for arch 'sm_121'").as_deref(),
            Some("sm_121")
        );
        assert_eq!(named("Instruction 'wgmma.fence' not supported on .target 'sm_100'"), None);
        assert_eq!(named("Feature 'x' not supported on .target"), None);
    }
}
