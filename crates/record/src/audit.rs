//! The audit in the record: device code found in files, and its status on each device.

use ptx::arch::{PtxIsa, Target, ToolkitVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Matrix, Record};
use super::tiles::TileTable;
use crate::words;

words! {
    /// How device code runs on a device, the best first.
    #[derive(PartialOrd, Ord, JsonSchema)]
    AuditVerdict {
        /// Machine code for exactly this architecture: it loads without compilation.
        Native "native",
        /// Machine code for another architecture of the family or of the major version: it loads without compilation.
        Family "family",
        /// The driver compiles the PTX when it is loaded.
        Jit "jit",
        /// It runs, but its name promises block-scaled or FP4 arithmetic that its machine code does not contain.
        Fallback "fallback",
        /// The file does not contain enough information.
        Undetermined "undetermined",
        /// It loads and has no result: its body was compiled out, or only prints or traps.
        Stub "stub",
        /// There is no code that this device can load.
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
            Self::Stub => "is a stub",
            Self::NoCode => "has no code for it",
        }
    }
}

words! {
    /// Whether the machine code contains what the kernel's name promises.
    #[derive(JsonSchema)]
    Shown {
        /// Block-scaled matrix instructions.
        Native "native",
        /// Other matrix instructions instead.
        Emulated "emulated",
        /// No matrix instruction: it moves or converts data, or its body was compiled out.
        None "none",
        /// Its name promises no such instructions.
        Unknown "unknown",
    }
}

words! {
    /// Whether a part of an installation works on a device.
    #[derive(JsonSchema)]
    Support {
        /// Its binaries hold code that this device runs.
        Works "works",
        /// It compiles for this device when it is used.
        Compiles "compiles",
        /// By its source it takes this device; nothing that is installed was asked.
        Taken "taken",
        /// It needs code or a compiler that does not support this device, or does not take the layers of the model.
        Absent "absent",
        /// The parts that decide this are not installed.
        NotInstalled "not_installed",
        /// The installed parts do not decide this.
        Unknown "unknown",
    }
}

/// The audit of files: every index counts from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditTable {
    /// The devices of the audit; verdicts are in this order.
    pub devices: Vec<AuditDevice>,
    /// Why GPUs of this machine could not be identified; empty if all could.
    #[serde(default)]
    pub no_gpu: String,
    /// The disassembler that named opcodes; null if none was used.
    pub disassembler: Option<ToolkitVersion>,
    /// Why requested opcodes were not named; empty otherwise.
    #[serde(default)]
    pub no_opcodes: String,
    /// Installed packages, if an environment was audited.
    #[serde(default)]
    pub packages: Vec<AuditPackage>,
    /// Files that contain device code or need a CUDA library.
    pub files: Vec<AuditFile>,
    /// Pieces of device code.
    pub entries: Vec<AuditEntry>,
    /// Kernels, one row per name and file.
    pub kernels: Vec<AuditKernel>,
    /// Reasons, referenced by index.
    pub reasons: Vec<String>,
    /// Opcode counts such as `HMMA 16, LDSM 8`, referenced by index.
    #[serde(default)]
    pub opcodes: Vec<String>,
    /// Whether each backend of a serving engine can work.
    #[serde(default)]
    pub backends: Vec<AuditBackend>,
    /// The models whose layers attention backends were asked to serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<AuditModel>,
    /// What was not read.
    #[serde(default)]
    pub problems: Vec<AuditProblem>,
    /// Known miscompiles of ptxas in PTX, which the driver compiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub miscompiles: Vec<AuditMiscompile>,
    /// Installed packages of versions that are reported not to work on the devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_bad: Vec<AuditKnownBad>,
}

/// An installed package of a version that is reported not to work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditKnownBad {
    /// The distribution.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The architectures that are affected; empty for all.
    pub gpus: Vec<String>,
    /// What goes wrong.
    pub effect: String,
    /// What to do.
    pub remedy: String,
    /// The report.
    pub source: String,
}

/// A known miscompile of ptxas in a kernel's PTX.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditMiscompile {
    /// Where the PTX is.
    pub place: String,
    /// The function.
    pub function: String,
    /// The name of the miscompile, for `explain`.
    pub name: String,
    /// The first instruction that matches.
    pub form: String,
    /// The number of instructions that match.
    pub matches: usize,
    /// The versions of ptxas that have it.
    pub toolkits: String,
    /// What the machine code does instead.
    pub effect: String,
    /// How to write it instead.
    pub rewrite: String,
}

/// A device of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditDevice {
    /// Its architecture: `sm_121`.
    pub name: String,
    /// The GPU of this machine with this architecture; empty if there is none.
    #[serde(default)]
    pub gpu: String,
    /// The CUDA version of this machine's driver; null without such a GPU.
    #[serde(default)]
    pub cuda: Option<String>,
    /// The newest PTX version that this driver compiles; null if unknown.
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
    /// The compiler that it runs when it is used, and what that needs; empty if it does not compile.
    #[serde(default)]
    pub compiles: String,
    /// For each device: whether that compiler supports it; empty if the package does not compile.
    #[serde(default)]
    pub knows: Vec<Support>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditFile {
    /// The file, with `!member` for each nested archive.
    pub path: String,
    /// The file format.
    pub format: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The CUDA libraries that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Index into `packages`; null if no package owns it.
    #[serde(default)]
    pub package: Option<usize>,
}

