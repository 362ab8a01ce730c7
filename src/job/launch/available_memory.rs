//! How much memory the machine has to spare.

use std::fs;

/// Bytes that may be used: what Linux says is available, or a modest guess.
pub(super) fn available_memory() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()
    });
    kib.map_or(4 << 30, |kib| kib.saturating_mul(1024))
}
