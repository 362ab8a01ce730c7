//! Launches: arguments, the trials of the emulated grid, and the handling of their verdict.
#![expect(unsafe_code, reason = "memory that the program shares")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emulator::events::ViolationRecord;
use emulator::trials::{
    Cause, Door, Launched as Ran, Launching, Plan, ResultBuffer, Rules, Step, Verdict, judge,
};
use emulator::{
    GlobalMemory, Kernel, Launch, Options, Place, Program, Progress, Rule, Stop, Trap, refused_configuration,
};

use crate::device::allocations::Allocation;
use crate::device::arguments::Arguments;
use crate::device::limits::Limits;
use crate::device::record::Recorder;
use crate::device::results::{Results, refusal};
use crate::device::state::Device;
use crate::device::work::{Function, KernelWork, Shape};
use crate::program::host_memory;
use crate::status::Status;

/// The number of bytes of all allocations up to which a launch keeps the memory before it although it has a single trial.
const SMALL: usize = 256 << 20;

/// The shared memory of a block, static and dynamic, beyond which a program must ask for it (`cudaFuncSetAttribute`).
const SHARED_WITHOUT_OPT_IN: u32 = 48 << 10;

/// The most dynamic shared memory of a launch of a kernel with so much static one: what the program has set, or what needs no setting.
pub(crate) fn most_dynamic_shared(set: Option<u32>, static_shared: u32) -> u32 {
    set.unwrap_or(SHARED_WITHOUT_OPT_IN.saturating_sub(static_shared))
}

/// The number of launches of a kernel in which the lowest lane is tried after its stores were seen to overlap.
const LANE_TRIALS: u32 = 16;

/// The result of a launch; the caller prints the text after releasing the lock.
pub(crate) struct Launched {
    pub(crate) status: Result<(), Status>,
    pub(crate) printed: Vec<String>,
}

impl Device {
    /// Offset and size in bytes of each parameter of a kernel.
    pub(crate) fn parameters(&mut self, function: &Function) -> Result<Vec<(usize, usize)>, Status> {
        let module = self.modules.get_mut(&function.module).ok_or(Status::INVALID_HANDLE)?;
        let program = match module.program(&function.name) {
            Ok(program) => program,
            Err(stop) => {
                let why = refusal(&stop).unwrap_or_default();
                return Err(self.refuse(&function.name, why));
            }
        };
        let kernel = program.kernel(&function.name).ok_or(Status::INVALID_DEVICE_FUNCTION)?;
        Ok(kernel.params.iter().map(|p| (p.offset, p.size)).collect())
    }

    pub(crate) fn refuse(&mut self, kernel: &str, why: String) -> Status {
        self.results.refused(kernel, why);
        Status::NOT_SUPPORTED
    }

    /// Collects the bytes of all parameters of a kernel.
    pub(crate) fn gather(
        &mut self,
        function: &Function,
        arguments: &dyn Arguments,
    ) -> Result<Vec<u8>, Status> {
        let parameters = self.parameters(function)?;
        let end = parameters.iter().map(|(at, size)| at + size).max().unwrap_or(0);
        let mut params = vec![0; end];
        for (n, (at, size)) in parameters.iter().enumerate() {
            let bytes = arguments.bytes(n, *at, *size).ok_or(Status::INVALID_VALUE)?;
            params[*at..*at + *size].copy_from_slice(&bytes);
        }
        Ok(params)
    }

    /// Runs a kernel.
    pub(crate) fn launch(&mut self, kernel: &KernelWork) -> Launched {
        let mut printed = Vec::new();
        let status = self.run(kernel, &mut printed);
        Launched { status, printed }
    }

