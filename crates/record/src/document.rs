//! The types of the document, and the lookup of cells.

use ptx::arch::{PtxIsa, Requirement, Target, ToolkitVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::AuditTable;
use super::cells::CellAnswer;
use super::claim_example::ClaimExample;
use super::conflicts::ConflictRow;
use super::evidence::{ExerciseRow, FaultCoverageRow, FaultRow};
use super::named::{Named, or_empty};
use super::outcome::{Expect, Native, Outcome, Standing};
use super::pairs::PairSet;
use super::runs::{DeviceRow, VariantRun};
use super::tiles::TileTable;
use super::trials::TrialRow;

/// The schema this build writes and reads.
pub const SCHEMA: u32 = 1;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of this format; raised when a field changes its meaning.
    pub schema: u32,
    /// Name and version of the tool that wrote the record.
    pub tool: String,
    /// The capability matrix.
    pub matrix: Matrix,
    /// The GPUs that took part; none where there was none, or none was asked.
    #[serde(default)]
    pub devices: Vec<DeviceRow>,
    /// Variants of snippets on GPUs, check by check.
    #[serde(default)]
    pub runs: Vec<VariantRun>,
    /// The trials of the pipeline, on the emulator and on GPUs: each names its device; none where it was not run.
    #[serde(default)]
    pub pipeline: Vec<TrialRow>,
    /// What is known of tiles.
    #[serde(default)]
    pub tiles: TileTable,
    /// What the trials would have noticed, by kernel.
    #[serde(rename = "witness", default)]
    pub fault_coverage: Vec<FaultCoverageRow>,
    /// What the trials put each kernel configuration through.
    #[serde(default)]
    pub exercised: Vec<ExerciseRow>,
    /// What faults of single bytes each kind of data shows.
    #[serde(default)]
    pub faults: Vec<FaultRow>,
    /// Device code of files, and what becomes of it on each device.
    #[serde(default)]
    pub audit: AuditTable,
    /// The parts of the run that were asked for and not done.
    #[serde(default)]
    pub skipped: Vec<SkippedRow>,
    /// What the records that this one was merged from disagree about.
    #[serde(default)]
    pub conflicts: Vec<ConflictRow>,
}

impl Record {
    /// Creates a record that contains only a matrix.
    #[must_use]
    pub fn of_matrix(tool: String, matrix: Matrix) -> Self {
        Self {
            schema: SCHEMA,
            tool,
            matrix,
            devices: Vec::new(),
            runs: Vec::new(),
            pipeline: Vec::new(),
            tiles: TileTable::default(),
            fault_coverage: Vec::new(),
            exercised: Vec::new(),
            faults: Vec::new(),
            audit: AuditTable::default(),
            skipped: Vec::new(),
            conflicts: Vec::new(),
        }
    }
}

/// The name of the part of a run that runs the kernels.
pub const PIPELINE: &str = "MXFP4 fused-MoE pipeline";

/// The name of the part of a run that needs a GPU: snippets and the pipeline on it.
pub const GPU: &str = "GPU";

/// A part of a run that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedRow {
    /// The part, as reports head it.
    pub part: String,
    /// Why, and what would help.
    pub reason: String,
}

/// What every asked assembler did with every asked variant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// The toolkits asked, ascending.
    pub toolkits: Vec<ToolkitRow>,
    /// The disassembler that named the opcodes; none when there was none.
    pub disassembler: Option<ToolkitVersion>,
    /// The pairs asked. Those with `arch` = `target` come first, by toolkit, then target.
    pub pairs: Vec<Pair>,
    /// The snippet files.
    pub snippets: Vec<SnippetRow>,
    /// The variants, by id.
    pub variants: Vec<VariantRow>,
    /// The assemblers' messages.
    pub messages: Vec<MessageRow>,
    /// The kinds of message, with cause and remedy.
    pub kinds: Vec<KindRow>,
    /// Opcode sets: opcodes sorted and joined by a space.
    pub opcodes: Vec<String>,
    /// The claims, and how they stand.
    pub claims: Vec<ClaimRow>,
}

/// A toolkit that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolkitRow {
    /// The version of its ptxas.
    pub version: ToolkitVersion,
    /// The highest PTX ISA it knows: the one used unless a snippet pins another.
    pub isa: PtxIsa,
    /// SHA-256 of its ptxas.
    pub sha256: String,
}

/// One (toolkit, PTX `.target`, `-arch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The toolkit.
    pub toolkit: ToolkitVersion,
    /// What the PTX is written for.
    pub target: Target,
    /// What it is assembled for.
    pub arch: Target,
}

/// A snippet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnippetRow {
    /// The file.
    pub file: String,
    /// Its family: the name of its folder.
    pub family: String,
    /// What it asks; empty for a plain file.
    pub about: String,
    /// The manual's section.
    pub spec: String,
    /// The capabilities that acceptance grants.
    pub grants: Vec<String>,
}

impl SnippetRow {
    /// Returns the file name without folder and extension.
    #[must_use]
    pub fn stem(&self) -> &str {
        let name = self.file.rsplit(['/', '\\']).next().unwrap_or(&self.file);
        name.strip_suffix(".ptx").unwrap_or(name)
    }
}

