//! Reads architecture, suffix, toolkit and kernels from a cubin.
//!
//! NVIDIA does not document the format. Derived from the output of ptxas 12.8 to 13.5 and compared with `cuobjdump`
//! (`tests/devcode`):
//! - `EI_OSABI` 0x33: the architecture is the low byte of `e_flags`, and bit 11 marks `a`. 0x41: it is bits 8 to 15, and
//!   bit 3 marks `a` up to 12.9; from 13.0 on, the first record of `.nv.compat` does (`02 09 01 00`).
//! - `f` appears only in ptxas's options, which `.note.nv.tkinfo` quotes.
//! - Kernels are functions with bit 4 of `st_other` set. `.nv.info` has registers and stack per symbol, `.nv.info.NAME` the
//!   threads, the section `.nv.shared.NAME` the shared memory; the older format also has registers in `sh_info` of the code.

use object::elf::{self, FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym};
use object::{LittleEndian, SectionIndex};
use ptx::arch::{Suffix, ToolkitVersion};

use super::entry::{KERNELS_LIMIT, Kernel, ToldBy, Trouble};
use super::source::{text_at, u16_at, u32_at};

const LE: LittleEndian = LittleEndian;

const OSABI_OLD: elf::OsAbi = elf::OsAbi(0x33);
const OSABI_NEW: elf::OsAbi = elf::OsAbi(0x41);
const OLD_ARCH: u32 = 1 << 11;
const NEW_ARCH: u32 = 1 << 3;

/// Marks a kernel, as opposed to a device function.
const STO_ENTRY: u8 = 0x10;

/// Attributes of `.nv.info`.
const EIATTR_MAX_THREADS: u8 = 0x05;
const EIATTR_REQUIRED_THREADS: u8 = 0x10;
const EIATTR_FRAME_SIZE: u8 = 0x11;
const EIATTR_MIN_STACK_SIZE: u8 = 0x12;
const EIATTR_REGISTERS: u8 = 0x2f;
/// The record of `.nv.compat` that marks `a`.
const COMPAT_ARCH: u8 = 0x09;

/// The facts read from a cubin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) number: u16,
    pub(super) suffix: Option<Suffix>,
    pub(super) told_by: ToldBy,
    pub(super) toolkit: Option<ToolkitVersion>,
    pub(super) relocatable: bool,
    pub(super) kernels: Vec<Kernel>,
}

/// Whether a file that starts with `head` is a cubin.
pub(super) fn is_cubin(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF") && u16_at(head, 18) == Some(elf::EM_CUDA.0)
}

type Sections<'a> = SectionTable<'a, FileHeader64<LittleEndian>>;

/// Reads the cubin `code`.
pub(super) fn facts(code: &[u8]) -> Result<Facts, Trouble> {
    let damaged = |error: object::Error| Trouble::Damaged(error.to_string());
    if code.get(4) == Some(&1) {
        return Err(Trouble::Unsupported("a 32-bit image, which no driver since CUDA 12 loads".to_owned()));
    }
    let header = FileHeader64::<LittleEndian>::parse(code).map_err(damaged)?;
    let flags = header.e_flags(LE).0;
    let ident = header.e_ident();
    let (number, marked) = match ident.os_abi {
        OSABI_OLD => (flags & 0xff, flags & OLD_ARCH != 0),
        OSABI_NEW => (flags >> 8 & 0xff, flags & NEW_ARCH != 0),
        other => return Err(Trouble::Unsupported(format!("an image of OS ABI {:#x}", other.0))),
    };
    let number = u16::try_from(number).unwrap_or_default();
    let sections = header.sections(LE, code).map_err(damaged)?;
    let mut reader = Reader { code, left: code.len(), names: code.len().saturating_mul(4) };
    let mut signs = Signs { new: ident.os_abi == OSABI_NEW, marked, ..Signs::default() };
    for (_, section) in sections.enumerate() {
        match reader.name(&sections, section)? {
            b".nv.compat" => {
                signs.compat = true;
                let records = section.data(LE, code).map_err(damaged)?;
                signs.compat_arch =
                    attributes(records).find(|a| a.0 == COMPAT_ARCH).map(|a| a.1.first() == Some(&1));
            }
            b".note.nv.tkinfo" => signs.note(reader.data(section)?),
            _ => {}
        }
    }
    let (suffix, told_by) = signs.suffix(number);
    let kernels = kernels(&sections, &mut reader)?;
    let relocatable = header.e_type(LE) == elf::ET_REL;
    Ok(Facts { number, suffix, told_by, toolkit: signs.toolkit, relocatable, kernels })
}

