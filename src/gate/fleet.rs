//! Whose records were merged: devices by model, driver and toolkit, and what they disagree about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ptx::arch::ToolkitVersion;

use crate::record::{CodeBy, DeviceRow, EMULATOR, Record, VariantRow, Verdict};

/// Conflicts that the terminal shows; Markdown and the merged record hold all.
const SHOWN: usize = 40;

/// What runs kernels: a model of GPU with a driver, or the emulator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// The driver's version; empty for the emulator and where it is not known.
    pub driver: String,
    /// Who made the code.
    pub code: CodeBy,
}

/// What a model was seen to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Devices, by what tells one from another. Records that do not say count as one device together.
    pub devices: BTreeSet<String>,
    /// Records that hold trials of it.
    pub records: usize,
    /// Its trials by verdict, of all records together.
    pub trials: BTreeMap<Verdict, usize>,
}

/// The records that were merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleet {
    /// How many.
    pub records: usize,
    /// What ran kernels.
    pub models: BTreeMap<Model, Seen>,
    /// How many records asked each toolkit's assembler.
    pub toolkits: BTreeMap<ToolkitVersion, usize>,
}

impl Fleet {
    /// Counts one record.
    pub(super) fn add(&mut self, record: &Record) {
        self.records += 1;
        for toolkit in &record.matrix.toolkits {
            *self.toolkits.entry(toolkit.version).or_default() += 1;
        }
        let mut here = BTreeSet::new();
        for trial in &record.pipeline {
            let (model, identity) = model(record, &trial.device, &trial.code);
            let seen = self.models.entry(model.clone()).or_default();
            seen.devices.extend(identity);
            *seen.trials.entry(trial.verdict()).or_default() += 1;
            here.insert(model);
        }
        for run in &record.runs {
            let (model, identity) = model(record, &run.device, &run.code);
            self.models.entry(model.clone()).or_default().devices.extend(identity);
            here.insert(model);
        }
        for model in here {
            self.models.entry(model).or_default().records += 1;
        }
    }
}

/// The model of a device of a record, and what tells this one from others; none for the emulator.
fn model(record: &Record, device: &str, code: &CodeBy) -> (Model, Option<String>) {
    let row = record.devices.iter().find(|d| d.device == device);
    let named = |f: fn(&DeviceRow) -> &String| row.map(f).cloned().unwrap_or_default();
    let name = row.map_or_else(|| device.to_owned(), |d| d.name.clone());
    let identity = (device != EMULATOR).then(|| named(|d| &d.id));
    (Model { name, driver: named(|d| &d.driver), code: code.clone() }, identity)
}

/// For the terminal.
#[must_use]
pub fn fleet_text(fleet: &Fleet, merged: &Record) -> String {
    let mut out = format!("{} records, {}\n", fleet.records, size(merged));
    for row in rows(fleet) {
        _ = writeln!(out, "  {}", row.join("; "));
    }
    for (toolkit, n) in &fleet.toolkits {
        _ = writeln!(out, "  ptxas {toolkit} queried by {n} records");
    }
    _ = writeln!(out, "{} conflicts", merged.conflicts.len());
    for conflict in merged.conflicts.iter().take(SHOWN) {
        _ = writeln!(out, "  {}", conflict.about);
        for answer in &conflict.answers {
            _ = writeln!(out, "    {}: {}", answer.answer, answer.sources.join(", "));
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
    let plain = |text: &str| text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ");
    let mut out = format!("{} records, {}\n\n", fleet.records, size(merged));
    if !fleet.models.is_empty() {
        out.push_str(
            "| device | driver | toolkit | devices | records | trials |\n|---|---|---|---|---|---|\n",
        );
        for (model, seen) in &fleet.models {
            let cells = [&model.name, &model.driver, &*model.code.toolkit()].map(plain);
            _ = writeln!(
                out,
                "| {} | {} | {} | {} |",
                cells.join(" | "),
                seen.devices.len(),
                seen.records,
                verdicts(seen)
            );
        }
        out.push('\n');
    }
    for (toolkit, n) in &fleet.toolkits {
        _ = writeln!(out, "- ptxas {toolkit}: {n} records");
    }
    _ = writeln!(out, "\n### {} conflicts\n", merged.conflicts.len());
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
        row.extend((!seen.devices.is_empty()).then(|| format!("{} devices", seen.devices.len())));
        row.push(format!("{} records", seen.records));
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
    format!("{cells} cells of {} variants, {} trials", merged.matrix.variants.len(), merged.pipeline.len())
}
