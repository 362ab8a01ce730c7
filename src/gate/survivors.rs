//! What mutants of kernels leave: findings, and the table for the terminal and as Markdown.

use std::fmt::Write as _;
use std::path::Path;

use super::verdict::{one_line, plain};
use crate::mutants::{FILE, Fate, Survey};
use crate::record::{Finding, Ground};

/// Survivors that nobody explains, entries that explain nothing or what a trial notices, and trials that the kernels do not pass
/// even unchanged.
#[must_use]
pub fn survivors(survey: &Survey, folder: &Path) -> Vec<Finding> {
    let place = |file: &str, line: usize| Some((folder.join(file).display().to_string(), line));
    let mut out = Vec::new();
    for unfit in &survey.unfit {
        let message = format!(
            "the unchanged kernels do not conform at {}: {}; no mutant was run on this trial",
            unfit.stage.word(),
            unfit.note
        );
        out.push(Finding::new(Ground::Wrong, unfit.trial.clone(), message));
    }
    for file in &survey.idle {
        let mut finding = Finding::new(
            Ground::Wrong,
            file.clone(),
            "no selected trial runs it: its mutants were not judged".to_owned(),
        );
        finding.place = place(file, 1);
        out.push(finding);
    }
    for entry in survey.stray.iter().map(|n| &survey.entries[*n]) {
        let message = format!(
            "explains no mutant of {}: the line does not exist, or no mutant of it matches; correct or remove it",
            entry.file
        );
        let mut finding = Finding::new(Ground::Wrong, format!("`{}`", entry.line), message);
        finding.place = place(FILE, entry.at);
        out.push(finding);
    }
    for (entry, judged) in survey.refuted() {
        let Fate::Killed { trial, .. } = &judged.fate else { continue };
        let message = format!(
            "says that nothing detects `{}`, but {trial} does; remove or narrow it",
            judged.mutant.after
        );
        let mut finding = Finding::new(Ground::Wrong, format!("`{}`", entry.line), message);
        finding.place = place(FILE, entry.at);
        out.push(finding);
    }
    for judged in survey.survivors() {
        let Fate::Survived(trials) = judged.fate else { continue };
        let m = &judged.mutant;
        let message = format!("`{}` becomes `{}`, and {trials} trials conform", m.before, m.after);
        let mut finding = Finding::new(Ground::Survivor, format!("{} survives", m.operator.word()), message);
        finding.place = place(&m.file, m.line);
        out.push(finding);
    }
    out
}

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
        _ = writeln!(out, "{}", one_line(&finding.line()));
    }
    _ = writeln!(out, "{}", survivors_summary(survey));
    out
}

/// As Markdown.
#[must_use]
pub fn survivors_markdown(survey: &Survey, findings: &[Finding]) -> String {
    let mut out = format!("### sm121probe: {}\n\n", plain(&survivors_summary(survey)));
    _ = writeln!(out, "| {} |\n|{}", HEADINGS.join(" | "), "---|".repeat(HEADINGS.len()));
    for row in table(survey) {
        _ = writeln!(out, "| {} |", row.map(|cell| plain(&cell)).join(" | "));
    }
    out.push('\n');
    for finding in findings {
        _ = writeln!(out, "- {}", plain(&finding.line()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::{mutants, parse_explained};

    #[test]
    fn survivors_have_their_line_and_explained_ones_are_no_finding() {
        let text = "a;\nx = a < b;\ny = c && d;\n";
        let made = mutants("k.cu", text);
        assert_eq!(made.len(), 3);
        let entries = "- {file: k.cu, line: 'y = c && d;', operator: condition, reason: r}\n\
            - {file: k.cu, line: 'gone;', operator: condition, reason: r}\n";
        let entries = parse_explained(Path::new(FILE), entries).unwrap();
        let fates = made.iter().map(|_| Fate::Survived(5)).collect();
        let survey = Survey::new(made.clone(), fates, entries, &made, Vec::new());
        let found = survivors(&survey, Path::new("kernels"));
        let lines: Vec<String> = found.iter().map(Finding::line).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("kernels/mutants.yaml:2: `gone;`: explains no mutant of k.cu"),
            "{lines:?}"
        );
        assert_eq!(
            lines[1],
            "kernels/k.cu:2: comparison survives: `x = a < b;` becomes `x = a <= b;`, and 5 trials conform"
        );
        assert_eq!(found.iter().map(|f| f.ground).collect::<Vec<_>>(), [Ground::Wrong, Ground::Survivor]);
        let text = survivors_text(&survey, &found);
        assert!(text.contains("k.cu  comparison    1       0"), "{text}");
        assert!(text.ends_with(
            "3 of 3 mutants: 0 killed, 1 survive; 2 explained, 0 with the same PTX, 0 do not build\n"
        ));
        assert!(survivors_markdown(&survey, &found).contains("| all |  | 3 | 0 |"));
    }
}
