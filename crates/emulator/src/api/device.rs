//! The interface of a device that runs kernels, the emulator or a GPU: memory, arguments, launches and failures.

use std::ops::Range;

use numerics::random;
use serde::{Deserialize, Serialize};

use crate::run::turns::Turns;

/// A piece of a device's global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Buffer(
    /// Its number on the device, in order of allocation.
    pub usize,
);

/// A module that a device has loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Module(
    /// Its number on the device.
    pub usize,
);

/// A sequence of launches that a device has captured as one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Graph(
    /// Its number on the device.
    pub usize,
);

/// Element type of a tensor map: the subset that the kernels of this project use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapElement {
    /// `CU_TENSOR_MAP_DATA_TYPE_UINT8`.
    U8,
    /// `CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B`: in shared memory, 16 elements are 8 bytes followed by 8 bytes of padding.
    U4Unpacked,
}

/// Swizzle mode of a tensor map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapSwizzle {
    /// No swizzle.
    None,
    /// 32 bytes.
    B32,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 128 bytes with 32-byte atoms (`CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B`).
    B128Atom32,
}

/// A tiled tensor map over the beginning of a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMapSpec {
    /// The buffer that holds the tensor.
    pub buffer: Buffer,
    /// The element type.
    pub element: MapElement,
    /// Elements per dimension, innermost first.
    pub dims: Vec<u64>,
    /// Strides in bytes of the second, third, … dimension.
    pub strides: Vec<u64>,
    /// Elements of a box per dimension.
    pub box_dims: Vec<u32>,
    /// The layout in shared memory.
    pub swizzle: MapSwizzle,
}

/// A kernel argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Argument {
    /// A scalar or struct, little-endian.
    Value(Vec<u8>),
    /// The address of a buffer.
    Address(Buffer),
    /// A tensor map of 128 bytes.
    Map(TensorMapSpec),
}

/// A kernel launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The module.
    pub module: Module,
    /// The name of the kernel.
    pub entry: String,
    /// CTAs in x, y, z.
    pub grid: [u32; 3],
    /// Threads per CTA in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// The arguments, in the kernel's order.
    pub arguments: Vec<Argument>,
    /// Whether it may begin before the preceding launch has ended (programmatic stream serialization).
    pub programmatic: bool,
    /// CTAs per cluster in x, y, z; `[1, 1, 1]` means no clusters.
    pub cluster: [u32; 3],
    /// Whether all CTAs must be resident together.
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
    /// The launch did not end in time and was killed.
    #[error("{0}")]
    TimedOut(String),
    /// The kernel destroyed its context or its process.
    #[error("{0}")]
    Crashed(String),
    /// The GPU is gone.
    #[error("{0}")]
    DeviceLost(String),
}

/// A failed launch of a stream or graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("launch {launch}: {failure}")]
pub struct LaunchFailure {
    /// Index of the launch; 0 if the device cannot tell which one failed.
    pub launch: usize,
    /// The cause.
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

/// The index of the first byte in which two slices of the same length differ.
#[must_use]
pub fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    // Comparing whole slices is much faster than comparing byte by byte.
    if one == other { None } else { one.iter().zip(other).position(|(a, b)| a != b) }
}

/// A device that runs kernels in order.
pub trait Device {
    /// The device's name in reports: `emulator`, `gpu:0`.
    fn name(&self) -> String;

    /// Releases all buffers, modules and graphs; their numbers become invalid. A failed device is replaced by a fresh one.
    ///
    /// # Errors
    /// [`Failure`] if no device can be obtained.
    fn reset(&mut self) -> Result<(), Failure>;

    /// Releases the device to others until `reset`.
    fn rest(&mut self) {}

    /// Allocates a buffer that holds `bytes`.
    ///
    /// # Errors
    /// [`Failure`] if memory is exhausted or the device is lost.
    fn allocate(&mut self, bytes: Vec<u8>) -> Result<Buffer, Failure>;

    /// Allocates a buffer of `len` unwritten bytes; on a device that tracks initialisation, reading them is a trap.
    ///
    /// # Errors
    /// As [`Device::allocate`].
    fn allocate_unwritten(&mut self, len: usize) -> Result<Buffer, Failure>;

