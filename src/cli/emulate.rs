//! `emulate`: runs kernels of a PTX or CUDA C++ file, of a launch file or of Triton's cache on the CPU.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use emulator::trials::{Failure, Launched, Launching, Plan, Rules, Stopped};
use emulator::{self, GlobalMemory, Options, Profile, Progress, Rule, Stop};

use super::args::seconds;
use super::contract::ContractArgs;
use super::emulate_report::{Report, left_out, listed};
use super::error::CliError;
use super::format::{Formats, lacks, parser};
use super::launch_args::{LaunchArgs, LaunchOf};
use super::model::ModelArgs;
use super::output;
use super::ptx_error::PtxError;
use super::rules::RulesArgs;
use super::watch::{Ear, Trace, Watcher, show_profile};
use crate::event::Event;
use crate::job::Context;
use crate::job::launch::{self, Judged, LaunchError, LaunchResults, Session, Tolerance};
use crate::record::{Incomplete, counted, first_line};
use crate::report::Format;

const FORMATS: &Formats = &[
    (Format::Text, "Changed buffers, with their first elements"),
    (Format::Json, "Launches, buffers, violations and comparisons"),
];

/// Arguments of `emulate`.
#[derive(Debug, Args)]
pub(super) struct EmulateArgs {
    /// A .ptx file, a .cu file, which NVRTC compiles first, a fatbin, cubin or library with PTX, or a launch file (.yaml); several are
    /// translation units, which are linked
    #[arg(value_name = "FILE", required_unless_present = "triton")]
    files: Vec<PathBuf>,
    /// Run a kernel of Triton's cache: the folder with its .ptx and .json
    #[arg(long, value_name = "DIR", conflicts_with = "files")]
    triton: Option<PathBuf>,
    #[command(flatten)]
    launch: LaunchArgs,
    /// Schedule: 0 runs warps in turn, any other number interleaves them at random
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    /// Run the schedules 0 to N-1 from the same memory and compare the outputs
    #[arg(long, value_name = "N", conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,
    /// Run N times, each time with different contents of unwritten memory and registers, the second time zeros, and require equal
    /// outputs [default: 1; 2 with --rules values]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    poison: Option<u8>,
    #[command(flatten)]
    rules: RulesArgs,
    /// An older form of --rules: strict means all
    #[arg(long, value_enum, conflicts_with = "rules")]
    judge: Option<Judge>,
    /// Compare each buffer with the tensor of the same name in FILE.safetensors; or one buffer with FILE: `y=want.npy`,
    /// `y=want.safetensors#tensor`, or raw elements of the buffer's type. May be repeated
    #[arg(long, value_name = "FILE|NAME=FILE")]
    expect: Vec<String>,
    /// With --expect: the relative tolerance, as a fraction of the expected value
    #[arg(long, value_name = "X", default_value = "0", requires = "expect", value_parser = tolerance)]
    rtol: f64,
    /// With --expect: the absolute tolerance, in addition to --rtol
    #[arg(long, value_name = "X", default_value = "0", requires = "expect", value_parser = tolerance)]
    atol: f64,
    /// With --expect: steps between neighbouring floating-point numbers by which a value may differ
    #[arg(long, value_name = "N", default_value = "0", requires = "expect")]
    ulps: u64,
    /// Maximum number of warp instructions per launch
    #[arg(long, value_name = "N", default_value_t = Options::default().fuel)]
    fuel: u64,
    /// End a launch after SECONDS, which leaves the run incomplete
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<Duration>,
    #[command(flatten)]
    hardware: ModelArgs,
    #[command(flatten)]
    contraction: ContractArgs,
    /// Target of a .cu file [default: sm_121a]
    #[arg(long, value_name = "T")]
    target: Option<String>,
    /// NVRTC for a .cu file: 13.5 or 13.5.37 [default: the newest]
    #[arg(long, value_name = "V")]
    toolkit: Option<String>,
    /// Print the address of every buffer
    #[arg(long)]
    addresses: bool,
    /// Print every executed instruction with its CTA, warp and lanes (--format text)
    #[arg(long)]
    trace: bool,
    /// Print instruction counts, sectors of global memory and bank conflicts of shared memory (--format text)
    #[arg(long)]
    profile: bool,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = parser(FORMATS))]
    format: Format,
    /// Write all buffers to FILE after the launch
    #[arg(long, value_name = "FILE.safetensors")]
    dump: Option<PathBuf>,
}

