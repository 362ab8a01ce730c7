//! Peer access: which GPU may access the memory of which other one.

use std::collections::BTreeSet;

use crate::status::{Answer, Status};

/// The pairs of GPUs of which the first may access memory of the second.
#[derive(Debug, Default)]
pub(crate) struct Peers(BTreeSet<(u8, u8)>);

impl Peers {
    /// Whether `gpu` may access memory of `other`.
    pub(crate) fn reaches(&self, gpu: u8, other: u8) -> bool {
        gpu == other || self.0.contains(&(gpu, other))
    }

    /// Lets `gpu` access memory of `other`; `same` is the status for a GPU that names itself.
    pub(crate) fn enable(&mut self, gpu: u8, other: u8, same: Status) -> Answer {
        if gpu == other {
            return Err(same);
        }
        if self.0.insert((gpu, other)) { Ok(()) } else { Err(Status::PEER_ALREADY_ENABLED) }
    }

    /// Ends the access of `gpu` to memory of `other`.
    pub(crate) fn disable(&mut self, gpu: u8, other: u8) -> Answer {
        if self.0.remove(&(gpu, other)) { Ok(()) } else { Err(Status::PEER_NOT_ENABLED) }
    }

    /// Ends all access of a GPU that is reset, and to its memory.
    pub(crate) fn forget(&mut self, gpu: u8) {
        self.0.retain(|(one, other)| *one != gpu && *other != gpu);
    }
}