    /// Allocates a buffer of random bytes from `least` to `most` (those of [`random::bytes`]), generated on the device if it can.
    ///
    /// # Errors
    /// As [`Device::allocate`].
    fn allocate_random(&mut self, len: usize, seed: u64, least: u8, most: u8) -> Result<Buffer, Failure> {
        self.allocate(random::bytes(seed, least, most, len))
    }

    /// Allocates a buffer of `len` bytes of which [`Device::write_at`] writes only a few. A device that supports it stores only
    /// those.
    ///
    /// # Errors
    /// As [`Device::allocate`].
    fn allocate_sparse(&mut self, len: usize) -> Result<Buffer, Failure> {
        self.allocate_unwritten(len)
    }

    /// Writes bytes to a buffer, starting at byte `at`.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn write_at(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<(), Failure>;

    /// Compares a buffer, from byte `at` on, with `bytes`. Returns the offset in the buffer of the first difference.
    ///
    /// # Errors
    /// As [`Device::read`], and if the buffer ends before `bytes` do.
    fn differs(&self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<Option<usize>, Failure>;

    /// Watches bytes of a buffer in later launches, for [`Device::last_write`]; `None` ends that. Devices that cannot do so ignore it.
    fn watch(&mut self, _bytes: Option<(Buffer, Range<usize>)>) {}

    /// The instruction that wrote the watched bytes last, in words; `None` if none did, or if the device cannot tell.
    fn last_write(&self) -> Option<String> {
        None
    }

    /// Whether a launch has read a buffer; `None` if the device cannot tell.
    fn is_read(&self, _buffer: Buffer) -> Option<bool> {
        None
    }

    /// Uses another order of warps and CTAs for later launches, if the device can choose one.
    fn reschedule(&mut self, _seed: u64) {}

    /// Lets the lanes of warps take turns in later launches, where they conflicted in earlier ones; `None` ends that. Returns what
    /// conflicts; `None` if nothing does, or if the device has no choice.
    fn direct_lanes(&mut self, _turns: Option<Turns>) -> Option<String> {
        None
    }

    /// Reads a whole buffer.
    ///
    /// # Errors
    /// [`Failure`] if there is no such buffer, or the device is lost.
    fn read(&self, buffer: Buffer) -> Result<Vec<u8>, Failure>;

    /// Writes bytes to the beginning of a buffer.
    ///
    /// # Errors
    /// As [`Device::read`], and if the buffer is smaller than `bytes`.
    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Failure> {
        self.write_at(buffer, 0, bytes)
    }

    /// Marks a buffer as unwritten and discards its contents.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn forget(&mut self, buffer: Buffer) -> Result<(), Failure>;

    /// Loads a PTX module.
    ///
    /// # Errors
    /// [`Failure`] if the text is not PTX or cannot run on this device.
    fn load(&mut self, ptx: &str) -> Result<Module, Failure>;

    /// Name and size in bytes of each parameter of a kernel; `None` if the module has no such entry.
    fn parameters(&self, module: Module, entry: &str) -> Option<Vec<(String, usize)>>;

    /// Runs launches as one stream and waits for the last one to end.
    ///
    /// # Errors
    /// [`LaunchFailure`] names the launch and the cause.
    fn run(&mut self, launches: &[Launch]) -> Result<(), LaunchFailure>;

    /// Captures launches as a graph, with their present arguments and sizes, without running them.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn capture(&mut self, launches: &[Launch]) -> Result<Graph, LaunchFailure>;

    /// Runs a captured graph to its end.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn replay(&mut self, graph: Graph) -> Result<(), LaunchFailure>;

    /// Replays a graph `times` times, with the buffers of `fresh` unwritten before each replay. Returns the number, from 1, of the
    /// first replay that leaves other bytes in one of these buffers than the first replay did.
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

/// A device that can time launches.
pub trait Timer: Device {
    /// Times launches one after the other, in milliseconds: for each launch, `samples` times after `warm_up` untimed runs. Before
    /// each run, outside the timed interval, `before` runs; what it reads evicts the contents of the caches.
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
