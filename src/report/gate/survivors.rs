//! Mutants that no trial detects: the counts by file and operator, and the findings.

use std::fmt::Write as _;

use super::super::markup::{Align, head, prose, row};
use super::super::phrase::clean;
use crate::mutants::Survey;
use crate::record::Finding;

const HEADINGS: [&str; 9] = [
    "file",
    "operator",
    "run",
    "killed",
    "unbuilt",
    "same PTX",
    "explained",
    "survive",
    "mostly detected at",
];

/// The counts in rows: by file and operator, then all.
fn table(survey: &Survey) -> Vec<[String; 9]> {
    let cells = |file: &str, operator: &str, row: &crate::mutants::Row| {
        let n = |n: usize| n.to_string();
        [
            file.to_owned(),
            operator.to_owned(),
            n(row.run),
            n(row.killed),
            n(row.unbuilt),
            n(row.equivalent),
            n(row.explained),
            n(row.survivors),
            row.mostly().to_owned(),
        ]
    };
    let mut out: Vec<[String; 9]> =
        survey.rows().iter().map(|((file, operator), row)| cells(file, operator.word(), row)).collect();
    out.push(cells("all", "", &survey.total()));
    out
}

/// `214 of 214 mutants: 180 killed, 3 survive; 12 explained, 14 with the same PTX, 5 do not build`.
#[must_use]
pub fn survivors_summary(survey: &Survey) -> String {
    let t = survey.total();
    format!(
        "{} of {} mutants: {} killed, {} survive; {} explained, {} with the same PTX, {} do not build",
        t.run, survey.made, t.killed, t.survivors, t.explained, t.equivalent, t.unbuilt
    )
}

/// For the terminal: the table, every finding on a line, and the counts.
#[must_use]
pub fn survivors_text(survey: &Survey, findings: &[Finding]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(table(survey));
    let widths: Vec<usize> =
        (0..HEADINGS.len()).map(|n| rows.iter().map(|r| r[n].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (n, cell) in row.iter().enumerate() {
            let width = widths[n];
            // Names to the left, counts to the right.
            let padded =
                if (2..8).contains(&n) { format!("{cell:>width$}") } else { format!("{cell:width$}") };
            line.push_str(&padded);
            line.push_str("  ");
        }
        _ = writeln!(out, "{}", line.trim_end());
    }
    for finding in findings {
        _ = writeln!(out, "{}", clean(&finding.line()));
    }
    _ = writeln!(out, "{}", survivors_summary(survey));
    out
}

/// As Markdown.
#[must_use]
pub fn survivors_markdown(survey: &Survey, findings: &[Finding]) -> String {
    let mut out = format!("### sm121probe: {}\n\n", prose(&survivors_summary(survey)));
    out.push_str(&head(&HEADINGS, Align::Left));
    for cells in table(survey) {
        out.push_str(&row(&cells.map(|cell| prose(&cell))));
    }
    out.push('\n');
    for finding in findings {
        _ = writeln!(out, "- {}", prose(&finding.line()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::{Fate, mutants};

    #[test]
    fn every_mutant_is_counted() {
        let made = mutants("k.cu", "a;\nx = a < b;\ny = c && d;\n");
        let fates = made.iter().map(|_| Fate::Survived(5)).collect();
        let survey = Survey::new(made.clone(), fates, Vec::new(), &made, Vec::new());
        let text = survivors_text(&survey, &[]);
        assert!(text.contains("k.cu  comparison    1       0"), "{text}");
        assert!(text.ends_with(
            "3 of 3 mutants: 0 killed, 3 survive; 0 explained, 0 with the same PTX, 0 do not build\n"
        ));
        assert!(survivors_markdown(&survey, &[]).contains("|all||3|0|"));
    }
}
