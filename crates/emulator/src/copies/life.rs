//! The life cycle of an asynchronous copy (PTX ISA 9.7.9.27): issue, commit, wait, completion.

use crate::api::trap::{Fault, Judge, Rule};
use crate::copies::pending::{Pending, PendingKind, Piece, Store, Work, shared_address};
use crate::copies::transfer::{store_piece, to_tf32};
use crate::memory::global::Region;
use crate::rules::order::{Order, Scope, Strong, Touch};
use crate::rules::races::At;
use crate::run::cta::{Cta, OBJECT_BYTES};
use crate::run::machine::World;

impl Cta {
    /// Issues a copy. Its ranges have been checked against the bounds of both memories. Remarks are added to `said`, with the lane;
    /// races that need not end the launch to `races_met`.
    pub(crate) fn issue(
        &mut self,
        mut pending: Pending,
        world: &mut World,
        said: &mut Vec<(usize, String)>,
        races_met: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        let size = self.shared.len();
        let may_go_on = world.judge == Judge::Values;
        let mut meet = |f: Fault, lane: u32| {
            let fault = f.at(lane as usize);
            if !may_go_on || fault.rule != Rule::Race {
                return Err(fault);
            }
            races_met.push(fault);
            Ok(())
        };
        for (n, piece) in pending.pieces.iter().enumerate() {
            let (target, source) = match pending.work {
                Work::Load { .. } | Work::Put { .. } => (Some(piece.at), None),
                Work::Store(_) => (None, Some(piece.at)),
                Work::Within { .. } => (Some(piece.address as usize), Some(piece.at)),
                Work::Arrive { .. } => (None, None),
            };
            // Reductions may overlap: each updates elements atomically.
            let reduces = pending.reduces();
            if let Some(at) = target
                && self.guarded.hit(at, piece.len, true)
                && !(reduces && self.only_reduced(at, piece.len))
            {
                if !self.brings_same(&pending.work, piece, world) {
                    self.touched(at, piece.len, true).or_else(|f| meet(f, piece.lane))?;
                }
                let differs = |p: &&Piece| !pending.work.agree(p, piece, world);
                if let Some(other) = pending.pieces[..n].iter().find(differs) {
                    let what = format!(
                        "lanes {} and {} copy different bytes to shared address {:#x}",
                        other.lane,
                        piece.lane,
                        shared_address(other.at.max(piece.at))
                    );
                    meet(Fault::new(Rule::Race, what), piece.lane)?;
                }
            }
            if let Some(at) = source {
                if self.guarded.hit(at, piece.len, false) {
                    self.touched(at, piece.len, false).or_else(|f| meet(f, piece.lane))?;
                }
                self.check_source(*piece, pending.warp * 32 + piece.lane, world.check_init)
                    .or_else(|f| meet(f, piece.lane))?;
                self.guarded.read(at, piece.len, size);
                if let Some(races) = &mut self.races {
                    races.shared(at, piece.len, false, pending.warp).or_else(|f| meet(f, piece.lane))?;
                }
            }
            if let Some(at) = target {
                if let Some(races) = self.races.as_mut().filter(|_| !pending.foreign) {
                    races.set_strong(pending.strength());
                    let noted = races.shared(at, piece.len, true, pending.warp);
                    races.set_strong(None);
                    if let Err(fault) = noted {
                        match self.copies_same(&pending, piece, world, fault) {
                            Ok(remark) => said.push(remark),
                            Err(fault) => meet(fault, piece.lane)?,
                        }
                    }
                }
                self.guarded.watch(at, piece.len, size);
                if !reduces {
                    self.shared.unmark(at, piece.len);
                }
            }
        }
        if let (Work::Arrive { behind }, Some(races)) = (&mut pending.work, &mut self.races) {
            *behind = races.arrives_behind(pending.warp, pending.lanes, &mut world.races);
            for piece in &pending.pieces {
                let strong = Strong { order: Order::release(Scope::Cta), touch: Touch::Modify };
                races.publish(shared_address(piece.at), OBJECT_BYTES, pending.warp, strong, At::Shared);
            }
        }
        world.maps.begin(pending.map, pending.line);
        self.pending.push(pending);
        Ok(())
    }

