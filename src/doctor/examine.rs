//! Examines the whole machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use compiler::known::miscompiles;
use ptx::arch::{Suffix, Target, ToolkitVersion};
use serde::Serialize;

use super::caches::{CacheFolder, caches};
use super::known_bad::{KnownBad, known_bad};
use super::probe::{self, Asked};
use super::python::{Packages, packages};
use crate::gpu::{Description, GpuDevice, Launcher};
use crate::store::Store;
use crate::toolkit::{Environment, Nvrtc, Toolkit};

/// The time limit of one request to a GPU.
const LIMIT: Duration = Duration::from_secs(60);

/// The findings about a machine.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// Every GPU visible to CUDA.
    pub gpus: Vec<GpuFindings>,
    /// Why there is no GPU, or why some cannot be used.
    pub no_gpu: Option<String>,
    /// Every ptxas.
    pub toolkits: Vec<ToolkitLine>,
    /// The version of every NVRTC.
    pub nvrtcs: Vec<String>,
    /// The packages that Python would import; `None` if it does not answer.
    pub python: Option<Packages>,
    /// Why Python does not answer.
    pub no_python: Option<String>,
    /// The cache folders of JIT compilers.
    pub caches: Vec<CacheFolder>,
    /// Combinations on this machine that are reported not to work.
    pub known_bad: Vec<KnownBad>,
    /// The known miscompiles of every ptxas, and of the compiler of the CUDA version that a GPU's driver brings.
    pub miscompiles: Vec<MiscompileLine>,
}

/// A compiler with the names of its known miscompiles.
#[derive(Debug, Clone, Serialize)]
pub struct MiscompileLine {
    /// `ptxas 13.5.37`, or `the driver's compiler, by ptxas of CUDA 13.0`.
    pub compiler: String,
    /// The names.
    pub names: Vec<String>,
}

/// A GPU.
#[derive(Debug, Clone, Serialize)]
pub struct GpuFindings {
    /// Its description by the driver.
    pub about: Description,
    /// The highest PTX version of which a module ran; empty if none did.
    pub highest_ptx: String,
    /// The result of a module of each PTX version.
    pub versions: Vec<Asked>,
    /// The result of PTX for each target.
    pub ptx: Vec<Asked>,
    /// The results of every toolkit's cubins, one per target that the toolkit supports.
    pub cubins: Vec<Asked>,
}

impl GpuFindings {
    /// Iterates over the answers that contradict the documented rules.
    pub fn against_the_rules(&self) -> impl Iterator<Item = &Asked> {
        self.ptx.iter().chain(&self.cubins).filter(|asked| !asked.as_ruled())
    }
}

/// A ptxas.
#[derive(Debug, Clone, Serialize)]
pub struct ToolkitLine {
    /// Its version.
    pub version: String,
    /// The highest PTX version that it accepts.
    pub isa: String,
    /// Whether it supports every SM12x target.
    pub knows_sm12x: bool,
    /// Its path.
    pub path: String,
}

/// Examines every GPU and tests which code runs on it. Lists the packages that the Python of `environment` would import
/// (`SM121PROBE_PYTHON`, or `python3` from `PATH`). `program` is this tool's executable, whose hidden verb calls CUDA.
#[must_use]
pub fn examine(
    toolkits: &[Toolkit],
    nvrtcs: &[Nvrtc],
    store: Option<&Store>,
    program: &Path,
    environment: &Environment,
) -> Findings {
    let (mut gpus, mut no_gpu) = (Vec::new(), Vec::new());
    let launcher =
        |ordinal: usize| Launcher { program: program.to_owned(), ordinal: ordinal.to_string(), limit: LIMIT };
    for (ordinal, opened) in GpuDevice::each(launcher) {
        match opened {
            Ok(mut gpu) => gpus.push(look(&mut gpu, toolkits, store)),
            Err(failure) => no_gpu.push(format!("gpu:{ordinal}: {failure}")),
        }
    }
    let versions: Vec<ToolkitVersion> = toolkits.iter().map(|t| t.version).collect();
    let driver = gpus.first().and_then(|g| g.about.driver.parse().ok());
    let architectures: Vec<String> = gpus.iter().map(|g| g.about.architecture()).collect();
    let python = environment.path("SM121PROBE_PYTHON").unwrap_or_else(|| PathBuf::from("python3"));
    let (python, no_python) = match packages(&python) {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Findings {
        python,
        no_python,
        caches: caches(environment),
        no_gpu: (!no_gpu.is_empty()).then(|| no_gpu.join("; ")),
        toolkits: toolkits.iter().map(line).collect(),
        nvrtcs: nvrtcs.iter().map(|n| n.version.to_string()).collect(),
        known_bad: known_bad(&versions, driver, &architectures).into_iter().cloned().collect(),
        miscompiles: miscompiles_of(&versions, &gpus),
        gpus,
    }
}

/// The known miscompiles of each version. A driver contains a compiler of its own, which was never run here alone: what is known is what
/// the ptxas of the same CUDA version does.
fn miscompiles_of(versions: &[ToolkitVersion], gpus: &[GpuFindings]) -> Vec<MiscompileLine> {
    let names = |version: ToolkitVersion| {
        let affected = miscompiles().iter().filter(|m| m.affects_some_level(version));
        affected.map(|m| m.name.clone()).collect()
    };
    let mut lines: Vec<MiscompileLine> = versions
        .iter()
        .map(|version| MiscompileLine { compiler: format!("ptxas {version}"), names: names(*version) })
        .collect();
    let mut drivers: Vec<&str> = gpus.iter().map(|gpu| gpu.about.cuda.as_str()).collect();
    drivers.dedup();
    for cuda in drivers {
        if let Ok(version) = cuda.parse() {
            let compiler = format!("the driver's compiler, by ptxas of CUDA {cuda}");
            lines.push(MiscompileLine { compiler, names: names(version) });
        }
    }
    lines
}

fn line(toolkit: &Toolkit) -> ToolkitLine {
    let sm12x = Target::default_set();
    let knows = |t: &Target| t.suffix == Suffix::Base || toolkit.targets.contains(&t.to_string());
    ToolkitLine {
        version: toolkit.version.to_string(),
        isa: toolkit.isa.to_string(),
        knows_sm12x: sm12x.iter().all(knows),
        path: toolkit.path.display().to_string(),
    }
}

fn look(gpu: &mut GpuDevice, toolkits: &[Toolkit], store: Option<&Store>) -> GpuFindings {
    let versions = probe::versions(gpu);
    let highest = probe::highest(&versions);
    let ptx = highest.map(|isa| probe::targets(gpu, isa)).unwrap_or_default();
    // A simulated GPU runs only PTX.
    let toolkits = if gpu.about().is_simulated() { &[] } else { toolkits };
    let cubins = toolkits.iter().flat_map(|t| probe::cubins(gpu, t, store)).collect();
    GpuFindings {
        about: gpu.about().clone(),
        highest_ptx: highest.map(|isa| isa.to_string()).unwrap_or_default(),
        versions,
        ptx,
        cubins,
    }
}
