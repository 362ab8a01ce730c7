//! Cuts the machine code of entries out of a cubin.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// The `.text.<name>` section of each entry that the cubin holds. A cubin that cannot be read holds none: its variants are
/// accepted all the same, and what their code shows stays unknown.
pub(super) fn of_entries(cubin: &[u8], names: &[String]) -> BTreeMap<String, Vec<u8>> {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(cubin) else { return BTreeMap::new() };
    let wanted = |section: &str| {
        section.strip_prefix(".text.").filter(|n| names.iter().any(|name| name == n)).map(str::to_owned)
    };
    file.sections()
        .filter_map(|section| {
            let name = wanted(section.name().ok()?)?;
            Some((name, section.data().ok()?.to_vec()))
        })
        .collect()
}

/// All machine code of a cubin, section by section.
pub(super) fn of_cubin(cubin: &[u8]) -> Vec<u8> {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(cubin) else { return Vec::new() };
    let code = file.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".text")));
    code.filter_map(|s| s.data().ok()).flatten().copied().collect()
}
