//! The table of exported functions. Each has one row, which stands above its definition and says everything about it that is not in its
//! body: the names, what it requires of its thread, the status of a call whose arguments are all zero, and the version of CUDA in which
//! the form appeared.
//!
//! ```text
//! [cudaMallocAsync, cudaMallocAsync_ptsz: (Primary, zeros INVALID_VALUE)]
//! [cuMemAllocAsync, cuMemAllocAsync_ptsz: (Init, zeros INVALID_VALUE, since 11_020)]
//! fn (at: Out<u64>, len: usize, stream: u64) { ... }
//! ```
//!
//! A function may have several names: those of the other API, and those with a per-thread default stream, which is treated as one more
//! stream that runs in call order. `valid` says what a call with valid arguments returns if that is not success.
//!
//! `tests/entry_points` compares the table with the exported names of the library, and calls every row: before `cuInit`, without a
//! context, with zeros, and with valid arguments, which it finds by the names and types of the parameters.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_char, c_int, c_void};

use crate::device::contexts::Needs;
use crate::status::Status;

/// The row of an exported function.
#[derive(Debug, Clone, Copy)]
pub struct EntryPoint {
    /// The exported name.
    pub name: &'static str,
    /// What it requires of its thread.
    pub needs: Needs,
    /// Its parameters, each as `name: type`.
    pub parameters: &'static [&'static str],
    /// The status of a call with a current context whose arguments are all zero.
    pub zeros: Status,
    /// The status of a call with valid arguments.
    pub valid: Status,
    /// The version of CUDA in which this form of the function appeared; 0 if that does not matter.
    pub since: c_int,
    /// Whether the function does what it is for.
    pub is_served: bool,
    pub(crate) address: Address,
}

impl EntryPoint {
    /// Whether the function submits to the stream that its caller names.
    #[must_use]
    pub fn has_stream(&self) -> bool {
        self.parameters.contains(&"stream: u64")
    }

    /// The name by which programs ask for the function: without the suffixes of a version and of a default stream.
    #[must_use]
    pub fn plain_name(&self) -> &'static str {
        let name = self.name;
        let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
        match name.rsplit_once("_v") {
            Some((plain, version)) if version.parse::<u8>().is_ok() => plain,
            _ => name,
        }
    }
}

/// The address of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) *const c_void);

// SAFETY: code does not change.
unsafe impl Sync for Address {}
// SAFETY: as above.
unsafe impl Send for Address {}

/// Calls the function of a row with arguments from a list of words, of which every argument begins a new one; missing words are zeros.
///
/// # Safety
/// As for the function: pointers are null or those of what its header names.
pub type Call = unsafe fn(&[u64]) -> c_int;

