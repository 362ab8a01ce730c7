//! Functions that nvcc's host code calls when a program starts, to register its objects, and around a `<<<>>>` launch.
#![expect(unsafe_code, reason = "exported names")]

use std::cell::RefCell;
use std::ffi::c_int;

use crate::api::call::answer;
use crate::api::launch_parameters::Dim3;
use crate::api::table::{Outcome, exported};
use crate::device::contexts::Needs;
use crate::device::registry;
use crate::device::state::device;
use crate::program::pointers::{Out, Text};
use crate::status::Status;

/// Grid, block, shared memory and stream of an imminent `<<<>>>` launch.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: u64,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

exported! {
    REGISTRATION, REGISTRATION_CALLS;

    [__cudaRegisterFatBinary: (Nothing, zeros SUCCESS)] fn (wrapper: u64);
    [__cudaRegisterFatBinaryEnd: (Nothing, zeros SUCCESS)] fn (binary: u64);
    [__cudaUnregisterFatBinary: (Nothing, zeros SUCCESS)] fn (binary: u64);
    [__cudaInitModule: (Runtime, zeros SUCCESS)] fn (binary: u64);
    [__cudaRegisterFunction: (Nothing, zeros SUCCESS)]
    fn (binary: u64, host: u64, device: u64, name: Text, limit: c_int, tid: u64, bid: u64, block: u64, grid: u64, warp: u64);
    [__cudaRegisterVar: (Nothing, zeros SUCCESS)]
    fn (binary: u64, host: u64, device: u64, name: Text, external: c_int, size: usize, constant: c_int, global: c_int);
    [__cudaRegisterManagedVar: (Nothing, zeros SUCCESS)]
    fn (binary: u64, host: u64, device: u64, name: Text, external: c_int, size: usize, constant: c_int, global: c_int);
    [__cudaRegisterHostVar: (Nothing, zeros SUCCESS)] fn (binary: u64, name: u64, host: u64, size: usize);
    [__cudaPushCallConfiguration: (Nothing, zeros SUCCESS)] fn (grid: Dim3, block: Dim3, shared: usize, stream: u64);
    [__cudaPopCallConfiguration: (Runtime, zeros INVALID_VALUE)]
    fn (grid: Out<Dim3>, block: Out<Dim3>, shared: Out<usize>, stream: Out<u64>);
    [cudaCreateChannelDesc: (Nothing, zeros SUCCESS)] fn (x: c_int, y: c_int, z: c_int, w: c_int, kind: c_int);
}

/// A handle, or whether a module has been initialized.
impl Outcome for u64 {
    fn outcome(self) -> c_int {
        0
    }
}

impl Outcome for u8 {
    fn outcome(self) -> c_int {
        c_int::from(self == 0)
    }
}

impl Outcome for ChannelDesc {
    fn outcome(self) -> c_int {
        0
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: u64) -> u64 {
    (registry::add_binary(wrapper) as u64 + 1) * 16
}

/// The number of a fatbin, from the handle that the program has.
fn binary_of(handle: u64) -> usize {
    (handle / 16).saturating_sub(1) as usize
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinaryEnd(_binary: u64) {}

#[unsafe(no_mangle)]
extern "C" fn __cudaUnregisterFatBinary(binary: u64) {
    if binary != 0 {
        registry::forget_binary(binary_of(binary));
    }
}

#[unsafe(no_mangle)]
extern "C" fn __cudaInitModule(binary: u64) -> u8 {
    let body = || {
        let mut device = device()?;
        registry::place_managed(&mut device, binary_of(binary))
    };
    // SAFETY: the body uses no address of the caller.
    u8::from(unsafe { answer("__cudaInitModule", Needs::Runtime, None, body) } == 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterFunction(
    binary: u64,
    host: u64,
    _device: u64,
    name: Text,
    _limit: c_int,
    _tid: u64,
    _bid: u64,
    _block: u64,
    _grid: u64,
    _warp: u64,
) {
    if let Ok(name) = name.text() {
        registry::add_kernel(binary_of(binary), host, name);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterVar(
    binary: u64,
    host: u64,
    _device: u64,
    name: Text,
    _external: c_int,
    _size: usize,
    _constant: c_int,
    _global: c_int,
) {
    if let Ok(name) = name.text() {
        registry::add_variable(binary_of(binary), host, name);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterManagedVar(
    binary: u64,
    host: u64,
    _device: u64,
    name: Text,
    _external: c_int,
    _size: usize,
    _constant: c_int,
    _global: c_int,
) {
    let Ok(name) = name.text() else { return };
    // SAFETY: nvcc's host code registers the place of a pointer, which is part of the program.
    let place = unsafe { Out::at(host) };
    registry::add_managed(binary_of(binary), place, name);
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterHostVar(_binary: u64, _name: u64, _host: u64, _size: usize) {}

#[unsafe(no_mangle)]
extern "C" fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: u64) -> c_int {
    CONFIGURATIONS.with_borrow_mut(|all| all.push(Configuration { grid, block, shared, stream }));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaPopCallConfiguration(
    grid: Out<Dim3>,
    block: Out<Dim3>,
    shared: Out<usize>,
    stream: Out<u64>,
) -> c_int {
    let body = || {
        let top = CONFIGURATIONS.with_borrow_mut(Vec::pop).ok_or(Status::MISSING_CONFIGURATION)?;
        grid.set(top.grid)?;
        block.set(top.block)?;
        shared.set(top.shared)?;
        stream.set(top.stream)
    };
    // SAFETY: nvcc's host code passes places of these types.
    unsafe { answer("__cudaPopCallConfiguration", Needs::Runtime, None, body) }
}

/// `cudaCreateChannelDesc`, which returns a struct of five words.
#[repr(C)]
struct ChannelDesc([c_int; 5]);

#[unsafe(no_mangle)]
extern "C" fn cudaCreateChannelDesc(x: c_int, y: c_int, z: c_int, w: c_int, kind: c_int) -> ChannelDesc {
    ChannelDesc([x, y, z, w, kind])
}
