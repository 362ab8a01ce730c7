//! Names of buffers, for messages: an address in or near a named buffer is shown as a byte offset in it.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::memory::global::GlobalMemory;
use crate::memory::window::GLOBAL_BASE;

/// Maximum distance from a buffer at which an address still counts as near.
const NEAR: u64 = 4096;

/// A buffer with a name.
#[derive(Debug, Clone)]
struct Named {
    base: u64,
    len: u64,
    name: Arc<str>,
}

/// The named buffers, sorted by address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(Vec<Named>);

impl Names {
    fn add(&mut self, base: u64, len: u64, name: &str) {
        let at = self.0.partition_point(|n| n.base < base);
        self.0.insert(at, Named { base, len, name: name.into() });
    }

    /// Forgets the buffer that begins at `base`.
    pub(crate) fn remove(&mut self, base: u64) {
        self.0.retain(|n| n.base != base);
    }

    fn last_before(&self, address: u64) -> Option<&Named> {
        let at = self.0.partition_point(|n| n.base <= address);
        self.0.get(at.checked_sub(1)?)
    }

    /// The buffer that contains an address, or that lies just before or after it: its name, its length, and the offset of the
    /// address from its start.
    pub(crate) fn near(&self, address: u64) -> Option<(&str, u64, i64)> {
        let before = self.last_before(address).filter(|n| address - n.base < n.len.saturating_add(NEAR));
        if let Some(n) = before {
            return Some((&n.name, n.len, (address - n.base).cast_signed()));
        }
        let next = self.last_before(address.saturating_add(NEAR)).filter(|n| n.base > address)?;
        Some((&next.name, next.len, -(next.base - address).cast_signed()))
    }
}

impl GlobalMemory {
    /// Gives the allocation that begins at `base` a name for messages.
    pub fn name(&mut self, base: u64, name: &str) {
        if let Some(len) = self.bytes(base).map(|bytes| bytes.len() as u64) {
            self.names.add(base, len, name);
        }
    }

    /// The name of the allocation that begins at `base`, if it has one.
    #[must_use]
    pub fn buffer_name(&self, base: u64) -> Option<&str> {
        self.names.near(base).filter(|(_, _, at)| *at == 0).map(|(name, ..)| name)
    }

    /// Inserts the buffer name after each global address in or near a named buffer.
    #[must_use]
    pub fn name_addresses(&self, message: &str) -> String {
        let mut out = String::with_capacity(message.len());
        let mut rest = message;
        while let Some(at) = rest.find("0x") {
            let digits = &rest[at + 2..];
            let len = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            let (front, back) = rest.split_at(at + 2 + len);
            out.push_str(front);
            rest = back;
            let address = u64::from_str_radix(&digits[..len], 16).ok().filter(|a| *a >= GLOBAL_BASE - NEAR);
            if let Some((name, len, byte)) = address.and_then(|a| self.names.near(a)) {
                let _ = write!(out, " (buffer `{name}`, byte {byte} of {len})");
            }
        }
        out + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_and_near_a_buffer_get_its_name() {
        let mut memory = GlobalMemory::default();
        let a = memory.allocate(64);
        let b = memory.allocate(4096);
        memory.allocate(64);
        memory.name(b, "b");
        memory.name(a, "a");
        let named = |address: u64| memory.name_addresses(&format!("4 bytes at {address:#x}, or 0x10, twice"));
        for (address, name) in [
            (a, " (buffer `a`, byte 0 of 64)"),
            (a + 64, " (buffer `a`, byte 64 of 64)"),
            (a - 4, " (buffer `a`, byte -4 of 64)"),
            (b - 8, " (buffer `b`, byte -8 of 4096)"),
            (b + 4095, " (buffer `b`, byte 4095 of 4096)"),
            (b + 3 * 4096, ""),
        ] {
            assert_eq!(named(address), format!("4 bytes at {address:#x}{name}, or 0x10, twice"));
        }
        assert_eq!(GlobalMemory::default().name_addresses("at 0x1000000000"), "at 0x1000000000");
    }
}