    /// Reads the source of a copy to another CTA of the cluster, through the async proxy.
    pub(crate) fn read_for_copy(
        &mut self,
        at: usize,
        len: usize,
        thread: u32,
        check_init: bool,
    ) -> Result<Vec<u8>, Fault> {
        if self.guarded.hit(at, len, false) {
            self.touched(at, len, false)?;
        }
        self.check_source(Piece::whole(thread as usize % 32, at, len, 0), thread, check_init)?;
        if let Some(races) = &mut self.races {
            races.shared(at, len, false, thread / 32)?;
        }
        Ok(self.shared.data[at..at + len].to_vec())
    }

    /// Checks bytes that the async proxy reads on behalf of a thread.
    fn check_source(&self, piece: Piece, thread: u32, check_init: bool) -> Result<(), Fault> {
        let Piece { at, len, .. } = piece;
        if check_init && !self.shared.is_written(at + piece.skip, piece.taken.min(len)) {
            let what = format!(
                "a copy of {len} bytes from shared address {:#x}, some of which were never written",
                shared_address(at)
            );
            return Err(Fault::new(Rule::Uninitialised, what));
        }
        if let Some(proxy) = &self.proxy
            && let Some((byte, writer)) = proxy.unfenced(at, len, thread)
        {
            let what = format!(
                "no proxy fence: the async proxy reads shared address {:#x}, which thread {writer} \
                 wrote through the generic proxy without `fence.proxy.async` since",
                shared_address(byte)
            );
            return Err(Fault::new(Rule::Race, what));
        }
        Ok(())
    }

    /// Stops guarding bytes that a copy has written, except those that other pending reductions target.
    fn release(&mut self, at: usize, len: usize) {
        self.guarded.leave(at, len);
        for (place, bytes) in self.pending.iter().filter(|p| p.reduces()).flat_map(Pending::targets) {
            let (low, high) = (place.max(at), (place + bytes).min(at + len));
            if low < high {
                self.guarded.watch(low, high - low, self.shared.len());
            }
        }
    }

    /// Whether every pending copy that touches these bytes is a reduction into them.
    fn only_reduced(&self, at: usize, len: usize) -> bool {
        let overlaps = |(place, bytes): (usize, usize)| place < at + len && at < place + bytes;
        let objects = self.mbarriers.range(..at + len).next_back().is_some_and(|(p, _)| *p + 8 > at);
        !objects
            && self
                .pending
                .iter()
                .all(|p| !p.sources().any(overlaps) && (p.reduces() || !p.targets().any(overlaps)))
    }

    /// The reason why a weak access to guarded bytes is a fault.
    #[cold]
    pub(crate) fn touched(&self, at: usize, len: usize, write: bool) -> Result<(), Fault> {
        self.touched_unless(at, len, write, |_| false)
    }

    /// As [`Cta::touched`], except that reductions chosen by `meets` may overlap with the access.
    #[cold]
    pub(crate) fn touched_unless(
        &self,
        at: usize,
        len: usize,
        write: bool,
        meets: impl Fn(&Pending) -> bool,
    ) -> Result<(), Fault> {
        let overlaps = |(place, bytes): (usize, usize)| place < at + len && at < place + bytes;
        let verb = if write { "a write" } else { "a read" };
        if let Some((place, _)) = self.mbarriers.range(..at + len).next_back().filter(|(p, _)| **p + 8 > at) {
            let what = format!(
                "{verb} of {len} bytes that belong to the mbarrier object at {:#x}",
                shared_address(*place)
            );
            return Err(Fault::new(Rule::Barrier, what));
        }
        for pending in &self.pending {
            let target = !(pending.reduces() && meets(pending)) && pending.targets().any(overlaps);
            if target || write && pending.sources().any(overlaps) {
                let what = format!(
                    "{verb} of {len} bytes at shared address {:#x}, which the copy of line {} {} and no thread has waited for",
                    shared_address(at),
                    pending.line,
                    if target { "writes" } else { pending.verb() },
                );
                return Err(Fault::new(Rule::Race, what));
            }
        }
        Ok(())
    }

