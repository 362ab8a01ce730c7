//! How a program is linked with CUDA, read from its ELF file before it runs.
//!
//! The static runtime, nvcc's default, asks the driver for tables of functions that no header documents. The library replaces the runtime's
//! functions, which it finds by the program's symbol table; without that table the program cannot run.

use devcode::{Found, Limits, scan_bytes};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, ReadRef};

/// The function that nvcc's host code calls before `main` to register device code; an import if the runtime is shared.
const REGISTERS: &[u8] = b"__cudaRegisterFatBinary";

/// The size in bytes from which device code is not searched for kernels: nvcc links less than this into a program without any.
const SEARCHED: usize = 1 << 16;

/// Whether a program contains kernels of nvcc and is statically linked with the runtime that registers them, whose functions it does not
/// name since it is stripped.
pub(super) fn has_unnamed_runtime<'data>(file: impl ReadRef<'data>) -> bool {
    let Ok(file) = ElfFile64::<LittleEndian, _>::parse(file) else { return false };
    let Some(section) = file.section_by_name_bytes(b".nv_fatbin") else { return false };
    let registers = file.dynamic_symbols().any(|s| s.is_undefined() && s.name_bytes() == Ok(REGISTERS));
    let is_named = file.symbols().any(|symbol| symbol.name_bytes() == Ok(REGISTERS));
    !registers && !is_named && section.data().map_or(true, has_kernels)
}

/// Whether the section of device code may contain a kernel.
fn has_kernels(code: &[u8]) -> bool {
    if code.len() >= SEARCHED {
        return true;
    }
    let (mut kernels, mut unread) = (0, false);
    scan_bytes("program", code.to_vec(), &Limits::default(), &mut |found| match found {
        Found::Entry { entry, .. } => kernels += entry.kernels.len(),
        Found::Problem(_) => unread = true,
        Found::Holder(_) => {}
    });
    kernels > 0 || unread
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = ".version 9.0\n.target sm_120\n.address_size 64\n.visible .entry k() { ret; }\n";

    /// Builds an ELF file that imports a function and has a section of this name with a kernel.
    fn file(imported: &str, device_code: &str) -> Vec<u8> {
        file_with(imported, device_code, KERNEL.as_bytes())
    }

    fn file_with(imported: &str, device_code: &str, code: &[u8]) -> Vec<u8> {
        let names = format!("\0.dynsym\0{device_code}\0.strings\0");
        let strings = format!("\0{imported}\0");
        let mut symbols = vec![0u8; 48];
        // The name at 1, a global function, undefined.
        (symbols[24], symbols[28]) = (1, 0x12);
        let mut out = vec![0u8; 64];
        out[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let mut rows = vec![0u8; 64];
        let at = |name: &str| names.find(name).unwrap() as u32;
        let (strtab, dynsym, progbits) = (3u32, 11u32, 1u32);
        let parts: [(u32, u32, u32, u64, &[u8]); 4] = [
            (0, strtab, 0, 0, names.as_bytes()),
            (at(".dynsym"), dynsym, 4, 24, &symbols),
            (at(device_code), progbits, 0, 0, code),
            (at(".strings"), strtab, 0, 0, strings.as_bytes()),
        ];
        for (name, kind, link, entry, bytes) in parts {
            let from = out.len() as u64;
            out.extend_from_slice(bytes);
            rows.extend(name.to_le_bytes());
            rows.extend(kind.to_le_bytes());
            rows.extend([0; 16]);
            rows.extend(from.to_le_bytes());
            rows.extend((bytes.len() as u64).to_le_bytes());
            rows.extend(link.to_le_bytes());
            rows.extend([0; 12]);
            rows.extend(entry.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(8), 0);
        let table = out.len() as u64;
        out.extend(rows);
        out[40..48].copy_from_slice(&table.to_le_bytes());
        for (at, half) in [(16, 3u16), (18, 62), (52, 64), (58, 64), (60, 5), (62, 1)] {
            out[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        out
    }

    #[test]
    fn a_static_runtime_is_device_code_that_does_not_import_its_registration() {
        // An import of the driver's library does not change the result for a static runtime.
        for other in ["puts", "cuInit"] {
            assert!(has_unnamed_runtime(&*file(other, ".nv_fatbin")), "{other}");
        }
        assert!(!has_unnamed_runtime(&*file("__cudaRegisterFatBinary", ".nv_fatbin")));
        assert!(!has_unnamed_runtime(&*file("puts", ".rodata")));
        // nvcc links device code into every program, kernels or not.
        let without_kernels = b".version 9.0\n.target sm_120\n.address_size 64\n";
        assert!(!has_unnamed_runtime(&*file_with("puts", ".nv_fatbin", without_kernels)));
        assert!(has_unnamed_runtime(&*file_with("puts", ".nv_fatbin", &[0; SEARCHED])));
        let whole = file("puts", ".nv_fatbin");
        for len in 0..whole.len() {
            has_unnamed_runtime(&whole[..len]);
        }
        assert!(!has_unnamed_runtime(&b"#!/bin/sh\n"[..]));
    }
}
