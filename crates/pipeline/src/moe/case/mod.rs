//! Cases: problems for the pipeline, one YAML file each, with model dimensions by name.
//!
//! A case is one file `cases/**/<name>.yaml`; its name is the file stem. It sets the dimensions (or a model), how tokens choose
//! experts, the values of the tensors and the rules that the kernels follow. CONTRIBUTING.md documents the format.

mod error;
mod file;
mod library;
mod model;
mod models;
mod pair;
mod router;
mod write;

pub use error::CaseError;
pub use library::{Library, find, library, of_model};
pub use model::{
    Arguments, BiasPlace, Case, Configurations, Exp, Finalize, GateUp, GlobalScale, KTail, KnownFailure,
    Minimum, Regime, Routing, ScaleRule, ScaleTiles, Slots,
};
pub use models::{Model, models};
pub use pair::{Format, FormatPair};
pub use router::{GroupScore, Groups, Router, Scores};
pub use write::{create as create_case, to_yaml};
