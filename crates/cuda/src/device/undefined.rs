//! Undefined bytes that a copy carries to the host: what is a violation, and what is worth a remark.
//!
//! compute-sanitizer's initcheck reports any byte of a copy that nothing has written. That finds real faults and much that is none:
//! structs have padding, pitched rows have ends, and buffers are copied as a whole though a part of them is used. Here the origin of a
//! byte decides:
//!
//! * A kernel stored it, and the stored value was computed from undefined bits. A program that computes a value wants it: a violation,
//!   named with the kernel and the line.
//! * A kernel stored it as it had loaded it. If fewer than [`PADDING`] bytes are undefined in a row, they may be the padding of a struct
//!   that the kernel moves: a remark. More are data: a violation.
//! * Nothing wrote it. If something wrote to other bytes of the allocation, the rest may be unused: a remark. If nothing ever wrote to any
//!   of it, although kernels ran, nobody can want what the host reads: a violation.
//!
//! A function of a library that computes on the host says which bytes it uses. Any of these that is undefined is a violation.

use std::ops::Range;

use emulator::events::ViolationRecord;
use emulator::{GlobalMemory, Rule, Trap};

use crate::device::results::Unwritten;
use crate::device::state::Device;
use crate::program::caller::called_function;

/// No scalar or vector type of CUDA is aligned to more bytes, so that the padding of a struct is shorter.
const PADDING: u64 = 16;

/// Undefined bytes of one origin.
#[derive(Debug)]
struct Origin {
    /// The store that left them; `None` if nothing wrote them.
    left: Option<Trap>,
    /// Whether all of them may be padding.
    padding: bool,
    count: u64,
    /// From the first to the last of them.
    range: Range<u64>,
}

/// The undefined bytes of what is read to the host.
#[derive(Debug, Default)]
pub(crate) struct UndefinedBytes {
    origins: Vec<Origin>,
    copied: u64,
}

/// The part of a run of undefined bytes that counts, and how many of its bytes do.
type Counted = Option<(Range<u64>, u64)>;

/// What the value was computed from that a store left undefined.
fn cause_of(trap: &Trap) -> String {
    let cause = trap.what.split_once("; they come from").map_or("", |(_, cause)| cause);
    if cause.is_empty() { String::new() } else { format!("; they come from{cause}") }
}

/// A violation of a call by bytes that a store left undefined.
fn of_store(call: &str, trap: &Trap) -> ViolationRecord {
    ViolationRecord { call: Some(call.to_owned()), ..ViolationRecord::from_trap(trap, 1) }
}

impl UndefinedBytes {
    /// Adds those of a range in device memory.
    pub(crate) fn add(&mut self, memory: &GlobalMemory, address: u64, len: usize) {
        self.add_counted(memory, address, len, |run| Some((run.clone(), run.end - run.start)));
    }

    /// Adds those of a range in device memory whose offsets in it are used.
    pub(crate) fn add_used(
        &mut self,
        memory: &GlobalMemory,
        address: u64,
        len: usize,
        is_used: impl Fn(usize) -> bool,
    ) {
        let is_used = |at: &u64| is_used((at - address) as usize);
        self.add_counted(memory, address, len, |run| {
            let [first, last] = [run.clone().find(is_used)?, run.clone().rfind(is_used)?];
            Some((first..last + 1, run.clone().filter(is_used).count() as u64))
        });
    }

    fn add_counted(
        &mut self,
        memory: &GlobalMemory,
        address: u64,
        len: usize,
        counted: impl Fn(&Range<u64>) -> Counted,
    ) {
        self.copied += len as u64;
        let origins = &mut self.origins;
        memory.each_undefined(address, len, |run| {
            let padding = run.moved && run.range.end - run.range.start < PADDING;
            let Some((range, count)) = counted(&run.range) else { return };
            let same =
                |origin: &&mut Origin| origin.left.as_ref().map(|t| &t.place) == run.left.map(|t| &t.place);
            match origins.iter_mut().find(same) {
                Some(origin) => {
                    origin.count += count;
                    origin.padding &= padding;
                    origin.range = origin.range.start.min(range.start)..origin.range.end.max(range.end);
                }
                None => origins.push(Origin { left: run.left.cloned(), padding, count, range }),
            }
        });
    }
}

