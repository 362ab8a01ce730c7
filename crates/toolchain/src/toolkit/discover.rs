//! Turns candidates into toolkits: each file is queried once, and each binary is listed once.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use ptx::arch::{PtxIsa, Target, ToolkitVersion};
use rayon::prelude::*;

use super::disassemble::Disassembler;
use super::identify::{Expected, Identity, identify};
use super::places::{Origin, Place, Places};
use crate::store::Store;

/// A place at which a toolkit's ptxas was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The kind of place, which tells who would use it.
    pub origin: Origin,
    /// The path as found.
    pub path: PathBuf,
}

/// A working ptxas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolkit {
    /// Its version.
    pub version: ToolkitVersion,
    /// The highest PTX version it accepts.
    pub isa: PtxIsa,
    /// The targets it supports, such as `sm_121a`, by number.
    pub targets: Vec<String>,
    /// The file to run, with links resolved.
    pub path: PathBuf,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Every place where this binary was found; the first is the preferred one.
    pub origins: Vec<Found>,
}

impl Toolkit {
    /// Whether it supports `-arch=<target>`.
    #[must_use]
    pub fn knows(&self, target: Target) -> bool {
        let name = target.to_string();
        self.targets.contains(&name)
    }
}

/// A candidate that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The file.
    pub path: PathBuf,
    /// Where it was found.
    pub origin: Origin,
    /// Why, as a clause that follows the path.
    pub reason: String,
}

/// The tools found on a machine.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// Usable toolkits by version, ascending; within a version, the preferred first.
    pub toolkits: Vec<Toolkit>,
    /// Candidates that are not usable.
    pub unusable: Vec<Unusable>,
    /// The newest nvdisasm.
    pub disassembler: Option<Disassembler>,
}

/// Queries every candidate for its identity. A candidate that fails becomes an element of [`Discovery::unusable`].
#[must_use]
pub fn discover(store: Option<&Store>, places: &Places) -> Discovery {
    let mut discovery = Discovery { unusable: places.unusable.clone(), ..Discovery::default() };
    let mut by_hash: HashMap<String, usize> = HashMap::new();
    for (place, real, answer) in ask_all(store, &places.ptxas, Expected::Ptxas, places.limit) {
        let found = Found { origin: place.origin, path: place.path.clone() };
        let usable = answer.and_then(|identity| {
            let assembler = identity.assembler.ok_or("it is not an assembler")?;
            Ok((identity.version, identity.sha256, assembler))
        });
        match usable {
            Err(reason) => {
                discovery.unusable.push(Unusable { path: found.path, origin: found.origin, reason });
            }
            Ok((version, sha256, assembler)) => match by_hash.get(&sha256) {
                Some(index) => discovery.toolkits[*index].origins.push(found),
                None => {
                    by_hash.insert(sha256.clone(), discovery.toolkits.len());
                    discovery.toolkits.push(Toolkit {
                        version,
                        isa: assembler.isa,
                        targets: assembler.targets,
                        path: real,
                        sha256,
                        origins: vec![found],
                    });
                }
            },
        }
    }
    // The sort is stable, so the preferred toolkit of a version stays first.
    discovery.toolkits.sort_by_key(|toolkit| toolkit.version);
    for (place, real, answer) in ask_all(store, &places.nvdisasm, Expected::Nvdisasm, places.limit) {
        match answer {
            Err(reason) => {
                let path = place.path.clone();
                discovery.unusable.push(Unusable { path, origin: place.origin, reason });
            }
            Ok(Identity { version, sha256, .. }) => {
                if discovery.disassembler.as_ref().is_none_or(|best| best.version < version) {
                    discovery.disassembler = Some(Disassembler { version, path: real, sha256 });
                }
            }
        }
    }
    discovery
}

type Answer<'a> = (&'a Place, PathBuf, Result<Identity, String>);

/// Every place with its real path and answer, in the order of `places`; each file is queried once, several in parallel.
fn ask_all<'a>(
    store: Option<&Store>,
    places: &'a [Place],
    expected: Expected,
    limit: Duration,
) -> Vec<Answer<'a>> {
    let mut seen = HashSet::new();
    let real: Vec<(&Place, io::Result<PathBuf>)> = places
        .iter()
        .map(|place| (place, fs::canonicalize(&place.path)))
        // `/usr/local/cuda` is a link to one of its neighbours, and variables repeat each other.
        .filter(|(place, real)| seen.insert((place.origin, real.as_ref().unwrap_or(&place.path).clone())))
        .collect();
    let mut files: Vec<&Path> = real.iter().filter_map(|(_, real)| real.as_deref().ok()).collect();
    files.sort_unstable();
    files.dedup();
    let answers: HashMap<&Path, Result<Identity, String>> =
        files.into_par_iter().map(|file| (file, identify(store, file, expected, limit))).collect();
    let one = |(place, real): &(&'a Place, io::Result<PathBuf>)| match real {
        Err(error) => (*place, place.path.clone(), Err(format!("it cannot be used: {error}"))),
        Ok(real) => {
            let answer =
                answers.get(real.as_path()).cloned().unwrap_or_else(|| Err("it was not queried".to_owned()));
            (*place, real.clone(), answer.and_then(|identity| checked(place, identity)))
        }
    };
    real.iter().map(one).collect()
}

/// Rejects a tool that we installed and that has changed since.
fn checked(place: &Place, identity: Identity) -> Result<Identity, String> {
    match &place.sha256 {
        Some(sha256) if *sha256 != identity.sha256 => {
            let version = identity.version;
            Err(format!(
                "it was changed since it was installed; `sm121probe toolkit install {version}` repairs it"
            ))
        }
        _ => Ok(identity),
    }
}