    /// Commits the copies of one kind by these lanes to a group.
    pub(crate) fn commit(&mut self, warp: u32, lanes: u32, kind: PendingKind) {
        let numbers = *self.commits.entry((warp, kind == PendingKind::Bulk)).or_insert([0; 32]);
        let mut i = 0;
        while i < self.pending.len() {
            let pending = &mut self.pending[i];
            i += 1;
            if pending.warp != warp || pending.kind != kind || pending.group.is_some() {
                continue;
            }
            // Lanes whose next groups have the same number stay together.
            let mut left = pending.lanes & lanes;
            while left != 0 {
                let number = numbers[left.trailing_zeros() as usize];
                let same = crate::run::machine::lanes(left)
                    .filter(|l| numbers[*l] == number)
                    .fold(0u32, |mask, l| mask | 1 << l);
                left &= !same;
                let pending = &mut self.pending[i - 1];
                if pending.lanes == same {
                    pending.group = Some(number);
                } else if let Some(mut part) = pending.split(same) {
                    part.group = Some(number);
                    self.pending.insert(i - 1, part);
                    i += 1;
                }
            }
        }
        if let Some(races) = &mut self.races {
            races.committed(warp, lanes, kind, &numbers);
        }
        if let Some(numbers) = self.commits.get_mut(&(warp, kind == PendingKind::Bulk)) {
            crate::run::machine::lanes(lanes).for_each(|l| numbers[l] += 1);
        }
    }

    /// Waits until at most `n` groups of the lanes are pending; with `read`, until the earlier ones have read their sources.
    pub(crate) fn wait_group(
        &mut self,
        world: &mut World,
        warp: u32,
        lanes: u32,
        kind: PendingKind,
        n: u64,
        read: bool,
    ) -> Result<(), Fault> {
        let numbers = self.commits.get(&(warp, kind == PendingKind::Bulk)).copied().unwrap_or([0; 32]);
        let due = |p: &Pending| match p.group {
            Some(group) if p.warp == warp && p.kind == kind => crate::run::machine::lanes(p.lanes & lanes)
                .filter(|l| group + n < numbers[*l])
                .fold(0u32, |mask, l| mask | 1 << l),
            _ => 0,
        };
        if read {
            let mut all = std::mem::take(&mut self.pending);
            for pending in all.iter_mut().filter(|p| due(p) != 0) {
                self.read_sources(pending);
                world.maps.end(pending.map.take(), pending.line);
            }
            self.pending = all;
            return Ok(());
        }
        if let Some(races) = &mut self.races {
            races.waited_for_groups((warp, lanes), kind, n, &numbers, &mut world.races);
        }
        self.complete(world, due)
    }

    /// Reads the source of a store from shared memory.
    fn read_sources(&mut self, pending: &mut Pending) {
        if let Work::Store(Store { read: read @ None, .. }) = &mut pending.work {
            let mut bytes = Vec::new();
            for piece in &pending.pieces {
                bytes.extend_from_slice(&self.shared.data[piece.at..piece.at + piece.len]);
                self.guarded.was_read(piece.at, piece.len);
            }
            *read = Some(bytes);
        }
    }

