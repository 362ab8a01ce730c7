//! The places where a ptxas or nvdisasm may be, and who uses it there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::discover::Unusable;
use super::environment::{Environment, children};
use super::installed;
use super::pins::{Arch, Tool};

/// Environment variable that names the ptxas seen by programs under `exec`; it is this command.
pub const EXEC_PTXAS: &str = "SM121PROBE_EXEC_PTXAS";

/// Where a ptxas was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Named by the user.
    Named,
    /// `CUDA_HOME` or `CUDA_PATH`.
    CudaHome,
    /// A folder of `PATH`.
    Path,
    /// `/usr/local/cuda*` and other fixed places.
    System,
    /// A conda environment.
    Conda,
    /// PyTorch's package.
    Torch,
    /// The only ptxas of Triton's package (up to 3.5), which it runs for every GPU.
    TritonOnly,
    /// The ptxas of Triton's package that it runs for older GPUs; `ptxas-blackwell` is beside it.
    Triton,
    /// Triton's second ptxas, which it runs for Blackwell.
    TritonBlackwell,
    /// `TRITON_PTXAS_PATH`, without a Triton that would show for which GPUs it runs this file.
    TritonNamed,
    /// NVIDIA's Python packages.
    Python,
    /// Installed by `toolkit install`.
    Cache,
}

impl Origin {
    /// Returns who would run this ptxas, in one sentence.
    #[must_use]
    pub const fn used_by(self) -> &'static str {
        match self {
            Self::Named => "You named it.",
            Self::CudaHome => {
                "CMake, PyTorch extensions and FlashInfer's JIT build with CUDA_HOME's toolkit."
            }
            Self::Path => "nvcc and everything that starts ptxas by name use the first one on PATH.",
            Self::System => "Builds that look for a system-wide CUDA use it if CUDA_HOME is not set.",
            Self::Conda => "Builds inside this conda environment use it.",
            Self::Torch => "PyTorch's wheel includes it for torch.compile.",
            Self::TritonOnly => {
                "Triton, and therefore torch.compile and vLLM's Triton kernels, uses it to assemble code for every GPU, including SM12x."
            }
            Self::Triton => {
                "Triton, and therefore torch.compile and vLLM's Triton kernels, uses it to assemble code for older GPUs; for Blackwell, it uses ptxas-blackwell."
            }
            Self::TritonBlackwell => "Triton uses it to assemble code for Blackwell GPUs, including SM12x.",
            Self::TritonNamed => {
                "Triton up to 3.5 uses it to assemble code for every GPU, later releases only for GPUs older than Blackwell."
            }
            Self::Python => "JAX, Numba and other packages that depend on NVIDIA's compiler wheels use it.",
            Self::Cache => "Only sm121probe uses it.",
        }
    }
}

impl Origin {
    /// Whether Triton runs it.
    #[must_use]
    pub const fn is_triton(self) -> bool {
        matches!(self, Self::TritonOnly | Self::Triton | Self::TritonBlackwell | Self::TritonNamed)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Named => "named",
            Self::CudaHome => "CUDA_HOME",
            Self::Path => "PATH",
            Self::System => "system",
            Self::Conda => "conda",
            Self::Torch => "PyTorch",
            Self::TritonOnly => "Triton",
            Self::Triton => "Triton (older GPUs)",
            Self::TritonBlackwell => "Triton (Blackwell)",
            Self::TritonNamed => "TRITON_PTXAS_PATH",
            Self::Python => "Python wheel",
            Self::Cache => "sm121probe",
        })
    }
}

/// A file that may be a ptxas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The kind of place.
    pub origin: Origin,
    /// The file.
    pub path: PathBuf,
    /// The hash it must have, if we installed it.
    pub sha256: Option<String>,
}

/// The folders of Triton's tools in site-packages.
const TRITON: [&str; 2] = ["triton/backends/nvidia/bin", "triton/third_party/cuda/bin"];

/// Triton's second ptxas; releases up to 3.5 have only one.
const BLACKWELL: &str = "ptxas-blackwell";

/// Returns for which GPUs Triton runs the `ptxas` of its folder.
fn of_triton(folder: &Path) -> Origin {
    if folder.join(BLACKWELL).exists() { Origin::Triton } else { Origin::TritonOnly }
}

/// Returns for which GPUs the environment's Triton runs the file that `TRITON_PTXAS_PATH` names.
fn named_for_triton(environment: &Environment) -> Origin {
    let sites = environment.site_packages();
    let mut origins = sites
        .iter()
        .flat_map(|site| TRITON.map(|folder| site.join(folder)))
        .filter(|folder| folder.is_dir())
        .map(|folder| of_triton(&folder));
    // Several may differ.
    match origins.next() {
        Some(first) if origins.all(|origin| origin == first) => first,
        _ => Origin::TritonNamed,
    }
}

/// Every candidate of a machine, in order of preference; files that do not exist are left out.
#[derive(Debug, Clone)]
pub struct Places {
    /// Candidates for ptxas.
    pub ptxas: Vec<Place>,
    /// Candidates for nvdisasm.
    pub nvdisasm: Vec<Place>,
    /// Files requested by name or variable that cannot be candidates.
    pub unusable: Vec<Unusable>,
    /// Time limit for identifying one candidate.
    pub limit: Duration,
}

