//! The subjects of answers other than cells: their order and their names.

use std::borrow::Cow;
use std::fmt;

use ptx::arch::{Requirement, Target, ToolkitVersion};

use crate::record::{
    Check, ClaimRow, CodeBy, ConfigurationName, EMULATOR, Expect, Matrix, Named, TileRow, TrialRow,
    VariantRun,
};

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Whether a tile may run, and what it costs.
    Tile,
    /// A trial.
    Trial,
    /// A check of a trial on a device.
    Check,
    /// A check of a variant on a device.
    Run,
    /// The status of a claim.
    Claim,
}

impl Kind {
    /// Returns the name used in reports and JSON (docs/reference.md).
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tile => "tile",
            Self::Trial => "trial",
            Self::Check => "check",
            Self::Run => "run",
            Self::Claim => "claim",
        }
    }
}

/// An assembled kernel configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileKey {
    /// The family of the kernel.
    pub family: String,
    /// The configuration.
    pub configuration: ConfigurationName,
    /// The target that it is compiled for.
    pub target: Named<Target>,
    /// The tool that assembled it.
    pub code: CodeBy,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrialKey {
    /// The family of its kernels.
    pub family: String,
    /// The case.
    pub case: String,
    /// The kernel configuration.
    pub configuration: ConfigurationName,
    /// The target that its kernels are compiled for.
    pub target: Named<Target>,
    /// The tool that generated the code.
    pub code: CodeBy,
    /// The device that ran it.
    pub device: String,
}

/// A variant on a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    /// The variant.
    pub variant: String,
    /// The target that it is compiled for.
    pub target: Named<Target>,
    /// The tool that generated the code.
    pub code: CodeBy,
    /// The device that ran it.
    pub device: String,
}

/// A claim, identified by all its fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimKey {
    /// The name of its snippet.
    pub snippet: String,
    /// Its source.
    pub source: String,
    /// The outcome that it states.
    pub expect: Expect,
    /// The targets that it covers.
    pub targets: Vec<Target>,
    /// The `-arch` values that it covers; empty if they equal the targets.
    pub archs: Vec<Target>,
    /// The toolkits that it covers; `None` for all.
    pub toolkits: Option<Named<Requirement>>,
    /// The variants that it covers; empty for all of the snippet.
    pub variants: Vec<String>,
}

/// The subject of an answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Whether a tile may run.
    Tile(TileKey),
    /// The verdict of a trial.
    Trial(TrialKey),
    /// A check of a trial.
    Check(TrialKey, Check),
    /// A check of a variant.
    Run(RunKey, Check),
    /// A claim.
    Claim(ClaimKey),
}

impl TileKey {
    /// Returns the key of a row of the tile table.
    #[must_use]
    pub fn from_row(row: &TileRow) -> Self {
        let code = match &row.toolkit {
            None => CodeBy::Nobody,
            Some(version) => {
                version.known().map_or_else(|| CodeBy::Other(version.to_string()), |v| CodeBy::Ptxas(*v))
            }
        };
        Self {
            family: row.family.clone(),
            configuration: row.configuration.clone(),
            target: row.target.clone(),
            code,
        }
    }
}

impl TrialKey {
    /// Returns the key of a trial.
    #[must_use]
    pub fn from_row(row: &TrialRow) -> Self {
        Self {
            family: row.family.clone(),
            case: row.case.clone(),
            configuration: row.configuration.clone(),
            target: row.target.clone(),
            code: row.code.clone(),
            device: row.device.clone(),
        }
    }
}

impl RunKey {
    /// Returns the key of a run of a variant.
    #[must_use]
    pub fn from_run(run: &VariantRun) -> Self {
        Self {
            variant: run.variant.clone(),
            target: run.target.clone(),
            code: run.code.clone(),
            device: run.device.clone(),
        }
    }
}

impl ClaimKey {
    /// Returns the key of a claim of `matrix`.
    #[must_use]
    pub fn from_claim(matrix: &Matrix, claim: &ClaimRow) -> Self {
        Self {
            snippet: matrix.snippets.get(claim.snippet).map_or("", |s| s.stem()).to_owned(),
            source: claim.source.clone(),
            expect: claim.expect,
            targets: claim.targets.clone(),
            archs: claim.archs.clone(),
            toolkits: claim.toolkits.clone(),
            variants: claim.variants.clone(),
        }
    }

    fn toolkits(&self) -> Cow<'_, str> {
        self.toolkits.as_ref().map_or(Cow::Borrowed(""), Named::text)
    }
}

