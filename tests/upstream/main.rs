//! Third-party kernels, launched by their own host code, and kernels of this project that Triton compiles, against
//! independent references and with planted faults; and whole programs under `exec`.
//!
//! Upstream's sources and compilers come as packages from pip's index. Without them, the trials are ignored with the reason;
//! `SM121PROBE_REQUIRE=upstream` fetches them (about 2.1 GB, once into the cache) and makes a trial that cannot run a failure.
//! `SNAPSHOTS=overwrite` writes the table of a complete run to `reports/upstream.md`.

mod attention_dump;
mod bounds;
mod compile;
mod cuda;
mod cute_dsl;
mod exec;
mod faults;
mod judge;
mod kernels;
mod packages;
mod recording;
mod replay;
mod report;
mod triton;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sm121probe::store::Store;

use judge::{Kernel, Shown, Why};

/// The results of this run's trials, by the name of the kernel.
type Table = Mutex<Vec<(&'static str, Shown)>>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    let store = Store::open(None).map(Arc::new);
    let table: Arc<Table> = Arc::default();
    let all = kernels::all();
    let count = all.len();
    let mut trials = Vec::new();
    for kernel in all {
        let (store, table) =
            (store.as_ref().map(Arc::clone).map_err(ToString::to_string), Arc::clone(&table));
        trials.push(Trial::ignorable_test(format!("upstream.{}", kernel.name), move || {
            run(store, &table, kernel)
        }));
    }
    for program in &exec::ALL {
        let store = store.as_ref().map(Arc::clone).map_err(ToString::to_string);
        trials.push(Trial::ignorable_test(format!("exec.{}", program.name), move || {
            ended(program.run(&*store?).map(|()| Completion::Completed))
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let table = table.lock().unwrap_or_else(PoisonError::into_inner);
    // A part of the table proves nothing about the whole.
    if table.len() == count
        && let Err(why) = report::checked(&kernels::all(), &table)
    {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn run(
    store: Result<Arc<Store>, String>,
    table: &Table,
    kernel: &'static Kernel,
) -> Result<Completion, Failed> {
    ended(judge::judge(&*store?, kernel).map(|shown| {
        table.lock().unwrap_or_else(PoisonError::into_inner).push((kernel.name, shown));
        Completion::Completed
    }))
}

fn ended(result: Result<Completion, Why>) -> Result<Completion, Failed> {
    match result {
        Ok(completion) => Ok(completion),
        Err(Why::Failed(what)) => Err(what.into()),
        Err(Why::Missing(what)) if packages::required() => Err(what.into()),
        Err(Why::Missing(what)) => Ok(Completion::ignored_with(what)),
    }
}
