//! PTX to machine code by one ptxas: the last step of NVRTC → PTX → ptxas → cubin, kept in the cache with what ptxas said.
//!
//! The key is the ptxas's hash, the architecture and the PTX, so that a cache carried to another machine with the same
//! toolkit assembles nothing there.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ptx::arch::{Target, ToolkitVersion};

use super::discover::Toolkit;
use super::process;
use crate::store::{self, Store};
use crate::worker::Ended;

/// The kind of cache entry: what ptxas said as one line of JSON, then the code. A change of that changes it.
const KIND: &str = "cubin-1";

/// Runs of ptxas by this process so far.
static ASSEMBLIES: AtomicU64 = AtomicU64::new(0);

/// Machine code of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cubin {
    /// The ELF image, as `cuModuleLoadData` takes it.
    pub image: Vec<u8>,
    /// What `ptxas -v` said: registers, spills and shared memory of every entry, and warnings.
    pub said: String,
}

/// Why there is no machine code.
#[derive(Debug, thiserror::Error)]
pub enum CubinError {
    /// ptxas refuses the module.
    #[error("ptxas {version} does not assemble it for {arch}: {said}")]
    Refused {
        /// Its version.
        version: ToolkitVersion,
        /// What for.
        arch: Target,
        /// Its first words, or how it ended.
        said: String,
    },
    /// ptxas cannot be run, or its files cannot be written.
    #[error("ptxas cannot be run: {0}")]
    Run(#[from] io::Error),
    /// The cache cannot be locked.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

/// Runs of ptxas that [`cubin`] made in this process: the figure by which "eight that want one cubin assemble it once" is
/// checked.
#[must_use]
pub fn assemblies() -> u64 {
    ASSEMBLIES.load(Ordering::Relaxed)
}

/// The machine code of the module `ptx` for `arch` (`ptxas -arch`): from the cache, or by one run of ptxas. Others who want
/// the same wait for it. `limit` is the time that ptxas gets.
///
/// # Errors
/// [`CubinError`]; a refusal is never kept.
pub fn cubin(
    toolkit: &Toolkit,
    arch: Target,
    ptx: &str,
    store: Option<&Store>,
    limit: Duration,
) -> Result<Cubin, CubinError> {
    let name = arch.to_string();
    let key = store::sha256([toolkit.sha256.as_str(), &name, ptx].join("\0").as_bytes());
    let known = || unpack(&store?.get(KIND, &key)?);
    if let Some(known) = known() {
        return Ok(known);
    }
    let _lock = store.map(|store| store.lock(&format!("cubin-{}", &key[..2]))).transpose()?;
    if let Some(known) = known() {
        return Ok(known);
    }
    ASSEMBLIES.fetch_add(1, Ordering::Relaxed);
    let folder = tempfile::tempdir()?;
    let (source, code) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
    fs::write(&source, ptx)?;
    let option = format!("-arch={arch}");
    let args = ["-v".as_ref(), option.as_ref(), source.as_os_str(), "-o".as_ref(), code.as_os_str()];
    let output = process::run(&toolkit.path, "ptxas", args, limit)?;
    // The folder has another name each time, and is nobody's concern.
    let said = output.text().replace(&format!("{}/", folder.path().display()), "");
    let image =
        if output.ended == Ended::Exited(0) { fs::read(&code).unwrap_or_default() } else { Vec::new() };
    if image.is_empty() {
        let line = said.lines().find(|l| l.contains("error") || l.contains("fatal")).map(str::trim);
        let ended = match output.ended {
            Ended::Exited(0) => "it succeeded but wrote no code".to_owned(),
            ended => process::words(ended, limit),
        };
        let said = line.map_or(ended, str::to_owned);
        return Err(CubinError::Refused { version: toolkit.version, arch, said });
    }
    let found = Cubin { image, said };
    if let (Some(store), Some(bytes)) = (store, pack(&found)) {
        // A cache that cannot be written costs time, not the answer.
        let _ = store.put(KIND, &key, &bytes);
    }
    Ok(found)
}

fn pack(cubin: &Cubin) -> Option<Vec<u8>> {
    let mut bytes = serde_json::to_vec(&cubin.said).ok()?;
    bytes.push(b'\n');
    bytes.extend(&cubin.image);
    Some(bytes)
}

fn unpack(bytes: &[u8]) -> Option<Cubin> {
    // JSON has no line break inside a text.
    let end = bytes.iter().position(|b| *b == b'\n')?;
    let (said, image) = bytes.split_at(end);
    Some(Cubin { said: serde_json::from_slice(said).ok()?, image: image[1..].to_vec() })
}
