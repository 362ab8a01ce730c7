//! `bisect`: one kernel with every compiler at every level of optimization: which machine code differs, what is known to be wrong in it, and
//! what a GPU makes of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use compiler::known::{Found, find};
use compiler::machine::{Place, Structure, functions, structures};
use emulator::device::Failure;
use miette::Diagnostic;
use ptx::arch::{Suffix, Target};
use ptx::line_column;

use super::args::{OutputArgs, seconds};
use super::device::{DeviceArgs, DeviceName};
use super::error::{CliError, CommandError};
use super::exit;
use super::fuzz;
use super::launch_args::{LaunchArgs, LaunchOf, is_launch_file};
use super::output;
use super::sass;
use crate::gpu::{Description, GpuDevice};
use crate::header::read_text;
use crate::job::build::{self, Build};
use crate::job::launch::{self, LaunchError, Outcome, Session};
use crate::job::ptxas::{Assembler, Failed};
use crate::job::{Context, JobError};
use crate::lint::{Source, SourceError};
use crate::toolkit::Discovery;

/// Arguments of `bisect`.
#[derive(Debug, Args)]
pub(super) struct BisectArgs {
    /// The PTX or CUDA C++, a launch file, or the launch file of a launch that `exec --record` recorded
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Compiler: 13.5, 13.5.37, `all`, the path of a ptxas, or with --device `driver` (repeatable) [default: all; on a simulated GPU driver]
    #[arg(long = "toolkit", short = 'k', value_name = "V")]
    toolkits: Vec<String>,
    /// Target (`-arch`) [default: the file's own, or that of the GPU which runs it]
    #[arg(long, short = 't', value_name = "T")]
    target: Option<Target>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    launch: LaunchArgs,
    /// Time limit of one run of ptxas, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    time_limit: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

impl BisectArgs {
    /// Whether it says how the kernel is launched, or asks for that.
    fn launches(&self) -> bool {
        self.device.device != DeviceName::Emulator || self.launch.given().next().is_some()
    }
}

/// A module, and how it is launched, if that is known.
struct Subject {
    text: String,
    session: Option<Session>,
}

/// Reads the file. CUDA C++ is compiled for the target that is named, or for the GPU which runs it.
fn subject(args: &BisectArgs, gpu: Option<&Description>, context: &Context<'_>) -> Result<Subject, CliError> {
    let is_cuda = args.file.extension().is_some_and(|e| e == "cu");
    let target = args.target.or(gpu.map(Description::target)).filter(|_| is_cuda);
    let compile = args.launch.compiler.compile(target.map(|target| target.to_string()), None);
    let session = if args.launches() || is_launch_file(&args.file) {
        let what = LaunchOf::Files(std::slice::from_ref(&args.file));
        args.launch.session(&what, compile, context)?
    } else if is_cuda {
        let text = read_text(&args.file, "CUDA C++").map_err(LaunchError::from)?;
        let text = launch::compile_file(&args.file, &text, &compile, context)?.ptx;
        return Ok(Subject { text, session: None });
    } else {
        let source = Source::read(&args.file).map_err(BisectError::Source)?;
        let [module] = source.modules.as_slice() else {
            return Err(BisectError::Modules(source.file).into());
        };
        return Ok(Subject { text: module.text.clone(), session: None });
    };
    match session.modules.as_slice() {
        [module] => Ok(Subject { text: module.text.clone(), session: Some(session) }),
        _ => Err(BisectError::Modules(args.file.display().to_string()).into()),
    }
}

/// The machine code of a module: for each function its size, barriers and opcodes; equal for toolkits that write the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    instructions: usize,
    /// BSSY, BSYNC and WARPSYNC, by which lanes meet.
    meetings: usize,
    opcodes: BTreeMap<String, usize>,
    places: Vec<(Structure, String, u64)>,
}

/// What a ptxas made of the module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Made {
    Code(Shape),
    /// Machine code that cannot be shown.
    Unread,
    Failed(String),
    /// No machine code, because ptxas is older than the file or the target.
    TooOld(String),
}

/// What a GPU made of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ran {
    Agrees,
    /// How many elements differ, and the first.
    Differs(String),
    Failed(String),
}

/// What was executed, and how it ended.
struct Executed<'a> {
    /// The GPU.
    device: Option<&'a str>,
    ran: &'a [(Ran, Vec<usize>)],
    /// Whether the emulator ran the launches.
    emulated: bool,
    failure: Option<&'a LaunchError>,
}

