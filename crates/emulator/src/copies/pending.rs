//! Pending asynchronous copies (PTX ISA 9.7.9.27) and the bytes that must not be accessed until they complete.

use crate::api::trap::Fault;
use crate::copies::reduce::Reduce;
use crate::memory::global::GlobalMemory;
use crate::rules::order::{Order, Scope, Strong, Touch};

/// A contiguous run of bytes of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The lane that requested it.
    pub(crate) lane: u32,
    /// Offset in shared memory, and length there.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// The other side: an address in global memory, or an offset in shared memory.
    pub(crate) address: u64,
    /// Bytes of the run that exist on the other side: `taken` of them, after the first `skip`. A load fills the others.
    pub(crate) skip: usize,
    pub(crate) taken: usize,
}

impl Piece {
    /// A run that exists in full on both sides.
    pub(crate) fn whole(lane: usize, at: usize, len: usize, address: u64) -> Self {
        Self { lane: lane as u32, at, len, address, skip: 0, taken: len }
    }

    /// The piece as one for each buffer of global memory in which its bytes lie; they must exist.
    pub(crate) fn by_buffer(self, memory: &mut GlobalMemory) -> Result<Vec<Self>, Fault> {
        if self.taken == 0 {
            return Ok(vec![self]);
        }
        let runs = memory.runs(self.address, self.taken)?;
        let mut done = 0;
        let last = runs.len() - 1;
        let part = |(n, (address, taken)): (usize, (u64, usize))| {
            let (skip, at) = if n == 0 { (self.skip, self.at) } else { (0, self.at + self.skip + done) };
            done += taken;
            let behind = if n == last { self.len - self.skip - self.taken } else { 0 };
            Self { at, len: skip + taken + behind, address, skip, taken, ..self }
        };
        Ok(runs.into_iter().enumerate().map(part).collect())
    }

    /// Only the bytes that exist on the other side.
    pub(crate) fn trimmed(self) -> Self {
        Self { at: self.at + self.skip, len: self.taken, skip: 0, ..self }
    }
}

/// The operation of a copy on its pieces.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Global to shared memory. Bytes without a source are filled with this pattern, or left unwritten if it is `None`; elements
    /// may be rounded to TF32.
    Load { fill: Option<[u8; 16]>, round: bool },
    /// Shared to global memory.
    Store(Store),
    /// Within shared memory.
    Within { reduce: Option<Reduce> },
    /// Registers to shared memory: the bytes of all pieces, concatenated.
    Put { bytes: Vec<u8>, reduce: Option<Reduce> },
    /// An arrival at the barrier objects of the pieces, once earlier `cp.async` of their lanes are complete: the copies with these
    /// numbers.
    Arrive { behind: Vec<u32> },
}

/// A store from shared to global memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) reduce: Option<Reduce>,
    /// Sixteen 6-bit values of one byte each are packed into twelve bytes.
    pub(crate) pack6: bool,
    /// The source bytes, once read.
    pub(crate) read: Option<Vec<u8>>,
}

/// A copy that has been issued but is not complete.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) warp: u32,
    /// The lanes that issued it.
    pub(crate) lanes: u32,
    pub(crate) kind: PendingKind,
    /// Its group within the issuing threads, once committed.
    pub(crate) group: Option<u64>,
    /// Line of the PTX text.
    pub(crate) line: u32,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) work: Work,
    /// The barrier object to signal, and the number of bytes.
    pub(crate) barrier: Option<(usize, u32)>,
    /// Whether a thread of another CTA of the cluster issued it.
    pub(crate) foreign: bool,
    /// The tensor map in global memory that it is using.
    pub(crate) map: Option<u64>,
    /// Its number in the race detector; 0 if it has none.
    pub(crate) number: u32,
}

/// The kinds of wait that apply to a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingKind {
    /// `cp.async`: `cp.async.wait_group`, `cp.async.mbarrier.arrive`.
    CpAsync,
    /// Bulk copies with `.bulk_group`.
    Bulk,
    /// Copies and arrivals that only a barrier object signals.
    Barrier,
}

impl Pending {
    /// Splits off the part that these lanes issued.
    pub(crate) fn split(&mut self, lanes: u32) -> Option<Self> {
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

    /// The runs of shared memory that it will write.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (usize, usize)> {
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

    /// The runs of shared memory that it has not read yet.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (usize, usize)> {
        let unread = match &self.work {
            Work::Store(store) => store.read.is_none(),
            Work::Within { .. } => true,
            Work::Load { .. } | Work::Put { .. } | Work::Arrive { .. } => false,
        };
        self.pieces.iter().filter(move |_| unread).map(|p| (p.at, p.len))
    }

    /// Whether it would still access shared memory after its CTA has ended. The CTA itself waits for its `cp.async`.
    pub(crate) fn outlives(&self) -> bool {
        self.kind != PendingKind::CpAsync
            && (self.targets().next().is_some() || self.sources().next().is_some())
    }

    /// Whether it updates elements atomically instead of overwriting them: such copies may overlap.
    pub(crate) fn reduces(&self) -> bool {
        matches!(self.work, Work::Within { reduce: Some(_) } | Work::Put { reduce: Some(_), .. })
    }

    /// The strength of its writes: each reduction is relaxed, with GPU scope.
    pub(crate) fn strength(&self) -> Option<Strong> {
        let reduces = match &self.work {
            Work::Store(store) => store.reduce.is_some(),
            _ => self.reduces(),
        };
        reduces.then_some(Strong { order: Order::relaxed(Scope::Gpu), touch: Touch::Modify })
    }

    pub(crate) fn verb(&self) -> &'static str {
        match self.work {
            Work::Load { .. } | Work::Within { .. } | Work::Put { .. } => "writes",
            Work::Store(_) => "reads",
            Work::Arrive { .. } => "arrives",
        }
    }
}

/// The shared address of an offset in shared memory.
pub(crate) fn shared_address(at: usize) -> u64 {
    at as u64 + u64::from(crate::memory::window::SHARED_START)
}
