//! What runs kernels: memory, arguments, launches and how they end. The emulator is one, a GPU is another.

use numerics::random;
use serde::{Deserialize, Serialize};

/// A piece of a device's global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Buffer(
    /// Its number on its device, in the order of allocation.
    pub usize,
);

/// A module that a device has loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Module(
    /// Its number on its device.
    pub usize,
);

/// Launches that a device has captured as one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Graph(
    /// Its number on its device.
    pub usize,
);

/// Element type of a tensor map, as far as kernels here use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapElement {
    /// `CU_TENSOR_MAP_DATA_TYPE_UINT8`.
    U8,
    /// `CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B`: in shared memory 16 elements are 8 bytes and 8 bytes of gap.
    U4Unpacked,
}

/// Width of a tensor map's swizzle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapSwizzle {
    /// As they come.
    None,
    /// 32 bytes.
    B32,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 128 bytes, in atoms of 32 (`CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B`).
    B128Atom32,
}

/// A tensor map in tile mode over the beginning of a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMapSpec {
    /// Where the tensor lies.
    pub buffer: Buffer,
    /// What it consists of.
    pub element: MapElement,
    /// Elements by dimension, the innermost first.
    pub dims: Vec<u64>,
    /// Bytes from index to index of the second, third, … dimension.
    pub strides: Vec<u64>,
    /// Elements of a box by dimension.
    pub box_dims: Vec<u32>,
    /// Places in shared memory.
    pub swizzle: MapSwizzle,
}

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Argument {
    /// A number, little-endian.
    Value(Vec<u8>),
    /// The address of a buffer.
    Address(Buffer),
    /// A tensor map of 128 bytes.
    Map(TensorMapSpec),
}

/// One launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The module.
    pub module: Module,
    /// The kernel in it.
    pub entry: String,
    /// CTAs in x, y, z.
    pub grid: [u32; 3],
    /// Threads in x.
    pub block: u32,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// In the kernel's order.
    pub arguments: Vec<Argument>,
    /// Whether it may begin before the launch in front of it has ended (programmatic stream serialization).
    pub programmatic: bool,
    /// CTAs of a cluster in x, y, z; 1, 1, 1 asks for none.
    pub cluster: [u32; 3],
    /// Whether all CTAs have to be resident together.
    pub cooperative: bool,
}

/// Why a launch did not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The kernel violated a rule.
    #[error("{what}")]
    Trap {
        /// The rule in one word.
        rule: String,
        /// What happened, and where.
        what: String,
    },
    /// The device lacks something that the kernel uses.
    #[error("{0}")]
    Unsupported(String),
    /// The launch cannot be made: entry, arguments, sizes.
    #[error("{0}")]
    Launch(String),
    /// The device itself failed.
    #[error("{0}")]
    Broken(String),
    /// It did not end in time and was killed.
    #[error("{0}")]
    TimedOut(String),
    /// The kernel took its context or its process with it.
    #[error("{0}")]
    Crashed(String),
    /// The GPU is gone.
    #[error("{0}")]
    DeviceLost(String),
}

/// A launch of a stream or of a graph that did not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("launch {launch}: {failure}")]
pub struct LaunchFailure {
    /// Its index; 0 where the device does not say which it was.
    pub launch: usize,
    /// Why.
    pub failure: Failure,
}

impl From<Failure> for LaunchFailure {
    fn from(failure: Failure) -> Self {
        Self { launch: 0, failure }
    }
}

impl From<LaunchFailure> for Failure {
    fn from(failed: LaunchFailure) -> Self {
        failed.failure
    }
}

/// The first place at which two pieces of the same length differ.
#[must_use]
pub fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    // The comparison of whole slices is far quicker than one byte after the other.
    if one == other { None } else { one.iter().zip(other).position(|(a, b)| a != b) }
}

/// Something that runs kernels, one after the other.
pub trait Device {
    /// Its name in reports: `emulator`, `gpu:0`.
    fn name(&self) -> String;

    /// Gives all buffers, modules and graphs back; their numbers mean nothing any more. A device that had failed is a fresh
    /// one.
    ///
    /// # Errors
    /// [`Failure`] when none can be had.
    fn reset(&mut self) -> Result<(), Failure>;

    /// Releases the device until `reset`: others may have it until then.
    fn rest(&mut self) {}

