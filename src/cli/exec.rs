//! `exec`: a CUDA program on a simulated GPU.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use emulator::events::MOST_GPUS;
use emulator::gpus::Gpu;
use miette::Diagnostic;

use super::args::{seconds, simulated};
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{self, Formats};
use super::locale;
use super::model::ModelArgs;
use super::rules::RulesArgs;
use crate::job::{self, Context, Execution};
use crate::record::{Record, counted};
use crate::report::{self, Format};

/// Arguments of `exec`.
#[derive(Debug, Args)]
pub(super) struct ExecArgs {
    /// The GPU to simulate
    #[arg(long, value_name = "GPU", default_value = "gb10", value_parser = simulated)]
    gpu: &'static Gpu,
    /// The number of GPUs of that kind, each with its own memory
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_GPUS)))]
    gpus: u8,
    /// Report violations and let the program continue
    #[arg(long)]
    keep_going: bool,
    /// Run each launch under the schedules 0 to N-1 from the same memory and compare the results [default: 1; 4 with --rules values]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    hardware: ModelArgs,
    /// When to round a mul and the add or sub that uses it only once, if neither has a rounding modifier: off, never; on, wherever PTX allows it in a
    /// basic block. `emulate --contract as-ptxas` replays what --record has written
    #[arg(long, value_name = "WHEN", default_value = "off", value_parser = ["off", "on"])]
    contract: String,
    /// Fill fresh device memory, and registers that nothing has written, with BYTE (decimal, or hexadecimal with 0x). Other bytes than
    /// 0 use memory of this machine for all that the program allocates
    #[arg(long, value_name = "BYTE", default_value = "0", value_parser = byte)]
    poison: u8,
    /// End a launch after N warp instructions, a violation
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// End a launch after SECONDS, which leaves the run incomplete
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<Duration>,
    /// The program expects that a kernel traps or that an assertion fails: this is no violation, and its absence is a failure
    #[arg(long)]
    expect_trap: bool,
    /// Record each launch in DIR, as a case that `emulate` replays
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    /// Write the report to FILE instead of standard error
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

const FORMATS: &Formats = &[
    (Format::Text, "Launches by kernel, violations, what is missing"),
    (Format::Md, "Markdown"),
    (Format::Json, "Everything as JSON"),
    (Format::Junit, "JUnit XML: a test for each kernel"),
    (Format::Sarif, "SARIF 2.1.0: a result for each violation"),
];

/// Parses a byte.
fn byte(text: &str) -> Result<u8, String> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let byte = hexadecimal.map_or_else(|| text.parse(), |digits| u8::from_str_radix(digits, 16));
    byte.map_err(|error| error.to_string())
}

/// Runs `exec`. Exits with the program's exit code if it is not 0 and no rule was violated; a program that ends with 0 although a call
/// was refused or no kernel ran is incomplete.
pub(super) fn exec(args: &ExecArgs, context: &Context<'_>) -> Result<(), CliError> {
    let Some((program, arguments)) = args.command.split_first() else { return Ok(()) };
    let execution = Execution {
        program: program.clone(),
        arguments: arguments.to_vec(),
        gpu: args.gpu.key.to_owned(),
        gpus: args.gpus,
        keep_going: args.keep_going,
        schedules: args.schedules,
        rules: args.rules.rules,
        strict: args.rules.strict,
        require_equal: args.rules.require_equal,
        model: args.hardware.model,
        contracts: args.contract == "on",
        poison: args.poison,
        fuel: args.fuel,
        time_limit: args.time_limit,
        expect_trap: args.expect_trap,
        record: args.record.clone(),
    };
    let done = job::exec(&execution, context)?;
    let lacks_trap = done.lacks_trap();
    let told = |error: serde_json::Error| CliError::Output(error.into());
    let text = match args.format {
        Format::Text => report::exec_text(&done),
        Format::Md => report::exec_markdown(&done),
        Format::Json => serde_json::to_string_pretty(&done).map_err(told)? + "\n",
        Format::Junit => report::exec_junit(&done),
        Format::Sarif => report::exec_sarif(&done).map_err(told)?,
        other => return Err(format::lacks(other, FORMATS)),
    };
    match &args.output {
        Some(path) => Record::write_report(path, &text)?,
        None if matches!(args.format, Format::Text) => eprint!("{}", locale::shown(&text)),
        None => eprint!("{text}"),
    }
    let failing = done.differing.iter().filter(|difference| difference.is_failure).count();
    match (done.violations.len(), done.code, done.incomplete) {
        (0, 0, _) if lacks_trap => Err(ExecFinding::NoTrap.into()),
        (0, ..) if failing > 0 => Err(ExecFinding::Differing(failing).into()),
        (0, 0, None) => Ok(()),
        (0, 0, Some(incomplete)) => Err(incomplete.into()),
        // The program's own exit code, as without `exec`.
        (0, code, _) => std::process::exit(code.into()),
        (count, ..) => Err(ExecFinding::Violations(count).into()),
    }
}

/// What `exec` found.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum ExecFinding {
    #[error("{} by the program's kernels and calls", counted(*.0, "violation"))]
    Violations(usize),
    #[error("no kernel trapped, and no assertion of a kernel failed, as --expect-trap expects")]
    NoTrap,
    #[error(
        "results of {} are not determined, which --require-equal or --strict demands",
        counted(*.0, "kernel")
    )]
    Differing(usize),
}

impl CommandError for ExecFinding {
    fn exit_code(&self) -> u8 {
        exit::DOES_NOT_CONFORM
    }
}
