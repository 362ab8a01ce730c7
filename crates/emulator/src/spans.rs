//! Loads and stores of a whole warp at once: lanes that name one run of bytes, or all the same bytes, as most do.
//!
//! These paths know no faults. Where anything is unusual they decline before they have changed what others can see, and
//! the access is made lane by lane, which finds the fault and its lane.

use super::machine::{LANES, Machine, Space, World};
use super::memory::Window;
use super::races::GlobalAccess;

/// How the addresses of 32 lanes lie, for accesses of so many bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// One behind the other.
    Run(u64),
    /// All the same.
    Same(u64),
    Apart,
}

/// The reach of accesses of `T` bytes at `addresses` plus an offset.
#[inline(always)]
fn reach<const T: usize>(addresses: &[u64; LANES], offset: u64) -> Reach {
    let first = addresses[0];
    let (mut run, mut same) = (0, 0);
    for i in 0..LANES {
        let distance = addresses[i].wrapping_sub(first);
        run |= distance ^ (i * T) as u64;
        same |= distance;
    }
    let base = first.wrapping_add(offset);
    match (run, same) {
        (0, _) => Reach::Run(base),
        (_, 0) => Reach::Same(base),
        _ => Reach::Apart,
    }
}

/// A run of bytes in memory: of an allocation, or of shared memory.
#[derive(Debug, Clone, Copy)]
enum Place {
    Global { index: usize, at: usize },
    Shared { at: usize },
}

impl Machine<'_> {
    /// The place of a run, if all of it lies in global or in shared memory.
    #[inline(always)]
    fn run_place<const T: usize>(&mut self, space: Space, address: u64) -> Option<Place> {
        if !address.is_multiple_of(T as u64) {
            return None;
        }
        let len = LANES * T;
        match self.split(space, address).ok()? {
            (Window::Global, at) => {
                let (index, at) = self.world.global.locate(at, len).ok()?;
                Some(Place::Global { index, at })
            }
            (Window::Shared, at) => Some(Place::Shared { at: self.shared_at(at, len).ok()? }),
            _ => None,
        }
    }

    /// Tells the observers of an access to a run; `None` when one of them objects.
    #[inline(always)]
    fn note_run(&mut self, place: Place, address: u64, len: usize, write: bool) -> Option<()> {
        match place {
            Place::Global { .. } => {
                let Some(races) = &self.cta.races else { return Some(()) };
                let World { races: world, stream, .. } = &mut *self.world;
                world.access(races, GlobalAccess { address, len, write }, self.warp, stream).ok()
            }
            Place::Shared { at } => self.cta.note(at, len, write, self.warp).ok(),
        }
    }

    /// What 32 lanes read, if they read a run or all the same: `T` bytes each, given to `take` with the machine's
    /// 32-bit and 64-bit registers.
    #[inline(always)]
    pub(super) fn read_together<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        take: impl FnOnce(&[[u8; T]; LANES], &mut [[u32; LANES]], &mut [[u64; LANES]]),
    ) -> Option<()> {
        if self.mask != !0 || self.strong.is_some() {
            return None;
        }
        match reach::<T>(&self.r.d[slot as usize], offset) {
            Reach::Run(address) => {
                let place = self.run_place::<T>(space, address)?;
                let len = LANES * T;
                let (region, at) = match place {
                    Place::Global { index, at } => (self.world.global.region(index), at),
                    Place::Shared { at } => (&self.cta.shared, at),
                };
                if self.world.check_init && !region.is_written(at, len) {
                    return None;
                }
                self.note_run(place, address, len, false)?;
                let region = match place {
                    Place::Global { index, .. } => self.world.global.region(index),
                    Place::Shared { .. } => &self.cta.shared,
                };
                let (chunks, _) = region.data.get(at..at + len)?.as_chunks::<T>();
                take(chunks.first_chunk()?, &mut self.r.w, &mut self.r.d);
                Some(())
            }
            // Every lane has local memory of its own.
            Reach::Same(address) if space != Space::Local => {
                if space == Space::Generic && self.split(space, address).ok()?.0 == Window::Local {
                    return None;
                }
                let bytes = self.read::<T>(space, address, 0).ok()?;
                take(&[bytes; LANES], &mut self.r.w, &mut self.r.d);
                Some(())
            }
            _ => None,
        }
    }

    /// Writes what `give` makes of the registers, `T` bytes for each of 32 lanes, if they write a run.
    #[inline(always)]
    pub(super) fn write_together<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        give: impl FnOnce(&mut [[u8; T]; LANES], &[[u32; LANES]], &[[u64; LANES]]),
    ) -> Option<()> {
        if self.mask != !0 || self.strong.is_some() {
            return None;
        }
        let Reach::Run(address) = reach::<T>(&self.r.d[slot as usize], offset) else { return None };
        let place = self.run_place::<T>(space, address)?;
        let len = LANES * T;
        if matches!(place, Place::Global { .. }) && !self.world.maps.is_empty() {
            return None;
        }
        self.note_run(place, address, len, true)?;
        if let Some(drafts) = &mut self.cta.drafts {
            let first = match place {
                Place::Global { .. } => drafts.watches_global().then_some(address),
                Place::Shared { at } => Some(super::pending::shared_address(at)),
            };
            if let Some(first) = first {
                (0..LANES).for_each(|lane| drafts.stored(first + (lane * T) as u64, T, self.warp, lane));
            }
        }
        let (region, at) = match place {
            Place::Global { index, at } => (self.world.global.region_mut(index), at),
            Place::Shared { at } => {
                if self.cta.proxy.is_some() {
                    for lane in 0..LANES {
                        self.cta.wrote(at + lane * T, T, self.warp * 32 + lane as u32);
                    }
                }
                (&mut self.cta.shared, at)
            }
        };
        let (chunks, _) = region.data.get_mut(at..at + len)?.as_chunks_mut::<T>();
        give(chunks.first_chunk_mut()?, &self.r.w, &self.r.d);
        region.mark(at, len);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_broadcasts_are_told_from_the_rest() {
        let run = std::array::from_fn(|i| 1 << 36 | (i * 4) as u64);
        assert_eq!(reach::<4>(&run, 8), Reach::Run((1 << 36) + 8));
        assert_eq!(reach::<8>(&run, 0), Reach::Apart);
        assert_eq!(reach::<4>(&[40; LANES], 2), Reach::Same(42));
        let mut last = run;
        last[31] += 4;
        assert_eq!(reach::<4>(&last, 0), Reach::Apart);
    }
}
