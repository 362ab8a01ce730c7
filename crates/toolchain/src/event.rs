//! Progress events and the sink that receives them. Nothing here prints.

/// A progress report, emitted while work runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A download of `what` (`ptxas 13.5.37`) began; `bytes` is the pinned size of its wheel.
    FetchStarted {
        /// Tool and version.
        what: String,
        /// Size of the wheel in bytes.
        bytes: u64,
    },
    /// `done` bytes of the download of `what` have arrived.
    FetchProgress {
        /// Tool and version.
        what: String,
        /// Bytes on disk so far.
        done: u64,
    },
    /// The download of `what` ended: it is installed, or the call that started it returns the error.
    FetchFinished {
        /// Tool and version.
        what: String,
    },
    /// The matrix is about to judge `cells` cells in `pairs` (toolkit, target, arch) pairs.
    MatrixStarted {
        /// Pairs to be judged.
        pairs: usize,
        /// Cells to be judged.
        cells: usize,
    },
    /// One pair is done.
    PairFinished {
        /// The pair, as `13.5.37 sm_121a`.
        pair: String,
    },
    /// All pairs are done; disassembly of `instructions` machine instructions follows.
    SassStarted {
        /// Distinct machine instructions to name.
        instructions: usize,
    },
    /// The matrix is complete.
    MatrixFinished,
    /// The trials of the pipeline are about to run.
    TrialsStarted {
        /// Number of trials, all targets together.
        trials: usize,
    },
    /// One trial is done.
    TrialFinished,
    /// All trials are done.
    TrialsFinished,
    /// Functions are about to be compared, or run on a GPU, on all their inputs.
    FunctionsStarted {
        /// Number of functions.
        functions: usize,
    },
    /// One function is done.
    FunctionFinished,
    /// All functions are done.
    FunctionsFinished,
    /// Something the user should know that does not stop the run.
    Warning {
        /// A full sentence.
        text: String,
    },
    /// A file that cannot be used and is skipped.
    Problem {
        /// Place and reason.
        text: String,
    },
    /// An action the tool takes without being asked, such as fetching a toolkit.
    Notice {
        /// A full sentence.
        text: String,
    },
}

/// Receives events; shared between threads.
pub trait Sink: Sync {
    /// Handles one event.
    fn emit(&self, event: Event);
}

/// Drops every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Sink for Silent {
    fn emit(&self, _: Event) {}
}