    fn run(
        &mut self,
        KernelWork { function, gpu, shape, params, set_shared, .. }: &KernelWork,
        printed: &mut Vec<String>,
    ) -> Result<(), Status> {
        self.healthy()?;
        self.report_unwritten();
        self.results.begins(&function.name);
        let began = Instant::now();
        let progress = self.progress(function);
        let hidden = self.hide_from(*gpu);
        let result = self.emulate(function, (shape, *set_shared), params, (progress.as_ref(), printed));
        self.show(hidden);
        self.give_shared();
        let late = progress.is_some_and(|progress| end_message(&progress));
        let (verdict, stop) = match result {
            Ok(mut verdict) => {
                let stop = verdict.stopped.take().map(|stopped| stopped.stop);
                (Some(verdict), stop)
            }
            Err(NotLaunched::Refused(status, why)) => {
                self.results.drop_launch();
                self.results.remark(format!(
                    "CUDA refuses a launch of {}, here and on a GPU: {why}; nothing was launched",
                    function.name
                ));
                return Err(status);
            }
            Err(NotLaunched::Stopped(stop)) => (None, Some(stop)),
        };
        let finished = verdict.as_ref().filter(|verdict| verdict.finished);
        let instructions = finished.map_or(0, |verdict| verdict.instructions.iter().sum());
        // One microsecond per launch and one nanosecond per 16 warp instructions: a nonzero time to divide by, not a prediction.
        self.streams.now += 1000 + instructions / 16;
        if let Some(verdict) = &verdict {
            self.results.judged(&function.name, verdict, &self.plan);
        }
        let status = match &stop {
            None => Ok(()),
            // How far a launch comes in a time depends on the machine: its end is no violation.
            Some(Stop::Trap(trap)) if trap.rule == Rule::Fuel && late => {
                let what = format!("a launch was ended by --time-limit: {}; {}", trap.what, trap.place);
                self.results.unchecked(what);
                Err(Status::TIMEOUT)
            }
            Some(Stop::Trap(trap)) => Err(status_of(trap.rule, &trap.what)),
            Some(stop) => {
                self.results.drop_launch();
                let why = refusal(stop).unwrap_or_default();
                let refused = self.refuse(&function.name, why);
                return Err(if matches!(stop, Stop::Launch(_)) {
                    Status::INVALID_CONFIGURATION
                } else {
                    refused
                });
            }
        };
        self.launches += 1;
        self.executed += instructions;
        self.results.launched(&function.name, instructions, began.elapsed());
        if let Some(Stop::Trap(trap)) = &stop
            && !(trap.rule == Rule::Fuel && late)
        {
            self.results.violated(vec![ViolationRecord::from_trap(trap, 1)]);
        }
        match status {
            Err(status) if !self.keep_going => {
                self.sticky = Some(status);
                Err(status)
            }
            _ => Ok(()),
        }
    }

    /// The progress of a launch that begins now, if it has a limit or is shown.
    fn progress(&self, function: &Function) -> Option<Arc<Progress>> {
        let Limits { time, terminal, .. } = self.limits;
        let kernel = function.name.clone();
        let show = move |passed: Duration, instructions: u64| {
            let seconds = passed.as_secs();
            _ = write!(
                std::io::stderr(),
                "{ERASE}sm121probe exec: {kernel} has run for {seconds} s, {instructions} warp instructions"
            );
        };
        (time.is_some() || terminal)
            .then(|| Arc::new(Progress::new(time, terminal.then(|| Box::new(show) as Box<_>))))
    }

    /// Copies what kernels have written in memory that the host shares to the host.
    fn give_shared(&mut self) {
        let shared = std::mem::take(&mut self.shared);
        for (address, len) in &shared {
            self.remark_shared_undefined(*address, *len);
            // SAFETY: the allocation exists, so that the host has its bytes.
            unsafe { host_memory::give(&mut self.memory, *address, *len) };
        }
        self.shared = shared;
    }

