//! The results of lint for the terminal.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::phrase::{clean, printable};
use super::words::{asked, explained, known_in_words, table, title, underline, verdict};
use crate::lint::{FileRow, Lint, ModuleRow, ProblemRow, Source};

/// For the terminal. `drawn` renders a problem's message with its line underlined, and returns whether it shows the line.
#[must_use]
pub fn lint_text<'a>(
    result: &'a Lint,
    sources: &'a [Source],
    drawn: impl Fn(&'a Source, &'a ProblemRow, &str) -> (String, bool),
) -> String {
    let mut out = format!("{}\n", asked(result));
    for (file, source) in result.files.iter().zip(sources) {
        for module in &file.modules {
            of_module(&mut out, result, (file, module), source, &drawn);
        }
    }
    _ = writeln!(out, "\n{}", verdict(result));
    out
}

fn of_module<'a>(
    out: &mut String,
    result: &Lint,
    (file, module): (&'a FileRow, &'a ModuleRow),
    source: &'a Source,
    drawn: &impl Fn(&'a Source, &'a ProblemRow, &str) -> (String, bool),
) {
    _ = writeln!(out, "\n{}", clean(&title(&file.file, module, file.modules.len())));
    if file.modules.first().is_some_and(|m| m.first_line == module.first_line) {
        for note in &file.notes {
            _ = writeln!(out, "  note: {}", clean(note));
        }
    }
    for row in table(result, module) {
        _ = writeln!(out, "  {}", row.targets.join(" "));
        for (name, words) in [("as written", &row.written), ("rewritten", &row.rewritten), ("fix", &row.cure)]
        {
            if !words.is_empty() {
                _ = writeln!(out, "    {name:<10} {}", clean(words));
            }
        }
    }
    let mut warned = BTreeSet::new();
    for warning in module.cells.iter().flat_map(|c| &c.warnings) {
        let line = warning.line.map_or_else(String::new, |l| format!("line {l}: "));
        if warned.insert(line.clone()) {
            _ = writeln!(out, "  warning: {line}{}", clean(&warning.message));
        }
    }
    for problem in &module.problems {
        let (text, has_line) = drawn(source, problem, &clean(&problem.message));
        out.push_str(&text);
        if !has_line && !problem.excerpt.is_empty() {
            let place = format!("{}:{}:{}", source.file, problem.line.unwrap_or_default(), problem.column);
            let excerpt = printable(&problem.excerpt);
            _ = writeln!(out, "    {}\n    {excerpt}\n    {}", clean(&place), underline(problem));
        }
        for line in explained(result, problem) {
            _ = writeln!(out, "    {}", clean(&line));
        }
    }
    for row in &module.known {
        let (head, lines) = known_in_words(result, row);
        _ = writeln!(out, "  {}", clean(&head));
        lines.iter().for_each(|line| _ = writeln!(out, "    {}", clean(line)));
    }
    if module.further_lines > 0 {
        _ = writeln!(out, "  {} further lines are rejected; --all-errors lists them", module.further_lines);
    }
}
