//! `lint`: checks any PTX with toolkits and targets.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use miette::{
    Diagnostic, GraphicalReportHandler, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan,
    SpanContents,
};

use super::args::{OutputArgs, seconds};
use super::compile_args::CompileArgs;
use super::error::{CliError, CommandError};
use super::exit;
use super::format::{self, Formats};
use super::{locale, output};
use crate::job::{self, Context, Job, JobError, launch};
use crate::lint::{self, Asked, Assemblers, Lint, ProblemRow, Require, STDIN, Source};
use crate::record::Record;
use crate::report::{self, Format};
use crate::toolkit::NvrtcError;

/// How many levels of folders are searched.
const DEPTH: usize = 32;

/// The maximum length, in bytes, of the lines around the underlined one; longer ones are not shown.
const LINE: usize = 1000;

/// Arguments of `lint`.
#[derive(Debug, Args)]
pub(super) struct LintArgs {
    /// PTX files, dumps that contain PTX, fatbins, cubins and libraries with PTX, .cu files, or folders of .ptx files; `-` is standard
    /// input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read standard input, too
    #[arg(long)]
    stdin: bool,
    /// Check the architecture tests and build options in sources instead: which SM12x targets each admits and excludes. Folders,
    /// files, wheels, archives, and revisions of this Git repository (HEAD~1, main:src)
    #[arg(long, value_name = "SOURCES", num_args = 1.., conflicts_with_all = ["files", "stdin"])]
    gates: Vec<PathBuf>,
    /// Look for known miscompiles in the machine code of cubins instead (needs nvdisasm)
    #[arg(long, value_name = "CUBIN", num_args = 1.., conflicts_with_all = ["files", "stdin", "gates"])]
    sass: Vec<PathBuf>,
    /// Toolkit: 13.5, 13.5.37, `all`, or the path of a ptxas (repeatable) [default: all]
    #[arg(long = "toolkit", short = 'k', value_name = "V")]
    toolkits: Vec<String>,
    /// Target (`-arch`): sm_121a, 121a, or `all` (repeatable) [default: the six SM12x targets]
    #[arg(long = "target", short = 't', value_name = "T")]
    targets: Vec<String>,
    #[command(flatten)]
    compiler: CompileArgs,
    /// What exit code 0 requires
    #[arg(long, value_name = "WHAT", default_value = "all")]
    require: Demand,
    /// List every rejected line, not only the first of each answer
    #[arg(long)]
    all_errors: bool,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format::parser(FORMATS))]
    format: Format,
    /// Write the findings as SARIF 2.1.0, too
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    /// Never fetch anything.
    #[arg(long)]
    offline: bool,
    /// Time limit of one run of ptxas, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    time_limit: Duration,
    /// Parallel jobs [default: number of cores]
    #[arg(long, short = 'j', value_name = "N")]
    jobs: Option<usize>,
}

/// What `--require` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Demand {
    /// Every toolkit accepts the file as written for every target that it knows
    All,
    /// The newest toolkit accepts the file as written for every target.
    Newest,
    /// For every target, some toolkit accepts the file as written
    Any,
    /// The newest toolkit accepts the file for every target with `.version` and `.target` rewritten.
    Rewritten,
}

const FORMATS: &Formats = &[
    (Format::Text, "For the terminal"),
    (Format::Md, "Markdown"),
    (Format::Json, "Everything as JSON"),
    (Format::Csv, "One row per answer"),
    (Format::Sarif, "SARIF 2.1.0"),
];

/// Runs `lint`.
pub(super) fn lint(args: &LintArgs, context: &Context<'_>) -> Result<(), CliError> {
    if !args.gates.is_empty() {
        return gates(args);
    }
    if !args.sass.is_empty() {
        return super::sass::sass(&args.sass, args.time_limit, &args.output);
    }
    let (sources, unusable) = read(args, context)?;
    for line in &unusable {
        output::tell(&format!("error: {line}"));
    }
    if sources.is_empty() && unusable.is_empty() {
        return Err(LintError::NothingToLint.into());
    }
    if sources.is_empty() {
        return Err(LintError::UnusableSources(unusable.len()).into());
    }
    let mut asked = job::Options {
        toolkits: args.toolkits.clone(),
        targets: args.targets.clone(),
        only_assembles: true,
        offline: args.offline,
        time_limit: args.time_limit,
        jobs: args.jobs,
        ..job::Options::default()
    };
    let job = Job::prepare(&asked, context)?;
    if asked.toolkits.is_empty() {
        asked.toolkits = vec!["all".to_owned()];
    }
    let toolkits = job.toolkits(&asked)?;
    let assemblers =
        Assemblers { toolkits: &toolkits, store: job.store(), limit: args.time_limit, sink: context.sink };
    let what = Asked {
        targets: asked.selection()?.targets,
        named: !args.targets.is_empty(),
        require: match args.require {
            Demand::All => Require::All,
            Demand::Newest => Require::Newest,
            Demand::Any => Require::Any,
            Demand::Rewritten => Require::Rewritten,
        },
        all_errors: args.all_errors,
    };
    let result = lint::lint(&sources, unusable, &what, &assemblers, &job.library)?;
    job.trim();
    deliver(&result, &sources, args)
}

