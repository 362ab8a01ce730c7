//! The results of lint in words and rows that the terminal and Markdown share.

use super::super::phrase::counted;
use crate::lint::{CellRow, CureRow, Form, KnownRow, Lint, ModuleRow, ProblemRow, Require, ranges};
use crate::record::Outcome;

/// The text below an excerpt.
pub(super) fn underline(problem: &ProblemRow) -> String {
    let from = problem.column.saturating_sub(problem.excerpt_from);
    let room = problem.excerpt.chars().count().saturating_sub(from);
    " ".repeat(from) + &"^".repeat(problem.length.min(room).max(1))
}

/// The full text on a problem, below its line.
pub(super) fn explained(lint: &Lint, problem: &ProblemRow) -> Vec<String> {
    let mut out: Vec<String> = problem.also.iter().map(|also| format!("also: {also}")).collect();
    if let Some(cuda) = &problem.cuda {
        out.insert(0, format!("source: {}:{} `{}`", cuda.file, cuda.line, cuda.text));
    }
    out.push(format!("refused {}", refusals(lint, problem)));
    match (&problem.cause, &problem.remedy) {
        (Some(cause), Some(remedy)) => {
            out.push(format!("cause: {cause}"));
            out.push(format!("remedy: {remedy}"));
        }
        (None, Some(remedy)) => out.push(format!("remedy: {remedy}")),
        _ => out.push("no known cause for this message".to_owned()),
    }
    let mut how = "";
    let mut forms: Vec<(String, Vec<String>)> = Vec::new();
    for instead in &problem.instead {
        if instead.how != how {
            how = &instead.how;
            out.push(format!("instead: {how} (source: {})", instead.source));
        }
        let on = format!("{} by {}", instead.targets.join(" "), ranges(&instead.toolkits, &lint.toolkits));
        let shown = format!("{} ({})", instead.form, instead.variant);
        match forms.iter_mut().find(|(form, _)| *form == shown) {
            Some((_, places)) => places.push(on),
            None => forms.push((shown, vec![on])),
        }
    }
    out.extend(forms.into_iter().map(|(form, on)| format!("accepted on {}: {form}", on.join(", on "))));
    out
}

/// A known miscompile: what it is, then what to do.
pub(super) fn known_in_words(lint: &Lint, row: &KnownRow) -> (String, Vec<String>) {
    let head =
        format!("line {}: `{}` in {}: known miscompile {}", row.line, row.form, row.function, row.name);
    let here = match (row.toolkits.is_empty(), row.targets.is_empty()) {
        (false, false) => {
            let by = ranges(&row.toolkits, &lint.toolkits);
            format!("of the toolkits of this run: {by}, for {}", row.targets.join(" "))
        }
        (true, _) => "no toolkit of this run has it".to_owned(),
        (_, true) => "no target of this run has it".to_owned(),
    };
    let lines = vec![
        format!("effect: {}", row.effect),
        format!("rule: {}", row.rule),
        format!("seen with {}; {here}", row.seen_with),
        format!("instead: {}", row.rewrite),
    ];
    (head, lines)
}

/// `as written for sm_121 by 13.5.37; rewritten for …`.
fn refusals(lint: &Lint, problem: &ProblemRow) -> String {
    let mut groups: Vec<(Form, String, Vec<String>)> = Vec::new();
    for refusal in &problem.refused {
        let by = ranges(&refusal.toolkits, &lint.toolkits);
        match groups.iter_mut().find(|(form, toolkits, _)| *form == refusal.form && *toolkits == by) {
            Some((_, _, targets)) => targets.push(refusal.target.to_string()),
            None => groups.push((refusal.form, by, vec![refusal.target.to_string()])),
        }
    }
    let words: Vec<String> = groups
        .into_iter()
        .map(|(form, by, targets)| {
            let how = if form == Form::Written { "as written" } else { "rewritten" };
            format!("{how} for {} by {by}", targets.join(" "))
        })
        .collect();
    words.join("; ")
}

/// `conforms: …` or the failures, in one line.
pub(super) fn verdict(lint: &Lint) -> String {
    let modules: usize = lint.files.iter().map(|f| f.modules.len()).sum();
    let wrong = lint.files.iter().flat_map(|f| &f.modules).filter(|m| !m.misses.is_empty()).count();
    // What a compiler wrote is asked for as each toolkit takes it.
    let compiled =
        lint.files.iter().flat_map(|f| &f.modules).all(|m| m.cells.iter().all(|c| c.form != Form::Written));
    let demand = match lint.require {
        Require::All => "accepted as written by every toolkit that knows the target",
        Require::Newest => "accepted as written by the newest toolkit",
        Require::Any => "accepted as written by some toolkit for each target",
        Require::Rewritten => "accepted by the newest toolkit with `.version` and `.target` rewritten",
    };
    let counts = format!(
        "{} of {} in {} {} {demand}",
        modules - wrong,
        counted(modules, "module"),
        counted(lint.files.len(), "file"),
        if modules == 1 { "is" } else { "are" }
    );
    let unusable = match lint.unusable.len() {
        0 => String::new(),
        n => format!("; {} cannot be used", counted(n, "file")),
    };
    let counts = if compiled { counts.replace(" as written", "") } else { counts };
    format!("{}: {counts}{unusable}", if lint.conforms { "conforms" } else { "does not conform" })
}