/// Runs `bisect`.
pub(super) fn bisect(args: &BisectArgs, context: &Context<'_>) -> Result<(), CliError> {
    let mut gpu = args.device.gpu(context)?;
    let Subject { text, mut session } = subject(args, gpu.as_ref().map(GpuDevice::about), context)?;
    let target = target(args, &text, gpu.as_ref().map(GpuDevice::about))?;
    let found: Vec<Found> = match ptx::parse(&text) {
        Ok(tree) => find(&tree).into_iter().filter(|f| f.miscompile.affects_target(target)).collect(),
        Err(_) => Vec::new(),
    };
    let about = gpu.as_ref().map(GpuDevice::about);
    let names = match about {
        None if args.toolkits.is_empty() => vec!["all".to_owned()],
        _ => args.toolkits.clone(),
    };
    let builds = fuzz::builds(&names, &[0, 1, 2, 3], about)?;
    let discovery = fuzz::discovery(&names);
    let assembler = Assembler::new(args.time_limit).map_err(BisectError::Scratch)?;
    let emulated = match &mut session {
        Some(session) => {
            // What files and recordings expect is what some machine computed; the emulator's own results are compared here.
            session.expectations.clear();
            Some(session.emulated(target)?)
        }
        None => None,
    };
    let mut made: Vec<(Made, Vec<usize>)> = Vec::new();
    let mut ran: Vec<(Ran, Vec<usize>)> = Vec::new();
    for (n, build) in builds.iter().enumerate() {
        let image = match build {
            Build::Driver(_) => Some(text.as_bytes().to_vec()),
            Build::Ptxas(toolkit, level) => {
                let assembled = assembler.assemble(toolkit, target, *level, &text);
                let (result, image) = match assembled.map_err(BisectError::Scratch)? {
                    Ok(cubin) => {
                        let image = std::fs::read(&cubin).map_err(BisectError::Scratch)?;
                        (read(&cubin, &discovery, args, gpu.is_some())?, Some(image))
                    }
                    Err(old @ Failed::TooOld(_)) => (Made::TooOld(old.to_string()), None),
                    Err(failed) => (Made::Failed(failed.to_string()), None),
                };
                add(&mut made, result, n);
                image
            }
        };
        if let (Some(gpu), Some(session), Some(outcome), Some(image)) =
            (&mut gpu, &session, emulated.as_ref().and_then(|e| e.judged.outcome.as_ref()), image)
        {
            let result = run(session, gpu, outcome, &image)?;
            add(&mut ran, result, n);
        }
    }
    let device = gpu.as_ref().map(|gpu| gpu.about().name.as_str());
    let failure = emulated.as_ref().and_then(|e| e.failure.as_ref());
    let subject = (text.as_str(), target);
    let (text, wrong) = told(
        subject,
        &builds,
        &made,
        &found,
        Executed { device, ran: &ran, emulated: emulated.is_some(), failure },
    );
    output::write(&text, &args.output)?;
    if let Some(failure) = emulated.and_then(|emulated| emulated.failure) {
        return Err(failure.into());
    }
    let ended = ran.iter().any(|(ran, _)| !matches!(ran, Ran::Failed(_)));
    let differs = ran.iter().any(|(ran, _)| matches!(ran, Ran::Differs(_)));
    match () {
        () if wrong => Err(BisectError::Known.into()),
        () if differs => Err(BisectError::Differs.into()),
        () if device.is_none() && made.iter().all(|(made, _)| matches!(made, Made::TooOld(_))) => {
            Err(BisectError::TooOld.into())
        }
        () if device.is_some() && !ended => Err(BisectError::NotCompared.into()),
        // Some builds ran and others did not end: that is a difference, too.
        () if ran.iter().any(|(ran, _)| matches!(ran, Ran::Failed(_))) => Err(BisectError::Differs.into()),
        () => Ok(()),
    }
}

/// Reads machine code. Where a GPU runs it, too, code that cannot be read is no reason to end.
fn read(
    cubin: &std::path::Path,
    discovery: &Discovery,
    args: &BisectArgs,
    runs: bool,
) -> Result<Made, CliError> {
    let listing = match &discovery.disassembler {
        Some(disassembler) => disassembler.listing(cubin, args.time_limit).map_err(sass::SassError::from),
        None => Err(sass::SassError::NoDisassembler),
    };
    match listing {
        Ok(listing) => Ok(Made::Code(shape(&listing))),
        Err(_) if runs => Ok(Made::Unread),
        Err(error) => Err(error.into()),
    }
}

fn add<T: PartialEq>(groups: &mut Vec<(T, Vec<usize>)>, result: T, build: usize) {
    match groups.iter_mut().find(|(other, _)| *other == result) {
        Some((_, builds)) => builds.push(build),
        None => groups.push((result, vec![build])),
    }
}

