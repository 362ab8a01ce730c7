//! `--contract`: which products and sums round once.

use clap::{Args, ValueEnum};

use crate::job::launch::Contract;

/// Which reading of unqualified products and sums.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct ContractArgs {
    /// Round a mul and the add or sub that uses it, neither with a rounding modifier, once: off, never; on, wherever PTX allows it in a
    /// basic block; as-ptxas, where the newest ptxas does
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Off)]
    contract: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    Off,
    On,
    AsPtxas,
}

impl ContractArgs {
    /// As launches take it.
    pub(super) fn contract(self) -> Contract {
        match self.contract {
            When::Off => Contract::Off,
            When::On => Contract::On,
            When::AsPtxas => Contract::AsPtxas,
        }
    }
}
