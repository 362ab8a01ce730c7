//! Launches that are kept to run again: which instruction wrote an element of a result last.
//!
//! A launch is kept with its module, its arguments and the memory before it. Arrays below 1 MiB cost nothing, since a launch works on copies
//! of them; larger ones are copied only if that takes little of the launch's time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use emulator::trials::Plan;
use pyo3::prelude::*;
use sm121probe::job::launch::{Initial, LastWrite, Outcome, Session, Start};
use sm121probe::record::counted;

use crate::memory::Memory;

/// The most launches that are kept.
const MOST_LAUNCHES: usize = 32;

/// The most launches of which it is known which memory they had.
const MOST_REMEMBERED: usize = 1024;

/// The most bytes of arrays and of memory that are kept, of all launches together.
const MOST_BYTES: usize = 64 << 20;

/// Bytes of large arrays that may be copied for each warp instruction of a launch. A warp instruction takes tens of nanoseconds, and a copy of so
/// many bytes one or two.
const COPIED_PER_INSTRUCTION: u64 = 16;

/// Bytes from which a launch works on pages of a buffer, and not on a copy of it.
const LARGE: usize = 1 << 20;

/// The longest launch that runs again.
const LONGEST: Duration = Duration::from_secs(10);

/// A launch of the past.
struct Past {
    entry: String,
    /// The memory of the launch's device, if it had one.
    owner: Option<u64>,
    /// The arrays in memory of this process, one for each buffer of the session from the first on.
    arrays: Vec<Range<u64>>,
    bytes: usize,
    kept: Kept,
}

/// A launch, or why it is not kept. A replay locks the launch alone, so that others can end meanwhile.
type Kept = Result<Arc<Mutex<(Session, Plan)>>, String>;

/// Launches, the oldest first.
struct History {
    all: VecDeque<Past>,
    bytes: usize,
}

static HISTORY: Mutex<History> = Mutex::new(History { all: VecDeque::new(), bytes: 0 });

/// What a launch needs and took.
pub(crate) struct Cost {
    /// Bytes of all arrays and of the device's memory.
    pub(crate) bytes: usize,
    /// Those that are copied only to be kept.
    pub(crate) copied: usize,
    /// Warp instructions.
    pub(crate) instructions: u64,
    pub(crate) elapsed: Duration,
}

impl Cost {
    /// Why a launch of this cost is not kept; `None` if it is.
    pub(crate) fn obstacle(&self) -> Option<String> {
        if self.bytes > MOST_BYTES {
            let (there, most) = (self.bytes >> 20, MOST_BYTES >> 20);
            return Some(format!("its memory has {there} MiB, and at most {most} MiB are kept"));
        }
        if self.copied as u64 > self.instructions.saturating_mul(COPIED_PER_INSTRUCTION) {
            let (mebibytes, instructions) = (self.copied >> 20, self.instructions);
            return Some(format!(
                "to keep its large arrays, {mebibytes} MiB, would take long beside {}",
                counted(instructions as usize, "warp instruction")
            ));
        }
        if self.elapsed > LONGEST {
            return Some(format!("it took more than {} s", LONGEST.as_secs()));
        }
        None
    }
}

/// A launch that ended: its kernel, the memory of its device, and its arrays.
pub(crate) struct Ended {
    pub(crate) entry: String,
    pub(crate) owner: Option<u64>,
    pub(crate) arrays: Vec<Range<u64>>,
    pub(crate) bytes: usize,
}

/// Keeps a launch, or why it is not kept. Bytes of large arrays must be copied by then.
pub(crate) fn keep(ended: Ended, kept: Result<(Session, Plan), String>) {
    let Ended { entry, owner, arrays, bytes } = ended;
    let bytes = if kept.is_ok() { bytes } else { 0 };
    let kept = kept.map(|kept| Arc::new(Mutex::new(kept)));
    let dropped = HISTORY.lock().unwrap_or_else(PoisonError::into_inner).add(Past {
        entry,
        owner,
        arrays,
        bytes,
        kept,
    });
    // Their memory is freed without the lock.
    drop(dropped);
}

impl History {
    /// Adds a launch, and returns those that are no longer kept.
    fn add(&mut self, past: Past) -> Vec<Kept> {
        self.bytes += past.bytes;
        self.all.push_back(past);
        let mut dropped = Vec::new();
        let mut kept = self.all.iter().filter(|past| past.kept.is_ok()).count();
        for past in self.all.iter_mut().filter(|past| past.kept.is_ok()) {
            if kept <= MOST_LAUNCHES && self.bytes <= MOST_BYTES {
                break;
            }
            let why = format!("only the last {MOST_LAUNCHES} launches and {} MiB are kept", MOST_BYTES >> 20);
            dropped.push(std::mem::replace(&mut past.kept, Err(why)));
            self.bytes -= past.bytes;
            (past.bytes, kept) = (0, kept - 1);
        }
        while self.all.len() > MOST_REMEMBERED {
            dropped.extend(self.all.pop_front().map(|past| past.kept));
        }
        dropped
    }
}

