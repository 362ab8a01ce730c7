//! Compiles CUDA C++ to PTX with any NVRTC of the machine, in worker processes with a time limit; results are cached.

mod binding;
mod find;
mod serve;
mod session;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::store::{self, Store, StoreError};
pub use find::{Nvrtc, nvrtcs};
use ptx::arch::{Target, ToolkitVersion};
pub use serve::serve as serve_nvrtc;

/// Kind of the cache entries; the number changes with [`Compiled`].
const KIND: &str = "nvrtc-1";

/// Number of compilations by this process.
static COMPILATIONS: AtomicU64 = AtomicU64::new(0);

/// The argument that follows the worker verb.
pub const NVRTC_WORKER: &str = "nvrtc";

/// The source to compile, and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source<'a> {
    /// CUDA C++.
    pub text: &'a str,
    /// The name in messages and line information, without a folder.
    pub name: &'a str,
    /// The options, which begin with those of [`options_for`].
    pub options: Vec<String>,
    /// The files that `#include` finds, by name; NVRTC has no headers of its own.
    pub headers: Vec<Include>,
}

/// A file that a source includes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Include {
    /// The name between the quotes.
    pub name: String,
    /// CUDA C++.
    pub text: String,
}

/// Returns the options of every compilation: PTX for `target`, no contraction unless the source requests it, and line numbers.
#[must_use]
pub fn options_for(target: Target) -> Vec<String> {
    let arch = target.to_string().replacen("sm_", "compute_", 1);
    ["--fmad=false", "-default-device", "--std=c++17", "-lineinfo"].iter().map(|s| (*s).to_owned()).fold(
        vec![format!("--gpu-architecture={arch}")],
        |mut all, option| {
            all.push(option);
            all
        },
    )
}

/// The result of a compilation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiled {
    /// The PTX.
    pub ptx: String,
    /// Warnings.
    pub log: String,
}

/// Why there is no PTX.
#[derive(Debug, thiserror::Error)]
pub enum NvrtcError {
    /// The machine has no NVRTC, or none of that version.
    #[error("no NVRTC{wanted} on this machine{there}; `sm121probe toolkit install {install}` fetches it")]
    Missing {
        /// The requested version preceded by a space, or nothing.
        wanted: String,
        /// The versions available, as a clause, or nothing.
        there: String,
        /// The version to install.
        install: String,
    },
    /// The source does not compile.
    #[error("{name} does not compile with NVRTC {version}:\n{log}")]
    Rejected {
        /// The source's name.
        name: String,
        /// The NVRTC.
        version: ToolkitVersion,
        /// The log of NVRTC; each position is followed by its source line.
        log: String,
    },
    /// The library cannot be used.
    #[error("NVRTC {version} at {} cannot be used: {reason}", path.display())]
    Unusable {
        /// The NVRTC.
        version: ToolkitVersion,
        /// The library.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The worker cannot be started, or its files cannot be written.
    #[error("NVRTC's worker process cannot be run: {0}")]
    Worker(io::Error),
    /// The cache cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the newest NVRTC that `name` denotes (`13.5`, `13.5.37`), or the newest of all.
///
/// # Errors
/// [`NvrtcError::Missing`] with the versions available and the command that fetches one.
pub fn select_nvrtc<'a>(found: &'a [Nvrtc], name: Option<&str>) -> Result<&'a Nvrtc, NvrtcError> {
    let named = |nvrtc: &&Nvrtc| name.is_none_or(|name| nvrtc.version.is_named(name));
    if let Some(newest) = found.iter().rev().find(named) {
        // The preferred one of that version.
        return Ok(found.iter().find(|n| n.version == newest.version).unwrap_or(newest));
    }
    let versions: Vec<String> = found.iter().map(|n| n.version.to_string()).collect();
    Err(NvrtcError::Missing {
        wanted: name.map(|name| format!(" {name}")).unwrap_or_default(),
        there: if versions.is_empty() {
            String::new()
        } else {
            format!(" (available: {})", versions.join(" "))
        },
        install: name.map_or_else(|| "nvrtc".to_owned(), |name| format!("nvrtc:{name}")),
    })
}

/// Returns the number of compilations in this process; tests use it to check that concurrent requests for one kernel
/// compile it once.
#[must_use]
pub fn compilations() -> u64 {
    COMPILATIONS.load(Ordering::Relaxed)
}

