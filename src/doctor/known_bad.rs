//! Combinations of toolkit, driver and GPU that are reported to go wrong, from a data file that cites its sources.

use std::path::Path;
use std::sync::OnceLock;

use ptx::arch::{Requirement, ToolkitVersion};
use serde::{Deserialize, Serialize};

use crate::header::{self, HeaderError};

const TABLE: &str = include_str!("known_bad.yaml");

/// One combination. What it leaves out, it does not ask for.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KnownBad {
    /// Versions of a toolkit on the machine.
    #[serde(default, skip_serializing)]
    toolkit: Option<Requirement>,
    /// Versions of the driver.
    #[serde(default, skip_serializing)]
    driver: Option<Requirement>,
    /// Architectures of a GPU, as `sm_121`.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// What goes wrong.
    pub effect: String,
    /// What helps.
    pub remedy: String,
    /// Who says so.
    pub source: String,
}

/// Every combination of the table; none when the table is damaged, which a test excludes.
fn table() -> &'static [KnownBad] {
    static ALL: OnceLock<Vec<KnownBad>> = OnceLock::new();
    ALL.get_or_init(|| parse().unwrap_or_default())
}

fn parse() -> Result<Vec<KnownBad>, HeaderError> {
    header::parse_file(Path::new("src/doctor/known_bad.yaml"), TABLE)
}

/// The combinations that this machine has: every toolkit, the driver and the architecture of each GPU. A combination that asks
/// for a driver or a GPU does not apply on a machine without one.
#[must_use]
pub fn known_bad(
    toolkits: &[ToolkitVersion],
    driver: Option<ToolkitVersion>,
    gpus: &[String],
) -> Vec<&'static KnownBad> {
    let stands = |k: &&KnownBad| {
        let toolkit = k.toolkit.as_ref().is_none_or(|r| toolkits.iter().any(|v| r.allows(*v)));
        let driver = k.driver.as_ref().is_none_or(|r| driver.is_some_and(|v| r.allows(v)));
        let gpu = k.gpus.is_empty() || k.gpus.iter().any(|g| gpus.contains(g));
        toolkit && driver && gpu
    };
    table().iter().filter(stands).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_says_what_it_asks_for() {
        for entry in parse().unwrap() {
            assert!(entry.toolkit.is_some() || entry.driver.is_some(), "{entry:?}");
            assert!(![&entry.effect, &entry.remedy, &entry.source].iter().any(|t| t.is_empty()), "{entry:?}");
        }
    }

    #[test]
    fn a_combination_stands_where_all_of_it_is_there() {
        let v = |text: &str| text.parse::<ToolkitVersion>().unwrap();
        let effects = |toolkits: &[&str], driver: Option<&str>, gpus: &[&str]| {
            let toolkits: Vec<_> = toolkits.iter().map(|t| v(t)).collect();
            let gpus: Vec<_> = gpus.iter().map(|g| (*g).to_owned()).collect();
            known_bad(&toolkits, driver.map(v), &gpus).len()
        };
        assert_eq!(effects(&["13.5.37"], None, &[]), 0);
        assert_eq!(effects(&["13.5.37"], Some("580.159.04"), &["sm_90"]), 1);
        assert_eq!(effects(&["13.0.88"], Some("580.159.04"), &["sm_90"]), 0);
        assert!(effects(&["12.8.93"], Some("580.95.05"), &["sm_121"]) >= 2);
    }
}
