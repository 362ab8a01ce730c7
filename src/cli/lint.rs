//! `lint`: any PTX over toolkits and targets.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    SourceCode, SourceSpan, SpanContents,
};

use super::args::{JobArgs, OutputArgs, seconds};
use super::error::CliError;
use super::job::{self, Job};
use super::output;
use crate::gate::{self, Judgement};
use crate::lint::{self, Asked, Assemblers, FileRow, Lint, ModuleRow, ProblemRow, Require, STDIN, Source};
use crate::record::{Finding, Ground, Record};

/// Folders below folders that are looked into.
const DEPTH: usize = 32;

/// Bytes of a line beside the one that is meant, to be shown.
const LINE: usize = 1000;

/// Arguments of `lint`.
#[derive(Debug, Args)]
pub(super) struct LintArgs {
    /// PTX files, dumps that contain PTX, or folders of .ptx files; `-` is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read standard input, too
    #[arg(long)]
    stdin: bool,
    /// Toolkit: 13.5, 13.5.37, `all`, or the path of a ptxas (repeatable) [default: all]
    #[arg(long = "toolkit", short = 'k', value_name = "V")]
    toolkits: Vec<String>,
    /// Target (`-arch`): sm_121a, 121a, or `all` (repeatable) [default: the six SM12x targets]
    #[arg(long = "target", short = 't', value_name = "T")]
    targets: Vec<String>,
    /// What exit code 0 requires
    #[arg(long, value_name = "WHAT", default_value = "all")]
    require: Demand,
    /// List every rejected line, not only the first of each answer
    #[arg(long)]
    all_errors: bool,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: LintForm,
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

/// Forms of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LintForm {
    /// For the terminal.
    Text,
    /// Markdown.
    Md,
    /// Everything as JSON
    Json,
    /// One row per answer
    Csv,
    /// SARIF 2.1.0.
    Sarif,
}

/// `lint`.
pub(super) fn lint(args: &LintArgs) -> Result<(), CliError> {
    let (sources, unusable) = read(args);
    for line in &unusable {
        eprintln!("error: {line}");
    }
    if sources.is_empty() && unusable.is_empty() {
        return Err(CliError::NothingToLint);
    }
    if sources.is_empty() {
        return Err(CliError::UnusableSources(unusable.len()));
    }
    let mut asked = JobArgs {
        toolkits: args.toolkits.clone(),
        targets: args.targets.clone(),
        offline: args.offline,
        time_limit: args.time_limit,
        jobs: args.jobs,
        ..JobArgs::default()
    };
    let job = Job::prepare(&asked)?;
    if asked.toolkits.is_empty() {
        asked.toolkits = vec!["all".to_owned()];
    }
    let toolkits = job.toolkits(&asked)?;
    let assemblers =
        Assemblers { toolkits: &toolkits, store: job.store(), limit: args.time_limit, sink: &job.sink };
    let what = Asked {
        targets: job::selection(&asked)?.targets,
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

/// Writes the result in every form that is asked, and says by exit code what it is.
fn deliver(result: &Lint, sources: &[Source], args: &LintArgs) -> Result<(), CliError> {
    let judgement = judgement(result);
    let sarif = || gate::sarif(&judgement).map_err(|e| CliError::Output(e.into()));
    let text = match args.format {
        LintForm::Text => terminal(result, sources, args.output.output.is_some()),
        LintForm::Md => lint::markdown(result),
        LintForm::Json => lint::json(result).map_err(|e| CliError::Output(e.into()))?,
        LintForm::Csv => lint::csv(result).map_err(|e| CliError::Output(std::io::Error::other(e)))?,
        LintForm::Sarif => sarif()?,
    };
    output::write(&text, &args.output)?;
    if let Some(path) = &args.sarif {
        Record::write_report(path, &sarif()?)?;
    }
    super::gate::on_github(&judgement, &lint::markdown(result))?;
    let wrong = result.files.iter().flat_map(|f| &f.modules).filter(|m| !m.misses.is_empty()).count();
    match (wrong, result.unusable.len()) {
        (0, 0) => Ok(()),
        (0, unusable) => Err(CliError::UnusableSources(unusable)),
        (wrong, _) => Err(CliError::Lint(wrong)),
    }
}

/// Every file that is named, or lies below a folder that is named; and those that cannot be used, in words.
fn read(args: &LintArgs) -> (Vec<Source>, Vec<String>) {
    let (mut sources, mut unusable) = (Vec::new(), Vec::new());
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
            if seen.insert(path.clone()) {
                take(Source::read(path));
            }
            continue;
        }
        let mut files = Vec::new();
        below(path, DEPTH, &mut files);
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
    (sources, unusable)
}

/// The .ptx files below a folder. Links to folders are not followed: they may lead in circles.
fn below(folder: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            eprintln!("error: {}: cannot be read: {error}", folder.display());
            return;
        }
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
        if is_folder && depth > 0 {
            below(&path, depth - 1, out);
        } else if path.extension().is_some_and(|e| e == "ptx") && path.is_file() {
            out.push(path);
        }
    }
}

