//! Installs pinned tools: fetch, verify, unpack aside, move into place in one step under a lock.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::environment::children;
use super::installed::{self, Installed, MANIFEST, Manifest};
use super::pins::{Arch, Pin, PinError, Pins};
use super::pip::{self, PipError, PipSource};
use super::unpack::{self, UnpackError};
use crate::event::{Event, Sink};
use crate::store::{Store, StoreError};
use record;

/// Options of an installation.
#[derive(Debug, Clone)]
pub struct InstallOptions {
    /// The architecture to install for.
    pub arch: Arch,
    /// The pip to use.
    pub pip: PipSource,
    /// Time limit of one download.
    pub limit: Duration,
    /// Whether fetching is forbidden, so that a missing tool is an error.
    pub offline: bool,
}

impl InstallOptions {
    /// Returns options for this machine: the environment's Python, and half an hour per download.
    ///
    /// # Errors
    /// [`PinError::Machine`] if there are no wheels for this machine.
    pub fn for_host() -> Result<Self, PinError> {
        let arch = Arch::host().ok_or(PinError::Machine { arch: std::env::consts::ARCH })?;
        let limit = Duration::from_secs(1800);
        Ok(Self { arch, pip: PipSource::from_environment(), limit, offline: false })
    }
}

/// Why a tool was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The name is unknown, or the pins are invalid.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The cache cannot be locked or written.
    #[error("{what} cannot be installed: {source}")]
    Store {
        /// Tool and version.
        what: String,
        /// Why.
        source: StoreError,
    },
    /// The tool is missing, and fetching is forbidden.
    #[error(
        "{what} is not installed and may not be fetched offline; run `sm121probe toolkit install {name}` on a \
        machine with a network and copy the cache folder, or name a ptxas of this machine by its path"
    )]
    Offline {
        /// Tool and version.
        what: String,
        /// Its name for `toolkit install`.
        name: String,
    },
    /// The wheel could not be fetched.
    #[error("{what} cannot be installed: {source}")]
    Pip {
        /// Tool and version.
        what: String,
        /// Why.
        source: PipError,
    },
    /// The wheel is not usable.
    #[error("{what} cannot be installed: {source}")]
    Unpack {
        /// Tool and version.
        what: String,
        /// Why.
        source: UnpackError,
    },
    /// The tool cannot be moved into place.
    #[error("{what} cannot be moved to {}: {source}; free some space, or set SM121PROBE_CACHE to a writable folder", path.display())]
    Publish {
        /// Tool and version.
        what: String,
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Several failed; the others were installed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<InstallError>),
}

impl InstallError {
    /// Whether the error is specific to one wheel, so that others may still succeed.
    const fn concerns_one_wheel(&self) -> bool {
        matches!(self, Self::Unpack { source: UnpackError::Changed { .. } | UnpackError::Member { .. }, .. })
            || matches!(self, Self::Pip { source: PipError::OtherFile { .. }, .. })
    }
}

/// Installs the tools that `names` denote (see [`Pins::resolve`]), in parallel; an intact installation is left alone.
///
/// # Errors
/// [`InstallError`]; a bad wheel does not stop the others, and tools installed before an error stay.
pub fn install(
    store: &Store,
    pins: &Pins,
    names: &[String],
    options: &InstallOptions,
    sink: &dyn Sink,
) -> Result<Vec<Installed>, InstallError> {
    let pins = pins.resolve(names)?;
    // In parallel: most of the time is spent on the network.
    let all: Vec<Result<Installed, InstallError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = pins.iter().map(|pin| scope.spawn(|| one(store, pin, options, sink))).collect();
        let joined = threads.into_iter().map(|t| t.join());
        joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut done = Vec::new();
    let mut failures: Vec<InstallError> = Vec::new();
    for installed in all {
        match installed {
            Ok(installed) => done.push(installed),
            // What stops every download, such as a missing network, is reported once.
            Err(error)
                if error.concerns_one_wheel() || failures.iter().all(InstallError::concerns_one_wheel) =>
            {
                failures.push(error);
            }
            Err(_) => {}
        }
    }
    match failures.pop() {
        None => Ok(done),
        Some(only) if failures.is_empty() => Err(only),
        Some(last) => {
            failures.push(last);
            Err(InstallError::Several(failures))
        }
    }
}

