//! `--rules`, `--strict` and `--require-equal`: what is checked, and what is a failure.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use emulator::trials::Rules;

/// What is checked, and what is a failure. Every command that launches kernels has these options.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct RulesArgs {
    /// all: the first violation stops. values: continue after races and undefined values, list them, and fail if the outputs of 4 schedules
    /// and 2 contents of unwritten memory depend on them. none: look for no race and no undefined value, as fast as it goes
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = PossibleValuesParser::new(Rules::ALL.map(Rules::word))
        .try_map(|word| Rules::parse(&word).ok_or("no rules")))]
    pub(super) rules: Rules,
    /// Print remarks: findings that violate no rule but deserve attention, such as one value stored by two unordered warps; and fail if
    /// outputs depend on what PTX leaves open
    #[arg(long)]
    pub(super) strict: bool,
    /// Fail if outputs differ between schedules, also if nothing races
    #[arg(long)]
    pub(super) require_equal: bool,
}
