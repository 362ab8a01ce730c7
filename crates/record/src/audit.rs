//! The audit in the record: device code found in files, and its status on each device.

use ptx::arch::{PtxIsa, Target, ToolkitVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Matrix, Record};
use super::tiles::TileTable;
use crate::words;

words! {
    /// What becomes of code on a device, the best first.
    #[derive(PartialOrd, Ord, JsonSchema)]
    AuditVerdict {
        /// Machine code for this very architecture: it loads as it is.
        Native "native",
        /// Machine code for another architecture of the family, or of the major version: it loads as it is.
        Family "family",
        /// The driver compiles PTX when it is loaded.
        Jit "jit",
        /// It runs, but its name promises block-scaled or FP4 arithmetic that its machine code does not do.
        Fallback "fallback",
        /// The file does not say enough.
        Undetermined "undetermined",
        /// It loads and does nothing of what it is for: its body was compiled out.
        Stub "stub",
        /// Nothing that this device could load.
        NoCode "no_code",
    }
}

impl AuditVerdict {
    /// Whether a launch does what the kernel is for, however slowly.
    #[must_use]
    pub const fn runs(self) -> bool {
        matches!(self, Self::Native | Self::Family | Self::Jit | Self::Fallback)
    }

    /// Whether machine code in the file runs and does what the kernel's name says.
    #[must_use]
    pub const fn is_native(self) -> bool {
        matches!(self, Self::Native | Self::Family)
    }

    /// Returns its meaning as a phrase for tables.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Native => "runs natively",
            Self::Family => "runs through the family",
            Self::Jit => "runs by JIT",
            Self::Fallback => "runs as a fall-back",
            Self::Undetermined => "undetermined",
            Self::Stub => "is an empty shell",
            Self::NoCode => "has no code for it",
        }
    }
}

words! {
    /// What machine code shows of what a kernel's name promises.
    #[derive(JsonSchema)]
    Shown {
        /// Block-scaled matrix instructions.
        Native "native",
        /// Other matrix instructions in their place.
        Emulated "emulated",
        /// No matrix instruction: it moves or converts data, or its body was compiled out.
        None "none",
        /// Its name promises nothing of the kind.
        Unknown "unknown",
    }
}

words! {
    /// What can be said of a part of an installation on a device.
    #[derive(JsonSchema)]
    Support {
        /// Its binaries hold code that this device runs.
        Works "works",
        /// It compiles for this device when it is used.
        Compiles "compiles",
        /// What it would need is not for this device.
        Absent "absent",
        /// The parts that would tell are not installed.
        NotInstalled "not_installed",
        /// What is there does not tell.
        Unknown "unknown",
    }
}

/// The audit of files: every index counts from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditTable {
    /// What it was answered for; verdicts are in this order.
    pub devices: Vec<AuditDevice>,
    /// Why GPUs of this machine could not be asked what they are; empty where all could.
    #[serde(default)]
    pub no_gpu: String,
    /// The disassembler that named opcodes; none when none was asked, or there was none.
    pub disassembler: Option<ToolkitVersion>,
    /// Why no opcodes were named where they were wanted; empty otherwise.
    #[serde(default)]
    pub no_opcodes: String,
    /// Installed packages, where an environment was audited.
    #[serde(default)]
    pub packages: Vec<AuditPackage>,
    /// Files that hold device code, or ask for a CUDA library.
    pub files: Vec<AuditFile>,
    /// Pieces of device code.
    pub entries: Vec<AuditEntry>,
    /// Kernels: of one name and file, one row.
    pub kernels: Vec<AuditKernel>,
    /// Reasons, pointed at.
    pub reasons: Vec<String>,
    /// Opcode counts such as `HMMA 16, LDSM 8`, pointed at.
    #[serde(default)]
    pub opcodes: Vec<String>,
    /// Which backend of a serving engine can work.
    #[serde(default)]
    pub backends: Vec<AuditBackend>,
    /// What was not read.
    #[serde(default)]
    pub problems: Vec<AuditProblem>,
}

/// A device that was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditDevice {
    /// Its architecture: `sm_121`.
    pub name: String,
    /// The GPU of this machine that is one; empty where none is.
    #[serde(default)]
    pub gpu: String,
    /// The CUDA version of this machine's driver; none without such a GPU.
    #[serde(default)]
    pub cuda: Option<String>,
    /// The newest PTX that this driver compiles; none where that is not known.
    #[serde(default)]
    pub isa: Option<PtxIsa>,
}

impl AuditDevice {
    /// Returns its architecture; `None` if this build does not know it.
    #[must_use]
    pub fn architecture(&self) -> Option<Target> {
        self.name.parse().ok()
    }
}

/// A distribution installed in an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it compiles kernels with when it is used, and what that needs; empty where it does not.
    #[serde(default)]
    pub compiles: String,
    /// For each device: whether what compiles knows it; empty where it does not compile.
    #[serde(default)]
    pub knows: Vec<Support>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditFile {
    /// The file, with `!member` for every archive on the way.
    pub path: String,
    /// What it is.
    pub format: String,
    /// Its size.
    pub bytes: u64,
    /// The CUDA libraries that it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Index into `packages`; none where no package owns it.
    #[serde(default)]
    pub package: Option<usize>,
}