impl Subject {
    /// Returns the kind of its answer.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Tile(_) => Kind::Tile,
            Self::Trial(_) => Kind::Trial,
            Self::Check(..) => Kind::Check,
            Self::Run(..) => Kind::Run,
            Self::Claim(_) => Kind::Claim,
        }
    }

    /// Returns the case; empty if there is none, as for the parts below.
    #[must_use]
    pub fn case(&self) -> &str {
        match self {
            Self::Trial(key) | Self::Check(key, _) => &key.case,
            Self::Tile(_) | Self::Run(..) | Self::Claim(_) => "",
        }
    }

    /// Returns the variant, or the snippet of a claim.
    #[must_use]
    pub fn variant(&self) -> &str {
        match self {
            Self::Run(key, _) => &key.variant,
            Self::Claim(key) => &key.snippet,
            Self::Tile(_) | Self::Trial(_) | Self::Check(..) => "",
        }
    }

    /// Returns the kernel configuration; `None` if it has none.
    #[must_use]
    pub const fn configuration(&self) -> Option<&ConfigurationName> {
        match self {
            Self::Tile(key) => Some(&key.configuration),
            Self::Trial(key) | Self::Check(key, _) => Some(&key.configuration),
            Self::Run(..) | Self::Claim(_) => None,
        }
    }

    /// Returns the target that the code is compiled for.
    #[must_use]
    pub fn target(&self) -> Cow<'_, str> {
        match self {
            Self::Tile(key) => key.target.text(),
            Self::Trial(key) | Self::Check(key, _) => key.target.text(),
            Self::Run(key, _) => key.target.text(),
            Self::Claim(key) => Cow::Owned(listed(&key.targets)),
        }
    }

    /// Returns the toolkit, such as `13.5.37`, or the toolkits that a claim covers.
    #[must_use]
    pub fn toolkit(&self) -> Cow<'_, str> {
        match self {
            Self::Claim(key) => key.toolkits(),
            other => other.code().map_or(Cow::Borrowed(""), CodeBy::toolkit),
        }
    }

    /// Returns the device that ran it.
    #[must_use]
    pub fn device(&self) -> &str {
        match self {
            Self::Trial(key) | Self::Check(key, _) => &key.device,
            Self::Run(key, _) => &key.device,
            Self::Tile(_) | Self::Claim(_) => "",
        }
    }

    /// Returns the check.
    #[must_use]
    pub const fn check(&self) -> Option<Check> {
        match self {
            Self::Check(_, check) | Self::Run(_, check) => Some(*check),
            Self::Tile(_) | Self::Trial(_) | Self::Claim(_) => None,
        }
    }

    /// Returns the tool that generated the code; `None` for a claim.
    #[must_use]
    pub const fn code(&self) -> Option<&CodeBy> {
        match self {
            Self::Tile(key) => Some(&key.code),
            Self::Trial(key) | Self::Check(key, _) => Some(&key.code),
            Self::Run(key, _) => Some(&key.code),
            Self::Claim(_) => None,
        }
    }

    /// Returns the same subject with code from another tool.
    #[must_use]
    pub(super) fn with_code(&self, code: CodeBy) -> Self {
        match self.clone() {
            Self::Tile(key) => Self::Tile(TileKey { code, ..key }),
            Self::Trial(key) => Self::Trial(TrialKey { code, ..key }),
            Self::Check(key, check) => Self::Check(TrialKey { code, ..key }, check),
            Self::Run(key, check) => Self::Run(RunKey { code, ..key }, check),
            claim @ Self::Claim(_) => claim,
        }
    }

    /// Returns the lanes that a run must cover to answer it.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let of = |target: &Named<Target>, device: &String| {
            vec![Lane::Device(device.clone()), Lane::Kernels(target.clone())]
        };
        match self {
            Self::Trial(key) | Self::Check(key, _) => {
                let mut lanes = of(&key.target, &key.device);
                lanes.push(Lane::Family(key.family.clone()));
                lanes
            }
            Self::Run(key, _) => of(&key.target, &key.device),
            Self::Tile(_) | Self::Claim(_) => Vec::new(),
        }
    }
}

fn listed(targets: &[Target]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Writes the non-empty parts, separated by spaces.
fn write_parts(f: &mut fmt::Formatter<'_>, parts: &[&str]) -> fmt::Result {
    for (n, part) in parts.iter().filter(|part| !part.is_empty()).enumerate() {
        write!(f, "{}{part}", if n == 0 { "" } else { " " })?;
    }
    Ok(())
}

impl fmt::Display for TileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_parts(f, &[self.configuration.text(), &self.target.text(), &self.code.toolkit()])
    }
}

impl TrialKey {
    fn write(&self, f: &mut fmt::Formatter<'_>, check: &str) -> fmt::Result {
        let on = format!("on {}", self.device);
        write_parts(
            f,
            &[&self.case, self.configuration.text(), check, &self.target.text(), &self.code.toolkit(), &on],
        )
    }
}

