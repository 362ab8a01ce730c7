//! Collects the findings of a scan and judges each: entries by the rules, kernels by their best entry.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use compiler::known::find;
use devcode::{CodeKind, Entry, Found, Holder, Kernel, machine_code};
use indexmap::IndexSet;

use super::body::Body;
use super::disassemble::Namer;
use super::opcodes::classes;
use super::rule::{self, Device};
use crate::event::Sink;
use crate::record::{
    AuditDevice, AuditEntry, AuditFile, AuditImage, AuditKernel, AuditMiscompile, AuditProblem, AuditTable,
    AuditVerdict,
};
use crate::store::Store;
use crate::toolkit::Disassembler;

/// The kernels whose opcodes are disassembled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// No kernels.
    None,
    /// Kernels whose name promises block-scaled or FP4 arithmetic and that run as machine code on a queried device.
    Promising,
    /// Every kernel that runs as machine code on a queried device.
    All,
}

/// How opcodes are disassembled.
#[derive(Clone, Copy)]
pub struct Naming<'a> {
    /// The disassembler.
    pub disassembler: &'a Disassembler,
    /// The cache of opcode counts.
    pub store: Option<&'a Store>,
    /// A folder for temporary files.
    pub scratch: &'a Path,
    /// The kernels to disassemble.
    pub which: Which,
    /// Receives warnings.
    pub sink: &'a dyn Sink,
}

/// An audit under construction.
pub struct Collector<'a> {
    devices: Vec<Device>,
    table: AuditTable,
    reasons: IndexSet<String>,
    opcodes: IndexSet<String>,
    /// The index in the table of the file being scanned.
    file: Option<usize>,
    /// The kernels of that file, by name.
    known: HashMap<String, usize>,
    namer: Option<(Which, Namer<'a, Image>)>,
    instead: Instead,
    /// Images whose body is empty, and whose name promises nothing.
    empty: HashSet<Image>,
}

/// For each kernel, the images whose opcodes contradict their target, with the verdict and its reason.
type Instead = HashMap<usize, Vec<(usize, (AuditVerdict, String))>>;

/// A kernel and one of its images.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Image {
    kernel: usize,
    image: usize,
}

impl<'a> Collector<'a> {
    /// Creates an empty audit. `names` holds, for each device, the name of this machine's GPU of that architecture, or an
    /// empty string.
    #[must_use]
    pub fn new(devices: Vec<Device>, names: &[String], naming: Option<Naming<'a>>) -> Self {
        let row = |(device, gpu): (&Device, &String)| AuditDevice {
            name: device.name(),
            gpu: gpu.clone(),
            cuda: device.cuda.clone(),
            isa: device.isa,
        };
        let table = AuditTable {
            devices: devices.iter().zip(names).map(row).collect(),
            disassembler: naming.map(|n| n.disassembler.version),
            ..AuditTable::default()
        };
        let namer = naming
            .filter(|n| n.which != Which::None)
            .map(|n| (n.which, Namer::new(n.disassembler, n.store, n.scratch, n.sink)));
        Self {
            devices,
            table,
            reasons: IndexSet::new(),
            opcodes: IndexSet::new(),
            file: None,
            known: HashMap::new(),
            namer,
            instead: Instead::new(),
            empty: HashSet::new(),
        }
    }

    /// Adds a finding of the scan.
    pub fn take(&mut self, found: Found<'_>) {
        match found {
            Found::Entry { entry, code } => self.entry(&entry, code),
            Found::Holder(holder) => self.holder(&holder),
            Found::Problem(problem) => self.table.problems.push(AuditProblem {
                place: problem.place.to_string(),
                problem: problem.trouble.to_string(),
                remedy: problem.trouble.remedy().to_owned(),
            }),
        }
    }

    fn holder(&mut self, holder: &Holder) {
        let needs: Vec<String> = holder.needs.iter().filter(|n| is_cuda(n)).cloned().collect();
        let open = self.file.take().filter(|f| self.table.files[*f].path == *holder.file);
        self.known.clear();
        if open.is_none() && holder.entries == 0 && needs.is_empty() {
            return;
        }
        let file = open.unwrap_or_else(|| self.add_file(&holder.file));
        self.file = None;
        let row = &mut self.table.files[file];
        row.format = holder.format.word().to_owned();
        row.bytes = holder.bytes;
        row.needs = needs;
    }

    fn add_file(&mut self, path: &str) -> usize {
        self.table.files.push(AuditFile {
            path: path.to_owned(),
            format: String::new(),
            bytes: 0,
            needs: Vec::new(),
            package: None,
        });
        self.table.files.len() - 1
    }

