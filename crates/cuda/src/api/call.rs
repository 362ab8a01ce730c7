//! What every call of an API does around the body of its function: it prepares the thread, and turns the result into a status code.
#![expect(unsafe_code, reason = "calls of a C program")]

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::api::refusals::refusal;
use crate::device::contexts::{self, Needs};
use crate::device::results::REPORTED;
use crate::device::state::{self, device};
use crate::program::caller::set_called_function;
use crate::status::{Answer, Status};

/// The CUDA version that the driver reports, in CUDA's encoding: that of the newest toolkit.
pub(crate) const VERSION: c_int = 13_050;

thread_local! {
    /// The runtime's last error in this thread.
    static LAST: Cell<i32> = const { Cell::new(0) };
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
    set_called_function(name);
    let prepared = || {
        contexts::enter(needs, stream)?;
        if let Some(stream) = stream {
            device()?.streams.known(stream)?;
        }
        body()
    };
    REPORTED.set(false);
    let code = match catch_unwind(AssertUnwindSafe(prepared)) {
        Ok(Ok(())) => 0,
        Ok(Err(Status::NOT_SUPPORTED)) => {
            // The body has dropped its lock. A kernel or function that it has named needs no second line.
            if !REPORTED.get()
                && let Ok(mut device) = device()
            {
                device.miss(&refusal(name));
            }
            Status::NOT_SUPPORTED.0
        }
        Ok(Err(status)) => {
            if needs.is_runtime() {
                status.0
            } else {
                status.of_driver().0
            }
        }
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

extern "C" fn at_exit() {
    state::end();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
