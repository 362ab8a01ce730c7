//! Handles of cuBLAS, and what every call with one does around its body.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::super::answer;
pub(super) use super::super::answer::refused;
use super::super::pointer_mode;
use crate::device::submit::submit;
use crate::device::work::{CopyWork, Memory, Work};
use crate::program::caller::set_called_function;
use crate::program::pointers::{In, Out};
use crate::status::Status;

/// A status of cuBLAS (`cublasStatus_t`) other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure(pub(super) c_int);

impl Failure {
    pub(super) const NOT_INITIALIZED: Self = Self(1);
    pub(super) const ALLOC_FAILED: Self = Self(3);
    pub(super) const INVALID_VALUE: Self = Self(7);
    pub(super) const EXECUTION_FAILED: Self = Self(13);
    pub(super) const NOT_SUPPORTED: Self = Self(15);
}

impl answer::Failure for Failure {
    const INTERNAL_ERROR: Self = Self(14);
    const NOT_SUPPORTED: Self = Self(15);

    fn code(self) -> c_int {
        self.0
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status {
            Status::INVALID_VALUE => Self::INVALID_VALUE,
            Status::OUT_OF_MEMORY => Self::ALLOC_FAILED,
            Status::NOT_INITIALIZED | Status::NO_DEVICE => Self::NOT_INITIALIZED,
            Status::NOT_SUPPORTED => Self::NOT_SUPPORTED,
            _ => Self::EXECUTION_FAILED,
        }
    }
}

pub(super) type Answer = Result<(), Failure>;

/// What a program sets for a handle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settings {
    pub(super) stream: u64,
    /// Whether scalars and results are in memory of the device.
    pub(super) on_device: bool,
    pub(super) math: c_int,
    pub(super) atomics: c_int,
    pub(super) multiprocessors: c_int,
    /// Device memory for a result that the host waits for; 0 before the first.
    scratch: u64,
}

/// The bytes of [`Settings::scratch`]: the largest result.
const SCRATCH: usize = 16;

#[derive(Debug, Default)]
struct Handles {
    made: u64,
    live: HashMap<u64, Settings>,
}

static HANDLES: LazyLock<Mutex<Handles>> = LazyLock::new(Mutex::default);

fn handles() -> MutexGuard<'static, Handles> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles are addresses to programs, of which some ask whether they are aligned.
const FIRST: u64 = 0x1_B1A5_0000;

unsafe extern "C" {
    fn cudaMalloc(at: *mut u64, len: usize) -> c_int;
    fn cudaFree(at: u64) -> c_int;
}

/// Makes a handle.
pub(super) fn create(handle: Out<u64>) -> Answer {
    let mut handles = handles();
    handles.made += 1;
    let new = FIRST + 0x100 * handles.made;
    handle.set(new)?;
    handles.live.insert(new, Settings::default());
    Ok(())
}

/// Destroys a handle.
pub(super) fn destroy(handle: u64) -> Answer {
    let gone = handles().live.remove(&handle).ok_or(Failure::NOT_INITIALIZED)?;
    if gone.scratch != 0 {
        // SAFETY: the memory was allocated for this handle alone.
        unsafe { cudaFree(gone.scratch) };
    }
    Ok(())
}

/// A call with a handle.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) handle: u64,
    pub(super) settings: Settings,
    /// Whether the function is the one with sizes of 64 bits.
    pub(super) is_wide: bool,
}

impl Call {
    /// Changes what the program sets.
    pub(super) fn set(&self, change: impl FnOnce(&mut Settings)) -> Answer {
        handles().live.get_mut(&self.handle).map(change).ok_or(Failure::NOT_INITIALIZED)
    }

    /// What is not supported, by name.
    pub(super) fn unsupported(&self, what: &str) -> Failure {
        refused(self.name, what)
    }

    /// Reports a scalar or a result that is not where the pointer mode says.
    fn misplaced(&self, address: u64, what: &str) -> Failure {
        let of_lt = self.name.starts_with("cublasLt");
        let setting =
            if of_lt { "the attribute POINTER_MODE of its descriptor" } else { "cublasSetPointerMode" };
        pointer_mode::misplaced(self.name, address, what, setting);
        Failure::INVALID_VALUE
    }

    /// A number of the host.
    ///
    /// # Safety
    /// The address is null, in the device's window, or that of a `T` of the program.
    pub(super) unsafe fn of_host<T: Copy>(&self, address: u64) -> Result<T, Failure> {
        if pointer_mode::is_of_device_alone(address) {
            return Err(self.misplaced(address, "it reads a scalar"));
        }
        // SAFETY: as promised by the caller.
        Ok(unsafe { In::<T>::at(address) }.get()?)
    }

    /// Lets a kernel write a result of `len` bytes to the place that it is given, and copies it to the host in the host's mode.
    ///
    /// # Safety
    /// The address is null, or has room for the result.
    pub(super) unsafe fn result(
        &self,
        address: u64,
        len: usize,
        kernel: impl FnOnce(u64) -> Answer,
    ) -> Answer {
        if address == 0 {
            return Err(Failure::INVALID_VALUE);
        }
        if self.settings.on_device {
            return kernel(address);
        }
        if pointer_mode::is_of_device_alone(address) {
            return Err(self.misplaced(address, "it writes a result"));
        }
        let scratch = self.scratch()?;
        kernel(scratch)?;
        let copy = CopyWork::plain(address, scratch, len).between(Memory::Any, Memory::Device);
        // SAFETY: the program has room for the result at the address.
        Ok(unsafe { submit(self.settings.stream, Work::Copy(copy)) }?)
    }

    fn scratch(&self) -> Result<u64, Failure> {
        if self.settings.scratch != 0 {
            return Ok(self.settings.scratch);
        }
        let mut at = 0;
        // SAFETY: the place is a local variable.
        if unsafe { cudaMalloc(&raw mut at, SCRATCH) } != 0 {
            return Err(Failure::ALLOC_FAILED);
        }
        set_called_function(self.name);
        self.set(|settings| settings.scratch = at)?;
        Ok(at)
    }
}

/// Runs the body of a function without a handle.
pub(super) fn answered(name: &'static str, body: impl FnOnce() -> Answer) -> c_int {
    answer::answered(name, body)
}

/// Runs the body of a function with a handle.
pub(super) fn answered_with(
    name: &'static str,
    handle: u64,
    is_wide: bool,
    body: impl FnOnce(&Call) -> Answer,
) -> c_int {
    answered(name, || {
        let settings = handles().live.get(&handle).copied().ok_or(Failure::NOT_INITIALIZED)?;
        body(&Call { name, handle, settings, is_wide })
    })
}