    fn entry(&mut self, entry: &Entry, code: &[u8]) {
        let file = match self.file {
            Some(file) if self.table.files[file].path == *entry.place.file => file,
            _ => {
                self.known.clear();
                self.add_file(&entry.place.file)
            }
        };
        self.file = Some(file);
        let answers: Vec<(AuditVerdict, usize)> = self
            .devices
            .iter()
            .map(|device| {
                let (verdict, reason) = rule::answer(entry, device);
                (verdict, self.reasons.insert_full(reason).0)
            })
            .collect();
        let runs = answers.iter().any(|(verdict, _)| verdict.is_native());
        let compiles = answers.iter().any(|(verdict, _)| *verdict == AuditVerdict::Jit);
        let index = self.table.entries.len();
        self.table.entries.push(AuditEntry {
            file,
            index: entry.place.index,
            place: place(entry),
            kind: entry.kind.word().to_owned(),
            target: entry.target_text(),
            told_by: entry.told_by.word().to_owned(),
            isa: entry.isa,
            toolkit: entry.toolkit,
            compression: entry.compression.word().to_owned(),
            bytes: entry.bytes,
            kernels: entry.kernels.len(),
            verdicts: answers.iter().map(|(v, _)| *v).collect(),
            reasons: answers.iter().map(|(_, r)| *r).collect(),
        });
        if entry.kind == CodeKind::Ptx {
            self.table.miscompiles.extend(miscompiles(&place(entry), code));
        }
        let machine = matches!(entry.kind, CodeKind::Cubin | CodeKind::Relocatable);
        let codes = if machine { machine_code::of_kernels(code) } else { Vec::new() };
        let codes: HashMap<&str, &[u8]> = codes.iter().map(|(name, code)| (name.as_str(), *code)).collect();
        let callees = if machine && runs { machine_code::callees(code) } else { None };
        for kernel in &entry.kernels {
            let code = codes.get(kernel.name.as_str()).copied();
            let image = self.kernel(file, index, kernel, code);
            if let (Some(code), true) = (code, runs) {
                let called = |all: &'_ HashMap<String, Vec<String>>| all.get(&kernel.name).cloned();
                let called = callees.as_ref().map(|all| called(all).unwrap_or_default());
                self.body(image, Body::of_machine_code(code, entry.number, called.as_deref()));
            }
            // PTX needs no disassembler: its text lists the instructions.
            if compiles {
                self.body(image, Body::of_ptx(kernel));
            }
            if compiles && classes().is_some_and(|c| c.promises(&kernel.name)) {
                let counts = kernel.instructions.iter().map(|(class, n)| ((*class).to_owned(), *n)).collect();
                self.judge(image, CodeKind::Ptx, counts);
            }
            if let (Some(code), true, Some((which, namer))) = (code, runs, &mut self.namer) {
                let wanted = *which == Which::All || classes().is_some_and(|c| c.promises(&kernel.name));
                if wanted && !code.is_empty() {
                    namer.add(image, entry.number, code);
                }
            }
        }
    }

    /// Records whether the machine code of an image has any effect.
    fn body(&mut self, of: Image, body: Body) {
        let kernel = &mut self.table.kernels[of.kernel];
        if let Some(stub) = classes().and_then(|classes| classes.body(&kernel.name, body)) {
            kernel.images[of.image].shown = Some(stub.shown);
            let stub = (AuditVerdict::Stub, stub.reason);
            self.instead.entry(of.kernel).or_default().push((of.image, stub));
        } else if body == Body::Empty {
            self.empty.insert(of);
        }
    }

    /// Records what the opcodes of an image, or its PTX instructions, show.
    fn judge(&mut self, of: Image, kind: CodeKind, counts: Vec<(String, u32)>) {
        let Some(classes) = classes() else { return };
        let kernel = &mut self.table.kernels[of.kernel];
        let judged = classes.judge(&kernel.name, kind, &counts);
        let image = &mut kernel.images[of.image];
        image.opcodes = Some(self.opcodes.insert_full(judged.list).0);
        image.shown = image.shown.or(Some(judged.shown));
        if let Some(other) = judged.instead {
            self.instead.entry(of.kernel).or_default().push((of.image, other));
        }
    }

    fn kernel(&mut self, file: usize, entry: usize, kernel: &Kernel, code: Option<&[u8]>) -> Image {
        let row = AuditImage {
            entry,
            registers: kernel.registers,
            shared: kernel.shared,
            stack: kernel.stack,
            threads: kernel.max_threads,
            code: code.map(|c| c.len() as u64),
            opcodes: None,
            shown: None,
        };
        let number = *self.known.entry(kernel.name.clone()).or_insert_with(|| {
            self.table.kernels.push(AuditKernel {
                file,
                name: kernel.name.clone(),
                images: Vec::new(),
                verdicts: Vec::new(),
                by: Vec::new(),
                reasons: Vec::new(),
            });
            self.table.kernels.len() - 1
        });
        let images = &mut self.table.kernels[number].images;
        images.push(row);
        Image { kernel: number, image: images.len() - 1 }
    }

