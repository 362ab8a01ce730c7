//! What a caller sees: the device interface, arguments, violations, observers and events.
//!
//! Nothing here runs an instruction. A violation has a [`trap`] with its rule and place; an observer ([`observe`]) sees rows as they
//! run; [`events`] are what a process that launches kernels reports to another. Begin with [`device`], the interface that the
//! emulator ([`emulated`]) and a GPU share.

pub mod argument;
pub(crate) mod buffer_names;
pub mod device;
pub(crate) mod element;
pub(crate) mod emulated;
pub mod events;
pub mod gpus;
pub(crate) mod names;
pub(crate) mod observe;
pub(crate) mod printf;
pub(crate) mod profile;
pub(crate) mod tensor_argument;
pub mod texture;
pub(crate) mod trap;
