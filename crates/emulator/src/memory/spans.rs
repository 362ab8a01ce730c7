//! Fast paths for loads and stores of a whole warp, whose lanes mostly access one contiguous run or all the same bytes, and of
//! groups of adjacent lanes that access runs, as for matrix fragments.
//!
//! These paths raise no faults. If anything is unusual they decline before any visible change, and the access is made lane by lane,
//! which finds the fault and its lane.

use numerics::Path;
use pulp::NullaryFnOnce;

use crate::memory::global::Region;
use crate::memory::window::Window;
use crate::rules::races::{GlobalAccess, Races};
use crate::run::machine::{LANES, Machine, Space, World};

/// The pattern of the addresses of 32 lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Contiguous, in lane order.
    Run(u64),
    /// All equal.
    Same(u64),
    Apart,
}

/// The pattern of accesses of `T` bytes at `addresses` plus an offset.
#[inline(always)]
fn reach<const T: usize>(path: Path, addresses: &[u64; LANES], offset: u64) -> Reach {
    let base = addresses[0].wrapping_add(offset);
    // Most accesses apart show at their ends.
    let apart = addresses[LANES - 1].wrapping_sub(addresses[0]);
    if apart != 0 && apart != ((LANES - 1) * T) as u64 {
        return Reach::Apart;
    }
    match path.run(Distances::<T>(addresses)) {
        (0, _) => Reach::Run(base),
        (_, 0) => Reach::Same(base),
        _ => Reach::Apart,
    }
}

/// By how much addresses differ from a run of accesses of `T` bytes, and from the first one: 0 if not at all.
struct Distances<'a, const T: usize>(&'a [u64; LANES]);

impl<const T: usize> NullaryFnOnce for Distances<'_, T> {
    type Output = (u64, u64);

    #[inline(always)]
    fn call(self) -> (u64, u64) {
        let (mut run, mut same) = (0, 0);
        for i in 0..LANES {
            let distance = self.0[i].wrapping_sub(self.0[0]);
            run |= distance ^ (i * T) as u64;
            same |= distance;
        }
        (run, same)
    }
}

/// The location of a run of bytes: in an allocation, or in shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Global { index: usize, at: usize },
    Shared { at: usize },
}

impl Place {
    #[inline(always)]
    pub(super) const fn at(self) -> usize {
        let (Self::Global { at, .. } | Self::Shared { at }) = self;
        at
    }
}

