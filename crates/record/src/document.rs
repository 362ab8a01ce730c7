//! The types of the document, and the lookup of cells.

use ptx::arch::{PtxIsa, Requirement, Target, ToolkitVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::AuditTable;
use super::cells::CellAnswer;
use super::claim_example::ClaimExample;
use super::completeness::{Completeness, Incomplete};
use super::conflicts::ConflictRow;
use super::evidence::{ExerciseRow, FaultCoverageRow, FaultRow};
use super::family::FamilyRow;
use super::fuzz::FuzzTable;
use super::named::{Named, or_empty};
use super::outcome::{Expect, Native, Outcome, Standing};
use super::pairs::PairSet;
use super::runs::{DeviceRow, VariantRun};
use super::selftest::SelftestRow;
use super::tiles::TileTable;
use super::trials::TrialRow;

/// The schema that this build writes. It also reads schema 1.
pub const SCHEMA: u32 = 2;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of this format; it increases when a field changes its meaning.
    pub schema: u32,
    /// Name and version of the tool that wrote the record.
    pub tool: String,
    /// The capability matrix.
    pub matrix: Matrix,
    /// The GPUs of the run; empty if none was used.
    #[serde(default)]
    pub devices: Vec<DeviceRow>,
    /// Snippet variants on GPUs, with every check.
    #[serde(default)]
    pub runs: Vec<VariantRun>,
    /// The families of kernels that the other parts name.
    #[serde(default)]
    pub families: Vec<FamilyRow>,
    /// The trials of kernels on the emulator and on GPUs; each names its family and its device. Empty if no kernel was run.
    #[serde(default)]
    pub trials: Vec<TrialRow>,
    /// The kernel configurations, by how they would be compiled.
    #[serde(default)]
    pub tiles: TileTable,
    /// The faults that the trials' data expose, per kernel.
    #[serde(default)]
    pub fault_coverage: Vec<FaultCoverageRow>,
    /// What the trials exercise in each kernel configuration.
    #[serde(default)]
    pub exercised: Vec<ExerciseRow>,
    /// The single-byte faults that each kind of data exposes.
    #[serde(default)]
    pub faults: Vec<FaultRow>,
    /// Device code in files, and how it runs on each device.
    #[serde(default)]
    pub audit: AuditTable,
    /// Instructions, compared with the emulator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selftest: Vec<SelftestRow>,
    /// Random kernels on GPUs, with every compiler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fuzzed: Vec<FuzzTable>,
    /// The requested parts of the run that were skipped.
    #[serde(default)]
    pub skipped: Vec<SkippedRow>,
    /// The questions on which the merged records disagree.
    #[serde(default)]
    pub conflicts: Vec<ConflictRow>,
    /// The globs that selected the variants; empty if all were selected. The gate repeats the selection of its baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
}

impl Record {
    /// Returns what the run did not check although it was asked to.
    #[must_use]
    pub fn incomplete(&self) -> Option<Incomplete> {
        self.completeness().incomplete("every cell is unknown to its toolkit, or its ptxas crashed")
    }

    /// Counts what the run checked, and names its gaps. A cell counts as checked if an assembler accepted or rejected it.
    #[must_use]
    pub fn completeness(&self) -> Completeness {
        let cells = |outcome| -> usize { self.matrix.variants.iter().map(|v| v.count(outcome)).sum() };
        let mut all = Completeness::of_checks(cells(Outcome::Accepted) + cells(Outcome::Rejected));
        all.add_checks(self.trials.iter().filter(|trial| trial.is_judged()).count());
        all.add_checks(self.runs.iter().filter(|run| run.is_judged()).count());
        all.add_checks(self.tiles.rows.len() + self.audit.entries.len());
        all.add_checks(self.selftest.iter().filter(|row| row.outputs > 0).count());
        all.add_checks(self.fuzzed.iter().filter(|table| table.compared() > 0).count());
        // Packages that compile at run time need no device code in their files, nor do those of an engine.
        all.add_checks(self.audit.packages.iter().filter(|p| !p.compiles.is_empty()).count());
        all.add_checks(self.audit.backends.len());
        // A crash is an answer about the assembler; a time limit leaves the question open.
        match cells(Outcome::TimedOut) {
            0 => {}
            1 => all.add_gap("ptxas exceeded the time limit on 1 cell"),
            many => all.add_gap(format!("ptxas exceeded the time limit on {many} cells")),
        }
        for row in self.skipped.iter().filter(|row| row.needed) {
            all.add_gap(format!("{} was skipped: {}", row.part, row.reason));
        }
        if let Some(first) = self.audit.problems.first() {
            let such = format!("{}: {}", first.place, first.problem);
            all.add_gap(match self.audit.problems.len() {
                1 => format!("1 piece of code was not read: {such}"),
                many => format!("{many} pieces of code were not read, such as {such}"),
            });
        }
        all
    }

