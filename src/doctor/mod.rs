//! Finds out what this machine can run: its GPUs, driver and toolkits, and which code runs on which GPU.
//!
//! Each answer on a GPU comes from loading code and running it, and is compared with the documented rule. The findings include the
//! kernel packages that a Python would import, and the cache folders of JIT compilers.

mod caches;
mod examine;
mod known_bad;
mod probe;
mod python;

pub use caches::{CacheFolder, caches};
pub use examine::{Findings, GpuFindings, MiscompileLine, ToolkitLine, examine};
pub use known_bad::{KnownBad, known_bad};
pub use probe::{Answer, Asked, Form};
pub use python::{Package, Packages, PythonError, packages};
