//! `bisect`: one kernel with every ptxas at every level of optimization: which machine code differs, and what is known to be wrong in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use compiler::known::{Found, find};
use compiler::machine::{Place, Structure, functions, structures};
use miette::Diagnostic;
use ptx::arch::{Target, ToolkitVersion};
use ptx::line_column;

use super::args::{OutputArgs, seconds};
use super::error::{CliError, CommandError};
use super::exit;
use super::output;
use super::sass;
use crate::job::ptxas::Assembler;
use crate::lint::{Source, SourceError};
use crate::store::Store;
use crate::toolkit::{self, Places};

/// Arguments of `bisect`.
#[derive(Debug, Args)]
pub(super) struct BisectArgs {
    /// The PTX
    #[arg(value_name = "FILE.ptx")]
    file: PathBuf,
    /// Toolkit: 13.5, 13.5.37, `all`, or the path of a ptxas (repeatable) [default: all]
    #[arg(long = "toolkit", short = 'k', value_name = "V")]
    toolkits: Vec<String>,
    /// Target (`-arch`) [default: the file's own]
    #[arg(long, short = 't', value_name = "T")]
    target: Option<Target>,
    /// Time limit of one run of ptxas, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    time_limit: Duration,
    #[command(flatten)]
    output: OutputArgs,
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
    Failed(String),
}

/// Runs `bisect`.
pub(super) fn bisect(args: &BisectArgs) -> Result<(), CliError> {
    let source = Source::read(&args.file).map_err(BisectError::Source)?;
    let [module] = source.modules.as_slice() else { return Err(BisectError::Modules(source.file).into()) };
    let target = args.target.or(module.known_target()).ok_or(BisectError::Target)?;
    let found = match ptx::parse(&module.text) {
        Ok(tree) => find(&tree).into_iter().filter(|f| f.miscompile.affects_target(target)).collect(),
        Err(_) => Vec::new(),
    };
    let store = Store::open(None).ok();
    let places = Places::from_environment(store.as_ref().map(Store::root));
    let discovery = toolkit::discover(store.as_ref(), &places);
    let names = if args.toolkits.is_empty() { vec!["all".to_owned()] } else { args.toolkits.clone() };
    let toolkits = discovery.select(&names)?;
    let disassembler = discovery.disassembler.as_ref().ok_or(sass::SassError::NoDisassembler)?;
    let assembler = Assembler::new(args.time_limit).map_err(BisectError::Scratch)?;
    let mut made: Vec<(Made, Vec<(ToolkitVersion, u8)>)> = Vec::new();
    for toolkit in toolkits {
        for level in 0..=3 {
            let result = match assembler
                .assemble(toolkit, target, level, &module.text)
                .map_err(BisectError::Scratch)?
            {
                Ok(cubin) => {
                    let listing =
                        disassembler.listing(&cubin, args.time_limit).map_err(sass::SassError::from)?;
                    Made::Code(shape(&listing))
                }
                Err(failed) => Made::Failed(failed.to_string()),
            };
            match made.iter_mut().find(|(other, _)| *other == result) {
                Some((_, runs)) => runs.push((toolkit.version, level)),
                None => made.push((result, vec![(toolkit.version, level)])),
            }
        }
    }
    let (text, wrong) = told(&module.text, target, &made, &found);
    output::write(&text, &args.output)?;
    if wrong { Err(BisectError::Known.into()) } else { Ok(()) }
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
    ptx: &str,
    target: Target,
    made: &[(Made, Vec<(ToolkitVersion, u8)>)],
    found: &[Found],
) -> (String, bool) {
    let mut out = format!("{target}: {} kinds of machine code\n", made.len());
    let mut first: Option<&Shape> = None;
    let mut wrong = false;
    for (result, runs) in made {
        let _ = writeln!(out, "{}", runs_in_words(runs));
        match result {
            Made::Failed(how) => {
                wrong = true;
                let _ = writeln!(out, "  ptxas {how}");
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
    for f in found {
        let line = line_column(ptx, f.span.start as usize).line;
        let affected: Vec<(ToolkitVersion, u8)> = made
            .iter()
            .flat_map(|(_, runs)| runs)
            .copied()
            .filter(|(v, level)| f.miscompile.affects(*v, *level))
            .collect();
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
            runs_in_words(&affected),
            m.effect,
            m.rewrite
        );
    }
    let verdict = if wrong {
        "the compiler: the lines above say where"
    } else {
        "no miscompile is known here; differences of machine code are no proof. Machine code was not executed: `emulate` checks the kernel itself"
    };
    let _ = writeln!(out, "{verdict}");
    (out, wrong)
}

/// `13.5.37 at -O1 -O2; 12.9.86 at -O0`.
fn runs_in_words(runs: &[(ToolkitVersion, u8)]) -> String {
    let mut by: BTreeMap<ToolkitVersion, Vec<String>> = BTreeMap::new();
    for (version, level) in runs {
        by.entry(*version).or_default().push(format!("-O{level}"));
    }
    let one =
        |(version, levels): (ToolkitVersion, Vec<String>)| format!("ptxas {version} at {}", levels.join(" "));
    by.into_iter().map(one).collect::<Vec<_>>().join("; ")
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
}

impl CommandError for BisectError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Source(_) | Self::Modules(_) | Self::Target | Self::Scratch(_) => exit::USAGE,
            Self::Known => exit::DOES_NOT_CONFORM,
        }
    }
}