    fn emulate(
        &mut self,
        function: &Function,
        (shape, set_shared): (&Shape, Option<u32>),
        params: &[u8],
        (progress, printed): (Option<&Arc<Progress>>, &mut Vec<String>),
    ) -> Result<Verdict, NotLaunched> {
        let gone = || Stop::Launch("the module is unloaded".to_owned());
        let gpu = self.gpu;
        let module = self.modules.get_mut(&function.module).ok_or_else(gone)?;
        module.take_constants(&mut self.memory, &function.name);
        let constants = if self.recorder.is_some() { module.constants(&self.memory) } else { Vec::default() };
        let program = module.program(&function.name)?;
        let kernel = program.kernel(&function.name).ok_or_else(gone)?;
        let Shape { grid, block, shared_bytes, cluster, cooperative } = *shape;
        let mut params = params.to_vec();
        params.resize(kernel.param_bytes, 0);
        let launch = Launch { grid, block, shared_bytes, params };
        let static_shared = kernel.shared_bytes;
        let dynamic = most_dynamic_shared(set_shared, static_shared);
        if shared_bytes > dynamic {
            let why = format!(
                "{shared_bytes} bytes of dynamic shared memory; without cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize) or with \
                 what it has set, {dynamic} are the most"
            );
            return Err(NotLaunched::Refused(Status::INVALID_VALUE, why));
        }
        if let Some(why) = refused_configuration(kernel, &launch, cluster, program.arch()) {
            return Err(NotLaunched::Refused(Status::INVALID_CONFIGURATION, why));
        }
        let threads = block.iter().product();
        let fit = gpu.blocks_per_sm(threads, u64::from(static_shared) + u64::from(shared_bytes)) * gpu.sms;
        let blocks: u64 = grid.iter().map(|n| u64::from(*n)).product();
        if cooperative && blocks > u64::from(fit) {
            let why = format!("a cooperative launch of {blocks} CTAs, of which {fit} fit on the GPU at once");
            return Err(NotLaunched::Refused(Status::COOPERATIVE_LAUNCH_TOO_LARGE, why));
        }
        let step =
            Step { program, kernel: &function.name, launch, cluster, cooperative, shift_shared: false };
        // A kernel whose stores overlap, or whose lanes conflict, shows it in its first launch, or not for long.
        let tried = self.lane_trials.entry(function.name.clone()).or_insert(None);
        let bytes = || self.allocations.values().map(|allocation| allocation.len).sum::<usize>();
        let keep_before = tried.is_none_or(|tried| (1..=LANE_TRIALS).contains(&tried)) && bytes() <= SMALL;
        let plan = Plan { keep_before, ..self.plan.clone() };
        let contracted = self.contracted.entry(function.module).or_default();
        let mut launcher = Launcher {
            allocations: &self.allocations,
            recorder: &mut self.recorder,
            results: &mut self.results,
            recorded: (program, kernel, shape, &constants),
            printed,
            progress,
            stack_bytes: self.stack_bytes.map(|bytes| bytes as u64),
        };
        let Ok(verdict) = judge(&mut launcher, &[step], &mut self.memory, &plan, contracted);
        let shows = !verdict.undetermined_stores.is_empty() || verdict.lanes_conflict;
        *tried = Some(tried.unwrap_or(0) + u32::from(shows));
        Ok(verdict)
    }
}

/// Moves a terminal's cursor to the start of the line, and erases it.
const ERASE: &str = "\r\x1b[K";

/// Erases the message of a launch that has ended; returns whether the launch was over its limit.
fn end_message(progress: &Progress) -> bool {
    if progress.has_notified() {
        _ = write!(std::io::stderr(), "{ERASE}");
    }
    progress.is_over()
}

/// Why a launch has no verdict.
enum NotLaunched {
    /// CUDA refuses its configuration, with this status.
    Refused(Status, String),
    Stopped(Stop),
}

impl From<Stop> for NotLaunched {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// A launch as it is recorded: its kernel and shape, and the constants of the module.
type Recorded<'a> = (&'a Program, &'a Kernel, &'a Shape, &'a [(String, Vec<u8>)]);

/// What performs the launches of a program for the trials of one launch.
struct Launcher<'a> {
    allocations: &'a BTreeMap<u64, Allocation>,
    recorder: &'a mut Option<Recorder>,
    results: &'a mut Results,
    /// The launch as it is recorded.
    recorded: Recorded<'a>,
    printed: &'a mut Vec<String>,
    progress: Option<&'a Arc<Progress>>,
    stack_bytes: Option<u64>,
}

