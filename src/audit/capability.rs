//! The compute capabilities that a test in a package's source takes: one, a family, a range.

use std::fmt;

use serde::{Deserialize, Deserializer, de::Error};

/// Compute capabilities that one test takes; 121 stands for 12.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capabilities {
    /// `any`: the source does not test it.
    Any,
    /// `12.0`: this one alone.
    Exactly(u16),
    /// `12.x`: a major version.
    Family(u16),
    /// `8.0+`: this one and all later ones.
    From(u16),
    /// `8.0-12.1`: from the first to the second.
    Between(u16, u16),
}

/// The tests by which a package decides whether it uses a backend on a device: one of them must take it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Gate(Vec<Capabilities>);

/// Text that names no compute capabilities.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` names no compute capabilities; write 12.0, 12.x, 8.0+, 8.0-12.1 or any")]
struct UnknownCapabilities(String);

impl Gate {
    /// Whether it takes the architecture with this number.
    pub(super) fn takes(&self, number: u16) -> bool {
        self.0.iter().any(|of| match *of {
            Capabilities::Any => true,
            Capabilities::Exactly(one) => number == one,
            Capabilities::Family(major) => number / 10 == major,
            Capabilities::From(first) => number >= first,
            Capabilities::Between(first, last) => (first..=last).contains(&number),
        })
    }

    /// Whether it takes nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |number: &u16| format!("{}.{}", number / 10, number % 10);
        match self {
            Self::Any => f.write_str("any"),
            Self::Exactly(one) => write!(f, "exactly {}", name(one)),
            Self::Family(major) => write!(f, "{major}.x"),
            Self::From(first) => write!(f, "{} and later", name(first)),
            Self::Between(first, last) => write!(f, "{} to {}", name(first), name(last)),
        }
    }
}

impl<'de> Deserialize<'de> for Capabilities {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        read_capabilities(&text).ok_or_else(|| D::Error::custom(UnknownCapabilities(text)))
    }
}

/// Reads `12.0`, `12.x`, `8.0+`, `8.0-12.1` or `any`.
fn read_capabilities(text: &str) -> Option<Capabilities> {
    let number = |text: &str| {
        let (major, minor) = text.split_once('.')?;
        let (major, minor): (u16, u16) = (major.parse().ok()?, minor.parse().ok()?);
        (minor < 10 && major < 100).then_some(10 * major + minor)
    };
    if text == "any" {
        return Some(Capabilities::Any);
    }
    if let Some(major) = text.strip_suffix(".x") {
        return Some(Capabilities::Family(major.parse().ok()?));
    }
    if let Some(first) = text.strip_suffix('+') {
        return Some(Capabilities::From(number(first)?));
    }
    match text.split_once('-') {
        Some((first, last)) => Some(Capabilities::Between(number(first)?, number(last)?)),
        None => Some(Capabilities::Exactly(number(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(texts: &[&str]) -> Gate {
        Gate(texts.iter().map(|text| read_capabilities(text).unwrap()).collect())
    }

    #[test]
    fn exactly_one_a_family_and_a_range_are_told_apart() {
        for (texts, takes, refuses, said) in [
            (&["12.0"][..], &[120][..], &[121, 100, 80][..], "exactly 12.0"),
            (&["12.1"], &[121], &[120], "exactly 12.1"),
            (&["12.x"], &[120, 121], &[110, 103, 90], "12.x"),
            (&["8.0+"], &[80, 89, 120, 121], &[75], "8.0 and later"),
            (&["8.0-12.0"], &[80, 120], &[75, 121], "8.0 to 12.0"),
            (&["10.x", "12.0"], &[100, 103, 120], &[121, 110], "10.x, exactly 12.0"),
            (&["any"], &[75, 121], &[], "any"),
        ] {
            let gate = gate(texts);
            assert_eq!(gate.to_string(), said);
            assert!(takes.iter().all(|number| gate.takes(*number)), "{said}");
            assert!(!refuses.iter().any(|number| gate.takes(*number)), "{said}");
        }
        for text in ["", "12", "12.y", "sm_120", "12.10", "x", "8.0-", "+", "-1.0"] {
            assert_eq!(read_capabilities(text), None, "{text}");
        }
    }
}
