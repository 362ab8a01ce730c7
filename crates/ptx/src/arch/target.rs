//! Targets: number, suffix, family, and compatibility between targets.

use std::fmt;
use std::str::FromStr;

/// The suffix of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suffix {
    /// No suffix: features that every later architecture keeps.
    Base,
    /// `a`: features of this architecture only.
    Arch,
    /// `f`: features of this family.
    Family,
}

/// A GPU target such as `sm_121a`.
///
/// The order is by number, then base, `a`, `f`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The architecture number: 121 for `sm_121a`.
    pub number: u16,
    /// The suffix: `a` for `sm_121a`.
    pub suffix: Suffix,
}

/// A row of the table of known targets.
struct Known {
    number: u16,
    suffix: Suffix,
    group: Group,
}

/// The selection that includes a target.
#[derive(PartialEq)]
enum Group {
    /// Included by default.
    Default,
    /// Included by `--target all`.
    All,
    /// Included only by name.
    Named,
}

const fn known(number: u16, suffix: Suffix, group: Group) -> Known {
    Known { number, suffix, group }
}

/// Every target known by name; a new target is one line here.
const KNOWN: &[Known] = &[
    known(75, Suffix::Base, Group::Named),
    known(80, Suffix::Base, Group::All),
    known(86, Suffix::Base, Group::Named),
    known(87, Suffix::Base, Group::Named),
    known(88, Suffix::Base, Group::Named),
    known(89, Suffix::Base, Group::All),
    known(90, Suffix::Base, Group::Named),
    known(90, Suffix::Arch, Group::All),
    known(100, Suffix::Base, Group::Named),
    known(100, Suffix::Arch, Group::All),
    known(100, Suffix::Family, Group::All),
    known(101, Suffix::Base, Group::Named),
    known(101, Suffix::Arch, Group::Named),
    known(101, Suffix::Family, Group::Named),
    known(103, Suffix::Base, Group::Named),
    known(103, Suffix::Arch, Group::All),
    known(103, Suffix::Family, Group::All),
    known(107, Suffix::Base, Group::Named),
    known(107, Suffix::Arch, Group::Named),
    known(107, Suffix::Family, Group::Named),
    known(110, Suffix::Base, Group::Named),
    known(110, Suffix::Arch, Group::All),
    known(110, Suffix::Family, Group::All),
    known(120, Suffix::Base, Group::Default),
    known(120, Suffix::Arch, Group::Default),
    known(120, Suffix::Family, Group::Default),
    known(121, Suffix::Base, Group::Default),
    known(121, Suffix::Arch, Group::Default),
    known(121, Suffix::Family, Group::Default),
];

/// A text that names no known target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown target `{0}`; known targets: {list}", list = names(KNOWN))]
pub struct UnknownTarget(pub String);

fn names(known: &[Known]) -> String {
    let names: Vec<String> =
        known.iter().map(|k| Target { number: k.number, suffix: k.suffix }.to_string()).collect();
    names.join(" ")
}

fn select(keep: impl Fn(&Group) -> bool) -> Vec<Target> {
    KNOWN.iter().filter(|k| keep(&k.group)).map(|k| Target { number: k.number, suffix: k.suffix }).collect()
}

impl Target {
    /// Parses `sm_121a`, as in PTX and images; accepts targets that the tool does not know.
    #[must_use]
    pub fn written(text: &str) -> Option<Self> {
        Self::numbered(text.strip_prefix("sm_")?)
    }

    fn numbered(text: &str) -> Option<Self> {
        let (digits, suffix) = match text.strip_suffix(['a', 'f']) {
            Some(digits) if text.ends_with('a') => (digits, Suffix::Arch),
            Some(digits) => (digits, Suffix::Family),
            None => (text, Suffix::Base),
        };
        Some(Self { number: digits.parse().ok()?, suffix })
    }

    /// Returns the six SM12x targets, which are used if no target is named.
    #[must_use]
    pub fn default_set() -> Vec<Self> {
        select(|g| *g == Group::Default)
    }

    /// Returns the targets of `--target all`: the default set and related targets from Ampere to Blackwell.
    #[must_use]
    pub fn all_set() -> Vec<Self> {
        select(|g| *g != Group::Named)
    }

    /// Whether this is one of the SM12x targets (RTX 50, RTX PRO 6000, GB10).
    #[must_use]
    pub const fn is_sm12x(self) -> bool {
        self.number / 10 == 12
    }

