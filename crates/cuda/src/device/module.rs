//! Modules: the PTX in an image for the simulated GPU, with its kernels and variables.

use std::collections::{BTreeSet, HashMap};

use emulator::{Contraction, GlobalMemory, Program, Stop, VariableOf, load_shared};

use crate::device::device_code::{DeviceCode, rank};
use crate::device::separate::Separate;
use crate::program::image::Image;
use crate::status::Status;
use emulator::gpus::{GPUS, Gpu};

/// The number of kernels of machine code that a message names.
const NAMED: usize = 3;

/// A loaded module. Kernels are decoded on first use, so that instructions the emulator does not support in other kernels do not
/// matter.
pub(crate) struct Module {
    code: DeviceCode,
    /// Why the objects of a program cannot be linked.
    problem: Option<String>,
    gpu: Gpu,
    /// Whether an unqualified product and the sum that uses it are rounded once.
    contracts: bool,
    programs: HashMap<String, Result<Program, Stop>>,
    /// Constant variables whose address the host has taken: address and size of the copy that launches read.
    constants: HashMap<String, (u64, usize)>,
}

impl Module {
    /// Reads the module from an image. With `contracts`, an unqualified product and the sum that uses it are rounded once.
    pub(crate) fn from_image(image: Image, gpu: &Gpu, contracts: bool) -> Self {
        let Image { code, objects, library } = image;
        let mut code = DeviceCode { library, ..DeviceCode::read(code, gpu) };
        let mut problem = None;
        if !objects.is_empty() && code.text.is_none() {
            let separate = Separate::link(objects, gpu);
            code.text = separate.text;
            problem = separate.problem;
            code.add(separate.without_ptx);
        }
        Self { code, problem, gpu: *gpu, contracts, programs: HashMap::new(), constants: HashMap::new() }
    }

    /// Whether there is no code for the GPU.
    pub(crate) fn is_empty(&self) -> bool {
        let DeviceCode { text, machine_code, other_targets, has_lto, .. } = &self.code;
        text.is_none()
            && machine_code.is_empty()
            && other_targets.is_empty()
            && !has_lto
            && self.problem.is_none()
    }

    /// Whether a library of the program contains it, rather than the program or memory that it has allocated.
    pub(crate) const fn is_of_library(&self) -> bool {
        self.code.library.is_some()
    }

    /// If all kernels are machine code, or cannot be linked: their names, and why they cannot run.
    pub(crate) fn unrunnable(&mut self) -> Option<(Vec<String>, String)> {
        if self.code.text.is_some() {
            return None;
        }
        let why = self.program("").err()?.to_string();
        Some((self.code.machine_code.clone(), why))
    }

    /// The names of its kernels.
    pub(crate) fn entries(&mut self) -> Vec<String> {
        self.program("").map(|program| program.entries.clone()).unwrap_or_default()
    }

    /// The program with the kernel of this name; with an empty name, a program with only the module's variables.
    pub(crate) fn program(&mut self, name: &str) -> Result<&Program, Stop> {
        self.decoded(name).as_ref().map_err(|stop| stop.clone())
    }

    fn decoded(&mut self, name: &str) -> &mut Result<Program, Stop> {
        let Self { code, problem, gpu, programs, .. } = self;
        let contracts = self.contracts;
        programs.entry(name.to_owned()).or_insert_with(|| match (&code.text, problem) {
            (_, Some(problem)) => {
                Err(Stop::Launch(format!("the objects of the program cannot be linked: {problem}")))
            }
            (Some(text), None) => {
                // To `load_shared`, an empty name would denote the only kernel of the text.
                let names = if name.is_empty() { &[][..] } else { &[name] };
                let program = load_shared(text, names).map_err(|stop| code.with_missing(stop, gpu))?;
                if contracts && program.kernel(name).is_some() {
                    return program.contracted(&Contraction::Every);
                }
                if name.is_empty() || program.kernel(name).is_some() {
                    return Ok(program);
                }
                let is_machine_code = code.machine_code.iter().any(|known| known.starts_with(name));
                let why = if is_machine_code {
                    format!(": it exists only as machine code; add PTX with {}", build(gpu))
                } else {
                    String::new()
                };
                Err(Stop::Launch(format!("the module has no entry `{name}`{why}")))
            }
            (None, None) => Err(Stop::Launch(no_ptx(gpu, code))),
        })
    }

