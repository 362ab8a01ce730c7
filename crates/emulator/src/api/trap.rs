//! The ways a launch can fail: the kernel is wrong, the emulator is incomplete, or the emulator is wrong. They are never confused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::run::stream::InStream;
use crate::run::watchpoint::Accessed;

/// Where in the kernel something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Index of the launch in its stream, from 0; not serialized.
    #[serde(skip)]
    pub launch: usize,
    /// The kernel.
    pub kernel: String,
    /// Line of the PTX text, from 1; 0 if unknown.
    pub line: usize,
    /// The instruction as written.
    pub instruction: String,
    /// File and line of the source, from `.loc`.
    pub source: Option<(String, u32)>,
    /// The text of that line, if the file could be read.
    #[serde(default)]
    pub source_text: Option<String>,
    /// If that line is of a function that was inlined: file and line of the call in the kernel itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_at: Option<(String, u32)>,
    /// The text of the line with the call, if the file could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_text: Option<String>,
    /// The CTA.
    pub cta: [u32; 3],
    /// The warp within the CTA.
    pub warp: u32,
    /// The lane, if a single one is concerned.
    pub lane: Option<u32>,
}

/// A rule of PTX that a kernel can violate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An access outside every allocation, or across the end of one.
    OutOfBounds,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// An address that belongs to another state space.
    WrongSpace,
    /// An access to freed memory.
    UseAfterFree,
    /// Never-written bits of a register or of memory that decide something or leave the grid.
    Uninitialised,
    /// Two unordered accesses to the same bytes, at least one of them a write.
    Race,
    /// A barrier or an `.aligned` instruction that not all lanes of the warp reach together.
    Divergent,
    /// No warp can make progress.
    Deadlock,
    /// The launch executed more instructions than its limit.
    Fuel,
    /// A barrier object used against its rules: count, phase, tx-count.
    Barrier,
    /// A tensor map or a tensor instruction that violates its rules.
    TensorMap,
    /// An access to data of the primary grid before `griddepcontrol.wait`.
    Dependency,
    /// `trap`, `brkpt`, or a failed assertion in the kernel.
    Explicit,
    /// An operand value for which PTX leaves the behaviour undefined.
    Operand,
}

impl Rule {
    /// The identifier of the rule in reports and tests.
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

/// A violation by the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// The violated rule.
    pub rule: Rule,
    /// What happened, with addresses.
    pub what: String,
    /// Where it happened.
    pub place: Place,
    /// If two accesses are to blame, as in a race: the other one.
    pub other: Option<Box<OtherAccess>>,
}

/// The other one of two accesses to the same bytes that nothing orders; in the execution that was observed, mostly the earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAccess {
    /// The first byte that both access, as a generic address.
    pub byte: u64,
    /// Whether it wrote.
    pub wrote: bool,
    /// The number of its CTA in the stream, from 1, and its warp there.
    pub(crate) thread: (u32, u32),
    /// The number of the CTA whose shared memory the byte is in; 0 if it is in global memory.
    pub(crate) owner: u32,
    /// The access itself, in a replay.
    pub(crate) at: Option<Accessed>,
    /// Where it happened; `None` until a replay of the launch has found it.
    pub place: Option<Place>,
}

/// What precedes the place of the other access in the text of a violation.
pub const OTHER_ACCESS: &str = "; the other access: ";

/// The reason why a launch did not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The kernel violated a rule.
    #[error("{0}")]
    Trap(Box<Trap>),
    /// The emulator does not support something that the kernel uses.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// The launch is invalid: entry, arguments or sizes.
    #[error("{0}")]
    Launch(String),
    /// The emulator failed.
    #[error("the emulator failed: {0}; please report it")]
    Bug(String),
}

/// The reason why a stream of launches did not finish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("launch {launch} of the stream: {stop}")]
pub struct StreamStop {
    /// Index of the failed launch, from 0.
    pub launch: usize,
    /// The cause.
    pub stop: Stop,
}

impl From<StreamStop> for Stop {
    fn from(stopped: StreamStop) -> Self {
        stopped.stop
    }
}

/// What lacks a form that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// The emulator does not support it.
    Emulator,
    /// PTX has no such form, or the version or the target of the module lacks it: ptxas refuses it, too.
    Ptx,
}

/// An instruction form or directive that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The form as written.
    pub form: String,
    /// Line of the PTX text, from 1.
    pub line: usize,
    /// The reason, or the nearest supported form.
    pub why: String,
    /// What lacks it.
    pub lack: Lack,
}

