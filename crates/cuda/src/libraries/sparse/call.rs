//! What every call with a handle does around its body: it finds what the program has set for the handle, where scalars and results are, and submits
//! work to the stream.

use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::algebra::Operation;
use super::memory::{Array, Name, Number, Type, encoded};
use super::objects::{self, Settings};
use super::{Answer, Failure};
use crate::device::state::device;
use crate::device::submit::submit;
use crate::device::work::{CopyWork, LibraryWork, Memory, Work};
use crate::libraries::answer::{self, refused};
use crate::libraries::pointer_mode;
use crate::program::caller::{called_function, set_called_function};
use crate::status::{self, Status};

/// Defines functions without a handle.
macro_rules! functions {
    ($list:ident; $($name:ident($($arg:ident: $of:ty),* $(,)?) $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $of),*) -> std::ffi::c_int {
                $crate::libraries::answer::answered::<Failure>(stringify!($name), || $body)
            }
        )*

        /// Their names.
        pub(super) const $list: &[&str] = &[$(stringify!($name)),*];
    };
}
pub(super) use functions;

/// Defines functions with a handle. `null` is what they return without one.
macro_rules! functions_with_handle {
    ($list:ident, $null:expr; $($name:ident($call:ident $(, $arg:ident: $of:ty)* $(,)?) $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(handle: u64 $(, $arg: $of)*) -> std::ffi::c_int {
                $crate::libraries::sparse::call::with_handle(stringify!($name), handle, $null, |$call| $body)
            }
        )*

        /// Their names.
        pub(super) const $list: &[&str] = &[$(stringify!($name)),*];
    };
}
pub(super) use functions_with_handle;

/// Defines functions with a handle that exist for four types of values. The body is that of all.
macro_rules! functions_of_types {
    ($list:ident; $([$f32:ident $f64:ident $c32:ident $c64:ident] $arguments:tt $body:block)*) => {
        $(
            functions_of_types! { @one $f32 F32 $arguments $body }
            functions_of_types! { @one $f64 F64 $arguments $body }
            functions_of_types! { @one $c32 C32 $arguments $body }
            functions_of_types! { @one $c64 C64 $arguments $body }
        )*

        /// Their names.
        pub(super) const $list: &[&str] =
            &[$(stringify!($f32), stringify!($f64), stringify!($c32), stringify!($c64)),*];
    };
    (@one $name:ident $of_name:ident ($call:ident, $ty:ident $(, $arg:ident: $of:ty)* $(,)?) $body:block) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(handle: u64 $(, $arg: $of)*) -> std::ffi::c_int {
            let $ty = $crate::libraries::sparse::memory::Type::$of_name;
            let null = Failure::NOT_INITIALIZED;
            $crate::libraries::sparse::call::with_handle(stringify!($name), handle, null, |$call| $body)
        }
    };
}
pub(super) use functions_of_types;

/// Runs the body of a function with a handle; `null` is its status without one.
pub(super) fn with_handle(
    name: &'static str,
    handle: u64,
    null: Failure,
    body: impl FnOnce(&Call) -> Answer,
) -> c_int {
    answer::answered(name, || {
        if handle == 0 {
            return Err(null);
        }
        body(&Call { name, handle, settings: objects::get(handle)? })
    })
}

/// A call with a handle.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) handle: u64,
    pub(super) settings: Settings,
}

/// A number that the program passes by address.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scalar {
    Host(Number),
    /// It is read when the work runs.
    Device(Array, Type),
}

impl Scalar {
    pub(super) fn value(&self) -> Result<Number, Status> {
        match self {
            Self::Host(number) => Ok(*number),
            Self::Device(array, ty) => Ok(array.numbers(*ty, |_| true)?.first().copied().unwrap_or_default()),
        }
    }
}

/// A factor of the result that was there before, which is not read if the factor is 0.
pub(super) fn used_factor(beta: &Scalar) -> Result<Option<Number>, Status> {
    Ok(Some(beta.value()?).filter(|beta| *beta != Number::default()))
}

/// Where a result goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResultPlace {
    at: u64,
    memory: Memory,
}

impl ResultPlace {
    pub(super) fn put(self, bytes: &[u8]) -> status::Answer {
        let copy = CopyWork::plain(self.at, bytes.as_ptr() as u64, bytes.len());
        // SAFETY: the bytes are there during the copy, and the program has room for the result.
        unsafe { device()?.copy_box(&copy.between(self.memory, Memory::Any)) }
    }

