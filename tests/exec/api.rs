//! Calls of the driver API and the runtime API from a program that loads the libraries at run time.

use std::ffi::{CString, c_int, c_void};

use libloading::{Library, Symbol};

/// A library whose functions are looked up by name.
pub(crate) struct Api(Library);

/// Calls a function with these arguments and returns its result.
macro_rules! call {
    ($api:expr, $name:expr $(, $arg:expr => $ty:ty)* $(,)?) => {{
        let function = $api.function::<unsafe extern "C" fn($($ty),*) -> std::ffi::c_int>($name);
        // SAFETY: the types are those of the header.
        unsafe { function($($arg),*) }
    }};
}
pub(crate) use call;

impl Api {
    /// Loads the library of this name and its dependencies.
    pub(crate) fn open(name: &str) -> Self {
        // SAFETY: the library is part of this project.
        Self(unsafe { Library::new(name) }.unwrap())
    }

    pub(crate) fn function<T>(&self, name: &str) -> Symbol<'_, T> {
        // SAFETY: the caller names the type of the header.
        unsafe { self.0.get(name.as_bytes()) }.unwrap()
    }

    /// Returns the primary context, made current.
    pub(crate) fn enter(&self) -> u64 {
        let mut context = 0u64;
        assert_eq!(call!(self, "cuInit", 0 => u32), 0);
        assert_eq!(call!(self, "cuDevicePrimaryCtxRetain", &raw mut context => *mut u64, 0 => c_int), 0);
        assert_eq!(call!(self, "cuCtxSetCurrent", context => u64), 0);
        context
    }

    /// A module of PTX in the primary context.
    pub(crate) fn module(&self, ptx: &str) -> u64 {
        let (text, mut module) = (CString::new(ptx).unwrap(), 0u64);
        self.enter();
        let made = call!(self, "cuModuleLoadData", &raw mut module => *mut u64, text.as_ptr().cast() => *const c_void);
        assert_eq!(made, 0);
        module
    }

    /// A kernel of a module.
    pub(crate) fn kernel(&self, module: u64, name: &str) -> u64 {
        let (text, mut kernel) = (CString::new(name).unwrap(), 0u64);
        let found = call!(
            self, "cuModuleGetFunction", &raw mut kernel => *mut u64, module => u64, text.as_ptr() => *const i8,
        );
        assert_eq!(found, 0);
        kernel
    }

    /// Device memory.
    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        let mut at = 0u64;
        assert_eq!(call!(self, "cuMemAlloc_v2", &raw mut at => *mut u64, bytes => usize), 0);
        at
    }

    /// Reads the words at a device address.
    pub(crate) fn words(&self, at: u64, count: usize) -> Vec<u32> {
        let mut words = vec![0u32; count];
        let to = words.as_mut_ptr() as u64;
        assert_eq!(call!(self, "cuMemcpyDtoH_v2", to => u64, at => u64, count * 4 => usize), 0);
        words
    }

    /// A stream.
    pub(crate) fn stream(&self) -> u64 {
        let mut stream = 0u64;
        assert_eq!(call!(self, "cuStreamCreate", &raw mut stream => *mut u64, 1 => u32), 0);
        stream
    }

    /// An event.
    pub(crate) fn event(&self) -> u64 {
        let mut event = 0u64;
        assert_eq!(call!(self, "cuEventCreate", &raw mut event => *mut u64, 0 => u32), 0);
        event
    }

    /// Launches a kernel of `threads` threads.
    pub(crate) fn launch(
        &self,
        kernel: u64,
        threads: u32,
        stream: u64,
        arguments: &[*const c_void],
    ) -> c_int {
        call!(
            self, "cuLaunchKernel", kernel => u64, 1 => u32, 1 => u32, 1 => u32, threads => u32, 1 => u32, 1 => u32, 0 => u32,
            stream => u64, arguments.as_ptr() => *const *const c_void, std::ptr::null() => *const c_void,
        )
    }
}

/// Adds `value` to each word of `buffer` that has a thread.
pub(crate) const ADD: &str = "
.version 8.7
.target sm_120
.address_size 64
.global .attribute(.managed) .align 4 .u32 counter = 5;
.visible .entry add(.param .u64 buffer, .param .u32 value)
{
    .reg .b64 p; .reg .b32 i, x, y;
    ld.param.u64 p, [buffer];
    ld.param.u32 y, [value];
    mov.u32 i, %tid.x;
    mad.wide.u32 p, i, 4, p;
    ld.global.u32 x, [p];
    add.u32 x, x, y;
    st.global.u32 [p], x;
    ret;
}
.visible .entry count()
{
    .reg .b32 x;
    ld.global.u32 x, [counter];
    add.u32 x, x, 1;
    st.global.u32 [counter], x;
    ret;
}";

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Pitched(pub(crate) u64, pub(crate) usize, pub(crate) usize, pub(crate) usize);

/// `cudaExtent`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Extent(pub(crate) usize, pub(crate) usize, pub(crate) usize);

/// `cudaMemcpy3DParms`.
#[repr(C)]
pub(crate) struct Memcpy3D {
    pub(crate) from_array: u64,
    pub(crate) from_at: [usize; 3],
    pub(crate) from: Pitched,
    pub(crate) to_array: u64,
    pub(crate) to_at: [usize; 3],
    pub(crate) to: Pitched,
    pub(crate) extent: Extent,
    pub(crate) kind: u32,
}
