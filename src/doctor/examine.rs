//! Looks at the whole machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use emulator::device::Failure;
use ptx::arch::{Suffix, Target, ToolkitVersion};
use serde::Serialize;

use super::caches::{CacheFolder, caches};
use super::known_bad::{KnownBad, known_bad};
use super::probe::{self, Asked};
use super::python::{Packages, packages};
use crate::gpu::{Chain, Description, GpuDevice, Launcher};
use crate::store::Store;
use crate::toolkit::{Environment, Nvrtc, Toolkit};

/// How long one question to a GPU may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A machine.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// Every GPU that CUDA shows.
    pub gpus: Vec<GpuFindings>,
    /// Why there is none, or why the last of them cannot be used.
    pub no_gpu: Option<String>,
    /// Every ptxas.
    pub toolkits: Vec<ToolkitLine>,
    /// Every NVRTC, by version.
    pub nvrtcs: Vec<String>,
    /// What a Python would import; none where it says nothing.
    pub python: Option<Packages>,
    /// Why it says nothing.
    pub no_python: Option<String>,
    /// Where JIT compilers keep kernels.
    pub caches: Vec<CacheFolder>,
    /// Combinations on this machine that are reported to go wrong.
    pub known_bad: Vec<KnownBad>,
}

/// A GPU.
#[derive(Debug, Clone, Serialize)]
pub struct GpuFindings {
    /// What it says of itself.
    pub about: Description,
    /// The highest PTX version of which a module was compiled and run; empty when none was.
    pub highest_ptx: String,
    /// Modules of every PTX version.
    pub versions: Vec<Asked>,
    /// PTX for every target.
    pub ptx: Vec<Asked>,
    /// Cubins of every toolkit, for every target that it knows.
    pub cubins: Vec<Asked>,
}

impl GpuFindings {
    /// Answers that are not what the rules say.
    pub fn against_the_rules(&self) -> impl Iterator<Item = &Asked> {
        self.ptx.iter().chain(&self.cubins).filter(|asked| !asked.as_ruled())
    }
}

/// A ptxas.
#[derive(Debug, Clone, Serialize)]
pub struct ToolkitLine {
    /// Its version.
    pub version: String,
    /// The highest PTX version it accepts.
    pub isa: String,
    /// Whether it knows every target of SM12x.
    pub knows_sm12x: bool,
    /// Where it lies.
    pub path: String,
}

/// Looks at every GPU, and asks each what it runs; asks the Python of `environment` (`SM121PROBE_PYTHON`, or `python3` of the path)
/// what it would import. `program` is this tool, whose hidden verb talks to CUDA.
#[must_use]
pub fn examine(
    toolkits: &[Toolkit],
    nvrtcs: &[Nvrtc],
    store: Option<&Store>,
    program: &Path,
    environment: &Environment,
) -> Findings {
    let (mut gpus, mut no_gpu) = (Vec::new(), None);
    let mut count = 1;
    let mut ordinal = 0;
    while ordinal < count {
        let launcher = Launcher { program: program.to_owned(), ordinal: ordinal.to_string(), limit: LIMIT };
        match GpuDevice::open(launcher, Chain::default()) {
            Ok(mut gpu) => {
                count = gpu.about().gpus;
                gpus.push(look(&mut gpu, toolkits, store));
            }
            Err(failure) => no_gpu = Some(reason(ordinal, &failure)),
        }
        ordinal += 1;
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
        no_gpu,
        toolkits: toolkits.iter().map(line).collect(),
        nvrtcs: nvrtcs.iter().map(|n| n.version.to_string()).collect(),
        known_bad: known_bad(&versions, driver, &architectures).into_iter().cloned().collect(),
        gpus,
    }
}

fn reason(ordinal: usize, failure: &Failure) -> String {
    format!("gpu:{ordinal}: {failure}")
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
    // A simulated GPU runs PTX alone.
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
