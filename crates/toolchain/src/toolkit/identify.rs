//! Queries a tool for its identity once; the answer is cached by path, size, modification time and inode.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use ptx::arch::{PtxIsa, ToolkitVersion};
use serde::{Deserialize, Serialize};

use super::process;
use crate::store::{self, Store};
use crate::worker::{Ended, Output};

/// Kind of the cache entries; the number changes with [`Identity`].
const KIND: &str = "toolkit-1";

/// A PTX file that every ptxas refuses; the message names the highest version it accepts.
const PROBE: &str = ".version 99.9\n.target sm_90\n.address_size 64\n";

/// The identity of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub version: ToolkitVersion,
    pub sha256: String,
    /// For ptxas only.
    pub assembler: Option<Assembler>,
}

/// The properties that only ptxas has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Assembler {
    pub isa: PtxIsa,
    pub targets: Vec<String>,
}

/// The tool that a file should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Ptxas,
    Nvdisasm,
}

impl Expected {
    const fn name(self) -> &'static str {
        match self {
            Self::Ptxas => "ptxas",
            Self::Nvdisasm => "nvdisasm",
        }
    }
}

/// Returns the identity of the file at `path` (canonical), or why it cannot be used.
pub(super) fn identify(
    store: Option<&Store>,
    path: &Path,
    expected: Expected,
    limit: Duration,
) -> Result<Identity, String> {
    let meta = fs::metadata(path).map_err(|error| format!("it cannot be read: {error}"))?;
    if !meta.is_file() {
        return Err("it is not a file".to_owned());
    }
    // The key is a hash, so the cache does not reveal the path; a file of the same name on another machine is a miss.
    let key = store::sha256(
        format!(
            "{expected:?} {} {} {} {} {}",
            path.display(),
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ino()
        )
        .as_bytes(),
    );
    let known =
        store.and_then(|store| store.get(KIND, &key)).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if let Some(identity) = known {
        return Ok(identity);
    }
    let identity = ask(&Asked { path, name: expected.name(), limit })?;
    if let (Some(store), Ok(bytes)) = (store, serde_json::to_vec(&identity)) {
        // A cache that cannot be written costs time, not the result.
        let _ = store.put(KIND, &key, &bytes);
    }
    Ok(identity)
}

/// A file to query, and the name it is run under.
struct Asked<'a> {
    path: &'a Path,
    name: &'static str,
    limit: Duration,
}

fn ask(asked: &Asked<'_>) -> Result<Identity, String> {
    let text = asked.answer("--version")?;
    let version = version(&text).ok_or_else(|| {
        format!("`--version` names no CUDA release; it printed `{}`", process::first_line(&text))
    })?;
    let assembler = if asked.name == Expected::Ptxas.name() {
        let targets = targets(&asked.answer("--help")?);
        if targets.is_empty() {
            return Err("`--help` lists no target under `--gpu-name`".to_owned());
        }
        Some(Assembler { isa: asked.highest_isa()?, targets })
    } else {
        None
    };
    let sha256 = store::sha256_file(asked.path).map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(Identity { version, sha256, assembler })
}

impl Asked<'_> {
    fn run(&self, args: &[&str]) -> Result<Output, String> {
        let output = process::run(self.path, self.name, args, self.limit);
        let output = output.map_err(|error| format!("it cannot be started: {error}"))?;
        match output.ended {
            Ended::Exited(_) => Ok(output),
            other => Err(format!("with `{}`, it {}", args.join(" "), process::words(other, self.limit))),
        }
    }

    fn answer(&self, option: &str) -> Result<String, String> {
        let output = self.run(&[option])?;
        let text = output.text();
        if output.ended == Ended::Exited(0) {
            return Ok(text);
        }
        let ended = process::words(output.ended, self.limit);
        Err(format!("with `{option}`, it {ended} and printed `{}`", process::first_line(&text)))
    }

    fn highest_isa(&self) -> Result<PtxIsa, String> {
        let failed = |error: io::Error| format!("its PTX version cannot be queried: {error}");
        let folder = tempfile::tempdir().map_err(failed)?;
        let ptx = folder.path().join("probe.ptx");
        fs::write(&ptx, PROBE).map_err(failed)?;
        let cubin = folder.path().join("probe.cubin");
        let text = self.run(&[&ptx.to_string_lossy(), "-o", &cubin.to_string_lossy()])?.text();
        let isa = text
            .split_once("current version is '")
            .and_then(|(_, rest)| rest.split('\'').next()?.parse().ok());
        isa.ok_or_else(|| {
            format!(
                "it does not report the PTX version that it accepts; it printed `{}`",
                process::first_line(&text)
            )
        })
    }
}

/// The version in "Cuda compilation tools, release 13.5, V13.5.37".
fn version(text: &str) -> Option<ToolkitVersion> {
    let line = text.lines().find(|line| line.contains("Cuda compilation tools"))?;
    line.rsplit_once(", V")?.1.trim().parse().ok()
}

/// The real targets among the "Allowed values for this option" of `--gpu-name`, without duplicates.
fn targets(help: &str) -> Vec<String> {
    let section = help.split_once("--gpu-name").map_or("", |(_, rest)| rest);
    let section = section.split_once("Allowed values").map_or("", |(_, rest)| rest);
    let section = section.split("Default value").next().unwrap_or("");
    let mut targets: Vec<String> =
        section.split('\'').filter(|word| word.starts_with("sm_")).map(str::to_owned).collect();
    let number =
        |target: &str| target.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().unwrap_or(0);
    targets.sort_by(|a, b| number(a).cmp(&number(b)).then_with(|| a.cmp(b)));
    targets.dedup();
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_last_word_of_its_line() {
        let text = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 13.5, V13.5.37\nBuild x\n";
        assert_eq!(version(text).map(|v| v.to_string()).as_deref(), Some("13.5.37"));
        for bad in [
            "",
            "13.5.37",
            "Cuda compilation tools, release 13.5",
            "Cuda compilation tools, V13.5",
            "V13.5.37",
        ] {
            assert_eq!(version(bad), None, "{bad}");
        }
    }

    #[test]
    fn targets_are_those_of_gpu_name_in_numeric_order() {
        let help = "--other\n 'sm_1'\n--gpu-name <gpu name> (-arch)\n PTX for .target sm_XY\n Allowed values for this option:  \
                    'compute_100','lto_90','sm_100',\n 'sm_120f','sm_120a','sm_120','sm_90a'.\n Default value:  'sm_75'.\n--x 'sm_2'";
        assert_eq!(targets(help), ["sm_90a", "sm_100", "sm_120", "sm_120a", "sm_120f"]);
        assert_eq!(targets("--gpu-name nothing"), Vec::<String>::new());
    }
}
