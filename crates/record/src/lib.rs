//! The record of a run: one versioned JSON document, from which every report is rendered.
//!
//! It is columnar and therefore small: (toolkit, target, arch) pairs are listed once, a variant has one letter per
//! pair, and messages and opcode sets are listed once and referred to by index. Readers ignore unknown fields and refuse
//! unknown schemas.
//!
#![doc = include_str!("../README.md")]

mod audit;
mod cells;
mod claim_example;
pub mod claims;
mod code_by;
mod completeness;
mod conflicts;
mod counted;
mod document;
mod elapsed;
mod evidence;
mod family;
mod file;
mod finding;
mod fuzz;
mod kernel_name;
mod list;
mod named;
mod outcome;
mod pairs;
mod profile;
mod runs;
mod schema_1;
mod selftest;
mod stage_result;
mod tiles;
mod timing;
mod trials;
mod words;

pub use audit::{
    AuditBackend, AuditDevice, AuditEntry, AuditFile, AuditImage, AuditKernel, AuditKnownBad,
    AuditMiscompile, AuditModel, AuditPackage, AuditProblem, AuditTable, AuditTakes, AuditVerdict, Shown,
    Support,
};
pub use cells::{AS_WRITTEN, CellAnswer};
pub use claim_example::ClaimExample;
pub use code_by::CodeBy;
pub use completeness::{Completeness, Incomplete, first_line};
pub use conflicts::{ConflictAnswer, ConflictRow};
pub use counted::{counted, grouped};
pub use document::{
    Cell, ClaimRow, GPU, KindRow, Matrix, MessageRow, Pair, Record, SCHEMA, SkippedRow, SnippetRow, Spread,
    ToolkitRow, VariantRow,
};
pub use elapsed::Elapsed;
pub use evidence::{Count, ExerciseRow, Exposed, FaultCoverageRow, FaultRow};
pub use family::{ConfigurationName, FamilyRow, Place, StageName, StageRow};
pub use file::{RecordError, write_atomic};
pub use finding::{Finding, Ground};
pub use fuzz::{FuzzBuild, FuzzFinding, FuzzTable};
pub use kernel_name::readable_kernel;
pub use list::listed;
pub use named::{Named, Word};
pub use outcome::{Expect, Native, Outcome, Standing};
pub use pairs::PairSet;
pub use profile::{ClassTime, Decision, ProfileRow};
pub use runs::{DeviceRow, VariantRun};
pub use selftest::SelftestRow;
pub use stage_result::{StageResult, Verdict};
pub use tiles::{PeerAnswer, PeerRow, PolicyRow, TileRow, TileTable};
pub use timing::{BenchError, BenchRow, BenchTable, DecodeRow, RateRow, RegretRow};
pub use trials::{Check, CheckResult, EMULATOR, TrialRow};
