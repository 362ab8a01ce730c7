//! Modules: the PTX in an image for the simulated GPU, with its kernels and variables.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use devcode::{CodeKind, Found, Limits, scan_bytes};
use emulator::{Contraction, GlobalMemory, Program, Stop, VariableOf, load_shared};
use ptx::arch::Target;

use crate::device::kept_ptx::kept_ptx;
use crate::gpus::{GPUS, Gpu};
use crate::status::Status;

/// A loaded module. Kernels are decoded on first use, so that instructions the emulator does not support in other kernels do not
/// matter.
pub(crate) struct Module {
    text: Option<Arc<str>>,
    /// Kernels that exist only as machine code, and why they cannot run.
    machine_code: Vec<String>,
    /// The targets of PTX that the GPU cannot run.
    other_targets: Vec<Target>,
    gpu: Gpu,
    /// Whether an unqualified product and the sum that uses it are rounded once.
    contracts: bool,
    programs: HashMap<String, Result<Program, Stop>>,
    /// Constant variables whose address the host has taken: address and size of the copy that launches read.
    constants: HashMap<String, (u64, usize)>,
}

impl Module {
    /// Reads the module from an image: a fatbin, PTX or a cubin. With `contracts`, an unqualified product and the sum that uses it are
    /// rounded once.
    pub(crate) fn from_image(image: Vec<u8>, gpu: &Gpu, contracts: bool) -> Self {
        let mut best: Option<(u32, Arc<str>)> = None;
        let mut machine_code = Vec::new();
        let mut other_targets = Vec::new();
        let mut kept = None;
        scan_bytes("image", image, &Limits::default(), &mut |found| {
            let Found::Entry { entry, code } = found else { return };
            if entry.kind != CodeKind::Ptx {
                kept = kept.take().or_else(|| kept_ptx(code));
                machine_code
                    .extend(entry.kernels.iter().map(|k| format!("{} ({})", k.name, entry.target_text())));
                return;
            }
            let Some(target) = entry.target() else { return };
            let Some(rank) = runs(target, gpu.arch()) else {
                other_targets.push(target);
                return;
            };
            if let Ok(text) = std::str::from_utf8(code)
                && best.as_ref().is_none_or(|(known, _)| *known < rank)
            {
                best = Some((rank, text.trim_end_matches('\0').into()));
            }
        });
        Self {
            text: best.map(|(_, text)| text).or(kept.map(Arc::from)),
            machine_code,
            other_targets,
            gpu: *gpu,
            contracts,
            programs: HashMap::new(),
            constants: HashMap::new(),
        }
    }

    /// Whether there is no code for the GPU.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_none() && self.machine_code.is_empty() && self.other_targets.is_empty()
    }

    /// If all kernels are machine code: their names, and why they cannot run.
    pub(crate) fn unrunnable(&mut self) -> Option<(Vec<String>, String)> {
        if self.text.is_some() {
            return None;
        }
        let why = self.program("").err()?.to_string();
        Some((self.machine_code.clone(), why))
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
        let Self { text, machine_code, other_targets, gpu, programs, .. } = self;
        let contracts = self.contracts;
        programs.entry(name.to_owned()).or_insert_with(|| match text {
            Some(text) => {
                // To `load_shared`, an empty name would denote the only kernel of the text.
                let names = if name.is_empty() { &[][..] } else { &[name] };
                let program = load_shared(text, names)?;
                if contracts && program.kernel(name).is_some() {
                    return program.contracted(&Contraction::Every);
                }
                if name.is_empty() || program.kernel(name).is_some() {
                    return Ok(program);
                }
                let code = machine_code.iter().any(|known| known.starts_with(name));
                let why = if code { ": it exists only as machine code; add PTX with -gencode" } else { "" };
                Err(Stop::Launch(format!("the module has no entry `{name}`{why}")))
            }
            None => Err(Stop::Launch(no_ptx(gpu, other_targets, machine_code))),
        })
    }

    /// Whether it has this kernel.
    pub(crate) fn has(&mut self, name: &str) -> bool {
        match &self.text {
            // If the text cannot be decoded, the launch reports why.
            Some(_) => self.program("").map_or(true, |p| p.entries.iter().any(|entry| entry == name)),
            None => self.machine_code.iter().any(|known| known.starts_with(name)),
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
        self.text.map(|text| memory.free_variables(&text)).unwrap_or_default()
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

/// Why a module without PTX for the GPU cannot run, and how to build it.
fn no_ptx(gpu: &Gpu, other_targets: &[Target], machine_code: &[String]) -> String {
    let flag = gpu.nvcc_architecture();
    let build = format!("-gencode arch={flag},code={flag}");
    if let Some(target) = other_targets.first() {
        let names: BTreeSet<String> = other_targets.iter().map(ToString::to_string).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let fits = GPUS.iter().find(|other| runs(*target, other.arch()).is_some());
        let or = fits.map_or_else(String::new, |other| format!(", or use `--gpu {}`", other.key));
        return format!(
            "the PTX here is for {names}; an {} needs {flag}: build it with {build}{or}",
            gpu.name
        );
    }
    if machine_code.is_empty() {
        return format!(
            "the module has neither PTX nor kernels for this GPU: build it with {build} and without -rdc=true, since separate \
             compilation is not supported"
        );
    }
    let code = machine_code.join(", ");
    format!(
        "the module has no PTX, and machine code cannot be emulated: build it with {build} (found: {code})"
    )
}

/// How well PTX for a target matches a GPU; `None` if the GPU cannot run it.
fn runs(target: Target, arch: u32) -> Option<u32> {
    use ptx::arch::Suffix;
    let number = u32::from(target.number);
    let fits = match target.suffix {
        Suffix::Arch => number == arch,
        Suffix::Family => number <= arch && number / 10 == arch / 10,
        Suffix::Base => number <= arch,
    };
    fits.then_some(number * 4 + target.suffix as u32 % 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_may_begin_with_a_long_comment() {
        let text = |target: &str| {
            let comment = "// a comment\n".repeat(1000);
            format!("{comment}.version 8.7\n.target {target}, debug\n.address_size 64\n.visible .entry k() {{ ret; }}\n").into_bytes()
        };
        let gpu = Gpu::with_key("gb10").unwrap();
        assert_eq!(Module::from_image(text("sm_120"), gpu, false).entries(), ["k"]);
        let mut other = Module::from_image(text("sm_90a"), gpu, false);
        assert!(!other.is_empty() && other.unrunnable().unwrap().1.contains("sm_90a"));
        assert!(Module::from_image(b"no module".to_vec(), gpu, false).is_empty());
    }

    #[test]
    fn the_best_ptx_that_the_gpu_runs_is_chosen() {
        let rank = |target: &str, arch| runs(ptx::arch::Target::written(target).unwrap(), arch);
        assert!(rank("sm_121a", 121) > rank("sm_120f", 121) && rank("sm_120f", 121) > rank("sm_90", 121));
        for refused in ["sm_120a", "sm_90a", "sm_100f"] {
            assert_eq!(rank(refused, 121), None, "{refused}");
        }
        assert!(rank("sm_121", 120).is_none() && rank("sm_90a", 90).is_some());
    }
}
