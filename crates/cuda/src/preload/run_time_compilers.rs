//! NVRTC and nvJitLink under `exec`: where the program asks for machine code, it gets the PTX from which it was made. The real compiler runs
//! first, so that what it refuses is refused.
//!
//! A text that is PTX is accepted by every function of this library that accepts machine code; nvJitLink gets it as the PTX that it is.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::imports::imports;
use super::objects::Loaded;
use crate::device::links::{InputKind, Links};
use crate::device::results::say;
use crate::program::linker::{loaded_library, symbol};
use emulator::gpus::{GPUS, Gpu};

/// The kinds of nvJitLink's inputs that matter here (`nvJitLinkInputType`).
const MACHINE_CODE: u32 = 1;
const PTX: u32 = 2;
const LTO_IR: u32 = 3;
/// Status of nvJitLink: a wrong argument.
const INVALID: c_int = 4;

/// The names under which the dynamic linker knows the libraries, for programs that are linked with them.
const NVRTC: [&CStr; 3] = [c"libnvrtc.so.13", c"libnvrtc.so.12", c"libnvrtc.so.11.2"];
const LINKERS: [&CStr; 2] = [c"libnvJitLink.so.13", c"libnvJitLink.so.12"];

/// A library whose functions the program has asked for.
#[derive(Debug, Clone)]
struct Library {
    handle: usize,
    /// What stands before and behind the plain name of each function: nvJitLink's names have its version.
    around: (String, String),
}

impl Library {
    fn function(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(format!("{}{name}{}", self.around.0, self.around.1)).ok()?;
        let found = symbol(self.handle as *mut c_void, &name);
        (!found.is_null()).then_some(found)
    }
}

static NVRTC_LIBRARY: Mutex<Option<Library>> = Mutex::new(None);
static LINKER: Mutex<Option<Library>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function that stands in for one of a library.
struct StandIn {
    at: *const c_void,
    /// The plain name of the function, and what stands around it.
    plain: &'static str,
    around: (String, String),
    /// Where its library is noted, and the names of that library.
    place: &'static Mutex<Option<Library>>,
    libraries: &'static [&'static CStr],
}

/// The functions that are replaced.
const REPLACED: [(&str, *const c_void); 8] = [
    ("nvrtcGetCUBINSize", nvrtcGetCUBINSize as *const c_void),
    ("nvrtcGetCUBIN", nvrtcGetCUBIN as *const c_void),
    ("nvJitLinkCreate", create as *const c_void),
    ("nvJitLinkDestroy", destroy as *const c_void),
    ("nvJitLinkAddData", add_data as *const c_void),
    ("nvJitLinkAddFile", add_file as *const c_void),
    ("nvJitLinkGetLinkedCubinSize", linked_size as *const c_void),
    ("nvJitLinkGetLinkedCubin", linked as *const c_void),
];

impl StandIn {
    /// The one for a function with this name, which may have a version.
    fn with_name(name: &str) -> Option<Self> {
        let (before, rest) = if let Some(rest) = name.strip_prefix("__") { ("__", rest) } else { ("", name) };
        let (plain, at) = REPLACED.iter().rev().copied().find(|(plain, _)| {
            let version = rest.strip_prefix(plain);
            let is_version = |text: &str| text.bytes().all(|byte| byte == b'_' || byte.is_ascii_digit());
            version.is_some_and(|text| text.is_empty() || text.starts_with('_') && is_version(text))
        })?;
        let is_nvrtc = plain.starts_with("nvrtc");
        Some(Self {
            at,
            plain,
            around: (before.to_owned(), rest[plain.len()..].to_owned()),
            place: if is_nvrtc { &NVRTC_LIBRARY } else { &LINKER },
            libraries: if is_nvrtc { &NVRTC } else { &LINKERS },
        })
    }

    /// Notes the library with the function; false if it has none.
    fn note(&self, library: *mut c_void) -> bool {
        let found = Library { handle: library as usize, around: self.around.clone() };
        if found.function(self.plain).is_none() {
            return false;
        }
        *locked(self.place) = Some(found);
        true
    }

    /// [`StandIn::note`] for the library that is loaded.
    fn note_loaded(&self) -> bool {
        self.libraries.iter().filter_map(|name| loaded_library(name)).any(|library| self.note(library))
    }
}

