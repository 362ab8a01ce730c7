//! Finds every ptxas, nvdisasm and NVRTC of a machine, installs pinned ones and runs them. It judges nothing.
//!
//! [`discover`] reads candidates from [`Places`] and queries each once for its identity; the answers are cached, so a
//! later run starts no process. [`install`] fetches the wheels of [`Pins`] through pip, verifies them and moves the
//! unpacked folder into place in one step:
//!
//! ```text
//! <cache>/toolkits/<tool>/<version>/manifest.json    the unpacked files, their wheel and hashes
//! <cache>/toolkits/<tool>/<version>/bin/ptxas        or lib/libnvrtc.so.13, ...
//! ```
//!
//! Only a folder with a manifest counts as installed.

mod assemble;
mod contraction;
mod cubin;
mod disassemble;
mod discover;
mod environment;
mod identify;
mod install;
mod installed;
mod nvrtc;
mod pins;
mod pip;
mod places;
mod process;
mod resources;
mod select;
mod unpack;

pub use assemble::{Assembly, assemble, assemble_at_level};
pub use contraction::{Contracted, ContractionError, FpContract, Reading, contracted, reading};
pub use cubin::{Cubin, CubinError, assemblies, cubin};
pub use disassemble::{DisassembleError, Disassembler, UNKNOWN_OPCODE};
pub use discover::{Discovery, Found, Toolkit, Unusable, discover};
pub use environment::Environment;
pub use install::{InstallError, InstallOptions, install};
pub use installed::{Installed, InstalledFile, RemoveError, installed, remove};
pub use nvrtc::{
    Compiled, Include, NVRTC_WORKER, Nvrtc, NvrtcError, Source, compilations, compile, nvrtcs, options_for,
    select_nvrtc, serve_nvrtc,
};
pub use pins::{Arch, Member, Pin, PinError, Pins, Tool, Wheel};
pub use pip::{PipError, PipSource};
pub use places::{EXEC_PTXAS, Origin, Place, Places};
pub use resources::{Resources, ResourcesError, resources};
pub use select::SelectError;
