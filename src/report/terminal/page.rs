//! The page: sections in order, the headline, the findings, the verdict and the hint.

use super::super::audit::audit_text;
use super::super::phrase::{clean, counted, grouped, wrapped};
use super::super::style::{Styles, Tone};
use super::super::view::View;
use super::super::{claims, families, runs, survey, verdict};
use crate::record::{AuditTable, Outcome, Record, first_line};

/// Records with at most this many variants list them all: they are about a user's kernel.
const FEW: usize = 16;
/// The number of ids listed per kind of difference.
pub(super) const LISTED: usize = 12;

/// The report for a terminal.
#[must_use]
pub fn terminal(record: &Record, styles: &Styles) -> String {
    if record.audit.stands_alone(record) {
        return audit_text(&record.audit, styles);
    }
    terminal_matrix(record, styles) + &terminal_rest(record, styles)
}

/// The part of [`terminal`] that depends on the matrix alone, which is known long before the rest.
#[must_use]
pub fn terminal_matrix(record: &Record, styles: &Styles) -> String {
    let view = View::new(&record.matrix);
    let page = Page { view: &view, styles };
    let few = (1..=FEW).contains(&record.matrix.variants.len());
    let mut sections = vec![page.headline(record)];
    if few {
        sections.push(page.variants());
    }
    sections.push(page.suffixes());
    if !few {
        sections.extend([page.groups(), page.natives(), page.families()]);
    }
    sections.push(page.crossing());
    first_line(record.incomplete().as_ref()) + &together(sections)
}

/// The rest after [`terminal_matrix`].
#[must_use]
pub fn terminal_rest(record: &Record, styles: &Styles) -> String {
    let view = View::new(&record.matrix);
    let page = Page { view: &view, styles };
    let mut sections = vec![runs::terminal(record, styles)];
    sections.push(families::terminal(record, styles));
    sections.push(survey::terminal(&record.tiles, styles));
    if record.audit != AuditTable::default() {
        sections.push(audit_text(&record.audit, styles));
    }
    sections.extend([page.findings(), page.verdict(record), page.hint()]);
    "\n".to_owned() + &together(sections)
}

fn together(mut sections: Vec<String>) -> String {
    sections.retain(|s| !s.is_empty());
    sections.join("\n")
}

/// The input of every section.
pub(super) struct Page<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) styles: &'a Styles,
}

impl Page<'_> {
    pub(super) fn heading(&self, text: &str) -> String {
        format!("{}\n", self.styles.paint(Tone::Head, text))
    }

    fn headline(&self, record: &Record) -> String {
        let (view, matrix) = (self.view, self.view.matrix);
        let range = match view.toolkits.as_slice() {
            [] => "no toolkit".to_owned(),
            [one] => format!("toolkit {one}"),
            [first, .., last] => format!("{} toolkits, {first} to {last}", view.toolkits.len()),
        };
        let count = |outcome: Outcome| -> usize { matrix.variants.iter().map(|v| v.count(outcome)).sum() };
        let cells: usize = Outcome::ALL.iter().map(|o| count(*o)).sum();
        let mut out = self.heading(&clean(&record.tool));
        out.push_str(&wrapped(
            "  asked   ",
            [
                format!("{range};"),
                counted(view.targets.len(), "target") + ";",
                counted(matrix.variants.len(), "variant") + ";",
                counted(cells, "cell"),
            ]
            .iter()
            .map(String::as_str),
        ));
        let silent = count(Outcome::UnknownTarget) + count(Outcome::UnsupportedIsa);
        let mut answers = vec![
            format!("{} accepted,", grouped(count(Outcome::Accepted))),
            format!("{} rejected,", grouped(count(Outcome::Rejected))),
            format!("{} unknown to the toolkit", grouped(silent)),
        ];
        for (outcome, word) in [(Outcome::Crashed, "crashed"), (Outcome::TimedOut, "timed out")] {
            if count(outcome) > 0 {
                answers.push(format!("· {} {word}", grouped(count(outcome))));
            }
        }
        out.push_str(&wrapped("  cells   ", answers.iter().map(String::as_str)));
        let counts = claims::counts(matrix);
        let mut line = format!(
            "  claims  {} confirmed, {} refuted, {} untested",
            grouped(counts.confirmed),
            grouped(counts.refuted),
            grouped(counts.untested)
        );
        if counts.findings > 0 {
            line.push_str("; ");
            line.push_str(&self.styles.paint(Tone::Bad, &counted(counts.findings, "finding")));
        }
        out + &line + "\n"
    }

    fn verdict(&self, record: &Record) -> String {
        let verdict = verdict::verdict(record);
        let tone = if verdict.good { Tone::Good } else { Tone::Bad };
        let counts: String = verdict.ran.iter().map(|clause| format!(", {clause}")).collect();
        let skipped: String = record.skipped.iter().map(|s| format!(", {} skipped", s.part)).collect();
        format!("Verdict: {}{counts}{skipped}\n", self.styles.paint(tone, verdict.word))
    }

    fn findings(&self) -> String {
        let matrix = self.view.matrix;
        let findings: Vec<_> = matrix.claims.iter().filter(|c| c.is_finding()).collect();
        if findings.is_empty() {
            return String::new();
        }
        let mut out = self.heading("Findings: claims that differ from their recorded status");
        for claim in findings.iter().take(LISTED) {
            let subject = clean(&claims::subject(matrix, claim));
            let text = format!("{subject}: {}: {}", clean(&claim.source), claims::says(claim));
            out.push_str(&wrapped("  ", text.split(' ')));
            let text = format!("recorded as {}; {}", claim.recorded.word(), clean(&claims::measured(claim)));
            out.push_str(&wrapped("    ", text.split(' ')));
        }
        if findings.len() > LISTED {
            out.push_str(&format!("  and {} more\n", findings.len() - LISTED));
        }
        out
    }

    /// How to see more, with an interesting variant: one that sm_121a and sm_121f answer differently, or that is rejected.
    fn hint(&self) -> String {
        let variants = &self.view.matrix.variants;
        let mut accepted_somewhere = variants.iter().filter(|v| {
            let has = |outcome: Outcome| v.count(outcome) > 0;
            has(Outcome::Accepted) && has(Outcome::Rejected)
        });
        let differing = self.main_contrast().and_then(|c| c.only_left.into_iter().chain(c.only_right).next());
        let example = differing.and_then(|d| variants.get(d.variant)).or_else(|| accepted_somewhere.next());
        let Some(example) = example.or(variants.first()) else {
            return "No variant was queried.\n".to_owned();
        };
        let lines = [
            format!("sm121probe explain {}", clean(&example.id)),
            "  shows everything known about one variant; --format md shows every variant.".to_owned(),
        ];
        lines.map(|line| self.styles.paint(Tone::Faint, &line) + "\n").concat()
    }
}
