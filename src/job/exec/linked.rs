//! How a program is linked with CUDA, read from its ELF file before it runs.
//!
//! The static runtime, nvcc's default, asks the driver for tables of functions that no header documents, so it cannot be served.

/// Where a section lies, its type and the number of the section that belongs to it.
struct Section<'a> {
    name: u32,
    kind: u32,
    link: usize,
    bytes: &'a [u8],
}

/// `SHT_DYNAMIC` and `DT_NEEDED`.
const DYNAMIC: u32 = 6;
const NEEDED: u64 = 1;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
}

/// A text that ends in NUL.
fn text(bytes: &[u8], at: usize) -> Option<&[u8]> {
    bytes.get(at..)?.split(|byte| *byte == 0).next()
}

fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    // 64 bits, little-endian.
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (number::<8>(file, 40)?, number::<2>(file, 58)?, number::<2>(file, 60)?);
    let section = |n: u64| {
        let at = usize::try_from(table.checked_add(n * size)?).ok()?;
        let (from, len) = (number::<8>(file, at + 24)?, number::<8>(file, at + 32)?);
        let range = usize::try_from(from).ok()?..usize::try_from(from.checked_add(len)?).ok()?;
        Some(Section {
            name: number::<4>(file, at)? as u32,
            kind: number::<4>(file, at + 4)? as u32,
            link: number::<4>(file, at + 40)? as usize,
            // Some sections have no bytes in the file.
            bytes: file.get(range).unwrap_or_default(),
        })
    };
    (0..count).map(section).collect()
}

/// Whether a program has device code for the runtime, and neither the shared runtime nor the driver among the libraries that it needs.
pub(super) fn has_static_runtime(file: &[u8]) -> bool {
    let Some(sections) = sections(file) else { return false };
    let names = number::<2>(file, 62).and_then(|n| sections.get(n as usize));
    let named = |s: &Section<'_>| text(names?.bytes, s.name as usize);
    if !sections.iter().any(|s| named(s) == Some(b".nv_fatbin")) {
        return false;
    }
    let needed = sections.iter().filter(|s| s.kind == DYNAMIC).flat_map(|s| {
        let strings = sections.get(s.link).map_or(&[][..], |s| s.bytes);
        let entries = s.bytes.chunks_exact(16).filter(|e| number::<8>(e, 0) == Some(NEEDED));
        entries.filter_map(move |e| text(strings, number::<8>(e, 8)? as usize))
    });
    let mut shared =
        needed.filter(|name| name.starts_with(b"libcudart.so") || name.starts_with(b"libcuda.so"));
    shared.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with device code that needs a library.
    fn file(needed: &str, device_code: &str) -> Vec<u8> {
        let names = format!("\0.dynamic\0{device_code}\0.strings\0");
        let strings = format!("\0{needed}\0");
        let dynamic: Vec<u8> = [NEEDED, 1, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect();
        let mut out = vec![0u8; 64];
        out[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut rows = Vec::new();
        let at = |name: &str| names.find(name).unwrap() as u32;
        let parts: [(u32, u32, u32, &[u8]); 4] = [
            (0, 3, 0, names.as_bytes()),
            (at(".dynamic"), DYNAMIC, 3, &dynamic),
            (at(device_code), 1, 0, b"code"),
            (at(".strings"), 3, 0, strings.as_bytes()),
        ];
        for (name, kind, link, bytes) in parts {
            let from = out.len() as u64;
            out.extend_from_slice(bytes);
            let mut row = Vec::new();
            row.extend(name.to_le_bytes());
            row.extend(kind.to_le_bytes());
            row.extend([0; 16]);
            row.extend(from.to_le_bytes());
            row.extend((bytes.len() as u64).to_le_bytes());
            row.extend(link.to_le_bytes());
            row.extend([0; 20]);
            rows.push(row);
        }
        let table = out.len() as u64;
        out.extend(rows.concat());
        out[40..48].copy_from_slice(&table.to_le_bytes());
        for (at, half) in [(58, 64u16), (60, 4), (62, 0)] {
            out[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        out
    }

    #[test]
    fn a_static_runtime_is_device_code_without_a_library_for_it() {
        assert!(has_static_runtime(&file("libc.so.6", ".nv_fatbin")));
        for shared in ["libcudart.so.13", "libcuda.so.1"] {
            assert!(!has_static_runtime(&file(shared, ".nv_fatbin")), "{shared}");
        }
        assert!(!has_static_runtime(&file("libc.so.6", ".rodata")));
        let whole = file("libc.so.6", ".nv_fatbin");
        for len in 0..whole.len() {
            has_static_runtime(&whole[..len]);
        }
        assert!(!has_static_runtime(b"#!/bin/sh\n"));
    }
}
