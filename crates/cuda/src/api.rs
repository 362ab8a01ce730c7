//! Shared by all entry points: pointers passed by the program, and the conversion of results to status codes.
#![expect(unsafe_code, reason = "pointers of a C program")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::contexts::{self, Needs};
use crate::device::device;
use crate::launch::Arguments;
use crate::results::REPORTED;
use crate::status::Status;

/// The result of an entry point's body.
pub(crate) type Answer = Result<(), Status>;

/// A pointer to which the caller wants a result written: null, or the place of a `T` that stays there during the call. The caller of an
/// entry point promises this of its arguments, and who makes one from an address ([`Out::at`]) promises it there.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

// SAFETY: a place is used by the thread that received it, or under a lock.
unsafe impl<T> Send for Out<T> {}

impl<T> Out<T> {
    /// A null pointer.
    pub(crate) const fn none() -> Self {
        Self(std::ptr::null_mut())
    }

    /// A place owned by this library.
    pub(crate) fn of(place: &mut T) -> Self {
        Self(place)
    }

    /// The place at an address.
    ///
    /// # Safety
    /// The address is null or that of a place for a `T`.
    pub(crate) unsafe fn at(address: u64) -> Self {
        Self(address as *mut T)
    }

    /// The same place as an input.
    pub(crate) const fn input(self) -> In<T> {
        In(self.0)
    }

    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes the result; a null pointer is an error.
    pub(crate) fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the API promises a pointer to a place for a T, which is unaligned in packed structs.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result unless the pointer is null.
    pub(crate) fn set_if(self, value: T) {
        if !self.0.is_null() {
            let _ = self.set(value);
        }
    }

    /// The place of element `n`; null if the list is.
    ///
    /// # Safety
    /// The list has such an element.
    pub(crate) unsafe fn nth(self, n: usize) -> Self {
        if self.0.is_null() { self } else { Self(self.0.wrapping_add(n)) }
    }
}

/// A pointer to an input of the caller: null, or the address of a `T`, with the promise of [`Out`].
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// A value owned by this library.
    pub(crate) fn of(value: &T) -> Self {
        Self(value)
    }

    /// The value at an address.
    ///
    /// # Safety
    /// The address is null or that of a `T`.
    pub(crate) unsafe fn at(address: u64) -> Self {
        Self(address as *const T)
    }

    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// Reads the input; a null pointer is an error.
    pub(crate) fn get(self) -> Result<T, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the API promises a pointer to a T.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads element `n`.
    ///
    /// # Safety
    /// The list has such an element.
    pub(crate) unsafe fn nth(self, n: usize) -> Result<T, Status> {
        if self.0.is_null() { Err(Status::INVALID_VALUE) } else { Self(self.0.wrapping_add(n)).get() }
    }
}

/// A C string of the caller.
pub(crate) type Text = In<c_char>;

