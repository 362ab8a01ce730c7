//! Runs snippets and the pipeline on a GPU: selects target and assembler, derives limits, describes the GPU in records.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use emulator::device::Device as _;
use numerics::random;
use ptx::arch::{PtxIsa, Target};
use rayon::prelude::*;

use super::context::Context;
use super::error::JobError;
use super::toolchain::{self, Toolchain};
use super::trials;
use crate::execute::{self, Asked};
use crate::families;
use crate::frame::admission::Limits;
use crate::frame::family::SharedTrial;
use crate::frame::runner::Runner;
use crate::gpu::{Chain, Description, GpuDevice, Launcher};
use crate::kernel::Library;
use crate::record::{DeviceRow, Record, SkippedRow, TrialRow, VariantRun};
use crate::snippet;
use crate::store::Store;
use crate::toolkit::{Nvrtc, Toolkit};

/// The default target on the emulator.
const TARGET: &str = "sm_121a";

/// The PTX version of code that only the emulator reads.
const ISA: PtxIsa = PtxIsa { major: 9, minor: 5 };

/// The seed of the snippets' inputs in the whole job.
const SEED: u64 = 1;

/// Opens a GPU by its ordinal; `limit` bounds the time of one request.
///
/// # Errors
/// [`JobError::Device`] if the GPU cannot be used.
pub fn open(program: &Path, number: usize, limit: Duration) -> Result<GpuDevice, JobError> {
    let launcher = Launcher { program: program.to_owned(), ordinal: number.to_string(), limit };
    let opened = GpuDevice::open(launcher, Chain::default());
    opened.map_err(|failure| JobError::Device(format!("gpu:{number}"), failure))
}

/// Returns the chain that assembles code with the toolkit's ptxas, or with the driver if there is no toolkit.
#[must_use]
pub fn chain(toolkit: Option<&Toolkit>, store: Option<&Store>) -> Chain {
    Chain { toolkit: toolkit.cloned(), store: store.cloned() }
}

/// Returns the target of code for a GPU, and the PTX version that its assembler supports: the driver's if there is no ptxas.
///
/// # Errors
/// [`JobError::Target`] if the named target does not exist, [`JobError::DeviceTarget`] and [`JobError::NoPtxIsa`].
pub fn code_of(
    about: &Description,
    ptxas: Option<&Toolkit>,
    named: Option<&str>,
) -> Result<(Target, PtxIsa), JobError> {
    let target = match named {
        Some(name) => name.parse()?,
        None => about.target(),
    };
    if !target.cubin_runs_on(about.target()) {
        return Err(JobError::DeviceTarget(target.to_string(), about.architecture()));
    }
    let isa = match ptxas {
        Some(ptxas) => ptxas.isa,
        None => PtxIsa::of_cuda(&about.cuda).ok_or_else(|| JobError::NoPtxIsa(about.cuda.clone()))?,
    };
    Ok((target, isa))
}

/// Returns the row that describes a GPU in records.
#[must_use]
pub fn row(name: &str, about: &Description) -> DeviceRow {
    DeviceRow {
        device: name.to_owned(),
        name: about.name.clone(),
        architecture: about.architecture(),
        driver: about.driver.clone(),
        cuda: about.cuda.clone(),
        multiprocessors: about.multiprocessors,
        memory: about.memory,
        l2: about.l2,
        id: identity(about.ordinal),
    }
}

/// Returns an identifier that distinguishes this GPU from GPUs of other machines: a digest that does not reveal the machine ID.
fn identity(ordinal: usize) -> String {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match machine.trim() {
        "" => String::new(),
        machine => crate::store::sha256(format!("sm121probe device\0{machine}\0{ordinal}").as_bytes())[..16]
            .to_owned(),
    }
}

/// Returns the smaller of SM12x's and this GPU's limits: a tile that does not fit SM12x proves nothing on another GPU.
#[must_use]
pub fn limits(about: &Description) -> Limits {
    let least = |own: i32, other: u32| u32::try_from(own).map_or(other, |own| own.min(other));
    let of = Limits::SM12X;
    Limits {
        shared: least(about.shared_optin, of.shared),
        registers: least(about.registers, of.registers),
        threads: least(about.threads, of.threads),
    }
}

/// How variants run on a device: target, toolkit and seed.
pub struct Question<'a> {
    /// The target of the code; if `None`, that of the GPU, or `sm_121a` on the emulator.
    pub target: Option<&'a str>,
    /// The name of the toolkit whose ptxas is used; the newest if `None`.
    pub toolkit: Option<&'a str>,
    /// Seed of the inputs.
    pub seed: u64,
}