/// Runs `lint --gates`: checks architecture tests in sources.
fn gates(args: &LintArgs) -> Result<(), CliError> {
    let places: Vec<&Path> = args.gates.iter().map(PathBuf::as_path).collect();
    let result = lint::lint_gates(&places, Path::new("."));
    for line in &result.unusable {
        output::tell(&format!("error: {line}"));
    }
    if result.files == 0 && result.unusable.is_empty() {
        let named: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(LintError::NoSources(named.join(", ")).into());
    }
    let findings = report::gates_findings(&result);
    let sarif = || report::gates_sarif(&result).map_err(|e| CliError::Output(e.into()));
    let text = match args.format {
        Format::Text => report::gates_text(&result),
        Format::Md => report::gates_markdown(&result),
        Format::Json => report::gates_json(&result).map_err(|e| CliError::Output(e.into()))?,
        Format::Csv => report::gates_csv(&result),
        Format::Sarif => sarif()?,
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    if let Some(path) = &args.sarif {
        Record::write_report(path, &sarif()?)?;
    }
    super::gate::on_github(&findings, &report::gates_markdown(&result))?;
    match (result.wrong(), result.unusable.len()) {
        (0, 0) => Ok(()),
        (0, unusable) => Err(LintError::UnusableSources(unusable).into()),
        (wrong, _) => Err(LintError::Gates(wrong).into()),
    }
}

/// Writes the result in all requested formats; the exit code summarises it.
fn deliver(result: &Lint, sources: &[Source], args: &LintArgs) -> Result<(), CliError> {
    let findings = report::lint_findings(result);
    let sarif = || report::findings_sarif(&findings).map_err(|e| CliError::Output(e.into()));
    let text = match args.format {
        Format::Text => {
            let to_file = args.output.output.is_some();
            report::lint_text(result, sources, |source, problem, message| {
                drawn(source, problem, message, to_file)
            })
        }
        Format::Md => report::lint_markdown(result),
        Format::Json => report::lint_json(result).map_err(|e| CliError::Output(e.into()))?,
        Format::Csv => report::lint_csv(result),
        Format::Sarif => sarif()?,
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &args.output)?;
    if let Some(path) = &args.sarif {
        Record::write_report(path, &sarif()?)?;
    }
    super::gate::on_github(&findings, &report::lint_markdown(result))?;
    let wrong = result.files.iter().flat_map(|f| &f.modules).filter(|m| !m.misses.is_empty()).count();
    match (wrong, result.unusable.len()) {
        (0, 0) => Ok(()),
        (0, unusable) => Err(LintError::UnusableSources(unusable).into()),
        (wrong, _) => Err(LintError::Lint(wrong).into()),
    }
}

/// Reads every named file and every file below a named folder. Also returns the errors of unusable files.
fn read(args: &LintArgs, context: &Context<'_>) -> Result<(Vec<Source>, Vec<String>), CliError> {
    let (mut sources, mut unusable, mut unreadable, mut refused) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut take = |source: Result<Source, lint::SourceError>| match source {
        Ok(source) => sources.push(source),
        Err(error) => unusable.push(error.to_string()),
    };
    let mut seen = BTreeSet::new();
    for path in &args.files {
        if path.as_os_str() == "-" {
            take(Source::take(STDIN, std::io::stdin().lock()));
            continue;
        }
        if !path.is_dir() {
            if !seen.insert(path.clone()) {
                continue;
            }
            if path.extension().is_some_and(|e| e == "cu") && path.is_file() {
                match compiled(path, args, context) {
                    Ok(source) => take(source),
                    // The other files are linted all the same.
                    Err(CliError::Job(failed))
                        if matches!(failed.0, JobError::Nvrtc(NvrtcError::Rejected { .. })) =>
                    {
                        refused.push(failed.to_string());
                    }
                    Err(CliError::Launch(error)) => refused.push(error.to_string()),
                    Err(error) => return Err(error),
                }
            } else {
                take(Source::read(path));
            }
            continue;
        }
        let mut files = Vec::new();
        below(path, DEPTH, &mut files, &mut unreadable);
        files.sort();
        for file in files {
            if seen.insert(file.clone()) {
                take(Source::read(&file));
            }
        }
    }
    if args.stdin {
        take(Source::take(STDIN, std::io::stdin().lock()));
    }
    unusable.append(&mut refused);
    unusable.append(&mut unreadable);
    Ok((sources, unusable))
}

/// Compiles a `.cu` file to the PTX that is checked.
fn compiled(
    path: &Path,
    args: &LintArgs,
    context: &Context<'_>,
) -> Result<Result<Source, lint::SourceError>, CliError> {
    let file = path.display().to_string();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(source) => return Ok(Err(lint::SourceError::Read { file, source })),
    };
    let only = match args.targets.as_slice() {
        [only] if only != "all" => {
            Some(if only.starts_with("sm_") { only.clone() } else { format!("sm_{only}") })
        }
        _ => None,
    };
    let cuda = launch::compile_file(path, &text, &args.compiler.compile(only, None), context)?;
    let notes = format!("PTX by NVRTC {}; line numbers are those of the PTX", cuda.version);
    Ok(Source::from_bytes(&file, cuda.ptx.as_bytes()).map(|mut source| {
        source.notes.push(notes);
        source.modules.iter_mut().for_each(|module| module.is_compiled = true);
        source.cuda = Some(lint::CudaFile { file, name: cuda.name, text });
        source
    }))
}

