//! The whole job, and the commands for the matrix, records, templates and toolkits.

use std::fmt::Write as _;
use std::path::Path;

use ptx::arch::Target;

use super::args::{Cli, ExplainArgs, MatrixArgs, NewVerb, OutputArgs, ReportArgs, Table, ToolkitVerb};
use super::doctor::DoctorError;
use super::doctor_log::{message_text, near_text};
use super::error::CliError;
use super::findings::Findings;
use super::format::FormatError;
use super::{output, page, timing};
use crate::doctor;
use crate::gate;
use crate::job::{self, Context, Job};
use crate::lookup::{self, Index};
use crate::matrix::{self, Options, Plan};
use crate::moe::case;
use crate::record::{AS_WRITTEN, Record};
use crate::report::{self, Format, audit_csv, runs_csv, trials_csv};
use crate::snippet::{self, Library};
use crate::store::Store;
use crate::toolkit::{self, InstallOptions, Pins, Places};

/// Maximum number of differing cells that `--verify` prints.
const DIFFERENCES_SHOWN: usize = 20;

/// Runs `sm121probe` without a command.
pub(super) fn whole_job(cli: &Cli, context: &Context<'_>) -> Result<(), CliError> {
    let (args, gpu, to) = (&cli.job, &cli.gpu, &cli.output);
    let options = args.options();
    // A selection of snippets or variants excludes the GPU, unless one is named.
    let device = if options.is_whole() || gpu.is_named() { Some(gpu.open(context)?) } else { None };
    let job = Job::prepare(&options, context)?;
    let format = cli.format.unwrap_or_default();
    // Print the matrix while the pipeline still runs.
    let early = format == Format::Text && cli.export.is_none() && to.output.is_none();
    let mut shown = Ok(());
    let first = |record: &Record| {
        if early {
            shown = output::print(&report::terminal_matrix(record, &output::styles(false)));
        }
    };
    let (record, figures) = job.whole(&options, device, gpu.time(), first)?;
    shown?;
    output::figures(args, &figures);
    let text = match cli.export {
        Some(part) => output::export(&record, part)?,
        None if early => report::terminal_rest(&record, &output::styles(false)),
        None => output::render(&record, &job.library, format, to.output.is_some())?,
    };
    deliver(&job, &record, &text, to)
}

/// Runs `matrix`.
pub(super) fn matrix(args: &MatrixArgs, context: &Context<'_>) -> Result<(), CliError> {
    if args.list {
        return list(args, context);
    }
    let options = args.job.options();
    let mut job = Job::prepare(&options, context)?;
    if args.verify {
        return verify(&mut job, args, context);
    }
    let (record, figures) = job.run(&options, args.isolated)?;
    output::figures(&args.job, &figures);
    let text = output::render(&record, &job.library, args.format, args.output.output.is_some())?;
    deliver(&job, &record, &text, &args.output)
}

/// Writes the text; the error, and so the exit code, names what is wrong with the run.
fn deliver(job: &Job<'_>, record: &Record, text: &str, to: &OutputArgs) -> Result<(), CliError> {
    output::write(text, to)?;
    let unusable = job.library.problems.len();
    if unusable > 0 {
        return Err(CliError::UnusableFiles(unusable));
    }
    match record.matrix.claims.iter().filter(|c| c.is_finding()).count() {
        0 => match record.trials.iter().filter(|t| !t.conforms()).count() {
            0 => match record.runs.iter().filter(|run| run.first_wrong().is_some()).count() {
                0 => record.incomplete().map_or(Ok(()), |incomplete| Err(incomplete.into())),
                wrong => Err(Findings::Runs(wrong).into()),
            },
            wrong => Err(Findings::Trials(wrong).into()),
        },
        findings => Err(Findings::Claims(findings).into()),
    }
}

fn list(args: &MatrixArgs, context: &Context<'_>) -> Result<(), CliError> {
    let library = job::snippets(args.job.snippets.as_deref(), context.sink)?;
    let filters = args.job.options().selection()?.filters;
    let mut text = String::new();
    for v in &library.variants {
        let family = &library.snippets[v.snippet].family;
        if filters.is_empty() || filters.iter().any(|f| f.matches(family, &v.id)) {
            text.push_str(&v.id);
            text.push('\n');
        }
    }
    output::write(&text, &args.output)?;
    if library.problems.is_empty() { Ok(()) } else { Err(CliError::UnusableFiles(library.problems.len())) }
}

