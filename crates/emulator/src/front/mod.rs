//! From the syntax tree of a module to a program: rows of function pointers with resolved operands.
//!
//! [`load`] places module variables and decodes entries; [`decode`] translates one kernel. It checks each instruction
//! ([`syntax`]: the forms of PTX, [`availability`]: what the target lacks) and hands it to the instruction table,
//! [`isa`](crate::isa), which reads modifiers as [`words`] and pushes rows. [`declared`] and [`directives`] refuse what ptxas
//! refuses. Invariant: after decoding, names, labels and modifiers are gone, and a row needs no look-up. Begin with [`load`], then
//! [`program`] for the result, with the [`rows`] that the decoder makes itself, the [`registers`], and the [`calls`] of functions.

pub(crate) mod assignment;
pub(crate) mod availability;
pub(crate) mod calls;
pub(crate) mod contraction;
pub(crate) mod declared;
pub(crate) mod decode;
pub(crate) mod directives;
pub(crate) mod flow;
pub(crate) mod launch_check;
pub(crate) mod liveness;
pub(crate) mod load;
pub(crate) mod program;
pub(crate) mod registers;
pub(crate) mod rows;
pub(crate) mod syntax;
pub(crate) mod variables;
pub(crate) mod words;
