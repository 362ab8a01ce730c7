//! Reports: renderers, each a pure function of the record.
//!
//! | form | renderer | holds |
//! |---|---|---|
//! | terminal | [`terminal()`] | the essentials on one screen: SM12x, families, findings |
//! | Markdown | [`markdown()`] | the same, then every variant with the assemblers' messages |
//! | JSON | [`json()`] | the record itself |
//! | CSV | [`csv()`] | one row per cell |
//! | JUnit | [`junit()`] | a suite for each family and each case of the pipeline |
//! | HTML | [`html()`] | all of it on one page, with search |
//! | tactics | [`tactics()`] | tiles that pass or fail on each device, for an autotuner |
//!
//! [`variants()`] is the Markdown of the variants alone, [`explain()`] everything known about one. Nothing is printed here. A toolkit
//! without an answer, because it does not know the target, is never shown as one that rejects.

mod audit;
mod bench;
mod built_in;
mod catalogue;
mod claims;
mod cross;
mod csv;
mod exec;
mod exercise;
mod explain;
mod families;
mod findings;
mod form;
mod fuzz;
mod gate;
mod history;
mod html;
mod ids;
mod instructions;
mod junit;
mod lint;
mod listing;
mod lookup;
mod markdown;
mod markup;
mod miscompile;
mod native;
mod notes;
mod phrase;
mod places;
mod plot;
mod predicates;
mod profile;
mod rollup;
mod runs;
mod sarif;
mod selftest;
mod sm12x;
mod style;
mod survey;
mod tactics;
mod terminal;
mod tiles;
mod trials;
mod verdict;
mod view;

pub use phrase::{hanging, keep_to};

/// The name and version of this tool in records.
pub const TOOL: &str = concat!("sm121probe ", env!("CARGO_PKG_VERSION"));

pub use audit::{audit_csv, audit_markdown, audit_sarif, audit_text};
pub use bench::{bench_csv, bench_markdown};
pub use built_in::built_in_record;
pub use catalogue::variants;
pub use csv::csv;
pub use exec::{exec_junit, exec_markdown, exec_sarif, exec_text};
pub use explain::{ExplainError, explain};
pub use families::evidence_text;
pub use findings::{annotations, findings_sarif};
pub use form::{Format, ReportError, json, render};
pub use fuzz::{fuzz_md, fuzz_text};
pub use gate::{
    Newcomer, diff_json, diff_markdown, diff_summary, diff_text, fleet_markdown, fleet_text, newcomer,
    survivors_markdown, survivors_summary, survivors_text, verdict_markdown, verdict_text,
};
pub use html::{Beside, FormText, html};
pub use instructions::{
    InstructionForm, InstructionState, Instructions, instructions_csv, instructions_markdown,
    instructions_text,
};
pub use junit::{junit, junit_of};
pub use lint::{
    gates_csv, gates_findings, gates_json, gates_markdown, gates_sarif, gates_text, lint_csv, lint_findings,
    lint_json, lint_markdown, lint_text,
};
pub use listing::{Named, listing_csv, listing_markdown, listing_text};
pub use lookup::lookup;
pub use markdown::markdown;
pub use miscompile::{miscompile, structure};
pub use plot::bench_svg;
pub use predicates::{Language, PredicateError, predicates};
pub use profile::{profile_csv, profile_markdown, profile_text};
pub use runs::{run_counts, runs_csv, runs_text};
pub use selftest::{exhaustive_csv, exhaustive_text, selftest_csv, selftest_text};
pub use style::Styles;
pub use tactics::tactics;
pub use terminal::{terminal, terminal_matrix, terminal_rest};
pub use tiles::{policies_csv, policies_markdown, policies_text, tiles_csv, tiles_markdown, tiles_text};
pub use trials::{stages_text, trial_counts, trials_csv, trials_markdown, trials_text};