fn verify(job: &mut Job<'_>, args: &MatrixArgs, context: &Context<'_>) -> Result<(), CliError> {
    let mut n = 0;
    job.library.variants.retain(|_| {
        n += 1;
        (n - 1) % args.sample == 0
    });
    let asked = args.job.options();
    let toolkits = job.toolkits(&asked)?;
    let plan = Plan::new(&job.library, &toolkits, &asked.selection()?)?;
    let options = Options { isolated: false, time_limit: args.job.time_limit };
    let result = matrix::verify(&job.library, &plan, &toolkits, &options, context.sink)?;
    let mut text = String::new();
    for d in result.differences.iter().take(DIFFERENCES_SHOWN) {
        let _ = writeln!(text, "{}\n  batch:    {}\n  isolated: {}", d.cell, d.batch, d.isolated);
    }
    let _ = writeln!(
        text,
        "{} cells checked both ways, {} differ\nbatch:    {}\nisolated: {}\nbatch verdicts are {:.1} times faster",
        result.cells,
        result.differences.len(),
        output::cost(&result.batch),
        output::cost(&result.isolated),
        result.ratio()
    );
    output::write(&text, &args.output)?;
    if result.differences.is_empty() {
        Ok(())
    } else {
        Err(Findings::VerdictsDiffer(result.differences.len()).into())
    }
}

/// Prints what a query that is no built-in variant leads to; returns `false` if it is one, or leads to nothing.
fn looked_up(query: &str) -> Result<bool, CliError> {
    let asked = doctor::straight(query);
    let known = doctor::known_messages(&asked).map_err(DoctorError::from)?;
    if !known.is_empty() {
        output::print(&message_text(query, &known))?;
        // Of a refused instruction, the forms to which a message leads say more.
        if !lookup::is_refusal(&asked) {
            return Ok(true);
        }
    }
    let library = Library::embedded();
    if library.variants.iter().any(|variant| variant.id == query.trim_end_matches(AS_WRITTEN)) {
        return Ok(false);
    }
    if let Some(miscompile) = compiler::known::by_name(query) {
        output::print(&report::miscompile(miscompile))?;
        return Ok(true);
    }
    let record = Record::parse(Path::new("the built-in record"), report::built_in_record())?;
    let index = Index::new(&library, &record.matrix)?;
    let Some(mut found) = index.find(&asked) else {
        if !known.is_empty() {
            return Ok(true);
        }
        return explained_nearly(query, &asked, &record, &index);
    };
    if !known.is_empty() {
        if found.hits.is_empty() {
            return Ok(true);
        }
        found.explained = None;
    }
    output::print(&report::lookup(&record.matrix, query, &found, &output::styles(false)))?;
    Ok(true)
}

/// Prints what messages like this one mean in general, or the forms of an instruction in it, and the messages that are nearest by their words;
/// returns `false` if nothing is known of it: what is only near explains nothing.
fn explained_nearly(query: &str, asked: &str, record: &Record, index: &Index) -> Result<bool, CliError> {
    let general = doctor::general_messages(asked).map_err(DoctorError::from)?;
    if !general.is_empty() {
        output::print(&message_text(query, &general))?;
    }
    let within = if general.is_empty() { index.find_within(asked) } else { None };
    if let Some((word, found)) = &within {
        output::print(&report::lookup(&record.matrix, word, found, &output::styles(false)))?;
    }
    // One word is a name.
    if asked.trim().contains(char::is_whitespace) {
        let mut near = doctor::near_messages(asked).map_err(DoctorError::from)?;
        near.retain(|flag| general.iter().all(|general| general.name != flag.name));
        if !near.is_empty() {
            output::print(&near_text(&near))?;
        }
    }
    Ok(!general.is_empty() || within.is_some())
}

/// Whether a library has a variant; if not, the nearest names are part of the error.
fn is_variant(library: &Library, name: &str) -> Result<(), CliError> {
    if library.variants.iter().any(|v| v.id == name.trim_end_matches(AS_WRITTEN)) {
        return Ok(());
    }
    let ids = library.variants.iter().map(|v| v.id.as_str());
    Err(report::ExplainError::unknown(name, ids).into())
}

/// Runs `explain`.
pub(super) fn explain(args: &ExplainArgs, context: &Context<'_>) -> Result<(), CliError> {
    if args.from.is_none() && args.job.snippets.is_none() && looked_up(&args.variant)? {
        return Ok(());
    }
    let record = match &args.from {
        Some(path) => Record::read(path)?,
        None => {
            let mut asked = args.job.options();
            if asked.targets.is_empty() {
                asked.targets = vec!["all".to_owned()];
            }
            // What is no variant needs no toolkit, which would be fetched first.
            if args.job.snippets.is_none() {
                is_variant(&Library::embedded(), &args.variant)?;
            }
            let job = Job::prepare(&asked, context)?;
            // One variant costs little, so every toolkit is queried.
            if asked.toolkits.is_empty() {
                asked.toolkits = vec!["all".to_owned()];
            }
            is_variant(&job.library, &args.variant)?;
            asked.filters = vec![args.variant.clone()];
            let (record, figures) = job.run(&asked, false)?;
            output::figures(&args.job, &figures);
            record
        }
    };
    output::print(&report::explain(&record, &args.variant, &output::styles(false))?)
}