impl Machine<'_> {
    /// The location of `lanes` times `T` bytes, if all of them are in global or in shared memory.
    #[inline(always)]
    pub(super) fn run_place<const T: usize>(
        &mut self,
        space: Space,
        address: u64,
        lanes: usize,
    ) -> Option<Place> {
        // A replay records each lane's access.
        if !address.is_multiple_of(T as u64) || self.world.watchpoints.is_some() {
            return None;
        }
        let len = lanes * T;
        match self.split(space, address).ok()? {
            (Window::Global, at) => {
                let (index, at) = self.world.global.locate(at, len).ok()?;
                Some(Place::Global { index, at })
            }
            (Window::Shared, at) => Some(Place::Shared { at: self.shared_at(at, len).ok()? }),
            _ => None,
        }
    }

    /// Reports an access to a run to the race detector; `None` if that finds a fault.
    #[inline(always)]
    fn note_run(&mut self, place: Place, address: u64, len: usize, write: bool) -> Option<()> {
        match place {
            Place::Global { .. } => {
                self.world.touch(address, len, write);
                let Some(races) = &self.cta.races else { return Some(()) };
                let World { races: world, stream, .. } = &mut *self.world;
                world.access(races, GlobalAccess { address, len, write }, self.warp, stream).ok()
            }
            Place::Shared { at } => self.cta.note(at, len, write, self.warp).ok(),
        }
    }

    /// Reads `T` bytes for each of 32 lanes if they access a run or all the same bytes. `take` receives them with the 32-bit and
    /// 64-bit registers.
    #[inline(always)]
    pub(crate) fn read_together<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        take: impl FnOnce(&[[u8; T]; LANES], &mut [[u32; LANES]], &mut [[u64; LANES]]),
    ) -> Option<()> {
        if self.mask != !0 || self.strong.is_some() {
            return None;
        }
        match reach::<T>(self.world.path, &self.r.d[slot as usize], offset) {
            Reach::Run(address) => {
                let place = self.run_place::<T>(space, address, LANES)?;
                let len = LANES * T;
                let at = place.at();
                if self.world.check_init && !self.region(place).is_written(at, len) {
                    return None;
                }
                self.note_run(place, address, len, false)?;
                let region = match place {
                    Place::Global { index, .. } => self.world.global.region(index),
                    Place::Shared { .. } => &self.cta.shared,
                };
                let (chunks, _) = region.view(at, len)?.as_chunks::<T>();
                take(chunks.first_chunk()?, &mut self.r.w, &mut self.r.d);
                Some(())
            }
            // Each lane has its own local memory.
            Reach::Same(address) if space != Space::Local => {
                if space == Space::Generic && self.split(space, address).ok()?.0 == Window::Local {
                    return None;
                }
                let bytes = match self.read_same::<T>(space, address) {
                    Some(bytes) => bytes,
                    None => self.load::<T>(space, address, 0).ok()?,
                };
                // Undefined bytes are handled lane by lane.
                if self.loaded.take().is_some() {
                    return None;
                }
                take(&[bytes; LANES], &mut self.r.w, &mut self.r.d);
                Some(())
            }
            _ => None,
        }
    }

    /// Writes `T` bytes for each of 32 lanes, which `give` produces from the registers, if the lanes access a run.
    #[inline(always)]
    pub(crate) fn write_together<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        give: impl FnOnce(&mut [[u8; T]; LANES], &[[u32; LANES]], &[[u64; LANES]]),
    ) -> Option<()> {
        if self.mask != !0 || self.strong.is_some() || self.unmarks.is_some() {
            return None;
        }
        let Reach::Run(address) = reach::<T>(self.world.path, &self.r.d[slot as usize], offset) else {
            return None;
        };
        let place = self.run_place::<T>(space, address, LANES)?;
        let len = LANES * T;
        if matches!(place, Place::Global { .. }) && !self.world.maps.is_empty() {
            return None;
        }
        self.note_run(place, address, len, true)?;
        self.tell_lanes::<T>(place, address, 0, LANES);
        let (region, at) = match place {
            Place::Global { index, at } => (self.world.global.region_mut(index), at),
            Place::Shared { at } => (&mut self.cta.shared, at),
        };
        let was_written =
            self.cta.races.as_ref().is_some_and(Races::is_unsettled) && region.is_written(at, len);
        let (chunks, _) = region.view_mut(at, len)?.as_chunks_mut::<T>();
        let chunk = chunks.first_chunk_mut()?;
        let before = was_written.then_some(*chunk);
        give(chunk, &self.r.w, &self.r.d);
        if let Some(races) = &self.cta.races {
            races.settle_store(|| before.as_ref() != Some(chunk));
        }
        region.mark(at, len);
        if matches!(place, Place::Global { .. }) {
            self.world.global.sums.written(address, len);
        }
        Some(())
    }

    /// Reads `T` bytes for each masked lane, run by run; `None` if anything is unusual.
    #[inline(always)]
    pub(crate) fn read_runs<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
    ) -> Option<[[u8; T]; LANES]> {
        if self.strong.is_some() || T > MOST {
            return None;
        }
        let addresses = self.r.d[slot as usize];
        let mut out = [[0; T]; LANES];
        let mut left = self.mask;
        while left != 0 {
            let Run { first, end, last } = run::<T>(&addresses, left, true);
            let (address, len) = (addresses[first].wrapping_add(offset), last + T);
            let place = self.run_place::<T>(space, address, len / T)?;
            if self.world.check_init && !self.region(place).is_written(place.at(), len) {
                return None;
            }
            self.note_run(place, address, len, false)?;
            let bytes = self.region(place).view(place.at(), len)?;
            for lane in first..end {
                out[lane] =
                    *bytes.get(addresses[lane].wrapping_sub(addresses[first]) as usize..)?.first_chunk()?;
            }
            left &= !lanes_of(end);
        }
        Some(out)
    }

    /// Writes `T` bytes for each masked lane, run by run; `None` if anything is unusual, in which case some lanes have been
    /// written.
    #[inline(always)]
    pub(crate) fn write_runs<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<()> {
        if self.strong.is_some() || self.unmarks.is_some() || T > MOST {
            return None;
        }
        let addresses = self.r.d[slot as usize];
        let mut left = self.mask;
        while left != 0 {
            let Run { first, end, .. } = run::<T>(&addresses, left, false);
            let count = end - first;
            let address = addresses[first].wrapping_add(offset);
            let place = self.run_place::<T>(space, address, count)?;
            if matches!(place, Place::Global { .. }) && !self.world.maps.is_empty() {
                return None;
            }
            self.note_run(place, address, count * T, true)?;
            self.tell_lanes::<T>(place, address, first, count);
            let region = match place {
                Place::Global { index, .. } => self.world.global.region_mut(index),
                Place::Shared { .. } => &mut self.cta.shared,
            };
            let bytes = bytes[first..end].as_flattened();
            if let Some(races) = &self.cta.races {
                races.settle_store(|| region.changes(place.at(), bytes));
            }
            if !region.put(place.at(), bytes) {
                return None;
            }
            if matches!(place, Place::Global { .. }) {
                self.world.global.sums.written(address, count * T);
            }
            left &= !lanes_of(end);
        }
        Some(())
    }

    #[inline(always)]
    pub(super) fn region(&self, place: Place) -> &Region {
        match place {
            Place::Global { index, .. } => self.world.global.region(index),
            Place::Shared { .. } => &self.cta.shared,
        }
    }

    /// Reports a store by `count` lanes to a run to the trackers that distinguish threads.
    #[inline(always)]
    pub(super) fn tell_lanes<const T: usize>(
        &mut self,
        place: Place,
        address: u64,
        first: usize,
        count: usize,
    ) {
        if let Some(drafts) = &mut self.cta.drafts {
            let start = match place {
                Place::Global { .. } => drafts.watches_global().then_some(address),
                Place::Shared { at } => Some(crate::copies::pending::shared_address(at)),
            };
            if let Some(start) = start {
                (0..count).for_each(|n| drafts.stored(start + (n * T) as u64, T, self.warp, first + n));
            }
        }
        if let Place::Shared { at } = place
            && self.cta.proxy.is_some()
        {
            for n in 0..count {
                self.cta.wrote(at + n * T, T, self.warp * 32 + (first + n) as u32);
            }
        }
    }
}

