//! The results of lint for programs: JSON and CSV.

use super::super::csv;
use super::super::phrase::clean;
use crate::lint::Lint;

/// As JSON.
///
/// # Errors
/// Only if serialisation itself fails.
pub fn lint_json(lint: &Lint) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(lint)? + "\n")
}

const HEADER: [&str; 11] =
    ["file", "module", "toolkit", "target", "form", "outcome", "counts", "errors", "line", "kind", "message"];

/// As CSV (RFC 4180, LF): one line per answer; a module is identified by its first line.
#[must_use]
pub fn lint_csv(lint: &Lint) -> String {
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    for file in &lint.files {
        for module in &file.modules {
            rows.extend(module.cells.iter().map(|cell| {
                vec![
                    file.file.clone(),
                    module.first_line.to_string(),
                    cell.toolkit.to_string(),
                    cell.target.to_string(),
                    cell.form.word().to_owned(),
                    cell.outcome.word().to_owned(),
                    if cell.counts { "yes" } else { "no" }.to_owned(),
                    cell.errors.to_string(),
                    cell.line.map_or_else(String::new, |l| l.to_string()),
                    cell.kind.unwrap_or_default().to_owned(),
                    clean(&cell.message),
                ]
            }));
        }
    }
    csv::table(rows.into_iter())
}
