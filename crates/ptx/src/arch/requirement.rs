//! Ranges of toolkits, as written in claims: `>=12.9,<13.1`.

use std::fmt;
use std::str::FromStr;

use super::ToolkitVersion;

/// The comparison of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    Above,
    Below,
    Same,
}

/// A range of toolkits: clauses such as `>=12.9`, joined by commas.
///
/// A clause compares only the components it names: `=12.9` matches 12.9.86, `>12.8` does not match 12.8.93.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    clauses: Vec<(Comparison, Vec<u16>)>,
    text: String,
}

/// A text that is not a toolkit range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a toolkit range; write clauses such as `>=12.9` or `>=12.9,<13.1`")]
pub struct BadRequirement(String);

impl Requirement {
    /// Whether `version` satisfies every clause.
    #[must_use]
    pub fn allows(&self, version: ToolkitVersion) -> bool {
        let parts = [version.major, version.minor, version.patch];
        self.clauses.iter().all(|(comparison, wanted)| {
            let order = parts[..wanted.len()].cmp(wanted.as_slice());
            match comparison {
                Comparison::AtLeast => order.is_ge(),
                Comparison::AtMost => order.is_le(),
                Comparison::Above => order.is_gt(),
                Comparison::Below => order.is_lt(),
                Comparison::Same => order.is_eq(),
            }
        })
    }
}

impl FromStr for Requirement {
    type Err = BadRequirement;

    fn from_str(text: &str) -> Result<Self, BadRequirement> {
        let bad = || BadRequirement(text.to_owned());
        let clause = |clause: &str| {
            let clause = clause.trim();
            let signs = [
                (">=", Comparison::AtLeast),
                ("<=", Comparison::AtMost),
                (">", Comparison::Above),
                ("<", Comparison::Below),
                ("=", Comparison::Same),
            ];
            let (rest, comparison) = signs
                .iter()
                .find_map(|(sign, c)| clause.strip_prefix(sign).map(|r| (r, *c)))
                .ok_or_else(bad)?;
            let parts: Vec<u16> =
                rest.trim().split('.').map(|p| p.parse().map_err(|_| bad())).collect::<Result<_, _>>()?;
            if parts.len() > 3 { Err(bad()) } else { Ok((comparison, parts)) }
        };
        Ok(Self { clauses: text.split(',').map(clause).collect::<Result<_, _>>()?, text: text.to_owned() })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> serde::Deserialize<'de> for Requirement {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_compare_the_parts_they_name() {
        let allows = |r: &str, v: &str| r.parse::<Requirement>().unwrap().allows(v.parse().unwrap());
        assert!(allows(">=12.9", "12.9.41") && allows(">=12.9", "13.0.48") && !allows(">=12.9", "12.8.93"));
        assert!(!allows(">12.8", "12.8.93") && allows(">12.8.61", "12.8.93"));
        assert!(
            allows("=13", "13.5.37")
                && allows(">=12.9, <13.1", "13.0.88")
                && !allows(">=12.9,<13.1", "13.1.80")
        );
        assert!(allows("<=13.1", "13.1.115") && allows("<13.1.115", "13.1.80"));
        for bad in ["", "12.9", ">=", ">=a", ">=1.2.3.4", ">=12.9,"] {
            assert!(bad.parse::<Requirement>().is_err(), "{bad}");
        }
    }
}
