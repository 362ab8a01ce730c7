//! Why launches cannot be made, or give other results than they should.

use std::path::PathBuf;

use emulator::argument::BadArgument;
use emulator::{Stop, VariableError};

use super::run::Stopped;
use crate::header::{EntriesError, HeaderError};
use crate::job::JobError;
use crate::toolkit::{ContractionError, NvrtcError};

/// Why launches cannot be made, or give other results than they should.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file has no name of a kernel's source.
    #[error("{} is neither .ptx nor .cu", .0.display())]
    Kind(PathBuf),
    /// An option of the compiler for a file that is not compiled.
    #[error("{0} is for .cu files; a .ptx file names its own target")]
    OnlyCuda(&'static str),
    /// The name of the target is none.
    #[error(transparent)]
    Target(#[from] ptx::arch::UnknownTarget),
    /// No NVRTC, or it refuses the source.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// The NVRTC cannot be had.
    #[error(transparent)]
    Job(Box<JobError>),
    /// A module cannot be loaded, or a kernel violates a rule.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// No such kernel, or several to choose from.
    #[error("{file} has no entry{wanted}; its entries: {there}")]
    Entry {
        /// The module.
        file: String,
        /// The name, in words.
        wanted: String,
        /// The names of the entries.
        there: String,
    },
    /// Text that is no argument.
    #[error(transparent)]
    Argument(#[from] BadArgument),
    /// Arguments that are too few or too many.
    #[error("{kernel} takes {wanted} arguments, not {given}: {list}")]
    Count {
        /// The kernel.
        kernel: String,
        /// Its parameters.
        wanted: usize,
        /// The arguments.
        given: usize,
        /// The parameters, in words.
        list: String,
    },
    /// An argument that its parameter cannot take. In words, for the parts would make every result large.
    #[error("{0}")]
    Fit(String),
    /// A name for two buffers.
    #[error("two buffers are named `{0}`")]
    Twice(String),
    /// More than the machine has.
    #[error("the buffers need {wanted} bytes in total; this machine has {there} free")]
    Memory {
        /// Bytes.
        wanted: usize,
        /// Bytes.
        there: usize,
    },
    /// A file of tensors that cannot be used.
    #[error("{} has no usable tensor: {why}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A tensor that no buffer is compared with.
    #[error("{} is to be compared, but no buffer is named like one of its tensors ({there}); the buffers are: {buffers}", path.display())]
    NothingExpected {
        /// The file.
        path: PathBuf,
        /// Its tensors.
        there: String,
        /// The names of the buffers.
        buffers: String,
    },
    /// A tensor whose name no buffer has.
    #[error("{}: no buffer is named like tensor `{tensor}`; the buffers are: {buffers}", path.display())]
    NoBuffer {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The names of the buffers.
        buffers: String,
    },
    /// A file that has inputs alone.
    #[error("{} has no tensor for any result of the kernel ({outputs}), so nothing would be compared", path.display())]
    NoOutput {
        /// The file.
        path: PathBuf,
        /// The names of the outputs.
        outputs: String,
    },
    /// A launch file that is not of its form.
    #[error(transparent)]
    Form(#[from] HeaderError),
    /// A launch file that cannot be read.
    #[error(transparent)]
    File(#[from] EntriesError),
    /// A launch file whose meaning is impossible.
    #[error("{}:{line}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A module variable cannot be set.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// A folder of Triton's cache that cannot be used.
    #[error("{}: {why}", path.display())]
    Triton {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The results cannot be written.
    #[error("{} cannot be written: {why}", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Outputs differ between schedules.
    #[error(
        "schedules disagree: buffer `{buffer}` differs between seed 0 and seed {seed}, first at byte {byte}; the \
        result depends on the order of warps, on a GPU too"
    )]
    Schedules {
        /// The buffer.
        buffer: String,
        /// The schedule.
        seed: u64,
        /// The byte.
        byte: usize,
    },
    /// Sums of float atomics differ by more than the order of their adds explains.
    #[error(
        "schedules disagree: element {index} of buffer `{buffer}`, a sum of {terms} numbers by float atomics, is {first} under seed \
        0 and {other} under seed {seed}; the order of the adds explains a difference of {bound:e} at most"
    )]
    Sums {
        /// The buffer.
        buffer: String,
        /// The element.
        index: usize,
        /// The schedule.
        seed: u64,
        /// Numbers in the sum.
        terms: u64,
        /// The sum under seed 0.
        first: f64,
        /// The sum under the schedule.
        other: f64,
        /// The largest difference that rounding explains.
        bound: f64,
    },
    /// Outputs depend on what nobody wrote.
    #[error(
        "buffer `{buffer}` depends on memory or registers that nobody wrote: byte {byte} differs where they hold {first:#04x} and \
        where they hold {other:#04x}"
    )]
    Poison {
        /// The buffer.
        buffer: String,
        /// The byte.
        byte: usize,
        /// What unwritten bytes held.
        first: u8,
        /// What they held the other time.
        other: u8,
    },
    /// It is not known what ptxas contracts.
    #[error(transparent)]
    Contraction(#[from] ContractionError),
    /// Results differ from what is expected.
    #[error("{0} of the compared buffers differ from the expected values")]
    Expected(usize),
}

impl LaunchError {
    /// Whether the kernel is at fault, not the call.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        match self {
            Self::Schedules { .. } | Self::Sums { .. } | Self::Poison { .. } | Self::Expected(_) => true,
            Self::Stopped(stopped) => matches!(stopped.stop, Stop::Trap(_)),
            _ => false,
        }
    }
}

impl From<JobError> for LaunchError {
    fn from(error: JobError) -> Self {
        Self::Job(Box::new(error))
    }
}
