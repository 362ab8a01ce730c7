//! `gate --kernels DIR --mutants`: the mutants that are created, and those that survive.

use std::path::Path;

use clap::Args;

use super::error::CliError;
use super::format;
use super::gate::GateError;
use super::gate::{FORMATS, GateReports};
use super::output;
use crate::gate::{self, Judgement};
use crate::job::MutantOptions;
use crate::mutants::{Operator, Survey};
use crate::record::{Ground, Record};
use crate::report::{self, Format};

/// Which mutants are made, and on how many trials each is run.
#[derive(Debug, Clone, Args)]
pub(super) struct MutantArgs {
    /// With --kernels: plant one-line faults, one at a time, and list those that no trial detects
    #[arg(long, requires = "kernels", conflicts_with_all = ["baseline", "expectations", "junit", "record"])]
    mutants: bool,
    /// With --mutants: only faults of this operator (repeatable)
    #[arg(long = "mutant-operator", value_name = "WORD", requires = "mutants")]
    operators: Vec<Operator>,
    /// With --mutants: maximum number of trials per mutant; survivors run up to as many again
    #[arg(long = "mutant-trials", value_name = "N", requires = "mutants", default_value = "24", value_parser = clap::value_parser!(u16).range(1..))]
    most_trials: u16,
    /// With --mutants: run N random mutants, chosen by --seed
    #[arg(long, value_name = "N", requires = "mutants")]
    sample: Option<usize>,
    /// With --sample: seed of the sample
    #[arg(long, value_name = "S", requires = "sample", default_value = "0")]
    seed: u64,
}

impl MutantArgs {
    /// The options; `None` without `--mutants`.
    pub(super) fn options(&self) -> Option<MutantOptions> {
        self.mutants.then(|| MutantOptions {
            operators: self.operators.clone(),
            most_trials: self.most_trials,
            sample: self.sample,
            seed: self.seed,
        })
    }
}

/// Writes the survivors in all requested formats; the exit code says whether there are any.
pub(super) fn deliver(survey: &Survey, folder: &Path, to: &GateReports) -> Result<(), CliError> {
    let findings = gate::survivors(survey, folder);
    let text = report::survivors_text(survey, &findings);
    let markdown = report::survivors_markdown(survey, &findings);
    let judgement = Judgement { findings, ..Judgement::default() };
    let sarif = || report::findings_sarif(&judgement.findings).map_err(|e| CliError::Output(e.into()));
    let text = match to.format {
        Format::Text => text,
        Format::Md => markdown.clone(),
        Format::Sarif => sarif()?,
        other => return Err(format::lacks(other, FORMATS)),
    };
    output::write(&text, &to.output)?;
    if let Some(path) = &to.sarif {
        Record::write_report(path, &sarif()?)?;
    }
    super::gate::on_github(&judgement.findings, &markdown)?;
    match judgement.ground() {
        None => Ok(()),
        Some(Ground::Incomplete) => Err(GateError::Gate(
            Ground::Incomplete,
            "NOTHING CHECKED: no mutant builds and has another PTX".to_owned(),
        )
        .into()),
        Some(_) => Err(GateError::Mutants(report::survivors_summary(survey)).into()),
    }
}
