//! Combinations of toolkit, driver and GPU that are reported not to work, from a data file that cites its sources.

use std::path::Path;
use std::sync::OnceLock;

use ptx::arch::{Requirement, ToolkitVersion};
use serde::{Deserialize, Serialize};

use crate::header::{self, HeaderError};

const TABLE: &str = include_str!("known_bad.yaml");

/// One combination. An omitted field matches any machine.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KnownBad {
    /// The toolkit versions; one toolkit on the machine must match.
    #[serde(default, skip_serializing)]
    toolkit: Option<Requirement>,
    /// The driver versions.
    #[serde(default, skip_serializing)]
    driver: Option<Requirement>,
    /// The GPU architectures, such as `sm_121`.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// The failure.
    pub effect: String,
    /// The remedy.
    pub remedy: String,
    /// The source of the report.
    pub source: String,
}

/// Returns every combination of the table; none if the table is invalid, which a test rules out.
fn table() -> &'static [KnownBad] {
    static ALL: OnceLock<Vec<KnownBad>> = OnceLock::new();
    ALL.get_or_init(|| parse().unwrap_or_default())
}

fn parse() -> Result<Vec<KnownBad>, HeaderError> {
    header::parse_file(Path::new("src/doctor/known_bad.yaml"), TABLE)
}

/// Returns the combinations that apply to a machine with these toolkits, driver and GPU architectures. A combination that
/// names a driver or GPU does not apply to a machine without one.
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
