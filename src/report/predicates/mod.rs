//! Predicates: the capabilities and forms that the SM12x targets have with each toolkit, as source text of other languages.
//!
//! A form exists if ptxas accepts it. A capability exists if ptxas accepts every form of its snippets that any SM12x
//! target accepts with any toolkit of the record: forms that exist to be rejected do not count. A toolkit missing from the record
//! counts as the newest one below it; one older than all has nothing.

mod c;
mod python;
mod rust;

use std::collections::BTreeMap;

use ptx::arch::{Requirement, Suffix, Target, ToolkitVersion};

use super::sm12x;
use super::view::{Answer, View};
use crate::record::{Record, VariantRow};

/// A language of predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// A C header, for CUDA C++ as well.
    C,
    /// A Python module.
    Python,
    /// A Rust module.
    Rust,
}

/// Why there are no predicates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PredicateError {
    /// The record has no SM12x target, or no toolkit of the range.
    #[error(
        "the record has no answer for an SM12x target{0}; `matrix --toolkit all --format json` makes one"
    )]
    Nothing(String),
    /// Two forms have one identifier.
    #[error("the forms `{0}` and `{1}` have the same identifier; rename one of them")]
    SameName(String, String),
}

/// Where something exists: for each target, for each toolkit.
pub(super) type Condition = Vec<Vec<bool>>;

/// The predicates of a record.
pub(super) struct Predicates {
    pub(super) tool: String,
    /// The SM12x targets, ascending.
    pub(super) targets: Vec<Target>,
    /// The toolkits, ascending; at least one.
    pub(super) toolkits: Vec<ToolkitVersion>,
    /// The distinct conditions.
    pub(super) conditions: Vec<Condition>,
    /// Capabilities by name, each with its condition.
    pub(super) capabilities: BTreeMap<String, usize>,
    /// Forms by identifier, each with its condition.
    pub(super) forms: BTreeMap<String, usize>,
}

/// Returns text in `language` that states what the SM12x targets have, with the record's toolkits within `range`.
///
/// # Errors
/// [`PredicateError`].
pub fn predicates(
    record: &Record,
    range: Option<&Requirement>,
    language: Language,
) -> Result<String, PredicateError> {
    let predicates = Predicates::new(record, range)?;
    Ok(match language {
        Language::C => c::text(&predicates),
        Language::Python => python::text(&predicates),
        Language::Rust => rust::text(&predicates),
    })
}

/// The id of a form as an identifier: letters, digits and `_`.
pub(super) fn identifier(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

impl Predicates {
    fn new(record: &Record, range: Option<&Requirement>) -> Result<Self, PredicateError> {
        let view = View::new(&record.matrix);
        let targets = sm12x::targets(&view);
        let within = |t: &usize| range.is_none_or(|range| range.allows(view.toolkits[*t]));
        let chosen: Vec<usize> = (0..view.toolkits.len()).filter(within).collect();
        if targets.is_empty() || chosen.is_empty() {
            let by = range.map_or_else(String::new, |range| format!(" by a toolkit {range}"));
            return Err(PredicateError::Nothing(by));
        }
        let accepted = |variant: &VariantRow| -> Condition {
            let on = |target: &Target| {
                chosen
                    .iter()
                    .map(|t| view.answer(variant, *t, *target, *target) == Answer::Accepted)
                    .collect()
            };
            targets.iter().map(on).collect()
        };
        let mut out = Self {
            tool: record.tool.clone(),
            toolkits: chosen.iter().map(|t| view.toolkits[*t]).collect(),
            conditions: Vec::new(),
            capabilities: BTreeMap::new(),
            forms: BTreeMap::new(),
            targets: targets.clone(),
        };
        let mut ids: BTreeMap<String, &str> = BTreeMap::new();
        let mut whole: BTreeMap<&str, Option<Condition>> = BTreeMap::new();
        for (_, variant) in view.variants() {
            let condition = accepted(variant);
            let known = condition.iter().flatten().any(|there| *there);
            for name in view.matrix.snippets.get(variant.snippet).into_iter().flat_map(|s| &s.grants) {
                let all = whole.entry(name).or_default();
                if known {
                    *all = Some(all.take().map_or_else(|| condition.clone(), |all| both(&all, &condition)));
                }
            }
            let name = identifier(&variant.id);
            if let Some(first) = ids.insert(name.clone(), &variant.id) {
                return Err(PredicateError::SameName(first.to_owned(), variant.id.clone()));
            }
            let index = out.index(condition);
            out.forms.insert(name, index);
        }
        for (name, condition) in whole {
            let nowhere = || vec![vec![false; chosen.len()]; targets.len()];
            let index = out.index(condition.unwrap_or_else(nowhere));
            out.capabilities.insert(identifier(name), index);
        }
        Ok(out)
    }

    fn index(&mut self, condition: Condition) -> usize {
        let place = self.conditions.iter().position(|c| *c == condition);
        place.unwrap_or_else(|| {
            self.conditions.push(condition);
            self.conditions.len() - 1
        })
    }

    /// The ranges of toolkits in which a target's row is true: the first toolkit, and the one that ends it, if any.
    pub(super) fn ranges(&self, row: &[bool]) -> Vec<(ToolkitVersion, Option<ToolkitVersion>)> {
        let mut out: Vec<(ToolkitVersion, Option<ToolkitVersion>)> = Vec::new();
        let mut open = false;
        for (there, toolkit) in row.iter().zip(&self.toolkits) {
            match (there, open) {
                (true, false) => out.push((*toolkit, None)),
                (false, true) => {
                    if let Some((_, end)) = out.last_mut() {
                        *end = Some(*toolkit);
                    }
                }
                _ => {}
            }
            open = *there;
        }
        out
    }

    /// The nvcc options with which code for every SM12x GPU has something, with the newest toolkit: the least suffix that has it on
    /// all of its targets, or nothing.
    pub(super) fn gencode(&self, condition: &Condition) -> Vec<String> {
        let there = |suffix: Suffix| {
            let mut of = self.targets.iter().zip(condition).filter(|(t, _)| t.suffix == suffix).peekable();
            of.peek().is_some() && of.all(|(_, row)| row.last() == Some(&true))
        };
        let flags = |suffix: Suffix| {
            let all: Vec<&Target> = self.targets.iter().filter(|t| t.suffix == suffix).collect();
            // Code without a suffix, or of the family, also runs on later numbers; code with `a` only on its own.
            let enough = if suffix == Suffix::Arch { all.len() } else { 1 };
            let flag = |t: &&Target| {
                let name = t.to_string();
                format!("-gencode=arch=compute_{0},code=sm_{0}", name.trim_start_matches("sm_"))
            };
            all.iter().take(enough).map(flag).collect::<Vec<_>>()
        };
        let least = [Suffix::Base, Suffix::Family, Suffix::Arch].into_iter().find(|s| there(*s));
        least.map_or_else(Vec::new, flags)
    }

    /// `ptxas 12.8.61 to 13.5.37`.
    pub(super) fn made_from(&self) -> String {
        let (first, last) = (self.toolkits.first(), self.toolkits.last());
        let name = |v: Option<&ToolkitVersion>| v.map(ToString::to_string).unwrap_or_default();
        format!("ptxas {} to {} ({} toolkits)", name(first), name(last), self.toolkits.len())
    }
}

fn both(left: &Condition, right: &Condition) -> Condition {
    let rows = left.iter().zip(right);
    rows.map(|(l, r)| l.iter().zip(r).map(|(l, r)| *l && *r).collect()).collect()
}
