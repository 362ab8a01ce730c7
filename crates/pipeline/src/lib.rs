//! The fused mixture-of-experts pipeline, tile by tile, against a dequantized reference.
//!
//! | module | duty |
//! |---|---|
//! | [`case`] | loads `cases/`: problems of the pipeline, models by name |
//! | [`kernel`] | loads `kernels/`: sources and the headers that plug them into the pipeline |
//! | [`checks`] | checks on a device in order, and the verdict on a launch that did not finish |
//! | [`moe`] | problems, trials, reference with bounds, verdicts |
//!
#![doc = include_str!("../README.md")]

pub mod case;
pub mod checks;
pub mod kernel;
pub mod moe;