/// Reads sections and bounds the bytes read: in a real cubin, these sections do not overlap; in a crafted one they may, to
/// exhaust time.
struct Reader<'a> {
    code: &'a [u8],
    left: usize,
    names: usize,
}

impl<'a> Reader<'a> {
    fn data(&mut self, section: &SectionHeader64<LittleEndian>) -> Result<&'a [u8], Trouble> {
        let data = section.data(LE, self.code).map_err(|error| Trouble::Damaged(error.to_string()))?;
        self.take(data.len())?;
        Ok(data)
    }

    /// Returns the name of a section; bounded too, since overlapping long names would also exhaust time.
    fn name(
        &mut self,
        sections: &Sections<'a>,
        section: &SectionHeader64<LittleEndian>,
    ) -> Result<&'a [u8], Trouble> {
        let name = sections.section_name(LE, section).unwrap_or_default();
        let overlap = || Trouble::Damaged("the names of its sections overlap".to_owned());
        self.names = self.names.checked_sub(name.len()).ok_or_else(overlap)?;
        Ok(name)
    }

    fn take(&mut self, bytes: usize) -> Result<(), Trouble> {
        let overlap = || Trouble::Damaged("its sections or names overlap".to_owned());
        self.left = self.left.checked_sub(bytes).ok_or_else(overlap)?;
        Ok(())
    }
}

/// The evidence in a cubin for its suffix.
#[derive(Debug, Default)]
struct Signs {
    new: bool,
    marked: bool,
    compat: bool,
    compat_arch: Option<bool>,
    toolkit: Option<ToolkitVersion>,
    option: Option<Suffix>,
}

impl Signs {
    /// Reads ELF notes; a note in another format is ignored.
    fn note(&mut self, mut notes: &[u8]) {
        while let (Some(name), Some(size)) = (u32_at(notes, 0), u32_at(notes, 4)) {
            let start = 12 + (name as usize).next_multiple_of(4);
            let Some(body) = notes.get(start..).and_then(|rest| rest.get(..size as usize)) else { return };
            // Six words; the last three are offsets of version, build and options in the strings that follow.
            let text = |word| text_at(body.get(24..)?, u32_at(body, word)? as usize);
            if let Some(version) = text(12).and_then(|t| std::str::from_utf8(t).ok()) {
                let version = version.rsplit_once(", V").and_then(|(_, v)| v.parse().ok());
                self.toolkit = self.toolkit.or(version);
            }
            if let Some(options) = text(20).and_then(|t| std::str::from_utf8(t).ok()) {
                self.option = self.option.or_else(|| arch_option(options));
            }
            let step = (start + size as usize).next_multiple_of(4);
            notes = notes.get(step..).unwrap_or_default();
        }
    }

    fn suffix(&self, number: u16) -> (Option<Suffix>, ToldBy) {
        const FAMILIES: ToolkitVersion = ToolkitVersion { major: 12, minor: 9, patch: 0 };
        if number < 90 {
            return (Some(Suffix::Base), ToldBy::NoOther);
        }
        match (self.compat_arch, self.marked) {
            (Some(true), _) => return (Some(Suffix::Arch), ToldBy::Compat),
            (_, true) => return (Some(Suffix::Arch), ToldBy::ElfFlags),
            _ => {}
        }
        // Whether the absence of the mark rules out `a`.
        let not_arch = if self.new { self.compat } else { true };
        if not_arch && number < 100 {
            let told_by = if self.new { ToldBy::Compat } else { ToldBy::ElfFlags };
            return (Some(Suffix::Base), told_by);
        }
        if not_arch && self.toolkit.is_some_and(|toolkit| toolkit < FAMILIES) {
            return (Some(Suffix::Base), ToldBy::NoOther);
        }
        match self.option {
            Some(suffix) => (Some(suffix), ToldBy::Tkinfo),
            None => (None, ToldBy::Nothing),
        }
    }
}

/// Returns the suffix in `-arch sm_121f` or `-arch=…`.
fn arch_option(options: &str) -> Option<Suffix> {
    let mut words = options.split([' ', '=']);
    words.find(|word| matches!(*word, "-arch" | "--gpu-name"))?;
    let name = words.next()?.strip_prefix("sm_")?;
    match name.trim_start_matches(|c: char| c.is_ascii_digit()) {
        "" => Some(Suffix::Base),
        "a" => Some(Suffix::Arch),
        "f" => Some(Suffix::Family),
        _ => None,
    }
}

