//! What this machine can run: every GPU, its driver, every toolkit, and what runs on what. Each answer on a GPU was had by
//! loading code and running it, and is shown beside the rule that says what it should be. Beside that, which packages of kernels a
//! Python would import, and where JIT compilers keep what they made.

mod caches;
mod examine;
mod known_bad;
mod probe;
mod python;

pub use caches::{CacheFolder, caches};
pub use examine::{Findings, GpuFindings, ToolkitLine, examine};
pub use known_bad::{KnownBad, known_bad};
pub use probe::{Answer, Asked, Form};
pub use python::{Package, Packages, PythonError, packages};