/// The function that stands in for one of a library, if the library has that one.
pub(super) fn substitute(library: *mut c_void, name: &CStr) -> Option<*const c_void> {
    let stand_in = StandIn::with_name(name.to_str().ok()?)?;
    // This library has functions of that name, too, which a search in all that is loaded would find.
    let is_there =
        if library == libc::RTLD_DEFAULT { stand_in.note_loaded() } else { stand_in.note(library) };
    is_there.then_some(stand_in.at)
}

/// Replaces the functions of nvJitLink that a file is linked with.
pub(super) fn serve(file: &Loaded) {
    for import in imports(file, |name| name.contains("nvJitLink")) {
        if let Some(stand_in) = StandIn::with_name(&import.name).filter(StandIn::note_loaded) {
            // SAFETY: the file has been loaded, and the stand-in has the signature of the header.
            unsafe { import.lead_to(stand_in.at) };
        }
    }
}

/// A function of NVRTC.
fn nvrtc(name: &str) -> Option<*mut c_void> {
    let mut library = locked(&NVRTC_LIBRARY);
    if library.is_none() {
        let handle = NVRTC.iter().find_map(|name| loaded_library(name))?;
        *library = Some(Library { handle: handle as usize, around: Default::default() });
    }
    library.as_ref()?.function(name)
}

type OfProgram<T> = unsafe extern "C" fn(u64, *mut T) -> c_int;
/// Status of NVRTC if there is no such function: an internal error.
const NVRTC_INTERNAL: c_int = 11;

/// Calls a function of NVRTC that stores something about a program.
///
/// # Safety
/// The function of this name has this signature, and the place is large enough.
unsafe fn ask_nvrtc<T>(name: &str, program: u64, place: *mut T) -> c_int {
    let Some(function) = nvrtc(name) else { return NVRTC_INTERNAL };
    // SAFETY: as the caller promises.
    unsafe {
        let function: OfProgram<T> = std::mem::transmute(function);
        function(program, place)
    }
}

/// The size of the PTX of a program that has machine code, with the NUL; `None` if it has no machine code or no PTX.
///
/// # Safety
/// `program` is a handle of NVRTC.
unsafe fn ptx_size(program: u64) -> Option<usize> {
    let (mut code, mut ptx) = (0usize, 0usize);
    // SAFETY: both functions store a size.
    let is_known = unsafe {
        ask_nvrtc("nvrtcGetCUBINSize", program, &raw mut code) == 0
            && ask_nvrtc("nvrtcGetPTXSize", program, &raw mut ptx) == 0
    };
    // An empty PTX is its NUL alone.
    (is_known && code > 0 && ptx > 1).then_some(ptx)
}

/// NVRTC's function: the size of the machine code, here of the PTX.
///
/// # Safety
/// As for NVRTC's.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetCUBINSize(program: u64, size: *mut usize) -> c_int {
    // SAFETY: the arguments of the program; the compiler judges them.
    unsafe {
        let status = ask_nvrtc("nvrtcGetCUBINSize", program, size);
        if status == 0
            && !size.is_null()
            && let Some(ptx) = ptx_size(program)
        {
            *size = ptx;
        }
        status
    }
}

/// NVRTC's function: the machine code, here the PTX.
///
/// # Safety
/// As for NVRTC's.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetCUBIN(program: u64, code: *mut c_char) -> c_int {
    // SAFETY: as above; the place has the size that the function above gave.
    unsafe {
        let name = if ptx_size(program).is_some() { "nvrtcGetPTX" } else { "nvrtcGetCUBIN" };
        ask_nvrtc(name, program, code)
    }
}

/// An input of a link.
#[derive(Debug, Clone)]
struct Input {
    kind: u32,
    name: CString,
    bytes: Vec<u8>,
}

/// A link that the program makes with nvJitLink.
#[derive(Debug, Default)]
struct Link {
    options: Vec<CString>,
    inputs: Vec<Input>,
    /// The linked PTX with its NUL, once the program asked; `None` inside if the inputs have no PTX that can be linked.
    image: Option<Option<Vec<u8>>>,
}

static LINKS: LazyLock<Mutex<HashMap<u64, Link>>> = LazyLock::new(Mutex::default);

type Create = unsafe extern "C" fn(*mut u64, u32, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut u64) -> c_int;
type AddData = unsafe extern "C" fn(u64, u32, *const c_void, usize, *const c_char) -> c_int;
type AddFile = unsafe extern "C" fn(u64, u32, *const c_char) -> c_int;
type Complete = unsafe extern "C" fn(u64) -> c_int;
type OfLink<T> = unsafe extern "C" fn(u64, *mut T) -> c_int;

