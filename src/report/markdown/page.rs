//! The page: the order of its sections, the headline, the families, `-arch` tables and toolkits.

use std::collections::BTreeMap;
use std::fmt::Write;

use ptx::arch::Target;

use super::super::audit::audit_markdown;
use super::super::markup::{Align, code, head, plain, row};
use super::super::phrase::{counted, grouped, names, short};
use super::super::view::{Answer, View};
use super::super::{catalogue, claims, cross, families, rollup, runs, survey, verdict};
use crate::record::{AuditTable, Outcome, Record};

/// The report as Markdown.
#[must_use]
pub fn markdown(record: &Record) -> String {
    if record.audit.stands_alone(record) {
        return audit_markdown(&record.audit, 1);
    }
    let view = View::new(&record.matrix);
    let page = Page { view: &view };
    let audit =
        if record.audit == AuditTable::default() { String::new() } else { audit_markdown(&record.audit, 2) };
    let sections = [
        page.headline(record),
        page.suffixes(),
        page.groups(),
        page.natives(),
        page.families(),
        page.crossings(),
        page.claims(),
        page.toolkits(),
        runs::markdown(record),
        families::markdown(record),
        survey::markdown(&record.tiles),
        audit,
        catalogue::render(&view, 2),
    ];
    sections.into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The input of every section.
pub(super) struct Page<'a> {
    pub(super) view: &'a View<'a>,
}