impl Text {
    /// Reads the string.
    pub(crate) fn text(self) -> Result<String, Status> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the API promises a string that ends in NUL.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// The bytes of a host buffer, for a copy.
///
/// # Safety
/// The program has this many bytes at the address, which is null or no device memory, and does not free them meanwhile.
pub(crate) unsafe fn host_bytes<'a>(address: u64, len: usize) -> Result<&'a [u8], Status> {
    if len == 0 {
        return Ok(&[]);
    }
    if address == 0 {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: as promised by the caller; if the program is wrong about its own memory, the copy faults as `memcpy` does.
    Ok(unsafe { std::slice::from_raw_parts(address as *const u8, len) })
}

/// Writes bytes to a host buffer.
///
/// # Safety
/// As [`host_bytes`].
pub(crate) unsafe fn put_host_bytes(address: u64, bytes: &[u8]) -> Answer {
    if bytes.is_empty() {
        return Ok(());
    }
    if address == 0 {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: as for `host_bytes`; `copy` allows overlap.
    unsafe { std::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    Ok(())
}

/// The array of argument pointers of a launch.
pub(crate) struct Pointers(In<u64>);

impl Pointers {
    /// # Safety
    /// The array has a pointer for each parameter of the kernel, to that many bytes.
    pub(crate) unsafe fn from_array(array: In<u64>) -> Self {
        Self(array)
    }
}

impl Arguments for Pointers {
    fn bytes(&self, n: usize, _: usize, size: usize) -> Option<Vec<u8>> {
        // SAFETY: as promised to `Pointers::from_array`.
        let at = unsafe { self.0.nth(n) }.ok()?;
        // SAFETY: as above.
        Some(unsafe { host_bytes(at, size) }.ok()?.to_vec())
    }
}

/// All arguments in one buffer (`CU_LAUNCH_PARAM_BUFFER_POINTER`).
pub(crate) struct Packed(pub(crate) Vec<u8>);

impl Arguments for Packed {
    fn bytes(&self, _: usize, offset: usize, size: usize) -> Option<Vec<u8>> {
        Some(self.0.get(offset..offset + size)?.to_vec())
    }
}

/// Reads the device image at an address; its header determines the length.
///
/// # Safety
/// The address is null or that of a fatbin, a cubin or a text that ends in NUL.
pub(crate) unsafe fn image(address: u64) -> Result<Vec<u8>, Status> {
    const WRAPPER: u32 = 0x4662_43B1;
    const FATBIN: u32 = 0xBA55_ED50;
    const ELF: u32 = 0x464C_457F;
    // SAFETY: an image has its header, and the first words of a text are read only up to the fourth byte.
    let word = |at: u64| unsafe { In::<u32>::at(at) }.get();
    // SAFETY: as above.
    let long = |at: u64| unsafe { In::<u64>::at(at) }.get();
    // SAFETY: as above.
    let half = |at: u64| unsafe { In::<u16>::at(at) }.get().map(u64::from);
    match word(address)? {
        // SAFETY: the wrapper holds the address of an image.
        WRAPPER => unsafe { image(long(address + 8)?) },
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

thread_local! {
    /// The runtime's last error in this thread.
    static LAST: Cell<i32> = const { Cell::new(0) };
    /// The entry point that this thread has called last.
    static CALL: Cell<&'static str> = const { Cell::new("") };
}

/// The name of the entry point in which this thread is, as the program called it.
pub(crate) fn called_function() -> &'static str {
    CALL.get().trim_start_matches('_')
}

/// Returns the last error, and resets it if `clear`.
pub(crate) fn last_error(clear: bool) -> c_int {
    let last = LAST.get();
    if clear {
        LAST.set(0);
    }
    match device().ok().and_then(|device| device.sticky) {
        Some(status) => status.0,
        None => last,
    }
}

/// Runs the body of the entry point `name` in a thread prepared for it and returns the status code. What is not supported is reported.
/// A panic is a defect of the library: it must not end the program, and is reported, too.
///
/// # Safety
/// `body` uses the addresses that the program passed only as the header of the entry point says.
pub(crate) unsafe fn answer(
    name: &'static str,
    needs: Needs,
    stream: Option<u64>,
    body: impl FnOnce() -> Answer,
) -> c_int {
    let (needs, name) = contexts::name_of_call(needs, name);
    CALL.set(name);
    let prepared = || contexts::enter(needs, stream).and_then(|()| body());
    REPORTED.set(false);
    let code = match catch_unwind(AssertUnwindSafe(prepared)) {
        Ok(Ok(())) => 0,
        Ok(Err(Status::NOT_SUPPORTED)) => {
            // The body has dropped its lock. A kernel or function that it has named needs no second line.
            if !REPORTED.get()
                && let Ok(mut device) = device()
            {
                device.miss(name);
            }
            Status::NOT_SUPPORTED.0
        }
        Ok(Err(status)) => status.0,
        Err(_) => {
            if let Ok(mut device) = device() {
                device
                    .results
                    .unchecked(format!("{name} failed by a defect of sm121probe: please report it"));
            }
            Status::UNKNOWN.0
        }
    };
    if needs.is_runtime() && code != 0 && code != Status::NOT_READY.0 {
        LAST.set(code);
    }
    code
}

/// Whether the program is linked with the runtime of CUDA 12: some functions of CUDA 13 have additional arguments under the same name.
pub(crate) fn runtime_is_12() -> bool {
    unsafe extern "C" {
        fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    }
    /// RTLD_NOLOAD | RTLD_LAZY: only what is already loaded.
    const LOADED: c_int = 4 | 1;
    static IS_12: OnceLock<bool> = OnceLock::new();
    // SAFETY: the names end in NUL, and nothing is loaded.
    let loaded = |name: &CStr| !unsafe { dlopen(name.as_ptr(), LOADED) }.is_null();
    *IS_12.get_or_init(|| loaded(c"libcudart.so.12") && !loaded(c"libcudart.so.13"))
}

/// Reports an entry point that is not supported.
pub(crate) fn missed(name: &'static str) -> c_int {
    // SAFETY: the body uses no address.
    unsafe { answer(name, Needs::of(name), None, || Err(Status::NOT_SUPPORTED)) }
}

/// Writes the output of kernels through C's stdout, so that it keeps its order with the program's own output.
pub(crate) fn print(texts: &[String]) {
    unsafe extern "C" {
        fn printf(format: *const c_char, ...) -> c_int;
    }
    for text in texts {
        let bytes = text.as_bytes();
        // SAFETY: `%.*s` reads exactly this many bytes.
        unsafe { printf(c"%.*s".as_ptr(), bytes.len() as c_int, bytes.as_ptr()) };
    }
}

/// Defines entry points, and a function that finds them by name. A function may have several names: those of the other API, and those
/// with a per-thread default stream, which is treated as one more stream that runs in call order.
macro_rules! entry_points {
    ($find:ident; $(fn $name:ident $(| $alias:ident)* ($($args:tt)*) $body:block)*) => {
        $(
            $crate::api::entry_point! { $name ($($args)*) $body $($alias)* }
        )*

        /// The entry point with a given name.
        pub(crate) fn $find(name: &str) -> Option<*const std::ffi::c_void> {
            match name {
                $(stringify!($name) $(| stringify!($alias))* => Some($name as *const std::ffi::c_void),)*
                _ => None,
            }
        }
    };
}
pub(crate) use entry_points;

/// One entry point and its other names.
macro_rules! entry_point {
    ($name:ident ($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
            const NEEDS: $crate::contexts::Needs = $crate::contexts::Needs::of(stringify!($name));
            // SAFETY: the program calls the function as its header demands: pointers are null or those of what the header names, and
            // lists are as long as it says. The body relies on this alone.
            unsafe { $crate::api::answer(stringify!($name), NEEDS, $crate::api::stream_of!($($arg $arg)*), || $body) }
        }
    };
    ($name:ident ($($arg:ident: $ty:ty),* $(,)?) $body:block $alias:ident $($more:ident)*) => {
        $crate::api::entry_point! { $name ($($arg: $ty),*) $body $($more)* }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $alias($($arg: $ty),*) -> std::ffi::c_int {
            const NEEDS: $crate::contexts::Needs = $crate::contexts::Needs::of(stringify!($alias));
            $crate::contexts::called_as(NEEDS, stringify!($alias));
            // SAFETY: the same function under another name.
            unsafe { $name($($arg),*) }
        }
    };
}
pub(crate) use entry_point;

/// The argument named `stream`, if any; every argument is passed twice.
macro_rules! stream_of {
    () => { None };
    (stream $stream:ident $($rest:ident)*) => { Some($stream) };
    ($arg:ident $same:ident $($rest:ident)*) => { $crate::api::stream_of!($($rest)*) };
}
pub(crate) use stream_of;

extern "C" fn at_exit() {
    crate::device::end();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
