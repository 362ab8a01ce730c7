//! Device code that the program passes by its address.
#![expect(unsafe_code, reason = "objects of the program")]

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::program::pointers::{In, host_bytes};
use crate::status::Status;

/// The number with which the wrapper of a fatbin begins (`__fatBinC_Wrapper_t` of `fatbinary_section.h`).
const WRAPPER: u32 = 0x4662_43B1;
/// The version of a wrapper that lists the objects of a program.
const LINKED: u32 = 2;

/// Device code.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// A fatbin, a cubin or a text.
    pub(crate) code: Vec<u8>,
    /// The fatbins of the objects from which nvlink made it (`-rdc=true`).
    pub(crate) objects: Vec<Vec<u8>>,
    /// The file name of the library that contains it, if it is not the program's.
    pub(crate) library: Option<String>,
}

impl From<Vec<u8>> for Image {
    fn from(code: Vec<u8>) -> Self {
        Self { code, ..Self::default() }
    }
}

/// The name of the loaded library that contains an address; `None` in the program and in memory that it has allocated.
pub(crate) fn library_at(address: u64) -> Option<String> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the function takes any address, and fills the struct if it finds a file.
    let name = unsafe {
        if libc::dladdr(address as *const c_void, info.as_mut_ptr()) == 0 {
            return None;
        }
        CStr::from_ptr(info.assume_init().dli_fname)
    };
    let name = Path::new(OsStr::from_bytes(name.to_bytes())).file_name()?.to_string_lossy().into_owned();
    name.contains(".so").then_some(name)
}

/// Reads the device image at an address; its header determines the length.
///
/// # Safety
/// The address is null or that of a fatbin, its wrapper, a cubin or a text that ends in NUL.
pub(crate) unsafe fn image(address: u64) -> Result<Image, Status> {
    // SAFETY: an image has its header, and the first word of a text is read only up to the fourth byte.
    let word = |at: u64| unsafe { In::<u32>::at(at) }.get();
    // SAFETY: as above.
    let long = |at: u64| unsafe { In::<u64>::at(at) }.get();
    if word(address)? != WRAPPER {
        // SAFETY: as promised by the caller.
        let code = unsafe { code(address) }?;
        return Ok(Image { library: library_at(address), ..Image::from(code) });
    }
    // SAFETY: the wrapper holds the address of an image.
    let mut image = Image::from(unsafe { code(long(address + 8)?) }?);
    image.library = library_at(address);
    if word(address + 4)? != LINKED {
        return Ok(image);
    }
    let mut list = long(address + 16)?;
    // The list ends with a null pointer.
    while list != 0 {
        let object = long(list)?;
        if object == 0 {
            break;
        }
        // SAFETY: the list holds the addresses of fatbins.
        image.objects.push(unsafe { code(object) }?);
        list += 8;
    }
    Ok(image)
}

/// Reads the fatbin, cubin or text at an address.
///
/// # Safety
/// As [`image`], except for a wrapper.
unsafe fn code(address: u64) -> Result<Vec<u8>, Status> {
    const FATBIN: u32 = 0xBA55_ED50;
    const ELF: u32 = 0x464C_457F;
    // SAFETY: an image has its header, and the first word of a text is read only up to the fourth byte.
    let word = |at: u64| unsafe { In::<u32>::at(at) }.get();
    // SAFETY: as above.
    let long = |at: u64| unsafe { In::<u64>::at(at) }.get();
    // SAFETY: as above.
    let half = |at: u64| unsafe { In::<u16>::at(at) }.get().map(u64::from);
    match word(address)? {
        FATBIN => {
            let len = (half(address + 6)? + long(address + 8)?) as usize;
            // SAFETY: the header says how long the image is.
            Ok(unsafe { host_bytes(address, len) }?.to_vec())
        }
        ELF => {
            let sections = long(address + 40)? + half(address + 58)? * half(address + 60)?;
            let programs = long(address + 32)? + half(address + 54)? * half(address + 56)?;
            // SAFETY: as above; one of the two tables is at the end.
            Ok(unsafe { host_bytes(address, sections.max(programs) as usize) }?.to_vec())
        }
        // SAFETY: anything else is a text.
        _ => Ok(unsafe { In::<c_char>::at(address) }.text()?.into_bytes()),
    }
}
