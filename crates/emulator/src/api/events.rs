//! Events that a process launching kernels reports to another: one JSON line each, so that a killed process leaves those so far.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::api::trap::{OtherAccess, Place, Rule, Trap};

/// Environment variable: path of the results file; without it, nothing is written.
pub const RESULTS: &str = "SM121PROBE_EXEC_RESULTS";
/// Environment variable: key of the GPU.
pub const GPU: &str = "SM121PROBE_EXEC_GPU";
/// Environment variable: the number of GPUs.
pub const GPUS: &str = "SM121PROBE_EXEC_GPUS";
/// The largest number of GPUs.
pub const MOST_GPUS: u8 = 8;
/// Environment variable: continue after violations.
pub const KEEP_GOING: &str = "SM121PROBE_EXEC_KEEP_GOING";
/// Environment variable: number of schedules per launch.
pub const SCHEDULES: &str = "SM121PROBE_EXEC_SCHEDULES";

/// Environment variable: fill byte of fresh device memory and of registers that nothing has written; 0 by default.
pub const POISON: &str = "SM121PROBE_EXEC_POISON";
/// Environment variable: the process that runs the program and writes the report; the program ends with it.
pub const PARENT: &str = "SM121PROBE_EXEC_PARENT";
/// Environment variable: limit on the warp instructions of a launch.
pub const FUEL: &str = "SM121PROBE_EXEC_FUEL";
/// Environment variable: limit on the time of a launch in seconds.
pub const TIME_LIMIT: &str = "SM121PROBE_EXEC_TIME_LIMIT";
/// Environment variable: which rules are checked.
pub const RULES: &str = "SM121PROBE_EXEC_RULES";
/// Environment variable: results that PTX leaves open are a failure.
pub const STRICT: &str = "SM121PROBE_EXEC_STRICT";
/// Environment variable: results that differ between schedules are a failure although nothing races.
pub const REQUIRE_EQUAL: &str = "SM121PROBE_EXEC_REQUIRE_EQUAL";
/// Environment variable: name of the hardware model; by default, that of the GPU.
pub const MODEL: &str = "SM121PROBE_EXEC_MODEL";
/// Environment variable: fuse each unqualified product with the sum that uses it, so that the pair rounds once.
pub const CONTRACT: &str = "SM121PROBE_EXEC_CONTRACT";
/// Environment variable: folder in which launches are recorded.
pub const RECORD: &str = "SM121PROBE_EXEC_RECORD";
/// Name prefix of folders whose record of a launch is incomplete.
pub const INCOMPLETE: &str = ".incomplete-";

/// The UUID that `cuDeviceGetUuid` returns for the emulated GPU, so that a program can tell it from a real one.
pub const UUID: &[u8; 16] = b"sm121probe exec\0";

/// A violation by a kernel or by a call of the program, in serialised form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViolationRecord {
    /// The identifier of the rule.
    pub rule: String,
    /// What happened.
    pub what: String,
    /// What happened, and where.
    pub message: String,
    /// The kernel's linker name; empty if no kernel is concerned.
    pub kernel: String,
    /// The function of the API whose call violates the rule, or makes the violation visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Line of the PTX; 0 if unknown.
    pub ptx_line: usize,
    /// The instruction.
    pub instruction: String,
    /// File and line of the source, if the PTX has debug information.
    pub source: Option<(String, u32)>,
    /// The text of that line, if the file could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_text: Option<String>,
    /// If that line is of a function that was inlined: file and line of the call in the kernel itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_at: Option<(String, u32)>,
    /// Of a race: the other access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<OtherRecord>,
    /// The CTA.
    pub cta: [u32; 3],
    /// Warp of the CTA.
    pub warp: u32,
    /// Lane of the warp.
    pub lane: Option<u32>,
    /// Number of occurrences.
    pub times: u64,
}

/// The other one of two accesses that race, in serialised form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRecord {
    /// Whether it wrote.
    pub wrote: bool,
    /// Where it happened.
    #[serde(flatten)]
    pub place: Place,
}

impl OtherRecord {
    /// Converts an access; `None` if its instruction is not known.
    #[must_use]
    pub fn from_access(other: &OtherAccess) -> Option<Self> {
        Some(Self { wrote: other.wrote, place: other.place.clone()? })
    }
}

