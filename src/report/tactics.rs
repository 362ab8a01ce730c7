//! Tiles that may be used and tiles that must not, per device, as a JSON list for an autotuner.
//!
//! An entry is one configuration of the grouped GEMM on one device: `allowed` is true if at least one trial was judged and all
//! judged trials passed. A configuration that was never judged is not allowed: silence proves nothing.

use std::collections::BTreeMap;

use ptx::arch::Target;
use serde::Serialize;

use super::trials::{check_sentence, sentence};
use crate::moe::configuration::Configuration;
use crate::record::{CodeBy, Named, Record, TrialRow, Verdict};

/// The content of one tactic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    device: &'a str,
    target: &'a Named<Target>,
    code: &'a CodeBy,
    configuration: Configuration,
}

#[derive(Serialize)]
struct Tactic<'a> {
    device: &'a str,
    /// Name and driver of the device, if the record has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_name: Option<String>,
    target: &'a Named<Target>,
    code: &'a CodeBy,
    tile_m: u32,
    tile_n: u32,
    tile_k: u32,
    swap_ab: bool,
    kernel_path: &'static str,
    load: &'static str,
    stages: u32,
    allowed: bool,
    verdict: &'static str,
    /// Trials that were judged.
    judged: usize,
    reason: String,
}

/// The tactics of a record as a JSON list, by device, target and tile.
///
/// # Errors
/// Only if serialisation itself fails.
pub fn tactics(record: &Record) -> serde_json::Result<String> {
    let mut found: BTreeMap<Key<'_>, Vec<&TrialRow>> = BTreeMap::new();
    for trial in &record.trials {
        // Other families have no tiles for an autotuner of GEMMs.
        let Some(configuration) = Configuration::from_name(&trial.configuration) else { continue };
        let key = Key { device: &trial.device, target: &trial.target, code: &trial.code, configuration };
        found.entry(key).or_default().push(trial);
    }
    let list: Vec<Tactic<'_>> = found.into_iter().map(|(key, trials)| tactic(record, key, &trials)).collect();
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

fn tactic<'a>(record: &Record, key: Key<'a>, trials: &[&TrialRow]) -> Tactic<'a> {
    let judged = trials.iter().filter(|t| t.is_judged()).count();
    let wrong = trials.iter().find(|t| !t.conforms() || t.verdict() == Verdict::KnownFail);
    let of = |trial: &TrialRow| {
        let result = trial.results.iter().find(|r| r.verdict != Verdict::Pass).map(sentence);
        let check = trial.wrong_check().map(check_sentence);
        format!("{}: {}", trial.case, result.or(check).unwrap_or_default())
    };
    let (allowed, verdict, reason) = match (wrong, trials.first()) {
        (Some(wrong), _) => (false, wrong.verdict(), of(wrong)),
        (None, _) if judged > 0 => (true, Verdict::Pass, String::new()),
        (None, Some(first)) => (false, first.verdict(), of(first)),
        (None, None) => (false, Verdict::Skipped, String::new()),
    };
    Tactic {
        device: key.device,
        device_name: device_name(record, key.device),
        target: key.target,
        code: key.code,
        tile_m: key.configuration.tile.m,
        tile_n: key.configuration.tile.n,
        tile_k: key.configuration.tile.k,
        swap_ab: key.configuration.swap_ab,
        kernel_path: key.configuration.path.word(),
        load: key.configuration.load.word(),
        stages: trials.iter().map(|t| t.depth).max().unwrap_or_default(),
        allowed,
        verdict: verdict.word(),
        judged,
        reason,
    }
}

fn device_name(record: &Record, device: &str) -> Option<String> {
    let row = record.devices.iter().find(|d| d.device == device)?;
    Some(format!("{}, driver {}", row.name, row.driver))
}
