//! The `exec` job: runs a CUDA program on a simulated GPU and collects its launches and violations.

mod assembler;
mod child;
mod folder;
mod linked;
mod python;
mod stub;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use emulator::Rule;
use emulator::events::{self, Event, ViolationRecord};
use emulator::trials::Rules;
use numerics::tensor_core::Model;
use object::ReadCache;
use serde::Serialize;

use self::folder::RunFolder;
use crate::job::Context;
use crate::record::{Completeness, Incomplete, readable_kernel};

pub use assembler::{AssembleError, Assembled, assemble, is_assembler};

/// The number of unchecked things that the report's first line names; the others are counted there, and listed below.
const NAMED: usize = 3;

/// The file name of the library.
const LIBRARY: &str = "libsm121probe_cuda.so";

/// The name under which programs load the library: that of the driver.
const DRIVER: &str = "libcuda.so.1";

/// A program and the options of its run.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Key of the GPU.
    pub gpu: String,
    /// The number of GPUs.
    pub gpus: u8,
    /// Whether the program continues after violations.
    pub keep_going: bool,
    /// The number of schedules to run for each launch; the default of the rules if `None`.
    pub schedules: Option<u64>,
    /// Which rules are checked.
    pub rules: Rules,
    /// Whether results that PTX leaves open are a failure.
    pub strict: bool,
    /// Whether results that differ between schedules are a failure although nothing races.
    pub require_equal: bool,
    /// The tensor core model whose results are computed; that of the GPU if `None`.
    pub model: Option<Model>,
    /// Whether an unqualified product and the sum that uses it are contracted, i.e. rounded once.
    pub contracts: bool,
    /// The fill byte of fresh device memory.
    pub poison: u8,
    /// The limit on the warp instructions of a launch; the emulator's if `None`.
    pub fuel: Option<u64>,
    /// The limit on the time of a launch.
    pub time_limit: Option<Duration>,
    /// Whether a kernel must end by a trap or a failed assertion.
    pub expect_trap: bool,
    /// The folder in which each launch is recorded.
    pub record: Option<PathBuf>,
}

/// The launches of one kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KernelLaunches {
    /// The number of launches.
    pub launches: u64,
    /// Warp instructions executed in all of them.
    pub instructions: u64,
    /// Violations in them, counted by occurrence.
    pub violations: u64,
    /// The time that they took on this machine, in nanoseconds; no part of the results.
    #[serde(skip)]
    pub nanoseconds: u64,
}

/// Results of a kernel that differ between trials although no rule is violated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferingResults {
    /// The kernel's linker name.
    pub kernel: String,
    /// What differs, and why.
    pub what: String,
    /// Whether the caller required otherwise.
    pub is_failure: bool,
}

/// The results of a program's run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Executed {
    /// Key of the GPU.
    pub gpu: String,
    /// The tensor core model, if it is not the GPU's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether an unqualified product and the sum that uses it were contracted, i.e. rounded once.
    pub contracted: bool,
    /// The schedules under which each launch ran, if the program's caller asked for a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedules: Option<u64>,
    /// Processes that used the simulated GPU.
    pub processes: usize,
    /// Processes that crashed or were killed: they wrote no end event.
    pub cut_short: usize,
    /// Launches by kernel.
    pub kernels: BTreeMap<String, KernelLaunches>,
    /// Violations, merged by rule, instruction and call.
    pub violations: Vec<ViolationRecord>,
    /// Traps and failed assertions, if they are expected; `None` if they are violations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_traps: Option<Vec<ViolationRecord>>,
    /// What deserves attention and violates no rule, a sentence each.
    pub remarks: Vec<String>,
    /// The kernels of launches that had not ended when their process was killed.
    pub unfinished: Vec<String>,
    /// Violations that are listed while results decide.
    pub listed: Vec<ViolationRecord>,
    /// Results that are nondeterministic, or that PTX leaves open.
    pub differing: Vec<DifferingResults>,
    /// Kernels that could not run, each with the reason.
    pub refused: BTreeMap<String, String>,
    /// API functions that were called but are not implemented.
    pub missing: Vec<String>,
    /// Anything else that was not checked, such as a module that could not be loaded, a sentence each.
    pub unchecked: Vec<String>,
    /// Events that the program could not report, for example on a full disk.
    pub lost_events: u64,
    /// Allocations that were not freed: their number and total bytes.
    pub leaks: (usize, u64),
    /// The program's exit code; 128 plus the signal number if a signal ended it.
    pub code: u8,
    /// What was not checked; `None` if a kernel ran and nothing was refused.
    pub incomplete: Option<Incomplete>,
}