/// A variant and its cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VariantRow {
    /// Its id.
    pub id: String,
    /// Index into `snippets`.
    pub snippet: usize,
    /// The opcodes that would show the hardware instruction, by dotted prefix.
    pub expects: Vec<String>,
    /// One letter per pair: A accepted, R rejected, U unknown target, I unsupported PTX ISA, C crashed, T timed out,
    /// `.` not asked. Trailing `.` are left out.
    pub outcomes: String,
    /// One letter per pair: N native, S split, E emulated, ? unknown, `.` not accepted. Trailing `.` are left out.
    pub native: String,
    /// Which message (index into `messages`) in which pairs.
    pub messages: Vec<Spread>,
    /// Which opcode set (index into `opcodes`) in which pairs.
    pub sass: Vec<Spread>,
}

/// One thing in several pairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Index of the thing.
    pub index: usize,
    /// The pairs.
    pub pairs: PairSet,
}

/// What an assembler said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageRow {
    /// Its words: the first error.
    pub text: String,
    /// Index into `kinds`; none when no kind is known for it.
    pub kind: Option<usize>,
}

impl MessageRow {
    /// Prefixes [`MessageRow::text`] with the line of the user's file.
    #[must_use]
    pub fn at_line(line: usize, message: &str) -> String {
        format!("line {line}: {message}")
    }

    /// Splits a text into the line of the user's file, if any, and the message.
    #[must_use]
    pub fn split(text: &str) -> (Option<usize>, &str) {
        let split = || {
            let (line, rest) = text.strip_prefix("line ")?.split_once(": ")?;
            Some((line.parse().ok()?, rest))
        };
        split().map_or((None, text), |(line, rest)| (Some(line), rest))
    }
}

/// A kind of message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KindRow {
    /// Its name.
    pub name: String,
    /// Why ptxas says it, in one sentence.
    pub cause: String,
    /// What to do about it, in one sentence.
    pub remedy: String,
}

/// A claim against the cells it speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    /// Index into `snippets`.
    pub snippet: usize,
    /// Who says it.
    pub source: String,
    /// Where to read it.
    pub url: Option<String>,
    /// What it says.
    pub expect: Expect,
    /// The targets it speaks of.
    pub targets: Vec<Target>,
    /// The `-arch`s it speaks of; empty for the target itself.
    #[serde(default)]
    pub archs: Vec<Target>,
    /// The toolkits it speaks of, as written; empty for all.
    #[serde(with = "or_empty")]
    #[schemars(with = "String")]
    pub toolkits: Option<Named<Requirement>>,
    /// Ids of the variants it speaks of, or none when it speaks of all of the snippet.
    pub variants: Vec<String>,
    /// Whether every variant it speaks of was asked.
    pub whole: bool,
    /// Its status in this run.
    pub standing: Standing,
    /// How it is recorded to stand; a difference (other than untested) is a finding.
    pub recorded: Standing,
    /// Answered cells it speaks of.
    pub cells: usize,
    /// Those that disagree.
    pub disagree: usize,
    /// The first that disagrees: `<variant> <toolkit> <target> <arch> <outcome>`; empty when none does.
    #[serde(with = "or_empty")]
    #[schemars(with = "String")]
    pub example: Option<Named<ClaimExample>>,
}

impl ClaimRow {
    /// Whether it covers the cells of a toolkit. A range that this build cannot parse covers none.
    #[must_use]
    pub fn covers_toolkit(&self, toolkit: ToolkitVersion) -> bool {
        self.toolkits.as_ref().is_none_or(|range| range.known().is_some_and(|r| r.allows(toolkit)))
    }

    /// Whether it covers the cells of a pair.
    #[must_use]
    pub fn covers(&self, pair: &Pair) -> bool {
        let arch =
            if self.archs.is_empty() { pair.arch == pair.target } else { self.archs.contains(&pair.arch) };
        arch && self.targets.contains(&pair.target) && self.covers_toolkit(pair.toolkit)
    }

    /// Whether the run contradicts the recorded status of the claim. One disagreeing cell refutes a claim; the absence
    /// of one confirms it only if every variant was queried.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        match (self.recorded, self.standing) {
            (_, Standing::Untested) => false,
            (Standing::Refuted, Standing::Confirmed) => self.whole,
            (recorded, standing) => recorded != standing,
        }
    }
}

/// A cell with its opcodes and message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// How the assembler responded.
    pub outcome: Outcome,
    /// The verdict on the machine code; `None` if not accepted.
    pub native: Option<Native>,
    /// The opcodes, sorted and joined by spaces; empty if not accepted or not disassembled.
    pub sass: &'a str,
    /// The message of the assembler; `None` if accepted.
    pub message: Option<&'a MessageRow>,
}

impl Matrix {
    /// Returns the cell of a variant in a pair (an index into `pairs`); `None` if it was not queried.
    #[must_use]
    pub fn cell<'a>(&'a self, variant: &'a VariantRow, pair: usize) -> Option<Cell<'a>> {
        let find = |spreads: &'a [Spread]| spreads.iter().find(|s| s.pairs.contains(pair)).map(|s| s.index);
        let CellAnswer { outcome, native } = variant.answer(pair)?;
        Some(Cell {
            outcome,
            native,
            sass: find(&variant.sass).and_then(|i| self.opcodes.get(i)).map_or("", String::as_str),
            message: find(&variant.messages).and_then(|i| self.messages.get(i)),
        })
    }

    /// Returns the index of a pair.
    #[must_use]
    pub fn pair(&self, toolkit: ToolkitVersion, target: Target, arch: Target) -> Option<usize> {
        self.pairs.iter().position(|p| *p == Pair { toolkit, target, arch })
    }

    /// Returns the targets queried with `arch` = `target`, ascending.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        let mut targets: Vec<Target> =
            self.pairs.iter().filter(|p| p.target == p.arch).map(|p| p.target).collect();
        targets.sort();
        targets.dedup();
        targets
    }
}