/// Takes an argument from the front of a list of words.
///
/// # Safety
/// The bytes are a valid `T`; zeros are one.
pub(crate) unsafe fn take<T>(words: &mut &[u64]) -> T {
    let count = size_of::<T>().div_ceil(8);
    let mut bytes = vec![0u64; count];
    let (taken, rest) = words.split_at(count.min(words.len()));
    bytes[..taken.len()].copy_from_slice(taken);
    *words = rest;
    // SAFETY: there are enough bytes, and they are a valid value, as promised by the caller.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// The status that the result of an exported function stands for: functions that return no status succeed, and a null pointer is none.
pub(crate) trait Outcome {
    fn outcome(self) -> c_int;
}

impl Outcome for c_int {
    fn outcome(self) -> c_int {
        self
    }
}

impl Outcome for () {
    fn outcome(self) -> c_int {
        0
    }
}

impl Outcome for *const c_char {
    fn outcome(self) -> c_int {
        if self.is_null() { Status::INVALID_VALUE.0 } else { 0 }
    }
}

/// Defines entry points, the table of their rows, and the list of their [`Call`]s in the same order.
macro_rules! entry_points {
    ($rows:ident, $calls:ident; $(
        [$name:ident $(, $same:ident)*: $row:tt]
        $([$($other:ident),+: $other_row:tt])*
        fn $arguments:tt $body:block
    )*) => {
        $(
            $crate::api::table::entry_point! { $name $row $arguments $body }
            $($crate::api::table::alias! { $same $row $name $arguments })*
            $($($crate::api::table::alias! { $other $other_row $name $arguments })+)*
        )*

        /// The rows of this file.
        pub(crate) static $rows: &[$crate::api::table::EntryPoint] = &[$(
            $crate::api::table::row! { $name $row $arguments },
            $($crate::api::table::row! { $same $row $arguments },)*
            $($($crate::api::table::row! { $other $other_row $arguments },)+)*
        )*];

        /// How to call the function of each row.
        pub(crate) static $calls: &[$crate::api::table::Call] = &[$(
            $crate::api::table::call! { $name $arguments },
            $($crate::api::table::call! { $same $arguments },)*
            $($($crate::api::table::call! { $other $arguments },)+)*
        )*];
    };
}
pub(crate) use entry_points;

/// The rows of functions that are exported as they are: they return no status, or do not enter the library as a call of an API.
macro_rules! exported {
    ($rows:ident, $calls:ident; $([$name:ident: $row:tt] fn $arguments:tt;)*) => {
        /// The rows of this file.
        pub(crate) static $rows: &[$crate::api::table::EntryPoint] = &[$($crate::api::table::row! { $name $row $arguments },)*];

        /// How to call the function of each row.
        pub(crate) static $calls: &[$crate::api::table::Call] = &[$($crate::api::table::call! { $name $arguments },)*];
    };
}
pub(crate) use exported;

/// One row.
macro_rules! row {
    (
        $name:ident ($needs:ident, zeros $zeros:ident $(, valid $valid:ident)? $(, since $since:literal)?)
        ($($arg:ident: $ty:ty),* $(,)?)
    ) => {
        $crate::api::table::EntryPoint {
            $(valid: $crate::status::Status::$valid,)?
            $(since: $since,)?
            ..$crate::api::table::EntryPoint {
                name: stringify!($name),
                needs: $crate::device::contexts::Needs::$needs,
                parameters: &[$(concat!(stringify!($arg), ": ", stringify!($ty))),*],
                zeros: $crate::status::Status::$zeros,
                valid: $crate::status::Status::SUCCESS,
                since: 0,
                is_served: true,
                address: $crate::api::table::Address($name as *const std::ffi::c_void),
            }
        }
    };
}
pub(crate) use row;

/// A function that calls an exported function with arguments from words.
macro_rules! call {
    ($name:ident ($($arg:ident: $ty:ty),* $(,)?)) => {{
        unsafe fn call(words: &[u64]) -> std::ffi::c_int {
            use $crate::api::table::Outcome as _;
            let mut words = words;
            let _all = &mut words;
            let function: unsafe extern "C" fn($($ty),*) -> _ = $name;
            // SAFETY: the words are arguments that the header allows, as promised by the caller; every parameter is a number, a pointer,
            // or made of them.
            unsafe {
                $(let $arg = $crate::api::table::take::<$ty>(_all);)*
                function($($arg),*).outcome()
            }
        }
        call
    }};
}
pub(crate) use call;

/// An entry point under its first name.
macro_rules! entry_point {
    ($name:ident ($needs:ident, $($row:tt)*) ($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
            const NEEDS: $crate::device::contexts::Needs = $crate::device::contexts::Needs::$needs;
            // SAFETY: the program calls the function as its header demands: pointers are null or those of what the header names, and
            // lists are as long as it says. The body relies on this alone.
            unsafe { $crate::api::call::answer(stringify!($name), NEEDS, $crate::api::table::stream_of!($($arg $arg)*), || $body) }
        }
    };
}
pub(crate) use entry_point;

/// Another name of an entry point.
macro_rules! alias {
    ($alias:ident ($needs:ident, $($row:tt)*) $name:ident ($($arg:ident: $ty:ty),* $(,)?)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $alias($($arg: $ty),*) -> std::ffi::c_int {
            $crate::device::contexts::called_as($crate::device::contexts::Needs::$needs, stringify!($alias));
            // SAFETY: the same function under another name.
            unsafe { $name($($arg),*) }
        }
    };
}
pub(crate) use alias;

/// The argument named `stream`, if any; every argument is passed twice.
macro_rules! stream_of {
    () => { None };
    (stream $stream:ident $($rest:ident)*) => { Some($stream) };
    ($arg:ident $same:ident $($rest:ident)*) => { $crate::api::table::stream_of!($($rest)*) };
}
pub(crate) use stream_of;
