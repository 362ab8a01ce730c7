//! Device code in files: which there is, for which targets, with which kernels. Reads formats; judges nothing.

mod entry;

pub use entry::{
    CodeKind, Compression, Entry, Format, Found, Holder, Kernel, Limits, Place, Problem, ToldBy, Trouble,
};
