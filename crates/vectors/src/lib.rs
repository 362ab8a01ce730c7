//! Recorded instruction vectors: results of real hardware and of a published bit-accurate model.
//!
//! A recording is a document and a file of words, in a folder or a zip archive. A device recording contains the registers
//! of whole warps before and after each instruction (`vectors.json`, `vectors.bin`). A model recording contains the
//! matrices of tensor-core instructions (`mma.json`, `mma.bin`). Both are little-endian, and the field `layout` describes
//! the words. [`digests`] cover all inputs of a function in condensed form.
//!
#![doc = include_str!("../README.md")]

mod builtin;
pub mod digests;
mod document;
mod error;
mod read;
mod write;

pub use builtin::{BUILTIN, builtin};
pub use error::VectorsError;

use numerics::tensor_core::MmaForm;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// Instructions with recorded results, all from one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The name of the device or model.
    pub device: String,
    /// The kind of source.
    pub source: Source,
    /// The seed of the inputs.
    pub seed: u64,
    /// A textual description of the layout of the words.
    pub layout: String,
    /// The instructions.
    pub ops: Vec<Op>,
}

/// The kind of source of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A device that executed the instructions.
    Device {
        /// The compute capability, such as `9.0`.
        capability: String,
        /// The CUDA version of the driver, such as 13000.
        driver: u64,
    },
    /// A model that computed the results.
    Model,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// An instruction recorded with the registers of whole warps.
    Warp(WarpOp),
    /// A tensor-core instruction recorded with its matrices.
    Matrix(MatrixOp),
}

/// An instruction that warps executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarpOp {
    /// The name.
    pub name: String,
    /// The PTX text, on registers `i0…` and `o0…`.
    pub ptx: String,
    /// Number of input registers.
    pub n_in: usize,
    /// Number of output registers.
    pub n_out: usize,
    /// The operand kind of each input register.
    pub kinds: Vec<String>,
    /// Number of warps that executed it.
    pub cases: usize,
    /// `[case][n_in][32]`.
    pub inputs: Vec<u32>,
    /// `[case][n_out][32]`.
    pub outputs: Vec<u32>,
}

impl WarpOp {
    /// Returns the input registers of one case, each with its 32 lanes.
    #[must_use]
    pub fn input(&self, case: usize) -> &[[u32; LANES]] {
        registers(&self.inputs, case, self.n_in)
    }

    /// Returns the output registers of one case, each with its 32 lanes.
    #[must_use]
    pub fn output(&self, case: usize) -> &[[u32; LANES]] {
        registers(&self.outputs, case, self.n_out)
    }
}

fn registers(words: &[u32], case: usize, count: usize) -> &[[u32; LANES]] {
    let (registers, _) = words.as_chunks::<LANES>();
    registers.get(case * count..(case + 1) * count).unwrap_or_default()
}

/// A tensor-core instruction on matrices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixOp {
    /// The name.
    pub name: String,
    /// Shape and formats.
    pub form: MmaForm,
    /// Recorded cases.
    pub cases: Vec<MatrixCase>,
}

/// Operands and result, row-major, one code per word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixCase {
    /// `[M][K]`.
    pub a: Vec<u32>,
    /// `[N][K]`.
    pub b: Vec<u32>,
    /// `[M][N]`.
    pub c: Vec<u32>,
    /// `[M][chunks]`; empty without scales.
    pub sfa: Vec<u32>,
    /// `[N][chunks]`; empty without scales.
    pub sfb: Vec<u32>,
    /// `[M][N]`.
    pub d: Vec<u32>,
}

impl Op {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Warp(op) => &op.name,
            Self::Matrix(op) => &op.name,
        }
    }
}