impl Executed {
    /// Returns the number of launches that ran.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.kernels.values().map(|kernel| kernel.launches).sum()
    }

    /// Whether a trap was expected and none happened.
    #[must_use]
    pub fn lacks_trap(&self) -> bool {
        self.expected_traps.as_ref().is_some_and(Vec::is_empty)
    }

    /// Takes the traps and failed assertions, which the program expects, out of the violations.
    fn expect_traps(&mut self) {
        let (traps, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.violations).into_iter().partition(|v| v.rule == Rule::Explicit.word());
        for trap in &traps {
            if let Some(kernel) = self.kernels.get_mut(&trap.kernel) {
                kernel.violations = kernel.violations.saturating_sub(trap.times);
            }
        }
        self.violations = others;
        self.expected_traps = Some(traps);
    }

    /// Derives what was not checked from the events.
    fn find_gaps(&self) -> Option<Incomplete> {
        let mut all = Completeness::of_checks(usize::try_from(self.launches()).unwrap_or(usize::MAX));
        if let Some((kernel, why)) = self.refused.first_key_value() {
            let kernel = readable_kernel(kernel);
            all.add_gap(match self.refused.len() {
                1 => format!("1 kernel could not run: {kernel}: {why}"),
                many => format!("{many} kernels could not run, such as {kernel}: {why}"),
            });
        }
        for kernel in &self.unfinished {
            all.add_gap(format!(
                "a launch of {} had not ended when its process was killed",
                readable_kernel(kernel)
            ));
        }
        if !self.missing.is_empty() {
            all.add_gap(format!("not supported: {}", self.missing.join(", ")));
        }
        self.unchecked.iter().take(NAMED).for_each(|what| all.add_gap(what));
        if self.unchecked.len() > NAMED {
            all.add_gap(format!("and {} more", self.unchecked.len() - NAMED));
        }
        match self.lost_events {
            0 => {}
            1 => all.add_gap("the program could not report 1 event"),
            many => all.add_gap(format!("the program could not report {many} events")),
        }
        all.incomplete(match self.processes {
            0 => {
                "the program did not use the simulated GPU; if its CUDA runtime is linked statically and its symbol table is gone \
                 (`strip`), `nvcc -cudart shared` links it dynamically"
            }
            _ => "the program launched no kernel",
        })
    }
}

/// The reason why a program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The library is not next to the executable.
    #[error("{LIBRARY} is not next to {}; copy it there from the folder of the command that `cargo build` built", .0.display())]
    NoLibrary(PathBuf),
    /// A folder or file of the run cannot be created or read.
    #[error("{what}: {error}")]
    Io {
        /// What failed.
        what: &'static str,
        /// The underlying error.
        error: io::Error,
    },
    /// The program is linked with the static CUDA runtime, and is stripped.
    #[error("{} is linked with the static CUDA runtime and stripped, so that the runtime's functions cannot be found; keep its symbol table, or link it with `nvcc -cudart shared`", .0.display())]
    StaticRuntime(PathBuf),
    /// The program cannot be started.
    #[error("{} cannot be started: {error}", Path::new(.program).display())]
    Start {
        /// The program.
        program: OsString,
        /// The underlying error.
        error: io::Error,
    },
}

