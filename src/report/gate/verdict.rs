//! The gate's verdict, for the terminal and as Markdown.

use std::fmt::Write as _;

use super::super::markup::{Align, head, prose, row};
use super::super::phrase::clean;
use crate::gate::Judgement;
use crate::record::{Ground, first_line};

/// For the terminal: every finding on a line, then what is new, then the counts.
#[must_use]
pub fn verdict_text(judgement: &Judgement) -> String {
    let incomplete = judgement.incomplete();
    let mut out = first_line(incomplete.as_ref());
    for finding in &judgement.findings {
        _ = writeln!(out, "{}", clean(&finding.line()));
    }
    for note in &judgement.notes {
        _ = writeln!(out, "note: {}", clean(note));
    }
    let only_incomplete = matches!(judgement.ground(), None | Some(Ground::Incomplete));
    // The first line has said it.
    let last = if incomplete.is_some() && only_incomplete { judgement.counts() } else { judgement.summary() };
    _ = writeln!(out, "{last}");
    out
}

/// As Markdown, for the summary of a step or a comment.
#[must_use]
pub fn verdict_markdown(judgement: &Judgement) -> String {
    let mut out = format!("### sm121probe: {}\n\n", prose(&judgement.summary()));
    if !judgement.findings.is_empty() {
        out.push_str(&head(&["what", "about", "where"], Align::Left));
        for f in &judgement.findings {
            let place = f.place.as_ref().map_or_else(String::new, |(file, line)| format!("{file}:{line}"));
            out.push_str(&row(&[prose(&f.message), prose(&f.about), prose(&place)]));
        }
        out.push('\n');
    }
    for note in &judgement.notes {
        _ = writeln!(out, "- {}", prose(note));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Finding, Ground};

    #[test]
    fn words_of_findings_end_no_table() {
        let mut finding = Finding::new(Ground::Wrong, "a:b,c".to_owned(), "50% of\nx | y <b>".to_owned());
        finding.place = Some(("k e/r.cu".to_owned(), 7));
        let judgement = Judgement { findings: vec![finding], ..Judgement::default() };
        assert!(verdict_markdown(&judgement).contains("\n|50% of x \\| y \\<b>|a:b,c|k e/r.cu:7|\n"));
        assert!(verdict_text(&judgement).starts_with("k e/r.cu:7: a:b,c: 50% of x | y <b>\n"));
    }
}