/// Collects the .ptx files below a folder, and the errors of folders that cannot be read. Links to folders are not followed, since they
/// may form cycles.
fn below(folder: &Path, depth: usize, out: &mut Vec<PathBuf>, unreadable: &mut Vec<String>) {
    let words = |error: std::io::Error| format!("{}: cannot be read: {error}", folder.display());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return unreadable.push(words(error)),
    };
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return unreadable.push(words(error)),
        };
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
        if is_folder && depth > 0 {
            below(&path, depth - 1, out, unreadable);
        } else if path.extension().is_some_and(|e| e == "ptx") && path.is_file() {
            out.push(path);
        }
    }
}

/// Draws a problem with its line underlined. Also returns whether the line is shown.
fn drawn(source: &Source, problem: &ProblemRow, message: &str, to_file: bool) -> (String, bool) {
    // Of a very long line, only a part is shown.
    let at = if problem.excerpt_from == 1 { span(&source.text, problem) } else { None };
    let told = Told { message: message.to_owned(), at, source };
    let theme = locale::theme(!to_file && output::may_colour(&std::io::stdout()));
    let number = problem.line.unwrap_or(1);
    let mut around = source.text.lines().skip(number.saturating_sub(2)).take(3);
    let context = usize::from(around.all(|line| line.len() <= LINE));
    let mut out = String::new();
    let handler = GraphicalReportHandler::new_themed(theme).with_context_lines(context).with_width(160);
    if handler.render_report(&mut out, &told).is_err() {
        out = format!("  {message}\n");
    }
    (out, at.is_some())
}

/// A problem in the form that miette draws.
#[derive(Debug)]
struct Told<'a> {
    message: String,
    at: Option<SourceSpan>,
    source: &'a Source,
}

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Told<'_> {}

impl Diagnostic for Told<'_> {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.at.map(|_| self as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let at = self.at?;
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(None, at))))
    }
}

impl SourceCode for Told<'_> {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let text: &str = &self.source.text;
        let contents = text.read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.source.file.clone(),
            contents.data(),
            *contents.span(),
            contents.line(),
            contents.column(),
            contents.line_count(),
        )))
    }
}

/// The location of the underlined part in the file.
fn span(text: &str, problem: &ProblemRow) -> Option<SourceSpan> {
    let line = problem.line?;
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let row = text[start..].lines().next()?;
    let at = |column: usize| row.char_indices().nth(column).map_or(row.len(), |(n, _)| n);
    let (from, to) =
        (at(problem.column.saturating_sub(1)), at(problem.column.saturating_sub(1) + problem.length));
    Some((start + from, to - from).into())
}

/// Why `lint` does not exit with 0.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum LintError {
    #[error("no file: name PTX files, folders with .ptx files, or --stdin")]
    NothingToLint,
    #[error(
        "no source in {0}: C++, CUDA, Python, TOML, CMake, Bazel, Make, Docker, shell and YAML files are read"
    )]
    NoSources(String),
    #[error("architecture tests that contradict what SM12x supports: {0}")]
    #[diagnostic(help("the lines above list each one with its replacement"))]
    Gates(usize),
    #[error("{} cannot be used", if *.0 == 1 { "1 file".to_owned() } else { format!("{} files", .0) })]
    #[diagnostic(help("the lines above say why; other files were linted"))]
    UnusableSources(usize),
    #[error("{} --require", if *.0 == 1 { "1 module does not meet".to_owned() } else { format!("{} modules do not meet", .0) })]
    #[diagnostic(help(
        "`--require newest`, `any` or `rewritten` is less strict; --toolkit and --target narrow the check"
    ))]
    Lint(usize),
}

impl CommandError for LintError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NothingToLint | Self::NoSources(..) => exit::INCOMPLETE,
            Self::Gates(..) | Self::Lint(..) => exit::DOES_NOT_CONFORM,
            Self::UnusableSources(..) => exit::USAGE,
        }
    }
}
