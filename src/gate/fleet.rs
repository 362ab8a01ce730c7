//! Whose records were merged: devices by model, driver and toolkit, and what they disagree about.

use std::collections::{BTreeMap, BTreeSet};

use ptx::arch::ToolkitVersion;

use crate::record::{CodeBy, DeviceRow, EMULATOR, Record, Verdict};

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
