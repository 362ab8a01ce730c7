//! Device code in files: which there is, for which targets, with which kernels. Reads formats; judges nothing.

mod ar;
mod cubin;
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
pub use scan::scan;
