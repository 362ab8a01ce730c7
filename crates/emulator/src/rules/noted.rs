//! Reports the global memory accesses of asynchronous copies to the race detector.

use crate::api::trap::{Fault, Rule};
use crate::copies::pending::{Pending, PendingKind, Store, Work, shared_address};
use crate::copies::transfer::outgoing;
use crate::rules::order::{Order, Scope, Strong, Touch};
use crate::rules::races::{GlobalAccess, Values};
use crate::run::machine::{Machine, World};

/// Bytes of global memory that a copy accesses, and the first lane that requested them.
struct Run {
    lane: u32,
    address: u64,
    len: usize,
}

/// The bytes of a copy; adjacent pieces are merged into one run.
fn runs(pending: &Pending) -> Vec<Run> {
    let mut all: Vec<Run> = Vec::new();
    for piece in pending.pieces.iter().filter(|p| p.taken > 0) {
        match all.last_mut() {
            Some(last) if last.address + last.len as u64 == piece.address => last.len += piece.taken,
            _ => all.push(Run { lane: piece.lane, address: piece.address, len: piece.taken }),
        }
    }
    all
}

impl Machine<'_> {
    /// Reports a copy that this warp issues to the race detector; returns the copy's number there.
    pub(crate) fn note_copy(&mut self, pending: &Pending) -> Result<u32, Fault> {
        self.watch_copy(pending);
        // Each reduction is relaxed, with GPU scope.
        let reduces = Strong { order: Order::relaxed(Scope::Gpu), touch: Touch::Modify };
        let (write, strong) = match &pending.work {
            Work::Load { .. } => (false, None),
            Work::Store(store) => (true, store.reduce.map(|_| reduces)),
            Work::Within { .. } | Work::Put { .. } | Work::Arrive { .. } => return Ok(0),
        };
        if self.cta.races.is_none() {
            return Ok(0);
        }
        let number = self.world.races.copies.begin();
        let new = match &pending.work {
            Work::Store(store) if store.reduce.is_none() => self.stored(store, pending),
            _ => Vec::new(),
        };
        if let Some(races) = &mut self.cta.races {
            races.set_strong(strong);
        }
        let mut stored = Vec::new();
        let mut result = Ok(());
        let mut from = 0;
        for run in runs(pending) {
            let bytes = new.get(from..from + run.len);
            from += run.len;
            let access = GlobalAccess { address: run.address, len: run.len, write };
            let noted = self.note_run_of_copy(number, access, bytes, run.lane);
            result = result.and(noted.map_err(|f| f.at(run.lane as usize)));
            stored.extend(bytes.map(|bytes| (run.address, bytes.to_vec())));
        }
        if let Some(races) = &mut self.cta.races {
            races.set_strong(None);
            races.issued(number, self.warp, pending.lanes, pending.kind);
        }
        if !stored.is_empty() {
            self.world.races.copies.carries(number, stored);
        }
        result.map(|()| number)
    }

    /// The bytes that a store will write, for all runs.
    fn stored(&self, store: &Store, pending: &Pending) -> Vec<u8> {
        let mut all = Vec::new();
        for piece in pending.pieces.iter().filter(|p| p.taken > 0) {
            let source = self.cta.shared.data.get(piece.at..piece.at + piece.len).unwrap_or_default();
            all.extend_from_slice(&outgoing(store, piece, source));
        }
        all
    }

    /// Checks for the fence that is needed between a write through the generic proxy and its use through the async proxy: for the
    /// source of a load in global memory, its target in this CTA's shared memory, and the target of a reduction.
    pub(crate) fn check_proxies(&mut self, pending: &Pending, rank: Option<u32>) -> Result<(), Fault> {
        let load = match &pending.work {
            Work::Load { .. } => true,
            Work::Store(store) if store.reduce.is_some() => false,
            _ => return Ok(()),
        };
        if pending.kind == PendingKind::CpAsync {
            return Ok(());
        }
        for run in runs(pending) {
            let Some(races) = &self.cta.races else { return Ok(()) };
            let World { races: all, stream, .. } = &mut *self.world;
            let access = GlobalAccess { address: run.address, len: run.len, write: !load };
            let lacks = all.unfenced(races, access, self.warp, stream);
            self.unfenced(run.lane, lacks)?;
        }
        for piece in pending.pieces.iter().filter(|_| load && rank.is_none()) {
            let thread = self.warp * 32 + piece.lane;
            let found = self.cta.proxy.as_ref().and_then(|p| p.unfenced(piece.at, piece.len, thread));
            let lacks = found.map(|(byte, writer)| {
                let at = shared_address(byte);
                format!(
                    "no proxy fence: the async proxy writes shared address {at:#x}, which thread {writer} wrote through the \
                     generic proxy without `fence.proxy.async` since"
                )
            });
            // Kernels of Triton 3.4 have no fence there.
            match lacks {
                Some(what) if !self.world.check_fences => self.lane_remarks.push((piece.lane as usize, what)),
                lacks => self.unfenced(piece.lane, lacks)?,
            }
        }
        Ok(())
    }

    fn unfenced(&mut self, lane: u32, lacks: Option<String>) -> Result<(), Fault> {
        match lacks {
            None => Ok(()),
            Some(what) => self.tolerate(Fault::new(Rule::Race, what).at(lane as usize)),
        }
    }

    fn note_run_of_copy(
        &mut self,
        number: u32,
        access: GlobalAccess,
        new: Option<&[u8]>,
        lane: u32,
    ) -> Result<(), Fault> {
        let Some(races) = &self.cta.races else { return Ok(()) };
        let World { races: all, stream, global, .. } = &mut *self.world;
        let copy = races.copier(self.warp, number);
        let Err(fault) = all.copy(races, copy, access, stream) else { return Ok(()) };
        let GlobalAccess { address, len, write } = access;
        let same = fault.rule == Rule::Race
            && match (write, new, global.range(address, len)) {
                (false, ..) => all.reads_same(races, copy, address, len),
                (true, Some(new), Some(old)) => all.stores_same(races, copy, address, Values { old, new }),
                // A reduction.
                _ => false,
            };
        if !same {
            return self.tolerate(fault);
        }
        if write {
            let what = format!("{}; the value is the same, and no order changes it", fault.what);
            self.lane_remarks.push((lane as usize, what));
        }
        Ok(())
    }
}
