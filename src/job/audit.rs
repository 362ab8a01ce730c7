//! The audit job: finds GPU code below the given paths and determines whether devices can run it.

use std::path::PathBuf;
use std::time::Duration;

use devcode::{Found, Limits};
use ptx::arch::PtxIsa;

use super::context::Context;
use super::error::JobError;
use crate::attention::Model;
use crate::audit::{self, Collector, Device, Installed, Naming, Which};
use crate::doctor;
use crate::event::Sink;
use crate::gate::Glob;
use crate::gpu::{Description, GpuDevice, Launcher};
use crate::record::{AuditTable, Matrix, Record};
use crate::store::Store;
use crate::toolkit::{self, Environment, Places};

/// The architectures that are audited by default.
const DEFAULT: [u16; 2] = [120, 121];

/// The time limit for a GPU to describe itself.
const LIMIT: Duration = Duration::from_secs(20);

/// The options of an audit: paths, devices and filters.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// A Python interpreter whose packages are also audited.
    pub python: Option<PathBuf>,
    /// Whether the caches of JIT compilers are also audited.
    pub jit_caches: bool,
    /// Architecture numbers; if empty, SM120, SM121 and this machine's GPUs.
    pub devices: Vec<u16>,
    /// Selects kernels whose linked name matches one of these globs; all kernels if empty.
    pub kernels: Vec<Glob>,
    /// The kernels whose opcodes are listed.
    pub opcodes: Which,
    /// The model whose layers attention backends should serve.
    pub model: Option<&'static Model>,
}

/// The result of an audit.
#[derive(Debug, Clone)]
pub struct Audited {
    /// The record that contains the audit table.
    pub record: Record,
    /// Paths that do not exist.
    pub missing: Vec<String>,
}

/// Runs an audit.
///
/// # Errors
/// [`JobError::Sites`] if the Python interpreter cannot be queried, [`JobError::Scratch`] if no scratch folder can be created.
pub fn audit(options: &AuditOptions, context: &Context<'_>) -> Result<Audited, JobError> {
    let mut paths = options.paths.clone();
    if let Some(python) = &options.python {
        paths.extend(audit::sites_of(python)?);
    }
    let caches = if options.jit_caches { doctor::caches(&Environment::of_process()) } else { Vec::new() };
    let caches: Vec<(String, PathBuf)> =
        caches.into_iter().filter(|c| c.files.is_some()).map(|c| (c.owner, c.path)).collect();
    paths.extend(caches.iter().map(|(_, path)| path.clone()));
    let missing: Vec<String> =
        paths.iter().filter(|p| p.symlink_metadata().is_err()).map(|p| p.display().to_string()).collect();
    let here = Here::look(context);
    let (devices, gpus) = devices(options, &here.gpus);
    let mut table = collect(options, &paths, devices, &gpus, context.sink)?;
    table.no_gpu = here.others.join("; ");
    audit::describe(&mut table, &Installed::below(&paths), options.model);
    audit::describe_caches(&mut table, &caches);
    let mut record =
        Record::of_matrix(concat!("sm121probe ", env!("CARGO_PKG_VERSION")).to_owned(), Matrix::default());
    record.audit = table;
    Ok(Audited { record, missing })
}

/// Returns the audited devices and, for each, the matching GPU of this machine; an empty string if there is none.
fn devices(options: &AuditOptions, here: &[Description]) -> (Vec<Device>, Vec<String>) {
    let mut numbers: Vec<u16> = options.devices.clone();
    if numbers.is_empty() {
        numbers.extend(DEFAULT);
        numbers.extend(here.iter().map(|gpu| gpu.target().number));
    }
    numbers.sort_unstable();
    numbers.dedup();
    let of = |number: u16| match here.iter().find(|gpu| gpu.target().number == number) {
        None => (Device::from_number(number), String::new()),
        Some(gpu) => {
            let isa = PtxIsa::of_cuda(&gpu.cuda);
            let device = Device { number, cuda: Some(gpu.cuda.clone()), isa };
            (device, format!("gpu:{} {}", gpu.ordinal, gpu.name))
        }
    };
    numbers.into_iter().map(of).unzip()
}

/// This machine's GPUs.
#[derive(Debug, Default)]
struct Here {
    /// Descriptions of the usable GPUs.
    gpus: Vec<Description>,
    /// Why other GPUs could not be queried: there is no driver, or access is denied. The audit then relies on its rules alone.
    others: Vec<String>,
}

impl Here {
    fn look(context: &Context<'_>) -> Self {
        let mut out = Self::default();
        let launcher = |ordinal: usize| Launcher {
            program: context.program.clone(),
            ordinal: ordinal.to_string(),
            limit: LIMIT,
        };
        for (ordinal, opened) in GpuDevice::each(launcher) {
            match opened {
                Ok(gpu) => out.gpus.push(gpu.about().clone()),
                Err(failure) => out.others.push(format!("gpu:{ordinal}: {failure}")),
            }
        }
        out
    }
}

/// Scans the paths and fills the audit table.
fn collect(
    options: &AuditOptions,
    paths: &[PathBuf],
    devices: Vec<Device>,
    gpus: &[String],
    sink: &dyn Sink,
) -> Result<AuditTable, JobError> {
    let which = options.opcodes;
    let store = Store::open(None).ok();
    let (scratch, discovery);
    let mut naming = None;
    let mut no_opcodes = String::new();
    if which != Which::None {
        let places = Places::from_environment(store.as_ref().map(Store::root));
        discovery = toolkit::discover(store.as_ref(), &places);
        scratch = tempfile::tempdir().map_err(JobError::Scratch)?;
        match &discovery.disassembler {
            Some(disassembler) => {
                let (store, scratch) = (store.as_ref(), scratch.path());
                naming = Some(Naming { disassembler, store, scratch, which, sink });
            }
            None => {
                "This machine has no nvdisasm: fall-backs cannot be recognised. `sm121probe toolkit install latest` fetches one."
                    .clone_into(&mut no_opcodes);
            }
        }
    }
    let mut collector = Collector::new(devices, gpus, naming);
    devcode::scan(paths, &Limits::default(), &mut |found| match found {
        Found::Entry { mut entry, code } => {
            if !options.kernels.is_empty() {
                entry.kernels.retain(|k| options.kernels.iter().any(|glob| glob.matches(&k.name)));
                if entry.kernels.is_empty() {
                    return;
                }
            }
            collector.take(Found::Entry { entry, code });
        }
        other => collector.take(other),
    });
    let mut table = collector.finish();
    table.no_opcodes = no_opcodes;
    Ok(table)
}
