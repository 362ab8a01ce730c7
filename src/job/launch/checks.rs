//! The checks of a session's launches on a device: they load, run, are correct, and repeat their results, also in a graph.

use std::convert::Infallible;
use std::time::Instant;

use emulator::device::{Device as _, Failure};
use emulator::trials::{Plan, Rules};
use ptx::arch::{Suffix, Target};

use super::error::LaunchError;
use super::expect::Checked;
use super::judged::Judged;
use super::on_gpu::OnGpu;
use super::session::Session;
use crate::frame::checks::{self, NotPassed};
use crate::gpu::GpuDevice;
use crate::job::{JobError, chain, ptxas};
use crate::record::{Check, CodeBy, EMULATOR, VariantRun, Verdict, counted};
use crate::store::Store;

/// How often the launches are repeated, with and without a graph.
const REPEATS: usize = 10;

/// The checks.
const CHECKS: [Check; 5] = [Check::Loads, Check::Runs, Check::Correct, Check::Deterministic, Check::Graph];

/// What the emulator says of a session's launches.
pub struct Emulated {
    /// The results, and the verdict on all trials.
    pub judged: Judged,
    /// A violation, a difference, or what PTX leaves open.
    pub failure: Option<LaunchError>,
}

impl Session {
    /// Runs the launches on the emulator of a target's hardware, with every rule, and asks whether PTX leaves the results open.
    ///
    /// # Errors
    /// [`LaunchError`] if they cannot run.
    pub fn emulated(&mut self, target: Target) -> Result<Emulated, LaunchError> {
        let plan = Plan {
            rules: Rules::All,
            strict: true,
            model: Some(emulator::model_of(target.number.into())),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            ..Plan::default()
        };
        let judged = self.judge(&plan, |launching, memory| -> Result<_, LaunchError> {
            Ok(launching.collect(memory).0)
        })?;
        match self.failure(&judged.verdict, &plan) {
            Some(failure) if !failure.is_finding() => Err(failure),
            failure => Ok(Emulated { judged, failure }),
        }
    }

    /// Runs the checks of the launches on a GPU, whose results are compared with those of the emulator; without a GPU, on the emulator,
    /// whose results are compared with those that the session expects. `name` is theirs in the record; `toolkit` is the ptxas for the GPU.
    ///
    /// # Errors
    /// [`LaunchError`] if the launches cannot run on the emulator, or their code not on this GPU.
    pub fn checked(
        &mut self,
        name: &str,
        gpu: Option<GpuDevice>,
        toolkit: Option<&str>,
    ) -> Result<VariantRun, LaunchError> {
        let own = self.modules.iter().find_map(|module| ptx::scan::target(&module.text));
        let own = own.ok_or(LaunchError::NoTarget)?;
        let begun = Instant::now();
        let (target, device, code, checks) = match gpu {
            None => {
                let emulated = self.emulated(own)?;
                let results = in_order(|check| emulated.check(check));
                (own, EMULATOR.to_owned(), CodeBy::Nobody, results)
            }
            Some(gpu) => {
                let (mut gpu, target) = with_code_for(gpu, own, toolkit)?;
                // What files expect is what some machine computed; here the emulator's own results are compared.
                self.expectations.clear();
                let of_gpu = OfGpu { emulated: self.emulated(target)?, session: self };
                let results = in_order(|check| of_gpu.check(check, &mut gpu));
                (target, gpu.name(), gpu.chain().code_by(), results)
            }
        };
        let (variant, target) = (name.to_owned(), target.into());
        Ok(VariantRun { variant, target, device, code, checks, seconds: begun.elapsed().into() })
    }
}

/// The GPU with what assembles the code, and the code's target. The driver compiles PTX for earlier GPUs, as it does for programs.
fn with_code_for(
    gpu: GpuDevice,
    own: Target,
    toolkit: Option<&str>,
) -> Result<(GpuDevice, Target), LaunchError> {
    let mine = gpu.about().target();
    let store = Store::open(None).ok();
    if own.cubin_runs_on(mine) {
        let ptxas = ptxas(toolkit, store.as_ref())?;
        return Ok((gpu.with_chain(chain(ptxas.as_ref(), store.as_ref())), own));
    }
    if own.suffix == Suffix::Base && own.number <= mine.number {
        return Ok((gpu.with_chain(chain(None, store.as_ref())), mine));
    }
    Err(JobError::DeviceTarget(own.to_string(), gpu.about().architecture()).into())
}

