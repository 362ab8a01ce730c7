//! The CUDA operations that a worker needs, as a trait, so that its protocol can be tested without a GPU.

use emulator::device::TensorMapSpec;

use super::describe::Description;
use super::status::CudaError;
use super::wire::Entry;

/// A kernel argument as the driver expects it.
pub(super) enum Value {
    /// A value as little-endian bytes.
    Bytes(Vec<u8>),
    /// A tensor map.
    Map([u64; 16]),
}

/// A launch whose module, kernel and arguments are resolved.
pub(super) struct Prepared {
    /// The backend's module, and the index of the kernel in its list of entries.
    pub(super) kernel: (usize, usize),
    /// CTAs in x, y and z.
    pub(super) grid: [u32; 3],
    /// Threads in x, y and z.
    pub(super) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(super) shared: u32,
    /// Arguments in the kernel's order, each of its parameter's size.
    pub(super) values: Vec<Value>,
    /// Programmatic stream serialization.
    pub(super) programmatic: bool,
    /// CTAs of a cluster in x, y and z.
    pub(super) cluster: [u32; 3],
    /// Whether all CTAs must be resident (cooperative launch).
    pub(super) cooperative: bool,
}

/// One GPU as the worker uses it. All addresses are device addresses.
pub(super) trait Backend {
    /// Describes the GPU.
    fn describe(&mut self) -> Result<Description, CudaError>;
    /// Allocates memory and returns its address.
    fn allocate(&mut self, bytes: usize) -> Result<u64, CudaError>;
    /// Backs a range of addresses with memory, where it has none yet; [`Backend::unload`] frees it.
    fn place(&mut self, address: u64, bytes: usize) -> Result<(), CudaError>;
    /// Frees memory.
    fn release(&mut self, address: u64) -> Result<(), CudaError>;
    /// Fills a range with one byte. Like [`Backend::copy`], [`Backend::write`] and [`Backend::launch`], it is stream-ordered: it
    /// may return before the work is done, and later work runs after it.
    fn fill(&mut self, address: u64, byte: u8, bytes: usize) -> Result<(), CudaError>;
    /// Copies between ranges of the device that do not overlap.
    fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), CudaError>;
    /// Copies from the host to the device.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), CudaError>;
    /// Copies from the device to the host after all earlier work in the stream is done.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), CudaError>;
    /// Loads a cubin or PTX and returns the module and its kernels.
    fn load(&mut self, image: &[u8]) -> Result<(usize, Vec<Entry>), CudaError>;
    /// Encodes a tensor map over memory.
    fn tensor_map(&mut self, address: u64, spec: &TensorMapSpec) -> Result<[u64; 16], CudaError>;
    /// Queues a launch in the stream.
    fn launch(&mut self, launch: &Prepared) -> Result<(), CudaError>;
    /// Waits for the stream and returns the first error in it.
    fn synchronize(&mut self) -> Result<(), CudaError>;
    /// Records an event in the stream: 0 before the work, 1 after it.
    fn mark(&mut self, which: usize) -> Result<(), CudaError>;
    /// Returns the milliseconds between the two events.
    fn elapsed(&mut self) -> Result<f32, CudaError>;
    /// Captures launches and returns the number of the graph.
    fn capture(&mut self, launches: &[Prepared]) -> Result<usize, CudaError>;
    /// Queues a graph in the stream.
    fn replay(&mut self, graph: usize) -> Result<(), CudaError>;
    /// Unloads all modules and graphs.
    fn unload(&mut self) -> Result<(), CudaError>;
}
