//! All runs of one kernel: schedules, contents of unwritten memory, the reference, planted faults.

use std::path::{Path, PathBuf};

use emulator::{Judge, Options, Program};
use sm121probe::store::Store;

use super::compile;
use super::cuda::CCCL;
use super::cute_dsl;
use super::faults::{self, Fault};
use super::packages::{self, Package};
use super::recording::{self, Recording};
use super::replay::{self, Buffers, Ended, Seen};
use super::triton;

/// Schedules of each kernel.
pub(crate) const SCHEDULES: u64 = 4;

/// Limit of warp instructions of a launch and, with a fault, the limit as a multiple of what the kernel needs.
const FUEL: u64 = 50_000_000;
const PATIENCE: u64 = 8;

/// The expected verdict of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    /// Correct under all rules.
    Right,
    /// It violates this rule, for this reason.
    Defect {
        /// The name of the rule.
        rule: &'static str,
        /// The place in upstream's source, and the evidence.
        why: &'static str,
    },
    /// It has such races and violates nothing else.
    Races {
        /// Their messages, in parts separated by ` … `. The first occurs under one of the schedules; the others may.
        kinds: &'static [&'static str],
        /// Whether its numbers are correct in the emulator all the same; they are not judged otherwise.
        right: bool,
        /// The place in upstream's source, and the evidence.
        why: &'static str,
    },
    /// It violates no rule, and its numbers are not those that its host code was asked for.
    Wrong {
        /// What the reference says of them, in part.
        explanation: &'static str,
        /// The place in upstream's source, and the evidence.
        why: &'static str,
        /// Shows in upstream's source what no kernel can show.
        source: fn(&Path) -> Result<(), String>,
    },
}

/// Where a kernel comes from.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// Upstream CUDA, launched by its own host code.
    Cuda(&'static compile::Source),
    /// A kernel of this project, or of an upstream project with its own host code, that Triton compiles.
    Triton(&'static triton::Source),
    /// Upstream Python, launched by its own host code.
    CuteDsl(&'static cute_dsl::Source),
}

impl Origin {
    /// The package with upstream's source.
    pub(crate) fn package(self) -> &'static Package {
        match self {
            Self::Cuda(source) => source.package.map_or(&CCCL, |(package, _)| package),
            Self::Triton(source) => source.upstream.map_or(source.triton, |upstream| upstream.package),
            Self::CuteDsl(source) => source.package,
        }
    }

    /// The folder with the package's files.
    fn unpacked(self, store: &Store) -> Result<PathBuf, Why> {
        match self {
            Self::Cuda(compile::Source { package: Some((package, at)), .. }) => {
                packages::unpacked(store, at, &[*package]).map_err(Why::Missing)
            }
            _ => Err(Why::Failed("the package of this kernel has no source to be looked at".to_owned())),
        }
    }

    /// The PTX of a case, and the actions of its host code.
    fn recorded(self, store: &Store, case: &str) -> Result<(String, Recording), Why> {
        match self {
            Self::Cuda(source) => {
                let built = compile::built(store, source).map_err(Why::Missing)?;
                let recording = Recording::of(store, &built, case).map_err(Why::Failed)?;
                let recording = Recording { fixed_shared: source.fixed_shared, ..recording };
                // Faults are planted in it; each is decoded separately.
                Ok((recording::launched_only(&built.ptx, &recording), recording))
            }
            Self::Triton(source) => {
                let folder = triton::compiled(store, source).map_err(Why::Missing)?;
                triton::recorded(&folder.join(case)).map_err(Why::Failed)
            }
            Self::CuteDsl(source) => cute_dsl::recorded(store, source, case),
        }
    }
}

/// An upstream kernel.
pub(crate) struct Kernel {
    /// Its name, such as `cub/scan`.
    pub(crate) name: &'static str,
    /// The source.
    pub(crate) source: Origin,
    /// The argument of the host program, or the case of the Python program.
    pub(crate) case: &'static str,
    /// Upstream's file in its package, or this project's.
    pub(crate) file: &'static str,
    /// Returns the largest error in units of its bound, at most 1; or the first wrong element.
    pub(crate) reference: fn(&Buffers) -> Result<f64, String>,
    /// How the reference bounds the error, as text.
    pub(crate) bound: &'static str,
    /// The expected verdict.
    pub(crate) expected: Expected,
}

/// The results of a kernel.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// Number of launches of the case.
    pub(crate) launches: usize,
    /// The largest error in units of its bound.
    pub(crate) error: f64,
    /// Each fault: its name, and how it was found; `None` if neither rules nor numbers expose it.
    pub(crate) faults: Vec<(String, Option<String>)>,
}

/// Why a case fails.
#[derive(Debug)]
pub(crate) enum Why {
    /// A package or a compiler is unavailable.
    Missing(String),
    /// The result is not as expected.
    Failed(String),
}

