//! Finds out what this machine can run: its GPUs, driver and toolkits, and which code runs on which GPU.
//!
//! Each answer on a GPU comes from loading code and running it, and is compared with the documented rule. The findings include the
//! kernel packages that a Python would import, and the cache folders of JIT compilers. `log` reads what a server wrote when it started.

mod caches;
mod examine;
mod known_bad;
mod log;
mod probe;
mod python;

pub use caches::{CacheFolder, caches};
pub use examine::{AbsentGpu, Findings, GpuFindings, MiscompileLine, ToolkitLine, examine, unified_memory};
pub use known_bad::{KnownBad, known_bad, known_bad_packages};
pub use log::{
    Choice, Engine, Facts, Flag, Format, Judgement, LogError, LogReport, Path, general_messages,
    known_messages, near_messages, read_log, straight,
};
pub use probe::{Answer, Asked, Form};
pub use python::{Package, Packages, PythonError, packages};
