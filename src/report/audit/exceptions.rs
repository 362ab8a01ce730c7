//! What does not simply run, in sentences: kernels of a package that share a verdict and a reason stand together.

use std::cmp::Reverse;
use std::collections::HashSet;

use indexmap::IndexMap;

use super::super::phrase::{counted, grouped, kernel};
use super::rollup::Exception;
use crate::record::{AuditTable, AuditVerdict, readable_kernel};

/// Who is spoken of: verdict, reason (none where reasons differ in a version alone), devices, package or file.
type Subject = (AuditVerdict, Option<usize>, Vec<usize>, Result<usize, usize>);

/// A sentence for each group, by [`rank`], then the largest first. A kernel's name has at most `width` characters.
pub(super) fn items(table: &AuditTable, exceptions: &[Exception], width: usize) -> Vec<String> {
    let mut by: IndexMap<Subject, Vec<&Exception>> = IndexMap::new();
    for e in exceptions {
        let owner = table.files[e.file].package.ok_or(e.file);
        // PTX of several versions is one thing to its owner.
        let reason = (e.verdict != AuditVerdict::Jit).then_some(e.reason);
        by.entry((e.verdict, reason, e.devices.clone(), owner)).or_default().push(e);
    }
    let mut groups: Vec<(Subject, Vec<&Exception>)> = by.into_iter().collect();
    groups.sort_by_key(|((verdict, ..), list)| (rank(*verdict), Reverse(weight(list))));
    let running = running(table);
    groups.iter().map(|(subject, list)| sentence(table, subject, list, &running, width)).collect()
}

/// Names of kernels, without template arguments, of which some instance runs: by device and package or file.
type Running = HashSet<(usize, Result<usize, usize>, String)>;

fn running(table: &AuditTable) -> Running {
    let mut out = HashSet::new();
    for kernel in &table.kernels {
        for (device, verdict) in kernel.verdicts.iter().enumerate() {
            if verdict.runs() {
                let owner = table.files[kernel.file].package.ok_or(kernel.file);
                out.insert((device, owner, readable_kernel(&kernel.name)));
            }
        }
    }
    out
}

/// What surprises an owner most comes first: code that loads and is not what it is called.
const fn rank(verdict: AuditVerdict) -> u8 {
    match verdict {
        AuditVerdict::Stub => 0,
        AuditVerdict::Fallback => 1,
        AuditVerdict::Undetermined => 2,
        AuditVerdict::NoCode => 3,
        AuditVerdict::Jit => 4,
        AuditVerdict::Native | AuditVerdict::Family => 5,
    }
}

fn weight(list: &[&Exception]) -> usize {
    list.iter().map(|e| e.kernels.len()).sum()
}

fn sentence(
    table: &AuditTable,
    (verdict, reason, devices, owner): &Subject,
    list: &[&Exception],
    running: &Running,
    width: usize,
) -> String {
    let names: Vec<&str> = devices.iter().map(|d| table.devices[*d].name.as_str()).collect();
    let mut place = owner.map_or_else(|_| String::new(), |p| format!("{}, ", table.packages[p].name));
    let mut files: Vec<usize> = list.iter().map(|e| e.file).collect();
    files.dedup();
    match files.as_slice() {
        [one] => place.push_str(file_name(&table.files[*one].path)),
        many => place.push_str(&counted(many.len(), "file")),
    }
    let why = reason.map_or_else(|| ptx(table, list, devices[0]), |r| table.reasons[r].clone());
    let kernels = || list.iter().flat_map(|e| &e.kernels).map(|k| &table.kernels[*k]);
    let example = kernels().next().map_or("", |k| k.name.as_str());
    let mut out = format!(
        "{}: {place}: {}: {why}; such as {}",
        names.join(" and "),
        phrase(*verdict, weight(list)),
        kernel(example, width)
    );
    if *verdict == AuditVerdict::NoCode {
        // Instances for other GPUs are no loss where the same kernel has some for this one.
        let served = kernels()
            .filter(|k| {
                let name = readable_kernel(&k.name);
                name.contains('<') && devices.iter().all(|d| running.contains(&(*d, *owner, name.clone())))
            })
            .count();
        if served > 0 {
            let which = if served == weight(list) {
                "all of them".to_owned()
            } else {
                format!("{} of them", grouped(served))
            };
            out.push_str(&format!(" (other instances of {which} run)"));
        }
    }
    out
}

/// The file of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Which PTX the driver compiles: `PTX 8.0 to 9.0, which the driver compiles when it is first loaded`.
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
    format!("{range}, which the driver compiles when it is first loaded{needs}")
}

fn phrase(verdict: AuditVerdict, kernels: usize) -> String {
    let what = counted(kernels, "kernel");
    match verdict {
        AuditVerdict::NoCode => format!("{what} without code"),
        AuditVerdict::Stub => format!("{what} with an empty body"),
        AuditVerdict::Fallback => format!("{what} in a fall-back"),
        AuditVerdict::Jit => format!("{what} by JIT"),
        AuditVerdict::Undetermined => format!("{what} undetermined"),
        AuditVerdict::Native | AuditVerdict::Family => what,
    }
}