/// Runs `report`.
pub(super) fn report(args: &ReportArgs) -> Result<(), CliError> {
    let mut record = Record::read(&args.from)?;
    if args.private {
        record = gate::private(&record, &gate::Names::of_process())?;
    }
    if let Some(part) = args.export {
        return output::write(&output::export(&record, part)?, &args.output);
    }
    if !args.bench.is_empty() && args.format != Some(Format::Html) {
        return Err(FormatError::BenchForm.into());
    }
    let form = args.format.unwrap_or(if args.private { Format::Json } else { Format::Text });
    let text = match (form, args.table) {
        (Format::Html, None) => {
            let benches = args.bench.iter().map(|path| timing::read(path)).collect::<Result<_, _>>()?;
            report::html(&record, &page::beside(&Library::embedded(), benches)?)?
        }
        (Format::Csv, Some(Table::Runs)) => runs_csv(&record.runs),
        (Format::Csv, Some(Table::Trials)) => trials_csv(&record.trials),
        (Format::Csv, Some(Table::Audit)) => audit_csv(&record.audit),
        (form, None) | (form @ Format::Csv, Some(Table::Cells)) => {
            report::render(&record, form, &output::styles(args.output.output.is_some()))?
        }
        (_, Some(_)) => return Err(FormatError::TableForm.into()),
    };
    output::write(&text, &args.output)
}

/// Runs `new`.
pub(super) fn new(verb: &NewVerb) -> Result<(), CliError> {
    let (path, how, folder) = match verb {
        NewVerb::Snippet { name, snippets } => {
            (snippet::create_snippet(snippets, name)?, "matrix --snippets", snippets)
        }
        NewVerb::Case { name, cases } => (case::create_case(cases, name)?, "moe --cases", cases),
    };
    output::print(&format!(
        "{0}\nFill it in, then see it fail and pass:\n  sm121probe {how} {1}\n",
        path.display(),
        folder.display()
    ))
}

/// Runs `toolkit`.
pub(super) fn toolkit(verb: &ToolkitVerb, context: &Context<'_>) -> Result<(), CliError> {
    match verb {
        ToolkitVerb::List => list_toolkits(),
        ToolkitVerb::Install { names } => {
            let store = Store::open(None)?;
            let pins = Pins::built_in()?;
            let options = InstallOptions::for_host()?;
            let installed = toolkit::install(&store, &pins, names, &options, context.sink)?;
            let mut text = String::new();
            for i in installed {
                let _ = writeln!(text, "{} {} in {}", i.tool, i.version, i.folder.display());
            }
            output::print(&text)
        }
        ToolkitVerb::Remove { names } => {
            let removed = toolkit::remove(&Store::open(None)?, names)?;
            let lines: Vec<String> =
                removed.iter().map(|(tool, v)| format!("removed {tool} {v}\n")).collect();
            output::print(&lines.concat())
        }
    }
}

fn list_toolkits() -> Result<(), CliError> {
    let store = Store::open(None).ok();
    let places = Places::from_environment(store.as_ref().map(Store::root));
    let discovery = toolkit::discover(store.as_ref(), &places);
    let mut text = String::new();
    for t in &discovery.toolkits {
        let known = t.targets.iter().filter(|n| n.parse::<Target>().is_ok()).map(String::as_str);
        text.push_str(&report::hanging(&format!("{}  PTX ISA {}  knows ", t.version, t.isa), 6, known));
        for found in &t.origins {
            let _ =
                writeln!(text, "    {} ({}). {}", found.path.display(), found.origin, found.origin.used_by());
        }
    }
    if let Some(d) = &discovery.disassembler {
        let _ = writeln!(text, "nvdisasm {}\n    {}", d.version, d.path.display());
    }
    for row in &discovery.unusable {
        let _ = writeln!(text, "not usable: {} ({}): {}", row.path.display(), row.origin, row.reason);
    }
    if let Some(store) = &store {
        for i in toolkit::installed(store).iter().filter(|i| matches!(i.tool, toolkit::Tool::Cuobjdump)) {
            let _ = writeln!(text, "{} {}\n    {}", i.tool, i.version, i.folder.display());
        }
    }
    for n in toolkit::nvrtcs(store.as_ref(), &toolkit::Environment::of_process()) {
        let _ = writeln!(text, "NVRTC {}\n    {} ({})", n.version, n.library.display(), n.origin);
    }
    if discovery.toolkits.is_empty() {
        text.push_str("no ptxas on this machine; `sm121probe toolkit install latest 12.9` fetches two\n");
    }
    output::print(&text)
}
