//! The event and count files that `sm121probe exec` reads after the program has ended.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use emulator::events::{Event, LOST, RESULTS, SLOT, ViolationRecord, begun, counts_of};
use emulator::{Place, Stop};

thread_local! {
    /// Whether the current call of this thread has reported why it is refused.
    pub(crate) static REPORTED: Cell<bool> = const { Cell::new(false) };
}

/// The number of different remarks that a process reports.
const REMARKS: usize = 200;

/// Identifies a violation for counting: rule, kernel, line of the PTX, call.
type Instruction = (String, String, usize, Option<String>);

/// The result files of a process.
#[derive(Debug, Default)]
pub(crate) struct Results {
    events: Option<File>,
    /// The folder of the run, locked as long as this process may load something from it.
    folder: Option<File>,
    counts: Option<File>,
    process: String,
    slots: Vec<[u64; 2]>,
    /// The number of launches that have begun.
    begun: u64,
    /// The slots of a kernel: that of its launches, and that of its times.
    kernels: HashMap<Arc<str>, [usize; 2]>,
    violations: HashMap<Instruction, usize>,
    /// Violations that are listed while results decide.
    listed: HashMap<Instruction, usize>,
    /// Kernels whose results differ between trials, with the sentence's first words, which tell the kind.
    differing: HashSet<(String, String)>,
    refused: HashSet<String>,
    /// What was remarked, or where.
    remarks: HashSet<String>,
}

impl Results {
    /// Opens the files named by [`RESULTS`], for a process that starts to use this GPU.
    pub(crate) fn of_environment(gpu: &str) -> Self {
        let mut all = Self::default();
        let Some(path) = std::env::var_os(RESULTS).map(PathBuf::from) else { return all };
        all.events = OpenOptions::new().append(true).open(&path).ok();
        all.folder = path.parent().and_then(|folder| File::open(folder).ok());
        if let Some(folder) = &all.folder {
            // Where locks are not supported, the folder of a killed run may go early.
            let _ = folder.try_lock_shared();
        }
        // A process that replaces its program (`exec`) keeps its id.
        for n in 0..1000 {
            all.process = format!("{}.{n}", std::process::id());
            let new = OpenOptions::new().write(true).create_new(true).open(counts_of(&path, &all.process));
            match new {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => {
                    all.counts = made.ok();
                    break;
                }
            }
        }
        let lost = all.new_slot();
        debug_assert_eq!(lost, LOST);
        all.count(lost, [0; 2]);
        all.tell(&Event::Start { process: all.process.clone(), gpu: gpu.to_owned() });
        all
    }

    /// Appends a line with a single system call.
    pub(crate) fn tell(&mut self, event: &Event) {
        let (Some(file), Ok(mut line)) = (self.events.as_mut(), serde_json::to_vec(event)) else { return };
        line.push(b'\n');
        // A full disk must not end the program, but the report must not pass what it does not know.
        if let Err(error) = file.write_all(&line) {
            say(&format!("an event cannot be written: {error}"));
            self.count(LOST, [1, 0]);
        }
    }

    /// Reports something that was not checked, once.
    pub(crate) fn unchecked(&mut self, what: String) {
        REPORTED.set(true);
        if self.refused.insert(what.clone()) {
            say(&what);
            self.tell(&Event::Unchecked { what });
        }
    }

    /// Reports something that violates no rule, once.
    pub(crate) fn remark(&mut self, what: String) {
        if self.remarks.len() < REMARKS && self.remarks.insert(what.clone()) {
            self.tell(&Event::Remark { what });
        }
    }

    /// Reports something at an instruction that violates no rule, once, whatever the addresses.
    pub(crate) fn remark_at(&mut self, place: &Place, what: String) {
        let key = format!("{} line {}", place.kernel, place.line);
        if self.remarks.len() < REMARKS && self.remarks.insert(key) {
            self.tell(&Event::Remark { what });
        }
    }

    fn count(&mut self, slot: usize, by: [u64; 2]) {
        let held = &mut self.slots[slot];
        *held = [held[0] + by[0], held[1] + by[1]];
        let bytes: Vec<u8> = held.iter().flat_map(|n| n.to_le_bytes()).collect();
        if let Some(file) = &self.counts {
            let _ = file.write_all_at(&bytes, (slot * SLOT) as u64);
        }
    }

    fn new_slot(&mut self) -> usize {
        self.slots.push([0; 2]);
        self.slots.len() - 1
    }