impl Page<'_> {
    fn headline(&self, record: &Record) -> String {
        let (view, matrix) = (self.view, self.view.matrix);
        let count = |outcome: Outcome| -> usize { matrix.variants.iter().map(|v| v.count(outcome)).sum() };
        let each: Vec<String> = Outcome::ALL
            .iter()
            .filter(|o| count(**o) > 0)
            .map(|o| format!("{} {}", grouped(count(*o)), o.word().replace('_', " ")))
            .collect();
        let cells: usize = Outcome::ALL.iter().map(|o| count(*o)).sum();
        let counts = claims::counts(matrix);
        let verdict = verdict::verdict(record);
        let whole = !record.trials.is_empty() || !record.runs.is_empty() || !record.skipped.is_empty();
        let title = if whole { "Compatibility report" } else { "Capability matrix" };
        let oldest = view.toolkits.first().map_or_else(String::new, ToString::to_string);
        let incomplete = record
            .incomplete()
            .map_or_else(String::new, |gaps| format!("**{}**\n\n", plain(&gaps.to_string())));
        format!(
            "# {title}\n\n{incomplete}**Verdict: {}.** {}.\n\n{}: {} on {} by {} ({oldest} to {}).\n\n\
            - {}: {}. A toolkit that does not know a target or a PTX version answers unknown, not rejected.\n\
            - {}: {} confirmed, {} refuted, {} untested; {}.\n",
            verdict.word,
            plain(&verdict.counts.join("; ")),
            plain(&record.tool),
            counted(matrix.variants.len(), "variant"),
            counted(view.targets.len(), "target"),
            counted(view.toolkits.len(), "toolkit"),
            view.newest_name(),
            counted(cells, "cell"),
            each.join(", "),
            counted(matrix.claims.len(), "claim"),
            counts.confirmed,
            counts.refuted,
            counts.untested,
            counted(counts.findings, "finding"),
        )
    }

    fn families(&self) -> String {
        let view = self.view;
        let families = rollup::families(view, &view.targets);
        let mut names_row = vec!["family".to_owned(), "forms".to_owned(), "must be rejected".to_owned()];
        names_row.extend(view.targets.iter().map(|t| short(*t)));
        let mut out = format!(
            "## Families\n\nForms that each target accepts, by {}. `absent`: rejected, by design according to a \
            confirmed claim; `?`: unknown to this toolkit, or not queried; `!`: ptxas crashed or timed out. Forms \
            that must be rejected, and are, have a column of their own.\n\n{}",
            view.newest_name(),
            head(&names_row, Align::Centre)
        );
        for family in families {
            let name = plain(family.name);
            let anchor = family.name.to_lowercase().replace(' ', "-");
            let mut cells =
                vec![format!("[{name}](#{anchor})"), grouped(family.forms), grouped(family.refused)];
            cells.extend(family.tallies.iter().map(|t| t.word().0));
            out.push_str(&row(&cells));
        }
        out
    }

    /// One table for the variant that most pairs accept, and a sentence for each other variant.
    fn crossings(&self) -> String {
        let (view, mut crossings) = (self.view, cross::crossings(self.view));
        if crossings.is_empty() {
            return String::new();
        }
        let base = crossings.remove(0);
        let mut out = "## Which `.target` each `-arch` accepts\n\n".to_owned();
        let id = code(&base.variant.id);
        _ = writeln!(
            out,
            "{id} by {}. Rows: `.target` of the PTX; columns: `-arch` of ptxas.\n",
            view.newest_name()
        );
        let mut names_row = vec![String::new()];
        names_row.extend(base.archs.iter().map(|a| short(*a)));
        out.push_str(&head(&names_row, Align::Centre));
        for target in &base.targets {
            let mut cells = vec![target.to_string()];
            cells.extend(base.archs.iter().map(|arch| mark(base.answer(view, *target, *arch)).to_owned()));
            out.push_str(&row(&cells));
        }
        let mut rest: Vec<String> = Vec::new();
        for (target, archs, answer) in base.against_rule(view) {
            rest.push(format!("contrary to `ptxas --help`: {target} for {} {}", names(&archs), mark(answer)));
        }
        let mut changes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for crossing in std::iter::once(&base).chain(&crossings) {
            for (toolkit, target, archs, answer) in crossing.changes(view) {
                let what = format!(
                    "{} differs: {target} for {} {}",
                    view.toolkits[toolkit],
                    names(&archs),
                    mark(answer)
                );
                changes.entry(what).or_default().push(code(&crossing.variant.id));
            }
        }
        rest.extend(changes.into_iter().map(|(what, ids)| format!("{what} ({})", ids.join(", "))));
        if rest.is_empty() && view.toolkits.len() > 1 {
            rest.push("every older toolkit that knows both gives the same answer".to_owned());
        }
        let mut alike: Vec<(Vec<Target>, Vec<String>)> = Vec::new();
        for crossing in &crossings {
            let deviations = crossing.deviations(view, &base);
            let id = code(&crossing.variant.id);
            for (target, archs, answer) in deviations {
                rest.push(format!("{id}: {target} for {} {}, unlike the table", names(&archs), mark(answer)));
            }
            let own = crossing.own(view);
            match alike.iter_mut().find(|(targets, _)| *targets == own) {
                Some((_, ids)) => ids.push(id),
                None => alike.push((own, vec![id])),
            }
        }
        for (targets, ids) in alike {
            let targets = if targets.is_empty() { "no target".to_owned() } else { names(&targets) };
            rest.push(format!(
                "{}: accepted for {targets}; with another `-arch`, see the table",
                ids.join(", ")
            ));
        }
        out.push('\n');
        for line in rest {
            _ = writeln!(out, "- {line}");
        }
        out
    }

    fn toolkits(&self) -> String {
        let mut out = "## Toolkits\n\n| ptxas | PTX ISA | SHA-256 |\n|---|---|---|\n".to_owned();
        for t in &self.view.matrix.toolkits {
            out.push_str(&row(&[t.version.to_string(), t.isa.to_string(), code(&t.sha256)]));
        }
        let opcodes = self.view.matrix.disassembler.map(|d| format!("nvdisasm {d} names the opcodes.\n"));
        out + "\n"
            + opcodes.as_deref().unwrap_or("There was no disassembler: whether code is native is unknown.\n")
    }
}

/// An answer as the tables show it.
pub(super) const fn mark(answer: Answer) -> &'static str {
    match answer {
        Answer::Accepted => "✓",
        Answer::Rejected => "✗",
        Answer::Absent => "⊘",
        Answer::Silent => "?",
        Answer::Crashed => "crash",
        Answer::TimedOut => "timeout",
        Answer::NotAsked => "·",
    }
}
