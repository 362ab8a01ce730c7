//! `vectors record`, and new results of a GPU for `selftest --device`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use vectors::digests::Digests;
use vectors::{Recording, WarpOp};

use super::device::{DeviceArgs, DeviceName};
use super::error::CliError;
use super::on_gpu::OnGpuError;
use super::output;
use crate::event::{Event, Sink};
use crate::gpu::GpuDevice;
use crate::job::{self, Context};
use crate::report;
use crate::selftest::{self, Answerer, Ask, Fresh};
use crate::store::Store;

/// Verbs of `vectors`.
#[derive(Debug, Subcommand)]
pub(super) enum VectorsVerb {
    /// Record the answers of a GPU for `selftest --vectors`, and check the emulator's assumptions on it
    Record {
        /// Output folder, or output file that ends in .zip
        path: PathBuf,
        /// Run the instructions of this recording instead of the built-in ones (repeatable)
        #[arg(long, value_name = "DIR")]
        like: Vec<PathBuf>,
        /// Also record digests of the special functions' results for all inputs in FILE, for `selftest --exhaustive`
        #[arg(long, value_name = "FILE.json")]
        exhaustive: Option<PathBuf>,
        #[command(flatten)]
        fresh: FreshArgs,
    },
}

/// Warps that execute each instruction, unless a number is given.
const CASES: u32 = 40;

/// Options that select the GPU and the instructions.
#[derive(Debug, Clone, Args)]
pub(super) struct FreshArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// With --device gpu:N: warps that execute each instruction [default: 40]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    cases: Option<u32>,
    /// With --device gpu:N: seed of the inputs
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// With --device gpu:N: ptxas for the GPU's code: 13.5, 13.5.37 or a path [default: the newest]
    #[arg(long, short = 'k', value_name = "V")]
    toolkit: Option<String>,
}

impl FreshArgs {
    /// Whether a GPU is to compute results.
    pub(super) fn asks_a_gpu(&self) -> bool {
        self.device.device != DeviceName::Emulator
    }

    /// The number of warps, if it is given.
    pub(super) const fn cases(&self) -> Option<u32> {
        self.cases
    }

    /// The GPU's name among devices.
    pub(super) const fn device(&self) -> DeviceName {
        self.device.device
    }

    /// Records the GPU's results; also returns the opened GPU.
    pub(super) fn record(&self, forms: &[WarpOp], context: &Context<'_>) -> Result<(Fresh, Asked), CliError> {
        let mut asked = self.open(context)?;
        let fresh = selftest::record(&mut asked.gpu, forms, &asked.ask, &asked.who)?;
        Ok((fresh, asked))
    }

    /// Records the GPU's digests of the special functions; also returns the opened GPU.
    pub(super) fn digests(&self, context: &Context<'_>) -> Result<(Digests, Asked), CliError> {
        let mut asked = self.open(context)?;
        let digests = asked.digests(context.sink)?;
        Ok((digests, asked))
    }

    /// Opens the GPU.
    fn open(&self, context: &Context<'_>) -> Result<Asked, CliError> {
        let Some(gpu) = self.device.gpu(context)? else { return Err(OnGpuError::NoGpuNamed.into()) };
        let store = Store::open(None).ok();
        let ptxas = job::ptxas(self.toolkit.as_deref(), store.as_ref())?;
        let about = gpu.about();
        let (target, isa) = job::code_of(about, ptxas.as_ref(), None)?;
        let ask = Ask { target, isa, cases: self.cases.unwrap_or(CASES) as usize, seed: self.seed };
        let who = Answerer {
            device: about.name.clone(),
            capability: format!("{}.{}", about.capability.0, about.capability.1),
            driver: driver_number(&about.cuda),
        };
        let gpu = gpu.with_chain(job::chain(ptxas.as_ref(), store.as_ref()));
        Ok(Asked { gpu, ask, who })
    }
}

/// The GPU that computes results, and the request.
pub(super) struct Asked {
    pub(super) gpu: GpuDevice,
    pub(super) ask: Ask,
    who: Answerer,
}

impl Asked {
    fn digests(&mut self, sink: &dyn Sink) -> Result<Digests, CliError> {
        let functions = selftest::record_digests(&mut self.gpu, (self.ask.target, self.ask.isa), sink)
            .map_err(|(op, failure)| OnGpuError::Answer(op, failure))?;
        let Answerer { device, capability, driver } = self.who.clone();
        Ok(Digests { device, capability, driver, functions })
    }
}

/// Converts `13.0` to 13000, the number of cuDriverGetVersion.
fn driver_number(cuda: &str) -> u64 {
    let mut numbers = cuda.split('.').map(|n| n.parse::<u64>().unwrap_or(0));
    1000 * numbers.next().unwrap_or(0) + 10 * numbers.next().unwrap_or(0)
}

/// Warns about instructions without a result.
pub(super) fn tell(fresh: &Fresh, sink: &dyn Sink) {
    if let Some((op, words)) = fresh.lacking.first() {
        let text = format!(
            "this GPU does not have {} of the instructions; the first is {op}: {words}",
            fresh.lacking.len()
        );
        sink.emit(Event::Warning { text });
    }
    for (op, failure) in &fresh.failed {
        sink.emit(Event::Warning { text: format!("{op} failed: {failure}") });
    }
}

/// Runs `vectors`.
pub(super) fn vectors(verb: &VectorsVerb, context: &Context<'_>) -> Result<(), CliError> {
    let VectorsVerb::Record { path, like, exhaustive, fresh } = verb;
    let recordings = if like.is_empty() {
        vectors::builtin()?
    } else {
        like.iter().map(|path| Recording::load(path)).collect::<Result<_, _>>()?
    };
    let (answers, mut asked) = fresh.record(&selftest::forms(&recordings), context)?;
    tell(&answers, context.sink);
    answers.recording.write(path, crate::record::write_atomic)?;
    let mut text = format!(
        "{} instructions, {} warps each, by {}: {}\nnot on this GPU: {}; failed: {}\n",
        answers.recording.ops.len(),
        asked.ask.cases,
        answers.recording.device,
        path.display(),
        answers.lacking.len(),
        answers.failed.len()
    );
    text.push_str(&settled(&mut asked));
    if let Some(file) = exhaustive {
        let digests = asked.digests(context.sink)?;
        digests.write(file, crate::record::write_atomic)?;
        let _ = writeln!(text, "special functions on all inputs, {}:", file.display());
        text.push_str(&report::exhaustive_text(&selftest::compare(&digests, context.sink)));
    }
    output::print(&text)?;
    match answers.failed.into_iter().next() {
        Some((op, failure)) => Err(OnGpuError::Answer(op, failure).into()),
        None => Ok(()),
    }
}

/// Tests each assumption of the emulator on the GPU.
fn settled(asked: &mut Asked) -> String {
    let mut out = String::from("assumptions of the emulator:\n");
    let Asked { gpu, ask, .. } = asked;
    for assumption in crate::assumptions::assumptions() {
        let line = match assumption.answer_on(gpu, ask.target, ask.isa) {
            Ok(words) => {
                let got = words.get(..assumption.expect.len()).unwrap_or_default();
                if got == assumption.expect {
                    "true on this GPU".to_owned()
                } else {
                    format!("FALSE on this GPU: {got:08x?} instead of {:08x?}", assumption.expect)
                }
            }
            Err(emulator::device::Failure::Unsupported(_)) => "this GPU has no such instruction".to_owned(),
            Err(failure) => format!("no answer: {failure}"),
        };
        let _ = writeln!(out, "  {:<24} {line}", assumption.name);
    }
    out
}
