//! cuRAND's generators on a GPU, by those of NVIDIA's own library on the host, which yield the same sequences: of all eleven kinds, integers and
//! uniform numbers have the same bits on an H200, in several calls of odd lengths; normal, log-normal and Poisson numbers may differ in the last
//! bits, since the host has other functions of logarithm and sine.
//!
//! The handle of a generator is the one of NVIDIA's library. What needs no memory of the device is not replaced.

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::answer::{self, answered, refused};
use crate::device::state::device;
use crate::device::submit::submit;
use crate::device::work::{CopyWork, LibraryWork, Memory, Work};
use crate::program::caller::{called_function, set_called_function};
use crate::program::linker::{loaded_library, symbol};
use crate::program::pointers::Out;
use crate::status::{self, Status};

/// A status of cuRAND (`curandStatus_t`) other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure(c_int);

impl answer::Failure for Failure {
    const INTERNAL_ERROR: Self = Self(999);
    /// `CURAND_STATUS_INITIALIZATION_FAILED`: cuRAND has no status of its own.
    const NOT_SUPPORTED: Self = Self(203);

    fn code(self) -> c_int {
        self.0
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self(match status {
            Status::OUT_OF_MEMORY => 102,
            Status::NOT_INITIALIZED | Status::NO_DEVICE => 203,
            _ => 201,
        })
    }
}

type Answer = Result<(), Failure>;

/// The result of a function of NVIDIA's library.
const fn checked(code: c_int) -> Answer {
    if code == 0 { Ok(()) } else { Err(Failure(code)) }
}

/// The function of NVIDIA's library with a name.
fn of_nvidia(name: &CStr) -> Result<*mut c_void, Failure> {
    // CUDA 11 to 13 have this version.
    let found = loaded_library(c"libcurand.so.10").map(|library| symbol(library, name));
    found.filter(|at| !at.is_null()).ok_or_else(|| {
        refused(
            called_function(),
            "libcurand.so.10 is not loaded, whose generators on the host are used; link the program with it",
        )
    })
}

/// The function of NVIDIA's library with a name and these types of arguments.
macro_rules! of_nvidia {
    ($name:expr, $($ty:ty),*) => {{
        let at = of_nvidia($name)?;
        // SAFETY: these are the types of the header.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn($($ty),*) -> c_int>(at) }
    }};
}

/// The stream of each generator on the simulated GPU.
static STREAMS: LazyLock<Mutex<HashMap<u64, u64>>> = LazyLock::new(Mutex::default);

fn streams() -> MutexGuard<'static, HashMap<u64, u64>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A type of numbers of which every pattern of bits is one.
trait Number: Copy + Default + Send + Sync + 'static {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for f32 {}
impl Number for f64 {}

/// Numbers for memory of the device.
struct Generation<T, F> {
    generator: u64,
    to: u64,
    count: usize,
    /// Lets NVIDIA's library write the numbers to the host.
    generate: F,
    /// The status of NVIDIA's library when this ran last, for the call that submits it.
    code: Arc<AtomicI32>,
    name: &'static str,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<T, F> std::fmt::Debug for Generation<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T: Number, F: Fn(*mut T) -> c_int + Send + Sync> LibraryWork for Generation<T, F> {
    fn run(&self) -> status::Answer {
        // A graph may outlive the generator.
        if !streams().contains_key(&self.generator) {
            return Err(Status::INVALID_HANDLE);
        }
        let mut numbers = vec![T::default(); self.count];
        let code = (self.generate)(numbers.as_mut_ptr());
        self.code.store(code, Ordering::Relaxed);
        if code != 0 {
            return Err(Status::LAUNCH_FAILED);
        }
        let before = called_function();
        set_called_function(self.name);
        let host = numbers.as_ptr() as u64;
        let copy = CopyWork::plain(self.to, host, size_of_val(numbers.as_slice()));
        // SAFETY: the numbers are there during the copy.
        let done = device()
            .and_then(|mut device| unsafe { device.copy_box(&copy.between(Memory::Device, Memory::Any)) });
        set_called_function(before);
        done
    }
}

