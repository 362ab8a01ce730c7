//! Turns the results of mutation testing into findings.

use std::path::Path;

use crate::mutants::{FILE, Fate, Survey};
use crate::record::{Finding, Ground};

/// Reports unexplained survivors, entries that explain nothing or are refuted by a trial, kernels that no trial runs, and trials
/// that fail with the unchanged kernels.
#[must_use]
pub fn survivors(survey: &Survey, folder: &Path) -> Vec<Finding> {
    let place = |file: &str, line: usize| Some((folder.join(file).display().to_string(), line));
    let mut out = Vec::new();
    for unfit in &survey.unfit {
        let message = format!(
            "the unchanged kernels do not conform at {}: {}; no mutant was run on this trial",
            unfit.stage, unfit.note
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
    let total = survey.total();
    if total.killed + total.survivors + total.explained == 0 {
        let message = "NOTHING CHECKED: no mutant builds and has another PTX".to_owned();
        out.push(Finding::new(Ground::Incomplete, "the selection".to_owned(), message));
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
    }
}