impl Device {
    /// The allocation with these bytes, and where they lie in it.
    fn place_of(&self, range: &Range<u64>) -> Option<(u64, String)> {
        let (base, len) = self.memory.buffer_around(range.start)?;
        let (first, last) = (range.start - base, range.end - 1 - base);
        Some((base, format!("between bytes {first} and {last} of an allocation of {len} bytes")))
    }

    /// Reports the undefined bytes that a function of a library computes with. `name` is the operand that they belong to.
    pub(crate) fn report_used(&mut self, undefined: UndefinedBytes, name: &str) {
        for Origin { left, count, range, .. } in undefined.origins {
            let Some((_, place)) = self.place_of(&range) else { continue };
            let call = called_function();
            let bytes = if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") };
            let record = match left {
                Some(trap) => {
                    let cause = cause_of(&trap);
                    let what = format!("{call} reads {bytes} of {name} that are undefined, {place}{cause}");
                    of_store(call, &Trap { what, ..trap })
                }
                None => {
                    let what = format!("it reads {bytes} of {name} that nothing has written, {place}");
                    ViolationRecord::of_call(call, Rule::Uninitialised, what)
                }
            };
            self.results.violated(vec![record]);
        }
    }

    /// Reports the undefined bytes that a copy has carried to the host.
    pub(crate) fn report_undefined(&mut self, undefined: UndefinedBytes) {
        let UndefinedBytes { origins, copied } = undefined;
        for Origin { left, padding, count, range } in origins {
            let Some((base, place)) = self.place_of(&range) else { continue };
            let call = called_function();
            let bytes = format!("{count} of {copied} bytes");
            match left {
                Some(trap) => {
                    let cause = cause_of(&trap);
                    let what =
                        format!("{call} copies {bytes} to the host that are undefined, {place}{cause}");
                    let trap = Trap { what, ..trap };
                    if padding {
                        self.results.remark(format!(
                            "{} (they may be padding that the kernel moves); {}",
                            trap.what, trap.place
                        ));
                    } else {
                        self.results.violated(vec![of_store(call, &trap)]);
                    }
                }
                None if self.launches > 0 && !self.memory.is_touched(base) => {
                    let what = format!(
                        "it copies {bytes} to the host, {place} that neither the host nor a kernel has ever written to"
                    );
                    self.unwritten.push(Unwritten { base, call, what });
                }
                None => {
                    let what = format!("{call} copies {bytes} to the host that nothing has written, {place}");
                    self.results.remark(what);
                }
            }
        }
    }

    /// Reports the copies of memory that nobody had written. Before a launch, before the memory is freed and at the end of the process it is
    /// known whether the host has filled the memory since.
    pub(crate) fn report_unwritten(&mut self) {
        for Unwritten { base, call, what } in std::mem::take(&mut self.unwritten) {
            if self.memory.is_touched(base) {
                self.results.remark(format!("{call}: {what}; the host fills it afterwards"));
            } else {
                self.results.violated(vec![ViolationRecord::of_call(call, Rule::Uninitialised, what)]);
            }
        }
    }

    /// Remarks that a kernel left undefined bytes in memory that the host reads without a copy, if it does.
    pub(crate) fn remark_shared_undefined(&mut self, address: u64, len: usize) {
        if let Some(trap) = self.memory.undefined(address) {
            let cause = cause_of(trap);
            let what = format!(
                "undefined bytes are left in an allocation of {len} bytes that the host can read{cause}; {}",
                trap.place
            );
            self.results.remark(what);
        }
    }
}
