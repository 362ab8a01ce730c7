//! What is launched: everything read and checked, with buffers in place of addresses, which each trial has anew.

use emulator::argument::{Element, Shape};
use std::ops::Range;
use std::sync::Arc;

use emulator::{GlobalMemory, HostBytes, Kernel, Program, TENSOR_MAP_BYTES, TensorMap};

use super::available_memory::available_memory;
use super::error::LaunchError;
use super::expect::Tolerance;

/// A module.
pub struct Module {
    /// What messages call it.
    pub name: String,
    /// Its PTX.
    pub text: String,
    /// The decoded module.
    pub program: Arc<Program>,
    /// The buffers that its variables in global memory are, where they are given: indices of [`Session::buffers`].
    pub variables: Option<Vec<usize>>,
}

/// What a buffer holds at first.
#[derive(Debug, Clone, PartialEq)]
pub enum Initial {
    /// Nothing: nobody has written it.
    Unwritten,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Bytes of the host, read where they lie; each trial copies what it writes.
    Lent(HostBytes),
    /// Values with addresses among them.
    Value(Value),
    /// What lies at this address in the memory before the first launch ([`Session::base`]).
    There(u64),
}

/// A buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Its name, of which there is one.
    pub name: String,
    /// Its elements.
    pub shape: Shape,
    /// What it holds at first.
    pub initial: Initial,
    /// Its address, where it is given.
    pub address: Option<u64>,
    /// Bytes that nobody has written.
    pub unwritten: Vec<Range<usize>>,
    /// Whether its contents are no result: they are neither printed nor compared.
    pub scratch: bool,
}

/// A value of which a part may depend on where buffers lie.
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
    /// A tensor map that begins at a byte of a buffer.
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
        /// Its bytes.
        size: usize,
        /// Its fields by offset; zeros between them.
        fields: Vec<(usize, Value)>,
    },
}

impl Value {
    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Address { .. } => 8,
            Self::Map { .. } => TENSOR_MAP_BYTES,
            Self::Fields { size, .. } => *size,
        }
    }

    /// Its bytes, with buffers at these addresses.
    ///
    /// # Errors
    /// A tensor map that cannot be encoded where its buffer lies, in words.
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
    /// What it becomes.
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
    /// CTAs of a cluster in x, y, z, where the launch names them.
    pub cluster: Option<[u32; 3]>,
    /// Whether all CTAs are resident together.
    pub cooperative: bool,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// Whether a schedule may shift dynamic shared memory within the alignment that the kernel declares.
    pub shift_shared: bool,
    /// One for each parameter, of its size.
    pub args: Vec<Value>,
}

/// What a buffer is to hold after the last launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// The buffer, an index of [`Session::buffers`].
    pub buffer: usize,
    /// The type of the expected elements, which may be another than the buffer's.
    pub element: Element,
    /// The expected elements, as many as the buffer has.
    pub bytes: Vec<u8>,
    /// Bytes that are not compared.
    pub unwritten: Vec<Range<usize>>,
    /// How far results may lie apart from them.
    pub tolerance: Tolerance,
}

/// Launches in order on the same memory.
pub struct Session {
    /// The modules.
    pub modules: Vec<Module>,
    /// Memory before the first launch, to which the buffers are added.
    pub base: GlobalMemory,
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// Module variables that are set.
    pub variables: Vec<Variable>,
    /// The launches.
    pub steps: Vec<Step>,
    /// What the results are compared with.
    pub expectations: Vec<Expectation>,
}

impl Session {
    /// The kernel of a launch.
    #[must_use]
    pub fn kernel(&self, step: &Step) -> Option<&Kernel> {
        self.modules.get(step.module)?.program.kernel(&step.entry)
    }
}

/// The bytes that a buffer of this shape needs beside those of the others, checked against the machine.
pub(super) fn check_memory(buffers: &[Buffer], more: usize) -> Result<(), LaunchError> {
    let all = buffers.iter().try_fold(more, |all, b| all.checked_add(b.shape.bytes));
    // The bytes, a copy of them, and the bit that says whether each was written.
    let wanted = all.and_then(|all| all.checked_mul(3)).unwrap_or(usize::MAX);
    let there = available_memory();
    if wanted > there { Err(LaunchError::Memory { wanted, there }) } else { Ok(()) }
}