/// Runs a program to its end.
///
/// # Errors
/// [`ExecError`]. A program that fails is not an error.
pub fn exec(execution: &Execution, context: &Context<'_>) -> Result<Executed, ExecError> {
    let failed = |what| move |error| ExecError::Io { what, error };
    let library = library(context)?;
    if let Some(path) = find(&execution.program)
        && File::open(&path).is_ok_and(|file| linked::has_unnamed_runtime(&ReadCache::new(file)))
    {
        return Err(ExecError::StaticRuntime(path));
    }
    let folder = RunFolder::create().map_err(failed("a temporary folder cannot be made"))?;
    libraries(folder.path(), &library).map_err(failed("the folder of libraries cannot be made"))?;
    let results = folder.path().join("results.jsonl");
    fs::write(&results, "").map_err(failed("the file of results cannot be made"))?;
    let mut command = Command::new(&execution.program);
    command
        .args(&execution.arguments)
        .env("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", folder.path()))
        .env("LD_PRELOAD", before("LD_PRELOAD", &folder.path().join(DRIVER)))
        .env(events::RESULTS, &results)
        .env(events::GPU, &execution.gpu)
        .env(events::GPUS, execution.gpus.to_string())
        .env(events::RULES, execution.rules.word());
    if let Some(schedules) = execution.schedules {
        command.env(events::SCHEDULES, schedules.to_string());
    }
    if execution.strict {
        command.env(events::STRICT, "1");
    }
    if execution.require_equal {
        command.env(events::REQUIRE_EQUAL, "1");
    }
    assembler::offer(&mut command, &context.program, folder.path())
        .map_err(failed("the folder of the assembler cannot be made"))?;
    python::offer(&mut command, &library, folder.path())
        .map_err(failed("the folder for Python cannot be made"))?;
    if execution.keep_going {
        command.env(events::KEEP_GOING, "1");
    }
    if let Some(model) = execution.model {
        command.env(events::MODEL, model.name());
    }
    if execution.contracts {
        command.env(events::CONTRACT, "1");
    }
    if let Some(folder) = &execution.record {
        fs::create_dir_all(folder).map_err(failed("the folder of recorded launches cannot be made"))?;
        let folder =
            fs::canonicalize(folder).map_err(failed("the folder of recorded launches is not there"))?;
        command.env(events::RECORD, folder);
    }
    if execution.poison != 0 {
        command.env(events::POISON, execution.poison.to_string());
    }
    if let Some(fuel) = execution.fuel {
        command.env(events::FUEL, fuel.to_string());
    }
    if let Some(limit) = execution.time_limit {
        command.env(events::TIME_LIMIT, limit.as_secs_f64().to_string());
    }
    command.env(events::PARENT, std::process::id().to_string());
    let status = child::run(&mut command, &results)
        .map_err(|error| ExecError::Start { program: execution.program.clone(), error })?;
    if let Some(folder) = &execution.record {
        remove_incomplete(folder);
        remove_incomplete(&folder.join("data"));
    }
    let text = fs::read_to_string(&results).map_err(failed("the results cannot be read"))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    let code = u8::try_from(code).unwrap_or(u8::MAX);
    let counts = |process: &str| fs::read(events::counts_of(&results, process)).unwrap_or_default();
    let mut executed = gather(&read(&text), &execution.gpu, code, counts);
    if execution.expect_trap {
        executed.expect_traps();
    }
    let model = execution.model.map(|model| model.name().to_owned());
    let (incomplete, contracted, schedules) =
        (executed.find_gaps(), execution.contracts, execution.schedules);
    Ok(Executed { incomplete, model, contracted, schedules, ..executed })
}

