//! Bytes and who sees them: allocations, windows of the generic address space, views that copy on write.
//!
//! [`global`] has the allocations, each a [`region`] of bytes with their initialisation state; [`held`] shares a region between
//! views, [`local`] has the memory of threads, [`lent`] reads the host's bytes in place, and [`views`] merges what a view has written. Invariant: an access is located
//! in exactly one allocation, or it is a fault; [`withheld`] has the reasons of some. [`addresses`] finds those of new buffers, and [`defined`] says which bytes are
//! undefined when the host reads them. A whole warp accesses memory through [`spans`], [`lines`], and for words [`shared_words`] and [`global_words`]. Begin with [`global`].

pub(crate) mod addresses;
pub(crate) mod defined;
pub(crate) mod global;
pub(crate) mod global_words;
pub(crate) mod held;
pub(crate) mod lent;
pub(crate) mod lines;
pub(crate) mod local;
pub(crate) mod marks;
pub(crate) mod region;
pub(crate) mod remote;
pub(crate) mod shared_words;
pub(crate) mod spans;
pub(crate) mod views;
pub(crate) mod window;
pub(crate) mod withheld;
