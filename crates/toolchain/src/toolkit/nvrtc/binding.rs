//! The nine functions of NVRTC that a compilation needs, bound at run time. Used in worker processes only: a library that
//! crashes or hangs affects nothing else, and two NVRTCs of one minor version never share a process.

#![expect(unsafe_code, reason = "NVRTC is a C library, found at run time")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

use super::serve::Job;

type Handle = *mut c_void;
type Status = c_int;

/// The status of success.
const SUCCESS: Status = 0;

/// The status of a source that does not compile; the log says why.
const COMPILATION: Status = 6;

/// A loaded NVRTC. The function pointers are valid while the libraries are loaded, so both are stored here.
pub(super) struct Binding {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Handle) -> Status,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> Status,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> Status,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> Status,
    ptx_size: unsafe extern "C" fn(Handle, *mut usize) -> Status,
    ptx: unsafe extern "C" fn(Handle, *mut c_char) -> Status,
    _library: Library,
    _builtins: Option<Library>,
}

/// An array of C strings, valid as long as this value lives.
struct Strings {
    pointers: Vec<*const c_char>,
    count: c_int,
    _owned: Vec<CString>,
}

impl Strings {
    fn new<'a>(all: impl Iterator<Item = &'a String>) -> Result<Self, String> {
        let owned = all.map(|s| terminated(s)).collect::<Result<Vec<_>, _>>()?;
        let count = c_int::try_from(owned.len()).map_err(|_| "too many options or headers".to_owned())?;
        Ok(Self { pointers: owned.iter().map(|s| s.as_ptr()).collect(), count, _owned: owned })
    }
}

fn terminated(text: &str) -> Result<CString, String> {
    // nvcc takes a byte order mark, which editors write; NVRTC takes it for a token.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    CString::new(text).map_err(|_| "the source or an option contains a NUL".to_owned())
}

/// The result of a compilation.
pub(super) struct Answer {
    /// PTX, if it compiled.
    pub(super) ptx: Option<String>,
    /// The log of NVRTC.
    pub(super) log: String,
}

impl Binding {
    /// Loads the library at `path`, after the built-ins that it looks up by name.
    pub(super) fn load(path: &Path, builtins: Option<&Path>) -> Result<Self, String> {
        let open = |path: &Path| {
            // SAFETY: loading runs the library's initialisers. Both files are NVIDIA's: either we installed them
            // and verified their hash, or every CUDA program of this machine would load them; this process exists for them alone.
            unsafe { Library::new(path) }.map_err(|error| format!("it cannot be loaded: {error}"))
        };
        let builtins = builtins.map(open).transpose()?;
        let library = open(path)?;
        macro_rules! symbol {
            ($name:literal) => {{
                // SAFETY: the type is the declaration in nvrtc.h, which has not changed since CUDA 7; the pointer is
                // used only while `_library` of the same struct is alive.
                let symbol = unsafe { library.get($name.to_bytes_with_nul()) };
                *symbol.map_err(|_| format!("it has no function `{}`", $name.to_string_lossy()))?
            }};
        }
        Ok(Self {
            version: symbol!(c"nvrtcVersion"),
            error_string: symbol!(c"nvrtcGetErrorString"),
            create: symbol!(c"nvrtcCreateProgram"),
            destroy: symbol!(c"nvrtcDestroyProgram"),
            compile: symbol!(c"nvrtcCompileProgram"),
            log_size: symbol!(c"nvrtcGetProgramLogSize"),
            log: symbol!(c"nvrtcGetProgramLog"),
            ptx_size: symbol!(c"nvrtcGetPTXSize"),
            ptx: symbol!(c"nvrtcGetPTX"),
            _library: library,
            _builtins: builtins,
        })
    }

    /// Returns the major and minor version.
    pub(super) fn version(&self) -> Result<(i32, i32), String> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers refer to live integers.
        self.check(unsafe { (self.version)(&raw mut major, &raw mut minor) })?;
        Ok((major, minor))
    }

    /// Compiles the source of a job.
    pub(super) fn compile(&self, job: &Job) -> Result<Answer, String> {
        let (source, name) = (terminated(&job.source)?, terminated(&job.name)?);
        let options = Strings::new(job.options.iter())?;
        let headers = Strings::new(job.headers.iter().map(|h| &h.text))?;
        let names = Strings::new(job.headers.iter().map(|h| &h.name))?;
        let mut program: Handle = ptr::null_mut();
        // SAFETY: the strings end in NUL and outlive the call; both arrays have as many entries as there are headers.
        self.check(unsafe {
            (self.create)(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                headers.count,
                headers.pointers.as_ptr(),
                names.pointers.as_ptr(),
            )
        })?;
        // SAFETY: `program` was just created; the array has `count` strings, and they outlive the call.
        let status = unsafe { (self.compile)(program, options.count, options.pointers.as_ptr()) };
        let answer = self.answer(program, status);
        // SAFETY: `program` was created above and is not used again.
        self.check(unsafe { (self.destroy)(&raw mut program) })?;
        answer
    }

    /// Collects the result of a compilation that ended with `status`.
    fn answer(&self, program: Handle, status: Status) -> Result<Answer, String> {
        let log = self.text(program, self.log_size, self.log)?;
        let ptx = match status {
            SUCCESS => Some(self.text(program, self.ptx_size, self.ptx)?),
            COMPILATION => None,
            other if log.trim().is_empty() => return Err(self.words(other)),
            _ => None,
        };
        Ok(Answer { ptx, log })
    }

    /// Reads a text of the program with a function for its size and one for its contents.
    fn text(
        &self,
        program: Handle,
        size: unsafe extern "C" fn(Handle, *mut usize) -> Status,
        get: unsafe extern "C" fn(Handle, *mut c_char) -> Status,
    ) -> Result<String, String> {
        let mut length = 0;
        // SAFETY: `program` is alive and `length` is a live integer.
        self.check(unsafe { size(program, &raw mut length) })?;
        let mut bytes = vec![0u8; length];
        if length > 0 {
            // SAFETY: the buffer has the size that the library reported, including the final NUL.
            self.check(unsafe { get(program, bytes.as_mut_ptr().cast()) })?;
        }
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status == SUCCESS { Ok(()) } else { Err(self.words(status)) }
    }

    fn words(&self, status: Status) -> String {
        // SAFETY: the function takes any status and returns a static string, or null.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return format!("it failed with status {status}");
        }
        // SAFETY: the pointer is not null, and the string ends in NUL and lives as long as the library.
        let text = unsafe { CStr::from_ptr(text) };
        format!("it failed with {}", text.to_string_lossy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_token() {
        assert_eq!(terminated("\u{feff}int a;").unwrap().as_bytes(), b"int a;");
        assert_eq!(terminated("int a;").unwrap().as_bytes(), b"int a;");
        assert!(terminated("int\0a;").is_err());
    }
}
