//! sm121probe: what an SM12x GPU's toolchain really does, with evidence.
//!
//! Most of the work is done by the crates below it, whose modules it shows as its own: `record`, `toolchain`, `gpu`, `pipeline`; `ptx`, `numerics`,
//! `emulator`, `vectors`, `devcode`. Its own modules, in order; a module uses earlier ones only (`tests/product/tidy.rs` enforces it):
//!
//! | module | duty |
//! |---|---|
//! | [`assumptions`] | what the emulator takes on trust, each with a snippet that a GPU can answer |
//! | [`selftest`] | recorded answers against the emulator |
//! | [`lint`] | any PTX over toolkits and targets: what is refused, where, and what would be accepted |
//! | [`doctor`] | what this machine can run, tried |
//! | [`execute`] | variants of snippets on a device, check by check |
//! | [`mutants`] | faults of one line planted into kernels, and what the cases say of each |
//! | [`mod@bench`] | where the time goes: profiles, what they decide, and times on a GPU |
//! | [`audit`] | what becomes of device code in files on a device |
//! | [`gate`] | records compared, baselines, expectations, fleets |
//! | [`job`] | what verbs do: typed options in, typed results out |
//! | [`report`] | renderers, each a pure function of a record or of one result |
//! | [`cli`] | verbs, error printing, exit codes |

pub use pipeline::{case, checks, kernel, moe};
pub use toolchain::{event, header, matrix, near, snippet, store, toolkit, worker};
pub use {gpu, record};

pub mod assumptions;
pub mod audit;
pub mod bench;
pub mod cli;
pub mod doctor;
pub mod execute;
pub mod gate;
pub mod job;
pub mod lint;
pub mod mutants;
pub mod report;
pub mod selftest;