/// Copies of the large arrays of a session, by buffer, since the results of its launch are about to overwrite them.
pub(crate) fn lent_bytes(session: &Session) -> Vec<(usize, Vec<u8>)> {
    let lent = session.buffers.iter().enumerate().filter_map(|(n, buffer)| match &buffer.initial {
        Initial::Lent(host) => Some((n, host.bytes().to_vec())),
        _ => None,
    });
    lent.collect()
}

/// The cost of a launch that ended with this result.
pub(crate) fn cost(session: &Session, outcome: &Outcome, instructions: u64, elapsed: Duration) -> Cost {
    let lent = session.buffers.iter().filter(|buffer| matches!(buffer.initial, Initial::Lent(_)));
    let lent: usize = lent.map(|buffer| buffer.shape.bytes).sum();
    let arrays: usize = session.buffers.iter().map(|buffer| buffer.shape.bytes).sum();
    let (mut of_device, mut written) = (0, 0);
    for (base, len) in session.base.buffers() {
        of_device += len;
        // A launch gives pages of a large buffer back, unless the buffer of before is kept.
        if len >= LARGE && outcome.memory.written_runs(base).next().is_some() {
            written += len;
        }
    }
    Cost { bytes: arrays + of_device, copied: lent + written, instructions, elapsed }
}

impl Past {
    /// Where bytes begin in this launch's memory; `None` if it has no array there.
    fn start(&self, owner: Option<u64>, bytes: &Range<u64>) -> Option<Start> {
        if owner.is_some() {
            return (self.owner == owner).then_some(Start::Address(bytes.start));
        }
        let inside = |array: &Range<u64>| array.start <= bytes.start && bytes.end <= array.end;
        let n = self.arrays.iter().position(inside)?;
        Some(Start::Buffer(n, bytes.start - self.arrays[n].start))
    }
}

/// Returns which instruction wrote an element last, as lines of text: the element at an address in the memory of a device, or of this process,
/// with these bytes. If that cannot be found, says why in one sentence; returns nothing if no launch of the past had this memory.
#[pyfunction]
pub(crate) fn last_write(
    py: Python<'_>,
    memory: Option<&Bound<'_, Memory>>,
    address: u64,
    found: Vec<u8>,
    element: &str,
) -> Option<String> {
    let owner = memory.map(|memory| memory.get().id());
    py.detach(|| search(owner, address, &found, element))
}

fn search(owner: Option<u64>, address: u64, found: &[u8], element: &str) -> Option<String> {
    let bytes = address..address.checked_add(found.len() as u64)?;
    let all: Vec<(String, Start, Kept)> = {
        let history = HISTORY.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |past: &Past| Some((past.entry.clone(), past.start(owner, &bytes)?, past.kept.clone()));
        history.all.iter().rev().filter_map(of).collect()
    };
    // Memory of the host may be another array's by now: only a write that left these very bytes says something of it.
    let is_hosts = owner.is_none();
    for (name, start, kept) in &all {
        let kept = match kept {
            Ok(kept) => kept,
            Err(_) if is_hosts => return None,
            Err(why) => {
                return Some(format!(
                    "{element}: what wrote it last is not known, since the launch of `{name}` cannot run again: {why}"
                ));
            }
        };
        let (session, plan) = &mut *kept.lock().unwrap_or_else(PoisonError::into_inner);
        match session.last_write(plan, (*start, found.len())) {
            Ok(Some(LastWrite { left, .. })) if left != found && is_hosts => return None,
            Ok(Some(LastWrite { left, .. })) if left != found => {
                return Some(format!(
                    "{element}: the host has changed it since the launch of `{name}` wrote it, so that no instruction is named"
                ));
            }
            Ok(Some(write)) => return Some(write.lines(element).join("\n")),
            Ok(None) => {}
            Err(_) if is_hosts => return None,
            Err(error) => {
                return Some(format!(
                    "{element}: the launch of `{name}` does not run again as it did: {error}"
                ));
            }
        }
    }
    let launches = counted(all.len(), "launch");
    (!all.is_empty() && !is_hosts)
        .then(|| format!("{element}: none of the last {launches} with this memory wrote it"))
}