/// A function of nvJitLink as a function pointer of type `T`.
///
/// # Safety
/// The function of this name has this type.
unsafe fn linker<T>(name: &str) -> Option<T> {
    let function = locked(&LINKER).as_ref()?.function(name)?;
    // SAFETY: `T` is a function pointer, as the caller promises.
    Some(unsafe { std::mem::transmute_copy::<*mut c_void, T>(&function) })
}

/// The text at an address; empty if the address is null.
///
/// # Safety
/// The address is null or that of a text that ends in NUL.
unsafe fn text_at(text: *const c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: as promised.
    unsafe { CStr::from_ptr(text) }.to_owned()
}

unsafe extern "C" fn create(handle: *mut u64, count: u32, options: *const *const c_char) -> c_int {
    // SAFETY: the arguments of the program: a place, and as many texts as it says.
    unsafe {
        let Some(real) = linker::<Create>("nvJitLinkCreate") else { return INVALID };
        let status = real(handle, count, options);
        if status == 0 {
            let options = (0..count as usize).map(|n| text_at(*options.add(n))).collect();
            locked(&LINKS).insert(*handle, Link { options, ..Link::default() });
        }
        status
    }
}

unsafe extern "C" fn destroy(handle: *mut u64) -> c_int {
    // SAFETY: a place with a handle, or null, which the linker refuses.
    unsafe {
        let Some(real) = linker::<Destroy>("nvJitLinkDestroy") else { return INVALID };
        if !handle.is_null() {
            locked(&LINKS).remove(&*handle);
        }
        real(handle)
    }
}

/// Whether bytes are PTX: texts begin with comments and the directive of the version.
fn is_ptx(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(4096)];
    !head.starts_with(b"\x7fELF") && head.windows(8).any(|window| window == b".version")
}

unsafe extern "C" fn add_data(
    handle: u64,
    kind: u32,
    data: *const c_void,
    size: usize,
    name: *const c_char,
) -> c_int {
    // SAFETY: the arguments of the program: as many bytes as it says, and a text.
    unsafe {
        let Some(real) = linker::<AddData>("nvJitLinkAddData") else { return INVALID };
        let bytes = if data.is_null() {
            Vec::new()
        } else {
            std::slice::from_raw_parts(data.cast::<u8>(), size).to_vec()
        };
        let kind = if kind == MACHINE_CODE && is_ptx(&bytes) { PTX } else { kind };
        let status = real(handle, kind, data, size, name);
        if status == 0
            && let Some(link) = locked(&LINKS).get_mut(&handle)
        {
            link.inputs.push(Input { kind, name: text_at(name), bytes });
        }
        status
    }
}

unsafe extern "C" fn add_file(handle: u64, kind: u32, name: *const c_char) -> c_int {
    // SAFETY: the arguments of the program: a text.
    unsafe {
        let path = text_at(name);
        match std::fs::read(OsStr::from_bytes(path.as_bytes())) {
            Ok(bytes) if kind == MACHINE_CODE && is_ptx(&bytes) => {
                add_data(handle, kind, bytes.as_ptr().cast(), bytes.len(), name)
            }
            read => {
                let Some(real) = linker::<AddFile>("nvJitLinkAddFile") else { return INVALID };
                let status = real(handle, kind, name);
                if let (0, Ok(bytes), Some(link)) = (status, read, locked(&LINKS).get_mut(&handle)) {
                    link.inputs.push(Input { kind, name: path, bytes });
                }
                status
            }
        }
    }
}

/// The size of the PTX of a link.
fn image_size(handle: u64) -> Option<usize> {
    let mut links = locked(&LINKS);
    let link = links.get_mut(&handle)?;
    let image = link.image.take().unwrap_or_else(|| image_of(link));
    link.image.insert(image).as_ref().map(Vec::len)
}

unsafe extern "C" fn linked_size(handle: u64, size: *mut usize) -> c_int {
    // SAFETY: a place of the program.
    unsafe {
        let Some(real) = linker::<OfLink<usize>>("nvJitLinkGetLinkedCubinSize") else { return INVALID };
        let status = real(handle, size);
        if status == 0
            && !size.is_null()
            && let Some(len) = image_size(handle)
        {
            *size = len;
        }
        status
    }
}