/// What a violation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Judge {
    Strict,
    Values,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|x| *x >= 0.0 && x.is_finite());
    number.ok_or_else(|| format!("`{text}` is not 0 or a positive number"))
}

/// Runs `emulate`. A kernel that cannot run is said to be unchecked, in the output too.
pub(super) fn emulate(args: &EmulateArgs, context: &Context<'_>) -> Result<(), CliError> {
    let done = judge(args, context);
    if let Err(CliError::Ptx(error)) = &done
        && let Some(incomplete) = error.incomplete()
    {
        let text = match args.format {
            Format::Json => {
                let refused = serde_json::json!({
                    "launches": [], "failure": error.to_string(), "incomplete": incomplete,
                });
                serde_json::to_string_pretty(&refused).map_err(|e| CliError::Output(e.into()))? + "\n"
            }
            _ => first_line(Some(&incomplete)),
        };
        output::print(&text)?;
    }
    done
}

fn judge(args: &EmulateArgs, context: &Context<'_>) -> Result<(), CliError> {
    if args.format == Format::Json && (args.trace || args.profile) {
        return Err(lacks(Format::Json, &FORMATS[..1]));
    }
    let mut session = session(args, context)?;
    session.contract(args.contraction.contract(), context)?;
    let tolerance = Tolerance { relative: args.rtol, absolute: args.atol, ulps: args.ulps };
    for expected in &args.expect {
        match named(expected) {
            Some((name, file)) => session.expect_buffer(name, file, tolerance)?,
            None => session.expect_file(Path::new(expected), tolerance)?,
        }
    }
    let plan = Plan {
        rules: match args.judge {
            Some(Judge::Values) => Rules::Values,
            Some(Judge::Strict) => Rules::All,
            None => args.rules.rules,
        },
        strict: args.rules.strict,
        require_equal: args.rules.require_equal,
        seed: args.seed,
        schedules: args.schedules,
        fillings: args.poison,
        fuel: args.fuel,
        model: args.hardware.model,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..Plan::default()
    };
    let late = Cell::new(false);
    let judged = session.judge(&plan, |launching, memory| {
        // Threads print the same text in all schedules, only in another order.
        launched(args, (launching.is_first && args.format == Format::Text, &late), launching, memory)
            .map_err(|error| Failed::Cli(Box::new(error)))
    });
    let judged = match judged {
        Ok(judged) => judged,
        Err(Failed::Cli(error)) => return Err(*error),
        Err(Failed::Launch(error)) => return Err((*error).into()),
    };
    let failure = match judged.verdict.failure(&plan) {
        // How far a launch comes in a time depends on the machine: its end is no violation.
        Some(Failure::Stopped(Stopped { stop: Stop::Trap(trap), .. }))
            if late.get() && trap.rule == Rule::Fuel =>
        {
            let why = format!("a launch was ended by --time-limit: {}; {}", trap.what, trap.place);
            Some(LaunchError::NotCompared(Incomplete::nothing(why)))
        }
        _ => session.failure(&judged.verdict, &plan),
    };
    // The failure itself says what it is.
    let is_failure = judged.verdict.rules == Rules::All;
    for race in judged.verdict.races().filter(|_| !is_failure) {
        context.sink.emit(Event::Notice {
            text: format!("warning: {}; {}", race.trap, counted(race.times as usize, "time")),
        });
    }
    let not_compared = not_compared(args, context, &session, &judged)?;
    if let (Some(path), Some(outcome)) = (&args.dump, &judged.outcome) {
        session.dump(outcome, path)?;
    }
    let incomplete = judged.incomplete();
    let text = match args.format {
        Format::Json if failure.as_ref().is_none_or(LaunchError::is_finding) => {
            json(&launch::results(&session, &plan, &judged, failure.as_ref(), &not_compared))?
        }
        Format::Json => String::new(),
        _ => {
            let report = Report { session: &session, judged: &judged, not_compared: &not_compared };
            let text = first_line(incomplete.as_ref()) + &report.text(args.rules.strict, args.addresses);
            text + &listed(&judged.verdict.violations) + &left_out(&judged.omissions)
        }
    };
    output::print(&text)?;
    match (failure, judged.wrong()) {
        (Some(failure), _) => Err(failure.into()),
        (None, 0) => incomplete.map_or(Ok(()), |what| Err(LaunchError::NotCompared(what).into())),
        (None, wrong) => Err(LaunchError::Expected(wrong).into()),
    }
}

