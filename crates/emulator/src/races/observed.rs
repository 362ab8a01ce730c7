//! What strong reads have observed. A strong write is ordered before everything behind a strong read that returns its value, or that of a
//! sequence of read-modify-writes which began with it (PTX ISA 8.9.3 and 8.9.5). Nothing else that the writer did is: clocks cannot say that.
//!
//! It is taken of reads that acquire and of read-modify-writes alone. Of a relaxed load the emulator shows the newest value where a GPU may show an
//! older one: who stores behind it relies on more than it has been told, and is reported.
//!
//! So who has counted the arrivals of others, even with `.relaxed`, may reset the counter by a weak store. This is known of global memory and of
//! that of clusters; `chain` knows it of the shared memory of one CTA.

use std::collections::HashMap;

use super::Races;
use super::global::Who;

/// The reads of a location since its last strong write, by warp the first one.
#[derive(Debug)]
struct Reads {
    last: Who,
    /// The write before, where the last one was a read-modify-write.
    earlier: Option<Who>,
    by: Vec<Who>,
}

/// By location, reads of strong writes that nothing else orders.
#[derive(Debug, Default)]
pub(super) struct Observed(HashMap<u64, Reads>);

/// Locations are words, as those of release and acquire.
fn location(address: u64) -> u64 {
    address / 4
}

impl Observed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A strong read of a byte: what it returns was written by `last`.
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
