//! Capabilities that kernels require by name, and which toolkits and targets provide them according to the matrix.
//!
//! A toolkit provides a capability for a target if ptxas accepts every variant that grants it (`grants_when` of the
//! snippets). Architecture names play no part.

use std::collections::BTreeMap;

use ptx::arch::{Target, ToolkitVersion};

use super::job::{self, MatrixError, Options};
use super::plan::{Plan, Selection};
use crate::event::Sink;
use crate::snippet::{Filter, Library};
use crate::store::Store;
use crate::toolkit::Toolkit;
use record::{Matrix, Outcome};

/// Why a capability is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The first variant that was not accepted.
    pub variant: String,
    /// How ptxas responded.
    pub outcome: Outcome,
    /// The message of ptxas.
    pub words: String,
}

/// The snippets and variants that grant a capability.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granting {
    /// Stems of the snippets that grant it.
    pub snippets: Vec<String>,
    /// Ids of the variants that must all be accepted.
    pub variants: Vec<String>,
}

/// The capabilities that toolkits provide for targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The snippets and variants that grant each capability, by name.
    granting: BTreeMap<String, Granting>,
    /// The result for each queried combination; `None` if the capability is provided.
    answers: BTreeMap<(String, ToolkitVersion, Target), Option<Lack>>,
}

/// Returns the snippets and variants that grant each capability, by name.
#[must_use]
pub fn granting(library: &Library) -> BTreeMap<String, Granting> {
    let mut out: BTreeMap<String, Granting> = BTreeMap::new();
    for variant in &library.variants {
        let snippet = &library.snippets[variant.snippet];
        for grant in &snippet.header.grants_when {
            if snippet.grant_rests_on(grant, &variant.axes) {
                let granting = out.entry(grant.capability.clone()).or_default();
                granting.variants.push(variant.id.clone());
                if !granting.snippets.contains(&snippet.stem) {
                    granting.snippets.push(snippet.stem.clone());
                }
            }
        }
    }
    out
}

impl Capabilities {
    /// Queries these toolkits for these targets, limited to the variants that grant capabilities; cached answers are reused.
    ///
    /// # Errors
    /// [`MatrixError`], as for every run of the matrix.
    pub fn ask(
        library: &Library,
        toolkits: &[&Toolkit],
        targets: &[Target],
        store: Option<&Store>,
        sink: &dyn Sink,
    ) -> Result<Self, MatrixError> {
        let granting = granting(library);
        let filters =
            granting.values().flat_map(|g| &g.variants).filter_map(|id| Filter::new(id).ok()).collect();
        let selection = Selection { targets: targets.to_vec(), filters };
        // A library without grants has no capabilities.
        let Ok(plan) = Plan::new(library, toolkits, &selection) else { return Ok(Self::default()) };
        let (record, _) = job::run(library, &plan, toolkits, None, store, &Options::default(), sink)?;
        Ok(Self::from_matrix(granting, &record.matrix))
    }

    /// Derives the capabilities from a matrix.
    #[must_use]
    pub fn from_matrix(granting: BTreeMap<String, Granting>, matrix: &Matrix) -> Self {
        let mut answers = BTreeMap::new();
        for (n, pair) in matrix.pairs.iter().enumerate().filter(|(_, p)| p.target == p.arch) {
            for (capability, made_of) in &granting {
                let ids = &made_of.variants;
                let rows: Vec<_> = matrix.variants.iter().filter(|v| ids.contains(&v.id)).collect();
                let cells: Vec<_> = rows.iter().filter_map(|v| Some((v, matrix.cell(v, n)?))).collect();
                if cells.len() < ids.len() {
                    continue;
                }
                let lack = cells.iter().find(|(_, cell)| cell.outcome != Outcome::Accepted);
                let lack = lack.map(|(variant, cell)| Lack {
                    variant: variant.id.clone(),
                    outcome: cell.outcome,
                    words: cell.message.map(|m| m.text.clone()).unwrap_or_default(),
                });
                answers.insert((capability.clone(), pair.toolkit, pair.target), lack);
            }
        }
        Self { granting, answers }
    }

    /// Returns why `capability` is missing, in one sentence that also says where it is provided; `None` if it is provided.
    #[must_use]
    pub fn missing(&self, capability: &str, toolkit: ToolkitVersion, target: Target) -> Option<String> {
        let Some(granting) = self.granting.get(capability) else {
            return Some(format!("no snippet grants capability {capability}; add `grants_when` to one"));
        };
        let key = (capability.to_owned(), toolkit, target);
        let because = match self.answers.get(&key) {
            Some(None) => return None,
            None => format!("ptxas {toolkit} was not queried for {target}"),
            Some(Some(lack)) => lack.because(toolkit, target),
        };
        let (by, there) = (granting.snippets.join(" and "), self.there(capability, toolkit));
        Some(format!("capability {capability} is missing: {because}; granted by {by}{there}"))
    }

