//! Kernels summed up: by file, by package, by verdict.

use std::collections::{BTreeSet, HashMap};

use super::super::phrase::grouped;
use crate::record::{AuditKernel, AuditTable, AuditVerdict};

/// The verdicts on kernels for one device: their number by verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally([usize; AuditVerdict::ALL.len()]);

impl Tally {
    pub(super) fn add(&mut self, verdict: AuditVerdict, kernels: usize) {
        self.0[verdict as usize] += kernels;
    }

    pub(super) fn count(&self, verdict: AuditVerdict) -> usize {
        self.0[verdict as usize]
    }

    pub(super) fn all(&self) -> usize {
        self.0.iter().sum()
    }

    pub(super) fn running(&self) -> usize {
        AuditVerdict::ALL.iter().filter(|v| v.runs()).map(|v| self.count(*v)).sum()
    }

    /// `all run natively`, `211 run, 3 by JIT`, `none runs`; followed by the details if not all do.
    pub(super) fn words(&self) -> String {
        let (all, running) = (self.all(), self.running());
        if all == 0 {
            return "no kernel".to_owned();
        }
        if let Some(verdict) = AuditVerdict::ALL.iter().find(|v| self.count(**v) == all) {
            return match verdict {
                AuditVerdict::Native => "all run natively",
                AuditVerdict::Family => "all run (family)",
                AuditVerdict::Jit => "all run by JIT",
                AuditVerdict::Fallback => "all fall back",
                AuditVerdict::Undetermined => "undetermined",
                AuditVerdict::Stub if all == 1 => "a stub",
                AuditVerdict::Stub => "all are stubs",
                AuditVerdict::NoCode => "none runs",
            }
            .to_owned();
        }
        let kinds: Vec<String> = [
            (AuditVerdict::Jit, "by JIT"),
            (AuditVerdict::Fallback, "fall back"),
            (AuditVerdict::Stub, "stubs"),
            (AuditVerdict::Undetermined, "undetermined"),
        ]
        .iter()
        .filter(|(v, _)| self.count(*v) > 0)
        .map(|(v, word)| match self.count(*v) {
            1 if *v == AuditVerdict::Stub => "1 stub".to_owned(),
            count => format!("{} {word}", grouped(count)),
        })
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
    /// The verdicts for each device.
    pub(super) tallies: Vec<Tally>,
    /// The targets of its code, sorted.
    pub(super) targets: BTreeSet<String>,
    /// The number of its files with device code.
    pub(super) files: Vec<usize>,
    /// The number of its pieces of device code.
    pub(super) entries: usize,
    /// CUDA libraries that its files require.
    pub(super) needs: BTreeSet<String>,
}

impl Group {
    fn new(devices: usize) -> Self {
        Self { tallies: vec![Tally::default(); devices], ..Self::default() }
    }

    fn add_kernel(&mut self, kernel: &AuditKernel) {
        for (tally, verdict) in self.tallies.iter_mut().zip(&kernel.verdicts) {
            tally.add(*verdict, 1);
        }
    }

    fn add(&mut self, other: &Self) {
        for (tally, more) in self.tallies.iter_mut().zip(&other.tallies) {
            AuditVerdict::ALL.iter().for_each(|v| tally.add(*v, more.count(*v)));
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

/// The static library that a file is a member of, otherwise the file itself: a linked library is one unit to its owner.
pub(super) fn whole(path: &str) -> &str {
    path.find(".a!").map_or(path, |end| &path[..end + 2])
}

/// For every file, the first one with the same [`whole`].
pub(super) fn wholes(table: &AuditTable) -> Vec<usize> {
    let mut first = HashMap::new();
    let numbered = table.files.iter().enumerate();
    numbered.map(|(n, file)| *first.entry(whole(&file.path)).or_insert(n)).collect()
}

/// The kernels of every file; those of a static library's members belong to its first member.
pub(super) fn libraries(table: &AuditTable, files: &[Group]) -> Vec<Group> {
    let mut out = vec![Group::new(table.devices.len()); files.len()];
    for (whole, group) in wholes(table).into_iter().zip(files) {
        out[whole].add(group);
    }
    out
}

/// The kernels of every file.
pub(super) fn files(table: &AuditTable) -> Vec<Group> {
    let mut out = vec![Group::new(table.devices.len()); table.files.len()];
    for entry in &table.entries {
        let group = &mut out[entry.file];
        group.entries += 1;
        // Bitcode has no target and is never loaded.
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

/// The files of each package, and those without one.
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
    /// Indices into `kernels`.
    pub(super) kernels: Vec<usize>,
    /// Indices into `devices`.
    pub(super) devices: Vec<usize>,
}

/// Kernels that do not simply run, by file, verdict and reason. Devices with the same kernels are merged.
pub(super) fn exceptions(table: &AuditTable) -> Vec<Exception> {
    // File, verdict, reason, device, kernel: sorting brings equal ones together.
    let mut all: Vec<[usize; 5]> = Vec::new();
    for (number, kernel) in table.kernels.iter().enumerate() {
        for (device, verdict) in kernel.verdicts.iter().enumerate().filter(|(_, v)| !v.is_native()) {
            all.push([kernel.file, *verdict as usize, kernel.reasons[device], device, number]);
        }
    }
    all.sort_unstable();
    let mut out: Vec<Exception> = Vec::new();
    for same in all.chunk_by(|a, b| a[..4] == b[..4]) {
        let [file, verdict, reason, device, _] = same[0];
        let verdict = AuditVerdict::ALL[verdict];
        let kernels: Vec<usize> = same.iter().map(|row| row[4]).collect();
        let of_file = out.iter_mut().rev().take_while(|e| e.file == file);
        let mut before =
            of_file.filter(|e| e.verdict == verdict && e.reason == reason && e.kernels == kernels);
        match before.next() {
            Some(exception) => exception.devices.push(device),
            None => out.push(Exception { file, verdict, reason, kernels, devices: vec![device] }),
        }
    }
    out
}
