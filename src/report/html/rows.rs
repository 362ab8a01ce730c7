//! Runs on GPUs, in the form that the script reads.

use serde::Serialize;

use super::super::phrase::clean;
use crate::record::{EMULATOR, Record};

/// A GPU of the record.
#[derive(Serialize)]
pub(super) struct Device {
    device: String,
    name: String,
    architecture: String,
    driver: String,
    cuda: String,
    sm12x: bool,
}

/// A form on a device.
#[derive(Serialize)]
pub(super) struct Run<'a> {
    form: &'a str,
    target: String,
    device: &'a str,
    code: String,
    /// Check, verdict and note.
    checks: Vec<(&'static str, &'static str, String)>,
}

/// The GPUs that took part.
pub(super) fn devices(record: &Record) -> Vec<Device> {
    let of = |row: &crate::record::DeviceRow| Device {
        device: row.device.clone(),
        name: clean(&row.name),
        architecture: row.architecture.clone(),
        driver: row.driver.clone(),
        cuda: row.cuda.clone(),
        sm12x: row.architecture.parse::<ptx::arch::Target>().is_ok_and(ptx::arch::Target::is_sm12x),
    };
    record.devices.iter().map(of).collect()
}

/// The forms that ran on a GPU or on the emulator, check by check.
pub(super) fn runs(record: &Record) -> Vec<Run<'_>> {
    let mut out: Vec<Run<'_>> = record
        .runs
        .iter()
        .map(|run| Run {
            form: &run.variant,
            target: run.target.to_string(),
            device: &run.device,
            code: run.code.to_string(),
            checks: run
                .checks
                .iter()
                .map(|check| (check.check.word(), check.verdict.word(), clean(&check.note)))
                .collect(),
        })
        .collect();
    // Evidence from GPUs comes first.
    out.sort_by_key(|run| run.device == EMULATOR);
    out
}