    /// Whether `capability` is provided; `None` if that combination was not queried.
    #[must_use]
    pub fn has(&self, capability: &str, toolkit: ToolkitVersion, target: Target) -> Option<bool> {
        self.answers.get(&(capability.to_owned(), toolkit, target)).map(Option::is_none)
    }

    /// The targets, or else the toolkits, that provide it, as a clause.
    fn there(&self, capability: &str, toolkit: ToolkitVersion) -> String {
        let mut by_toolkit: BTreeMap<ToolkitVersion, Vec<String>> = BTreeMap::new();
        for ((name, version, target), lack) in &self.answers {
            if name == capability && lack.is_none() {
                by_toolkit.entry(*version).or_default().push(target.to_string());
            }
        }
        // The toolkit in use, else the newest that provides it.
        match by_toolkit.get_key_value(&toolkit).or_else(|| by_toolkit.last_key_value()) {
            Some((version, targets)) => format!(", which ptxas {version} accepts for {}", targets.join(" ")),
            None => ", which no queried toolkit accepts for any queried target".to_owned(),
        }
    }
}

impl Lack {
    fn because(&self, toolkit: ToolkitVersion, target: Target) -> String {
        let (variant, words) = (&self.variant, self.words.trim());
        match self.outcome {
            Outcome::UnknownTarget => format!("ptxas {toolkit} does not know {target}"),
            Outcome::UnsupportedIsa => format!("ptxas {toolkit} does not know the PTX version of {variant}"),
            _ if words.is_empty() => {
                format!("ptxas {toolkit} {} {variant} for {target}", self.outcome.word())
            }
            _ => format!("ptxas {toolkit} rejects {variant} for {target} ({words})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{MessageRow, Pair, PairSet, Spread, VariantRow};

    fn matrix() -> Matrix {
        let pair = |toolkit: &str, target: &str| Pair {
            toolkit: toolkit.parse().unwrap(),
            target: target.parse().unwrap(),
            arch: target.parse().unwrap(),
        };
        let variant = |id: &str, outcomes: &str| {
            let mut refused = PairSet::default();
            outcomes.bytes().enumerate().filter(|(_, b)| *b == b'R').for_each(|(n, _)| refused.push(n));
            VariantRow {
                id: id.to_owned(),
                snippet: 0,
                expects: Vec::new(),
                outcomes: outcomes.to_owned(),
                native: String::new(),
                messages: vec![Spread { index: 0, pairs: refused }],
                sass: Vec::new(),
            }
        };
        Matrix {
            pairs: vec![pair("12.8.93", "sm_120"), pair("13.5.37", "sm_120"), pair("13.5.37", "sm_121a")],
            variants: vec![variant("mma.x.1", "RRA"), variant("mma.x.2", "AAA"), variant("cp.y", "AAA")],
            messages: vec![MessageRow { text: "Feature 'x' not supported".to_owned(), kind: None }],
            ..Matrix::default()
        }
    }

    #[test]
    fn a_capability_is_all_of_its_variants() {
        let of = |stem: &str, ids: &[&str]| Granting {
            snippets: vec![stem.to_owned()],
            variants: ids.iter().map(|s| (*s).to_owned()).collect(),
        };
        let granting = BTreeMap::from([
            ("mma".to_owned(), of("mma.x", &["mma.x.1", "mma.x.2"])),
            ("copy".to_owned(), of("cp", &["cp.y"])),
        ]);
        let capabilities = Capabilities::from_matrix(granting, &matrix());
        let missing = |capability, toolkit: &str, target: &str| {
            capabilities.missing(capability, toolkit.parse().unwrap(), target.parse().unwrap())
        };
        assert_eq!(missing("mma", "13.5.37", "sm_121a"), None);
        assert_eq!(missing("copy", "13.5.37", "sm_120"), None);
        assert_eq!(
            missing("mma", "13.5.37", "sm_120").unwrap(),
            "capability mma is missing: ptxas 13.5.37 rejects mma.x.1 for sm_120 (Feature 'x' not supported); granted by \
             mma.x, which ptxas 13.5.37 accepts for sm_121a"
        );
        // The old toolkit provides it for no target; the newest that does is named.
        assert!(
            missing("mma", "12.8.93", "sm_120").unwrap().ends_with("which ptxas 13.5.37 accepts for sm_121a")
        );
        assert!(missing("mma", "13.5.37", "sm_90").unwrap().contains("was not queried for sm_90"));
        assert!(missing("dp4a", "13.5.37", "sm_120").unwrap().contains("no snippet grants"));
    }
}
