//! Tensor maps in global memory that pending copies use: they must not be written until the copies have been waited for.

use std::collections::BTreeMap;

use crate::api::trap::{Fault, Rule};
use crate::copies::tensor_map::TENSOR_MAP_BYTES;

/// The maps in use, by address, with the lines of the copies.
#[derive(Debug, Default)]
pub(crate) struct MapsInUse(BTreeMap<u64, Vec<u32>>);

impl MapsInUse {
    /// Records that a copy is issued.
    pub(crate) fn begin(&mut self, map: Option<u64>, line: u32) {
        if let Some(map) = map {
            self.0.entry(map).or_default().push(line);
        }
    }

    /// Records that a copy no longer needs its map.
    pub(crate) fn end(&mut self, map: Option<u64>, line: u32) {
        let Some(map) = map else { return };
        if let Some(lines) = self.0.get_mut(&map) {
            if let Some(n) = lines.iter().position(|l| *l == line) {
                lines.swap_remove(n);
            }
            if lines.is_empty() {
                self.0.remove(&map);
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that a write to global memory does not touch a map in use.
    #[inline]
    pub(crate) fn check(&self, address: u64, len: usize) -> Result<(), Fault> {
        if self.0.is_empty() { Ok(()) } else { self.find(address, len) }
    }

    #[cold]
    fn find(&self, address: u64, len: usize) -> Result<(), Fault> {
        let before = self.0.range(..address.saturating_add(len as u64)).next_back();
        let Some((map, lines)) = before.filter(|(map, _)| **map + TENSOR_MAP_BYTES as u64 > address) else {
            return Ok(());
        };
        let what = format!(
            "a write of {len} bytes at global address {address:#x}, to the tensor map at {map:#x} that the copy of line {} uses \
             and no thread has waited for",
            lines.first().copied().unwrap_or_default()
        );
        Err(Fault::new(Rule::Race, what))
    }
}