    /// Returns what is known about a family; `None` if the record does not describe it.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<&FamilyRow> {
        self.families.iter().find(|family| family.name == name)
    }

    /// Creates a record that contains only a matrix.
    #[must_use]
    pub fn of_matrix(tool: String, matrix: Matrix) -> Self {
        Self {
            schema: SCHEMA,
            tool,
            matrix,
            devices: Vec::new(),
            runs: Vec::new(),
            families: Vec::new(),
            trials: Vec::new(),
            tiles: TileTable::default(),
            fault_coverage: Vec::new(),
            exercised: Vec::new(),
            faults: Vec::new(),
            audit: AuditTable::default(),
            skipped: Vec::new(),
            conflicts: Vec::new(),
            selftest: Vec::new(),
            fuzzed: Vec::new(),
            filters: Vec::new(),
        }
    }
}

/// The name of the part of a run that needs a GPU: snippets and trials on it.
pub const GPU: &str = "GPU";

/// A part of a run that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedRow {
    /// The part, as in the headings of reports.
    pub part: String,
    /// The reason and the remedy.
    pub reason: String,
    /// Whether the run is incomplete without it: it was asked for, and the machine lacks what it needs.
    #[serde(default)]
    pub needed: bool,
}

/// The answer of each assembler for each variant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// The toolkits, in ascending order.
    pub toolkits: Vec<ToolkitRow>,
    /// The disassembler that named the opcodes; null if none was available.
    pub disassembler: Option<ToolkitVersion>,
    /// The pairs. Those with `arch` = `target` come first, sorted by toolkit, then target.
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
    /// The claims and their status.
    pub claims: Vec<ClaimRow>,
}

/// A toolkit of the matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolkitRow {
    /// The version of its ptxas.
    pub version: ToolkitVersion,
    /// The highest PTX version that it supports; it is used unless a snippet pins another one.
    pub isa: PtxIsa,
    /// SHA-256 of its ptxas.
    pub sha256: String,
}

/// A combination of toolkit, PTX `.target` and `-arch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The toolkit.
    pub toolkit: ToolkitVersion,
    /// The `.target` of the PTX.
    pub target: Target,
    /// The `-arch` that it is assembled for.
    pub arch: Target,
}

/// A snippet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnippetRow {
    /// The file.
    pub file: String,
    /// Its family: the name of its folder.
    pub family: String,
    /// What it tests; empty for a file without a header.
    pub about: String,
    /// The manual's section.
    pub spec: String,
    /// The capabilities that a target has if it accepts the snippet.
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
    /// The opcodes of the hardware instruction, as dotted prefixes.
    pub expects: Vec<String>,
    /// One letter per pair: A accepted, R rejected, U unknown target, I unsupported PTX ISA, C crashed, T timed out, `.` not
    /// queried. Trailing `.` are omitted.
    pub outcomes: String,
    /// One letter per pair: N native, S split, E emulated, ? unknown, `.` not accepted. Trailing `.` are omitted.
    pub native: String,
    /// The messages (indices into `messages`), with their pairs.
    pub messages: Vec<Spread>,
    /// The opcode sets (indices into `opcodes`), with their pairs.
    pub sass: Vec<Spread>,
}

/// An item that applies to several pairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Index of the item.
    pub index: usize,
    /// The pairs.
    pub pairs: PairSet,
}

/// An assembler's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageRow {
    /// Its text: the first error.
    pub text: String,
    /// Index into `kinds`; null if its kind is unknown.
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
    /// The cause, in one sentence.
    pub cause: String,
    /// The remedy, in one sentence.
    pub remedy: String,
}

/// A claim, judged on the cells that it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    /// Index into `snippets`.
    pub snippet: usize,
    /// The source.
    pub source: String,
    /// The address of the source.
    pub url: Option<String>,
    /// The claimed result.
    pub expect: Expect,
    /// The targets that it covers.
    pub targets: Vec<Target>,
    /// The `-arch` values that it covers; empty for the target itself.
    #[serde(default)]
    pub archs: Vec<Target>,
    /// The toolkits that it covers, as written; empty for all.
    #[serde(with = "or_empty")]
    #[schemars(with = "String")]
    pub toolkits: Option<Named<Requirement>>,
    /// Ids of the variants that it covers; empty for all variants of the snippet.
    pub variants: Vec<String>,
    /// Whether every variant that it covers was queried.
    pub whole: bool,
    /// Its status in this run.
    pub standing: Standing,
    /// Its recorded status; a different status (other than untested) is a finding.
    pub recorded: Standing,
    /// Number of answered cells that it covers.
    pub cells: usize,
    /// Number of these cells that disagree.
    pub disagree: usize,
    /// The first cell that disagrees: `<variant> <toolkit> <target> <arch> <outcome>`; empty if none does.
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