/// Finds the file of a program as the system does: by path, or in `PATH`.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Removes incomplete files and folders of killed processes.
fn remove_incomplete(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(events::INCOMPLETE) {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// Finds the library: in the folder that a package names, or near the executable, as in Cargo's target folder and in archives.
fn library(context: &Context<'_>) -> Result<PathBuf, ExecError> {
    let executable = fs::canonicalize(&context.program);
    let executable =
        executable.map_err(|error| ExecError::Io { what: "the executable is not known", error })?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    // `cargo test` builds the library in `deps` and leaves one of an earlier `cargo build` beside the executable as it is.
    let modified = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let built = [folder.to_owned(), folder.join("deps")].map(|place| place.join(LIBRARY));
    let newest = built.into_iter().filter(|path| path.is_file()).max_by_key(modified);
    let given = context.libraries.iter().map(|place| place.join(LIBRARY)).find(|path| path.is_file());
    let installed = [folder.join("lib"), folder.join("../lib")].map(|place| place.join(LIBRARY));
    let found = given.or(newest).or_else(|| installed.into_iter().find(|path| path.is_file()));
    found.ok_or(ExecError::NoLibrary(executable))
}

/// Creates the library under the names that programs load. `libcudart` has versioned symbols, and the dynamic linker checks the
/// versions in a file of that name; so `libcudart` is a stub that depends on `libcuda.so.1`, and so are `libcublas`, `libcublasLt`,
/// `libcufft` and `libcusparse`. `libcurand` is none: its generators on the host are needed.
fn libraries(folder: &Path, library: &Path) -> io::Result<()> {
    for name in [DRIVER, "libcuda.so"] {
        symlink(library, folder.join(name))?;
    }
    let of_blas = ["libcublas", "libcublasLt"].into_iter();
    let of_blas = of_blas.flat_map(|name| [11, 12, 13].map(|version| format!("{name}.so.{version}")));
    let others = [
        "libcudart.so.12",
        "libcudart.so.13",
        "libcufft.so.10",
        "libcufft.so.11",
        "libcufft.so.12",
        "libcusparse.so.11",
        "libcusparse.so.12",
    ];
    for name in others.map(str::to_owned).into_iter().chain(of_blas) {
        fs::write(folder.join(&name), stub::library(&name, DRIVER))?;
    }
    symlink("libcudart.so.13", folder.join("libcudart.so"))
}

/// The value of a list of paths, after this one is put first.
fn before(variable: &str, first: &Path) -> OsString {
    let mut path = first.as_os_str().to_owned();
    if let Some(there) = std::env::var_os(variable).filter(|there| !there.is_empty()) {
        path.push(OsStr::new(":"));
        path.push(there);
    }
    path
}

/// Parses the lines that processes wrote; skips a line that a killed process left incomplete.
fn read(text: &str) -> Vec<Event> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Reads the two numbers of a slot; 0 if the process was killed before it wrote them.
fn slot(counts: &[u8], slot: usize) -> [u64; 2] {
    let number =
        |at: usize| counts.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
    [number(slot * events::SLOT), number(slot * events::SLOT + 8)]
}

/// Adds a violation that occurred `times` times; merges those of one rule at one instruction.
fn merge(all: &mut Vec<ViolationRecord>, violation: &ViolationRecord, times: u64) {
    let same = |known: &&mut ViolationRecord| {
        known.rule == violation.rule
            && known.kernel == violation.kernel
            && known.ptx_line == violation.ptx_line
            && known.call == violation.call
    };
    match all.iter_mut().find(same) {
        Some(known) => known.times += times,
        None => all.push(ViolationRecord { times, ..violation.clone() }),
    }
}

/// Merges the events of all processes; `counts` reads the counters of a process.
fn gather(events: &[Event], gpu: &str, code: u8, counts: impl Fn(&str) -> Vec<u8>) -> Executed {
    let mut all = Executed { gpu: gpu.to_owned(), code, ..Executed::default() };
    let mut held: HashMap<&str, Vec<u8>> = HashMap::new();
    let mut ended = 0;
    // The kernels and the launches of each process.
    let mut ran: HashMap<&str, (HashMap<usize, &str>, u64)> = HashMap::new();
    for event in events {
        match event {
            Event::Start { process, .. } => {
                all.processes += 1;
                let counts = counts(process);
                all.lost_events += slot(&counts, events::LOST)[0];
                held.insert(process, counts);
            }
            Event::Kernel { process, slot: number, kernel, times } => {
                let [launches, instructions] =
                    held.get(process.as_str()).map_or([0; 2], |c| slot(c, *number));
                let (kernels, all_launches) = ran.entry(process).or_default();
                kernels.insert(*number, kernel);
                *all_launches += launches;
                // A kernel whose only launch was refused, or has not ended, has no results.
                if launches == 0 && held.get(process.as_str()).is_some_and(|counts| !counts.is_empty()) {
                    continue;
                }
                let of = all.kernels.entry(kernel.clone()).or_default();
                of.launches += launches;
                of.instructions += instructions;
                let counts = held.get(process.as_str());
                of.nanoseconds += times.zip(counts).map_or(0, |(times, counts)| slot(counts, times)[0]);
            }
            Event::Listed { process, slot: number, violation } => {
                let [times, _] = held.get(process.as_str()).map_or([0; 2], |c| slot(c, *number));
                merge(&mut all.listed, violation, times.max(violation.times));
            }
            Event::Differs { kernel, what, is_failure } => {
                let found =
                    DifferingResults { kernel: kernel.clone(), what: what.clone(), is_failure: *is_failure };
                if !all.differing.contains(&found) {
                    all.differing.push(found);
                }
            }
            Event::Violation { process, slot: number, violation } => {
                // The event itself proves at least `violation.times` occurrences.
                let [times, _] = held.get(process.as_str()).map_or([0; 2], |c| slot(c, *number));
                let times = times.max(violation.times);
                if !violation.kernel.is_empty() {
                    all.kernels.entry(violation.kernel.clone()).or_default().violations += times;
                }
                merge(&mut all.violations, violation, times);
            }
            Event::Refused { kernel, why } => {
                all.refused.entry(kernel.clone()).or_insert_with(|| why.clone());
            }
            Event::Missing { function } => {
                if !all.missing.contains(function) {
                    all.missing.push(function.clone());
                }
            }
            Event::Unchecked { what } => {
                if !all.unchecked.contains(what) {
                    all.unchecked.push(what.clone());
                }
            }
            Event::Remark { what } => {
                if !all.remarks.contains(what) {
                    all.remarks.push(what.clone());
                }
            }
            Event::End { leaks, leaked, .. } => {
                ended += 1;
                all.leaks.0 += leaks;
                all.leaks.1 += leaked;
            }
        }
    }
    all.cut_short = all.processes.saturating_sub(ended);
    for (process, (kernels, launches)) in ran {
        let [_, begun] = held.get(process).map_or([0; 2], |counts| slot(counts, events::LOST));
        let running = kernels.iter().filter(|(slot, _)| events::begun(launches + 1, **slot) == begun);
        all.unfinished.extend(running.map(|(_, kernel)| (*kernel).to_owned()));
    }
    all.unfinished.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_one_line_for_each_kernel_and_each_violation() {
        let violation = r#"{"rule":"race","what":"w","message":"m","kernel":"k","ptx_line":3,"instruction":"st","source":null,"cta":[0,0,0],"warp":0,"lane":1,"times":2}"#;
        let of = |process: &str| {
            [
                format!(r#"{{"event":"start","process":"{process}","gpu":"gb10"}}"#),
                format!(r#"{{"event":"kernel","process":"{process}","slot":1,"kernel":"k"}}"#),
                format!(r#"{{"event":"violation","process":"{process}","slot":2,"violation":{violation}}}"#),
            ]
            .join("\n")
        };
        let lines = [of("1.0"), of("2.0"), r#"{"event":"kernel","process":"2.0","sl"#.to_owned()];
        let counts = |process: &str| match process {
            "1.0" => [0u64, 0, 2, 11, 4, 0].into_iter().flat_map(u64::to_le_bytes).collect(),
            // Killed before it wrote its counters.
            _ => Vec::new(),
        };
        let all = gather(&read(&lines.join("\n")), "gb10", 139, counts);
        let kernel = KernelLaunches { launches: 2, instructions: 11, violations: 6, nanoseconds: 0 };
        assert_eq!((all.violations.len(), all.violations[0].times, all.cut_short), (1, 6, 2));
        assert_eq!(all.find_gaps(), None);
        assert_eq!(all.kernels.into_iter().collect::<Vec<_>>(), [("k".to_owned(), kernel)]);
    }

    #[test]
    fn the_launch_that_a_process_did_not_end_is_named() {
        let kernel = |slot: usize, name: &str| {
            format!(r#"{{"event":"kernel","process":"1.0","slot":{slot},"kernel":"{name}"}}"#)
        };
        let start = r#"{"event":"start","process":"1.0","gpu":"gb10"}"#.to_owned();
        let lines = [start, kernel(1, "k"), kernel(2, "endless"), kernel(3, "refused")].join("\n");
        let all = |last: u64| {
            let counts =
                [0, last, 2, 11, 0, 0, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
            let all = gather(&read(&lines), "gb10", 143, |_| counts.clone());
            (all.unfinished, all.kernels.into_keys().collect::<Vec<_>>())
        };
        let listed = vec!["k".to_owned()];
        assert_eq!(all(events::begun(3, 2)), (vec!["endless".to_owned()], listed.clone()));
        assert_eq!(all(events::begun(3, 1)), (vec!["k".to_owned()], listed.clone()));
        // All have ended, and what began last was refused.
        assert_eq!(
            (all(events::begun(2, 1)), all(events::begun(2, 0))),
            ((Vec::new(), listed.clone()), (Vec::new(), listed))
        );
    }

    #[test]
    fn expected_traps_are_no_violations_and_a_call_is_no_kernel() {
        let violation = |rule: &str, kernel: &str, call: &str| {
            format!(
                r#"{{"event":"violation","process":"1.0","slot":2,"violation":{{"rule":"{rule}","what":"w","message":"m","kernel":"{kernel}",{call}"ptx_line":3,"instruction":"","source":null,"cta":[0,0,0],"warp":0,"lane":1,"times":1}}}}"#
            )
        };
        let lines = [
            r#"{"event":"start","process":"1.0","gpu":"gb10"}"#.to_owned(),
            r#"{"event":"kernel","process":"1.0","slot":1,"kernel":"k"}"#.to_owned(),
            violation("trap", "k", ""),
            violation("uninitialised", "k", r#""call":"cudaMemcpy","#),
            violation("use_after_free", "", r#""call":"cudaMemcpy","#),
            violation("use_after_free", "", r#""call":"cudaMemset","#),
            r#"{"event":"remark","what":"r"}"#.to_owned(),
        ];
        let mut all = gather(&read(&lines.join("\n")), "gb10", 0, |_| Vec::new());
        assert_eq!((all.kernels.len(), all.kernels["k"].violations, all.violations.len()), (1, 2, 4));
        assert_eq!((all.remarks.as_slice(), all.lacks_trap()), (["r".to_owned()].as_slice(), false));
        all.expect_traps();
        assert_eq!((all.kernels["k"].violations, all.violations.len(), all.lacks_trap()), (1, 3, false));
        all.expect_traps();
        assert!(all.lacks_trap());
    }

    #[test]
    fn a_run_without_a_launch_or_with_anything_refused_is_incomplete() {
        let start = r#"{"event":"start","process":"1.0","gpu":"gb10"}"#;
        let kernel = r#"{"event":"kernel","process":"1.0","slot":1,"kernel":"k"}"#;
        let refused = r#"{"event":"refused","kernel":"_Z1kPf","why":"no PTX"}"#;
        let missing = r#"{"event":"missing","function":"cuArrayCreate"}"#;
        let unchecked = r#"{"event":"unchecked","what":"a module cannot be loaded: x"}"#;
        let gaps = |lines: &[&str], lost: u64| {
            let counts = [lost, 0, 3, 40].into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
            let all = gather(&read(&lines.join("\n")), "gb10", 0, |_| counts.clone());
            all.find_gaps().map(|gaps| gaps.to_string()).unwrap_or_default()
        };
        assert_eq!(gaps(&[start, kernel], 0), "");
        assert_eq!(gaps(&[start], 0), "NOTHING CHECKED: the program launched no kernel");
        assert!(gaps(&[], 0).starts_with("NOTHING CHECKED: the program did not use the simulated GPU"));
        assert_eq!(gaps(&[start, refused], 0), "NOTHING CHECKED: 1 kernel could not run: k: no PTX");
        assert_eq!(gaps(&[start, kernel, refused], 0), "INCOMPLETE: 1 kernel could not run: k: no PTX");
        assert_eq!(gaps(&[start, kernel, missing], 0), "INCOMPLETE: not supported: cuArrayCreate");
        assert_eq!(gaps(&[start, kernel, unchecked], 0), "INCOMPLETE: a module cannot be loaded: x");
        assert_eq!(gaps(&[start, kernel], 1), "INCOMPLETE: the program could not report 1 event");
    }
}
