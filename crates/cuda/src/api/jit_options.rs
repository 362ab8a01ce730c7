//! The options of a compilation at run time (`CUjit_option`), of which the buffers for logs matter here: a program prints what is in them.
#![expect(unsafe_code, reason = "buffers of the program")]

use crate::program::pointers::{In, Out, put_host_bytes};

const INFO_LOG: u32 = 3;
const INFO_LOG_SIZE: u32 = 4;
const ERROR_LOG: u32 = 5;
const ERROR_LOG_SIZE: u32 = 6;

/// The options that a call has: their number, their names, and the values in the same order.
#[derive(Debug, Clone, Copy)]
pub(super) struct JitOptions {
    count: u32,
    names: In<u32>,
    values: u64,
}

impl JitOptions {
    /// The options of a call.
    pub(super) const fn new(count: u32, names: In<u32>, values: u64) -> Self {
        Self { count, names, values }
    }

    /// No options.
    pub(super) fn none() -> Self {
        // SAFETY: a null list.
        Self { count: 0, names: unsafe { In::at(0) }, values: 0 }
    }

    /// The place of the value of an option.
    fn value(&self, wanted: u32) -> Option<Out<u64>> {
        // SAFETY: the header demands as many names.
        let is_named = |n: &usize| unsafe { self.names.nth(*n) }.is_ok_and(|name| name == wanted);
        let at = (0..self.count as usize).find(is_named)?;
        // SAFETY: the header demands as many values.
        let place = unsafe { Out::at(self.values).nth(at) };
        (!place.is_null()).then_some(place)
    }

    /// Writes the logs: nothing that informs, and the error if there is one. The sizes become those of the text with its NUL, as far as there
    /// is room.
    pub(super) fn log(&self, error: Option<&str>) {
        for (buffer, size, text) in
            [(INFO_LOG, INFO_LOG_SIZE, ""), (ERROR_LOG, ERROR_LOG_SIZE, error.unwrap_or_default())]
        {
            let (Some(buffer), Some(size)) = (self.value(buffer), self.value(size)) else { continue };
            let (Ok(buffer), Ok(room)) = (buffer.input().get(), size.input().get()) else { continue };
            let Some(most) = usize::try_from(room).ok().and_then(|room| room.checked_sub(1)) else {
                continue;
            };
            let mut bytes = text.as_bytes()[..text.len().min(most)].to_vec();
            let shown = if bytes.is_empty() { 0 } else { bytes.len() as u64 + 1 };
            bytes.push(0);
            // SAFETY: the program says that the buffer has this size.
            let _ = unsafe { put_host_bytes(buffer, &bytes) };
            let _ = size.set(shown);
        }
    }
}