/// Maximum bytes per lane for which runs are searched: wider accesses are one run, or far apart.
const MOST: usize = 16;

/// Lanes `first` to `end` that access one run of bytes, and the distance from the first to the last access.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    first: usize,
    end: usize,
    last: usize,
}

/// The run that starts at the lowest lane of a non-empty mask. With `shared`, adjacent lanes may access the same bytes.
#[inline(always)]
fn run<const T: usize>(addresses: &[u64; LANES], mask: u32, shared: bool) -> Run {
    let first = mask.trailing_zeros() as usize % LANES;
    let (mut end, mut last) = (first + 1, 0);
    while end < LANES && mask >> end & 1 == 1 {
        let distance = addresses[end].wrapping_sub(addresses[first]);
        if distance == (last + T) as u64 {
            last += T;
        } else if !(shared && distance == last as u64) {
            break;
        }
        end += 1;
    }
    Run { first, end, last }
}

/// A mask of the lowest `count` lanes.
const fn lanes_of(count: usize) -> u32 {
    if count >= LANES { !0 } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_broadcasts_are_told_from_the_rest() {
        let path = Path::current();
        let run = std::array::from_fn(|i| 1 << 36 | (i * 4) as u64);
        assert_eq!(reach::<4>(path, &run, 8), Reach::Run((1 << 36) + 8));
        assert_eq!(reach::<8>(path, &run, 0), Reach::Apart);
        assert_eq!(super::run::<4>(&run, !0, false), Run { first: 0, end: LANES, last: 124 });
        assert_eq!(super::run::<4>(&run, 0b1011_1100, false), Run { first: 2, end: 6, last: 12 });
        assert_eq!(super::run::<8>(&run, 0b1100, false), Run { first: 2, end: 3, last: 0 });
        let pairs = std::array::from_fn(|i| 1 << 36 | (i / 2 * 4) as u64);
        assert_eq!(super::run::<4>(&pairs, !0, true), Run { first: 0, end: LANES, last: 60 });
        assert_eq!(super::run::<4>(&pairs, !0, false), Run { first: 0, end: 1, last: 0 });
        assert_eq!((lanes_of(1), lanes_of(31), lanes_of(32)), (1, !0 >> 1, !0));
        assert_eq!(reach::<4>(path, &[40; LANES], 2), Reach::Same(42));
        let mut last = run;
        last[31] += 4;
        assert_eq!(reach::<4>(path, &last, 0), Reach::Apart);
    }
}
