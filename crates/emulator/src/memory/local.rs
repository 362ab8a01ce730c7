//! Loads and stores of local memory by a whole warp: a stack, or an array of each thread.
//!
//! Like [`spans`](super::spans), this raises no faults: what is unusual is declined before memory changes, and the access is made lane by lane.

use crate::memory::window::{Window, window_of};
use crate::run::machine::{LANES, Machine, Space, lanes};

impl Machine<'_> {
    /// By lane, where it accesses `T` bytes in the local memory of the warp; `None` if a masked lane's access is unusual.
    #[inline(always)]
    fn local_places<const T: usize>(&self, space: Space, slot: u32, offset: u64) -> Option<[usize; LANES]> {
        let (addresses, size) = (&self.r.d[slot as usize], self.r.local_bytes);
        let mut places = [0; LANES];
        for lane in lanes(self.mask) {
            let address = addresses[lane].wrapping_add(offset);
            let at = match space {
                Space::Local => address & 0xFFFF_FFFF,
                Space::Generic => match window_of(address) {
                    (Window::Local, at) => at,
                    _ => return None,
                },
                _ => return None,
            };
            if !address.is_multiple_of(T as u64) || at + T as u64 > size as u64 {
                return None;
            }
            places[lane] = lane * size + at as usize;
        }
        Some(places)
    }

    /// Reads `T` bytes of local memory for each masked lane; `None` if anything is unusual.
    #[inline(always)]
    pub(crate) fn read_local<const T: usize>(
        &self,
        space: Space,
        slot: u32,
        offset: u64,
    ) -> Option<[[u8; T]; LANES]> {
        if self.r.local_bytes == 0 {
            return None;
        }
        let places = self.local_places::<T>(space, slot, offset)?;
        let mut out = [[0; T]; LANES];
        for lane in lanes(self.mask) {
            if self.world.check_init && !self.r.local.is_written(places[lane], T) {
                return None;
            }
            out[lane] = *self.r.local.data.get(places[lane]..)?.first_chunk()?;
        }
        Some(out)
    }

    /// Writes `T` bytes of local memory for each masked lane; `None`, and nothing written, if anything is unusual.
    #[inline(always)]
    pub(crate) fn write_local<const T: usize>(
        &mut self,
        space: Space,
        slot: u32,
        offset: u64,
        bytes: &[[u8; T]; LANES],
    ) -> Option<()> {
        if self.r.local_bytes == 0 || self.unmarks.is_some() {
            return None;
        }
        let places = self.local_places::<T>(space, slot, offset)?;
        for lane in lanes(self.mask) {
            self.r.local.put(places[lane], &bytes[lane]);
        }
        Some(())
    }
}
