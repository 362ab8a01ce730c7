//! Kernels summed up: by file, by package, by what becomes of them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::phrase::grouped;
use crate::record::{AuditKernel, AuditTable, AuditVerdict};

/// What becomes of some kernels on one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally(BTreeMap<AuditVerdict, usize>);

impl Tally {
    pub(super) fn add(&mut self, verdict: AuditVerdict) {
        *self.0.entry(verdict).or_default() += 1;
    }

    pub(super) fn of(&self, verdict: AuditVerdict) -> usize {
        self.0.get(&verdict).copied().unwrap_or_default()
    }

    pub(super) fn all(&self) -> usize {
        self.0.values().sum()
    }

    pub(super) fn running(&self) -> usize {
        self.0.iter().filter(|(v, _)| v.runs()).map(|(_, n)| n).sum()
    }

    /// `all run natively`, `211 run, 3 by JIT`, `none runs`; what is behind it where that is not all.
    pub(super) fn words(&self) -> String {
        let (all, running) = (self.all(), self.running());
        if all == 0 {
            return "no kernel".to_owned();
        }
        if let Some((verdict, _)) = self.0.iter().find(|(_, n)| **n == all) {
            return match verdict {
                AuditVerdict::Native => "all run natively",
                AuditVerdict::Family => "all run (family)",
                AuditVerdict::Jit => "all run by JIT",
                AuditVerdict::Fallback => "all fall back",
                AuditVerdict::Undetermined => "undetermined",
                AuditVerdict::Stub => "all are empty shells",
                AuditVerdict::NoCode => "none runs",
            }
            .to_owned();
        }
        let kinds: Vec<String> = [
            (AuditVerdict::Jit, "by JIT"),
            (AuditVerdict::Fallback, "fall back"),
            (AuditVerdict::Stub, "empty"),
            (AuditVerdict::Undetermined, "undetermined"),
        ]
        .iter()
        .filter(|(v, _)| self.of(*v) > 0)
        .map(|(v, word)| format!("{} {word}", grouped(self.of(*v))))
        .collect();
        let head = if running == all {
            "all run".to_owned()
        } else if running == 0 {
            "none runs".to_owned()
        } else {
            format!("{} run", grouped(running))
        };
        [head].into_iter().chain(kinds).collect::<Vec<_>>().join(", ")
    }
}

/// A file or a package.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// For each device.
    pub(super) tallies: Vec<Tally>,
    /// The targets of its code, sorted.
    pub(super) targets: BTreeSet<String>,
    /// Its files that hold device code.
    pub(super) files: Vec<usize>,
    /// Its pieces of device code.
    pub(super) entries: usize,
    /// CUDA libraries that its files ask for.
    pub(super) needs: BTreeSet<String>,
}

impl Group {
    fn new(devices: usize) -> Self {
        Self { tallies: vec![Tally::default(); devices], ..Self::default() }
    }

    fn add_kernel(&mut self, kernel: &AuditKernel) {
        for (tally, verdict) in self.tallies.iter_mut().zip(&kernel.verdicts) {
            tally.add(*verdict);
        }
    }

    fn add(&mut self, other: &Self) {
        for (tally, more) in self.tallies.iter_mut().zip(&other.tallies) {
            for (verdict, n) in &more.0 {
                *tally.0.entry(*verdict).or_default() += n;
            }
        }
        self.targets.extend(other.targets.iter().cloned());
        self.files.extend(&other.files);
        self.entries += other.entries;
        self.needs.extend(other.needs.iter().cloned());
    }

    pub(super) fn kernels(&self) -> usize {
        self.tallies.first().map_or(0, Tally::all)
    }
}

/// Every file's kernels.
pub(super) fn files(table: &AuditTable) -> Vec<Group> {
    let mut out = vec![Group::new(table.devices.len()); table.files.len()];
    for entry in &table.entries {
        let group = &mut out[entry.file];
        group.entries += 1;
        // Bitcode has no target, and nothing loads it.
        if !entry.target.is_empty() {
            let kind = if entry.kind == "ptx" { "PTX " } else { "" };
            group.targets.insert(format!("{kind}{}", entry.target.trim_start_matches("sm_")));
        }
    }
    for kernel in &table.kernels {
        out[kernel.file].add_kernel(kernel);
    }
    for (number, (group, file)) in out.iter_mut().zip(&table.files).enumerate() {
        if group.entries > 0 {
            group.files.push(number);
        }
        group.needs.extend(file.needs.iter().cloned());
    }
    out
}

/// The files of each package, and those of none.
pub(super) fn packages(table: &AuditTable, files: &[Group]) -> (Vec<Group>, Group) {
    let empty = || Group::new(table.devices.len());
    let mut out: Vec<Group> = table.packages.iter().map(|_| empty()).collect();
    let mut rest = empty();
    for (file, group) in table.files.iter().zip(files) {
        match file.package {
            Some(package) => out[package].add(group),
            None => rest.add(group),
        }
    }
    (out, rest)
}

/// Kernels of one file that share a verdict and a reason on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exception {
    pub(super) file: usize,
    pub(super) verdict: AuditVerdict,
    pub(super) reason: usize,
    /// Of `kernels`.
    pub(super) kernels: Vec<usize>,
    /// Of `devices`.
    pub(super) devices: Vec<usize>,
}

/// What does not simply run, by file and reason; the worst first within a file. Devices with the same kernels stand together.
pub(super) fn exceptions(table: &AuditTable) -> Vec<Exception> {
    let mut by: BTreeMap<(usize, std::cmp::Reverse<AuditVerdict>, usize, usize), Vec<usize>> =
        BTreeMap::new();
    for (number, kernel) in table.kernels.iter().enumerate() {
        for (device, verdict) in kernel.verdicts.iter().enumerate() {
            if !verdict.is_native() {
                let key = (kernel.file, std::cmp::Reverse(*verdict), kernel.reasons[device], device);
                by.entry(key).or_default().push(number);
            }
        }
    }
    let mut out: Vec<Exception> = Vec::new();
    for ((file, verdict, reason, device), kernels) in by {
        let same = out
            .iter_mut()
            .rev()
            .take_while(|e| e.file == file)
            .find(|e| e.verdict == verdict.0 && e.reason == reason && e.kernels == kernels);
        match same {
            Some(exception) => exception.devices.push(device),
            None => out.push(Exception { file, verdict: verdict.0, reason, kernels, devices: vec![device] }),
        }
    }
    out
}
