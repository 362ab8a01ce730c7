//! The origin of merged records: GPU models with their drivers, and toolkits.

use std::collections::{BTreeMap, BTreeSet};

use ptx::arch::ToolkitVersion;

use crate::record::{CodeBy, DeviceRow, EMULATOR, Record, Verdict};

/// A GPU model with a driver, or the emulator, with the generator of its code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Model {
    /// The name.
    pub name: String,
    /// The driver version; empty for the emulator or if unknown.
    pub driver: String,
    /// The tool that generated the code.
    pub code: CodeBy,
}

/// The results of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The identifiers of its devices. Devices without an identifier count as one.
    pub devices: BTreeSet<String>,
    /// The number of records with trials or runs on it.
    pub records: usize,
    /// Its trials in all records, by verdict.
    pub trials: BTreeMap<Verdict, usize>,
}

/// The records that were merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleet {
    /// The number of records.
    pub records: usize,
    /// The models that ran kernels.
    pub models: BTreeMap<Model, Seen>,
    /// The number of records that queried each toolkit.
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
        for trial in &record.trials {
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

/// Returns the model of a device, and the device's identifier (`None` for the emulator).
fn model(record: &Record, device: &str, code: &CodeBy) -> (Model, Option<String>) {
    let row = record.devices.iter().find(|d| d.device == device);
    let named = |f: fn(&DeviceRow) -> &String| row.map(f).cloned().unwrap_or_default();
    let name = row.map_or_else(|| device.to_owned(), |d| d.name.clone());
    let identity = (device != EMULATOR).then(|| named(|d| &d.id));
    (Model { name, driver: named(|d| &d.driver), code: code.clone() }, identity)
}