    /// Disassembles the remaining kernels and returns the audit with the verdict of every kernel.
    #[must_use]
    pub fn finish(mut self) -> AuditTable {
        for (of, counts) in self.namer.take().map(|(_, namer)| namer.finish()).unwrap_or_default() {
            if let Some(counts) = counts {
                self.judge(of, CodeKind::Cubin, counts);
            }
        }
        let instead = std::mem::take(&mut self.instead);
        for (number, kernel) in self.table.kernels.iter_mut().enumerate() {
            for device in 0..self.devices.len() {
                let by = best(&self.table.entries, &kernel.images, device);
                let image = &kernel.images[by];
                let entry = &self.table.entries[image.entry];
                let (mut verdict, mut reason) = (entry.verdicts[device], entry.reasons[device]);
                let jit = verdict == AuditVerdict::Jit;
                if verdict.is_native() || jit {
                    let known = || {
                        let of = instead.get(&number)?.iter().find(|(image, _)| *image == by);
                        of.map(|(_, other)| other.clone())
                    };
                    let shell = || classes()?.shell(&kernel.name, image.code?);
                    if let Some((other, mut why)) = known().or_else(shell) {
                        if jit {
                            why.push_str("; the driver compiles it when it is loaded");
                        }
                        let meant = || classes()?.meant_for(&kernel.name, self.devices[device].number);
                        let meant = if other == AuditVerdict::Stub { meant() } else { None };
                        (verdict, reason) = match meant {
                            None => (other, self.reasons.insert_full(why).0),
                            Some(number) => {
                                let why = format!("a stub: its name says that it is for sm_{number}");
                                (AuditVerdict::NoCode, self.reasons.insert_full(why).0)
                            }
                        };
                    } else if self.empty.contains(&Image { kernel: number, image: by }) {
                        let why = format!("{}; its body is empty", self.reasons[reason]);
                        reason = self.reasons.insert_full(why).0;
                    }
                }
                kernel.verdicts.push(verdict);
                kernel.by.push(by);
                kernel.reasons.push(reason);
            }
        }
        self.table.reasons = self.reasons.into_iter().collect();
        self.table.opcodes = self.opcodes.into_iter().collect();
        self.table
    }
}

/// Formats the section and offset of an entry.
fn place(entry: &Entry) -> String {
    match &entry.place.section {
        Some(section) => format!("{section}+{:#x}", entry.place.offset),
        None => format!("+{:#x}", entry.place.offset),
    }
}

/// Returns the image that the driver selects for a device: the one with the best verdict, and of these the newest target.
fn best(entries: &[AuditEntry], images: &[AuditImage], device: usize) -> usize {
    let rank = |image: &AuditImage| {
        let entry = &entries[image.entry];
        (std::cmp::Reverse(entry.verdicts[device]), number(&entry.target))
    };
    (0..images.len()).max_by_key(|i| rank(&images[*i])).unwrap_or(0)
}

/// Parses the number of a target: 121 for `sm_121a`.
fn number(target: &str) -> u16 {
    let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f', '?']);
    digits.parse().unwrap_or(0)
}

/// Whether a library is part of CUDA, or PyTorch's CUDA backend.
fn is_cuda(library: &str) -> bool {
    [
        "libcuda.",
        "libcudart",
        "libcublas",
        "libcudnn",
        "libnvrtc",
        "libnccl",
        "libcusparse",
        "libcusolver",
        "libcufft",
        "libcurand",
        "libtorch_cuda",
        "libc10_cuda",
    ]
    .iter()
    .any(|name| library.starts_with(name))
}

/// The known miscompiles of ptxas in the PTX of an entry, one row per function and name. What does not parse has none that are known.
fn miscompiles(place: &str, code: &[u8]) -> Vec<AuditMiscompile> {
    let text = String::from_utf8_lossy(code);
    let Ok(module) = ptx::parse(text.trim_end_matches('\0')) else { return Vec::new() };
    let mut rows: Vec<AuditMiscompile> = Vec::new();
    for found in find(&module) {
        let m = found.miscompile;
        match rows.iter_mut().find(|row| row.function == found.function && row.name == m.name) {
            Some(row) => row.matches += 1,
            None => rows.push(AuditMiscompile {
                place: place.to_owned(),
                function: found.function,
                name: m.name.clone(),
                form: found.form,
                matches: 1,
                toolkits: m.where_in_words(),
                effect: m.effect.clone(),
                rewrite: m.rewrite.clone(),
            }),
        }
    }
    rows
}
