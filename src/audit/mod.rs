//! Device code in files: which there is, for which targets, with which kernels. The scan reads formats and judges nothing;
//! [`answer`] judges what it found.

pub mod answer;
mod ar;
mod cubin;
mod embedded;
mod entry;
mod fatbin;
mod folder;
mod host;
mod piece;
mod ptx_text;
mod scan;
mod source;
mod unpack;
mod zip_file;

pub use entry::{
    CodeKind, Compression, Entry, Format, Found, Holder, Kernel, Limits, Place, Problem, ToldBy, Trouble,
};
pub use scan::{scan, scan_bytes};