impl fmt::Display for TrialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

impl RunKey {
    fn write(&self, f: &mut fmt::Formatter<'_>, check: &str) -> fmt::Result {
        let on = format!("on {}", self.device);
        write_parts(f, &[&self.variant, check, &self.target.text(), &self.code.toolkit(), &on])
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = format!("{} ({})", self.source, self.expect.words());
        let archs =
            if self.archs.is_empty() { String::new() } else { format!("for -arch {}", listed(&self.archs)) };
        let first = self.variants.first().map_or("", String::as_str);
        write_parts(f, &[&self.snippet, first, &says, &listed(&self.targets), &archs, &self.toolkits()])
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tile(key) => key.fmt(f),
            Self::Trial(key) => key.fmt(f),
            Self::Check(key, check) => key.write(f, check.word()),
            Self::Run(key, check) => key.write(f, check.word()),
            Self::Claim(key) => key.fmt(f),
        }
    }
}

/// A part of the work that a run can cover.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// A device that runs kernels.
    Device(String),
    /// A family of kernels that were run.
    Family(String),
    /// A target of kernels that were run.
    Kernels(Named<Target>),
    /// A target of the matrix.
    Target(Target),
    /// The tile table.
    Tiles,
    /// A toolkit of the matrix.
    Toolkit(ToolkitVersion),
}

impl Lane {
    /// Whether it is a device other than the emulator.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::Device(name) if name != EMULATOR)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(name) => write!(f, "device {name}"),
            Self::Family(name) => write!(f, "family {name}"),
            Self::Kernels(target) => write!(f, "kernels for {target}"),
            Self::Target(target) => write!(f, "target {target}"),
            Self::Tiles => f.write_str("the table of tiles"),
            Self::Toolkit(version) => write!(f, "toolkit {version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(tile: &str) -> TrialKey {
        TrialKey {
            case: "tiny-exact".to_owned(),
            family: "moe".to_owned(),
            configuration: format!("{tile} swap_ab native tma").into(),
            target: "sm_121a".into(),
            code: CodeBy::from("ptxas 13.5.37"),
            device: "gpu:0".to_owned(),
        }
    }

    fn claim(archs: &[&str]) -> Subject {
        Subject::Claim(ClaimKey {
            snippet: "mma.mxf4".to_owned(),
            source: "PTX ISA".to_owned(),
            expect: Expect::Rejected,
            targets: vec!["sm_121".parse().unwrap()],
            archs: archs.iter().map(|a| a.parse().unwrap()).collect(),
            toolkits: Some(">=12.9".into()),
            variants: vec!["mma.mxf4.2X".to_owned()],
        })
    }

    #[test]
    fn subjects_are_named_by_their_parts() {
        let key = trial("128x32x128");
        let text = "tiny-exact 128x32x128 swap_ab native tma sm_121a 13.5.37 on gpu:0";
        assert_eq!(Subject::Trial(key.clone()).to_string(), text);
        let check = Subject::Check(key.clone(), Check::Graph);
        assert_eq!(check.to_string(), text.replace("tma ", "tma graph "));
        assert_eq!(
            (check.case(), check.check(), check.with_code(CodeBy::Nobody).to_string()),
            ("tiny-exact", Some(Check::Graph), text.replace("tma ", "tma graph ").replace("13.5.37 ", ""))
        );
        let run = RunKey {
            variant: "a.b".to_owned(),
            target: "sm_121a".into(),
            code: CodeBy::Jit,
            device: "gpu:0".to_owned(),
        };
        assert_eq!(
            Subject::Run(run, Check::Loads).to_string(),
            "a.b loads sm_121a the driver's JIT on gpu:0"
        );
    }

    #[test]
    fn claims_that_differ_in_one_part_are_two_subjects() {
        assert_ne!(claim(&[]), claim(&["sm_120"]));
        let text = "mma.mxf4 mma.mxf4.2X PTX ISA (rejected) sm_121 >=12.9";
        assert_eq!(claim(&[]).to_string(), text);
        assert_eq!(claim(&["sm_120"]).to_string(), text.replace("sm_121", "sm_121 for -arch sm_120"));
    }

    #[test]
    fn words_of_other_versions_keep_their_place() {
        let names: Vec<String> = {
            let mut keys = [trial("8x64x128"), trial("128x32x128"), trial("17x1x1")];
            keys.sort();
            keys.iter().map(|k| k.configuration.leading().to_owned()).collect()
        };
        assert_eq!(names, ["128x32x128", "17x1x1", "8x64x128"]);
    }
}
