//! Errors of launches: invalid calls and files, failed launches, and wrong results.

use std::path::PathBuf;

use emulator::argument::BadArgument;
use emulator::trials::{Cause, Difference, Undetermined};
use emulator::{Stop, Trap, VariableError};

use super::run::Stopped;
use crate::header::{EntriesError, HeaderError};
use crate::job::JobError;
use crate::record::{Incomplete, counted};
use crate::toolkit::{ContractionError, NvrtcError};

/// The reason why launches failed, or why their results are wrong.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: std::io::Error,
    },
    /// A compiler option was given for a file that is not compiled.
    #[error("{0} is for .cu files; a .ptx file names its own target")]
    OnlyCuda(&'static str),
    /// The target is unknown.
    #[error(transparent)]
    Target(#[from] ptx::arch::UnknownTarget),
    /// No module names a target.
    #[error("the PTX names no known target: write a line such as `.target sm_121a`")]
    NoTarget,
    /// NVRTC is not found, or it rejects the source.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// The NVRTC or the ptxas cannot be selected or fetched.
    #[error(transparent)]
    Job(Box<JobError>),
    /// A module cannot be loaded, or a kernel violates a rule.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The kernel does not exist, or none is named and the module does not have exactly one.
    #[error("{}", entry_words(file, wanted.as_deref(), *fits_several, there))]
    Entry {
        /// The module.
        file: String,
        /// The requested kernel, if one is.
        wanted: Option<String>,
        /// Whether that fits several.
        fits_several: bool,
        /// The names of the entries, or of those that it fits.
        there: Vec<String>,
    },
    /// NVRTC does not find a header.
    #[error(
        "{rejected}\n`{header}` is in no folder that was searched: name its folder with `-I DIR`. The headers of CUDA and CUTLASS need \
         no -I: they are found on this machine, or fetched"
    )]
    Header {
        /// The header.
        header: String,
        /// What NVRTC says.
        rejected: Box<NvrtcError>,
    },
    /// A source includes a header of the host's library.
    #[error(
        "{rejected}\n`{header}` is a header of the host's library, which NVRTC does not have: put the kernels into a file without it, or \
         build the program with nvcc and run it with `sm121probe exec`"
    )]
    HostHeader {
        /// The header.
        header: String,
        /// What NVRTC says.
        rejected: Box<NvrtcError>,
    },
    /// A file has no PTX that can be used.
    #[error(transparent)]
    Source(#[from] crate::lint::SourceError),
    /// Translation units cannot be linked.
    #[error(transparent)]
    Link(#[from] ptx::link::LinkError),
    /// A text is not PTX.
    #[error("{name}: {error}")]
    Syntax {
        /// The module.
        name: String,
        /// Its text.
        text: String,
        /// What is wrong with it.
        error: Box<ptx::SyntaxError>,
    },
    /// An argument cannot be parsed.
    #[error(transparent)]
    Argument(#[from] BadArgument),
    /// The number of arguments differs from the number of parameters.
    #[error("{kernel} takes {}, not {given}: {list}", counted(*wanted, "argument"))]
    Count {
        /// The kernel.
        kernel: String,
        /// The number of parameters.
        wanted: usize,
        /// The number of arguments.
        given: usize,
        /// The parameters, in words.
        list: String,
    },
    /// An argument does not fit its parameter, in words: structured fields would make every `Result` large.
    #[error("{0}")]
    Fit(String),
    /// Two buffers have the same name.
    #[error("two buffers are named `{0}`")]
    Twice(String),
    /// The buffers need more memory than the machine has.
    #[error("the buffers need {wanted} bytes in total; this machine has {there} free")]
    Memory {
        /// Bytes that the buffers need.
        wanted: usize,
        /// Bytes that are available.
        there: usize,
    },
    /// A safetensors file, or a tensor in it, cannot be used.
    #[error("{} has no usable tensor: {why}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No buffer is named like a tensor of the file.
    #[error("{} is to be compared, but no buffer is named like one of its tensors ({there}); the buffers are: {buffers}", path.display())]
    NothingExpected {
        /// The file.
        path: PathBuf,
        /// Its tensors.
        there: String,
        /// The names of the buffers.
        buffers: String,
    },
    /// No buffer has the name that is to be compared.
    #[error("`{name}` is to be compared, and is no buffer; the buffers are: {buffers}")]
    NoSuchBuffer {
        /// The name.
        name: String,
        /// The names of the buffers.
        buffers: String,
    },
    /// A file of expected values cannot be used.
    #[error("{} cannot be compared: {why}", path.display())]
    Expectation {
        /// The file.
        path: PathBuf,
        /// What is wrong and how to fix it.
        why: String,
    },
    /// A tensor has no buffer of the same name.
    #[error("{}: no buffer is named like tensor `{tensor}`; the buffers are: {buffers}", path.display())]
    NoBuffer {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The names of the buffers.
        buffers: String,
    },
    /// The file has tensors for inputs only.
    #[error("{} has no tensor for any result of the kernel ({outputs}), so nothing would be compared", path.display())]
    NoOutput {
        /// The file.
        path: PathBuf,
        /// The names of the outputs.
        outputs: String,
    },
    /// A launch file does not match its schema.
    #[error(transparent)]
    Form(#[from] HeaderError),
    /// A launch file cannot be read.
    #[error(transparent)]
    File(#[from] EntriesError),
    /// A launch file is semantically invalid.
    #[error("{}:{line}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// A module variable cannot be set.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// A folder of Triton's cache cannot be used.
    #[error("{}: {why}", path.display())]
    Triton {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong and how to fix it.
        why: String,
    },
    /// The results cannot be written.
    #[error("{} cannot be written: {why}", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A kernel violated a rule, and the launch went on.
    #[error("{0}")]
    Violated(Box<Trap>),
    /// Results differ between trials.
    #[error("{}{_0}", if _0.cause == Cause::Filling { "" } else { "schedules disagree: " })]
    Differs(Box<Difference>),
    /// Results depend on what PTX leaves open.
    #[error("{0}")]
    Undetermined(Box<Undetermined>),
    /// It is unknown which pairs ptxas contracts.
    #[error(transparent)]
    Contraction(#[from] ContractionError),
    /// Buffers are to be compared, and nothing of them was.
    #[error("{0}")]
    NotCompared(Incomplete),
    /// Results differ from the expected values: the number of buffers.
    #[error("{0} of the compared buffers differ from the expected values")]
    Expected(usize),
}

impl LaunchError {
    /// Whether the error is a finding about the kernel, not a problem of the call.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        match self {
            Self::Violated(_) | Self::Differs(_) | Self::Undetermined(_) | Self::Expected(_) => true,
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

/// Says which kernels a module has, and how to choose one.
fn entry_words(file: &str, wanted: Option<&str>, fits_several: bool, there: &[String]) -> String {
    // A shell takes `<` for itself.
    let quoted =
        |name: &String| if name.contains(['<', ' ', '*']) { format!("'{name}'") } else { name.clone() };
    let there: Vec<String> = there.iter().map(quoted).collect();
    match (wanted, there.as_slice()) {
        (_, []) => format!("{file} has no kernel"),
        (Some(wanted), _) if fits_several => {
            format!(
                "`{wanted}` fits {} kernels of {file}: choose one with --entry: {}",
                there.len(),
                there.join(", ")
            )
        }
        (Some(wanted), _) => format!("{file} has no kernel `{wanted}`; it has {}", there.join(", ")),
        (None, [first, second]) => {
            format!("{file} has 2 kernels: choose --entry {first} or --entry {second}")
        }
        (None, _) => {
            format!("{file} has {} kernels: choose one with --entry: {}", there.len(), there.join(", "))
        }
    }
}
