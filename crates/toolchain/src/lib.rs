//! CUDA toolkits and what they accept: everything between a PTX snippet and the cells of the capability matrix.
//!
//! | module | duty |
//! |---|---|
//! | [`event`] | progress events; no printing |
//! | [`near`] | similar names, for error messages |
//! | [`header`] | YAML into typed structs; errors with file, line and column |
//! | [`store`] | the on-disk cache: locked, atomic; damaged entries are misses |
//! | [`worker`] | child processes with a time limit |
//! | [`snippet`] | loads and expands `ptx_snippets/` |
//! | [`toolkit`] | finds, installs and runs ptxas, nvdisasm and NVRTC; judges nothing |
//! | [`matrix`] | plan, batch assembly, classified cells, claims |
//!
#![doc = include_str!("../README.md")]

pub mod event;
pub mod header;
pub mod matrix;
pub mod near;
pub mod snippet;
pub mod store;
pub mod toolkit;
pub mod worker;
