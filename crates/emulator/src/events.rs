//! What a process that launches kernels tells another one: a JSON line for each event, so that a process that is killed leaves what it did so
//! far.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::trap::Trap;

/// The variable with the path of the file; without it, nothing is written.
pub const RESULTS: &str = "SM121PROBE_EXEC_RESULTS";
/// The variable with the key of the GPU.
pub const GPU: &str = "SM121PROBE_EXEC_GPU";
/// The variable that lets the program go on behind violations.
pub const KEEP_GOING: &str = "SM121PROBE_EXEC_KEEP_GOING";
/// The variable with the number of schedules of each launch.
pub const SCHEDULES: &str = "SM121PROBE_EXEC_SCHEDULES";

/// The variable with the name of the hardware model; without it, that of the GPU.
pub const MODEL: &str = "SM121PROBE_EXEC_MODEL";
/// The variable that lets an unqualified product and the sum that uses it round once.
pub const CONTRACT: &str = "SM121PROBE_EXEC_CONTRACT";
/// The variable with the folder that launches are recorded in.
pub const RECORD: &str = "SM121PROBE_EXEC_RECORD";
/// How folders of launches begin whose record is not complete.
pub const INCOMPLETE: &str = ".incomplete-";

/// What `cuDeviceGetUuid` gives for the simulated GPU, so that a program can tell it from a real one.
pub const UUID: &[u8; 16] = b"sm121probe exec\0";

/// A rule that a kernel broke, for a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViolationRecord {
    /// The rule in one word.
    pub rule: String,
    /// What happened.
    pub what: String,
    /// What happened, and where.
    pub message: String,
    /// The kernel, as linked.
    pub kernel: String,
    /// Line of the PTX; 0 where there is none.
    pub ptx_line: usize,
    /// The instruction.
    pub instruction: String,
    /// File and line of the source, where the PTX has debug information.
    pub source: Option<(String, u32)>,
    /// The CTA.
    pub cta: [u32; 3],
    /// Warp of the CTA.
    pub warp: u32,
    /// Lane of the warp.
    pub lane: Option<u32>,
    /// How often.
    pub times: u64,
}

impl ViolationRecord {
    /// Of a trap that came so often.
    #[must_use]
    pub fn of(trap: &Trap, times: u64) -> Self {
        let place = &trap.place;
        Self {
            rule: trap.rule.word().to_owned(),
            what: trap.what.clone(),
            message: trap.to_string(),
            kernel: place.kernel.clone(),
            ptx_line: place.line,
            instruction: place.instruction.clone(),
            source: place.source.clone(),
            cta: place.cta,
            warp: place.warp,
            lane: place.lane,
            times,
        }
    }
}

/// An event of a process.
///
/// What comes often is counted in a file beside that of the events, [`counts_of`]: a slot for each kernel and each violation, which is
/// written in place. So the size does not grow with the launches, and a process that is killed leaves its counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A process uses the device for the first time.
    Start {
        /// The process, by a name that no other has.
        process: String,
        /// Key of the GPU.
        gpu: String,
    },
    /// A kernel is launched for the first time. Its slot counts launches, and instructions that warps executed.
    Kernel {
        /// The process.
        process: String,
        /// The number of the slot.
        slot: usize,
        /// The kernel, as linked.
        kernel: String,
    },
    /// A kernel violates a rule at an instruction for the first time. Its slot counts how often it does.
    Violation {
        /// The process.
        process: String,
        /// The number of the slot.
        slot: usize,
        /// The first of them.
        violation: Box<ViolationRecord>,
    },
    /// A kernel uses what the emulator lacks, exists only as machine code, or is launched as no GPU can.
    Refused {
        /// The kernel, as linked.
        kernel: String,
        /// Why.
        why: String,
    },
    /// A function of the API was called that is not served.
    Missing {
        /// Its name.
        function: String,
    },
    /// The process ends.
    End {
        /// The process.
        process: String,
        /// Allocations that were not freed.
        leaks: usize,
        /// Bytes of all of them.
        leaked: u64,
    },
}

/// Bytes of a slot: two numbers, little-endian.
pub const SLOT: usize = 16;

/// The file of a process's counts.
#[must_use]
pub fn counts_of(results: &Path, process: &str) -> PathBuf {
    let mut name = results.as_os_str().to_owned();
    name.push(".");
    name.push(process);
    name.into()
}