    /// Whether it has this kernel.
    pub(crate) fn has(&mut self, name: &str) -> bool {
        match &self.code.text {
            // If the text cannot be decoded, the launch reports why.
            Some(_) => self.program("").map_or(true, |p| p.entries.iter().any(|entry| entry == name)),
            None => self.code.machine_code.iter().any(|known| known.starts_with(name)),
        }
    }

    /// Address and size in bytes of a variable. A constant variable gets a copy in global memory, which launches read.
    pub(crate) fn variable(&mut self, memory: &mut GlobalMemory, name: &str) -> Result<(u64, usize), Status> {
        if let Some(known) = self.constants.get(name) {
            return Ok(*known);
        }
        let program = self.program("").map_err(|_| Status::INVALID_IMAGE)?;
        match program.variable(memory, name).ok_or(Status::NOT_FOUND)? {
            VariableOf::Global(address, size) => Ok((address, size)),
            VariableOf::Const(bytes) => {
                let bytes = bytes.to_vec();
                let size = bytes.len();
                let copy = (memory.allocate_with(bytes), size);
                self.constants.insert(name.to_owned(), copy);
                Ok(copy)
            }
        }
    }

    /// The constant variables whose address the host has taken, with the values it wrote.
    pub(crate) fn constants(&self, memory: &GlobalMemory) -> Vec<(String, Vec<u8>)> {
        let bytes = |at: u64, len: usize| memory.range(at, len).map(<[u8]>::to_vec);
        let mut all: Vec<_> = self
            .constants
            .iter()
            .filter_map(|(name, (at, len))| Some((name.clone(), bytes(*at, *len)?)))
            .collect();
        all.sort();
        all
    }

    /// Frees the memory of a module that is unloaded; returns the addresses of its variables.
    pub(crate) fn free(self, memory: &mut GlobalMemory) -> Vec<u64> {
        for (address, _) in self.constants.values() {
            memory.free(*address);
        }
        self.code.text.map(|text| memory.free_variables(&text)).unwrap_or_default()
    }

    /// Applies the host's writes to constant variables to the program of a kernel.
    pub(crate) fn take_constants(&mut self, memory: &mut GlobalMemory, kernel: &str) {
        let Some(Ok(program)) = self.programs.get_mut(kernel) else { return };
        for (name, (address, size)) in &self.constants {
            if let Some(bytes) = memory.range(*address, *size).map(<[u8]>::to_vec) {
                // The variable exists, because the copy was made from it.
                let _ = program.set_variable(memory, name, 0, &bytes);
            }
        }
    }
}

impl DeviceCode {
    /// Adds what is known about the objects of a program that have no PTX for the GPU.
    fn add(&mut self, without_ptx: Vec<(String, Self)>) {
        for (name, object) in without_ptx {
            let kernels =
                object.machine_code.into_iter().filter(|kernel| !self.machine_code.contains(kernel));
            let kernels: Vec<String> = kernels.collect();
            self.machine_code.extend(kernels);
            self.other_targets.extend(object.other_targets);
            self.has_lto |= object.has_lto;
            self.missing.push(name);
        }
    }

    /// A refusal that names the objects whose code is missing: what is not found may be there.
    fn with_missing(&self, stop: Stop, gpu: &Gpu) -> Stop {
        let missing =
            || format!("; without PTX: {} (build them with {})", self.missing.join(", "), build(gpu));
        match stop {
            Stop::Unsupported(mut unsupported) if !self.missing.is_empty() => {
                unsupported.why += &missing();
                Stop::Unsupported(unsupported)
            }
            Stop::Launch(why) if !self.missing.is_empty() => Stop::Launch(why + &missing()),
            other => other,
        }
    }
}

