//! Asynchronous copies (PTX ISA 9.7.9.27): what has been issued and not yet done, and the bytes nobody may touch until then.

use super::isa::reduce::Reduce;
use super::order::{Order, Scope, Strong, Touch};

/// One run of bytes of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The lane that asked for it.
    pub(super) lane: u32,
    /// Place in shared memory, and bytes there.
    pub(super) at: usize,
    pub(super) len: usize,
    /// The other side: an address in global memory, or a place in shared memory.
    pub(super) address: u64,
    /// Bytes of the run that the other side has: `taken` of them behind the first `skip`. A load fills the others.
    pub(super) skip: usize,
    pub(super) taken: usize,
}

impl Piece {
    /// A run that both sides have in full.
    pub(super) fn whole(lane: usize, at: usize, len: usize, address: u64) -> Self {
        Self { lane: lane as u32, at, len, address, skip: 0, taken: len }
    }
}

/// What is done with the pieces.
#[derive(Debug, Clone)]
pub(super) enum Work {
    /// Global to shared memory; bytes without a source are filled with this pattern, or hold nothing, and elements may be
    /// rounded to TF32.
    Load { fill: Option<[u8; 16]>, round: bool },
    /// Shared to global memory.
    Store(Store),
    /// Within shared memory.
    Within { reduce: Option<Reduce> },
    /// Registers to shared memory: the bytes of all pieces, one after the other.
    Put { bytes: Vec<u8>, reduce: Option<Reduce> },
    /// An arrival at the barrier objects at the pieces' places, once earlier `cp.async` of their lanes are done: copies of these
    /// numbers.
    Arrive { behind: Vec<u32> },
}

/// How shared memory goes to global memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Store {
    pub(super) reduce: Option<Reduce>,
    /// Bytes of every 16 that are written.
    pub(super) mask: Option<u16>,
    /// Sixteen 6-bit values, a byte each, become twelve bytes.
    pub(super) pack6: bool,
    /// The source, once it has been read.
    pub(super) read: Option<Vec<u8>>,
}

/// A copy that has been issued and not yet done.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) warp: u32,
    /// The lanes that issued it.
    pub(super) lanes: u32,
    pub(super) kind: PendingKind,
    /// The group of the issuing threads it belongs to, once committed.
    pub(super) group: Option<u64>,
    /// Line of the PTX text.
    pub(super) line: u32,
    pub(super) pieces: Vec<Piece>,
    pub(super) work: Work,
    /// The barrier object that is told, and of how many bytes.
    pub(super) barrier: Option<(usize, u32)>,
    /// Whether a thread of another CTA of the cluster issued it.
    pub(super) foreign: bool,
    /// The tensor map in global memory that it goes by, while it does.
    pub(super) map: Option<u64>,
    /// Its number as the race observer knows it; 0 where it does not.
    pub(super) number: u32,
}

/// Which waits a copy answers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingKind {
    /// `cp.async`: `cp.async.wait_group`, `cp.async.mbarrier.arrive`.
    CpAsync,
    /// Bulk copies with `.bulk_group`.
    Bulk,
    /// Copies and arrivals that nothing but a barrier object tells of.
    Barrier,
}

impl Pending {
    /// The part that these lanes issued; the others keep theirs.
    pub(super) fn split(&mut self, lanes: u32) -> Option<Self> {
        let mine = self.lanes & lanes;
        if mine == 0 {
            return None;
        }
        let of = |p: &Piece| mine >> p.lane & 1 == 1;
        let pieces = self.pieces.iter().copied().filter(of).collect();
        self.pieces.retain(|p| !of(p));
        self.lanes &= !mine;
        Some(Self { lanes: mine, pieces, work: self.work.clone(), ..*self })
    }

    /// The runs of shared memory it will write.
    pub(super) fn targets(&self) -> impl Iterator<Item = (usize, usize)> {
        let work = match self.work {
            Work::Load { .. } | Work::Put { .. } => 0,
            Work::Within { .. } => 1,
            Work::Store(_) | Work::Arrive { .. } => 2,
        };
        self.pieces.iter().filter_map(move |p| match work {
            0 => Some((p.at, p.len)),
            1 => Some((p.address as usize, p.len)),
            _ => None,
        })
    }

    /// The runs of shared memory it has still to read.
    pub(super) fn sources(&self) -> impl Iterator<Item = (usize, usize)> {
        let unread = match &self.work {
            Work::Store(store) => store.read.is_none(),
            Work::Within { .. } => true,
            Work::Load { .. } | Work::Put { .. } | Work::Arrive { .. } => false,
        };
        self.pieces.iter().filter(move |_| unread).map(|p| (p.at, p.len))
    }

    /// Whether the end of its CTA would take its shared memory away. `cp.async` is held back by the CTA itself.
    pub(super) fn outlives(&self) -> bool {
        self.kind != PendingKind::CpAsync
            && (self.targets().next().is_some() || self.sources().next().is_some())
    }

    /// Whether it changes elements one by one instead of writing them: such copies may meet.
    pub(super) fn reduces(&self) -> bool {
        matches!(self.work, Work::Within { reduce: Some(_) } | Work::Put { reduce: Some(_), .. })
    }

    /// How strong its writes are: each reduction is relaxed at the scope of the GPU.
    pub(super) fn strength(&self) -> Option<Strong> {
        let reduces = match &self.work {
            Work::Store(store) => store.reduce.is_some(),
            _ => self.reduces(),
        };
        reduces.then_some(Strong { order: Order::relaxed(Scope::Gpu), touch: Touch::Modify })
    }

    pub(super) fn verb(&self) -> &'static str {
        match self.work {
            Work::Load { .. } | Work::Within { .. } | Work::Put { .. } => "writes",
            Work::Store(_) => "reads",
            Work::Arrive { .. } => "arrives",
        }
    }
}

/// The shared address of a place.
pub(super) fn shared_address(at: usize) -> u64 {
    at as u64 + u64::from(super::memory::SHARED_START)
}
