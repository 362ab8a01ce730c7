//! How a launch ends badly: the kernel is wrong, we are incomplete, or we are broken. The three never mix.

use std::fmt;

/// Where in the kernel something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The launch of its stream, from 0.
    pub launch: usize,
    /// The kernel.
    pub kernel: String,
    /// Line of the PTX text, from 1; 0 when there is none.
    pub line: usize,
    /// The instruction as written.
    pub instruction: String,
    /// Line of the source file, as `.loc` says: file and line.
    pub source: Option<(String, u32)>,
    /// The CTA.
    pub cta: [u32; 3],
    /// The warp within the CTA.
    pub warp: u32,
    /// The lane, when one is meant.
    pub lane: Option<u32>,
}

/// A rule of PTX that a kernel broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An access outside every allocation, or across the end of one.
    OutOfBounds,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// An address of another state space.
    WrongSpace,
    /// An access to memory that was freed.
    UseAfterFree,
    /// Bits of a register or of memory that nobody wrote decide something, or leave the grid.
    Uninitialised,
    /// Two accesses that nothing orders, at least one of them a write.
    Race,
    /// A barrier, or an `.aligned` instruction, that not all lanes of the warp reach together.
    Divergent,
    /// Nothing can go on.
    Deadlock,
    /// More instructions than the launch was given.
    Fuel,
    /// A barrier object that is used against its rules: count, phase, tx-count.
    Barrier,
    /// A tensor map or a tensor instruction that breaks its rules.
    TensorMap,
    /// Data of the primary grid touched before `griddepcontrol.wait`.
    Dependency,
    /// `trap`, `brkpt`, or a failed assertion of the kernel itself.
    Explicit,
    /// An operand value that PTX leaves undefined.
    Operand,
}

impl Rule {
    /// The rule in one word, as reports and tests name it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::OutOfBounds => "out_of_bounds",
            Self::Misaligned => "misaligned",
            Self::WrongSpace => "wrong_space",
            Self::UseAfterFree => "use_after_free",
            Self::Uninitialised => "uninitialised",
            Self::Race => "race",
            Self::Divergent => "divergent",
            Self::Deadlock => "deadlock",
            Self::Fuel => "fuel",
            Self::Barrier => "barrier",
            Self::TensorMap => "tensor_map",
            Self::Dependency => "dependency",
            Self::Explicit => "trap",
            Self::Operand => "operand",
        }
    }
}

/// The kernel is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// The rule.
    pub rule: Rule,
    /// What happened, with addresses.
    pub what: String,
    /// Where.
    pub place: Place,
}

/// Why a launch did not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The kernel is wrong.
    #[error("{0}")]
    Trap(Box<Trap>),
    /// The emulator lacks something that the kernel uses.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// The launch cannot be made: entry, arguments, sizes.
    #[error("{0}")]
    Launch(String),
    /// The emulator is wrong.
    #[error("the emulator failed: {0}; please report it")]
    Bug(String),
}

/// Why a stream of launches did not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("launch {launch} of the stream: {stop}")]
pub struct StreamStop {
    /// The launch that failed, from 0.
    pub launch: usize,
    /// What happened.
    pub stop: Stop,
}

impl From<StreamStop> for Stop {
    fn from(stopped: StreamStop) -> Self {
        stopped.stop
    }
}

/// A form that the emulator lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The form, as written.
    pub form: String,
    /// Line of the PTX text, from 1.
    pub line: usize,
    /// Why, or the nearest form that is known.
    pub why: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}` is not emulated: {}", self.line, self.form, self.why)
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.rule.word(), self.what, self.place)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", super::names::readable(&self.kernel))?;
        if self.line > 0 {
            write!(f, ", PTX line {} `{}`", self.line, self.instruction)?;
        }
        if let Some((file, line)) = &self.source {
            write!(f, ", {file}:{line}")?;
        }
        let [x, y, z] = self.cta;
        write!(f, ", CTA ({x},{y},{z}), warp {}", self.warp)?;
        match self.lane {
            Some(lane) => write!(f, ", lane {lane}"),
            None => Ok(()),
        }
    }
}

/// What a violation does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Judge {
    /// It ends the launch.
    #[default]
    Strict,
    /// Races and undefined values are told to the observer, once for each instruction, and the launch goes on; other violations end it.
    Values,
}

/// What an instruction reports: the machine adds the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) rule: Rule,
    pub(super) what: String,
    pub(super) lane: Option<u32>,
    /// Where the undefined bits come from.
    pub(super) cause: Option<Cause>,
}

/// What made bits undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cause {
    /// The row that made them.
    pub(super) pc: u32,
    pub(super) source: Source,
}

/// What gives undefined bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A register that this path did not write.
    Register,
    /// Memory that nobody wrote.
    Memory,
    /// An integer division by zero.
    Quotient,
}

impl Fault {
    pub(super) fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into(), lane: None, cause: None }
    }

    pub(super) fn at(mut self, lane: usize) -> Self {
        self.lane = Some(u32::try_from(lane).unwrap_or_default());
        self
    }
}
