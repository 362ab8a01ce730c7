//! Extracts the machine code of kernels from a cubin.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

/// Returns the name and machine code of each kernel of a cubin: its section `.text.<kernel>`. Empty if it is not an ELF file.
#[must_use]
pub fn of_kernels(cubin: &[u8]) -> Vec<(String, &[u8])> {
    let Ok(file) = ElfFile64::<Endianness>::parse(cubin) else { return Vec::new() };
    file.sections()
        .filter_map(|section| {
            let name = section.name().ok()?.strip_prefix(".text.")?.to_owned();
            Some((name, section.data().ok()?))
        })
        .collect()
}
