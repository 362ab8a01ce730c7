//! Reads kernels from Triton's cache: `NAME.ptx` and `NAME.json`, the metadata that Triton's launcher uses.
//!
//! The metadata determine the block, the dynamic shared memory, the cluster and the parameters that follow those of the source.

use std::fs;
use std::path::{Path, PathBuf};

use emulator::argument::{Element, Shape};
use serde::Deserialize;

use super::error::LaunchError;
use super::session::{Buffer, Initial, Step, Value, check_memory};

/// The fields of `NAME.json` that the launcher uses. Other fields concern the compiler.
#[derive(Debug, Deserialize)]
pub struct TritonMetadata {
    name: String,
    num_warps: u32,
    shared: u32,
    #[serde(default = "warp")]
    warp_size: u32,
    #[serde(default = "one")]
    num_ctas: u32,
    /// The cluster until Triton 3.5; since then 1, 1, 1 even if `num_ctas` is above 1.
    cluster_dims: Option<[u32; 3]>,
    #[serde(default)]
    launch_cooperative_grid: bool,
    /// Scratch bytes per CTA. Since Triton 3.3 a pointer to the scratch is the first hidden parameter.
    global_scratch_size: Option<u64>,
    /// Profiling scratch bytes per CTA, since Triton 3.5: the second hidden parameter.
    profile_scratch_size: Option<u64>,
}

fn warp() -> u32 {
    32
}

fn one() -> u32 {
    1
}

/// A kernel in the cache.
#[derive(Debug)]
pub(super) struct Cached {
    /// Its name.
    pub(super) name: String,
    /// Path of its PTX.
    pub(super) ptx: PathBuf,
    pub(super) metadata: TritonMetadata,
}

/// Launch parameters that the call gives explicitly.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given {
    /// Threads of a CTA.
    pub block: Option<[u32; 3]>,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: Option<u32>,
}

impl Cached {
    /// Finds the kernel in one folder of the cache, or in all folders of the cache; `name` chooses among several.
    ///
    /// # Errors
    /// [`LaunchError::Triton`], which lists the kernels found, if none or several match.
    pub(super) fn find(folder: &Path, name: Option<&str>) -> Result<Self, LaunchError> {
        let failed = |why: String| LaunchError::Triton { path: folder.to_owned(), why };
        let mut found = Vec::new();
        for file in listed(folder)? {
            if file.is_dir() {
                listed(&file)?.into_iter().filter(|f| is_metadata(f)).for_each(|f| found.push(f));
            } else if is_metadata(&file) {
                found.push(file);
            }
        }
        let stem =
            |path: &Path| path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let all: Vec<String> = found.iter().map(|f| format!("{} in {}", stem(f), shown(f))).collect();
        if let Some(name) = name {
            found.retain(|file| stem(file) == name);
        }
        match found.as_slice() {
            [only] => Self::read(only),
            [] if all.is_empty() => Err(failed(
                "no kernel here: Triton writes NAME.ptx and NAME.json to the same folder below TRITON_CACHE_DIR \
                 (by default ~/.triton/cache)"
                    .to_owned(),
            )),
            [] => Err(failed(format!("no such kernel here; available: {}", all.join(", ")))),
            _ => Err(failed(format!(
                "several kernels here; name the folder of one, or one by its entry: {}",
                all.join(", ")
            ))),
        }
    }

    fn read(path: &Path) -> Result<Self, LaunchError> {
        let text =
            fs::read_to_string(path).map_err(|source| LaunchError::Read { path: path.to_owned(), source })?;
        let metadata: TritonMetadata = serde_json::from_str(&text).map_err(|error| LaunchError::Triton {
            path: path.to_owned(),
            why: format!("not the metadata of a CUDA kernel of Triton: {error}"),
        })?;
        Ok(Self { name: metadata.name.clone(), ptx: path.with_extension("ptx"), metadata })
    }

    /// Reads the PTX.
    pub(super) fn text(&self) -> Result<String, LaunchError> {
        let path = &self.ptx;
        fs::read_to_string(path).map_err(|source| LaunchError::Read { path: path.clone(), source })
    }
}

impl TritonMetadata {
    /// Returns the number of parameters that the launcher appends to those of the source.
    #[must_use]
    pub fn hidden(&self) -> usize {
        self.scratch().count()
    }

    fn scratch(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [("global_scratch", self.global_scratch_size), ("profile_scratch", self.profile_scratch_size)]
            .into_iter()
            .filter_map(|(name, size)| size.map(|size| (name, size)))
    }

    /// Completes a launch as Triton's launcher does, except for explicit parameters. The grid counts programs, each of which is a
    /// cluster of `num_ctas` CTAs. Returns the hidden arguments and adds their buffers.
    ///
    /// # Errors
    /// [`LaunchError::Memory`] if the machine has too little memory for the scratch.
    pub fn complete(
        &self,
        step: &mut Step,
        given: Given,
        buffers: &mut Vec<Buffer>,
    ) -> Result<Vec<Value>, LaunchError> {
        let m = self;
        step.block = given.block.unwrap_or([m.num_warps.saturating_mul(m.warp_size), 1, 1]);
        step.shared_bytes = given.shared_bytes.unwrap_or(m.shared);
        // Triton declares an alignment of 16 bytes, but relies on a GPU's actual alignment for tensor maps and swizzled tiles.
        step.shift_shared = false;
        step.cooperative |= m.launch_cooperative_grid;
        let cluster = match m.cluster_dims {
            Some(dims) if dims != [1; 3] => dims,
            _ => [m.num_ctas, 1, 1],
        };
        if cluster != [1; 3] {
            for (grid, cluster) in step.grid.iter_mut().zip(cluster) {
                *grid = grid.saturating_mul(cluster);
            }
            step.cluster = step.cluster.or(Some(cluster));
        }
        let ctas: u64 = step.grid.iter().map(|n| u64::from(*n)).product();
        let mut args = Vec::new();
        for (name, size) in self.scratch() {
            if size == 0 {
                args.push(Value::Bytes(vec![0; 8]));
                continue;
            }
            let bytes = usize::try_from(ctas.saturating_mul(size)).unwrap_or(usize::MAX);
            check_memory(buffers, bytes)?;
            let name = (0..).map(|n| if n == 0 { name.to_owned() } else { format!("{name}.{n}") });
            let name = name.into_iter().find(|name| buffers.iter().all(|b| b.name != *name));
            let shape = Shape::new(Element::U8, vec![bytes]).map_err(LaunchError::Fit)?;
            let initial = Initial::Unwritten;
            buffers.push(Buffer {
                name: name.unwrap_or_default(),
                shape,
                initial,
                address: None,
                unwritten: Vec::new(),
                scratch: true,
            });
            args.push(Value::Address { buffer: buffers.len() - 1, offset: 0 });
        }
        Ok(args)
    }
}

/// Whether a file is `NAME.json` next to `NAME.ptx`; Triton also writes `__grp__NAME.json`.
fn is_metadata(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "json") && path.with_extension("ptx").is_file()
}

/// Returns the name of the folder that contains a file.
fn shown(path: &Path) -> String {
    path.parent().and_then(Path::file_name).map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>, LaunchError> {
    let failed = |source| LaunchError::Read { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}