/// Runs variants on the emulator.
///
/// # Errors
/// [`JobError::Target`] if the named target does not exist.
pub fn variants_on_emulator(
    variants: &[&snippet::Variant],
    question: &Question<'_>,
) -> Result<Vec<VariantRun>, JobError> {
    let asked = Asked { target: question.target.unwrap_or(TARGET).parse()?, isa: ISA, seed: question.seed };
    Ok(variants.par_iter().map(|v| execute::on_emulator(v, asked)).collect())
}

/// Runs variants on a GPU and returns the GPU with the results.
///
/// # Errors
/// The errors of [`code_of`] and [`toolchain::ptxas`].
pub fn variants_on_gpu(
    variants: &[&snippet::Variant],
    gpu: GpuDevice,
    question: &Question<'_>,
) -> Result<(Vec<VariantRun>, GpuDevice), JobError> {
    let store = Store::open(None).ok();
    let ptxas = toolchain::ptxas(question.toolkit, store.as_ref())?;
    let (target, isa) = code_of(gpu.about(), ptxas.as_ref(), question.target)?;
    let mut gpu = gpu.with_chain(chain(ptxas.as_ref(), store.as_ref()));
    let code = gpu.chain().code_by();
    let asked = Asked { target, isa, seed: question.seed };
    // The emulator runs the variants in parallel, the GPU one at a time.
    let emulated: Vec<_> = variants.par_iter().map(|v| execute::emulated(v, asked)).collect();
    let runs = variants.iter().zip(emulated).map(|(v, want)| execute::run(&mut gpu, &code, v, asked, want));
    Ok((runs.collect(), gpu))
}

/// Runs variants on the GPU and adds the results to `record`.
pub(super) fn snippets(
    gpu: GpuDevice,
    variants: &[&snippet::Variant],
    record: &mut Record,
) -> Result<GpuDevice, JobError> {
    let question = Question { target: None, toolkit: None, seed: SEED };
    record.devices.push(row(&gpu.name(), gpu.about()));
    let (runs, gpu) = variants_on_gpu(variants, gpu, &question)?;
    record.runs.extend(runs);
    Ok(gpu)
}

/// Runs the part of the pipeline's default set that the toolchain and the GPU admit, and adds the rows to `record`. Cases that are
/// not swept over all tiles run first. The sweep follows in pseudo-random order, so that running out of time leaves an even sample.
pub(super) fn pipeline(
    (gpu, time): (GpuDevice, Duration),
    nvrtc: &Nvrtc,
    (store, context): (Option<&Store>, &Context<'_>),
    record: &mut Record,
) -> Result<(), JobError> {
    let began = Instant::now();
    let target = gpu.about().target();
    let limits = limits(gpu.about());
    let name = gpu.name();
    let kernels = Library::embedded()?;
    let toolchain = Toolchain::find(None, &[target], store, context.sink)?;
    let code = chain(toolchain.as_ref().map(|t| &t.toolkit), store);
    let gpu = Arc::new(Mutex::new(gpu.with_chain(code)));
    let runner = Runner::new(&kernels, nvrtc, store, context.program.clone()).on(gpu);
    let ask = |asked: Vec<SharedTrial>, deadline| -> Result<Vec<TrialRow>, JobError> {
        let (asked, chain) = ([(target, asked)], toolchain.as_ref());
        Ok(trials::run(&runner, &asked, chain, limits, |_| true, (deadline, context.sink))?.rows)
    };
    let set: Vec<SharedTrial> = families::FAMILIES.into_iter().flat_map(trials::default_set).collect();
    let all = trials::admitted(&set, &kernels, toolchain.as_ref(), target, limits)?;
    let (free, blocked): (Vec<_>, Vec<_>) = all.into_iter().partition(|t| t.blocked().is_none());
    let mut order: Vec<((bool, u64), SharedTrial)> = Vec::new();
    for (n, trial) in free.into_iter().enumerate() {
        let (n, swept) = (n as u64, trial.is_swept());
        order.push(((swept, if swept { random::mix(n) } else { n }), trial));
    }
    order.sort_by_key(|(place, _)| *place);
    let free: Vec<SharedTrial> = order.into_iter().map(|(_, trial)| trial).collect();
    let wanted = free.len();
    let rows = ask(free, Some(began + time))?;
    let begun = rows.len();
    record.trials.extend(rows);
    record.trials.extend(ask(blocked, None)?);
    if begun < wanted {
        let reason = format!(
            "{} of {wanted} trials did not start within {} s; raise --gpu-time, or run `sm121probe moe --device \
            {name}` for all of the pipeline",
            wanted - begun,
            time.as_secs()
        );
        let part = format!("the rest of the trials on {name}");
        record.skipped.push(SkippedRow { part, reason, needed: false });
    }
    Ok(())
}
