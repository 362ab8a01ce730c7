//! What every family of kernels shares.
//!
//! [`family`] is the interface between a family and everything that runs, judges and reports its trials. Begin with [`runner`]: it compiles a trial's kernels ([`compile`]), runs them on the emulator or a GPU, keeps the verdicts
//! ([`kept`]), tries the readings that PTX leaves open ([`readings`]) and applies known failures ([`known`]). [`checks`] orders the
//! checks of a device, [`launch`] makes a launch of a header, [`shrink`] finds the smallest trial that fails, [`stream`] runs a problem over named buffers, [`spread`] places pieces of a buffer far apart, [`case_files`] reads the cases of a family, [`search`] looks for what explains a wrong result among the hypotheses of a family, [`region`] says where the wrong elements are, [`diagnosis`] is the answer, [`effort`] how much is judged, [`code`] assembles a kernel and decides whether the code is admitted ([`admission`]).
//!
//! The invariant: nothing here names a family, a stage or an axis of a configuration.

pub mod admission;
pub mod case_files;
pub mod checks;
pub mod code;
pub mod compile;
pub mod diagnosis;
pub mod effort;
mod error;
pub mod family;
pub mod fitted;
pub mod kept;
pub mod known;
pub mod launch;
mod memo;
pub mod readings;
pub mod region;
pub mod runner;
pub mod search;
pub mod shrink;
pub mod spread;
pub mod stream;

pub use error::{RunError, TrialError};
pub use memo::Memo;
