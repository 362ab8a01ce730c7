//! The available memory of the machine.

use std::fs;

/// Returns the available memory in bytes according to Linux, or 4 GiB if unknown.
pub(super) fn available_memory() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()
    });
    kib.map_or(4 << 30, |kib| kib.saturating_mul(1024))
}
