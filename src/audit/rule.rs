//! Decides how a piece of device code runs on a device, by the documented rules only.
//!
//! Machine code must satisfy `Target::cubin_runs_on`. PTX must satisfy `Target::ptx_runs_on` and needs a driver
//! that supports its `.version` (CUDA Programming Guide, binary and PTX compatibility; PTX ISA, `.target` and
//! `.version`).

use devcode::{CodeKind, Entry};
use ptx::arch::{PtxIsa, Suffix, Target};

use crate::record::AuditVerdict;

/// A device to audit for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The architecture number, without suffix.
    pub number: u16,
    /// The CUDA version of its driver, if the device is in this machine.
    pub cuda: Option<String>,
    /// The newest PTX version that the driver compiles.
    pub isa: Option<PtxIsa>,
}

impl Device {
    /// Creates a device that is not in this machine.
    #[must_use]
    pub const fn from_number(number: u16) -> Self {
        Self { number, cuda: None, isa: None }
    }

    /// Returns the target name, such as `sm_121`.
    #[must_use]
    pub fn name(&self) -> String {
        self.target().to_string()
    }

    pub(super) const fn target(&self) -> Target {
        Target { number: self.number, suffix: Suffix::Base }
    }
}

/// Returns the verdict for `entry` on `device`, and the reason in one sentence.
#[must_use]
pub fn answer(entry: &Entry, device: &Device) -> (AuditVerdict, String) {
    let text = entry.target_text();
    match entry.kind {
        CodeKind::Bitcode => {
            (AuditVerdict::NoCode, "LLVM bitcode is compiler input; no driver loads it".to_owned())
        }
        CodeKind::Other(number) => {
            (AuditVerdict::Undetermined, format!("a kind of code that is not documented (number {number})"))
        }
        _ if entry.number == 0 => {
            (AuditVerdict::Undetermined, "the file does not say what it was made for".to_owned())
        }
        CodeKind::Cubin => machine_code(entry, device, &text),
        CodeKind::Relocatable => match machine_code(entry, device, &text) {
            (AuditVerdict::NoCode, reason) => (AuditVerdict::NoCode, reason),
            _ => (
                AuditVerdict::Undetermined,
                format!(
                    "relocatable code for {text}: it runs once the device linker (nvcc -dlink) has linked it"
                ),
            ),
        },
        CodeKind::LtoIr => {
            let runs = each(entry, |target| target.ptx_runs_on(device.target()));
            if runs == Some(false) {
                (AuditVerdict::NoCode, format!("LTO code for {text} is not linked for sm_{}", device.number))
            } else {
                let reason =
                    format!("LTO code for {text}: nvJitLink or nvlink has to make machine code of it");
                (AuditVerdict::Undetermined, reason)
            }
        }
        CodeKind::Ptx => ptx(entry, device, &text),
    }
}

/// Applies `rule` to every target that the entry may be for; `None` if the results differ.
fn each(entry: &Entry, rule: impl Fn(Target) -> bool) -> Option<bool> {
    let of = |suffix| rule(Target { number: entry.number, suffix });
    match entry.suffix {
        Some(suffix) => Some(of(suffix)),
        None if of(Suffix::Base) == of(Suffix::Family) => Some(of(Suffix::Base)),
        None => None,
    }
}

/// Formats 121 as `12.1`.
fn capability(number: u16) -> String {
    format!("{}.{}", number / 10, number % 10)
}

fn machine_code(entry: &Entry, device: &Device, text: &str) -> (AuditVerdict, String) {
    let own = capability(entry.number);
    match each(entry, |target| target.cubin_runs_on(device.target())) {
        Some(true) if entry.number == device.number => {
            (AuditVerdict::Native, format!("machine code for {text}, this architecture"))
        }
        Some(true) => {
            let why = match entry.suffix {
                Some(Suffix::Family) => "runs on the later members of its family".to_owned(),
                None => "runs on later members of its family, base or f".to_owned(),
                _ => format!("runs on later GPUs of compute capability {}.x", entry.number / 10),
            };
            (AuditVerdict::Family, format!("machine code for {text} {why}"))
        }
        Some(false) => {
            let why = if entry.suffix == Some(Suffix::Arch) {
                format!("runs only on compute capability {own}")
            } else if (Target { number: entry.number, suffix: Suffix::Family }).same_family(device.target()) {
                format!("runs on compute capability {own} and later, not on an earlier one")
            } else {
                format!("runs only on compute capability {}.x", entry.number / 10)
            };
            (AuditVerdict::NoCode, format!("machine code for {text} {why}"))
        }
        None => (
            AuditVerdict::Undetermined,
            format!(
                "machine code for {text}: it runs on {} if it is {}, and the file does not tell base from f",
                capability(device.number),
                if (Target { number: entry.number, suffix: Suffix::Base }).cubin_runs_on(device.target()) {
                    "base"
                } else {
                    "f"
                }
            ),
        ),
    }
}

fn ptx(entry: &Entry, device: &Device, text: &str) -> (AuditVerdict, String) {
    let own = capability(entry.number);
    let what = entry.isa.map_or_else(|| format!("PTX for {text}"), |isa| format!("PTX {isa} for {text}"));
    match each(entry, |target| target.ptx_runs_on(device.target())) {
        Some(true) => {}
        Some(false) => {
            let why = match entry.suffix {
                Some(Suffix::Arch) => format!("is compiled only for compute capability {own}"),
                Some(Suffix::Family) => format!("is compiled only for its family, {own} and later"),
                _ => format!("is compiled for compute capability {own} and later"),
            };
            return (AuditVerdict::NoCode, format!("{what} {why}"));
        }
        None => {
            let reason =
                format!("{what}: the file does not tell base from f, and only one of them is compiled here");
            return (AuditVerdict::Undetermined, reason);
        }
    }
    let slow = "the driver compiles it when it is first loaded, which is slow the first time";
    match (entry.isa, device.isa, &device.cuda) {
        (Some(isa), Some(newest), Some(cuda)) if isa > newest => (
            AuditVerdict::NoCode,
            format!(
                "{what} is newer than what this machine's driver compiles (CUDA {cuda}: PTX {newest}): {}",
                driver(isa)
            ),
        ),
        (Some(_), Some(newest), Some(cuda)) => (
            AuditVerdict::Jit,
            format!("{what}: {slow}; this machine's driver (CUDA {cuda}) compiles PTX up to {newest}"),
        ),
        (Some(isa), ..) => (AuditVerdict::Jit, format!("{what}: {slow}; {}", driver(isa))),
        (None, ..) => (AuditVerdict::Jit, format!("{what}: {slow}; its version is not stated")),
    }
}

/// Describes the driver that a PTX version needs.
fn driver(isa: PtxIsa) -> String {
    match isa.cuda() {
        Some(cuda) => format!("it needs a driver of CUDA {cuda} or later"),
        None => format!("it needs a driver that compiles PTX {isa}"),
    }
}
