//! `fuzz ptx`: random kernels, judged without a GPU.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use compiler::fuzz::{Difference, Generator, GeneratorError, check, shrink};
use miette::Diagnostic;
use ptx::arch::{PtxIsa, Target};

use super::args::{OutputArgs, seconds};
use super::error::{CliError, CommandError};
use super::exit;
use super::ops::ISA;
use super::output;
use crate::job::ptxas::Assembler;
use crate::store::Store;
use crate::toolkit::{self, Places};

/// Verbs of `fuzz`.
#[derive(Debug, Subcommand)]
pub(super) enum FuzzVerb {
    /// Run random PTX kernels on the emulator in several ways that must agree, and let ptxas assemble them
    Ptx(FuzzArgs),
}

/// Arguments of `fuzz ptx`.
#[derive(Debug, Args)]
pub(super) struct FuzzArgs {
    /// Number of kernels
    #[arg(long, value_name = "N", default_value_t = 1000)]
    kernels: u64,
    /// Stop after this time, in seconds, with the kernels so far
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// Seed of the first kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Target of the kernels
    #[arg(long, short = 't', value_name = "T", default_value = "sm_121a")]
    target: Target,
    /// Version of PTX [default: the newest, or that of the oldest --toolkit]
    #[arg(long, value_name = "V")]
    isa: Option<PtxIsa>,
    /// Let this ptxas assemble every kernel, too: 13.5, 13.5.37, `all`, or a path (repeatable)
    #[arg(long = "toolkit", short = 'k', value_name = "V")]
    toolkits: Vec<String>,
    /// With --toolkit: a level of optimization, 0 to 3 (repeatable)
    #[arg(long = "level", short = 'O', value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(0..=3))]
    levels: Vec<u8>,
    /// Write the shrunk kernel of each finding to DIR
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Time limit of one run of ptxas, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    time_limit: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

/// How many kernels one run of ptxas gets.
const BATCH: usize = 16;

/// Something that must not be.
struct Finding {
    seed: u64,
    what: String,
    kernel: String,
}

/// Runs `fuzz`.
pub(super) fn fuzz(verb: &FuzzVerb) -> Result<(), CliError> {
    let FuzzVerb::Ptx(args) = verb;
    let store = Store::open(None).ok();
    let places = Places::from_environment(store.as_ref().map(Store::root));
    let discovery = toolkit::discover(store.as_ref(), &places);
    let toolkits = if args.toolkits.is_empty() { Vec::new() } else { discovery.select(&args.toolkits)? };
    let oldest = toolkits.iter().map(|t| t.isa).min();
    let isa = match (args.isa, oldest) {
        (Some(isa), _) | (None, Some(isa)) => isa,
        (None, None) => ISA.parse().map_err(|_| FuzzError::Isa)?,
    };
    let assembler = Assembler::new(args.time_limit).map_err(FuzzError::Scratch)?;
    let mut generator = Generator::new(isa, args.target).map_err(FuzzError::Generator)?;
    let (begin, mut findings, mut batch) = (Instant::now(), Vec::new(), Vec::new());
    let (mut kernels, mut assembled) = (0u64, 0usize);
    for seed in args.seed..args.seed.saturating_add(args.kernels) {
        if args.time.is_some_and(|limit| begin.elapsed() >= limit) {
            break;
        }
        let kernel = generator.kernel(seed);
        kernels += 1;
        if let Err(difference) = check(&kernel.text, seed) {
            let wanted = kind(&difference);
            let same = |text: &str| check(text, seed).is_err_and(|d| kind(&d) == wanted);
            findings.push(Finding { seed, what: difference.to_string(), kernel: shrink(&kernel.text, same) });
        }
        batch.push(kernel);
        if !toolkits.is_empty() && (batch.len() == BATCH || seed + 1 == args.seed + args.kernels) {
            let texts: Vec<&str> = batch.iter().map(|k| k.text.as_str()).collect();
            for toolkit in &toolkits {
                for level in &args.levels {
                    assembled += texts.len();
                    for (n, answer) in assembler
                        .assemble_all(toolkit, args.target, *level, &texts)
                        .map_err(FuzzError::Scratch)?
                    {
                        let same = |text: &str| {
                            check(text, batch[n].seed).is_ok()
                                && assembler.answers_alike(toolkit, args.target, *level, text, &answer)
                        };
                        let what = format!("ptxas {} -O{level} {answer}", toolkit.version);
                        findings.push(Finding { seed: batch[n].seed, what, kernel: shrink(texts[n], same) });
                    }
                }
            }
        }
        if batch.len() == BATCH {
            batch.clear();
        }
    }
    deliver(args, isa, (kernels, assembled), &generator, &findings)
}

/// What a difference is, without the line and the values, which change as a kernel shrinks.
fn kind(difference: &Difference) -> String {
    match difference {
        Difference::Stopped { way, why } => {
            let (place, rest) = why.split_once(": ").unwrap_or(("", why));
            format!("{way}: {}", if place.starts_with("line ") { rest } else { place })
        }
        Difference::Results { way, .. } => (*way).to_owned(),
        Difference::Text(_) => String::new(),
    }
}

/// Writes the findings, and what was reached.
fn deliver(
    args: &FuzzArgs,
    isa: PtxIsa,
    (kernels, assembled): (u64, usize),
    generator: &Generator,
    findings: &[Finding],
) -> Result<(), CliError> {
    let mut out = String::new();
    for finding in findings {
        let _ = writeln!(out, "seed {}: {}", finding.seed, finding.what);
        match &args.keep {
            Some(folder) => {
                let path = folder.join(format!("seed-{}.ptx", finding.seed));
                std::fs::create_dir_all(folder).map_err(CliError::Output)?;
                std::fs::write(&path, format!("// {}\n{}", finding.what.replace('\n', " "), finding.kernel))
                    .map_err(CliError::Output)?;
                let _ = writeln!(out, "  {}", path.display());
            }
            None => finding.kernel.lines().for_each(|line| _ = writeln!(out, "    {line}")),
        }
    }
    let missing: Vec<&str> = generator.reached().missing().collect();
    let rows = generator.reached().rows();
    let _ = writeln!(
        out,
        "{kernels} kernels for {} in PTX {isa}, assembled {assembled} times; {} of {rows} rows of the instruction table reached",
        args.target,
        rows - missing.len()
    );
    if !missing.is_empty() {
        let _ = writeln!(out, "not reached: {}", missing.join(" "));
    }
    let _ = writeln!(out, "findings: {}", findings.len());
    output::write(&out, &args.output)?;
    match (kernels, findings.len()) {
        (0, _) => Err(FuzzError::Nothing.into()),
        (_, 0) => Ok(()),
        (_, n) => Err(FuzzError::Found(n).into()),
    }
}

/// Why `fuzz` does not exit with 0.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum FuzzError {
    #[error(transparent)]
    #[diagnostic(help("name a newer version with --isa, or another --target"))]
    Generator(GeneratorError),
    #[error("the newest version of PTX cannot be read; please report it")]
    Isa,
    #[error("no files for ptxas can be written: {0}")]
    Scratch(std::io::Error),
    #[error("no kernel ran: --kernels and --time must allow at least one")]
    Nothing,
    #[error("findings: {0}")]
    #[diagnostic(help(
        "the lines above have the shrunk kernels; a difference of the emulator from itself is a defect of sm121probe: please report it"
    ))]
    Found(usize),
}

impl CommandError for FuzzError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Generator(_) | Self::Scratch(_) => exit::USAGE,
            Self::Isa => exit::INTERNAL,
            Self::Nothing => exit::INCOMPLETE,
            Self::Found(_) => exit::DOES_NOT_CONFORM,
        }
    }
}