/// A piece of device code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// Index into `files`.
    pub file: usize,
    /// Its position in the file, from 0.
    pub index: u32,
    /// Section and offset in the file: `.nv_fatbin+0x1540`.
    pub place: String,
    /// `cubin`, `relocatable`, `ptx`, `ltoir`, `bitcode` or `other`.
    pub kind: String,
    /// `sm_121a`; `sm_121?` if the file does not distinguish base from `f`; empty if there is no architecture.
    pub target: String,
    /// The evidence for the suffix.
    pub told_by: String,
    /// `.version` of PTX.
    #[serde(default)]
    pub isa: Option<PtxIsa>,
    /// The ptxas that generated it, if it is recorded.
    #[serde(default)]
    pub toolkit: Option<ToolkitVersion>,
    /// How it is stored.
    pub compression: String,
    /// Its size in the file in bytes.
    pub bytes: u64,
    /// Its number of kernels.
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
    /// For each device: index into `images` of the image that runs, or of the closest one.
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
    /// Static shared memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<u64>,
    /// Stack per thread in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<u64>,
    /// Maximum threads of a CTA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Size of its machine code in bytes; null for PTX.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u64>,
    /// Index into `opcodes`, for PTX into its instructions; null if it was not disassembled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opcodes: Option<usize>,
    /// Whether the opcodes match what the name promises; null if it was not disassembled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
}

/// A backend of a serving engine or of a library: for MoE layers or, if `takes` is there, for attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditBackend {
    /// The engine; empty in records of versions that knew vLLM alone.
    #[serde(default)]
    pub engine: String,
    /// Its name in the engine's option.
    pub backend: String,
    /// The kernels that it uses.
    pub about: String,
    /// For each device.
    pub standing: Vec<Support>,
    /// For each device: the evidence.
    pub evidence: Vec<String>,
    /// The source of the rule.
    pub source: String,
    /// What an attention backend takes on SM12x; null for a MoE backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<AuditTakes>,
    /// The name of the model in `models` whose layers it was asked to serve; empty if none was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub layers_of: String,
}

/// What an attention backend takes on SM12x.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditTakes {
    /// The kinds of layers: `grouped`, `latent`, `selected_latent`, `compressed`, `selected_blocks`, `dense` or `linear`.
    pub forms: Vec<String>,
    /// The elements of a head: `64, 128`, `16 to 512 by 16`, `576 with values of 512`.
    pub heads: String,
    /// The only numbers of query heads; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_heads: Vec<usize>,
    /// Whether it computes sliding windows.
    pub window: bool,
    /// Whether it computes sinks.
    pub sinks: bool,
    /// Whether it computes a soft cap.
    pub cap: bool,
    /// The types of the cache.
    pub cache: Vec<String>,
    /// `prefill` or `decode` if it computes that alone; empty for both.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// What it refuses together, and other conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}

impl AuditTakes {
    /// Returns the limits in words.
    #[must_use]
    pub fn phrase(&self) -> String {
        let forms: Vec<&str> = self
            .forms
            .iter()
            .map(|form| match form.as_str() {
                "latent" => "MLA",
                "selected_latent" => "MLA of selected keys",
                "compressed" => "window and compressed keys (DeepSeek V4)",
                "selected_blocks" => "selected blocks of keys (QSA)",
                "dense" => "tensors without a cache",
                "linear" => "linear attention",
                other => other,
            })
            .filter(|form| *form != "grouped" || self.forms.len() > 1)
            .collect();
        let mut parts = Vec::new();
        if !forms.is_empty() {
            parts.push(forms.join(" and "));
        }
        parts.push(format!("heads of {}", self.heads));
        if !self.query_heads.is_empty() {
            let counts: Vec<String> = self.query_heads.iter().map(ToString::to_string).collect();
            parts.push(format!("{} query heads", counts.join(" or ")));
        }
        let features = [(self.window, "windows"), (self.sinks, "sinks"), (self.cap, "soft cap")];
        let list = |wanted: bool| {
            let names = features.iter().filter(|(has, _)| *has == wanted).map(|(_, name)| *name);
            names.collect::<Vec<_>>().join(", ")
        };
        match (list(true), list(false)) {
            (all, none) if none.is_empty() => parts.push(all),
            (all, none) if all.is_empty() => parts.push(format!("without {none}")),
            (some, none) => parts.push(format!("{some}, without {none}")),
        }
        if !self.cache.is_empty() {
            parts.push(format!("cache {}", self.cache.join(", ")));
        }
        if !self.step.is_empty() {
            parts.push(format!("{} only", self.step));
        }
        parts.extend(self.except.iter().cloned());
        parts.join("; ")
    }
}

/// A model whose layers attention backends were asked to serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditModel {
    /// Its name.
    pub name: String,
    /// What its layers attend to, by the words of `AuditTakes::forms`.
    pub form: String,
    /// Its kinds of layers.
    pub layers: String,
    /// The source of these values.
    pub source: String,
}

/// A file or part that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditProblem {
    /// The file, or its part.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

impl AuditTable {
    /// Whether the record contains nothing but this audit.
    #[must_use]
    pub fn stands_alone(&self, record: &Record) -> bool {
        *self != Self::default()
            && record.matrix == Matrix::default()
            && record.runs.is_empty()
            && record.trials.is_empty()
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
        let known: Vec<String> = self.models.iter().map(|model| model.name.clone()).collect();
        self.models.extend(other.models.into_iter().filter(|model| !known.contains(&model.name)));
        self.problems.extend(other.problems);
        self.miscompiles.extend(other.miscompiles);
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
