//! The record indexed by variant, toolkit and target.

use std::collections::BTreeMap;

use ptx::arch::{Suffix, Target, ToolkitVersion};

use super::history::History;
use crate::record::{
    Cell, ClaimRow, Expect, Matrix, MessageRow, Native, Outcome, Pair, Standing, VariantRow,
};

/// The state of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    /// It assembles.
    Accepted,
    /// It is rejected.
    Rejected,
    /// It is rejected, and a confirmed claim says that the hardware has no such instruction.
    Absent,
    /// The toolkit does not know the target or the PTX version: there is no answer.
    Silent,
    /// The assembler crashed.
    Crashed,
    /// The assembler did not end in time.
    TimedOut,
    /// It was not tried.
    NotAsked,
}

impl Answer {
    /// Whether the toolkit has an answer about the form.
    pub(super) const fn is_said(self) -> bool {
        match self {
            Self::Accepted | Self::Rejected | Self::Absent | Self::Crashed | Self::TimedOut => true,
            Self::Silent | Self::NotAsked => false,
        }
    }

    /// Whether it is rejected, for whatever reason.
    pub(super) const fn is_no(self) -> bool {
        matches!(self, Self::Rejected | Self::Absent)
    }
}

/// The first toolkit of a record for which something holds, as far as it was queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since {
    pub(super) first: usize,
    before: Before,
}

impl Since {
    /// Whether the releases before it were queried, as far as they matter.
    pub(super) fn is_release(self) -> bool {
        self.before == Before::Release
    }

    /// Of a toolkit that knows both of two targets: `the first to know both`, as far as that was queried.
    pub(super) const fn knows_both(self) -> &'static str {
        match self.before {
            Before::Release => "the first to know both",
            Before::Older(_) | Before::Nothing => "the first queried that knows both",
        }
    }
}

/// What was queried before the first toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    /// The CUDA release before it, or it is the first release that knows the target.
    Release,
    /// This toolkit; releases between the two were not queried.
    Older(usize),
    /// No toolkit.
    Nothing,
}

/// A record with its indices.
pub(super) struct View<'a> {
    /// The record's matrix.
    pub(super) matrix: &'a Matrix,
    /// The toolkits, ascending.
    pub(super) toolkits: Vec<ToolkitVersion>,
    /// The targets: SM12x first, then the relatives, each ascending.
    pub(super) targets: Vec<Target>,
    pairs: BTreeMap<Pair, usize>,
    /// The confirmed claims that something is absent by design, by snippet.
    absences: BTreeMap<usize, Vec<&'a ClaimRow>>,
}

impl<'a> View<'a> {
    /// Indexes a record.
    pub(super) fn new(matrix: &'a Matrix) -> Self {
        let mut toolkits: Vec<ToolkitVersion> = matrix.toolkits.iter().map(|t| t.version).collect();
        toolkits.extend(matrix.pairs.iter().map(|p| p.toolkit));
        toolkits.sort();
        toolkits.dedup();
        let mut targets = matrix.targets();
        targets.sort_by_key(|t| (!t.is_sm12x(), *t));
        let mut absences: BTreeMap<usize, Vec<&'a ClaimRow>> = BTreeMap::new();
        for claim in &matrix.claims {
            if claim.expect == Expect::AbsentByDesign && claim.standing == Standing::Confirmed {
                absences.entry(claim.snippet).or_default().push(claim);
            }
        }
        let pairs = matrix.pairs.iter().enumerate().map(|(n, p)| (*p, n)).collect();
        Self { matrix, toolkits, targets, pairs, absences }
    }

    /// The newest toolkit's index.
    pub(super) fn newest(&self) -> Option<usize> {
        self.toolkits.len().checked_sub(1)
    }

    /// The name of the newest toolkit for reports.
    pub(super) fn newest_name(&self) -> String {
        self.toolkits.last().map_or_else(|| "no toolkit".to_owned(), ToString::to_string)
    }

    /// The variants that were tried on every target: all except files judged as written.
    pub(super) fn variants(&self) -> impl Iterator<Item = (usize, &'a VariantRow)> {
        self.matrix.variants.iter().enumerate().filter(|(_, v)| !v.is_as_written())
    }