impl Door for Launcher<'_> {
    type Error = Infallible;

    fn results(&self) -> Vec<ResultBuffer> {
        let result = |(at, a): (&u64, &Allocation)| ResultBuffer::untyped(format!("{at:#x}"), *at, a.len);
        self.allocations.iter().map(result).collect()
    }

    fn launch(&mut self, launching: &Launching<'_>, memory: &mut GlobalMemory) -> Result<Ran, Infallible> {
        let options = &Options {
            progress: self.progress.cloned(),
            stack_bytes: self.stack_bytes,
            ..launching.options.clone()
        };
        let launching = &Launching { options, ..*launching };
        if !launching.is_first {
            return Ok(launching.collect(memory).0);
        }
        let (program, kernel, shape, constants) = self.recorded;
        let begun = match &mut self.recorder {
            Some(recorder) => {
                // Place the variables before recording; otherwise the launch would place them.
                program.place_variables(memory);
                let launched = (shape, launching.step.launch.params.as_slice());
                match recorder.begin((program, kernel), constants, launched, memory) {
                    Ok(begun) => Some(begun),
                    Err(error) => {
                        self.stop_recording(&error);
                        None
                    }
                }
            }
            None => None,
        };
        let (ran, printed) = launching.collect(memory);
        *self.printed = printed;
        if let (Some(recorder), Some(begun)) = (&self.recorder, begun) {
            let trap = match &ran.counts {
                Err(Stop::Trap(trap)) => Some(&**trap),
                _ => None,
            };
            if ran.counts.is_err() && trap.is_none() {
                Recorder::drop(&begun);
            } else if let Err(error) = recorder.end(begun, memory, trap) {
                self.stop_recording(&error);
            }
        }
        Ok(ran)
    }
}

impl Launcher<'_> {
    fn stop_recording(&mut self, error: &std::io::Error) {
        self.results.unchecked(format!("launches are no longer recorded: {error}"));
        *self.recorder = None;
    }
}

impl Results {
    /// Records what the trials of a launch show, apart from the violation that stopped one.
    fn judged(&mut self, kernel: &str, verdict: &Verdict, plan: &Plan) {
        let records =
            verdict.violations.iter().map(|v| ViolationRecord::from_trap(&v.trap, v.times)).collect();
        // Under other rules the results decide.
        if verdict.rules == Rules::All {
            self.violated(records)
        } else {
            self.listed(records)
        }
        for difference in &verdict.differences {
            let rule = match difference.cause {
                Cause::Race => Rule::Race,
                Cause::SharedBase => Rule::Misaligned,
                Cause::Filling => Rule::Uninitialised,
                Cause::Schedule => {
                    self.differs(kernel, &format!("nondeterministic: {difference}"), plan.require_equal);
                    continue;
                }
            };
            let place = Place { kernel: kernel.to_owned(), ..Place::default() };
            let trap = Trap::new(rule, difference.to_string(), place);
            self.violated(vec![ViolationRecord::from_trap(&trap, 1)]);
        }
        for open in verdict.undetermined.iter().flatten() {
            self.differs(kernel, &open.to_string(), plan.strict);
        }
        for store in verdict.undetermined_stores.iter().filter(|_| !verdict.lanes_tried) {
            let what = format!(
                "undetermined by PTX: {}; {}; its effect on results was not tried",
                store.what, store.place
            );
            self.differs(kernel, &what, false);
        }
        if plan.strict {
            for remark in &verdict.remarks {
                self.remark_at(&remark.place, format!("{}; {}", remark.what, remark.place));
            }
        }
    }
}

/// The status that CUDA returns for a violation.
fn status_of(rule: Rule, what: &str) -> Status {
    match rule {
        Rule::OutOfBounds | Rule::UseAfterFree => Status::ILLEGAL_ADDRESS,
        Rule::Misaligned => Status::MISALIGNED,
        Rule::WrongSpace => Status::ADDRESS_SPACE,
        Rule::Fuel | Rule::Deadlock => Status::TIMEOUT,
        Rule::Explicit if what.contains("assert") => Status::ASSERT,
        _ => Status::LAUNCH_FAILED,
    }
}