/// Compiles with `nvrtc`, or returns the cached result. `program` is this tool, whose hidden verb runs the worker.
///
/// # Errors
/// [`NvrtcError`]; if the source does not compile, the error carries NVRTC's log and the source lines it refers to.
pub fn compile(
    nvrtc: &Nvrtc,
    source: &Source<'_>,
    store: Option<&Store>,
    program: &Path,
    limit: Duration,
) -> Result<Compiled, NvrtcError> {
    let unusable =
        |reason: String| NvrtcError::Unusable { version: nvrtc.version, path: nvrtc.library.clone(), reason };
    let sha256 = nvrtc.sha256(store).map_err(|error| unusable(format!("it cannot be read: {error}")))?;
    let options = source.options.join("\0");
    let mut parts = vec![sha256.as_str(), source.name, &options, source.text];
    parts.extend(source.headers.iter().flat_map(|h| [h.name.as_str(), h.text.as_str()]));
    let key = store::sha256(parts.join("\0\0").as_bytes());
    let known = || {
        let bytes = store?.get(KIND, &key)?;
        serde_json::from_slice::<Compiled>(&bytes).ok()
    };
    if let Some(compiled) = known() {
        return Ok(compiled);
    }
    // One compiles; the others wait and read. Few locks cover many keys.
    let _lock = store.map(|store| store.lock(&format!("nvrtc-{}", &key[..2]))).transpose()?;
    if let Some(compiled) = known() {
        return Ok(compiled);
    }
    COMPILATIONS.fetch_add(1, Ordering::Relaxed);
    let compiled = match in_worker(nvrtc, source, program, limit)? {
        Ok(serve::Reply::Compiled { ptx, log, .. }) => {
            let names = std::iter::once(source.name).chain(source.headers.iter().map(|h| h.name.as_str()));
            Compiled { ptx: without_folders(&ptx, &names.collect::<Vec<_>>()), log }
        }
        Ok(serve::Reply::Rejected { log }) => {
            return Err(NvrtcError::Rejected {
                name: source.name.to_owned(),
                version: nvrtc.version,
                log: with_lines(&log, source),
            });
        }
        Ok(serve::Reply::Failed { reason }) | Err(reason) => return Err(unusable(reason)),
    };
    if let (Some(store), Ok(bytes)) = (store, serde_json::to_vec(&compiled)) {
        // A cache that cannot be written costs time, not the result.
        let _ = store.put(KIND, &key, &bytes);
    }
    Ok(compiled)
}

/// Returns the worker's reply, or how the worker ended.
fn in_worker(
    nvrtc: &Nvrtc,
    source: &Source<'_>,
    program: &Path,
    limit: Duration,
) -> Result<Result<serve::Reply, String>, NvrtcError> {
    let job = serve::Job {
        library: nvrtc.library.clone(),
        builtins: nvrtc.builtins.clone(),
        source: source.text.to_owned(),
        name: source.name.to_owned(),
        options: source.options.clone(),
        headers: source.headers.clone(),
    };
    let reply = session::ask(program, &job, limit).map_err(NvrtcError::Worker)?;
    Ok(reply.map_err(|how| format!("its worker process {how}")))
}

/// Removes the working folder that NVRTC writes into `.file`, so that the PTX does not depend on it.
fn without_folders(ptx: &str, names: &[&str]) -> String {
    let mut out = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        let path = line.trim_start().strip_prefix(".file").and_then(|rest| rest.split('"').nth(1));
        match path.and_then(|path| Some((path, path.strip_prefix('/')?.rsplit('/').next()?))) {
            Some((path, name)) if names.contains(&name) => out.push_str(&line.replacen(path, name, 1)),
            _ => out.push_str(line),
        }
    }
    out
}

/// NVRTC's log, with line 12 added after each `name(12): error` that does not show it.
fn with_lines(log: &str, source: &Source<'_>) -> String {
    let mut out = String::new();
    let mut rows = log.trim_end().lines().peekable();
    while let Some(row) = rows.next() {
        let _ = writeln!(out, "{row}");
        let number = row.strip_prefix(source.name).and_then(|rest| rest.strip_prefix('('));
        let number = number.and_then(|rest| rest.split_once(')')?.0.parse::<usize>().ok());
        let Some(line) = number.and_then(|n| source.text.lines().nth(n.checked_sub(1)?)) else { continue };
        if rows.peek().is_none_or(|next| next.trim() != line.trim()) {
            let _ = writeln!(out, "    {}", line.trim());
        }
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_nvrtc_says_what_is_there_and_what_to_install() {
        let said = select_nvrtc(&[], None).unwrap_err().to_string();
        assert_eq!(said, "no NVRTC on this machine; `sm121probe toolkit install nvrtc` fetches it");
        let one = Nvrtc {
            version: "13.5.37".parse().unwrap(),
            library: "/x/libnvrtc.so.13".into(),
            builtins: None,
            origin: super::super::Origin::Cache,
            sha256: None,
        };
        let all = [one];
        let said = select_nvrtc(&all, Some("12.9")).unwrap_err().to_string();
        assert_eq!(
            said,
            "no NVRTC 12.9 on this machine (available: 13.5.37); `sm121probe toolkit install nvrtc:12.9` fetches it"
        );
        assert_eq!(select_nvrtc(&all, Some("13.5")).unwrap().version.patch, 37);
    }

    #[test]
    fn ptx_names_no_folder() {
        let ptx = "\t.file\t1 \"/folder/k.cu\"\n.loc 1 2 3\n";
        assert_eq!(without_folders(ptx, &["k.cu"]), "\t.file\t1 \"k.cu\"\n.loc 1 2 3\n");
    }

    #[test]
    fn the_log_shows_the_line_once() {
        let source =
            Source { text: "int a;\nint b c;\n", name: "k.cu", options: Vec::new(), headers: Vec::new() };
        assert_eq!(
            with_lines("k.cu(2): error: expected\n", &source),
            "k.cu(2): error: expected\n    int b c;"
        );
        let shown = "k.cu(2): error: expected\n  int b c;\n        ^";
        assert_eq!(with_lines(shown, &source), shown);
    }
}
