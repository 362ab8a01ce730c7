//! From arguments to exit code.

use std::process::ExitCode;

use clap::error::ErrorKind;

use super::args::{self, Cli, Verb};
use super::error::CliError;
use super::{assumptions, emulate, exit, ops, verbs};
use crate::{gpu, toolkit, worker};

/// Runs the command line and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = worker_job() {
        return ExitCode::from(code);
    }
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` are no mistakes.
            let code = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::CONFORMS,
                _ => exit::USAGE,
            };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    // Rust's own exit code for a panic is 101; ours says "internal error" like every other defect.
    let code = std::panic::catch_unwind(|| match run(cli) {
        Ok(()) => exit::CONFORMS,
        Err(error) => {
            let code = error.exit_code();
            eprintln!("{:?}", miette::Report::new(error));
            code
        }
    });
    ExitCode::from(code.unwrap_or(exit::INTERNAL))
}

/// Does a worker's job when this process was started as one.
fn worker_job() -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
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

fn run(cli: Cli) -> Result<(), CliError> {
    #[cfg(debug_assertions)]
    if std::env::var_os("SM121PROBE_TEST_PANIC").is_some() {
        plant_a_panic();
    }
    match cli.verb {
        None => verbs::whole_job(&cli),
        Some(Verb::Matrix(args)) => verbs::matrix(&args),
        Some(Verb::Explain(args)) => verbs::explain(&args),
        Some(Verb::Toolkit(verb)) => verbs::toolkit(&verb),
        Some(Verb::Report(args)) => verbs::report(&args),
        Some(Verb::Lint(args)) => super::lint::lint(&args),
        Some(Verb::Diff(args)) => super::diff::diff(&args),
        Some(Verb::Gate(args)) => super::gate::gate(&args),
        Some(Verb::Merge(args)) => super::merge::merge(&args),
        Some(Verb::Selftest(args)) => super::selftest::selftest(&args),
        Some(Verb::New(verb)) => verbs::new(&verb),
        Some(Verb::Emulate(args)) => emulate::emulate(&args),
        Some(Verb::Judge(args)) => super::judge::judge_file(&args),
        Some(Verb::Moe(args)) => super::moe::moe(&args),
        Some(Verb::Tiles(args)) => super::tiles::tiles(&args),
        Some(Verb::Kernels(verb)) => super::kernels::kernels(&verb),
        Some(Verb::Bench(args)) => super::bench::bench(&args),
        Some(Verb::Doctor(args)) => super::doctor::doctor(&args),
        Some(Verb::Audit(args)) => super::audit::audit(&args),
        Some(Verb::Run(args)) => super::run::run(&args),
        Some(Verb::Vectors(verb)) => super::vectors::vectors(&verb),
        Some(Verb::Ops(args)) => ops::ops(&args),
        Some(Verb::Assumptions(args)) => assumptions::assumptions(&args),
    }
}

/// For the test that a panic gives exit code 1.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "planted")]
fn plant_a_panic() {
    panic!("planted by SM121PROBE_TEST_PANIC");
}
