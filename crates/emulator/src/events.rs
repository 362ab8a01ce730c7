//! What a process that launches kernels tells another one: a JSON line for each event, so that a process that is killed leaves what it did so
//! far.

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
            rule: trap.law.word().to_owned(),
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A process uses the device for the first time.
    Start {
        /// The process.
        pid: u32,
        /// Key of the GPU.
        gpu: String,
    },
    /// A launch has ended.
    Launch {
        /// The kernel, as linked.
        kernel: String,
        /// Instructions that warps executed; 0 for a launch that did not end well.
        instructions: u64,
        /// Rules that it broke.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        violations: Vec<ViolationRecord>,
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
        pid: u32,
        /// Allocations that were not freed: bytes of each.
        leaks: Vec<u64>,
    },
}
