//! The table of results, `reports/upstream.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::judge::{Expected, Kernel, SCHEDULES, Shown};

const REPORT: &str = "reports/upstream.md";

/// Compares the table of a complete run with the committed one, or writes it.
///
/// # Errors
/// They differ; the message says how to accept the new one.
pub(crate) fn checked(kernels: &[&'static Kernel], table: &[(&'static str, Shown)]) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(REPORT);
    let text = text(kernels, table);
    if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        return fs::write(&path, text).map_err(|error| format!("{REPORT}: {error}"));
    }
    match fs::read_to_string(&path) {
        Ok(there) if there == text => Ok(()),
        _ => Err(format!(
            "{REPORT} is not what this run shows; `SNAPSHOTS=overwrite` in the environment writes it"
        )),
    }
}

fn text(kernels: &[&'static Kernel], table: &[(&'static str, Shown)]) -> String {
    let shown = |kernel: &Kernel| table.iter().find(|(name, _)| *name == kernel.name).map(|(_, shown)| shown);
    let faults = table.iter().flat_map(|(_, shown)| &shown.faults);
    let (none, found): (Vec<_>, Vec<_>) = faults.partition(|(_, how)| how.is_none());
    let mut out = format!(
        "# Upstream kernels in the emulator\n\nWritten by `cargo test --test upstream`. {} kernels ran under all rules with \
         {SCHEDULES} schedules and 2 contents of unwritten memory; each result was compared with a reference in f64. {} faults were \
         planted: {} were found, {} change neither a rule nor a bit of the results. Kernels of \
         other projects are launched by their own host code; those of Triton are written for this table in Triton's language.\n\n",
        kernels.len(),
        none.len() + found.len(),
        found.len(),
        none.len(),
    );
    out += "| kernel | package | source | launches | verdict | largest error, in bounds | bound |\n|---|---|---|---|---|---|---|\n";
    for kernel in kernels {
        let Some(shown) = shown(kernel) else { continue };
        let package = kernel.source.package();
        let verdict = match kernel.expected {
            Expected::Right => "right".to_owned(),
            Expected::Defect { rule, .. } => format!("defect: `{rule}`"),
            Expected::Races { right: true, .. } => "right, with a `race`".to_owned(),
            Expected::Races { right: false, .. } => "defect: `race`".to_owned(),
            Expected::Wrong { explanation, .. } => format!("wrong: {explanation}"),
        };
        let _ = writeln!(
            out,
            "| {} | {} {} | `{}` | {} | {verdict} | {:.2} | {} |",
            kernel.name,
            package.name,
            package.version,
            kernel.file,
            shown.launches,
            shown.error,
            kernel.bound
        );
    }
    let defects: Vec<String> = kernels
        .iter()
        .filter_map(|kernel| match kernel.expected {
            Expected::Defect { why, .. } | Expected::Races { why, .. } | Expected::Wrong { why, .. } => {
                Some(format!("* {}: {why}\n", kernel.name))
            }
            Expected::Right => None,
        })
        .collect();
    if !defects.is_empty() {
        out += "\n## Defects of upstream\n\n";
        out += &defects.concat();
    }
    out += "\n## Planted faults\n\n| kernel | fault | found by |\n|---|---|---|\n";
    for kernel in kernels {
        for (fault, how) in shown(kernel).map(|shown| shown.faults.as_slice()).unwrap_or_default() {
            let _ = writeln!(out, "| {} | {fault} | {} |", kernel.name, how.as_deref().unwrap_or("nothing"));
        }
    }
    out
}
