//! Asynchronous copies and tensors (PTX ISA 9.7.9.27).
//!
//! [`life`] is the life of a copy: issue, commit, wait, completion; [`pending`] the bytes that nobody may touch until then;
//! [`transfer`] moves and reduces the data, with the operations of [`reduce`]. [`tensor_map`] describes a tensor, [`boxes`] the part
//! of it that a copy moves, [`cp_async`] what `cp.async` copies. Begin with [`life`].

pub(crate) mod boxes;
pub(crate) mod cp_async;
pub(crate) mod life;
pub(crate) mod pending;
pub(crate) mod reduce;
pub(crate) mod tensor_map;
pub(crate) mod tensor_map_bytes;
pub(crate) mod tensor_type;
pub(crate) mod transfer;