/// Runs a kernel under all schedules, contents and faults.
///
/// # Errors
/// [`Why`].
pub(crate) fn judge(store: &Store, kernel: &Kernel) -> Result<Shown, Why> {
    let failed = |ended: Ended| Why::Failed(format!("{ended:?}"));
    let (ptx, recording) = kernel.source.recorded(store, kernel.case)?;
    let program = replay::program(&ptx, &recording).map_err(failed)?;
    let launches = recording.launches().count();
    if let Expected::Defect { rule, .. } = kernel.expected {
        // A race need not occur in every schedule.
        let mut runs =
            (0..SCHEDULES).map(|seed| replay::run(&program, &recording, &replay::schedule(seed, FUEL)));
        return match runs.find_map(Result::err) {
            Some(Ended::Rule(found, _)) if found == rule => {
                Ok(Shown { launches, error: 0.0, faults: Vec::new() })
            }
            other => Err(Why::Failed(format!("a violation of `{rule}` was expected, not {other:?}"))),
        };
    }
    if let Expected::Races { kinds, right, .. } = kernel.expected {
        expected_races(&program, &recording, kinds)?;
        if !right {
            return Ok(Shown { launches, error: 0.0, faults: Vec::new() });
        }
    }
    let run = |program: &Program, options: &Options| ran(kernel, program, &recording, options);
    let first = run(&program, &replay::schedule(0, FUEL)).map_err(failed)?;
    for seed in 1..SCHEDULES {
        let outcome = run(&program, &replay::schedule(seed, FUEL));
        let outcome = outcome.map_err(|ended| Why::Failed(format!("schedule {seed}: {ended:?}")))?;
        if let Some(buffer) = first.differs(&outcome) {
            return Err(Why::Failed(format!(
                "schedule {seed}: buffer `{buffer}` differs from that of schedule 0"
            )));
        }
    }
    let outcome = run(&program, &replay::poisoned(FUEL));
    let outcome =
        outcome.map_err(|ended| Why::Failed(format!("other contents of unwritten memory: {ended:?}")))?;
    if let Some(buffer) = first.depends(&outcome) {
        return Err(Why::Failed(format!("buffer `{buffer}` depends on unwritten memory")));
    }
    let numbers = (kernel.reference)(&first);
    if let Expected::Wrong { explanation, source, .. } = kernel.expected {
        let root = kernel.source.unpacked(store)?;
        source(&root).map_err(Why::Failed)?;
        return match numbers {
            Err(what) if what.contains(explanation) => Ok(Shown { launches, error: 0.0, faults: Vec::new() }),
            other => Err(Why::Failed(format!("`{explanation}` was expected, not {other:?}"))),
        };
    }
    let error = numbers.map_err(|what| Why::Failed(format!("wrong numbers: {what}")))?;
    let (_, Seen { lines: executed, .. }) =
        replay::observed(&program, &recording, &lenient(kernel, &replay::schedule(0, FUEL)))
            .map_err(failed)?;
    let fuel = first.instructions * PATIENCE + 10_000;
    let overlapped = recording.overlaps();
    let mut found = Vec::new();
    for fault in faults::planted(&ptx, &executed, overlapped) {
        let how = caught(kernel, &recording, &fault, &first, fuel);
        found.push((fault.name, how));
    }
    if !found.is_empty() && found.iter().all(|(_, how)| how.is_none()) {
        return Err(Why::Failed("none of the planted faults is found".to_owned()));
    }
    Ok(Shown { launches, error, faults: found })
}

/// The options with which the expected races of a kernel do not end a launch.
fn lenient(kernel: &Kernel, options: &Options) -> Options {
    let judge = match kernel.expected {
        Expected::Races { .. } => Judge::Values,
        _ => Judge::Strict,
    };
    Options { judge, ..options.clone() }
}

/// Runs a program; the races that are expected of the kernel do not end the run.
fn ran(
    kernel: &Kernel,
    program: &Program,
    recording: &Recording,
    options: &Options,
) -> Result<Buffers, Ended> {
    let Expected::Races { kinds, .. } = kernel.expected else {
        return replay::run(program, recording, options);
    };
    let (buffers, seen) = replay::observed(program, recording, &lenient(kernel, options))?;
    let other = |found: &(String, String)| !kinds.iter().any(|kind| is_race(found, kind));
    match seen.violations.into_iter().find(other) {
        Some((rule, message)) => Err(Ended::Rule(rule, message)),
        None => Ok(buffers),
    }
}

/// Whether a violation is a race of this kind.
fn is_race((rule, message): &(String, String), kind: &str) -> bool {
    rule == "race" && kind.split(" … ").all(|part| message.contains(part))
}

/// Checks that the first kind of race occurs under a schedule, and nothing but these kinds.
fn expected_races(program: &Program, recording: &Recording, kinds: &[&str]) -> Result<(), Why> {
    let mut violations = Vec::new();
    for seed in 0..SCHEDULES {
        let options = Options { judge: Judge::Values, ..replay::schedule(seed, FUEL) };
        let (_, seen) = replay::observed(program, recording, &options)
            .map_err(|ended| Why::Failed(format!("schedule {seed}: {ended:?}")))?;
        violations.extend(seen.violations);
    }
    if let Some((_, other)) = violations.iter().find(|found| !kinds.iter().any(|kind| is_race(found, kind))) {
        return Err(Why::Failed(format!("only the races {kinds:?} were expected, not {other}")));
    }
    match kinds.first() {
        Some(first) if !violations.iter().any(|found| is_race(found, first)) => {
            Err(Why::Failed(format!("the race `{first}` was expected")))
        }
        _ => Ok(()),
    }
}

/// How a fault is found: by a rule, or by wrong numbers.
fn caught(
    kernel: &Kernel,
    recording: &Recording,
    fault: &Fault,
    right: &Buffers,
    fuel: u64,
) -> Option<String> {
    let program = match replay::program(&fault.ptx, recording) {
        Ok(program) => program,
        Err(ended) => return Some(format!("{ended:?}")),
    };
    let mut changed = None;
    for seed in 0..SCHEDULES {
        match ran(kernel, &program, recording, &replay::schedule(seed, fuel)) {
            Err(Ended::Rule(rule, _)) => return Some(format!("`{rule}`")),
            Err(other) => return Some(format!("{other:?}")),
            Ok(buffers) if (kernel.reference)(&buffers).is_err() => return Some("wrong numbers".to_owned()),
            Ok(buffers) if right.differs(&buffers).is_some() => {
                changed = Some("other numbers, within the bound".to_owned())
            }
            Ok(_) => {}
        }
    }
    changed
}
