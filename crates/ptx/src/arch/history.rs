//! Which version of PTX introduced which target (PTX ISA, "Release Notes"), as ptxas 13.5 has it.

use super::{PtxIsa, Suffix, Target};

const fn isa(major: u16, minor: u16) -> PtxIsa {
    PtxIsa { major, minor }
}

/// The architectures of each version that introduced some.
const INTRODUCED: &[(PtxIsa, &[u16])] = &[
    (isa(1, 0), &[10, 11]),
    (isa(1, 2), &[12, 13]),
    (isa(2, 0), &[20, 21]),
    (isa(3, 0), &[30]),
    (isa(3, 1), &[35]),
    (isa(4, 0), &[32, 50]),
    (isa(4, 1), &[37, 52]),
    (isa(4, 2), &[53]),
    (isa(5, 0), &[60, 61, 62]),
    (isa(6, 0), &[70]),
    (isa(6, 1), &[72]),
    (isa(6, 2), &[82]),
    (isa(6, 3), &[75]),
    (isa(7, 0), &[80]),
    (isa(7, 1), &[86]),
    (isa(7, 4), &[87]),
    (isa(7, 8), &[89, 90]),
    (isa(8, 6), &[100, 101]),
    (isa(8, 7), &[120]),
    (isa(8, 8), &[103, 121]),
    (isa(9, 0), &[88, 110]),
    (isa(9, 4), &[107]),
];

/// The first version with the suffix `a`, and with the suffix `f`.
const ARCH_SUFFIX: PtxIsa = isa(8, 0);
const FAMILY_SUFFIX: PtxIsa = isa(8, 8);

/// The newest minor version of each major one, up to ptxas 13.5.
const NEWEST_MINOR: &[(u16, u16)] = &[(1, 5), (2, 3), (3, 2), (4, 3), (5, 0), (6, 5), (7, 8), (8, 8), (9, 5)];

impl Target {
    /// Returns the first version of PTX that has the target; `None` if there is no such target.
    #[must_use]
    pub fn first_isa(self) -> Option<PtxIsa> {
        let (plain, _) = INTRODUCED.iter().find(|(_, numbers)| numbers.contains(&self.number))?;
        match self.suffix {
            Suffix::Base => Some(*plain),
            Suffix::Arch if self.number >= 90 => Some(ARCH_SUFFIX.max(*plain)),
            Suffix::Family if self.number >= 100 => Some(FAMILY_SUFFIX.max(*plain)),
            Suffix::Arch | Suffix::Family => None,
        }
    }
}

impl PtxIsa {
    /// Whether this version of PTX was released with ptxas 13.5 or earlier.
    #[must_use]
    pub fn exists(self) -> bool {
        NEWEST_MINOR.iter().any(|(major, newest)| self.major == *major && self.minor <= *newest)
    }

    /// Returns the known versions of PTX after this one up to `last`, ascending.
    pub fn up_to(self, last: Self) -> impl Iterator<Item = Self> {
        let all =
            NEWEST_MINOR.iter().flat_map(|(major, newest)| (0..=*newest).map(|minor| isa(*major, minor)));
        all.filter(move |version| self < *version && *version <= last)
    }

    /// Returns the newest version of PTX that is known.
    #[must_use]
    pub fn newest() -> Self {
        NEWEST_MINOR.last().map_or(isa(0, 0), |(major, minor)| isa(*major, *minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_the_version_that_introduced_them() {
        let first = |name: &str| Target::written(name).unwrap().first_isa().map(|isa| isa.to_string());
        for (name, version) in [
            ("sm_10", "1.0"),
            ("sm_13", "1.2"),
            ("sm_20", "2.0"),
            ("sm_35", "3.1"),
            ("sm_50", "4.0"),
            ("sm_53", "4.2"),
            ("sm_62", "5.0"),
            ("sm_72", "6.1"),
            ("sm_75", "6.3"),
            ("sm_87", "7.4"),
            ("sm_90", "7.8"),
            ("sm_90a", "8.0"),
            ("sm_101a", "8.6"),
            ("sm_100f", "8.8"),
            ("sm_120a", "8.7"),
            ("sm_120f", "8.8"),
            ("sm_121a", "8.8"),
            ("sm_88", "9.0"),
            ("sm_110f", "9.0"),
            ("sm_107", "9.4"),
        ] {
            assert_eq!(first(name).as_deref(), Some(version), "{name}");
        }
        for name in ["sm_73", "sm_85", "sm_90f", "sm_99", "sm_80a", "sm_89f", "sm_130"] {
            assert_eq!(first(name), None, "{name}");
        }
    }

    #[test]
    fn versions_between_the_releases_do_not_exist() {
        let exists = |text: &str| text.parse::<PtxIsa>().unwrap().exists();
        assert!(["1.0", "3.2", "5.0", "6.5", "8.8", "9.5"].iter().all(|text| exists(text)));
        assert!(!["0.9", "1.6", "5.1", "7.9", "8.9", "9.6", "10.0"].iter().any(|text| exists(text)));
        assert_eq!(PtxIsa::newest().to_string(), "9.5");
        let versions: Vec<String> = isa(8, 7).up_to(isa(9, 1)).map(|version| version.to_string()).collect();
        assert_eq!(versions, ["8.8", "9.0", "9.1"]);
    }

    #[test]
    fn every_known_target_has_a_version() {
        assert!(Target::known_set().iter().all(|target| target.first_isa().is_some()));
    }
}
