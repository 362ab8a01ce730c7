//! `--contract`: which products and sums round once.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::toolkit::FpContract;

/// Which reading of unqualified products and sums.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct ContractArgs {
    /// When to round a mul and the add or sub that uses it only once, if neither has a rounding modifier: off, never; on, wherever PTX allows it in a
    /// basic block; as-ptxas, where the newest ptxas does [default: off]
    #[arg(long, value_name = "WHEN", value_parser = PossibleValuesParser::new(FpContract::ALL.map(FpContract::word))
        .try_map(|word| FpContract::parse(&word).ok_or("no reading")))]
    contract: Option<FpContract>,
}

impl ContractArgs {
    /// Returns the chosen contraction; off by default.
    pub(super) fn contract(self) -> FpContract {
        self.contract.unwrap_or_default()
    }

    /// Returns the contraction that was given, if any.
    pub(super) const fn given_contract(self) -> Option<FpContract> {
        self.contract
    }
}
