//! The results of lint as Markdown.

use std::fmt::Write as _;

use super::super::markup::{self, Align, head, prose};
use super::super::phrase::printable;
use super::words::{asked, explained, known_in_words, table, title, underline, verdict};
use crate::lint::{Lint, ProblemRow};

/// As Markdown, for a comment or a step summary.
#[must_use]
pub fn lint_markdown(lint: &Lint) -> String {
    let mut out = format!("### sm121probe lint: {}\n\n{}\n", prose(&verdict(lint)), prose(&asked(lint)));
    for unusable in &lint.unusable {
        _ = writeln!(out, "\n- {}", prose(unusable));
    }
    for file in &lint.files {
        for module in &file.modules {
            _ = writeln!(out, "\n#### {}\n", prose(&title(&file.file, module, file.modules.len())));
            for note in &file.notes {
                _ = writeln!(out, "{}\n", prose(note));
            }
            out.push_str(&head(&["targets", "as written", "rewritten", "fix"], Align::Left));
            for row in table(lint, module) {
                let cells = [&row.targets.join(" "), &row.written, &row.rewritten, &row.cure];
                out.push_str(&markup::row(&cells.map(|cell| prose(cell))));
            }
            for problem in &module.problems {
                out.push_str(&problem_markdown(lint, problem));
            }
            for row in &module.known {
                let (head, lines) = known_in_words(lint, row);
                _ = writeln!(out, "\n**{}**\n", prose(&head));
                lines.iter().for_each(|line| _ = writeln!(out, "- {}", prose(line)));
            }
            if module.further_lines > 0 {
                _ = writeln!(
                    out,
                    "\n{} further lines are rejected; `--all-errors` lists them.",
                    module.further_lines
                );
            }
        }
    }
    out
}

fn problem_markdown(lint: &Lint, problem: &ProblemRow) -> String {
    let line = problem.line.map_or_else(|| "whole module".to_owned(), |l| format!("line {l}"));
    let mut out = format!("\n**{line}: {}**\n\n", prose(&problem.message));
    if !problem.excerpt.is_empty() {
        // Four spaces make a code block, whatever the line contains.
        let under = underline(problem);
        _ = writeln!(out, "    {}\n    {under}\n", printable(&problem.excerpt.replace('\t', " ")));
    }
    for text in explained(lint, problem) {
        _ = writeln!(out, "- {}", prose(&text));
    }
    out
}