fn one(
    store: &Store,
    pin: &Pin,
    options: &InstallOptions,
    sink: &dyn Sink,
) -> Result<Installed, InstallError> {
    let there = || {
        let found = installed::read(store.root(), pin.tool, pin.version)?;
        (found.arch == options.arch && found.is_whole()).then_some(found)
    };
    // Checked before locking, so that a cache that cannot be written still serves its contents.
    if let Some(found) = there() {
        // An install killed after the move leaves its scratch folder behind.
        if !leftovers(store, pin).is_empty()
            && let Ok(_lock) = store.lock(&installed::lock_name(pin.tool, pin.version))
        {
            clear(store, pin);
        }
        return Ok(found);
    }
    if options.offline {
        return Err(InstallError::Offline {
            what: pin.what(),
            name: format!("{}:{}", pin.tool, pin.version),
        });
    }
    let in_store = |source| InstallError::Store { what: pin.what(), source };
    let _lock = store.lock(&installed::lock_name(pin.tool, pin.version)).map_err(in_store)?;
    if let Some(found) = there() {
        return Ok(found);
    }
    let aside = aside(store, pin).map_err(in_store)?;
    let wheel = pin.wheel(options.arch);
    sink.emit(Event::FetchStarted { what: pin.what(), bytes: wheel.bytes });
    let staged = stage(pin, options, &aside, sink);
    sink.emit(Event::FetchFinished { what: pin.what() });
    publish(store, pin, &aside, staged?)
}

/// The name prefix of scratch folders of this install.
fn prefix(pin: &Pin) -> String {
    format!("install-{}-{}-", pin.tool, pin.version)
}

/// Scratch folders of installs of this tool, running or killed.
fn leftovers(store: &Store, pin: &Pin) -> Vec<PathBuf> {
    let mut folders = children(&store.root().join("scratch"));
    folders.retain(|folder| {
        folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix(pin)))
    });
    folders
}

/// Removes what killed installs of this tool left behind; the caller holds the lock, so none is running.
fn clear(store: &Store, pin: &Pin) {
    for left in leftovers(store, pin) {
        // Rename first: an orphaned pip may still write to the old path. The next install removes what remains.
        let Ok(away) = store.scratch() else { return };
        let _ = fs::rename(left, away.path().join("killed"));
    }
}

/// Creates a scratch folder for this install on the cache's file system; the caller holds the lock.
fn aside(store: &Store, pin: &Pin) -> Result<TempDir, StoreError> {
    clear(store, pin);
    let scratch = store.root().join("scratch");
    let write = |source| StoreError::Write { path: scratch.clone(), source };
    fs::create_dir_all(&scratch).map_err(write)?;
    tempfile::Builder::new().prefix(&prefix(pin)).tempdir_in(&scratch).map_err(write)
}

/// Fetches, verifies and unpacks into `aside`; returns the manifest of the files in its `tree`.
fn stage(
    pin: &Pin,
    options: &InstallOptions,
    aside: &TempDir,
    sink: &dyn Sink,
) -> Result<Manifest, InstallError> {
    let wheel = pin.wheel(options.arch);
    let path = pip::download(&options.pip, pin, wheel, aside.path(), options.limit, sink)
        .map_err(|source| InstallError::Pip { what: pin.what(), source })?;
    let unpacked = unpack::verify(&path, wheel)
        .and_then(|()| unpack::unpack(&path, pin, options.arch, &aside.path().join("tree")))
        .map_err(|source| InstallError::Unpack { what: pin.what(), source })?;
    Ok(Manifest {
        tool: pin.tool,
        version: pin.version,
        arch: options.arch,
        wheel: wheel.file.clone(),
        wheel_sha256: wheel.sha256.clone(),
        files: unpacked,
    })
}

/// Writes the manifest and moves the tree into place, replacing an incomplete folder.
fn publish(store: &Store, pin: &Pin, aside: &TempDir, manifest: Manifest) -> Result<Installed, InstallError> {
    let folder = installed::folder(store.root(), pin.tool, pin.version);
    let failed = |source| InstallError::Publish { what: pin.what(), path: folder.clone(), source };
    let tree = aside.path().join("tree");
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| failed(error.into()))?;
    record::write_atomic(&tree.join(MANIFEST), &text).map_err(failed)?;
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    match fs::rename(&folder, aside.path().join("old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    fs::rename(&tree, &folder).map_err(failed)?;
    let Manifest { tool, version, arch, files, .. } = manifest;
    Ok(Installed { tool, version, arch, folder, files })
}
