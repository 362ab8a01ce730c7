//! From the syntax tree of a module to a program: rows of function pointers with resolved operands.
//!
//! [`load`] places module variables and decodes entries; [`decode`] translates one kernel, with the instruction table in
//! [`isa`](crate::isa), which reads modifiers as [`words`]. [`declared`] and [`directives`] refuse what ptxas refuses. Invariant: after
//! decoding, names, labels and modifiers are gone, and a row needs no look-up. Begin with [`load`], then [`program`] for the result.

pub(crate) mod assignment;
pub(crate) mod contraction;
pub(crate) mod declared;
pub(crate) mod decode;
pub(crate) mod directives;
pub(crate) mod flow;
pub(crate) mod launch_check;
pub(crate) mod liveness;
pub(crate) mod load;
pub(crate) mod program;
pub(crate) mod variables;
pub(crate) mod words;
