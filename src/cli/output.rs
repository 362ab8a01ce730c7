//! Writes results to a file or to standard output, and decides on colours.

use std::io::{self, IsTerminal, Write};

use super::args::{Export, JobArgs, OutputArgs};
use super::error::CliError;
use super::{locale, page, progress};
use crate::matrix::Figures;
use crate::record::Record;
use crate::report::{self, Format, Styles};
use crate::snippet::Library;

/// Whether a stream may be coloured: it is a terminal, and NO_COLOR (no-color.org) is not set.
pub(super) fn may_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// The styles for standard output, or for a file, which is not coloured.
pub(super) fn styles(to_file: bool) -> Styles {
    if !to_file && may_colour(&io::stdout()) { Styles::colored() } else { Styles::plain() }
}

/// Renders a record made with the snippets of `library`.
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

/// Exports a part of a record for other tools.
pub(super) fn export(record: &Record, part: Export) -> Result<String, CliError> {
    match part {
        Export::Tactics => report::tactics(record).map_err(|e| CliError::Output(e.into())),
    }
}

/// Writes `text` to the file of `-o`, atomically, or to standard output.
pub(super) fn write(text: &str, output: &OutputArgs) -> Result<(), CliError> {
    match &output.output {
        Some(path) => Ok(Record::write_report(path, text)?),
        None => print(text),
    }
}

/// Writes to standard output; a closed pipe (`| head`) is not an error.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    progress::speak();
    let mut stdout = io::stdout().lock();
    match stdout.write_all(locale::results(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// Tells people something on standard error.
pub(super) fn tell(text: &str) {
    eprintln!("{}", locale::shown(text));
}

/// Prints the cost of a run with `--figures`.
pub(super) fn figures(args: &JobArgs, figures: &Figures) {
    if args.figures {
        tell(&cost(figures));
    }
}

/// Formats the cost of a run on one line.
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
