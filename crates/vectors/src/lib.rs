//! Recorded instruction vectors: what real hardware and a published bit-accurate model answer.
//!
//! A recording is a document and a file of words, in a folder or a zip archive. Two kinds exist. Of a device: whole
//! warps, each instruction's registers before and after (`vectors.json`, `vectors.bin`). Of a model: whole matrices
//! of tensor-core instructions (`mma.json`, `mma.bin`). Both are little-endian and described by their own `layout`.
//! [`digests`] are recordings of another kind: of all inputs of a function, in digests.
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

/// Instructions with recorded answers, all from one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Who answered: a device's name, or a model's.
    pub device: String,
    /// How it was made.
    pub source: Source,
    /// The seed of the inputs.
    pub seed: u64,
    /// The layout of the words, in words.
    pub layout: String,
    /// The instructions.
    pub ops: Vec<Op>,
}

/// What kind of source answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A device executed the instructions.
    Device {
        /// Its compute capability, such as `9.0`.
        capability: String,
        /// The CUDA version of its driver, such as 13000.
        driver: u64,
    },
    /// A model computed them.
    Model,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Registers of whole warps.
    Warp(WarpOp),
    /// Matrices of a tensor-core instruction.
    Matrix(MatrixOp),
}

/// An instruction that warps executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarpOp {
    /// Its name.
    pub name: String,
    /// Its text, on registers `i0…` and `o0…`.
    pub ptx: String,
    /// Input registers.
    pub n_in: usize,
    /// Output registers.
    pub n_out: usize,
    /// What each input register was filled with.
    pub kinds: Vec<String>,
    /// Warps that executed it.
    pub cases: usize,
    /// `[case][n_in][32]`.
    pub inputs: Vec<u32>,
    /// `[case][n_out][32]`.
    pub outputs: Vec<u32>,
}

impl WarpOp {
    /// Input registers of one case, each with its 32 lanes.
    #[must_use]
    pub fn input(&self, case: usize) -> &[[u32; LANES]] {
        registers(&self.inputs, case, self.n_in)
    }

    /// Output registers of one case.
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
    /// Its name.
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
