//! Examines the whole machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use compiler::known::miscompiles;
use ptx::arch::{Suffix, Target, ToolkitVersion};
use serde::Serialize;

use super::caches::{CacheFolder, caches};
use super::known_bad::{KnownBad, known_bad, known_bad_packages};
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
    /// The architecture of a GPU that was asked about although it is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AbsentGpu>,
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

/// A GPU that is not here, by its data sheet.
#[derive(Debug, Clone, Serialize)]
pub struct AbsentGpu {
    /// Its name.
    pub name: String,
    /// Its architecture, such as `sm_121`.
    pub architecture: String,
    /// Its memory in bytes.
    pub memory: u64,
    /// Shared memory of a CTA with opt-in, in bytes.
    pub shared_optin: u32,
    /// The targets whose machine code it loads.
    pub loads: Vec<String>,
    /// What memory that CPU and GPU share means; empty for others.
    pub unified_memory: Vec<String>,
}

impl AbsentGpu {
    /// Describes a GPU.
    #[must_use]
    pub fn new(name: &str, number: u16, memory: u64, shared_optin: u32, unified: bool) -> Self {
        let loads = Target::default_set().into_iter().filter(|target| match target.suffix {
            Suffix::Arch => target.number == number,
            _ => target.number <= number && target.number / 10 == number / 10,
        });
        Self {
            name: name.to_owned(),
            architecture: format!("sm_{number}"),
            memory,
            shared_optin,
            loads: loads.map(|target| target.to_string()).collect(),
            unified_memory: if unified { unified_memory() } else { Vec::new() },
        }
    }
}

/// What memory that CPU and GPU share means for a server, with the sources.
#[must_use]
pub fn unified_memory() -> Vec<String> {
    [
        "CPU and GPU share one memory: weights, KV cache, the page cache and all processes take from it \
         (of 128 GB, CUDA sees about 121.7 GiB: MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47).",
        "nvidia-smi and NVML answer `Not Supported` or `[N/A]` for the memory of the GPU: read MemAvailable in /proc/meminfo \
         (leptonai/gpud#1170, rossumai/nvgpu#37).",
        "cudaMemGetInfo counts the page cache as used: after loading weights from disk, free memory looks smaller than it is; \
         dropping the caches (echo 3 > /proc/sys/vm/drop_caches) shows the rest (NVIDIA/xr-ai#440).",
        "vLLM's --gpu-memory-utilization is a share of the whole memory, and is no hard bound while vLLM profiles at its start: \
         leave 15 % or more, or the machine may hang (vllm-project/vllm#46307).",
        "--cpu-offload-gb, --swap-space and llama.cpp's --no-mmap move data within the same memory: they free none.",
    ]
    .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
    .to_vec()
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
    asked: Option<AbsentGpu>,
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
    let mut architectures: Vec<String> = gpus.iter().map(|g| g.about.architecture()).collect();
    architectures.extend(asked.iter().map(|gpu| gpu.architecture.clone()));
    let python = environment.path("SM121PROBE_PYTHON").unwrap_or_else(|| PathBuf::from("python3"));
    let (python, no_python) = match packages(&python) {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let mut bad: Vec<KnownBad> = known_bad(&versions, driver, &architectures).into_iter().cloned().collect();
    // Without a GPU the question is which packages would work on SM12x.
    if architectures.is_empty() {
        architectures = ["sm_120", "sm_121"].map(str::to_owned).to_vec();
    }
    if let Some(python) = &python {
        let of = |p: &'_ super::python::Package| Some((p.distribution.clone()?, p.version.clone()?));
        let installed: Vec<(String, String)> = python.packages.iter().filter_map(of).collect();
        bad.extend(known_bad_packages(
            installed.iter().map(|(n, v)| (n.as_str(), v.as_str())),
            &architectures,
        ));
    }
    Findings {
        asked,
        python,
        no_python,
        caches: caches(environment),
        no_gpu: (!no_gpu.is_empty()).then(|| no_gpu.join("; ")),
        toolkits: toolkits.iter().map(line).collect(),
        nvrtcs: nvrtcs.iter().map(|n| n.version.to_string()).collect(),
        known_bad: bad,
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
