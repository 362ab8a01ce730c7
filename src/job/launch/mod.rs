//! Launches on the emulator, described on the command line or in a file: modules, buffers, arguments and expected results.

mod arguments;
mod available_memory;
mod content;
mod contract;
mod dtypes;
mod dump;
mod error;
mod expect;
mod file;
mod judged;
mod layout;
mod modules;
mod npy;
mod omissions;
mod origin;
mod place;
mod product;
mod read;
mod results;
mod run;
mod session;
mod triton;

pub use arguments::{CommandLine, from_command_line};
pub use error::LaunchError;
pub use expect::{Checked, Limit, Mismatch, Tolerance};
pub use file::LaunchFile;
pub use judged::Judged;
pub use modules::{Compile, Source, compile_cuda};
pub use omissions::{Elements, Omission};
pub use origin::{Origin, UsedInstruction, UsedValue};
pub use product::{Product, ProductResult};
pub use read::from_file;
pub use results::{LaunchResults, results};
pub use run::{Outcome, Stopped};
pub use session::{Buffer, Expectation, Initial, Module, Session, Step, Value, Variable, Wanted};
pub use triton::{Given, TritonMetadata};
