//! Kernels in CuTe DSL: a Python program under `exec` compiles and launches them with upstream's own functions, and the launches that
//! `exec` records are run again.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use sm121probe::event::Silent;
use sm121probe::job::Context;
use sm121probe::job::launch;
use sm121probe::store::Store;

use super::exec;
use super::judge::Why;
use super::packages::{self, Package};
use super::recording::Recording;
use super::triton;

/// A program and its imports.
pub(crate) struct Source {
    /// File name in `programs/`.
    pub(crate) program: &'static str,
    /// The package with upstream's source.
    pub(crate) package: &'static Package,
    /// Its folder in the cache.
    pub(crate) folder: &'static str,
    /// What it imports besides CuTe DSL, and the folder of that.
    pub(crate) imports: Option<(&'static [&'static Package], &'static str)>,
}

/// The PTX of a case and its launch.
///
/// # Errors
/// [`Why`].
pub(crate) fn recorded(store: &Store, source: &Source, case: &str) -> Result<(String, Recording), Why> {
    let failed = |error: &dyn std::fmt::Display| Why::Failed(error.to_string());
    let stand_ins = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/host");
    let package = packages::unpacked(store, source.folder, &[source.package]).map_err(Why::Missing)?;
    let mut folders = vec![stand_ins, package];
    if let Some((packages, folder)) = source.imports {
        folders.push(packages::unpacked(store, folder, packages).map_err(Why::Missing)?);
    }
    let scratch = store.scratch().map_err(|error| failed(&error))?;
    let folder = scratch.path().join("launches");
    let printed = exec::cute_dsl_launches(store, source.program, case, folders, &folder)?;
    let entries = fs::read_dir(&folder).map_err(|error| failed(&error))?.flatten();
    let launches: Vec<PathBuf> =
        entries.map(|entry| entry.path().join("launch.yaml")).filter(|file| file.is_file()).collect();
    let [file] = launches.as_slice() else {
        return Err(failed(&format!("{} launches were recorded, not one", launches.len())));
    };
    let context = Context { program: PathBuf::new(), libraries: None, sink: &Silent };
    let session = launch::from_file(file, &context).map_err(|error| failed(&error))?;
    let mut recording = triton::recording(&session).map_err(|error| failed(&error))?;
    let mut names = named(&printed).ok_or_else(|| failed(&format!("the program printed: {printed}")))?;
    for buffer in &mut recording.buffers {
        buffer.name = names.remove(&buffer.address);
    }
    match (names.into_values().next(), session.modules.as_slice()) {
        (Some(name), _) => Err(failed(&format!("the launch does not reach the buffer `{name}`"))),
        (None, [module]) => Ok((module.text.clone(), recording)),
        (None, modules) => Err(failed(&format!("the launch has {} modules", modules.len()))),
    }
}

/// The names of buffers by address, one per line.
fn named(printed: &str) -> Option<HashMap<u64, String>> {
    let line = |line: &str| {
        let (name, address) = line.split_once(' ')?;
        Some((address.parse().ok()?, name.to_owned()))
    };
    printed.lines().map(line).collect()
}
