//! The fused-MoE pipeline for NVFP4, MXFP4, MXFP8 and bf16 x FP4: problems, a reference with derived bounds, stage verdicts.
//!
//! The interface of the reference, used by drivers and by `judge`:
//!
//! * [`problem::generate`]`(&Case, seed)` generates a [`Problem`]: [`Dims`], [`Settings`], inputs as [`Tensors`] (hidden states,
//!   router logits, weights and biases of the routed experts, their numbers in `expert_ids`) and, in the regimes `exact` and
//!   `impulse`, the a2 with which the host replaces the device's between activation and FC2;
//! * a driver fills the other fields of [`Tensors`] with the values that the device stored (`injected_a2_codes` and
//!   `injected_a2_scales` with the values it injected), row-major, unswizzled, unpadded;
//! * [`judge()`]`(&Contract, &Tensors)` returns a verdict for every stage, each judged on the values that the device stored
//!   before it. A stage whose tensors are missing is skipped, with the reason; [`explain`] says what explains the first wrong one;
//! * [`tensors::read`] and [`tensors::write`] implement the dump format (docs/dump.md), [`Contract::metadata`] and
//!   [`Contract::of_dump`] its metadata;
//! * [`witness::witness`] measures how much of a GEMM's inputs a case would detect as changed.
//!
//! `docs/numerics.md` derives every bound. Nothing here shares arithmetic with the emulator.

pub mod admission;
pub mod case;
pub mod checkpoint;
pub mod checks;
pub mod configuration;
pub mod contract;
pub mod coverage;
pub mod dims;
pub mod error;
pub mod exercise;
pub mod family;
pub mod features;
pub mod fit;
pub mod format;
mod generate;
mod judge;
pub mod kernels;
pub mod layout;
pub mod peers;
pub mod pipeline;
pub mod plan;
pub mod policy;
pub mod problem;
mod random;
pub mod reference;
pub mod setup;
mod shrink;
pub mod slots;
pub mod sources;
pub mod stage;
pub mod suspicion;
pub mod table;
pub mod tensors;
pub mod tile;
pub mod trial;
pub mod verdicts;
pub mod witness;

pub use contract::{Accumulation, Contract, ExpBound, FinalizeOrder, KOrder, Settings};
pub use dims::Dims;
pub use error::MoeError;
pub use judge::{Gap, Judgement, explain, judge, judge_dump};
pub use problem::Problem;
pub use stage::Stage;
pub use tensors::{Array, Tensors};
