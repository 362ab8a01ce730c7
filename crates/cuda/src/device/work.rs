//! Work that the program submits to a stream: run at once, or kept as a node of the graph into which the stream is captured.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use crate::device::conditionals::Conditional;
use crate::status::Status;

/// A function of the program that runs in a stream.
pub(crate) type HostFunction = Option<extern "C" fn(*mut c_void)>;

/// A kernel to which the program has a handle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub(crate) module: usize,
    pub(crate) name: Arc<str>,
}

/// The launch configuration of a kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) cooperative: bool,
}

/// A kernel with its launch configuration and arguments.
#[derive(Debug, Clone)]
pub(crate) struct KernelWork {
    /// The kernel as named by the program: a host symbol or a handle.
    pub(crate) symbol: u64,
    pub(crate) function: Function,
    /// The GPU that runs it.
    pub(crate) gpu: u8,
    pub(crate) shape: Shape,
    /// The most dynamic shared memory that the program had set for the function when it asked for the launch: a graph keeps it.
    pub(crate) set_shared: Option<u32>,
    /// The bytes of all parameters.
    pub(crate) params: Arc<[u8]>,
}

/// What a call says about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Nothing, or that it is of the host: the address decides.
    Any,
    /// It is an address of the device.
    Device,
}

/// One side of a copy: the first address, and the distances in bytes between rows and between slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) slice: usize,
    pub(crate) memory: Memory,
}

/// A box of bytes to copy or fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes per row.
    pub(crate) width: usize,
    /// Rows per slice.
    pub(crate) height: usize,
    /// Number of slices.
    pub(crate) depth: usize,
}

/// Whether rows of so many bytes fit into their distance.
pub(crate) const fn fits(pitch: usize, width: usize, height: usize) -> bool {
    height == 0 || pitch >= width
}

/// A copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyWork {
    pub(crate) to: Side,
    pub(crate) from: Side,
    pub(crate) extent: Extent,
}

impl CopyWork {
    /// A copy of contiguous bytes.
    pub(crate) fn plain(to: u64, from: u64, len: usize) -> Self {
        let side = |address| Side { address, pitch: len, slice: len, memory: Memory::Any };
        Self { to: side(to), from: side(from), extent: Extent { width: len, height: 1, depth: 1 } }
    }

    /// A copy of rows.
    pub(crate) fn rows(to: (u64, usize), from: (u64, usize), width: usize, height: usize) -> Self {
        let side = |(address, pitch): (u64, usize)| Side {
            address,
            pitch,
            slice: pitch.saturating_mul(height),
            memory: Memory::Any,
        };
        Self { to: side(to), from: side(from), extent: Extent { width, height, depth: 1 } }
    }

    /// [`CopyWork::rows`] of which none is longer than the distance to the next one; the statuses are those of an H200 (driver 580).
    pub(crate) fn pitched(
        to: (u64, usize),
        from: (u64, usize),
        width: usize,
        height: usize,
    ) -> Result<Self, Status> {
        if fits(to.1, width, height) && fits(from.1, width, height) {
            Ok(Self::rows(to, from, width, height))
        } else {
            Err(if height > 1 { Status::INVALID_PITCH } else { Status::INVALID_VALUE })
        }
    }

    /// The copy with what the call says about its addresses.
    pub(crate) fn between(self, to: Memory, from: Memory) -> Self {
        Self { to: Side { memory: to, ..self.to }, from: Side { memory: from, ..self.from }, ..self }
    }

    /// The copy with the direction of a `cudaMemcpyKind`.
    pub(crate) fn of_kind(self, kind: u32) -> Result<Self, Status> {
        let (to, from) = match kind {
            1 => (Memory::Device, Memory::Any),
            2 => (Memory::Any, Memory::Device),
            3 => (Memory::Device, Memory::Device),
            0 | 4 => (Memory::Any, Memory::Any),
            _ => return Err(Status::INVALID_COPY_KIND),
        };
        Ok(self.between(to, from))
    }
}

/// A fill with a value of 1, 2 or 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FillWork {
    pub(crate) to: Side,
    pub(crate) value: u32,
    pub(crate) element: usize,
    pub(crate) extent: Extent,
}

impl FillWork {
    /// A fill of `count` contiguous elements.
    pub(crate) fn plain(to: u64, value: u32, element: usize, count: usize) -> Result<Self, Status> {
        Self::rows((to, count.saturating_mul(element)), value, element, count, 1)
    }