    /// The family of a variant.
    pub(super) fn family(&self, variant: &VariantRow) -> &'a str {
        self.matrix.snippets.get(variant.snippet).map_or("", |s| s.family.as_str())
    }

    /// The cell of a variant.
    pub(super) fn cell(
        &self,
        variant: &'a VariantRow,
        toolkit: usize,
        target: Target,
        arch: Target,
    ) -> Option<Cell<'a>> {
        let pair = Pair { toolkit: *self.toolkits.get(toolkit)?, target, arch };
        self.matrix.cell(variant, *self.pairs.get(&pair)?)
    }

    /// The record's index of a target with its own `-arch`; `None` if it was not tried.
    pub(super) fn pair(&self, toolkit: usize, target: Target) -> Option<usize> {
        let pair = Pair { toolkit: *self.toolkits.get(toolkit)?, target, arch: target };
        self.pairs.get(&pair).copied()
    }

    /// Returns the state of a cell.
    pub(super) fn answer(
        &self,
        variant: &VariantRow,
        toolkit: usize,
        target: Target,
        arch: Target,
    ) -> Answer {
        let pair = self.toolkits.get(toolkit).map(|t| Pair { toolkit: *t, target, arch });
        let answer = pair.and_then(|p| self.pairs.get(&p)).and_then(|i| variant.answer(*i));
        match answer.map(|a| a.outcome) {
            None => Answer::NotAsked,
            Some(Outcome::Accepted) => Answer::Accepted,
            Some(Outcome::Rejected) if target == arch && self.is_absent(variant, toolkit, target) => {
                Answer::Absent
            }
            Some(Outcome::Rejected) => Answer::Rejected,
            Some(Outcome::UnknownTarget | Outcome::UnsupportedIsa) => Answer::Silent,
            Some(Outcome::Crashed) => Answer::Crashed,
            Some(Outcome::TimedOut) => Answer::TimedOut,
        }
    }

    /// Returns every toolkit's answer about a variant on a target.
    pub(super) fn history(&self, variant: &VariantRow, target: Target) -> History {
        History::new((0..self.toolkits.len()).map(|t| self.answer(variant, t, target, target)).collect())
    }

    /// Returns since when a variant is accepted on a target, up to the newest toolkit with an answer.
    pub(super) fn since(&self, variant: &VariantRow, target: Target) -> Option<Since> {
        let history = self.history(variant, target);
        let first = history.since()?;
        Some(self.first(first, history.before(first), &[target]))
    }

    /// Returns the toolkit `first` as the start of something that `before`, the newest older toolkit that was queried, does not have, on
    /// targets that all are needed.
    pub(super) fn first(&self, first: usize, before: Option<usize>, targets: &[Target]) -> Since {
        let release = |toolkit: usize| self.toolkits.get(toolkit).map(|v| (v.major, v.minor));
        let born = targets.iter().map(|target| introduced(*target)).max().flatten();
        let before = match before {
            _ if born.is_some() && born == release(first) => Before::Release,
            Some(older) if release(older) == release(first) => Before::Release,
            Some(older) if release(older).map(next_release) == release(first) => Before::Release,
            Some(older) => Before::Older(older),
            None => Before::Nothing,
        };
        Since { first, before }
    }

    /// `13.1`; `13.5, not in 12.9`; `12.9, the oldest queried`.
    pub(super) fn since_name(&self, since: Since) -> String {
        let first = self.start_name(since.first);
        match since.before {
            Before::Release => first,
            Before::Older(older) => format!("{first}, not in {}", self.end_name(older)),
            Before::Nothing => format!("{first}, the oldest queried"),
        }
    }

    /// `13.1`, or `13.1 to 13.2` for several; `None` if one of them is unknown, or there is none.
    pub(super) fn range(&self, all: impl Iterator<Item = Option<Since>>) -> Option<String> {
        let firsts: Vec<usize> = all.map(|since| Some(since?.first)).collect::<Option<_>>()?;
        let (low, high) = (self.start_name(*firsts.iter().min()?), self.start_name(*firsts.iter().max()?));
        Some(if low == high { low } else { format!("{low} to {high}") })
    }

    /// `since 13.1`; `in 13.5, not in 12.9`; `in 12.9, the oldest queried`.
    pub(super) fn since_words(&self, since: Since) -> String {
        let word = if since.before == Before::Release { "since" } else { "in" };
        format!("{word} {}", self.since_name(since))
    }

    /// Returns what the code of an accepted cell shows.
    pub(super) fn native(&self, variant: &'a VariantRow, toolkit: usize, target: Target) -> Option<Native> {
        self.cell(variant, toolkit, target, target)?.native
    }

    /// Returns the assembler's message of a cell.
    pub(super) fn message(
        &self,
        variant: &'a VariantRow,
        toolkit: usize,
        target: Target,
    ) -> Option<&'a MessageRow> {
        self.cell(variant, toolkit, target, target)?.message
    }

    /// `13.1` for the first release of 13.1 in the record, otherwise the full version: the start of a range.
    pub(super) fn start_name(&self, toolkit: usize) -> String {
        self.name(toolkit, toolkit.checked_sub(1))
    }

    /// `13.1` for the last release of 13.1 in the record, otherwise the full version: the end of a range.
    pub(super) fn end_name(&self, toolkit: usize) -> String {
        self.name(toolkit, Some(toolkit + 1))
    }

    fn name(&self, toolkit: usize, beside: Option<usize>) -> String {
        let Some(version) = self.toolkits.get(toolkit) else { return String::new() };
        let neighbour = beside.and_then(|n| self.toolkits.get(n));
        let alone = neighbour.is_none_or(|n| (n.major, n.minor) != (version.major, version.minor));
        if alone { version.short() } else { version.to_string() }
    }

    fn is_absent(&self, variant: &VariantRow, toolkit: usize, target: Target) -> bool {
        let version = self.toolkits[toolkit];
        self.absences.get(&variant.snippet).into_iter().flatten().any(|claim| {
            claim.covers_toolkit(version) && claim.targets.contains(&target) && speaks_of(claim, variant)
        })
    }
}

/// Returns the CUDA release after one that has a toolkit; 12.7 came only with drivers.
const fn next_release((major, minor): (u16, u16)) -> (u16, u16) {
    match (major, minor) {
        (11, 8) => (12, 0),
        (12, 6) => (12, 8),
        (12, 9) => (13, 0),
        _ => (major, minor + 1),
    }
}

/// Returns the first CUDA release whose ptxas knows a target of SM12x; `None` for other targets (PTX ISA, Release Notes: `sm_120` and `sm_120a`
/// came with PTX 8.7, the others with 8.8).
fn introduced(target: Target) -> Option<(u16, u16)> {
    match (target.number, target.suffix) {
        (120, Suffix::Base | Suffix::Arch) => Some((12, 8)),
        (120 | 121, _) => Some((12, 9)),
        _ => None,
    }
}

/// Whether a claim applies to a variant.
pub(super) fn speaks_of(claim: &ClaimRow, variant: &VariantRow) -> bool {
    claim.snippet == variant.snippet && (claim.variants.is_empty() || claim.variants.contains(&variant.id))
}