/// Returns the names of results for which the file of expected tensors has no tensor, after a notice of each.
fn not_compared(
    args: &EmulateArgs,
    context: &Context<'_>,
    session: &Session,
    judged: &Judged,
) -> Result<Vec<String>, LaunchError> {
    let (Some(expected), Some(outcome)) = (args.expect.first(), &judged.outcome) else {
        return Ok(Vec::new());
    };
    let file = named(expected).map_or(expected.as_str(), |(_, file)| file);
    let not_compared = session.not_compared(outcome);
    if judged.wrong() == 0 && !not_compared.is_empty() && !session.compares_results(outcome) {
        let (path, outputs) = (PathBuf::from(file), not_compared.join(", "));
        return Err(LaunchError::NoOutput { path, outputs });
    }
    for name in &not_compared {
        let text = match named(expected) {
            Some(_) => format!("{name}: not compared, no --expect names it"),
            None => format!("{name}: not compared, {file} has no tensor of this name"),
        };
        context.sink.emit(Event::Notice { text });
    }
    Ok(not_compared)
}

/// The buffer and the file of `NAME=FILE`; `None` for a file alone.
fn named(expected: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    expected.split_once('=').filter(|(name, _)| is_name(name))
}

/// The reason why trials cannot run.
enum Failed {
    /// The session is invalid.
    Launch(Box<LaunchError>),
    /// The output of a launch could not be written.
    Cli(Box<CliError>),
}

impl From<LaunchError> for Failed {
    fn from(error: LaunchError) -> Self {
        Self::Launch(Box::new(error))
    }
}

fn json(results: &LaunchResults) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(results).map_err(|e| CliError::Output(e.into()))?;
    Ok(text + "\n")
}

fn session(args: &EmulateArgs, context: &Context<'_>) -> Result<Session, CliError> {
    let what = args.triton.as_deref().map_or(LaunchOf::Files(&args.files), LaunchOf::Triton);
    let compile = args.launch.compiler.compile(args.target.clone(), args.toolkit.clone());
    args.launch.session(&what, compile, context)
}

/// Runs one launch, with a trace and a profile if requested.
fn launched(
    args: &EmulateArgs,
    (prints, late): (bool, &Cell<bool>),
    launching: &Launching<'_>,
    memory: &mut GlobalMemory,
) -> Result<Launched, CliError> {
    let Launching { step, options, .. } = launching;
    let progress = args.time_limit.map(|limit| Arc::new(Progress::new(Some(limit), None)));
    let options = &Options { progress: progress.clone(), ..(*options).clone() };
    let mut ear = Ear { prints, ..Ear::default() };
    // A replay repeats what was shown.
    let counts = if (args.trace || args.profile) && options.watchpoints.is_none() {
        let listing = step.program.listing(step.kernel);
        let mut watcher = Watcher {
            trace: args.trace.then(|| Trace { listing: listing.clone(), problem: None }),
            profile: args.profile.then(|| Profile::new(listing)),
            ear,
        };
        let counts = emulator::launch_with(step, memory, options, &mut watcher);
        ear = watcher.ear;
        check(watcher.trace.and_then(|t| t.problem))?;
        if let Some(profile) = &watcher.profile {
            output::print(&show_profile(profile))?;
        }
        counts
    } else {
        emulator::launch_with(step, memory, options, &mut ear)
    };
    late.set(late.get() || progress.is_some_and(|progress| progress.is_over()));
    check(ear.problem)?;
    Ok(Launched { counts, notices: ear.notices })
}

/// Ignores a closed pipe: the reader has seen enough.
fn check(problem: Option<std::io::Error>) -> Result<(), CliError> {
    match problem.filter(|e| e.kind() != std::io::ErrorKind::BrokenPipe) {
        Some(error) => Err(CliError::Output(error)),
        None => Ok(()),
    }
}

impl From<LaunchError> for CliError {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Syntax { name, text, error } => Self::Ptx(PtxError::syntax(&name, &text, &error)),
            LaunchError::Stopped(stopped) => {
                Self::Ptx(PtxError::new(&stopped.name, &stopped.text, stopped.stop))
            }
            LaunchError::Job(error) => (*error).into(),
            LaunchError::Nvrtc(error) => error.into(),
            LaunchError::Target(error) => error.into(),
            LaunchError::NotCompared(incomplete) => incomplete.into(),
            other => Self::Launch(Box::new(other)),
        }
    }
}
