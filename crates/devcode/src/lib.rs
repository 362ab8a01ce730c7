//! Finds device code in files, with its targets and kernels. The crate parses formats and makes no judgements.
//!
#![doc = include_str!("../README.md")]

mod ar;
mod cubin;
mod embedded;
mod entry;
mod fatbin;
mod folder;
mod host;
pub mod machine_code;
mod piece;
mod ptx_text;
mod scan;
mod source;
mod tar_file;
mod unpack;
mod zip_file;

pub use entry::{
    CodeKind, Compression, Effects, Entry, Format, Found, Holder, Kernel, Limits, Place, Problem, ToldBy,
    Trouble,
};
pub use scan::{scan, scan_bytes};
