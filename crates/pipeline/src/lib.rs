//! Families of kernels, each run tile by tile and judged against its reference.
//!
//! | module | duty |
//! |---|---|
//! | [`kernel`] | loads `kernels/`: sources, and the headers that say how to compile and launch them |
//! | [`families`] | the list of families |
//! | [`frame`] | the interface of a family, and what families share: compilation, admission, kept verdicts, readings, checks, the runner |
//! | [`product`] | a product of two matrices: its bounds, and what explains a wrong one |
//! | [`kv_cache`] | the writer of an NVFP4 KV cache: the smallest family |
//! | [`moe`] | the fused mixture-of-experts pipeline: problems, trials, reference with bounds, verdicts |
//!
#![doc = include_str!("../README.md")]

pub mod attention;
pub mod families;
pub mod frame;
pub mod kernel;
pub mod kv_cache;
pub mod moe;
pub mod product;