/// The target: the named one; the file's own; or the GPU's, where that runs the file's.
fn target(args: &BisectArgs, text: &str, gpu: Option<&Description>) -> Result<Target, CliError> {
    let own = ptx::scan::target(text);
    let Some(gpu) = gpu else { return Ok(args.target.or(own).ok_or(BisectError::Target)?) };
    let wanted = args.target.or(own).ok_or(BisectError::Target)?;
    let mine = gpu.target();
    let older = args.target.is_none() && wanted.suffix == Suffix::Base && wanted.number <= mine.number;
    match (wanted.cubin_runs_on(mine), older) {
        (true, _) => Ok(wanted),
        (false, true) => Ok(mine),
        (false, false) => Err(JobError::DeviceTarget(wanted.to_string(), gpu.architecture()).into()),
    }
}

/// Runs the launches on the GPU and compares every buffer that is a result.
fn run(session: &Session, gpu: &mut GpuDevice, outcome: &Outcome, image: &[u8]) -> Result<Ran, CliError> {
    let results = session.on_gpu(gpu, &[image.to_vec()]).and_then(|mut on| on.run());
    Ok(match results {
        Ok(results) => session.difference(&results, outcome).map_or(Ran::Agrees, Ran::Differs),
        Err(lost @ Failure::DeviceLost(_)) => {
            return Err(JobError::Device(emulator::device::Device::name(gpu), lost).into());
        }
        Err(failure) => Ran::Failed(failure.to_string()),
    })
}

fn shape(listing: &str) -> Shape {
    let mut opcodes: BTreeMap<String, usize> = BTreeMap::new();
    let (mut instructions, mut meetings) = (0, 0);
    for line in functions(listing).iter().flat_map(|f| &f.code).filter(|line| line.opcode != "NOP") {
        instructions += 1;
        let root = line.opcode.split('.').next().unwrap_or_default();
        meetings += usize::from(matches!(root, "BSSY" | "BSYNC" | "WARPSYNC"));
        *opcodes.entry(root.to_owned()).or_default() += 1;
    }
    let place = |p: Place| (p.structure, p.function, p.address);
    Shape { instructions, meetings, opcodes, places: structures(listing).into_iter().map(place).collect() }
}

/// The text, and whether something known to be wrong is in it.
fn told(
    (ptx, target): (&str, Target),
    builds: &[Build],
    made: &[(Made, Vec<usize>)],
    found: &[Found],
    Executed { device, ran, emulated, failure }: Executed<'_>,
) -> (String, bool) {
    let words = |of: &[usize]| build::in_words(of.iter().map(|n| &builds[*n]));
    let kinds = made.iter().filter(|(made, _)| matches!(made, Made::Code(_) | Made::Unread)).count();
    let mut out = match kinds {
        1 => format!("{target}: one kind of machine code\n"),
        _ => format!("{target}: {kinds} kinds of machine code\n"),
    };
    let mut wrong = machine_code(&mut out, made, &words);
    let mut known = Vec::new();
    for f in found {
        let line = line_column(ptx, f.span.start as usize).line;
        let affected: Vec<usize> = (0..builds.len()).filter(|n| builds[*n].has(f.miscompile)).collect();
        if affected.is_empty() {
            continue;
        }
        wrong = true;
        let m = f.miscompile;
        let _ = writeln!(
            out,
            "line {line}: `{}`: known miscompile {} with {}\n  {}\n  instead: {}",
            f.form,
            m.name,
            words(&affected),
            m.effect,
            m.rewrite
        );
        known.push((m.name.as_str(), affected));
    }
    if let Some(device) = device.filter(|_| !ran.is_empty()) {
        let _ = writeln!(out, "on {device}, against the emulator:");
    }
    for (result, of) in ran {
        let _ = match result {
            Ran::Agrees => writeln!(out, "{}: agree", words(of)),
            Ran::Differs(how) => writeln!(out, "{}: {how}", words(of)),
            Ran::Failed(how) => writeln!(out, "{}: {how}", words(of)),
        };
    }
    let differing: Vec<usize> = ran
        .iter()
        .filter(|(ran, _)| matches!(ran, Ran::Differs(_)))
        .flat_map(|(_, of)| of)
        .copied()
        .collect();
    let unknown = differing.iter().any(|n| !known.iter().any(|(_, affected)| affected.contains(n)));
    let verdict = if let Some(failure) = failure {
        format!("the kernel, not the compiler: {failure}")
    } else if !differing.is_empty() && unknown {
        format!(
            "the emulator finds no violation, and PTX leaves nothing open: a miscompile by {}",
            words(&differing)
        )
    } else if !differing.is_empty() {
        let mut names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        names.dedup();
        format!(
            "the emulator finds no violation, and PTX leaves nothing open: the known miscompile {}",
            names.join(", ")
        )
    } else if wrong {
        "the compiler: the lines above say where".to_owned()
    } else if ran.iter().any(|(ran, _)| *ran == Ran::Agrees) {
        "the emulator finds no violation, and what ran agrees with it".to_owned()
    } else if made.iter().all(|(made, _)| matches!(made, Made::TooOld(_))) {
        "no machine code was compared".to_owned()
    } else {
        let kernel =
            if emulated { "the emulator finds no violation" } else { "`emulate` checks the kernel itself" };
        format!(
            "no miscompile is known here; differences of machine code are no proof. Machine code was not executed: {kernel}"
        )
    };
    let _ = writeln!(out, "{verdict}");
    (out, wrong)
}