    /// A buffer that holds `bytes`.
    ///
    /// # Errors
    /// [`Failure`] when there is no memory, or no device any more.
    fn allocate(&mut self, bytes: Vec<u8>) -> Result<Buffer, Failure>;

    /// A buffer of `len` bytes that nobody has written; a device that can tell makes reading them a trap.
    ///
    /// # Errors
    /// As [`Device::allocate`].
    fn allocate_unwritten(&mut self, len: usize) -> Result<Buffer, Failure>;

    /// A buffer of bytes from `least` to `most`, those of [`random::bytes`], made where the memory is.
    ///
    /// # Errors
    /// As [`Device::allocate`].
    fn allocate_random(&mut self, len: usize, seed: u64, least: u8, most: u8) -> Result<Buffer, Failure> {
        self.allocate(random::bytes(seed, least, most, len))
    }

    /// A buffer of `len` bytes of which only a few are ever written, by [`Device::write_at`]. A device that can keeps no memory for
    /// the others.
    ///
    /// # Errors
    /// As [`Device::allocate`].
    fn allocate_sparse(&mut self, len: usize) -> Result<Buffer, Failure> {
        self.allocate_unwritten(len)
    }

    /// Replaces the bytes of a buffer from byte `at` on.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn write_at(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<(), Failure>;

    /// The first byte of a buffer, counted from its start, that differs from `bytes` where they are laid on it from byte `at` on.
    ///
    /// # Errors
    /// As [`Device::read`], and when the buffer ends before `bytes`.
    fn differs(&self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<Option<usize>, Failure>;

    /// Takes another order of warps and CTAs for later launches, where the device can choose one.
    fn reschedule(&mut self, _seed: u64) {}

    /// The bytes of a buffer.
    ///
    /// # Errors
    /// [`Failure`] when there is no such buffer, or no device any more.
    fn read(&self, buffer: Buffer) -> Result<Vec<u8>, Failure>;

    /// Replaces the first bytes of a buffer.
    ///
    /// # Errors
    /// As [`Device::read`], and when `bytes` are more than the buffer holds.
    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Failure> {
        self.write_at(buffer, 0, bytes)
    }

    /// Makes a buffer one that nobody has written: what it held is gone.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn forget(&mut self, buffer: Buffer) -> Result<(), Failure>;

    /// Takes a module of PTX.
    ///
    /// # Errors
    /// [`Failure`] for what is no PTX or cannot be run here.
    fn load(&mut self, ptx: &str) -> Result<Module, Failure>;

    /// Bytes of each parameter of a kernel; `None` when the module has no such entry.
    fn parameters(&self, module: Module, entry: &str) -> Option<Vec<(String, usize)>>;

    /// Runs launches as one stream, to the end of the last.
    ///
    /// # Errors
    /// [`LaunchFailure`].
    fn run(&mut self, launches: &[Launch]) -> Result<(), LaunchFailure>;

    /// Keeps launches as one unit, arguments and sizes as they are now, and runs nothing.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn capture(&mut self, launches: &[Launch]) -> Result<Graph, LaunchFailure>;

    /// Runs what was captured, to its end.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn replay(&mut self, graph: Graph) -> Result<(), LaunchFailure>;

    /// Replays a graph `times` times, the buffers of `fresh` unwritten before each; the first replay, from 1, after which one of them
    /// does not hold what it held after the first.
    ///
    /// # Errors
    /// As [`Device::run`] and [`Device::read`].
    fn replay_often(
        &mut self,
        graph: Graph,
        times: usize,
        fresh: &[Buffer],
    ) -> Result<Option<usize>, LaunchFailure> {
        let mut first: Option<Vec<Vec<u8>>> = None;
        for n in 0..times {
            fresh.iter().try_for_each(|buffer| self.forget(*buffer))?;
            self.replay(graph)?;
            let now: Vec<_> = fresh.iter().map(|b| self.read(*b)).collect::<Result<_, _>>()?;
            if *first.get_or_insert_with(|| now.clone()) != now {
                return Ok(Some(n + 1));
            }
        }
        Ok(None)
    }
}

/// A device with a clock of its own.
pub trait Timer: Device {
    /// Milliseconds of each launch, one after the other, `samples` times after `warm_up` times that are not counted. In front of
    /// each, outside its time, runs `before`: what it reads takes the place of what caches hold.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn time(
        &mut self,
        launches: &[Launch],
        before: &Launch,
        warm_up: usize,
        samples: usize,
    ) -> Result<Vec<Vec<f32>>, LaunchFailure>;
}