/// The option of nvcc that adds PTX for a GPU.
fn build(gpu: &Gpu) -> String {
    let flag = gpu.nvcc_architecture();
    format!("-gencode arch={flag},code={flag}")
}

/// How the names of NVIDIA's libraries of kernels begin.
const OF_NVIDIA: [&str; 9] = [
    "libcublas",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libnccl",
    "libnpp",
    "libnvjpeg",
];

/// Whether a file name is that of a library of kernels of NVIDIA's, which has no PTX.
pub(crate) fn is_of_nvidia(name: &str) -> bool {
    OF_NVIDIA.iter().any(|library| name.starts_with(library))
}

/// Why a module without PTX for the GPU cannot run, and how to build it.
fn no_ptx(gpu: &Gpu, code_of: &DeviceCode) -> String {
    let DeviceCode { machine_code, other_targets, has_lto, .. } = code_of;
    let build = build(gpu);
    if *has_lto {
        return format!(
            "the code here is for link-time optimization, which is no PTX: build it without -dlto and `code=lto_…`, with {build}"
        );
    }
    if let Some(target) = other_targets.first() {
        let names: BTreeSet<String> = other_targets.iter().map(ToString::to_string).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let fits = GPUS.iter().find(|other| rank(*target, other.arch()).is_some());
        let or = fits.map_or_else(String::new, |other| format!(", or use `--gpu {}`", other.key));
        return format!(
            "the PTX here is for {names}; an {} needs {}: build it with {build}{or}",
            gpu.name,
            gpu.nvcc_architecture()
        );
    }
    if machine_code.is_empty() {
        return format!("the module has neither PTX nor kernels for this GPU: build it with {build}");
    }
    // A library of kernels has thousands.
    let code = match machine_code.len().saturating_sub(NAMED) {
        0 => machine_code.join(", "),
        more => format!("{} and {more} more", machine_code[..NAMED].join(", ")),
    };
    let Some(library) = &code_of.library else {
        return format!(
            "the module has no PTX, and machine code cannot be emulated: build it with {build} (found: {code})"
        );
    };
    if is_of_nvidia(library) {
        return format!(
            "{library} has no PTX, and machine code cannot be emulated: NVIDIA builds it without; compute this on the host, or by kernels of the \
             program (found: {code})"
        );
    }
    format!(
        "{library} has no PTX, and machine code cannot be emulated: build that library with {build} (found: {code})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_of_a_library_is_named_with_what_can_be_done() {
        let said = |library: Option<&str>| {
            let library = library.map(str::to_owned);
            no_ptx(
                &GPUS[0],
                &DeviceCode { machine_code: vec!["k (sm_120)".to_owned()], library, ..DeviceCode::default() },
            )
        };
        assert!(said(None).starts_with("the module has no PTX") && said(None).contains("build it with"));
        let curand = said(Some("libcurand.so.10"));
        assert!(
            curand.starts_with("libcurand.so.10 has no PTX") && curand.contains("by kernels of the program"),
            "{curand}"
        );
        assert!(said(Some("libmine.so")).contains("build that library with"));
    }

    #[test]
    fn ptx_may_begin_with_a_long_comment() {
        let text = |target: &str| {
            let comment = "// a comment\n".repeat(1000);
            let text = format!(
                "{comment}.version 8.7\n.target {target}, debug\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
            );
            Image::from(text.into_bytes())
        };
        let gpu = Gpu::with_key("gb10").unwrap();
        assert_eq!(Module::from_image(text("sm_120"), gpu, false).entries(), ["k"]);
        let mut other = Module::from_image(text("sm_90a"), gpu, false);
        assert!(!other.is_empty() && other.unrunnable().unwrap().1.contains("sm_90a"));
        assert!(Module::from_image(Image::from(b"no module".to_vec()), gpu, false).is_empty());
    }
}
