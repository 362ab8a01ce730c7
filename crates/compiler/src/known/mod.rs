//! Known miscompiles of ptxas as data: patterns over PTX, what they do wrong, where this was seen, and how to write the code instead.

mod facts;
mod find;
mod pattern;

use std::path::Path;
use std::sync::OnceLock;

use ptx::arch::{Requirement, Target, ToolkitVersion};
use serde::{Deserialize, Serialize};
use toolchain::header::{self, HeaderError};

pub use find::{Found, find, without};
pub use pattern::{Constant, OperandPattern, Pattern, Repeats};

const TABLE: &str = include_str!("miscompiles.yaml");

/// The file of the table, for messages.
pub const TABLE_FILE: &str = "crates/compiler/src/known/miscompiles.yaml";

/// A known miscompile: PTX for which ptxas writes machine code that does something else, or for which it crashes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Miscompile {
    /// Its name, for `explain`.
    pub name: String,
    /// What the machine code does instead.
    pub effect: String,
    /// What PTX says, with the section of the manual.
    pub rule: String,
    /// How to write it so that every version is right.
    pub rewrite: String,
    /// The toolkits and levels that have it.
    pub affects: Vec<Affected>,
    /// The targets that have it; all if empty.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Whether the machine code may never end, so that it cannot be run to compare it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hangs: bool,
    /// Where it was seen.
    pub evidence: Evidence,
    /// The file of the reduced kernel in `crates/compiler/tests/data/`.
    pub kernel: String,
    /// The PTX that has it: any of these.
    pub patterns: Vec<Pattern>,
}

/// Toolkits with levels of optimization.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Affected {
    /// The versions that were seen to have it.
    pub toolkits: Vec<String>,
    /// The versions for which a release between or after those seen counts as affected, too.
    #[serde(skip_serializing)]
    pub range: Requirement,
    /// The levels, as in `-O3`.
    pub levels: Vec<u8>,
}

/// A run on a GPU, or a reading of machine code.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The GPU; `None` if only machine code was read.
    #[serde(default)]
    pub gpu: Option<String>,
    /// Its driver.
    #[serde(default)]
    pub driver: Option<String>,
    /// The day.
    pub date: String,
    /// What was seen.
    pub seen: String,
}

impl Miscompile {
    /// Whether a toolkit has it at a level of optimization.
    #[must_use]
    pub fn affects(&self, toolkit: ToolkitVersion, level: u8) -> bool {
        self.affects.iter().any(|a| a.range.allows(toolkit) && a.levels.contains(&level))
    }

    /// Whether a toolkit has it at any level.
    #[must_use]
    pub fn affects_some_level(&self, toolkit: ToolkitVersion) -> bool {
        self.affects.iter().any(|a| a.range.allows(toolkit) && !a.levels.is_empty())
    }

    /// Whether a target has it.
    #[must_use]
    pub fn affects_target(&self, target: Target) -> bool {
        // The suffix selects features of one GPU; the code generator is that of its number.
        let number = |name: &String| name.parse::<Target>().is_ok_and(|t| t.number == target.number);
        self.targets.is_empty() || self.targets.iter().any(number)
    }

    /// The versions and levels in words: `12.8.93 to 13.5.37 at -O1 to -O3`.
    #[must_use]
    pub fn where_in_words(&self) -> String {
        let one = |a: &Affected| {
            let levels = match a.levels.as_slice() {
                [only] => format!("-O{only}"),
                [first, .., last] => format!("-O{first} to -O{last}"),
                [] => String::new(),
            };
            format!("ptxas {} at {levels}", a.toolkits.join(", "))
        };
        self.affects.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

/// All known miscompiles; none if the table is invalid, which a test rules out.
pub fn miscompiles() -> &'static [Miscompile] {
    static ALL: OnceLock<Vec<Miscompile>> = OnceLock::new();
    ALL.get_or_init(|| parse().unwrap_or_default())
}

/// The miscompile of a name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Miscompile> {
    miscompiles().iter().find(|m| m.name == name)
}

fn parse() -> Result<Vec<Miscompile>, HeaderError> {
    header::parse_file(Path::new(TABLE_FILE), TABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_each_entry_says_what_it_must() {
        let all = parse().unwrap_or_else(|error| panic!("{error}"));
        for m in &all {
            for text in [&m.effect, &m.rule, &m.rewrite, &m.evidence.seen, &m.evidence.date, &m.kernel] {
                assert!(!text.is_empty(), "{}", m.name);
            }
            assert!(!m.affects.is_empty() && !m.patterns.is_empty(), "{}", m.name);
            for affected in &m.affects {
                assert!(!affected.levels.is_empty() && affected.levels.is_sorted(), "{}", m.name);
                for toolkit in &affected.toolkits {
                    let version = toolkit.parse().unwrap_or_else(|_| panic!("{}: {toolkit}", m.name));
                    assert!(affected.range.allows(version), "{}: {toolkit} is outside of the range", m.name);
                }
            }
            assert!(m.targets.iter().all(|t| t.parse::<Target>().is_ok()), "{}", m.name);
            assert!(by_name(&m.name).is_some_and(|found| found == m), "{} is there twice", m.name);
        }
        assert!(all.len() >= 15);
    }
}