    /// A fill of rows of `width` elements.
    pub(crate) fn rows(
        (address, pitch): (u64, usize),
        value: u32,
        element: usize,
        width: usize,
        height: usize,
    ) -> Result<Self, Status> {
        let width = width.checked_mul(element).filter(|_| matches!(element, 1 | 2 | 4));
        let width = width.ok_or(Status::INVALID_VALUE)?;
        let to = Side { address, pitch, slice: pitch.saturating_mul(height), memory: Memory::Device };
        Ok(Self { to, value, element, extent: Extent { width, height, depth: 1 } })
    }
}

/// A word of 4 or 8 bytes, and a value for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) at: u64,
    pub(crate) value: u64,
    pub(crate) size: usize,
}

/// What a wait compares (`CUstreamWaitValue_flags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The word has reached the value, in cyclic order.
    Reached,
    Equal,
    /// It has a bit of the value.
    AnyBit,
    /// A bit is neither in it nor in the value.
    NoBit,
}

impl Condition {
    pub(crate) const fn from_number(number: u32) -> Result<Self, Status> {
        match number {
            0 => Ok(Self::Reached),
            1 => Ok(Self::Equal),
            2 => Ok(Self::AnyBit),
            3 => Ok(Self::NoBit),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Whether it holds for the content of a word of `size` bytes.
    pub(crate) const fn holds(self, held: u64, value: u64, size: usize) -> bool {
        match self {
            Self::Reached if size == 4 => (held as u32).wrapping_sub(value as u32).cast_signed() >= 0,
            Self::Reached => held.wrapping_sub(value).cast_signed() >= 0,
            Self::Equal => held == value,
            Self::AnyBit => held & value != 0,
            Self::NoBit if size == 4 => !((held | value) as u32) != 0,
            Self::NoBit => !(held | value) != 0,
        }
    }
}

/// An operation on a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordWork {
    Write(Word),
    Wait(Word, Condition),
}

/// A unit of work.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Launch(Box<KernelWork>),
    Copy(CopyWork),
    Fill(FillWork),
    Host {
        function: HostFunction,
        data: u64,
    },
    /// A child graph owned by the node, by its number.
    Child(u64),
    /// No work: a node that others depend on.
    Empty,
    Wait(u64),
    Record(u64),
    /// Operations on words of memory.
    Words(Arc<[WordWork]>),
    /// Memory owned by a graph: address and size in bytes.
    Allocate(u64, usize),
    Free(u64),
    Conditional(Conditional),
    /// What a function of a library of kernels does besides its kernels.
    Library(Arc<dyn LibraryWork>),
}

/// Work of a library of kernels. To programs it is a kernel, as it is in NVIDIA's library.
pub(crate) trait LibraryWork: fmt::Debug + Send + Sync {
    /// Does it, with the device unlocked.
    fn run(&self) -> Result<(), Status>;
}

impl Work {
    /// The graphs that a node with this work has: a child, or the bodies of a conditional node.
    pub(crate) fn inner(&self) -> &[u64] {
        match self {
            Self::Child(child) => std::slice::from_ref(child),
            Self::Conditional(node) => &node.bodies,
            _ => &[],
        }
    }

    /// The `cudaGraphNodeType` of the work.
    pub(crate) const fn node_type(&self) -> u32 {
        match self {
            Self::Launch(_) | Self::Library(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host { .. } => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
            Self::Allocate(..) => 10,
            Self::Free(_) => 11,
            Self::Words(_) => 12,
            Self::Conditional(_) => 13,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_the_header() {
        use Condition::{AnyBit, Equal, NoBit, Reached};
        for (condition, held, value, size, holds) in [
            (Reached, 5, 5, 4, true),
            (Reached, 4, 5, 4, false),
            (Reached, 1, 0xFFFF_FFFF, 4, true),
            (Reached, 1, 0xFFFF_FFFF, 8, false),
            (Reached, 0, u64::MAX, 8, true),
            (Equal, 7, 7, 8, true),
            (Equal, 7, 6, 4, false),
            (AnyBit, 6, 2, 4, true),
            (AnyBit, 6, 1, 4, false),
            (NoBit, 0xFFFF_0000, 0xFFFF, 4, false),
            (NoBit, 0xFFFF_0000, 0xFFFF, 8, true),
            (NoBit, 9, 0, 4, true),
        ] {
            assert_eq!(
                condition.holds(held, value, size),
                holds,
                "{condition:?} {held:#x} {value:#x} {size}"
            );
        }
    }
}