/// Tells the kinds of machine code, and whether something is known to be wrong in one.
fn machine_code(out: &mut String, made: &[(Made, Vec<usize>)], words: &impl Fn(&[usize]) -> String) -> bool {
    let (mut first, mut wrong): (Option<&Shape>, bool) = (None, false);
    for (result, of) in made {
        let _ = writeln!(out, "{}", words(of));
        match result {
            Made::Failed(how) => {
                wrong = true;
                let _ = writeln!(out, "  ptxas {how}");
            }
            Made::TooOld(how) => {
                let _ = writeln!(out, "  not compared: ptxas {how}");
            }
            Made::Unread => {
                let _ = writeln!(out, "  its machine code cannot be read with nvdisasm");
            }
            Made::Code(shape) => {
                let _ = writeln!(
                    out,
                    "  {} instructions, {} at which lanes meet",
                    shape.instructions, shape.meetings
                );
                if let Some(first) = first {
                    let _ = writeln!(out, "  {}", changes(first, shape));
                }
                first = first.or(Some(shape));
                for (structure, function, address) in &shape.places {
                    wrong = true;
                    let names = structure.miscompiles().join(", ");
                    let _ = writeln!(
                        out,
                        "  {function} at {address:#06x}: {}: {} ({names})",
                        structure.word(),
                        structure.sentence()
                    );
                }
            }
        }
    }
    wrong
}

/// The opcodes whose number differs, most first.
fn changes(one: &Shape, other: &Shape) -> String {
    let names: std::collections::BTreeSet<&String> = one.opcodes.keys().chain(other.opcodes.keys()).collect();
    let count = |shape: &Shape, name: &String| shape.opcodes.get(name).copied().unwrap_or_default();
    let mut all: Vec<(usize, String)> = names
        .into_iter()
        .map(|name| (count(one, name), count(other, name), name))
        .filter(|(a, b, _)| a != b)
        .map(|(a, b, name)| (a.abs_diff(b), format!("{name} {a} → {b}")))
        .collect();
    all.sort_by_key(|(by, _)| std::cmp::Reverse(*by));
    let words: Vec<String> = all.into_iter().take(8).map(|(_, text)| text).collect();
    if words.is_empty() {
        "the same opcodes with other operands".to_owned()
    } else {
        format!("against the first: {}", words.join(", "))
    }
}

/// Why `bisect` does not exit with 0.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum BisectError {
    #[error(transparent)]
    Source(SourceError),
    #[error("{0}: it has several modules; pass one module at a time")]
    Modules(String),
    #[error("the file names no known target")]
    #[diagnostic(help("name one with --target"))]
    Target,
    #[error("no files for ptxas can be written: {0}")]
    Scratch(std::io::Error),
    #[error("the compiler is known to be wrong here")]
    Known,
    #[error("machine code differs from PTX")]
    #[diagnostic(help("the lines above say with which compilers"))]
    Differs,
    #[error("nothing was compared: every ptxas is older than the file's `.version`, or than the target")]
    #[diagnostic(help("name a later toolkit with --toolkit; `sm121probe toolkit install` fetches one"))]
    TooOld,
    #[error("nothing was compared: no compiler's machine code ran to its end on the GPU")]
    NotCompared,
}

impl CommandError for BisectError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Source(_) | Self::Modules(_) | Self::Target | Self::Scratch(_) => exit::USAGE,
            Self::Known | Self::Differs => exit::DOES_NOT_CONFORM,
            Self::NotCompared | Self::TooOld => exit::INCOMPLETE,
        }
    }
}
