//! Objects that nvcc's host code registers when a program starts: fatbins, kernels and variables by their host symbols. A fatbin is
//! read
//! when something in it is first used.
#![expect(unsafe_code, reason = "exported names")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::api::{Out, Text, answer, image};
use crate::contexts::Needs;
use crate::device::{Device, Function, Handle, device};
use crate::status::Status;

/// A fatbin of the program.
struct Binary {
    image: u64,
    module: Option<usize>,
}

/// The registered objects.
#[derive(Default)]
pub(crate) struct Registry {
    binaries: Vec<Binary>,
    /// Kernels and variables by host symbol: fatbin and name.
    kernels: HashMap<u64, (usize, Arc<str>)>,
    variables: HashMap<u64, (usize, String)>,
    /// `__managed__` variables whose address the program has not received yet.
    managed: Vec<Managed>,
}

/// A `__managed__` variable.
struct Managed {
    binary: usize,
    /// Where the program stores its address.
    place: Out<u64>,
    name: String,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn module(&mut self, device: &mut Device, binary: usize) -> Result<usize, Status> {
        let binary = self.binaries.get_mut(binary).ok_or(Status::INVALID_IMAGE)?;
        if let Some(module) = binary.module {
            return Ok(module);
        }
        // SAFETY: the program registered the image, which is part of it.
        let module = device.load(unsafe { image(binary.image) }?);
        binary.module = Some(module);
        Ok(module)
    }

    /// Stores the addresses of a fatbin's `__managed__` variables in the program.
    fn manage(&mut self, device: &mut Device, binary: usize) -> Result<(), Status> {
        if self.managed.iter().all(|m| m.binary != binary) {
            return Ok(());
        }
        let module = self.module(device, binary)?;
        let (mine, others) = std::mem::take(&mut self.managed).into_iter().partition(|m| m.binary == binary);
        self.managed = others;
        let mine: Vec<Managed> = mine;
        for Managed { place, name, .. } in mine {
            let (address, size) = device.variable(module, &name)?;
            device.share_variable(address, size)?;
            place.set(address)?;
        }
        Ok(())
    }
}

/// The kernel of a host symbol or of a handle.
pub(crate) fn kernel(device: &mut Device, symbol: u64) -> Result<Function, Status> {
    if let Some(index) = Handle::Function.index(symbol) {
        return device.functions.get(index).cloned().ok_or(Status::INVALID_HANDLE);
    }
    let mut registry = registry();
    let (binary, name) = registry.kernels.get(&symbol).cloned().ok_or(Status::INVALID_DEVICE_FUNCTION)?;
    registry.manage(device, binary)?;
    let module = registry.module(device, binary)?;
    Ok(Function { module, name })
}

/// Address and size in bytes of the variable of a host symbol.
pub(crate) fn variable(device: &mut Device, symbol: u64) -> Result<(u64, usize), Status> {
    let mut registry = registry();
    let (binary, name) = registry.variables.get(&symbol).cloned().ok_or(Status::INVALID_SYMBOL)?;
    let module = registry.module(device, binary)?;
    device.variable(module, &name)
}

/// Grid, block, shared memory and stream of an imminent `<<<>>>` launch.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: u64,
}

/// `dim3`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

impl From<Dim3> for [u32; 3] {
    fn from(dim: Dim3) -> Self {
        [dim.x, dim.y, dim.z]
    }
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: u64) -> u64 {
    let mut registry = registry();
    registry.binaries.push(Binary { image: wrapper, module: None });
    registry.binaries.len() as u64 * 16
}

#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinaryEnd(_binary: u64) {}

#[unsafe(no_mangle)]
extern "C" fn __cudaUnregisterFatBinary(_binary: u64) {}

#[unsafe(no_mangle)]
extern "C" fn __cudaInitModule(binary: u64) -> u8 {
    let body = || {
        let mut device = device()?;
        registry().manage(&mut device, (binary / 16).saturating_sub(1) as usize)
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
        registry().kernels.insert(host, ((binary / 16).saturating_sub(1) as usize, name.into()));
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
        registry().variables.insert(host, ((binary / 16).saturating_sub(1) as usize, name));
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
    let (mut registry, binary) = (registry(), (binary / 16).saturating_sub(1) as usize);
    // SAFETY: nvcc's host code registers the place of a pointer, which is part of the program.
    let place = unsafe { Out::at(host) };
    registry.managed.push(Managed { binary, place, name: name.clone() });
    registry.variables.insert(host, (binary, name));
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

/// The function with a given name.
pub(crate) fn channel_function(name: &str) -> Option<*const std::ffi::c_void> {
    (name == "cudaCreateChannelDesc").then_some(cudaCreateChannelDesc as *const _)
}