impl Default for Places {
    /// No candidates. A healthy tool answers in milliseconds; ten seconds allow for a machine under load.
    fn default() -> Self {
        Self { ptxas: Vec::new(), nvdisasm: Vec::new(), unusable: Vec::new(), limit: Duration::from_secs(10) }
    }
}

impl Places {
    /// Collects the candidates of this machine; `store_root` is the cache folder.
    #[must_use]
    pub fn from_environment(store_root: Option<&Path>) -> Self {
        Self::collect(&Environment::of_process(), store_root)
    }

    /// Collects the candidates in `environment`.
    #[must_use]
    pub fn collect(environment: &Environment, store_root: Option<&Path>) -> Self {
        let mut places = Self::default();
        places.variables(environment);
        for folder in environment.paths("PATH") {
            places.folder(Origin::Path, &folder);
        }
        places.system(&environment.root);
        for prefix in environment.conda_prefixes() {
            places.folder(Origin::Conda, &prefix.join("bin"));
        }
        for site in environment.site_packages() {
            places.packages(&site);
        }
        if let Some(root) = store_root {
            places.cache(root);
        }
        places
    }

    /// Adds those `names` that contain a `/`, as files. A ptxas named by its path must be added before it can be selected.
    pub fn add_named(&mut self, names: &[String]) {
        let files = names.iter().filter(|name| name.contains('/'));
        let named = files.map(|name| Place { origin: Origin::Named, path: name.into(), sha256: None });
        self.ptxas.splice(0..0, named);
    }

    fn variables(&mut self, environment: &Environment) {
        for name in ["CUDA_HOME", "CUDA_PATH"] {
            if let Some(home) = environment.path(name)
                && !self.folder(Origin::CudaHome, &home.join("bin"))
            {
                self.absent(Origin::CudaHome, home.join("bin/ptxas"), name);
            }
        }
        for (name, origin) in [
            ("TRITON_PTXAS_PATH", named_for_triton(environment)),
            ("TRITON_PTXAS_BLACKWELL_PATH", Origin::TritonBlackwell),
        ] {
            if let Some(path) = environment.path(name)
                && !self.file(origin, &path)
            {
                self.absent(origin, path, name);
            }
        }
    }

    fn system(&mut self, root: &Path) {
        for folder in children(&root.join("usr/local")) {
            if folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"cuda")) {
                self.folder(Origin::System, &folder.join("bin"));
            }
        }
        for folder in ["opt/cuda/bin", "usr/lib/cuda/bin", "usr/lib/nvidia-cuda-toolkit/bin"] {
            self.folder(Origin::System, &root.join(folder));
        }
        // HPC SDK: Linux_x86_64/25.9/cuda/13.0/bin.
        for release in children(&root.join("opt/nvidia/hpc_sdk")).iter().flat_map(|machine| children(machine))
        {
            for version in children(&release.join("cuda")) {
                self.folder(Origin::System, &version.join("bin"));
            }
        }
    }

    fn packages(&mut self, site: &Path) {
        self.folder(Origin::Torch, &site.join("torch/bin"));
        for folder in TRITON.map(|folder| site.join(folder)) {
            self.folder(of_triton(&folder), &folder);
            self.file(Origin::TritonBlackwell, &folder.join(BLACKWELL));
        }
        // nvidia/cu13/bin, nvidia/cuda_nvcc/bin, and one level deeper.
        for package in children(&site.join("nvidia")) {
            self.folder(Origin::Python, &package.join("bin"));
            for inner in children(&package).iter().filter(|inner| inner.is_dir()) {
                self.folder(Origin::Python, &inner.join("bin"));
            }
        }
    }

    fn cache(&mut self, root: &Path) {
        for (tool, list) in [(Tool::Ptxas, &mut self.ptxas), (Tool::Nvdisasm, &mut self.nvdisasm)] {
            for entry in installed::of_tool(root, tool) {
                let path = entry.folder.join("bin").join(tool.name());
                if Some(entry.arch) != Arch::host() {
                    let reason = format!(
                        "it was installed for {}, another machine that shares this cache",
                        entry.arch.name()
                    );
                    self.unusable.push(Unusable { path, origin: Origin::Cache, reason });
                } else if let Some(sha256) = entry.sha256_of(&path) {
                    list.push(Place { origin: Origin::Cache, path, sha256: Some(sha256) });
                }
            }
        }
    }

    /// Adds the tools of a `bin` folder; returns whether a ptxas is among them.
    fn folder(&mut self, origin: Origin, folder: &Path) -> bool {
        let nvdisasm = folder.join("nvdisasm");
        if nvdisasm.exists() {
            self.nvdisasm.push(Place { origin, path: nvdisasm, sha256: None });
        }
        self.file(origin, &folder.join("ptxas"))
    }

    fn file(&mut self, origin: Origin, path: &Path) -> bool {
        // Under `exec`, this command poses as ptxas for other programs.
        let own = std::env::var_os(EXEC_PTXAS).and_then(|link| std::fs::canonicalize(link).ok());
        if own.is_some() && std::fs::canonicalize(path).ok() == own {
            return true;
        }
        let there = path.exists();
        if there {
            self.ptxas.push(Place { origin, path: path.to_owned(), sha256: None });
        }
        there
    }

    fn absent(&mut self, origin: Origin, path: PathBuf, variable: &str) {
        let reason =
            format!("{variable} points here, but there is no such file; correct or unset {variable}");
        self.unusable.push(Unusable { path, origin, reason });
    }
}
