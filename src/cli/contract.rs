//! `--contract`: which products and sums round once.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::toolkit::Contract;

/// Which reading of unqualified products and sums.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct ContractArgs {
    /// When to round a mul and the add or sub that uses it only once, if neither has a rounding modifier: off, never; on, wherever PTX allows it in a
    /// basic block; as-ptxas, where the newest ptxas does [default: off]
    #[arg(long, value_name = "WHEN", value_parser = PossibleValuesParser::new(Contract::ALL.map(Contract::word))
        .try_map(|word| Contract::parse(&word).ok_or("no reading")))]
    contract: Option<Contract>,
}

impl ContractArgs {
    /// Returns the chosen contraction; off by default.
    pub(super) fn contract(self) -> Contract {
        self.contract.unwrap_or_default()
    }

    /// Returns the contraction that was given, if any.
    pub(super) const fn asked(self) -> Option<Contract> {
        self.contract
    }
}