/// Runs the checks in order.
fn in_order(mut one: impl FnMut(Check) -> Result<String, NotPassed>) -> Vec<crate::record::CheckResult> {
    checks::in_order(&CHECKS, |check| Ok(one(check))).unwrap_or_else(|never: Infallible| match never {})
}

impl Emulated {
    /// A check of the launches on the emulator.
    fn check(&self, check: Check) -> Result<String, NotPassed> {
        match check {
            Check::Runs if !self.is_open() => self.conforms(),
            Check::Deterministic => self.conforms(),
            Check::Correct => correct(&self.judged.checked),
            Check::Graph => Err(NotPassed::new(Verdict::Skipped, "the emulator has no graphs of launches")),
            _ => Ok(String::new()),
        }
    }

    /// Whether the launches keep the rules and leave results open.
    const fn is_open(&self) -> bool {
        matches!(self.failure, Some(LaunchError::Differs(_) | LaunchError::Undetermined(_)))
    }

    /// Whether the launches keep the rules of PTX, which then determines their results.
    fn conforms(&self) -> Result<String, NotPassed> {
        match &self.failure {
            None => Ok(String::new()),
            Some(open @ LaunchError::Undetermined(_)) => {
                Err(NotPassed::new(Verdict::Undetermined, open.to_string()))
            }
            Some(failure) => Err(NotPassed::new(Verdict::Fail, failure.to_string())),
        }
    }
}

/// Whether what was expected came out.
fn correct(checked: &[Checked]) -> Result<String, NotPassed> {
    if checked.is_empty() {
        return Err(NotPassed::new(Verdict::Skipped, "no result is expected: a launch file can say one"));
    }
    match checked.iter().find(|of| of.wrong > 0 || of.compared == 0) {
        None => Ok(format!(
            "{} as expected",
            checked.iter().map(|of| of.buffer.as_str()).collect::<Vec<_>>().join(", ")
        )),
        Some(Checked { buffer, wrong: 0, why, .. }) => {
            let why = why.as_deref().unwrap_or_default();
            Err(NotPassed::new(Verdict::Skipped, format!("{buffer}: nothing was compared: {why}")))
        }
        Some(Checked { buffer, wrong, elements, .. }) => {
            let note = format!(
                "{buffer}: {wrong} of {} wrong; `emulate` shows the first",
                counted(*elements, "element")
            );
            Err(NotPassed::new(Verdict::Fail, note))
        }
    }
}

/// What the checks on a GPU need.
struct OfGpu<'a> {
    session: &'a Session,
    emulated: Emulated,
}

impl OfGpu<'_> {
    fn check(&self, check: Check, gpu: &mut GpuDevice) -> Result<String, NotPassed> {
        let images: Result<Vec<_>, Failure> =
            self.session.modules.iter().map(|module| gpu.chain().image(&module.text)).collect();
        let mut on = images.and_then(|images| self.session.on_gpu(gpu, &images)).map_err(|failure| {
            match failure {
                // A rejection of the code is not a failure: the device lacks the instruction.
                Failure::Unsupported(words) => NotPassed::new(Verdict::Blocked, words),
                failure => failure.into(),
            }
        })?;
        match check {
            Check::Loads => Ok(String::new()),
            Check::Runs => Ok(on.run().map(|_| String::new())?),
            Check::Correct => {
                self.emulated.conforms()?;
                self.compare(&on.run()?)?;
                Ok("every result agrees with the emulator".to_owned())
            }
            _ => {
                let graph = (check == Check::Graph).then(|| on.capture()).transpose()?;
                self.repeat(&mut on, |on| match graph {
                    Some(graph) => on.replay(graph),
                    None => on.run(),
                })
            }
        }
    }

    /// Runs the launches several times from the same memory.
    fn repeat<'a>(
        &self,
        on: &mut OnGpu<'a>,
        mut run: impl FnMut(&mut OnGpu<'a>) -> Result<Vec<Vec<u8>>, Failure>,
    ) -> Result<String, NotPassed> {
        for n in 1..=REPEATS {
            let done = run(on).map_err(NotPassed::from);
            done.and_then(|results| self.compare(&results)).map_err(|not| not.at(format!("run {n}")))?;
        }
        Ok(format!("{REPEATS} runs"))
    }

    fn compare(&self, results: &[Vec<u8>]) -> Result<(), NotPassed> {
        let Some(outcome) = &self.emulated.judged.outcome else {
            return Err(NotPassed::new(Verdict::Skipped, "the emulator has no results"));
        };
        match self.session.difference(results, outcome) {
            None => Ok(()),
            Some(difference) => Err(NotPassed::new(Verdict::Fail, difference)),
        }
    }
}
