//! Attention: softmax(q·k)·v over paged or ragged caches, as the libraries for SM12x store and compute it.
//!
//! | file | duty |
//! |---|---|
//! | `element.rs` | types of elements, their values and roundings |
//! | `semantics.rs` | what is computed, and what a kernel may round |
//! | `problem.rs` | queries, keys and values as numbers, and which keys a row sees |
//! | `cache.rs` | keys and values in memory: pages, strides, codes and scales |
//! | `mla.rs` | records of latent attention (MLA) |
//! | `reference.rs` | the result in f64, with the bound; `reference/two_level.rs`, `reference/folded.rs`: where weights are quantized |
//! | `quantize.rs` | queries in NVFP4, and whether a kernel stored them |
//! | `dump.rs`, `dump/` | the dump format, under the names of every library |
//! | `judge.rs` | which stored elements are right |
//! | `hypotheses.rs` | what may be wrong with those that are not |
//! | `arithmetic.rs` | one of those as a Python program |
//! | `writer.rs` | what a writer of a cache stored |
//! | `case.rs`, `configuration.rs` | the cases of `cases/attention/`, and what kernels are compiled for |
//! | `models.rs`, `models.yaml` | the layers of models, and those that kernels compute as cases |
//! | `generate.rs` | the data of a case on a configuration |
//! | `stages.rs` | launches, and verdicts on what they store |
//! | `timing.rs` | a decode step over long caches, for `bench` |
//! | `coverage.rs` | which changes of the inputs the data expose |
//! | `export.rs` | writes a trial as a dump |
//! | `family.rs` | what the rest of the tool calls |

mod arithmetic;
mod cache;
mod case;
mod configuration;
mod coverage;
pub mod dump;
mod element;
mod error;
mod export;
pub mod family;
mod generate;
mod hypotheses;
mod judge;
mod mla;
mod models;
mod problem;
mod quantize;
mod reference;
mod semantics;
mod stages;
pub mod timing;
mod writer;

pub use error::AttentionError;
pub use judge::{Bounds, Judgement, bounds, judge, judge_contents};
pub use models::{Form, Heads, Layer, Model, models};

/// The name of the family in records.
pub const FAMILY: &str = "attention";
