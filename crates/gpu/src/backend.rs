//! What a worker needs of CUDA, so that its protocol can be tested where there is none.

use emulator::device::TensorMapSpec;

use super::describe::Description;
use super::status::CudaError;
use super::wire::Entry;

/// An argument as the driver takes it.
pub(super) enum Value {
    /// Little-endian bytes.
    Bytes(Vec<u8>),
    /// A tensor map.
    Map([u64; 16]),
}

/// A launch with everything found.
pub(super) struct Prepared {
    /// The backend's module, and the kernel's place in its list of entries.
    pub(super) kernel: (usize, usize),
    /// CTAs.
    pub(super) grid: [u32; 3],
    /// Threads in x.
    pub(super) block: u32,
    /// Dynamic shared memory.
    pub(super) shared: u32,
    /// In the kernel's order, of the sizes that it has.
    pub(super) values: Vec<Value>,
    /// Programmatic stream serialization.
    pub(super) programmatic: bool,
    /// CTAs of a cluster.
    pub(super) cluster: [u32; 3],
    /// All CTAs resident.
    pub(super) cooperative: bool,
}

/// One GPU, as a worker sees it. Addresses are the device's.
pub(super) trait Backend {
    /// Who it is.
    fn describe(&mut self) -> Result<Description, CudaError>;
    /// Memory.
    fn allocate(&mut self, bytes: usize) -> Result<u64, CudaError>;
    /// Gives memory back.
    fn release(&mut self, address: u64) -> Result<(), CudaError>;
    /// One byte everywhere. As [`Backend::copy`], [`Backend::write`] and [`Backend::launch`] it is put into the stream: it may not have
    /// ended when this returns, and what is put there later comes later.
    fn fill(&mut self, address: u64, byte: u8, bytes: usize) -> Result<(), CudaError>;
    /// From one place of the device to another; they do not overlap.
    fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), CudaError>;
    /// To the device.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), CudaError>;
    /// From the device, when all that is in the stream has ended.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), CudaError>;
    /// Takes a cubin or PTX; the module and its kernels.
    fn load(&mut self, image: &[u8]) -> Result<(usize, Vec<Entry>), CudaError>;
    /// Encodes a tensor map over memory.
    fn tensor_map(&mut self, address: u64, spec: &TensorMapSpec) -> Result<[u64; 16], CudaError>;
    /// Puts a launch into the stream.
    fn launch(&mut self, launch: &Prepared) -> Result<(), CudaError>;
    /// Waits for the stream; what went wrong in it.
    fn synchronize(&mut self) -> Result<(), CudaError>;
    /// Marks a time in the stream: 0 before, 1 after.
    fn mark(&mut self, which: usize) -> Result<(), CudaError>;
    /// Milliseconds between the marks.
    fn elapsed(&mut self) -> Result<f32, CudaError>;
    /// Captures launches; the graph's number.
    fn capture(&mut self, launches: &[Prepared]) -> Result<usize, CudaError>;
    /// Puts a graph into the stream.
    fn replay(&mut self, graph: usize) -> Result<(), CudaError>;
    /// Forgets modules and graphs.
    fn unload(&mut self) -> Result<(), CudaError>;
}
