//! Combinations of toolkit, driver, Python package and GPU that are reported not to work, from a data file that cites its sources.

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
    /// The name of the distribution, as pip shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Its versions.
    #[serde(default, skip_serializing)]
    versions: Option<Requirement>,
    /// Its builds, by the local version: `cu126` of `2.9.0+cu126`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    builds: Vec<String>,
    /// The installed version that matches; filled in for a finding.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    /// The GPU architectures, such as `sm_121`.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// The failure.
    pub effect: String,
    /// The remedy.
    pub remedy: String,
    /// The source of the report.
    pub source: String,
    /// How this project shows it without the GPU, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repro: Option<String>,
}

impl KnownBad {
    /// Whether it applies to an installed package.
    fn is_of(&self, name: &str, version: &str) -> bool {
        let same = self.package.as_deref().is_some_and(|package| same_name(package, name));
        let (public, local) = version.split_once('+').unwrap_or((version, ""));
        let versions = self.versions.as_ref().is_none_or(|r| numbers(public).is_some_and(|v| r.allows(v)));
        same && versions && (self.builds.is_empty() || self.builds.iter().any(|build| build == local))
    }

    fn is_for(&self, gpus: &[String]) -> bool {
        self.gpus.is_empty() || self.gpus.iter().any(|g| gpus.contains(g))
    }
}

/// Compares names of distributions as pip does.
fn same_name(left: &str, right: &str) -> bool {
    let normal = |name: &str| name.to_ascii_lowercase().replace(['_', '.'], "-");
    normal(left) == normal(right)
}

/// Returns the first three numbers of a version; what follows them, such as `.post1` or `rc1`, is not compared.
fn numbers(version: &str) -> Option<ToolkitVersion> {
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let mut parts = version.split('.').map(digits);
    let mut next = || parts.next().flatten();
    let major = next()?;
    Some(ToolkitVersion { major, minor: next().unwrap_or(0), patch: next().unwrap_or(0) })
}

/// Returns the combinations that apply to installed packages (name and version) on GPUs of these architectures.
#[must_use]
pub fn known_bad_packages<'a>(
    installed: impl Iterator<Item = (&'a str, &'a str)>,
    gpus: &[String],
) -> Vec<KnownBad> {
    let mut out: Vec<KnownBad> = Vec::new();
    for (name, version) in installed {
        for bad in table().iter().filter(|bad| bad.is_of(name, version) && bad.is_for(gpus)) {
            let found = KnownBad { installed: Some(version.to_owned()), ..bad.clone() };
            if !out.contains(&found) {
                out.push(found);
            }
        }
    }
    out
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
        let machine = k.package.is_none();
        let toolkit = k.toolkit.as_ref().is_none_or(|r| toolkits.iter().any(|v| r.allows(*v)));
        let driver = k.driver.as_ref().is_none_or(|r| driver.is_some_and(|v| r.allows(v)));
        machine && toolkit && driver && k.is_for(gpus)
    };
    table().iter().filter(stands).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_says_what_it_asks_for() {
        for entry in parse().unwrap() {
            let package = entry.package.is_some() && (entry.versions.is_some() || !entry.builds.is_empty());
            assert!(entry.toolkit.is_some() || entry.driver.is_some() || package, "{entry:?}");
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
        assert_eq!(effects(&["13.5.37"], Some("590.48.01"), &["sm_120"]), 1);
        assert_eq!(effects(&["13.5.37"], Some("590.44.01"), &["sm_120"]), 0);
    }

    #[test]
    fn a_package_matches_by_name_version_and_build() {
        let gpus = ["sm_121".to_owned()];
        let of = |name: &str, version: &str| known_bad_packages([(name, version)].into_iter(), &gpus).len();
        assert_eq!(of("nvidia-cutlass-dsl", "4.5.0"), 1);
        assert_eq!(of("nvidia_cutlass_dsl", "4.5.0"), 1);
        assert_eq!(of("nvidia-cutlass-dsl", "4.5.1"), 0);
        assert_eq!(of("nvidia-cutlass-dsl", "4.8.1"), 0);
        assert_eq!(of("torch", "2.6.0+cu124"), 2, "too old, and a build without sm_120");
        assert_eq!((of("torch", "2.9.0+cu126"), of("torch", "2.12.0+cu130")), (1, 0));
        assert_eq!((of("triton", "3.8.0"), of("triton", "3.8.1"), of("triton", "3.4.0")), (1, 0, 1));
        assert_eq!(of("numpy", "2.0.0"), 0);
        assert_eq!((of("vllm", "0.15.0"), of("vllm", "0.15.1"), of("vllm", "0.33.0")), (1, 0, 0));
        assert_eq!((of("xformers", "0.0.32.post2"), of("xformers", "0.0.33")), (1, 0));
        assert_eq!((of("flashinfer-python", "0.6.12"), of("flashinfer-python", "0.6.13")), (2, 1));
        assert_eq!(of("flashinfer-python", "0.7.4"), 0);
        let rtx = ["sm_120".to_owned()];
        let on_rtx =
            |name: &str, version: &str| known_bad_packages([(name, version)].into_iter(), &rtx).len();
        assert_eq!((on_rtx("vllm", "0.24.0"), on_rtx("nvidia-nccl-cu12", "2.26.2")), (1, 1));
        assert_eq!((on_rtx("vllm", "0.25.0"), on_rtx("nvidia-nccl-cu12", "2.27.3")), (0, 0));
        let h100 = ["sm_90".to_owned()];
        assert!(known_bad_packages([("nvidia-cutlass-dsl", "4.5.0")].into_iter(), &h100).is_empty());
        assert_eq!(numbers("0.6.15.post1"), numbers("0.6.15"));
        assert_eq!(numbers("x"), None);
    }
}
