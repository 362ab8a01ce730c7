//! Kernels that do not simply run, in sentences: one per package, verdict and reason.

use std::collections::HashSet;

use super::super::phrase::{counted, grouped, kernel};
use super::rollup::{self, Exception};
use crate::record::{AuditTable, AuditVerdict, readable_kernel};

/// The exceptions of one sentence.
struct Subject<'a> {
    /// Package or file.
    owner: Result<usize, usize>,
    /// `None` if the reasons differ only in a version.
    reason: Option<usize>,
    list: Vec<&'a Exception>,
}

impl Subject<'_> {
    fn takes(&self, owner: Result<usize, usize>, e: &Exception) -> bool {
        let first = self.list[0];
        self.owner == owner
            && first.verdict == e.verdict
            && first.devices == e.devices
            && self.reason.is_none_or(|reason| reason == e.reason)
    }

    fn kernels(&self) -> usize {
        self.list.iter().map(|e| e.kernels.len()).sum()
    }
}

/// One sentence per group, by [`rank`], then the largest first. A kernel's name has at most `width` characters.
pub(super) fn items(table: &AuditTable, exceptions: &[Exception], width: usize) -> Vec<String> {
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    let wholes = rollup::wholes(table);
    let owner_of = |file: usize| table.files[file].package.ok_or(wholes[file]);
    for e in exceptions {
        let owner = owner_of(e.file);
        // PTX of several versions is one issue for its owner.
        let reason = (e.verdict != AuditVerdict::Jit).then_some(e.reason);
        match subjects.iter_mut().find(|s| s.takes(owner, e)) {
            Some(subject) => subject.list.push(e),
            None => subjects.push(Subject { owner, reason, list: vec![e] }),
        }
    }
    let mut order: Vec<[usize; 3]> = subjects
        .iter()
        .enumerate()
        .map(|(n, s)| [usize::from(rank(table, s)), usize::MAX - s.kernels(), n])
        .collect();
    order.sort_unstable();
    let running = running(table, &owner_of);
    order.iter().map(|[_, _, n]| sentence(table, &subjects[*n], &running, width)).collect()
}

/// Names of kernels, without template arguments, of which some instance runs, with device and package or file.
type Running = HashSet<String>;

fn key(device: usize, owner: Result<usize, usize>, name: &str) -> String {
    format!("{device} {owner:?} {name}")
}

fn running(table: &AuditTable, owner_of: &impl Fn(usize) -> Result<usize, usize>) -> Running {
    let mut out = HashSet::new();
    for kernel in &table.kernels {
        let name = readable_kernel(&kernel.name);
        let owner = owner_of(kernel.file);
        let on = kernel.verdicts.iter().enumerate().filter(|(_, v)| v.runs());
        out.extend(on.map(|(device, _)| key(device, owner, &name)));
    }
    out
}

/// The most surprising comes first: code that loads but is not what its name says, then code that misses the device only by
/// its suffix or minor version, then code for other GPUs.
fn rank(table: &AuditTable, subject: &Subject<'_>) -> u8 {
    let first = subject.list[0];
    match first.verdict {
        AuditVerdict::Stub => 0,
        AuditVerdict::Fallback => 1,
        AuditVerdict::Undetermined => 2,
        AuditVerdict::NoCode if misses(table, first) => 3,
        AuditVerdict::NoCode => 4,
        AuditVerdict::Jit => 5,
        AuditVerdict::Native | AuditVerdict::Family => 6,
    }
}

/// Whether the nearest code of a kernel is for the device's own family.
fn misses(table: &AuditTable, e: &Exception) -> bool {
    let family = |name: &str| {
        name.trim_end_matches(['a', 'f', '?']).strip_prefix("sm_").map(|n| n[..n.len() - 1].to_owned())
    };
    let Some(kernel) = e.kernels.first().map(|k| &table.kernels[*k]) else { return false };
    let device = e.devices[0];
    let nearest = &table.entries[kernel.images[kernel.by[device]].entry];
    nearest.target.len() > 4 && family(&nearest.target) == family(&table.devices[device].name)
}

fn sentence(table: &AuditTable, subject: &Subject<'_>, running: &Running, width: usize) -> String {
    let Subject { owner, reason, list } = subject;
    let (verdict, devices) = (list[0].verdict, &list[0].devices);
    let names: Vec<&str> = devices.iter().map(|d| table.devices[*d].name.as_str()).collect();
    let mut place = match owner {
        Ok(package) => format!("{}, ", table.packages[*package].name),
        Err(_) => String::new(),
    };
    let mut files: Vec<usize> = list.iter().map(|e| e.file).collect();
    files.dedup();
    match files.as_slice() {
        [one] => place.push_str(file_name(&table.files[*one].path)),
        [first, ..] if owner.is_err() => {
            let library = file_name(rollup::whole(&table.files[*first].path));
            place.push_str(&format!("{library}, {}", counted(files.len(), "member")));
        }
        many => place.push_str(&counted(many.len(), "file")),
    }
    let why = reason.map_or_else(|| ptx(table, list, devices[0]), |r| table.reasons[r].clone());
    let kernels = || list.iter().flat_map(|e| &e.kernels).map(|k| &table.kernels[*k]);
    let example = kernels().next().map_or("", |k| k.name.as_str());
    let mut out = format!(
        "{}: {place}: {}: {why}; such as {}",
        names.join(" and "),
        phrase(verdict, subject.kernels()),
        kernel(example, width)
    );
    if verdict == AuditVerdict::NoCode {
        // Instances for other GPUs are no loss if the same kernel has instances for this one.
        let served = kernels()
            .filter(|k| {
                let name = readable_kernel(&k.name);
                name.contains('<') && devices.iter().all(|d| running.contains(&key(*d, *owner, &name)))
            })
            .count();
        if served > 0 {
            let all = served == subject.kernels();
            let which = if all { "all of them".to_owned() } else { format!("{} of them", grouped(served)) };
            out.push_str(&format!(" (other instances of {which} run)"));
        }
    }
    out
}

/// The file name of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The PTX that the driver compiles: `PTX 8.0 to 9.0, which the driver compiles when it is first loaded`.
fn ptx(table: &AuditTable, list: &[&Exception], device: usize) -> String {
    let entries = list.iter().flat_map(|e| &e.kernels).map(|k| {
        let kernel = &table.kernels[*k];
        &table.entries[kernel.images[kernel.by[device]].entry]
    });
    let versions: Vec<_> = entries.filter_map(|e| e.isa).collect();
    let range = match (versions.iter().min(), versions.iter().max()) {
        (Some(low), Some(high)) if low == high => format!("PTX {low}"),
        (Some(low), Some(high)) => format!("PTX {low} to {high}"),
        _ => "PTX".to_owned(),
    };
    let needs = versions.iter().max().and_then(|isa| isa.cuda());
    let needs = needs.map_or_else(String::new, |cuda| format!("; needs a driver of CUDA {cuda} or later"));
    format!("{range}, which the driver compiles at the first load{needs}")
}

fn phrase(verdict: AuditVerdict, kernels: usize) -> String {
    let what = counted(kernels, "kernel");
    match verdict {
        AuditVerdict::NoCode => format!("{what} without code"),
        AuditVerdict::Stub => counted(kernels, "stub"),
        AuditVerdict::Fallback => format!("{what} in a fall-back"),
        AuditVerdict::Jit => format!("{what} by JIT"),
        AuditVerdict::Undetermined => format!("{what} undetermined"),
        AuditVerdict::Native | AuditVerdict::Family => what,
    }
}