/// What is not as demanded, each with its line, for SARIF and annotations.
fn judgement(result: &Lint) -> Judgement {
    let mut findings = Vec::new();
    for file in &result.files {
        for module in file.modules.iter().filter(|m| !m.misses.is_empty()) {
            let missed = module.misses.join("; ");
            if module.problems.is_empty() {
                let mut finding = Finding::new(Ground::Wrong, file.file.clone(), missed);
                finding.place = Some((file.file.clone(), module.first_line));
                findings.push(finding);
                continue;
            }
            for problem in &module.problems {
                let what = if problem.instruction.is_empty() { "PTX" } else { problem.instruction.as_str() };
                let said = lint::explained(result, problem).join("; ");
                let mut finding =
                    Finding::new(Ground::Wrong, what.to_owned(), format!("{}; {said}", problem.message));
                finding.place = Some((file.file.clone(), problem.line.unwrap_or(module.first_line)));
                findings.push(finding);
            }
        }
    }
    let facts = result.files.iter().map(|f| f.modules.len()).sum();
    Judgement { findings, facts, ..Judgement::default() }
}

/// For the terminal.
fn terminal(result: &Lint, sources: &[Source], to_file: bool) -> String {
    let mut out = format!("{}\n", lint::asked(result));
    for (file, source) in result.files.iter().zip(sources) {
        for module in &file.modules {
            of_module(&mut out, result, (file, module), source, to_file);
        }
    }
    _ = writeln!(out, "\n{}", lint::verdict(result));
    out
}

fn of_module(
    out: &mut String,
    result: &Lint,
    (file, module): (&FileRow, &ModuleRow),
    source: &Source,
    to_file: bool,
) {
    _ = writeln!(out, "\n{}", clean(&lint::title(&file.file, module, file.modules.len())));
    if file.modules.first().is_some_and(|m| m.first_line == module.first_line) {
        for note in &file.notes {
            _ = writeln!(out, "  note: {note}");
        }
    }
    for row in lint::table(result, module) {
        _ = writeln!(out, "  {}", row.targets.join(" "));
        for (name, words) in
            [("as written", &row.written), ("rewritten", &row.rewritten), ("cure", &row.cure)]
        {
            if !words.is_empty() {
                _ = writeln!(out, "    {name:<10} {}", clean(words));
            }
        }
    }
    let mut warned = BTreeSet::new();
    for warning in module.cells.iter().flat_map(|c| &c.warnings) {
        let line = warning.line.map_or_else(String::new, |l| format!("line {l}: "));
        if warned.insert(line.clone()) {
            _ = writeln!(out, "  warning: {line}{}", clean(&warning.message));
        }
    }
    for problem in &module.problems {
        out.push_str(&shown(result, problem, source, to_file));
    }
    if module.further_lines > 0 {
        _ = writeln!(out, "  {} further lines are rejected; --all-errors lists them", module.further_lines);
    }
}

/// A problem with its line underlined.
fn shown(result: &Lint, problem: &ProblemRow, source: &Source, to_file: bool) -> String {
    let said = lint::explained(result, problem);
    // Of a line that is longer than anybody reads, a part is shown.
    let at = if problem.excerpt_from == 1 { span(&source.text, problem) } else { None };
    let told = Told { message: clean(&problem.message), at, source };
    let theme = if !to_file && output::may_colour(&std::io::stdout()) {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let number = problem.line.unwrap_or(1);
    let mut around = source.text.lines().skip(number.saturating_sub(2)).take(3);
    let context = usize::from(around.all(|line| line.len() <= LINE));
    let mut out = String::new();
    let handler = GraphicalReportHandler::new_themed(theme).with_context_lines(context).with_width(160);
    if handler.render_report(&mut out, &told).is_err() {
        out = format!("  {}\n", told.message);
    }
    if at.is_none() && !problem.excerpt.is_empty() {
        let place = format!("{}:{}:{}", source.file, problem.line.unwrap_or_default(), problem.column);
        let excerpt = clean(&problem.excerpt);
        _ = writeln!(out, "    {}\n    {excerpt}\n    {}", clean(&place), lint::underline(problem));
    }
    for line in said {
        _ = writeln!(out, "    {}", clean(&line));
    }
    out
}

/// A problem as miette draws it.
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

/// Where the underlined part lies in the file.
fn span(text: &str, problem: &ProblemRow) -> Option<SourceSpan> {
    let line = problem.line?;
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let row = text[start..].lines().next()?;
    let at = |column: usize| row.char_indices().nth(column).map_or(row.len(), |(n, _)| n);
    let (from, to) =
        (at(problem.column.saturating_sub(1)), at(problem.column.saturating_sub(1) + problem.length));
    Some((start + from, to - from).into())
}

/// Files may hold anything; a terminal obeys what it is sent.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
