//! What a GPU may access: its own memory, that of peers to which it has access, and mappings that are for it. All else is taken out of
//! memory while one of its kernels runs, so that an access there is a fault that says why.

use emulator::TakenBuffer;

use crate::device::allocations::{Allocation, Kind};
use crate::device::contexts;
use crate::device::state::Device;

/// What was taken out of memory for a launch.
#[derive(Debug, Default)]
pub(crate) struct Hidden(Vec<(TakenBuffer, Allocation)>);

impl Device {
    /// Why a GPU may not access an allocation; `None` if it may.
    pub(crate) fn no_access(&self, gpu: u8, base: u64, held: &Allocation) -> Option<String> {
        let of = held.gpu;
        if held.kind == Kind::Mapped {
            let is_for = self.mappings.around(base).is_some_and(|(_, mapping)| mapping.is_for(gpu));
            return (!is_for).then(|| {
                format!("memory of GPU {of} that is mapped there, to which GPU {gpu} has no access (cuMemSetAccess)")
            });
        }
        if held.kind.on_host() || of == gpu {
            return None;
        }
        if held.pool != 0 {
            return (!self.pools.is_for(held.pool, gpu)).then(|| {
                format!(
                    "memory of a pool of GPU {of}, to which GPU {gpu} has no access (cudaMemPoolSetAccess)"
                )
            });
        }
        (!self.peers.reaches(gpu, of)).then(|| {
            format!("memory of GPU {of}, to which GPU {gpu} has no peer access (cudaDeviceEnablePeerAccess)")
        })
    }

    /// Takes out of memory what a GPU may not access.
    pub(crate) fn hide_from(&mut self, gpu: u8) -> Hidden {
        if contexts::gpus() == 1 && self.mappings.is_empty() {
            return Hidden::default();
        }
        let no_access = |(base, held): (&u64, &Allocation)| Some((*base, self.no_access(gpu, *base, held)?));
        let all: Vec<(u64, String)> = self.allocations.iter().filter_map(no_access).collect();
        let mut hidden = Vec::new();
        for (base, why) in all {
            if let (Some(bytes), Some(held)) = (self.memory.take(base), self.allocations.remove(&base)) {
                self.memory.withhold(base..base + held.len as u64, &why);
                hidden.push((bytes, held));
            }
        }
        Hidden(hidden)
    }

    /// Puts back what [`Device::hide_from`] took out.
    pub(crate) fn show(&mut self, hidden: Hidden) {
        for (bytes, held) in hidden.0 {
            let base = bytes.base();
            self.memory.end_withholding(base, false);
            self.memory.put_back(bytes, base);
            self.allocations.insert(base, held);
        }
    }
}
