//! Extracts the machine code of kernels from a cubin, and the functions that they call.

use std::collections::HashMap;

use object::elf::FileHeader64;
use object::read::elf::{ElfFile64, FileHeader, Sym};
use object::{Endianness, LittleEndian, Object, ObjectSection};

use super::source::u32_at;

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

/// Returns the functions that each kernel of a cubin calls, directly or through others: `vprintf`, functions in other sections. A function
/// that ptxas has copied into the section of the kernel is not among them, nor is the target of a function pointer. `None` if the cubin has no
/// call graph.
///
/// The section `.nv.callgraph` has pairs of symbols, caller and callee (NVIDIA does not document it; compared with nvdisasm's output for
/// cubins of CUDA 12.8 to 13.5).
#[must_use]
pub fn callees(cubin: &[u8]) -> Option<HashMap<String, Vec<String>>> {
    const LE: LittleEndian = LittleEndian;
    /// More edges than any library has; a crafted file could have one for every 8 bytes.
    const EDGES: usize = 1 << 20;

    let header = FileHeader64::<LittleEndian>::parse(cubin).ok()?;
    let sections = header.sections(LE, cubin).ok()?;
    let symbols = sections.symbols(LE, cubin, object::elf::SHT_SYMTAB).ok()?;
    let (_, section) = sections.section_by_name(LE, b".nv.callgraph")?;
    let edges = object::read::elf::SectionHeader::data(section, LE, cubin).ok()?;
    let name = |index: u32| {
        let symbol = symbols.symbol(object::SymbolIndex(usize::try_from(index).ok()?)).ok()?;
        let name = symbol.name(LE, symbols.strings()).ok()?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    let mut out: HashMap<String, Vec<String>> = HashMap::new();
    for edge in edges.chunks_exact(8).take(EDGES) {
        let (Some(caller), Some(callee)) = (u32_at(edge, 0), u32_at(edge, 4)) else { continue };
        // Edges of symbol 0 separate kinds of edges.
        if caller != 0 {
            // An edge to no symbol is a call that the file does not name.
            let callee = name(callee).unwrap_or_default();
            out.entry(name(caller)?).or_default().push(callee);
        }
    }
    Some(out)
}
