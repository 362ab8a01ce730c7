//! What every function of a library of kernels does around its body.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::device::contexts::{self, Needs};
use crate::device::state::device;
use crate::program::caller::{called_function, set_called_function};
use crate::status::Status;

/// A status of a library other than success.
pub(super) trait Failure: From<Status> {
    /// A defect of this library.
    const INTERNAL_ERROR: Self;

    /// What this library does not do.
    const NOT_SUPPORTED: Self;

    /// Its number.
    fn code(self) -> c_int;
}

/// Runs the body of a function.
pub(super) fn answered<F: Failure>(name: &'static str, body: impl FnOnce() -> Result<(), F>) -> c_int {
    let before = called_function();
    set_called_function(name);
    let prepared = || {
        contexts::enter(Needs::Primary, None)?;
        body()
    };
    let code = match catch_unwind(AssertUnwindSafe(prepared)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => failure.code(),
        Err(_) => {
            if let Ok(mut device) = device() {
                device
                    .results
                    .unchecked(format!("{name} failed by a defect of sm121probe: please report it"));
            }
            F::INTERNAL_ERROR.code()
        }
    };
    set_called_function(before);
    code
}

/// Reports what a function does not support, by name.
pub(super) fn refused<F: Failure>(name: &str, what: &str) -> F {
    match device() {
        Ok(mut device) => {
            device.miss(&format!("{name}: {what}"));
            F::NOT_SUPPORTED
        }
        Err(status) => status.into(),
    }
}

/// Defines functions that are not served. Each reports its name once, and returns that it is not supported.
macro_rules! unserved {
    ($list:ident $failure:ty, $remedy:expr; $($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> std::ffi::c_int {
                $crate::libraries::answer::answered(stringify!($name), || {
                    Err($crate::libraries::answer::refused::<$failure>(stringify!($name), $remedy))
                })
            }
        )*

        /// Their names.
        pub(super) const $list: &[&str] = &[$(stringify!($name)),*];
    };
}
pub(super) use unserved;