    /// The slots of a kernel: that of its launches, and that of its times.
    fn slots(&mut self, kernel: &Arc<str>) -> [usize; 2] {
        if let Some(slots) = self.kernels.get(kernel) {
            return *slots;
        }
        let [slot, times] = [self.new_slot(), self.new_slot()];
        self.kernels.insert(Arc::clone(kernel), [slot, times]);
        let (process, kernel) = (self.process.clone(), kernel.to_string());
        self.tell(&Event::Kernel { process, slot, kernel, times: Some(times) });
        [slot, times]
    }

    /// Records that a launch begins: a process that is killed tells in which one.
    pub(crate) fn begins(&mut self, kernel: &Arc<str>) {
        let [slot, _] = self.slots(kernel);
        self.begun += 1;
        self.set_begun(slot);
    }

    fn set_begun(&mut self, slot: usize) {
        self.slots[LOST][1] = begun(self.begun, slot);
        self.count(LOST, [0, 0]);
    }

    /// Records that the last launch that began did not run.
    pub(crate) fn drop_launch(&mut self) {
        self.begun = self.begun.saturating_sub(1);
        self.set_begun(0);
    }

    /// Records that a launch has ended.
    pub(crate) fn launched(&mut self, kernel: &Arc<str>, instructions: u64, took: Duration) {
        let [slot, times] = self.slots(kernel);
        self.count(slot, [1, instructions]);
        self.count(times, [u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), 0]);
    }

    /// Records the violations of a launch; each instruction is reported once and counted every time.
    pub(crate) fn violated(&mut self, violations: Vec<ViolationRecord>) {
        self.record(violations, false);
    }

    /// Records violations that do not decide by themselves.
    pub(crate) fn listed(&mut self, violations: Vec<ViolationRecord>) {
        self.record(violations, true);
    }

    fn record(&mut self, violations: Vec<ViolationRecord>, is_listed: bool) {
        for violation in violations {
            let times = violation.times;
            let (rule, kernel) = (violation.rule.clone(), violation.kernel.clone());
            let place = (rule, kernel, violation.ptx_line, violation.call.clone());
            let known = if is_listed { &self.listed } else { &self.violations };
            let slot = match known.get(&place) {
                Some(slot) => *slot,
                None => {
                    say(&violation.message);
                    let slot = self.new_slot();
                    let known = if is_listed { &mut self.listed } else { &mut self.violations };
                    known.insert(place, slot);
                    let (process, violation) = (self.process.clone(), Box::new(violation));
                    self.tell(&if is_listed {
                        Event::Listed { process, slot, violation }
                    } else {
                        Event::Violation { process, slot, violation }
                    });
                    slot
                }
            };
            self.count(slot, [times, 0]);
        }
    }

    /// Reports results of a kernel that differ between trials although no rule is violated, once for each kind.
    pub(crate) fn differs(&mut self, kernel: &str, what: &str, is_failure: bool) {
        let kind = what.split_whitespace().next().unwrap_or_default().to_owned();
        if self.differing.insert((kernel.to_owned(), kind)) {
            say(&format!("kernel {kernel}: {what}"));
            self.tell(&Event::Differs { kernel: kernel.to_owned(), what: what.to_owned(), is_failure });
        }
    }

    /// Reports a kernel that cannot run, once.
    pub(crate) fn refused(&mut self, kernel: &str, why: String) {
        REPORTED.set(true);
        if self.refused.insert(kernel.to_owned()) {
            say(&format!("kernel {kernel} cannot run: {why}"));
            self.tell(&Event::Refused { kernel: kernel.to_owned(), why });
        }
    }

    /// Records the end of the process.
    pub(crate) fn end(&mut self, leaks: usize, leaked: u64) {
        let process = self.process.clone();
        self.tell(&Event::End { process, leaks, leaked });
    }
}

/// A copy to the host of memory that nobody had written, until it shows what the memory is for: if the host fills it next, the program has only
/// looked at it too early, as numba does for the shape of an array.
#[derive(Debug)]
pub(crate) struct Unwritten {
    /// Where the allocation begins.
    pub(crate) base: u64,
    pub(crate) call: &'static str,
    pub(crate) what: String,
}

/// Writes a line to standard error, which the program may have closed.
pub(crate) fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "sm121probe exec: {what}");
}

/// Why a launch was refused; `None` if it violated a rule.
pub(crate) fn refusal(stop: &Stop) -> Option<String> {
    (!matches!(stop, Stop::Trap(_))).then(|| stop.to_string())
}
