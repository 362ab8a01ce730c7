//! Where results go, and when they are coloured.

use std::io::{self, IsTerminal, Write};

use super::args::{Export, JobArgs, OutputArgs};
use super::error::CliError;
use super::page;
use crate::matrix::Figures;
use crate::record::Record;
use crate::report::{self, Format, Styles};
use crate::snippet::Library;

/// Whether a stream may be coloured: a terminal, and nobody said NO_COLOR (no-color.org).
pub(super) fn may_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// The colours of standard output, or of a file, which has none.
pub(super) fn styles(to_file: bool) -> Styles {
    if !to_file && may_colour(&io::stdout()) { Styles::colored() } else { Styles::plain() }
}

/// Renders a record of the snippets of `library`.
pub(super) fn render(
    record: &Record,
    library: &Library,
    format: Format,
    to_file: bool,
) -> Result<String, CliError> {
    Ok(match format {
        Format::Html => report::html(record, &page::beside(library, Vec::new())?)?,
        _ => report::render(record, format, &styles(to_file))?,
    })
}

/// A part of a record for other tools.
pub(super) fn export(record: &Record, part: Export) -> Result<String, CliError> {
    match part {
        Export::Tactics => report::tactics(record).map_err(|e| CliError::Output(e.into())),
    }
}

/// Writes `text` to the file of `-o`, whole or not at all, or to standard output.
pub(super) fn write(text: &str, output: &OutputArgs) -> Result<(), CliError> {
    match &output.output {
        Some(path) => Ok(Record::write_report(path, text)?),
        None => print(text),
    }
}

/// Writes to standard output; a reader who has seen enough (`| head`) is no error.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// Tells the cost of a run where `--figures` asks for it.
pub(super) fn figures(args: &JobArgs, figures: &Figures) {
    if args.figures {
        eprintln!("{}", cost(figures));
    }
}

/// The cost of a run, on one line.
pub(super) fn cost(f: &Figures) -> String {
    format!(
        "{} cells, {} from the cache, {} processes; verdicts {:.2} s, opcodes {:.2} s ({} instructions named)",
        f.cells,
        f.cached,
        f.processes,
        f.verdicts.as_secs_f64(),
        f.sass.as_secs_f64(),
        f.instructions
    )
}
