//! Merged records: what ran kernels, which toolkits were queried, and conflicts.

use std::fmt::Write as _;

use super::super::markup::{Align, head, plain, row};
use super::super::phrase::{clean, counted};
use crate::gate::{Fleet, Model, Seen};
use crate::record::{Record, VariantRow, Verdict};

/// Conflicts that the terminal shows; Markdown and the merged record hold all.
const SHOWN: usize = 40;

/// For the terminal.
#[must_use]
pub fn fleet_text(fleet: &Fleet, merged: &Record) -> String {
    let mut out = format!("{}, {}\n", counted(fleet.records, "record"), size(merged));
    for row in rows(fleet) {
        _ = writeln!(out, "  {}", clean(&row.join("; ")));
    }
    for (toolkit, n) in &fleet.toolkits {
        _ = writeln!(out, "  ptxas {toolkit} queried by {}", counted(*n, "record"));
    }
    _ = writeln!(out, "{}", counted(merged.conflicts.len(), "conflict"));
    for conflict in merged.conflicts.iter().take(SHOWN) {
        _ = writeln!(out, "  {}", clean(&conflict.about));
        for answer in &conflict.answers {
            _ = writeln!(out, "    {}: {}", clean(&answer.answer), clean(&answer.sources.join(", ")));
        }
    }
    if merged.conflicts.len() > SHOWN {
        _ = writeln!(out, "  and {} more; `--format md` shows all", merged.conflicts.len() - SHOWN);
    }
    out
}

/// As Markdown.
#[must_use]
pub fn fleet_markdown(fleet: &Fleet, merged: &Record) -> String {
    let mut out = format!("{}, {}\n\n", counted(fleet.records, "record"), size(merged));
    if !fleet.models.is_empty() {
        out.push_str(&head(&["device", "driver", "toolkit", "devices", "records", "trials"], Align::Left));
        for (model, seen) in &fleet.models {
            out.push_str(&row(&[
                plain(&model.name),
                plain(&model.driver),
                plain(&model.code.toolkit()),
                seen.devices.len().to_string(),
                seen.records.to_string(),
                verdicts(seen),
            ]));
        }
        out.push('\n');
    }
    for (toolkit, n) in &fleet.toolkits {
        _ = writeln!(out, "- ptxas {toolkit}: {}", counted(*n, "record"));
    }
    _ = writeln!(out, "\n### {}\n", counted(merged.conflicts.len(), "conflict"));
    for conflict in &merged.conflicts {
        _ = writeln!(out, "- {}", plain(&conflict.about));
        for answer in &conflict.answers {
            _ = writeln!(out, "  - {}: {}", plain(&answer.answer), plain(&answer.sources.join(", ")));
        }
    }
    out
}

fn rows(fleet: &Fleet) -> Vec<Vec<String>> {
    let of = |(model, seen): (&Model, &Seen)| {
        let mut row = vec![model.name.clone()];
        row.extend((!model.driver.is_empty()).then(|| format!("driver {}", model.driver)));
        row.extend((!model.code.is_nobody()).then(|| format!("code by {}", model.code.toolkit())));
        row.extend((!seen.devices.is_empty()).then(|| counted(seen.devices.len(), "device")));
        row.push(counted(seen.records, "record"));
        row.push(format!("trials: {}", verdicts(seen)));
        row
    };
    fleet.models.iter().map(of).collect()
}

fn verdicts(seen: &Seen) -> String {
    let of = |(verdict, n): (&Verdict, &usize)| format!("{n} {}", verdict.word().replace('_', " "));
    seen.trials.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn size(merged: &Record) -> String {
    let cells: usize = merged.matrix.variants.iter().map(VariantRow::answered).sum();
    format!(
        "{} of {}, {}",
        counted(cells, "cell"),
        counted(merged.matrix.variants.len(), "variant"),
        counted(merged.trials.len(), "trial")
    )
}
