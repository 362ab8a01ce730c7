//! What strong reads have observed. A strong write is ordered before everything after a strong read that returns its value, or the value of a
//! sequence of read-modify-writes that began with it (PTX ISA 8.9.3 and 8.9.5). Nothing else that the writer did is: clocks cannot express that.
//!
//! Only acquiring reads and read-modify-writes count. For a relaxed load, the emulator returns the newest value where a GPU may return an
//! older one: code that stores after it relies on more than the manual guarantees, and is reported.
//!
//! A warp that has counted the arrivals of others, even with `.relaxed`, may therefore reset the counter by a weak store. This holds for
//! global memory and for that of clusters; `chain` does the same for the shared memory of one CTA.

use std::collections::HashMap;

use super::Races;
use super::global::Who;

/// The reads of a location since its last strong write, the first one of each warp.
#[derive(Debug)]
struct Reads {
    last: Who,
    /// The previous write, if the last one was a read-modify-write.
    earlier: Option<Who>,
    by: Vec<Who>,
}

/// By location, reads of strong writes that nothing else orders.
#[derive(Debug, Default)]
pub(super) struct Observed(HashMap<u64, Reads>);

/// Locations are words, like those of release and acquire.
fn location(address: u64) -> u64 {
    address / 4
}

impl Observed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records a strong read of a byte whose value `last` wrote.
    pub(super) fn read(&mut self, address: u64, last: Who, earlier: Option<Who>, by: Who) {
        let reads =
            self.0.entry(location(address)).or_insert_with(|| Reads { last, earlier, by: Vec::new() });
        if !reads.last.is(last) {
            *reads = Reads { last, earlier, by: Vec::new() };
        }
        reads.earlier = reads.earlier.or(earlier);
        if !reads.by.iter().any(|other| (other.cta(), other.warp()) == (by.cta(), by.warp())) {
            reads.by.push(by);
        }
    }

    /// A write by a warp whose earlier write at the same time has been observed: the two cannot be told apart from here on.
    pub(super) fn written(&mut self, address: u64, by: Who) {
        if let Some(reads) = self.0.get(&location(address))
            && (reads.last.is(by) || reads.earlier.is_some_and(|earlier| earlier.is(by)))
        {
            self.0.remove(&location(address));
        }
    }

    /// Whether a write of a byte is ordered before what a warp does now.
    pub(super) fn orders(&self, address: u64, write: Who, cta: &Races, warp: u32) -> bool {
        write.strong()
            && self.0.get(&location(address)).is_some_and(|reads| {
                (reads.last.is(write) || reads.earlier.is_some_and(|earlier| earlier.is(write)))
                    && reads.by.iter().any(|read| cta.knows(*read, warp))
            })
    }
}