    pub(super) fn put_number(self, ty: Type, number: Number) -> status::Answer {
        self.put(&encoded(ty, number))
    }
}

/// Work that this library does on the host.
struct HostWork<F> {
    run: F,
    /// The function that the program called.
    name: &'static str,
}

impl<F> fmt::Debug for HostWork<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostWork").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F: Fn() -> status::Answer + Send + Sync> LibraryWork for HostWork<F> {
    fn run(&self) -> status::Answer {
        counted(self.name, || (self.run)())
    }
}

/// Does work of a function, which the report has as a launch of a kernel with its name.
fn counted<T>(name: &'static str, run: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
    let before = called_function();
    set_called_function(name);
    let done = launched(&Arc::from(name), run);
    set_called_function(before);
    done
}

fn launched<T>(kernel: &Arc<str>, run: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
    {
        let mut device = device()?;
        device.healthy()?;
        device.report_unwritten();
        device.results.begins(kernel);
    }
    let began = Instant::now();
    let done = run();
    let mut device = device()?;
    device.launches += 1;
    device.results.launched(kernel, 0, began.elapsed());
    done
}

impl Call {
    /// What is not supported, by name.
    pub(super) fn unsupported(&self, what: &str) -> Failure {
        refused(self.name, what)
    }

    fn misplaced(&self, address: u64, what: &str) -> Failure {
        pointer_mode::misplaced(self.name, address, what, "cusparseSetPointerMode");
        Failure::INVALID_VALUE
    }

    /// A number at an address that the program passes as one.
    pub(super) fn scalar(&self, at: u64, ty: Type, name: &'static str) -> Result<Scalar, Failure> {
        if at == 0 {
            return Err(Failure::INVALID_VALUE);
        }
        let array = Array::new(at, 1, Name("value", name));
        if self.settings.on_device {
            return Ok(Scalar::Device(array, ty));
        }
        if pointer_mode::is_of_device_alone(at) {
            return Err(self.misplaced(at, "it reads a scalar"));
        }
        Ok(Scalar::Host(array.of_host(ty)?))
    }

    /// Where a result goes. The host waits for one that it gets.
    pub(super) fn result(&self, at: u64) -> Result<ResultPlace, Failure> {
        if at == 0 {
            return Err(Failure::INVALID_VALUE);
        }
        if self.settings.on_device {
            return Ok(ResultPlace { at, memory: Memory::Device });
        }
        if pointer_mode::is_of_device_alone(at) {
            return Err(self.misplaced(at, "it writes a result"));
        }
        self.wait()?;
        Ok(ResultPlace { at, memory: Memory::Any })
    }

    /// Waits for the stream, which is not allowed during a capture.
    pub(super) fn wait(&self) -> Answer {
        Ok(device()?.streams.may_wait(self.settings.stream)?)
    }

    /// Submits work to the stream.
    pub(super) fn submit(&self, run: impl Fn() -> status::Answer + Send + Sync + 'static) -> Answer {
        let work = HostWork { run, name: self.name };
        // SAFETY: the work accesses memory of the program as copies do, which check it.
        Ok(unsafe { submit(self.settings.stream, Work::Library(Arc::new(work))) }?)
    }

    /// Does what the host waits for.
    pub(super) fn at_once<T>(&self, run: impl FnOnce() -> Result<T, Status>) -> Result<T, Failure> {
        self.wait()?;
        Ok(counted(self.name, run)?)
    }
}

/// The operation with a number of `cusparseOperation_t`.
pub(super) const fn operation(number: u32) -> Result<Operation, Failure> {
    match number {
        0 => Ok(Operation::None),
        1 => Ok(Operation::Transpose),
        2 => Ok(Operation::ConjugateTranspose),
        _ => Err(Failure::INVALID_VALUE),
    }
}

/// The operation with a number, on a matrix or a vector of a type. Of real numbers there is no conjugate transpose: an H200 refuses it.
pub(super) fn operation_on(number: u32, ty: Type) -> Result<Operation, Failure> {
    let operation = operation(number)?;
    expect(ty.is_complex() || operation != Operation::ConjugateTranspose)?;
    Ok(operation)
}

/// The bytes of a buffer for a matrix of so many lines. Nothing here uses it.
pub(super) const fn buffer_size(lines: usize) -> usize {
    lines.saturating_mul(16).saturating_add(512) & !255
}

/// Checks that a condition on arguments holds.
pub(super) const fn expect(holds: bool) -> Answer {
    if holds { Ok(()) } else { Err(Failure::INVALID_VALUE) }
}