    /// Completes the copies of the lanes that `which` selects, oldest first.
    pub(crate) fn complete(
        &mut self,
        world: &mut World,
        mut which: impl FnMut(&Pending) -> u32,
    ) -> Result<(), Fault> {
        if self.pending.is_empty() {
            return Ok(());
        }
        // Most calls find nothing to complete, and then nothing is moved.
        let mut chosen: Vec<(usize, u32)> = Vec::new();
        for (n, pending) in self.pending.iter().enumerate() {
            let lanes = which(pending) & pending.lanes;
            if lanes != 0 {
                chosen.push((n, lanes));
            }
        }
        let mut done = Vec::with_capacity(chosen.len());
        let mut gone = 0;
        for (n, lanes) in chosen {
            let pending = &mut self.pending[n - gone];
            if pending.lanes & !lanes == 0 {
                done.push(self.pending.remove(n - gone));
                gone += 1;
            } else {
                done.extend(pending.split(lanes));
            }
        }
        for pending in done {
            self.finish(pending, world)?;
            self.events += 1;
        }
        Ok(())
    }

    /// Completes the `n`-th copy, and the copies that must precede it.
    pub(crate) fn complete_nth(&mut self, world: &mut World, n: usize) -> Result<(), Fault> {
        let Some(chosen) = self.pending.get(n) else { return Ok(()) };
        // An arrival follows earlier copies of its lanes.
        let before =
            if matches!(chosen.work, Work::Arrive { .. }) { Some((chosen.warp, chosen.lanes)) } else { None };
        let mut i = 0;
        self.complete(world, |p| {
            i += 1;
            match before {
                Some((warp, lanes)) if i <= n && p.warp == warp && p.kind == PendingKind::CpAsync => {
                    p.lanes & lanes
                }
                _ if i == n + 1 => p.lanes,
                _ => 0,
            }
        })
    }

    /// Completes the oldest copy that a barrier object waits for.
    pub(crate) fn hurry(&mut self, world: &mut World, barrier: usize) -> Result<(), Fault> {
        let waits = |p: &Pending| match (&p.work, p.barrier) {
            (Work::Arrive { .. }, _) => p.pieces.iter().any(|piece| piece.at == barrier),
            (_, Some((at, _))) => at == barrier,
            _ => false,
        };
        match self.pending.iter().position(waits) {
            Some(n) => self.complete_nth(world, n),
            None => Ok(()),
        }
    }

