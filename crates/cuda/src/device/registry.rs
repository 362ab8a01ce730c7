//! Objects that nvcc's host code registers when a program starts: fatbins, kernels and variables by their host symbols. A fatbin is
//! read when something in it is first used.
#![expect(unsafe_code, reason = "objects of the program")]

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::device::contexts;
use crate::device::handles::Handle;
use crate::device::state::Device;
use crate::device::work::Function;
use crate::program::image::image;
use crate::program::pointers::Out;
use crate::status::Status;

/// A fatbin of the program.
struct Binary {
    image: u64,
    /// The module of each GPU.
    modules: HashMap<u8, usize>,
    /// Whether it has `__managed__` variables, which all GPUs share: then they share its module.
    is_shared: bool,
}

/// The registered objects.
#[derive(Default)]
struct Registry {
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
        let gpu = (!binary.is_shared).then(contexts::current_gpu);
        let key = gpu.unwrap_or_default();
        if let Some(module) = binary.modules.get(&key) {
            return Ok(*module);
        }
        // SAFETY: the program registered the image, which is part of it.
        let module = device.load(unsafe { image(binary.image) }?, gpu);
        binary.modules.insert(key, module);
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
        return device.functions.get(&index).cloned().ok_or(Status::INVALID_HANDLE);
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

/// Registers a fatbin by the address of its wrapper; returns its number. A library whose runtime was replaced late registers it twice.
pub(crate) fn add_binary(wrapper: u64) -> usize {
    let mut registry = registry();
    if let Some(known) = registry.binaries.iter().position(|binary| binary.image == wrapper) {
        return known;
    }
    registry.binaries.push(Binary { image: wrapper, modules: HashMap::new(), is_shared: false });
    registry.binaries.len() - 1
}

/// Forgets the address of a fatbin, where another library may be loaded. What was read of it stays, since work may still use it.
pub(crate) fn forget_binary(binary: usize) {
    if let Some(binary) = registry().binaries.get_mut(binary) {
        binary.image = 0;
    }
}

/// Registers a kernel of a fatbin by its host symbol.
pub(crate) fn add_kernel(binary: usize, symbol: u64, name: String) {
    registry().kernels.insert(symbol, (binary, name.into()));
}

/// Registers a variable of a fatbin by its host symbol.
pub(crate) fn add_variable(binary: usize, symbol: u64, name: String) {
    registry().variables.insert(symbol, (binary, name));
}

/// Registers a `__managed__` variable, whose address the program wants at `place`.
pub(crate) fn add_managed(binary: usize, place: Out<u64>, name: String) {
    let mut registry = registry();
    let known = registry.variables.insert(place.address(), (binary, name.clone()));
    if known.is_some_and(|(of, _)| of == binary) {
        return;
    }
    if let Some(of) = registry.binaries.get_mut(binary) {
        of.is_shared = true;
    }
    registry.managed.push(Managed { binary, place, name });
}

/// Stores the addresses of a fatbin's `__managed__` variables in the program.
pub(crate) fn place_managed(device: &mut Device, binary: usize) -> Result<(), Status> {
    registry().manage(device, binary)
}
