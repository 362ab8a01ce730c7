//! `--format`: each command lists its formats, and clap refuses others and prints this list.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use miette::Diagnostic;

use super::error::{CliError, CommandError};
use super::exit;
use crate::report::Format;

/// The formats of a command, each with a description.
pub(super) type Formats = [(Format, &'static str)];

/// The formats of a record.
pub(super) const OF_RECORD: &Formats = &[
    (Format::Text, "For the terminal"),
    (Format::Md, "Markdown, every variant"),
    (Format::Json, "The record itself"),
    (Format::Csv, "One row per cell"),
    (Format::Junit, "JUnit XML: a suite for each family and each case"),
    (Format::Html, "One self-contained page with search"),
];

/// Returns the parser for the formats of a command.
pub(super) fn parser(formats: &'static Formats) -> impl TypedValueParser<Value = Format> {
    let values = formats.iter().map(|(format, help)| PossibleValue::new(format.word()).help(help));
    PossibleValuesParser::new(values).try_map(move |word| {
        formats.iter().map(|(format, _)| *format).find(|f| f.word() == word).ok_or("there is no such format")
    })
}

/// The error for a format that only another part of the command supports.
pub(super) fn lacks(format: Format, formats: &'static Formats) -> CliError {
    FormatError::NoFormat(format.word(), formats.iter().map(|(f, _)| f.word()).collect::<Vec<_>>().join(", "))
        .into()
}

/// Why a result cannot be written in a format.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum FormatError {
    #[error("--table is for --format csv: the other formats contain every table")]
    TableForm,
    #[error("--bench is for --format html: the other formats of a record have no times")]
    BenchForm,
    #[error("this command has no format {0}; it has {1}")]
    NoFormat(&'static str, String),
    #[error("--format {0} and --format {1}: the output has one format")]
    FormatTwice(&'static str, &'static str),
}

impl CommandError for FormatError {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::args::Cli;

    #[test]
    fn every_format_is_called_format_and_text_is_the_default() {
        let verbs = Cli::command();
        let mut with_formats = 0;
        for verb in verbs.get_subcommands() {
            let Some(arg) = verb.get_arguments().find(|a| a.get_long() == Some("format")) else { continue };
            with_formats += 1;
            let values = arg.get_possible_values();
            assert_eq!(values.first().map(|v| v.get_name()), Some("text"), "{}", verb.get_name());
            assert!(values.iter().all(|v| v.get_help().is_some()), "{}", verb.get_name());
        }
        assert_eq!(with_formats, 19);
    }
}
