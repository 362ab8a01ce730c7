//! Functions of other libraries that a file calls through its table of addresses: the dynamic linker fills the table when it loads the file.
#![expect(unsafe_code, reason = "tables of loaded files")]

use std::ffi::c_void;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use object::elf::RelocationType;
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object as _, ObjectSymbol as _, ObjectSymbolTable as _, ReadCache, RelocationFlags,
    RelocationTarget, elf,
};
use rustix::mm::{MprotectFlags, mprotect};
use rustix::param::page_size;

use super::objects::Loaded;

/// The relocations that store the address of a function.
#[cfg(target_arch = "x86_64")]
const STORE_AN_ADDRESS: [RelocationType; 3] =
    [elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT, elf::R_X86_64_64];
#[cfg(target_arch = "aarch64")]
const STORE_AN_ADDRESS: [RelocationType; 3] =
    [elf::R_AARCH64_JUMP_SLOT, elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_ABS64];

/// A place that holds the address of an imported function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) name: String,
    /// The place in the process.
    place: u64,
}

/// The imports of a file whose names are wanted; none if the file cannot be read.
pub(super) fn imports(loaded: &Loaded, is_wanted: impl Fn(&str) -> bool) -> Vec<Import> {
    let Ok(file) = File::open(&loaded.path) else { return Vec::new() };
    let cache = ReadCache::new(file);
    let Ok(file) = ElfFile64::<LittleEndian, _>::parse(&cache) else { return Vec::new() };
    let (Some(relocations), Some(symbols)) = (file.dynamic_relocations(), file.dynamic_symbol_table()) else {
        return Vec::new();
    };
    let import = |(at, relocation): (u64, object::Relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
        let symbol = symbols.symbol_by_index(index).ok().filter(|symbol| symbol.is_undefined())?;
        let name = symbol.name().ok().filter(|name| is_wanted(name))?;
        STORE_AN_ADDRESS.contains(&r_type).then(|| Import { name: name.to_owned(), place: loaded.base + at })
    };
    relocations.filter_map(import).collect()
}

impl Import {
    /// Makes the file call another function.
    ///
    /// # Safety
    /// The file is loaded, and the function has the signature of the imported one.
    pub(super) unsafe fn lead_to(&self, function: *const c_void) {
        let page = page_size() as u64;
        let start = self.place / page * page;
        // The linker has protected the table of some files. It stays writable: nothing says whether another table shares the page.
        let writable = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: a page of the file's data.
        if unsafe { mprotect(start as *mut c_void, page_size(), writable) }.is_ok() {
            // SAFETY: the linker stores an address here, aligned to its size; other threads may read it meanwhile.
            unsafe { AtomicU64::from_ptr(self.place as *mut u64) }.store(function as u64, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::loaded;
    use super::*;

    #[test]
    fn a_program_imports_functions_of_c_and_calls_what_the_table_holds() {
        extern "C" fn instead() -> libc::c_int {
            77
        }
        let program = &loaded()[0];
        // No other test asks for this number. The program imports the function because it is called here.
        // SAFETY: the function has no requirements.
        let before = unsafe { libc::sched_yield() };
        let all = imports(program, |name| name == "sched_yield");
        assert!(before == 0 && !all.is_empty(), "{all:?}");
        assert_eq!(imports(program, |name| name == "no_such_function"), []);
        for import in &all {
            // SAFETY: both functions take nothing and return a number.
            unsafe { import.lead_to(instead as *const c_void) };
        }
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sched_yield() }, 77);
        for import in &all {
            // SAFETY: the function of C itself.
            unsafe { import.lead_to(crate::program::linker::symbol(libc::RTLD_NEXT, c"sched_yield")) };
        }
    }
}
