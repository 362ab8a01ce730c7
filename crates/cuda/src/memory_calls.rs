//! Copies and fills, whose directions follow from the addresses.

use crate::api::{Answer, host_bytes, put_host_bytes};
use crate::device::Device;
use crate::status::Status;

/// Bytes that are filled at a time.
const PIECE: usize = 1 << 20;

impl Device {
    /// Copies bytes between any two places.
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

    /// Copies rows.
    pub(crate) fn copy_rows(
        &mut self,
        to: (u64, usize),
        from: (u64, usize),
        width: usize,
        height: usize,
    ) -> Answer {
        (0..height as u64)
            .try_for_each(|y| self.copy(to.0 + y * to.1 as u64, from.0 + y * from.1 as u64, width))
    }

    /// Repeats a pattern over bytes.
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

    /// Fills rows.
    pub(crate) fn fill_rows(
        &mut self,
        to: (u64, usize),
        pattern: &[u8],
        width: usize,
        height: usize,
    ) -> Answer {
        (0..height as u64).try_for_each(|y| self.fill(to.0 + y * to.1 as u64, pattern, width))
    }
}
