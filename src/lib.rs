//! sm121probe: what an SM12x GPU's toolchain really does, with evidence.
//!
//! Most of the work is done by the workspace crates `record`, `toolchain`, `gpu`, `pipeline`, `ptx`, `numerics`, `emulator`, `vectors` and
//! `devcode`; modules of the first four are re-exported here. The modules of this crate follow, in order. Each uses only the modules above
//! it (enforced by `tests/product/tidy.rs`):
//!
//! | module | duty |
//! |---|---|
//! | [`assumptions`] | hardware behaviour that the emulator assumes, each with a snippet that tests it |
//! | [`selftest`] | compares the emulator with recorded answers |
//! | [`lint`] | checks PTX against toolkits and targets: what is rejected, where, and what would be accepted |
//! | [`lookup`] | what instructions, messages, opcodes and names of CUDA and CUTLASS lead to |
//! | [`doctor`] | tests what this machine can run |
//! | [`execute`] | runs variants of snippets on a device |
//! | [`mutants`] | mutation testing of kernels: whether the cases detect planted one-line faults |
//! | [`mod@bench`] | performance: decode profiles, what they decide, and timings on a GPU |
//! | [`audit`] | whether and how the device code in files runs on a device |
//! | [`gate`] | compares records with baselines and expectations, and merges records of fleets |
//! | [`job`] | the work of each verb: typed options in, typed results out |
//! | [`report`] | renderers, each a pure function of a record or of one result |
//! | [`cli`] | verbs, error printing, exit codes |

pub use pipeline::{attention, families, frame, kernel, moe, product};
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
pub mod lookup;
pub mod mutants;
pub mod report;
pub mod selftest;