/// A piece of device code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// Index into `files`.
    pub file: usize,
    /// The how-many-th of its file.
    pub index: u32,
    /// Section and offset in the file: `.nv_fatbin+0x1540`.
    pub place: String,
    /// `cubin`, `relocatable`, `ptx`, `ltoir`, `bitcode` or `other`.
    pub kind: String,
    /// `sm_121a`; `sm_121?` where the file does not tell base from `f`; empty where there is no architecture.
    pub target: String,
    /// What told the suffix.
    pub told_by: String,
    /// `.version` of PTX.
    #[serde(default)]
    pub isa: Option<PtxIsa>,
    /// The ptxas that made it, where it says so.
    #[serde(default)]
    pub toolkit: Option<ToolkitVersion>,
    /// How it is stored.
    pub compression: String,
    /// Its bytes in the file.
    pub bytes: u64,
    /// Its kernels, by number.
    pub kernels: usize,
    /// For each device.
    pub verdicts: Vec<AuditVerdict>,
    /// For each device: index into `reasons`.
    pub reasons: Vec<usize>,
}

/// A kernel of a file, in all its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditKernel {
    /// Index into `files`.
    pub file: usize,
    /// Its name as linked.
    pub name: String,
    /// Where it is.
    pub images: Vec<AuditImage>,
    /// For each device.
    pub verdicts: Vec<AuditVerdict>,
    /// For each device: index into `images` of the one that runs, or would be nearest to it.
    pub by: Vec<usize>,
    /// For each device: index into `reasons`.
    pub reasons: Vec<usize>,
}

/// A kernel in one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditImage {
    /// Index into `entries`.
    pub entry: usize,
    /// Registers per thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Static shared memory, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<u64>,
    /// Stack per thread, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<u64>,
    /// Most threads of a CTA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Bytes of its machine code; none in PTX.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u64>,
    /// Index into `opcodes`, of PTX its instructions; none where it was not disassembled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opcodes: Option<usize>,
    /// What the opcodes show of what the name promises; none where it was not disassembled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
}

/// A backend of a serving engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditBackend {
    /// Its name, as the engine's option has it.
    pub backend: String,
    /// What it computes with.
    pub about: String,
    /// For each device.
    pub standing: Vec<Support>,
    /// For each device: what shows it.
    pub evidence: Vec<String>,
    /// Where the rule comes from.
    pub source: String,
}

/// Something that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditProblem {
    /// Where.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl AuditTable {
    /// Whether the record contains nothing but this audit.
    #[must_use]
    pub fn stands_alone(&self, record: &Record) -> bool {
        *self != Self::default()
            && record.matrix == Matrix::default()
            && record.runs.is_empty()
            && record.pipeline.is_empty()
            && record.tiles == TileTable::default()
    }

    /// Adds the audit of another record for the same devices; an identical audit is not added twice. Returns whether
    /// this was possible: an audit for other devices is not.
    #[must_use]
    pub fn append(&mut self, other: Self) -> bool {
        if *self == Self::default() {
            *self = other;
            return true;
        }
        if *self == other || other == Self::default() {
            return true;
        }
        let names = |table: &Self| table.devices.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        if names(self) != names(&other) {
            return false;
        }
        let (packages, files, entries) = (self.packages.len(), self.files.len(), self.entries.len());
        let (reasons, opcodes) = (self.reasons.len(), self.opcodes.len());
        let shift = |list: Vec<usize>| list.into_iter().map(|r| r + reasons).collect();
        self.packages.extend(other.packages);
        self.files.extend(
            other.files.into_iter().map(|f| AuditFile { package: f.package.map(|p| p + packages), ..f }),
        );
        self.entries.extend(other.entries.into_iter().map(|e| AuditEntry {
            file: e.file + files,
            reasons: shift(e.reasons),
            ..e
        }));
        let image = |i: AuditImage| AuditImage {
            entry: i.entry + entries,
            opcodes: i.opcodes.map(|o| o + opcodes),
            ..i
        };
        self.kernels.extend(other.kernels.into_iter().map(|k| AuditKernel {
            file: k.file + files,
            images: k.images.into_iter().map(image).collect(),
            reasons: shift(k.reasons),
            ..k
        }));
        self.reasons.extend(other.reasons);
        self.opcodes.extend(other.opcodes);
        self.backends.extend(other.backends);
        self.problems.extend(other.problems);
        self.disassembler = self.disassembler.max(other.disassembler);
        if self.no_gpu.is_empty() {
            self.no_gpu = other.no_gpu;
        }
        true
    }

    /// Checks that every index refers to a row and that every device has its verdicts.
    pub(super) fn check(&self) -> Result<(), String> {
        let devices = self.devices.len();
        let reason = |list: &[usize]| list.len() == devices && list.iter().all(|r| *r < self.reasons.len());
        let entry =
            |e: &AuditEntry| e.file < self.files.len() && e.verdicts.len() == devices && reason(&e.reasons);
        let image =
            |i: &AuditImage| i.entry < self.entries.len() && i.opcodes.is_none_or(|o| o < self.opcodes.len());
        let kernel = |k: &AuditKernel| {
            k.file < self.files.len()
                && k.verdicts.len() == devices
                && reason(&k.reasons)
                && k.images.iter().all(image)
                && k.by.len() == devices
                && k.by.iter().all(|b| *b < k.images.len())
        };
        if !self.entries.iter().all(entry) || !self.kernels.iter().all(kernel) {
            return Err("a piece of device code refers to missing rows".to_owned());
        }
        if self.files.iter().any(|f| f.package.is_some_and(|p| p >= self.packages.len())) {
            return Err("an audited file refers to a missing package".to_owned());
        }
        if self.packages.iter().any(|p| !p.knows.is_empty() && p.knows.len() != devices)
            || self.backends.iter().any(|b| b.standing.len() != devices || b.evidence.len() != devices)
        {
            return Err("an audited part does not have one answer for each device".to_owned());
        }
        Ok(())
    }
}
