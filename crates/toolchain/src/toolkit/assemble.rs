//! Runs ptxas on a file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::discover::Toolkit;
use super::process;
use crate::worker::Ended;

/// The result of one run of ptxas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembly {
    /// How it ended.
    pub ended: Ended,
    /// Standard output followed by standard error. Messages begin with `ptxas`, independent of its path.
    pub text: String,
    /// Whether it wrote a non-empty cubin.
    pub produced: bool,
}

/// Assembles `ptx` for `arch` (`sm_121a`) into `cubin`, which is removed first. With `entry`, every entry is checked but
/// code is generated for that entry only (`ptxas --entry`).
///
/// # Errors
/// When ptxas cannot be started or an old cubin cannot be removed; a failure of ptxas itself is not an error here.
pub fn assemble(
    toolkit: &Toolkit,
    arch: &str,
    ptx: &Path,
    cubin: &Path,
    entry: Option<&str>,
    limit: Duration,
) -> io::Result<Assembly> {
    let only = entry.map(|name| format!("--entry={name}"));
    with_option(toolkit, arch, ptx, cubin, only, limit)
}

/// [`assemble`] of all entries at a level of optimization, as in `-O3`.
///
/// # Errors
/// As [`assemble`].
pub fn assemble_at_level(
    toolkit: &Toolkit,
    arch: &str,
    ptx: &Path,
    cubin: &Path,
    level: u8,
    limit: Duration,
) -> io::Result<Assembly> {
    with_option(toolkit, arch, ptx, cubin, Some(format!("-O{level}")), limit)
}

fn with_option(
    toolkit: &Toolkit,
    arch: &str,
    ptx: &Path,
    cubin: &Path,
    option: Option<String>,
    limit: Duration,
) -> io::Result<Assembly> {
    match fs::remove_file(cubin) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let arch = format!("-arch={arch}");
    let mut args = vec![OsStr::new(&arch)];
    args.extend(option.as_deref().map(OsStr::new));
    args.extend([ptx.as_os_str(), OsStr::new("-o"), cubin.as_os_str()]);
    let output = process::run(&toolkit.path, "ptxas", args, limit)?;
    let produced = fs::metadata(cubin).is_ok_and(|meta| meta.len() > 0);
    Ok(Assembly { ended: output.ended, text: output.text(), produced })
}