/// Iterates over the records of `.nv.info` and `.nv.compat`: a format byte, an attribute, and 2 bytes of value or, in format 4,
/// of size.
fn attributes(mut records: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = records.split_at_checked(4)?;
        let (form, attribute) = (head[0], head[1]);
        let value = if form == 4 {
            let size = usize::from(u16_at(head, 2)?);
            let (value, behind) = rest.split_at_checked(size)?;
            records = behind;
            value
        } else {
            records = rest;
            &head[2..]
        };
        Some((attribute, value))
    })
}

fn kernels<'a>(sections: &Sections<'a>, reader: &mut Reader<'a>) -> Result<Vec<Kernel>, Trouble> {
    let damaged = |error: object::Error| Trouble::Damaged(error.to_string());
    let symbols = sections.symbols(LE, reader.code, elf::SHT_SYMTAB).map_err(damaged)?;
    let mut of_section = vec![Kernel::default(); sections.len()];
    // Symbol, attribute, value.
    let mut of_symbol: Vec<(u32, u8, u32)> = Vec::new();
    for (index, section) in sections.enumerate() {
        let name = reader.name(sections, section)?;
        let code_index = section.sh_info(LE) as usize;
        if name == b".nv.info" {
            of_symbol.extend(attributes(reader.data(section)?).filter_map(|(attribute, value)| {
                let wanted =
                    [EIATTR_REGISTERS, EIATTR_MIN_STACK_SIZE, EIATTR_FRAME_SIZE].contains(&attribute);
                wanted.then_some((u32_at(value, 0)?, attribute, u32_at(value, 4)?))
            }));
        } else if name.starts_with(b".nv.info.") {
            let Some(kernel) = of_section.get_mut(code_index) else { continue };
            for (attribute, value) in attributes(reader.data(section)?) {
                if matches!(attribute, EIATTR_MAX_THREADS | EIATTR_REQUIRED_THREADS) {
                    kernel.max_threads = threads(value);
                }
            }
        } else if name.starts_with(b".nv.shared.") {
            let Some(kernel) = of_section.get_mut(code_index) else { continue };
            kernel.shared = Some(kernel.shared.unwrap_or(0).saturating_add(section.sh_size(LE)));
        } else if name.starts_with(b".text.") {
            let registers = section.sh_info(LE) >> 24;
            if let Some(kernel) = of_section.get_mut(index.0).filter(|_| registers != 0) {
                kernel.registers = Some(registers);
            }
        }
    }
    of_symbol.sort_unstable();
    let mut out = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        if symbol.st_type() != elf::STT_FUNC || symbol.st_other().0 & STO_ENTRY == 0 {
            continue;
        }
        let name = symbols.symbol_name(LE, symbol).map_err(damaged)?;
        reader.take(name.len())?;
        let section = symbols.symbol_section(LE, symbol, index).map_err(damaged)?;
        let of_section = section.and_then(|SectionIndex(section)| of_section.get(section));
        let mut kernel = of_section.cloned().unwrap_or_default();
        kernel.name = String::from_utf8_lossy(name).into_owned();
        let index = u32::try_from(index.0).unwrap_or(u32::MAX);
        let value = |attribute| {
            let at = of_symbol.partition_point(|row| (row.0, row.1) < (index, attribute));
            of_symbol.get(at).filter(|row| (row.0, row.1) == (index, attribute)).map(|row| row.2)
        };
        kernel.registers = value(EIATTR_REGISTERS).or(kernel.registers);
        kernel.stack = value(EIATTR_MIN_STACK_SIZE).or_else(|| value(EIATTR_FRAME_SIZE)).map(u64::from);
        // A kernel without the section uses no shared memory.
        kernel.shared = Some(kernel.shared.unwrap_or(0));
        if out.len() >= KERNELS_LIMIT {
            return Err(Trouble::TooLarge(format!("it has more than {KERNELS_LIMIT} kernels")));
        }
        out.push(kernel);
    }
    Ok(out)
}

/// Returns the product of the three dimensions of a CTA.
fn threads(extents: &[u8]) -> Option<u32> {
    (0..3).try_fold(1_u32, |product, i| product.checked_mul(u32_at(extents, 4 * i)?))
}