/// Lets a generator write numbers: one of the host to where the program says, one of the GPU in its stream.
fn generate<T: Number>(
    generator: u64,
    to: u64,
    count: usize,
    generate: impl Fn(*mut T) -> c_int + Send + Sync + 'static,
) -> Answer {
    let Some(stream) = streams().get(&generator).copied() else {
        return checked(generate(to as *mut T));
    };
    let code = Arc::new(AtomicI32::new(0));
    let of = std::marker::PhantomData;
    let work =
        Generation { generator, to, count, generate, code: Arc::clone(&code), name: called_function(), of };
    // SAFETY: the work copies from memory of its own.
    let done = unsafe { submit(stream, Work::Library(Arc::new(work))) };
    // The status of NVIDIA's library says more than that of the work.
    checked(code.load(Ordering::Relaxed))?;
    Ok(done?)
}

/// Defines the functions that generate numbers of a type.
macro_rules! generators {
    ($($name:ident $c_name:literal $ty:ident($($arg:ident: $of:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(generator: u64, to: u64, count: usize $(, $arg: $of)*) -> c_int {
                answered::<Failure>(stringify!($name), || {
                    let function = of_nvidia!($c_name, u64, *mut $ty, usize $(, $of)*);
                    generate::<$ty>(generator, to, count, move |to| function(generator, to, count $(, $arg)*))
                })
            }
        )*

        /// The names of all functions of this file.
        pub(super) const SERVED: &[&str] = &[
            "curandCreateGenerator", "curandDestroyGenerator", "curandSetStream", "curandSetGeneratorOrdering", $(stringify!($name)),*
        ];
    };
}

generators! {
    curandGenerate c"curandGenerate" u32();
    curandGenerateLongLong c"curandGenerateLongLong" u64();
    curandGenerateUniform c"curandGenerateUniform" f32();
    curandGenerateUniformDouble c"curandGenerateUniformDouble" f64();
    curandGenerateNormal c"curandGenerateNormal" f32(mean: f32, deviation: f32);
    curandGenerateNormalDouble c"curandGenerateNormalDouble" f64(mean: f64, deviation: f64);
    curandGenerateLogNormal c"curandGenerateLogNormal" f32(mean: f32, deviation: f32);
    curandGenerateLogNormalDouble c"curandGenerateLogNormalDouble" f64(mean: f64, deviation: f64);
    curandGeneratePoisson c"curandGeneratePoisson" u32(mean: f64);
    curandGeneratePoissonMethod c"curandGeneratePoissonMethod" u32(mean: f64, method: u32);
}

#[unsafe(no_mangle)]
extern "C" fn curandCreateGenerator(generator: Out<u64>, kind: u32) -> c_int {
    answered::<Failure>("curandCreateGenerator", || {
        let mut handle = 0u64;
        checked(of_nvidia!(c"curandCreateGeneratorHost", *mut u64, u32)(&raw mut handle, kind))?;
        generator.set(handle)?;
        streams().insert(handle, 0);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn curandDestroyGenerator(generator: u64) -> c_int {
    answered::<Failure>("curandDestroyGenerator", || {
        streams().remove(&generator);
        checked(of_nvidia!(c"curandDestroyGenerator", u64)(generator))
    })
}

#[unsafe(no_mangle)]
extern "C" fn curandSetStream(generator: u64, stream: u64) -> c_int {
    answered::<Failure>("curandSetStream", || {
        if let Some(held) = streams().get_mut(&generator) {
            *held = stream;
            return Ok(());
        }
        checked(of_nvidia!(c"curandSetStream", u64, u64)(generator, stream))
    })
}

/// `CURAND_ORDERING_PSEUDO_BEST` and `…_DYNAMIC`, which promise no sequence.
const BEST: u32 = 100;
const DYNAMIC: u32 = 104;

#[unsafe(no_mangle)]
extern "C" fn curandSetGeneratorOrdering(generator: u64, order: u32) -> c_int {
    answered::<Failure>("curandSetGeneratorOrdering", || {
        let code = of_nvidia!(c"curandSetGeneratorOrdering", u64, u32)(generator, order);
        if code != 0 && matches!(order, BEST | DYNAMIC) && streams().contains_key(&generator) {
            let what = "the host's generators have no such order; the sequence is that of CURAND_ORDERING_PSEUDO_DEFAULT";
            device()?.results.remark(format!("curandSetGeneratorOrdering: {what}"));
            return Ok(());
        }
        checked(code)
    })
}
