//! Advice to the owner about code that does not run.

use std::collections::BTreeSet;

use ptx::arch;

use super::exceptions::file_name;
use super::rollup::{Group, Tally, whole};
use crate::record::{AuditTable, AuditVerdict, Support};

/// The number of names in one sentence.
const NAMED: usize = 5;

/// The names in a sentence, and the devices that it applies to.
#[derive(Default)]
struct Those<'a> {
    names: Vec<&'a str>,
    devices: BTreeSet<usize>,
}

impl<'a> Those<'a> {
    fn add(&mut self, name: &'a str, devices: impl Iterator<Item = usize>) {
        let devices: Vec<usize> = devices.collect();
        if !devices.is_empty() {
            self.names.push(name);
            self.devices.extend(devices);
        }
    }

    /// `a, b and c`, or the first ones and the number of the others.
    fn named(&self) -> String {
        match self.names.as_slice() {
            [one] => (*one).to_owned(),
            [some @ .., last] if self.names.len() <= NAMED => format!("{} and {last}", some.join(", ")),
            _ => format!("{} and {} more", self.names[..NAMED].join(", "), self.names.len() - NAMED),
        }
    }

    fn on(&self, table: &AuditTable) -> String {
        let names: Vec<&str> = self.devices.iter().map(|d| table.devices[*d].name.as_str()).collect();
        names.join(" and ")
    }
}

/// One sentence per kind of problem, with the names of the affected packages, or of files if there are no packages.
pub(super) fn to_do(table: &AuditTable, packages: &[Group], files: &[Group]) -> Vec<String> {
    let subjects: Vec<(&str, &Group)> = if packages.iter().any(|g| g.kernels() > 0) {
        table.packages.iter().zip(packages).map(|(p, g)| (p.name.as_str(), g)).collect()
    } else {
        table.files.iter().zip(files).map(|(f, g)| (file_name(whole(&f.path)), g)).collect()
    };
    let [mut none, mut other, mut some, mut empty, mut back, mut jit] = [(); 6].map(|()| Those::default());
    for (name, group) in subjects.into_iter().filter(|(_, g)| g.kernels() > 0) {
        let all = group.kernels();
        let on = |holds: &dyn Fn(&Tally) -> bool| -> Vec<usize> {
            let tallies = group.tallies.iter().enumerate();
            tallies.filter(|(_, t)| holds(t)).map(|(d, _)| d).collect()
        };
        // What compiles on first use is not lost because of what it also carries for other devices.
        let compiles = table.packages.iter().any(|p| p.name == name && !p.compiles.is_empty());
        let all_lost = on(&|t| t.count(AuditVerdict::NoCode) == all);
        (if compiles { &mut other } else { &mut none }).add(name, all_lost.into_iter());
        some.add(name, on(&|t| (1..all).contains(&t.count(AuditVerdict::NoCode))).into_iter());
        empty.add(name, on(&|t| t.count(AuditVerdict::Stub) > 0).into_iter());
        back.add(name, on(&|t| t.count(AuditVerdict::Fallback) > 0).into_iter());
        jit.add(name, on(&|t| t.count(AuditVerdict::Jit) > 0).into_iter());
    }
    let mut out = Vec::new();
    if !none.names.is_empty() {
        out.push(format!(
            "{}: none of the kernels runs on {}. Install a release built for it, or build it as below. A call fails \
            with \"no kernel image is available for execution on the device\".",
            none.named(),
            none.on(table)
        ));
    }
    if !other.names.is_empty() {
        out.push(format!(
            "{}: its kernels are for other GPUs; for {} it compiles at run time, as said above.",
            other.named(),
            other.on(table)
        ));
    }
    if !some.names.is_empty() {
        out.push(format!(
            "{}: some kernels have no code for {}. That is by design for kernels with tcgen05 or wgmma, which SM12x \
            lacks, and for kernels with other instances that run; the list above shows which. Build the others that \
            you need as below.",
            some.named(),
            some.on(table)
        ));
    }
    if !empty.names.is_empty() {
        out.push(format!(
            "{}: stubs load and compute nothing on {}: their source does not know the target, or the build dropped \
            its suffix. Build as below and audit again, unless they are meant only to print or to trap.",
            empty.named(),
            empty.on(table)
        ));
    }
    if !back.names.is_empty() {
        out.push(format!(
            "{}: fall-backs are correct but slower: they do not use the FP4 hardware of {}. Choose a backend that \
            does from the list of backends, or build as below.",
            back.named(),
            back.on(table)
        ));
    }
    let lost: BTreeSet<usize> =
        [&none, &some, &empty, &back].iter().flat_map(|those| those.devices.iter().copied()).collect();
    out.extend(build(table, &lost));
    if !jit.names.is_empty() {
        out.push(format!(
            "{}: some kernels run by JIT on {}: {}. The first load is slow; CUDA_CACHE_MAXSIZE=4294967296 makes the \
            cache large enough to keep the compiled code.",
            jit.named(),
            jit.on(table),
            driver(table)
        ));
    }
    for package in table.packages.iter().filter(|p| p.knows.contains(&Support::Absent)) {
        let devices = table.devices.iter().zip(&package.knows).filter(|(_, k)| **k == Support::Absent);
        let devices: Vec<&str> = devices.map(|(device, _)| device.name.as_str()).collect();
        out.push(format!(
            "{}: compiles with {}: install a release that compiles for {}, if there is one.",
            package.name,
            package.compiles,
            devices.join(" and ")
        ));
    }
    out
}

/// How to build code for these devices.
fn build(table: &AuditTable, lost: &BTreeSet<usize>) -> Option<String> {
    let numbers: Vec<u16> =
        lost.iter().filter_map(|d| table.devices[*d].architecture()).map(|target| target.number).collect();
    let names: Vec<&str> = lost.iter().map(|d| table.devices[*d].name.as_str()).collect();
    let how = arch::rebuild(&numbers);
    let since = how.cuda.map_or_else(String::new, |v| format!(" (CUDA {v} or later)"));
    (!numbers.is_empty()).then(|| {
        format!(
            "To build for {}{since}: nvcc {}; CMAKE_CUDA_ARCHITECTURES=\"{}\"; TORCH_CUDA_ARCH_LIST=\"{}\".",
            names.join(" and "),
            how.nvcc,
            how.cmake,
            how.torch
        )
    })
}

/// The oldest driver that accepts all PTX that kernels depend on.
fn driver(table: &AuditTable) -> String {
    let serving = table.kernels.iter().flat_map(|k| {
        let jit = k.verdicts.iter().zip(&k.by).filter(|(v, _)| **v == AuditVerdict::Jit);
        jit.map(|(_, image)| &table.entries[k.images[*image].entry])
    });
    let newest = serving.filter_map(|e| e.isa).max();
    let words = newest.and_then(|isa| {
        Some(format!(
            "a driver of CUDA {} or later (as nvidia-smi shows it) accepts their PTX, {isa}",
            isa.cuda()?
        ))
    });
    words.unwrap_or_else(|| "the driver must support the version of their PTX".to_owned())
}
