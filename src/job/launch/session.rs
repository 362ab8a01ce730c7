//! The session of launches: everything read and checked. It refers to buffers, because each trial assigns new addresses.

use std::ops::Range;
use std::sync::Arc;

use emulator::argument::{Element, Shape};
use emulator::trials::ContractedPrograms;
use emulator::{GlobalMemory, HostBytes, Kernel, Program, TENSOR_MAP_BYTES, TensorMap};

use super::available_memory::available_memory;
use super::error::LaunchError;
use super::expect::Tolerance;
use super::product::Product;

/// A loaded module.
pub struct Module {
    /// Its name in messages.
    pub name: String,
    /// Its PTX.
    pub text: String,
    /// The decoded module.
    pub program: Arc<Program>,
    /// The buffers that back its global-memory variables, if given: indices of [`Session::buffers`].
    pub variables: Option<Vec<usize>>,
}

/// The initial content of a buffer.
#[derive(Debug, Clone, PartialEq)]
pub enum Initial {
    /// Uninitialized.
    Unwritten,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Host bytes, read in place; each trial copies what it writes.
    Lent(HostBytes),
    /// Values that contain addresses.
    Value(Value),
    /// The content of the memory before the first launch ([`Session::base`]) at this address.
    There(u64),
}

/// A buffer in global memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Its unique name.
    pub name: String,
    /// Its shape and element type.
    pub shape: Shape,
    /// Its initial content.
    pub initial: Initial,
    /// Its fixed address, if any.
    pub address: Option<u64>,
    /// Bytes that are uninitialized.
    pub unwritten: Vec<Range<usize>>,
    /// Whether the buffer is scratch: its contents are neither printed nor compared.
    pub scratch: bool,
}

/// A value that may depend on the addresses of buffers.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Bytes, little endian.
    Bytes(Vec<u8>),
    /// The address of a byte of a buffer.
    Address {
        /// The buffer, an index of [`Session::buffers`].
        buffer: usize,
        /// The byte.
        offset: u64,
    },
    /// A tensor map whose base address is a byte of a buffer.
    Map {
        /// The buffer, an index of [`Session::buffers`].
        buffer: usize,
        /// The byte.
        offset: u64,
        /// The map, with address 0.
        map: TensorMap,
    },
    /// A struct.
    Fields {
        /// Its size, bytes.
        size: usize,
        /// Its fields with their offsets; padding is zero.
        fields: Vec<(usize, Value)>,
    },
}

impl Value {
    /// Returns its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Address { .. } => 8,
            Self::Map { .. } => TENSOR_MAP_BYTES,
            Self::Fields { size, .. } => *size,
        }
    }

    /// Returns its bytes for buffers at these addresses.
    ///
    /// # Errors
    /// A message if a tensor map cannot be encoded at the address of its buffer.
    pub fn bytes(&self, addresses: &[u64]) -> Result<Vec<u8>, String> {
        let at = |buffer: usize, offset: u64| {
            addresses.get(buffer).copied().unwrap_or_default().wrapping_add(offset)
        };
        Ok(match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Address { buffer, offset } => at(*buffer, *offset).to_le_bytes().to_vec(),
            Self::Map { buffer, offset, map } => {
                let map = TensorMap { address: at(*buffer, *offset), ..*map };
                map.encode().map_err(|error| error.to_string())?.to_vec()
            }
            Self::Fields { size, fields } => {
                let mut bytes = vec![0; *size];
                for (at, field) in fields {
                    let field = field.bytes(addresses)?;
                    bytes[*at..*at + field.len()].copy_from_slice(&field);
                }
                bytes
            }
        })
    }
}

/// A module variable that is set before the first launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// The module, an index of [`Session::modules`].
    pub module: usize,
    /// The variable.
    pub name: String,
    /// The first byte to set.
    pub at: usize,
    /// The value to set.
    pub value: Value,
}

/// One launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The module, an index of [`Session::modules`].
    pub module: usize,
    /// The kernel.
    pub entry: String,
    /// CTAs in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a CTA in x, y, z.
    pub block: [u32; 3],
    /// CTAs of a cluster in x, y, z, if the launch specifies them.
    pub cluster: Option<[u32; 3]>,
    /// Whether the launch is cooperative: all CTAs are resident at the same time.
    pub cooperative: bool,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// Whether a schedule may shift dynamic shared memory within the alignment that the kernel declares.
    pub shift_shared: bool,
    /// One argument for each parameter, of the parameter's size.
    pub args: Vec<Value>,
}

/// The expected content of a buffer after the last launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// The buffer, an index of [`Session::buffers`].
    pub buffer: usize,
    /// What it must hold.
    pub wanted: Wanted,
}

/// What a buffer must hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// These values.
    Values {
        /// The type of the expected elements, which may differ from the buffer's.
        element: Element,
        /// The expected elements, as many as the buffer has.
        bytes: Vec<u8>,
        /// Bytes that are not compared.
        unwritten: Vec<Range<usize>>,
        /// The tolerance of the comparison.
        tolerance: Tolerance,
    },
    /// The product of block-scaled matrices, within its derived bound.
    Product(Box<Product>),
}

/// A sequence of launches on the same memory.
pub struct Session {
    /// The modules.
    pub modules: Vec<Module>,
    /// Memory before the first launch, to which the buffers are added.
    pub base: GlobalMemory,
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// Module variables to set before the first launch.
    pub variables: Vec<Variable>,
    /// The launches.
    pub steps: Vec<Step>,
    /// The expected results.
    pub expectations: Vec<Expectation>,
    /// The contracted forms of its programs, as far as trials have loaded them: a caller that launches a kernel many times keeps them, as
    /// long as [`Session::contract`] leaves the programs as written.
    pub contracted: ContractedPrograms,
}

impl Session {
    /// Returns the kernel of a launch.
    #[must_use]
    pub fn kernel(&self, step: &Step) -> Option<&Kernel> {
        self.modules.get(step.module)?.program.kernel(&step.entry)
    }
}

/// Checks that the machine has memory for the buffers and `more` bytes.
pub(super) fn check_memory(buffers: &[Buffer], more: usize) -> Result<(), LaunchError> {
    let all = buffers.iter().try_fold(more, |all, b| all.checked_add(b.shape.bytes));
    // The bytes, a copy of them, and the record of which bytes were written.
    let wanted = all.and_then(|all| all.checked_mul(3)).unwrap_or(usize::MAX);
    let there = available_memory();
    if wanted > there { Err(LaunchError::Memory { wanted, there }) } else { Ok(()) }
}
