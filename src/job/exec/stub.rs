//! Writes a stub shared library without code: its name, a symbol version, and the library that implements the symbols.
//!
//! The dynamic linker looks up a symbol version in the file that the program was linked with, but the symbols themselves in all
//! libraries. So one library with the code serves programs linked with several versions.

/// Size of the ELF header, bytes; the program headers follow it.
const HEADER: usize = 64;
const PROGRAM_HEADERS: usize = 2 * 56;

/// The string table of an ELF file.
#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u64 {
        if self.0.is_empty() {
            self.0.push(0);
        }
        let at = self.0.len() as u64;
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        at
    }
}

/// The symbol hash of the System V ABI.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |h: u32, byte| {
        let h = (h << 4).wrapping_add(u32::from(byte));
        let high = h & 0xF000_0000;
        (h ^ (high >> 24)) & !high
    })
}

/// The value of `e_machine` for this host.
const fn machine() -> u16 {
    if cfg!(target_arch = "aarch64") { 183 } else { 62 }
}

/// Returns a library named `name` that defines the symbol version `name` and depends on the library `needs`.
pub(super) fn library(name: &str, needs: &str) -> Vec<u8> {
    let mut strings = Strings::default();
    let (own, needed) = (strings.add(name), strings.add(needs));
    let strings = strings.0;
    // One symbol, the undefined one that starts every symbol table; a hash table with one bucket.
    let symbols = [0u8; 24];
    let table: Vec<u8> = [1u32, 1, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    let versions = [0u8; 8];
    // The version definitions: the file itself and the one version.
    let mut definitions = Vec::new();
    for (flags, index, next) in [(1u16, 1u16, 28u32), (0, 2, 0)] {
        for half in [1, flags, index, 1] {
            definitions.extend(half.to_le_bytes());
        }
        for word in [hash(name), 20, next, own as u32, 0] {
            definitions.extend(word.to_le_bytes());
        }
    }
    let start = HEADER + PROGRAM_HEADERS;
    let mut body: Vec<u8> = Vec::new();
    let mut place = |bytes: &[u8]| {
        body.resize(body.len().next_multiple_of(8), 0);
        let at = (start + body.len()) as u64;
        body.extend_from_slice(bytes);
        at
    };
    let (at_symbols, at_table, at_versions) = (place(&symbols), place(&table), place(&versions));
    let (at_definitions, at_strings) = (place(&definitions), place(&strings));
    let dynamic: Vec<u8> = [
        (1, needed),
        (14, own),
        (4, at_table),
        (5, at_strings),
        (6, at_symbols),
        (10, strings.len() as u64),
        (11, 24),
        (0x6FFF_FFF0, at_versions),
        (0x6FFF_FFFC, at_definitions),
        (0x6FFF_FFFD, 2),
        (0, 0),
    ]
    .into_iter()
    .flat_map(|(tag, value): (u64, u64)| [tag, value])
    .flat_map(u64::to_le_bytes)
    .collect();
    let at_dynamic = place(&dynamic);
    let all = (start + body.len()) as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(3u16.to_le_bytes());
    file.extend(machine().to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for long in [0, HEADER as u64, 0] {
        file.extend(long.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for half in [HEADER as u16, 56, 2, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // One segment with everything, writable because the dynamic linker stores addresses in the dynamic section; then that section.
    let len = dynamic.len() as u64;
    for (kind, at, size, align) in [(1u32, 0, all, 0x1_0000u64), (2, at_dynamic, len, 8)] {
        file.extend(kind.to_le_bytes());
        file.extend(6u32.to_le_bytes());
        for long in [at, at, at, size, size, align] {
            file.extend(long.to_le_bytes());
        }
    }
    file.extend(body);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_abi() {
        assert_eq!(hash("printf"), 0x077905A6);
        assert_eq!(hash("GLIBC_2.2.5"), 0x0969_1A75);
    }

    #[test]
    fn tables_lie_within_the_file() {
        let file = library("libcudart.so.13", "libcuda.so.1");
        assert_eq!(&file[..4], b"\x7fELF");
        assert!(file.len() < 1024 && file.windows(16).any(|w| w == b"libcudart.so.13\0"));
    }
}
