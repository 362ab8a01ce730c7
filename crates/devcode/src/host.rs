//! Finds the fatbins and needed libraries of a host ELF file. Only headers and tables are read.

use object::LittleEndian;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::pod;

use super::entry::Trouble;
use super::source::{Source, text_at, u64_at};

const LE: LittleEndian = LittleEndian;

/// Far above what linkers write: `-ffunction-sections` creates a few hundred thousand headers of 64 bytes.
const TABLE_LIMIT: u64 = 64 << 20;
const NEEDS_LIMIT: usize = 4096;

/// The facts read from a host ELF file.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// Sections that may contain fatbins, in file order and disjoint.
    pub(super) sections: Vec<Section>,
    pub(super) needs: Vec<String>,
}

/// A part of the file that contains fatbins, or may.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) at: u64,
    pub(super) len: u64,
    /// Whether the section is reserved for fatbins. Otherwise it is data, which may contain fatbins that a library loads itself,
    /// as cuFFT does.
    pub(super) dedicated: bool,
}

/// Sections reserved for fatbins: linked code, and code for the device linker.
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];

/// Reads the tables of the ELF file `source`. A 32-bit or big-endian file contains no device code of current toolkits.
pub(super) fn read(source: &Source) -> Result<Host, Trouble> {
    let head = source.head(64)?;
    if head.get(4..6) != Some(&[2, 1]) {
        return Ok(Host::default());
    }
    let short = || Trouble::Truncated("it ends within its ELF header".to_owned());
    let (header, _) = pod::from_bytes::<FileHeader64<LittleEndian>>(&head).map_err(|()| short())?;
    let (offset, size) = (header.e_shoff.get(LE), u64::from(header.e_shentsize.get(LE)));
    if offset == 0 {
        return packed(source);
    }
    if size != 64 {
        return Err(Trouble::Damaged(format!("its section headers have {size} bytes, not 64")));
    }
    // With more than 65,279 sections, the first header has their number and the index of the names.
    let first: [u8; 64] = source.array(offset)?;
    let (first, _) = pod::from_bytes::<SectionHeader64<LittleEndian>>(&first).map_err(|()| short())?;
    let count = match header.e_shnum.get(LE) {
        0 => first.sh_size.get(LE),
        count => u64::from(count),
    };
    let names = match header.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => first.sh_link.get(LE),
        index => u32::from(index.0),
    };
    let bytes = count.checked_mul(64).filter(|bytes| *bytes <= TABLE_LIMIT);
    let bytes = bytes.ok_or_else(|| Trouble::TooLarge(format!("a table of {count} sections")))?;
    let table = source.read(offset, bytes)?;
    let sections: Vec<&SectionHeader64<LittleEndian>> = table
        .chunks_exact(64)
        .filter_map(|chunk| pod::from_bytes(chunk).ok().map(|(section, _)| section))
        .collect();
    let place =
        |section: &SectionHeader64<LittleEndian>| (section.sh_offset.get(LE), section.sh_size.get(LE));
    let damaged = || Trouble::Damaged("its section headers name no table of names".to_owned());
    let (at, len) = place(sections.get(names as usize).ok_or_else(damaged)?);
    if len > TABLE_LIMIT {
        return Err(Trouble::TooLarge(format!("{len} bytes of section names")));
    }
    let names = source.read(at, len)?;
    let mut host = Host::default();
    for section in &sections {
        let name = names.get(section.sh_name.get(LE) as usize..).unwrap_or_default();
        let name = &name[..name.len().min(64)];
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let (kind, flags) = (section.sh_type.get(LE), section.sh_flags.get(LE));
        let dedicated = SECTIONS.iter().any(|known| known.as_bytes() == name);
        let data = flags.0 & elf::SHF_ALLOC.0 != 0 && flags.0 & elf::SHF_EXECINSTR.0 == 0;
        if kind == elf::SHT_PROGBITS && (dedicated || data) {
            let (at, len) = place(section);
            let name = String::from_utf8_lossy(name).into_owned();
            host.sections.push(Section { name, at, len, dedicated });
        } else if kind == elf::SHT_DYNAMIC {
            let strings = sections.get(section.sh_link.get(LE) as usize).map(|section| place(section));
            if let Some(strings) = strings {
                host.needs = needs(source, place(section), strings)?;
            }
        }
    }
    host.sections.sort_by_key(|section| (section.at, !section.dedicated));
    let mut covered = 0;
    for section in &mut host.sections {
        let start = section.at.max(covered);
        section.len = section.at.saturating_add(section.len).saturating_sub(start);
        section.at = start;
        covered = start.saturating_add(section.len);
    }
    host.sections.retain(|section| section.len > 0);
    Ok(host)
}

/// Reports a file without sections: packed, or stripped of its tables.
fn packed(source: &Source) -> Result<Host, Trouble> {
    let head = source.head(4096)?;
    if head.windows(4).any(|window| window == b"UPX!") {
        return Err(Trouble::Unsupported("the packer UPX".to_owned()));
    }
    Err(Trouble::Unsupported("a form without section headers".to_owned()))
}

/// Reads the names in `DT_NEEDED`.
fn needs(source: &Source, (at, len): (u64, u64), strings: (u64, u64)) -> Result<Vec<String>, Trouble> {
    const ENTRY: usize = 16;
    let dynamic = source.read(at, len.min((NEEDS_LIMIT * ENTRY) as u64))?;
    let strings = source.part(strings.0, strings.1);
    let mut out = Vec::new();
    for entry in dynamic.chunks_exact(ENTRY) {
        match (u64_at(entry, 0), u64_at(entry, 8)) {
            (Some(0), _) => break,
            (Some(1), Some(offset)) => {
                let name = strings.part(offset, 256).head(256)?;
                if let Some(name) = text_at(&name, 0).filter(|name| !name.is_empty()) {
                    out.push(String::from_utf8_lossy(name).into_owned());
                }
            }
            _ => {}
        }
    }
    Ok(out)
}