    fn finish(&mut self, mut pending: Pending, world: &mut World) -> Result<(), Fault> {
        let line = pending.line;
        let about = |f: Fault| {
            let what = format!("{}, by the copy of line {line}", f.what);
            Fault { what, ..f }
        };
        self.read_sources(&mut pending);
        world.maps.end(pending.map.take(), pending.line);
        match &pending.work {
            Work::Load { fill, round } => {
                for piece in &pending.pieces {
                    self.load(piece, fill, world).map_err(about)?;
                    if *round {
                        to_tf32(&mut self.shared.data[piece.at + piece.skip..][..piece.taken]);
                    }
                    self.guarded.leave(piece.at, piece.len);
                    if let Some(races) = &mut self.races {
                        match pending.kind {
                            PendingKind::CpAsync => races.written_for(piece.at, piece.len, pending.warp),
                            _ => races.forget(piece.at, piece.len),
                        }
                    }
                    if let Some(proxy) = &mut self.proxy {
                        match pending.kind {
                            PendingKind::CpAsync => {
                                proxy.wrote(piece.at, piece.len, pending.warp * 32 + piece.lane);
                            }
                            _ => proxy.forget(piece.at, piece.len),
                        }
                    }
                }
            }
            Work::Store(store) => {
                let mut from = store.read.as_deref().unwrap_or_default();
                for piece in &pending.pieces {
                    let (bytes, rest) = from.split_at(piece.len.min(from.len()));
                    from = rest;
                    store_piece(store, piece, bytes, world).map_err(about)?;
                }
                world.races.copies.landed(pending.number);
                world.events += 1;
            }
            Work::Within { reduce } => {
                for piece in &pending.pieces {
                    let mut bytes = self.shared.data[piece.at..piece.at + piece.len].to_vec();
                    let to = piece.address as usize;
                    if let Some(reduce) = reduce {
                        reduce.apply(&mut bytes, &self.shared.data[to..to + piece.len]);
                    }
                    self.guarded.was_read(piece.at, piece.len);
                    self.shared.put(to, &bytes);
                    self.release(to, piece.len);
                    if let Some(races) = &mut self.races {
                        races.forget(to, piece.len);
                    }
                }
            }
            Work::Put { bytes, reduce } => {
                let mut from = bytes.as_slice();
                for piece in &pending.pieces {
                    let (new, rest) = from.split_at(piece.len.min(from.len()));
                    from = rest;
                    let mut new = new.to_vec();
                    if let Some(reduce) = reduce {
                        if world.check_init && !self.shared.is_written(piece.at, piece.len) {
                            let at = shared_address(piece.at);
                            let what =
                                format!("{} bytes at {at:#x} that were never written are reduced", piece.len);
                            return Err(about(Fault::new(Rule::Uninitialised, what)));
                        }
                        reduce.apply(&mut new, &self.shared.data[piece.at..piece.at + piece.len]);
                    }
                    self.shared.put(piece.at, &new);
                    self.release(piece.at, piece.len);
                    if let Some(races) = &mut self.races {
                        races.forget(piece.at, piece.len);
                    }
                }
            }
            Work::Arrive { behind } => {
                for piece in &pending.pieces {
                    self.note_completion(piece.at, behind, world);
                    if let Some(races) = &mut self.races {
                        races.copies_arrived(shared_address(piece.at), pending.warp);
                    }
                    self.arrive(piece.at, 1)?;
                }
            }
        }
        if let Some((at, bytes)) = pending.barrier {
            if pending.number != 0 {
                self.note_completion(at, &[pending.number], world);
            }
            self.complete_tx(at, i64::from(bytes)).map_err(about)?;
        }
        Ok(())
    }

    /// Records that copies complete in the current phase of a barrier object, so that its waiters are ordered after them.
    fn note_completion(&mut self, at: usize, copies: &[u32], world: &mut World) {
        if let (Some(races), Some(barrier)) = (&mut self.races, self.mbarriers.get(&at)) {
            races.completed_at(at, barrier.phase, copies, &mut world.races);
        }
    }

    fn load(&mut self, piece: &Piece, fill: &Option<[u8; 16]>, world: &mut World) -> Result<(), Fault> {
        let to = &mut self.shared.data[piece.at..piece.at + piece.len];
        if let Some(fill) = fill
            && piece.taken < piece.len
        {
            to.iter_mut().enumerate().for_each(|(i, byte)| *byte = fill[i % 16]);
        }
        self.shared.mark(piece.at, piece.len);
        if fill.is_none() {
            let behind = piece.skip + piece.taken;
            self.shared.unmark(piece.at, piece.skip);
            self.shared.unmark(piece.at + behind, piece.len - behind);
        }
        if piece.taken == 0 {
            return Ok(());
        }
        let at = piece.at + piece.skip;
        if world.global.is_hole(piece.address, piece.taken) {
            self.shared.unmark(at, piece.taken);
            return Ok(());
        }
        world.touch(piece.address, piece.taken, false);
        let (index, from) = world.global.locate(piece.address, piece.taken)?;
        let region: &Region = world.global.region(index);
        let bytes = region.gather(from, piece.taken);
        if let (Some(to), Some(bytes)) = (self.shared.view_mut(at, piece.taken), bytes) {
            to.copy_from_slice(&bytes);
        }
        // Unwritten bytes stay unwritten: copying them is not a fault, using them is.
        if !region.is_written(from, piece.taken) {
            for i in 0..piece.taken {
                if !region.is_written(from + i, 1) {
                    self.shared.unmark(at + i, 1);
                }
            }
        }
        Ok(())
    }
}
