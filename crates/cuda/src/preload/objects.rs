//! The files that the process has loaded, and the functions of each.
#![expect(unsafe_code, reason = "the list of the dynamic linker")]

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use object::elf::{STT_FUNC, STT_OBJECT, SymbolType};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSymbol as _, ReadCache, ReadRef};

/// The file of the program.
pub(super) const PROGRAM: &str = "/proc/self/exe";

/// A loaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loaded {
    /// The file.
    pub(super) path: PathBuf,
    /// What is added to the addresses in the file.
    pub(super) base: u64,
}

/// A function or a variable of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    /// The name in the file's symbol table.
    pub(super) name: String,
    /// The address in the file.
    pub(super) address: u64,
    /// How long it is in bytes.
    pub(super) size: u64,
}

/// Everything that is loaded, the program first.
pub(super) fn loaded() -> Vec<Loaded> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
        // SAFETY: the linker passes a valid entry, and the list of the call below.
        let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<Loaded>>()) };
        let name = if info.dlpi_name.is_null() {
            c""
        } else {
            // SAFETY: a name ends in NUL.
            unsafe { CStr::from_ptr(info.dlpi_name) }
        };
        let path = match name.to_bytes() {
            // The program has no name here.
            [] if list.is_empty() => PathBuf::from(PROGRAM),
            name => PathBuf::from(OsStr::from_bytes(name)),
        };
        list.push(Loaded { path, base: info.dlpi_addr });
        0
    }
    let mut list: Vec<Loaded> = Vec::new();
    // SAFETY: `add` gets this list, and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut list).cast()) };
    list
}

/// The functions that a file defines and whose name is wanted; none if the file cannot be read.
pub(super) fn functions(loaded: &Loaded, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Symbol> {
    symbols(loaded, STT_FUNC, is_wanted)
}

/// The variables that a file defines and whose name is wanted; none if the file cannot be read.
pub(super) fn variables(loaded: &Loaded, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Symbol> {
    symbols(loaded, STT_OBJECT, is_wanted)
}

fn symbols(loaded: &Loaded, kind: SymbolType, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Symbol> {
    let Ok(file) = File::open(&loaded.path) else { return Vec::new() };
    symbols_in(&ReadCache::new(file), kind, is_wanted)
}

fn symbols_in<'data>(
    data: impl ReadRef<'data>,
    kind: SymbolType,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Vec<Symbol> {
    let Ok(file) = ElfFile64::<LittleEndian, _>::parse(data) else { return Vec::new() };
    let mut found: Vec<Symbol> = Vec::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        // An object without a value is one that another file defines.
        let is_defined = symbol.elf_symbol().st_type() == kind && !symbol.is_undefined();
        let Ok(name) = symbol.name_bytes() else { continue };
        if is_defined && is_wanted(name) {
            let (address, size) = (symbol.address(), symbol.size());
            found.push(Symbol { name: String::from_utf8_lossy(name).into_owned(), address, size });
        }
    }
    found.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_first_that_is_loaded_and_has_its_functions() {
        #[unsafe(no_mangle)]
        extern "C" fn sm121probe_is_found_by_name() -> c_int {
            7
        }
        let program = &loaded()[0];
        assert_eq!(program.path, PathBuf::from(PROGRAM));
        let found = functions(program, |name| name == b"sm121probe_is_found_by_name");
        let here = sm121probe_is_found_by_name as *const () as u64;
        assert_eq!(found.iter().map(|f| f.address + program.base).collect::<Vec<_>>(), [here]);
        assert!(found[0].size > 0);
        let none = Loaded { path: PathBuf::from("/proc/self/maps"), base: 0 };
        assert_eq!(functions(&none, |_| true), []);
    }
}