impl Place {
    /// Reads the text of the source's line, if the file is where the module says. A module from elsewhere names files that this
    /// machine lacks, and a relative name may be that of any file: the instruction then stands alone.
    pub(crate) fn read_source(&mut self) {
        self.source_text = self.source_text.take().or_else(|| line_of(self.source.as_ref()?));
        self.inlined_text = self.inlined_text.take().or_else(|| line_of(self.inlined_at.as_ref()?));
    }
}

/// The text of a line of a file with an absolute path, with single spaces.
fn line_of((file, line): &(String, u32)) -> Option<String> {
    let path = std::path::Path::new(file);
    let text = if path.is_absolute() { std::fs::read(path).ok()? } else { return None };
    let row = text.split(|byte| *byte == b'\n').nth((*line as usize).checked_sub(1)?)?;
    let row = String::from_utf8_lossy(row).split_whitespace().collect::<Vec<_>>().join(" ");
    Some(row).filter(|row| !row.is_empty())
}

impl Trap {
    /// A violation by one access.
    #[must_use]
    pub fn new(rule: Rule, what: String, place: Place) -> Self {
        Self { rule, what, place, other: None }
    }

    /// Reads the lines of the source that it names ([`Place::source_text`]).
    pub(crate) fn read_sources(&mut self) {
        self.place.read_source();
        if let Some(place) = self.other.as_mut().and_then(|other| other.place.as_mut()) {
            place.read_source();
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.lack {
            Lack::Emulator => " is not emulated",
            Lack::Ptx => "",
        };
        write!(f, "line {}: `{}`{verdict}: {}", self.line, self.form, self.why)
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.rule.word(), self.what, self.place)?;
        match self.other.as_ref().and_then(|other| other.place.as_ref()) {
            Some(place) => write!(f, "{OTHER_ACCESS}{place}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", crate::api::names::readable(&self.kernel))?;
        if self.line > 0 {
            write!(f, ", PTX line {} `{}`", self.line, self.instruction)?;
        }
        if let Some((file, line)) = &self.source {
            write!(f, ", {file}:{line}")?;
        }
        if let Some(text) = &self.source_text {
            write!(f, " `{text}`")?;
        }
        if let Some((file, line)) = &self.inlined_at {
            write!(f, ", inlined at {file}:{line}")?;
        }
        if let Some(text) = &self.inlined_text {
            write!(f, " `{text}`")?;
        }
        let [x, y, z] = self.cta;
        write!(f, ", CTA ({x},{y},{z}), warp {}", self.warp)?;
        match self.lane {
            Some(lane) => write!(f, ", lane {lane}"),
            None => Ok(()),
        }
    }
}

/// How violations are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Judge {
    /// Every violation ends the launch.
    #[default]
    Strict,
    /// Races and uses of undefined values are reported to the observer once per instruction and the launch continues; other
    /// violations end it.
    Values,
}

/// A fault of an instruction, before its place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) rule: Rule,
    pub(crate) what: String,
    pub(crate) lane: Option<u32>,
    /// The origin of the undefined bits.
    pub(crate) cause: Option<Cause>,
    /// The earlier one of two accesses that race.
    pub(crate) other: Option<Box<OtherAccess>>,
}

/// The origin of undefined bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The row that produced them.
    pub(crate) pc: u32,
    pub(crate) source: Source,
}

/// Sources of undefined bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A register that was not written on this path.
    Register,
    /// Memory that was never written.
    Memory,
    /// An integer division by zero.
    Quotient,
    /// A lane that takes no part in a shuffle.
    Lane,
}

impl Fault {
    pub(crate) fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into(), lane: None, cause: None, other: None }
    }

    pub(crate) fn at(mut self, lane: usize) -> Self {
        self.lane = Some(u32::try_from(lane).unwrap_or_default());
        self
    }

    /// A conflict with an earlier access to the byte at this generic address, by a warp of the CTA with this number in the stream.
    /// `owner` is the number of the CTA whose shared memory it is in, or 0.
    pub(crate) fn against(mut self, (owner, byte): (u32, u64), wrote: bool, thread: (u32, u32)) -> Self {
        self.other = Some(Box::new(OtherAccess { byte, wrote, thread, owner, at: None, place: None }));
        self
    }

    /// The violation at a place, in a stream of launches.
    pub(crate) fn into_trap(self, launches: &[InStream<'_>], what: String, place: Place) -> Trap {
        let mut other = self.other;
        if let Some(other) = &mut other {
            other.place = other.place.take().or_else(|| Some(other.at?.place(launches)));
        }
        Trap { rule: self.rule, what, place, other }
    }
}
