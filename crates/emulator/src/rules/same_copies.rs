//! Copies that write the same bytes to the same shared memory: like stores of the same value, they are remarked and are not a race.

use crate::api::trap::{Fault, Rule};
use crate::copies::pending::{Pending, Piece, Work};
use crate::copies::transfer::to_tf32;
use crate::rules::races::Values;
use crate::run::cta::Cta;
use crate::run::machine::World;

/// The expected contents of shared memory after pending copies, and which bytes they write.
struct ToCome {
    bytes: Vec<u8>,
    brought: Vec<bool>,
}

impl Work {
    /// The bytes that a piece of a load writes, if it writes all of them.
    fn brings(&self, piece: &Piece, world: &World) -> Option<Vec<u8>> {
        let Self::Load { fill, round } = self else { return None };
        let mut bytes: Vec<u8> = match fill {
            Some(fill) => (0..piece.len).map(|i| fill[i % 16]).collect(),
            None if piece.taken == piece.len => vec![0; piece.len],
            None => return None,
        };
        let taken = bytes.get_mut(piece.skip..piece.skip + piece.taken)?;
        if piece.taken > 0 {
            taken.copy_from_slice(world.global.range(piece.address, piece.taken)?);
        }
        if *round {
            to_tf32(taken);
        }
        Some(bytes)
    }

    /// Whether two pieces do not overlap, or write the same bytes where they do.
    pub(crate) fn agree(&self, a: &Piece, b: &Piece, world: &World) -> bool {
        let (low, high) = (a.at.max(b.at), (a.at + a.len).min(b.at + b.len));
        low >= high || Piece { lane: b.lane, ..*a } == *b || {
            let part = |p: &Piece| self.brings(p, world).map(|bytes| bytes[low - p.at..high - p.at].to_vec());
            part(a).is_some_and(|bytes| part(b) == Some(bytes))
        }
    }
}

impl Cta {
    /// The result of pending copies in `len` bytes; `None` if any of them does more than write bytes.
    fn to_come(&self, at: usize, len: usize, world: &World) -> Option<ToCome> {
        if self.mbarriers.range(..at + len).next_back().is_some_and(|(object, _)| object + 8 > at) {
            return None;
        }
        let mut all =
            ToCome { bytes: self.shared.data.get(at..at + len)?.to_vec(), brought: vec![false; len] };
        let overlaps = |(place, bytes): (usize, usize)| place < at + len && at < place + bytes;
        for pending in &self.pending {
            if pending.sources().any(overlaps) {
                return None;
            }
            for (piece, target) in pending.pieces.iter().zip(pending.targets()).filter(|(_, t)| overlaps(*t))
            {
                let bytes = pending.work.brings(piece, world)?;
                let (low, high) = (target.0.max(at), (target.0 + target.1).min(at + len));
                all.bytes[low - at..high - at].copy_from_slice(&bytes[low - target.0..high - target.0]);
                all.brought[low - at..high - at].fill(true);
            }
        }
        Some(all)
    }

    /// Whether a piece of a copy writes the same bytes as pending copies to the same place.
    pub(crate) fn brings_same(&self, work: &Work, piece: &Piece, world: &World) -> bool {
        let (Some(new), Some(old)) = (work.brings(piece, world), self.to_come(piece.at, piece.len, world))
        else {
            return false;
        };
        (0..piece.len).all(|n| !old.brought[n] || old.bytes[n] == new[n])
    }

    /// Handles a conflicting piece of a copy: returns the remark, with the lane, if it does not change the contents.
    #[cold]
    pub(crate) fn copies_same(
        &mut self,
        pending: &Pending,
        piece: &Piece,
        world: &World,
        fault: Fault,
    ) -> Result<(usize, String), Fault> {
        let new = pending.work.brings(piece, world).filter(|_| fault.rule == Rule::Race);
        let (Some(new), Some(old)) = (new, self.to_come(piece.at, piece.len, world)) else {
            return Err(fault);
        };
        let values = Values { old: &old.bytes, new: &new };
        match self.races.as_mut().map(|races| races.stores_same(piece.at, values, pending.warp)) {
            Some(true) => {
                let what = format!("{}; the value is the same, and no order changes it", fault.what);
                Ok((piece.lane as usize, what))
            }
            _ => Err(fault),
        }
    }
}