/// The toolkits and targets tried.
pub(super) fn asked(lint: &Lint) -> String {
    format!("toolkits: {}; targets: {}", lint.toolkits.join(" "), lint.targets.join(" "))
}

/// `FILE lines 3 to 90: .version 8.7, .target sm_121a`.
pub(super) fn title(file: &str, module: &ModuleRow, modules: usize) -> String {
    let word = |name: &str, w: &Option<String>| {
        w.as_ref().map_or_else(|| format!("no {name}"), |w| format!("{name} {w}"))
    };
    let lines = if modules > 1 || module.first_line > 1 {
        format!(" lines {} to {}", module.first_line, module.last_line)
    } else {
        String::new()
    };
    format!("{file}{lines}: {}, {}", word(".version", &module.version), word(".target", &module.target))
}

/// A row of a module's table: targets with the same answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableRow {
    /// The targets.
    pub(super) targets: Vec<String>,
    /// The toolkits that accept it as written.
    pub(super) written: String,
    /// The toolkits that accept it rewritten.
    pub(super) rewritten: String,
    /// The change that would help.
    pub(super) cure: String,
}

/// The answers of a module; targets with the same answers are merged.
pub(super) fn table(lint: &Lint, module: &ModuleRow) -> Vec<TableRow> {
    let mut out: Vec<TableRow> = Vec::new();
    for target in &lint.targets {
        let of = |form: Form| {
            let cells: Vec<&CellRow> =
                module.cells.iter().filter(|c| c.form == form && c.target.to_string() == *target).collect();
            answers(&cells, &lint.toolkits)
        };
        // Of several changes, the smallest that the newest toolkit takes; another one is worth naming only without it.
        let cures: Vec<&CureRow> = module.cures.iter().filter(|c| c.target.to_string() == *target).collect();
        let newest = |c: &&&CureRow| c.toolkits.last() == lint.toolkits.last();
        let cure = cures.iter().find(newest).or_else(|| cures.last());
        let cure = cure.map(|c| cured(c, module, &lint.toolkits));
        let (written, rewritten) = (of(Form::Written), of(Form::Rewritten));
        let cure = cure.unwrap_or_else(|| {
            if format!("{written}{}", if written.is_empty() { &rewritten } else { "" }).contains("rejected") {
                "none found".to_owned()
            } else {
                String::new()
            }
        });
        let same = |r: &&mut TableRow| r.written == written && r.rewritten == rewritten && r.cure == cure;
        match out.iter_mut().find(same) {
            Some(row) => row.targets.push(target.clone()),
            None => out.push(TableRow { targets: vec![target.clone()], written, rewritten, cure }),
        }
    }
    out
}

/// `accepted from 12.9.41 on; not known to 12.8.61`.
fn answers(cells: &[&CellRow], all: &[String]) -> String {
    let mut groups: Vec<(&'static str, Vec<String>)> = Vec::new();
    for cell in cells {
        let word = match (cell.outcome, cell.kind) {
            (Outcome::Accepted, _) => "accepted by",
            (Outcome::UnknownTarget, Some("unknown_arch")) => "target not known to",
            (_, Some("target_does_not_fit_arch")) => "`.target` does not run there:",
            (Outcome::UnsupportedIsa, _) => "`.version` too new for",
            (Outcome::UnknownTarget, _) => "`.target` not known to",
            (Outcome::Rejected, _) => "rejected by",
            (Outcome::Crashed, _) => "crashed:",
            (Outcome::TimedOut, _) => "timed out:",
        };
        match groups.iter_mut().find(|(w, _)| *w == word) {
            Some((_, toolkits)) => toolkits.push(cell.toolkit.to_string()),
            None => groups.push((word, vec![cell.toolkit.to_string()])),
        }
    }
    // Acceptances first.
    groups.sort_by_key(|(word, _)| *word != "accepted by");
    let words: Vec<String> =
        groups.iter().map(|(word, toolkits)| format!("{word} {}", ranges(toolkits, all))).collect();
    words.join("; ")
}

fn cured(cure: &CureRow, module: &ModuleRow, all: &[String]) -> String {
    let version = cure.write_version.as_deref().unwrap_or_default();
    let target = cure.write_target.as_deref().unwrap_or_default();
    let what = match cure.form {
        Form::Version => format!("`.version {version}`"),
        // The requested name, so that targets share a row.
        Form::Target => "`.target` of that name".to_owned(),
        Form::Rewritten => format!("`.target` of that name and `.version {version}`"),
        Form::Suffix if module.target.as_deref() == Some(target) => format!("`-arch {target}`"),
        Form::SuffixAndVersion if module.target.as_deref() == Some(target) => {
            format!("`-arch {target}` and `.version {version}`")
        }
        Form::Suffix => format!("`.target {target}`"),
        Form::SuffixAndVersion => format!("`.target {target}` and `.version {version}`"),
        Form::Written => String::new(),
    };
    let by = ranges(&cure.toolkits, all);
    let by = match by.strip_suffix(" on").filter(|from| !from.contains(',')) {
        Some(from) => format!("{from} and later accept it"),
        None if cure.toolkits.len() == 1 => format!("{by} accepts it"),
        None => format!("{by} accept it"),
    };
    format!("{what} ({by})")
}