    /// Whether both belong to the same architecture family, according to the table of families in the PTX ISA.
    ///
    /// sm_110 is the new name of sm_101.
    #[must_use]
    pub fn same_family(self, other: Self) -> bool {
        let family = |n: u16| if n == 101 { 11 } else { n / 10 };
        family(self.number) == family(other.number)
    }

    /// Returns every target known by name.
    #[must_use]
    pub fn known_set() -> Vec<Self> {
        select(|_| true)
    }

    /// Whether machine code for `self` runs on a GPU of the architecture `gpu`. Without a suffix, it runs on the same
    /// or a later architecture of its major version; with `f`, on the same or a later one of its family; with `a`, on
    /// that architecture only (CUDA Programming Guide, binary compatibility).
    #[must_use]
    pub fn cubin_runs_on(self, gpu: Self) -> bool {
        match self.suffix {
            Suffix::Arch => self.number == gpu.number,
            Suffix::Family => self.same_family(gpu) && self.number <= gpu.number,
            Suffix::Base => self.number / 10 == gpu.number / 10 && self.number <= gpu.number,
        }
    }

    /// Whether the driver of a GPU of the architecture `gpu` compiles PTX for `self`: like [`Target::cubin_runs_on`],
    /// but without a suffix also on every later GPU (PTX ISA, `.target`).
    #[must_use]
    pub fn ptx_runs_on(self, gpu: Self) -> bool {
        match self.suffix {
            Suffix::Base => self.number <= gpu.number,
            Suffix::Arch | Suffix::Family => self.cubin_runs_on(gpu),
        }
    }

    /// Whether PTX for `self` may be assembled for `arch`, by the rule in `ptxas --help`.
    #[must_use]
    pub fn may_assemble_for(self, arch: Self) -> bool {
        match self.suffix {
            Suffix::Base => arch.number >= self.number,
            Suffix::Family => self.same_family(arch) && arch.number >= self.number,
            Suffix::Arch => arch == self,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.suffix {
            Suffix::Base => "",
            Suffix::Arch => "a",
            Suffix::Family => "f",
        };
        // `pad` lets tables align targets.
        f.pad(&format!("sm_{}{suffix}", self.number))
    }
}

impl FromStr for Target {
    type Err = UnknownTarget;

    /// Parses `sm_121a` or `121a`; accepts only known targets.
    fn from_str(text: &str) -> Result<Self, UnknownTarget> {
        let unknown = || UnknownTarget(text.to_owned());
        let target = Self::numbered(text.strip_prefix("sm_").unwrap_or(text)).ok_or_else(unknown)?;
        let known = KNOWN.iter().any(|k| k.number == target.number && k.suffix == target.suffix);
        if known { Ok(target) } else { Err(unknown()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn every_known_target_reads_back() {
        for k in KNOWN {
            let t = Target { number: k.number, suffix: k.suffix };
            assert_eq!(target(&t.to_string()), t);
            assert_eq!(target(t.to_string().trim_start_matches("sm_")), t);
        }
    }

    #[test]
    fn unknown_targets_are_refused_with_the_list() {
        for text in ["sm_999z", "sm_999", "sm_121b", "", "sm_", "a", "sm_121aa", "sm_99999999a", "sm_-1"] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("sm_121a") && error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn default_and_all_sets_are_the_documented_ones() {
        let text = |set: Vec<Target>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(text(Target::default_set()), "sm_120 sm_120a sm_120f sm_121 sm_121a sm_121f");
        assert_eq!(
            text(Target::all_set()),
            "sm_80 sm_89 sm_90a sm_100a sm_100f sm_103a sm_103f sm_110a sm_110f sm_120 sm_120a sm_120f sm_121 sm_121a sm_121f"
        );
    }

    #[test]
    fn assembly_rule_matches_the_measured_table() {
        // Rows: PTX `.target`; columns: `-arch` 120 120f 120a 121 121f 121a (measured with 12.9, 13.0 and 13.5).
        let archs = ["sm_120", "sm_120f", "sm_120a", "sm_121", "sm_121f", "sm_121a"].map(target);
        for (row, want) in [
            ("sm_120", "YYYYYY"),
            ("sm_120f", "YYYYYY"),
            ("sm_120a", "nnYnnn"),
            ("sm_121", "nnnYYY"),
            ("sm_121f", "nnnYYY"),
            ("sm_121a", "nnnnnY"),
        ] {
            let got: String =
                archs.iter().map(|a| if target(row).may_assemble_for(*a) { 'Y' } else { 'n' }).collect();
            assert_eq!(got, want, "{row}");
        }
    }
}
