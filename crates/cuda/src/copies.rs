//! Copies and fills; the addresses determine the direction.

use crate::api::{Answer, host_bytes, put_host_bytes};
use crate::device::Device;
use crate::status::Status;
use crate::work::{CopyWork, Extent, FillWork, Side};

/// Number of bytes filled at a time.
const PIECE: usize = 1 << 20;

impl Device {
    /// Copies bytes between any two addresses.
    pub(crate) fn copy(&mut self, to: u64, from: u64, len: usize) -> Answer {
        self.healthy()?;
        if len == 0 {
            return Ok(());
        }
        match (self.is_device(to), self.is_device(from)) {
            (true, true) => {
                let bytes = self.memory.range(from, len).ok_or(Status::INVALID_VALUE)?.to_vec();
                self.put(to, &bytes)
            }
            (true, false) => self.put(to, host_bytes(from, len)?),
            (false, true) => put_host_bytes(to, self.memory.range(from, len).ok_or(Status::INVALID_VALUE)?),
            (false, false) => put_host_bytes(to, host_bytes(from, len)?),
        }
    }

    fn put(&mut self, to: u64, bytes: &[u8]) -> Answer {
        if self.memory.write_at(to, bytes) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Copies a box, row by row if there are gaps between rows.
    pub(crate) fn copy_box(&mut self, work: &CopyWork) -> Answer {
        let CopyWork { to, from, extent } = *work;
        for (width, y) in rows(&extent, &[to, from]) {
            self.copy(place(&to, y), place(&from, y), width)?;
        }
        Ok(())
    }

    /// Fills bytes with a repeated pattern.
    pub(crate) fn fill(&mut self, to: u64, pattern: &[u8], len: usize) -> Answer {
        self.healthy()?;
        let piece = pattern.repeat((PIECE / pattern.len()).min(len.div_ceil(pattern.len().max(1))));
        let device = self.is_device(to);
        for at in (0..len).step_by(piece.len().max(1)) {
            let bytes = &piece[..piece.len().min(len - at)];
            if device { self.put(to + at as u64, bytes)? } else { put_host_bytes(to + at as u64, bytes)? }
        }
        Ok(())
    }

    /// Fills a box.
    pub(crate) fn fill_box(&mut self, work: &FillWork) -> Answer {
        let FillWork { to, value, element, extent } = *work;
        let pattern = &value.to_le_bytes()[..element];
        for (width, y) in rows(&extent, &[to]) {
            self.fill(place(&to, y), pattern, width)?;
        }
        Ok(())
    }
}

/// The address of a row: `(row of the slice, slice)`.
fn place(side: &Side, (row, slice): (usize, usize)) -> u64 {
    side.address.wrapping_add((slice as u64).wrapping_mul(side.slice as u64) + row as u64 * side.pitch as u64)
}

/// The rows of a box with their sizes in bytes; rows that are contiguous on all sides are merged.
fn rows(extent: &Extent, sides: &[Side]) -> Vec<(usize, (usize, usize))> {
    let Extent { width, height, depth } = *extent;
    if width == 0 || height == 0 || depth == 0 {
        return Vec::new();
    }
    if height == 1 && depth == 1 {
        return vec![(width, (0, 0))];
    }
    let dense = sides.iter().all(|s| s.pitch == width);
    if dense && depth == 1 {
        return vec![(width * height, (0, 0))];
    }
    if dense && sides.iter().all(|s| s.slice == width * height) {
        return vec![(width * height * depth, (0, 0))];
    }
    (0..depth).flat_map(|z| (0..height).map(move |y| (width, (y, z)))).collect()
}
