//! The entry point: from arguments to an exit code.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;

use super::args::{self, Cli, Verb};
use super::error::CliError;
use super::progress::{Progress, speak};
use super::{assumptions, emulate, exit, locale, ops, output, verbs};
use crate::job::{self, Context};
use crate::{gpu, report, toolkit, worker};

/// Runs this process's command line and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(command_line(std::env::args_os().collect(), None))
}

/// The location of this command if another program embeds it.
#[derive(Debug)]
pub struct Embedded {
    /// The executable that runs this command.
    pub program: PathBuf,
    /// The folder with its libraries.
    pub libraries: PathBuf,
}

/// Runs a command line, which begins with the program's name, and returns its exit code. `embedded` is needed if the process's
/// executable is not this command.
#[must_use]
pub fn command_line(typed: Vec<OsString>, embedded: Option<Embedded>) -> u8 {
    if let Some(code) = worker_job(&typed) {
        return code;
    }
    if job::is_assembler(&typed) {
        return assembler(typed.get(1..).unwrap_or_default());
    }
    locale::adapt_errors();
    if let Some(columns) = locale::columns() {
        report::keep_to(columns);
    }
    let cli = match args::parse(typed) {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` are not mistakes.
            let code = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::CONFORMS,
                _ => exit::USAGE,
            };
            let _ = error.print();
            return code;
        }
    };
    // Rust's exit code for a panic is 101; a panic must exit as an internal error, like every other defect.
    let code = std::panic::catch_unwind(|| match run(cli, embedded) {
        Ok(()) => exit::CONFORMS,
        Err(error) => {
            let (code, error) = (error.exit_code(), error.in_words_of_incomplete());
            if let Some(incomplete) = error.incomplete() {
                super::gate::annotate(&incomplete);
            }
            output::tell(&format!("{:?}", miette::Report::new(error)));
            code
        }
    });
    code.unwrap_or(exit::INTERNAL)
}

/// Acts as ptxas for a program under `exec`.
fn assembler(arguments: &[OsString]) -> u8 {
    match job::assemble(arguments) {
        Ok(done) => {
            // Nothing to do if the reader has gone.
            let _ = std::io::stdout().write_all(&done.stdout);
            let _ = std::io::stderr().write_all(&done.stderr);
            done.code
        }
        Err(error) => {
            eprintln!("ptxas: {error}");
            exit::USAGE
        }
    }
}

/// Runs the job of a worker, if this process was started as one.
fn worker_job(typed: &[OsString]) -> Option<u8> {
    let mut words = typed.iter().skip(1);
    if words.next()? != worker::VERB {
        return None;
    }
    let (kind, job) = (words.next(), words.next());
    Some(match (kind, job) {
        (Some(kind), None) if kind == toolkit::NVRTC_WORKER => toolkit::serve_nvrtc(),
        (Some(kind), Some(job)) if kind == gpu::GPU_WORKER => {
            worker::end_with_parent();
            gpu::serve_gpu(&job.to_string_lossy())
        }
        _ => exit::USAGE,
    })
}

fn run(cli: Cli, embedded: Option<Embedded>) -> Result<(), CliError> {
    #[cfg(debug_assertions)]
    if std::env::var_os("SM121PROBE_TEST_PANIC").is_some() {
        plant_a_panic();
    }
    let progress = Progress::new();
    let context = match embedded {
        Some(Embedded { program, libraries }) => {
            Context { program, libraries: Some(libraries), sink: &progress }
        }
        None => Context::of_process(&progress)?,
    };
    // The program under `exec` writes to the terminal itself.
    if !matches!(cli.verb, Some(Verb::Exec(_))) {
        progress.wait_for("at work");
    }
    let done = dispatch(cli, &context);
    speak();
    done
}

fn dispatch(cli: Cli, context: &Context<'_>) -> Result<(), CliError> {
    match cli.verb {
        None => verbs::whole_job(&cli, context),
        Some(Verb::Matrix(args)) => verbs::matrix(&args, context),
        Some(Verb::Explain(args)) => verbs::explain(&args, context),
        Some(Verb::Toolkit(verb)) => verbs::toolkit(&verb, context),
        Some(Verb::Report(args)) => verbs::report(&args),
        Some(Verb::Lint(args)) => super::lint::lint(&args, context),
        Some(Verb::Bisect(args)) => super::bisect::bisect(&args, context),
        Some(Verb::Fuzz(verb)) => super::fuzz::fuzz(&verb, context),
        Some(Verb::Predicates(args)) => super::predicates::predicates(&args, context),
        Some(Verb::Diff(args)) => super::diff::diff(&args),
        Some(Verb::Gate(args)) => super::gate::gate(&args, context),
        Some(Verb::Merge(args)) => super::merge::merge(&args),
        Some(Verb::Selftest(args)) => super::selftest::selftest(&args, context),
        Some(Verb::New(verb)) => verbs::new(&verb),
        Some(Verb::Emulate(args)) => emulate::emulate(&args, context),
        Some(Verb::Exec(args)) => super::exec::exec(&args, context),
        Some(Verb::Judge(args)) => super::judge::judge_file(&args),
        Some(Verb::Trials(args)) => super::trials::trials(&args, context),
        Some(Verb::Attention(args)) => super::attention::attention(&args, context),
        Some(Verb::Moe(args)) => super::moe::moe(&args, context),
        Some(Verb::Tiles(args)) => super::tiles::tiles(&args, context),
        Some(Verb::Kernels(verb)) => super::kernels::kernels(&verb, context),
        Some(Verb::Bench(args)) => super::bench::bench(&args, context),
        Some(Verb::Doctor(args)) => super::doctor::doctor(&args, context),
        Some(Verb::Audit(args)) => super::audit::audit(&args, context),
        Some(Verb::Run(args)) => super::run::run(&args, context),
        Some(Verb::Vectors(verb)) => super::vectors::vectors(&verb, context),
        Some(Verb::Ops(args)) => ops::ops(&args),
        Some(Verb::Assumptions(args)) => assumptions::assumptions(&args),
    }
}

/// Panics, for the test that a panic exits with 1.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "planted")]
fn plant_a_panic() {
    panic!("planted by SM121PROBE_TEST_PANIC");
}
