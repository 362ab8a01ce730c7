//! The simulated device. `state.rs` has the one value with its memory, modules, streams and graphs, behind one lock; begin there.
//!
//! The files before it in the list hold a part of that state each and know nothing of the rest. Those after it are what the device does:
//! copies, launches, and work that is run at once or kept for a graph. No file here knows an entry point: entry points call the device,
//! never the other way round.

pub(crate) mod advice;
pub(crate) mod allocations;
pub(crate) mod arguments;
pub(crate) mod arrays;
pub(crate) mod conditionals;
pub(crate) mod contexts;
pub(crate) mod device_code;
pub(crate) mod graphs;
pub(crate) mod handles;
pub(crate) mod kept_ptx;
mod limits;
pub(crate) mod links;
pub(crate) mod mappings;
pub(crate) mod module;
mod peers;
pub(crate) mod pools;
mod record;
pub(crate) mod results;
mod separate;
pub(crate) mod stream_attributes;
pub(crate) mod streams;
mod visible;
pub(crate) mod work;

pub(crate) mod state;

mod access;
mod array_memory;
mod copies;
pub(crate) mod instances;
pub(crate) mod launch;
pub(crate) mod registry;
pub(crate) mod submit;
mod undefined;
pub(crate) mod user_objects;
pub(crate) mod virtual_memory;
mod words;
