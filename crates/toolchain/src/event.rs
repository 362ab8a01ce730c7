//! Progress and results as events into a sink. Nothing here prints.

/// Something that happened, told while it happens.
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
    /// The download of `what` ended: installed, or failed (the error follows by return value).
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
    /// So many trials of the pipeline are about to run.
    TrialsStarted {
        /// Trials of all targets.
        trials: usize,
    },
    /// One of them is done.
    TrialFinished,
    /// All of them are done.
    TrialsFinished,
    /// So many functions are about to be compared, or asked of a GPU, on all their inputs.
    FunctionsStarted {
        /// Functions.
        functions: usize,
    },
    /// One of them is done.
    FunctionFinished,
    /// All of them are done.
    FunctionsFinished,
    /// Something the user should know that stops nothing.
    Warning {
        /// A full sentence.
        text: String,
    },
    /// A file that cannot be used; the others are.
    Problem {
        /// Place and reason.
        text: String,
    },
    /// What the tool is about to do without being asked, such as fetching a toolkit.
    Notice {
        /// A full sentence.
        text: String,
    },
}

/// Receives events; shared by threads.
pub trait Sink: Sync {
    /// Takes one event.
    fn emit(&self, event: Event);
}

/// Drops every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Sink for Silent {
    fn emit(&self, _: Event) {}
}
