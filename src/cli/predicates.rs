//! `predicates`: feature tests for the SM12x targets as a C header, a Python module or a Rust module.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ptx::arch::Requirement;

use super::args::OutputArgs;
use super::error::CliError;
use super::output;
use crate::job::{Context, Job, Options};
use crate::record::Record;
use crate::report::{self, Language};

/// Arguments of `predicates`.
#[derive(Debug, Args)]
pub(super) struct PredicatesArgs {
    /// Language of the text
    #[arg(long, value_name = "LANG")]
    lang: Lang,
    /// Read RECORD instead of querying all toolkits of this machine
    #[arg(long, value_name = "RECORD")]
    from: Option<PathBuf>,
    /// Only toolkits within this range: 12.9.., 12.9..13.2, 13.5, or a requirement such as `>=12.9,<13.2`
    #[arg(long = "toolkit", short = 'k', value_name = "RANGE", value_parser = range)]
    toolkit: Option<Requirement>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What `--lang` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// A C header, for CUDA C++, too
    C,
    /// A Python module
    Python,
    /// A Rust module
    Rust,
}

/// `12.9..`, `12.9..13.2` (both included), `..13.0`, `13.5`, or a requirement.
fn range(text: &str) -> Result<Requirement, String> {
    let requirement = match text.split_once("..") {
        Some((first, last)) => {
            let from = (!first.is_empty()).then(|| format!(">={first}"));
            let to = (!last.is_empty()).then(|| format!("<={last}"));
            from.into_iter().chain(to).collect::<Vec<_>>().join(",")
        }
        None if text.starts_with(|c: char| c.is_ascii_digit()) => format!("={text}"),
        None => text.to_owned(),
    };
    requirement.parse().map_err(|_| format!("`{text}` is not a range such as 12.9.. or 12.9..13.2"))
}

/// Runs `predicates`.
pub(super) fn predicates(args: &PredicatesArgs, context: &Context<'_>) -> Result<(), CliError> {
    let record = match &args.from {
        Some(path) => Record::read(path)?,
        None => {
            let asked = Options { toolkits: vec!["all".to_owned()], no_sass: true, ..Options::default() };
            Job::prepare(&asked, context)?.run(&asked, false)?.0
        }
    };
    let language = match args.lang {
        Lang::C => Language::C,
        Lang::Python => Language::Python,
        Lang::Rust => Language::Rust,
    };
    output::write(&report::predicates(&record, args.toolkit.as_ref(), language)?, &args.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_requirements() {
        for (text, want) in [
            ("12.9..", ">=12.9"),
            ("12.9..13.2", ">=12.9,<=13.2"),
            ("..13.0", "<=13.0"),
            ("13.5", "=13.5"),
            (">=12.9,<13.2", ">=12.9,<13.2"),
        ] {
            assert_eq!(range(text).unwrap().to_string(), want);
        }
        for bad in ["", "..", "x", "12.9..x"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }
}