unsafe extern "C" fn linked(handle: u64, code: *mut u8) -> c_int {
    // SAFETY: the place has the size that the function above gave.
    unsafe {
        if image_size(handle).is_some() && !code.is_null() {
            let links = locked(&LINKS);
            let image = links.get(&handle).and_then(|link| link.image.as_ref()?.as_ref());
            if let Some(image) = image {
                ptr::copy_nonoverlapping(image.as_ptr(), code, image.len());
                return 0;
            }
        }
        let Some(real) = linker::<OfLink<u8>>("nvJitLinkGetLinkedCubin") else { return INVALID };
        real(handle, code)
    }
}

/// Links the inputs again, to PTX; `None`, with a message, if that cannot be.
fn image_of(link: &Link) -> Option<Vec<u8>> {
    let key = std::env::var(emulator::events::GPU).unwrap_or_default();
    let gpu = Gpu::with_key(&key).unwrap_or(&GPUS[0]);
    let mut links = Links::default();
    let whole = links.begin();
    let add = |links: &mut Links, kind, name: &str, bytes| {
        links.add(whole, kind, name, bytes, gpu).map_err(|(status, why)| why.unwrap_or(format!("{status:?}")))
    };
    let added = link.inputs.iter().filter(|input| input.kind != LTO_IR).try_for_each(|input| {
        let kind = if is_ptx(&input.bytes) { InputKind::Ptx } else { InputKind::Other };
        add(&mut links, kind, &input.name.to_string_lossy(), input.bytes.clone())
    });
    let optimized = link.inputs.iter().any(|input| input.kind == LTO_IR);
    let added = added.and_then(|()| {
        if !optimized {
            return Ok(());
        }
        let text = of_lto(link).ok_or("nvJitLink makes no PTX of the LTO IR")?;
        add(&mut links, InputKind::Ptx, "the code of LTO IR", text)
    });
    let done = added.and_then(|()| {
        links.complete(whole).map(drop).map_err(|(status, why)| why.unwrap_or(format!("{status:?}")))
    });
    match done {
        Ok(()) => links.image(whole),
        Err(why) => {
            say(&format!("what nvJitLink has linked cannot be linked as PTX: {why}"));
            None
        }
    }
}

/// The PTX of the inputs of a link that are LTO IR: nvJitLink makes it by the option `-ptx`.
fn of_lto(link: &Link) -> Option<Vec<u8>> {
    let mut options = link.options.clone();
    let mut want = |option: &CStr| {
        if options.iter().all(|known| known.as_c_str() != option) {
            options.push(option.to_owned());
        }
    };
    want(c"-lto");
    want(c"-ptx");
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the functions have these types; lists and texts live during the calls.
    unsafe {
        let (create, add) = (linker::<Create>("nvJitLinkCreate")?, linker::<AddData>("nvJitLinkAddData")?);
        let (complete, destroy) =
            (linker::<Complete>("nvJitLinkComplete")?, linker::<Destroy>("nvJitLinkDestroy")?);
        let size = linker::<OfLink<usize>>("nvJitLinkGetLinkedPtxSize")?;
        let text = linker::<OfLink<u8>>("nvJitLinkGetLinkedPtx")?;
        let mut handle = 0;
        if create(&raw mut handle, options.len() as u32, options.as_ptr()) != 0 {
            return None;
        }
        let added = link.inputs.iter().filter(|input| input.kind == LTO_IR).all(|input| {
            add(handle, input.kind, input.bytes.as_ptr().cast(), input.bytes.len(), input.name.as_ptr()) == 0
        });
        let mut len = 0usize;
        let mut image = None;
        if added && complete(handle) == 0 && size(handle, &raw mut len) == 0 {
            let mut bytes = vec![0u8; len];
            image = (text(handle, bytes.as_mut_ptr()) == 0).then_some(bytes);
        }
        destroy(&raw mut handle);
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_version_is_ptx_and_machine_code_is_not() {
        assert!(is_ptx(b"//\n// Generated by NVVM\n//\n\n.version 9.0\n.target sm_121\n"));
        assert!(!is_ptx(b"\x7fELF\x02\x01\x01 .version"));
        assert!(!is_ptx(b""));
    }

    #[test]
    fn other_functions_are_left_to_c() {
        for name in [c"cudaMalloc", c"nvrtcGetPTX", c"nvJitLinkGetErrorLog", c"__nvJitLinkComplete_13_5"] {
            assert_eq!(substitute(ptr::null_mut(), name), None);
        }
    }
}