impl ViolationRecord {
    /// Converts a trap that occurred `times` times.
    #[must_use]
    pub fn from_trap(trap: &Trap, times: u64) -> Self {
        let place = &trap.place;
        Self {
            rule: trap.rule.word().to_owned(),
            what: trap.what.clone(),
            message: trap.to_string(),
            kernel: place.kernel.clone(),
            call: None,
            ptx_line: place.line,
            instruction: place.instruction.clone(),
            source: place.source.clone(),
            source_text: place.source_text.clone(),
            inlined_at: place.inlined_at.clone(),
            other: trap.other.as_deref().and_then(OtherRecord::from_access),
            cta: place.cta,
            warp: place.warp,
            lane: place.lane,
            times,
        }
    }

    /// A violation by a call of the program, in which no kernel takes part.
    #[must_use]
    pub fn of_call(call: &str, rule: Rule, what: String) -> Self {
        let message = format!("{}: {call}: {what}", rule.word());
        Self {
            call: Some(call.to_owned()),
            message,
            ..Self::from_trap(&Trap::new(rule, what, Place::default()), 1)
        }
    }
}

/// An event of a process.
///
/// Frequent events are counted in a separate file, [`counts_of`], which has a slot per kernel and per violation and is updated in
/// place. Its size does not grow with the number of launches, and a process that is killed leaves its counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A process uses the device for the first time.
    Start {
        /// Unique name of the process.
        process: String,
        /// Key of the GPU.
        gpu: String,
    },
    /// A kernel is launched for the first time. Its slot counts launches and warp instructions.
    Kernel {
        /// The process.
        process: String,
        /// Index of the slot.
        slot: usize,
        /// The kernel's linker name.
        kernel: String,
        /// Index of the slot whose first number counts the nanoseconds of its launches.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<usize>,
    },
    /// A kernel violates a rule at an instruction for the first time. Its slot counts the occurrences.
    Violation {
        /// The process.
        process: String,
        /// Index of the slot.
        slot: usize,
        /// The first occurrence.
        violation: Box<ViolationRecord>,
    },
    /// A kernel violates a rule at an instruction for the first time, and the results decide. Its slot counts the occurrences.
    Listed {
        /// The process.
        process: String,
        /// Index of the slot.
        slot: usize,
        /// The first occurrence.
        violation: Box<ViolationRecord>,
    },
    /// Results of a kernel differ between trials although no rule is violated.
    Differs {
        /// The kernel's linker name.
        kernel: String,
        /// What differs, and why.
        what: String,
        /// Whether the caller required otherwise.
        is_failure: bool,
    },
    /// A kernel uses something that the emulator does not support, exists only as machine code, or has an invalid launch
    /// configuration.
    Refused {
        /// The kernel's linker name.
        kernel: String,
        /// The reason.
        why: String,
    },
    /// A function of the API was called that is not implemented.
    Missing {
        /// Its name.
        function: String,
    },
    /// Something was not checked for another reason: a launch that could not be recorded, or a defect of this project.
    Unchecked {
        /// What, and why.
        what: String,
    },
    /// Something deserves attention and violates no rule.
    Remark {
        /// What, in a sentence.
        what: String,
    },
    /// The process ends.
    End {
        /// The process.
        process: String,
        /// Number of allocations that were not freed.
        leaks: usize,
        /// Their total size in bytes.
        leaked: u64,
    },
}

/// Size of a slot in bytes: two little-endian numbers.
pub const SLOT: usize = 16;

/// The slot that counts events that could not be written, for example on a full disk. It exists from the start, so that counting
/// needs no space. Its second number is [`begun`].
pub const LOST: usize = 0;

/// The number of launches that a process has begun, with the slot of the last one's kernel: a launch that has not ended is the one by
/// which the sum of all kernels' launches falls short.
#[must_use]
pub const fn begun(launches: u64, slot: usize) -> u64 {
    launches << 16 | slot as u64 & 0xFFFF
}

/// The path of a process's counts file.
#[must_use]
pub fn counts_of(results: &Path, process: &str) -> PathBuf {
    let mut name = results.as_os_str().to_owned();
    name.push(".");
    name.push(process);
    name.into()
}
