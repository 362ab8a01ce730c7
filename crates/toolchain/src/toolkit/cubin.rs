//! Assembles PTX with ptxas, the last step of NVRTC → PTX → ptxas → cubin; caches code and output of ptxas.
//!
//! The key consists of the hash of ptxas, the architecture and the PTX, so a cache copied to another machine with the same
//! toolkit saves all runs there.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ptx::arch::{Target, ToolkitVersion};

use super::discover::Toolkit;
use super::process;
use crate::store::{self, Store};
use crate::worker::Ended;

/// Kind of the cache entries: the output of ptxas as one line of JSON, then the code. The number changes with the format.
const KIND: &str = "cubin-1";

/// Number of ptxas runs by this process.
static ASSEMBLIES: AtomicU64 = AtomicU64::new(0);

/// The machine code of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cubin {
    /// The ELF image, as accepted by `cuModuleLoadData`.
    pub image: Vec<u8>,
    /// The output of `ptxas -v`: registers, spills and shared memory of every entry, and warnings.
    pub said: String,
}

/// Why there is no machine code.
#[derive(Debug, thiserror::Error)]
pub enum CubinError {
    /// ptxas refuses the module.
    #[error("ptxas {version} does not assemble it for {arch}: {said}")]
    Refused {
        /// The version of ptxas.
        version: ToolkitVersion,
        /// The target.
        arch: Target,
        /// Its first error line, or how it ended.
        said: String,
    },
    /// ptxas cannot be run, or its files cannot be written.
    #[error("ptxas cannot be run: {0}")]
    Run(#[from] io::Error),
    /// The cache cannot be locked.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

/// Returns the number of ptxas runs by [`cubin`] in this process; tests use it to check that concurrent requests for
/// one cubin assemble it once.
#[must_use]
pub fn assemblies() -> u64 {
    ASSEMBLIES.load(Ordering::Relaxed)
}

/// Returns the machine code of the module `ptx` for `arch` (`ptxas -arch`), from the cache or by one run of ptxas.
/// Concurrent requests for the same code wait for that run. `limit` is the time limit of ptxas.
///
/// # Errors
/// [`CubinError`]; a refusal is never cached.
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
    // The scratch folder has a different name each time and means nothing to the user.
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
        // A cache that cannot be written costs time, not the result.
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
    // JSON has no line break inside a string.
    let end = bytes.iter().position(|b| *b == b'\n')?;
    let (said, image) = bytes.split_at(end);
    Some(Cubin { said: serde_json::from_slice(said).ok()?, image: image[1..].to_vec() })
}
