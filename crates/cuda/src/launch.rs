//! Launches: arguments, the emulated grid, and the handling of violations.
#![expect(unsafe_code, reason = "memory that the program shares")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use emulator::events::ViolationRecord;
use emulator::{GlobalMemory, InStream, Judge, Launch, Observer, Options, Progress, Rule, Stop};

use crate::device::{Device, Function, Limits};
use crate::host_memory;
use crate::record::Recorder;
use crate::results::refusal;
use crate::status::Status;

/// The launch configuration of a kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) cooperative: bool,
}

/// The source of a launch's arguments.
pub(crate) trait Arguments {
    /// The bytes of parameter `n`, which is at `offset` and has `size` bytes.
    fn bytes(&self, n: usize, offset: usize, size: usize) -> Option<Vec<u8>>;
}

/// Output and violations of a running launch.
#[derive(Default)]
struct Heard {
    printed: Vec<String>,
    violations: Vec<ViolationRecord>,
}

impl Observer for Heard {
    const WATCHES: bool = false;

    fn row(&mut self, _: &emulator::Executed<'_>) {}

    fn printed(&mut self, text: &str) {
        self.printed.push(text.to_owned());
    }

    fn violation(&mut self, violation: &emulator::Violation) {
        self.violations.push(ViolationRecord::of(&violation.trap, violation.times));
    }
}

/// The result of a launch; the caller prints the text after releasing the lock.
pub(crate) struct Launched {
    pub(crate) status: Result<(), Status>,
    pub(crate) printed: Vec<String>,
}

impl Device {
    /// Offset and size in bytes of each parameter of a kernel.
    pub(crate) fn parameters(&mut self, function: &Function) -> Result<Vec<(usize, usize)>, Status> {
        let module = self.modules.get_mut(function.module).ok_or(Status::INVALID_HANDLE)?;
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
    pub(crate) fn launch(&mut self, function: &Function, shape: &Shape, params: &[u8]) -> Launched {
        let mut heard = Heard::default();
        let status = self.run(function, shape, params, &mut heard);
        Launched { status, printed: heard.printed }
    }

    fn run(
        &mut self,
        function: &Function,
        shape: &Shape,
        params: &[u8],
        heard: &mut Heard,
    ) -> Result<(), Status> {
        self.healthy()?;
        self.results.begins(&function.name);
        let progress = self.progress(function);
        let result = self.emulate(function, shape, params, (progress.as_ref(), heard));
        self.give_shared();
        let late = progress.is_some_and(|progress| end_message(&progress));
        let mut violations = std::mem::take(&mut heard.violations);
        let (instructions, stop) = match result {
            Ok(instructions) => (instructions, None),
            Err(stop) => (0, Some(stop)),
        };
        // One microsecond per launch and one nanosecond per 16 warp instructions: a nonzero time to divide by, not a prediction.
        self.streams.now += 1000 + instructions / 16;
        let status = match &stop {
            None => Ok(()),
            // How far a launch comes in a time depends on the machine: its end is no violation.
            Some(Stop::Trap(trap)) if trap.rule == Rule::Fuel && late => {
                let what = format!("a launch was ended by --time-limit: {}; {}", trap.what, trap.place);
                self.results.unchecked(what);
                Err(Status::TIMEOUT)
            }
            Some(Stop::Trap(trap)) => {
                violations.push(ViolationRecord::of(trap, 1));
                Err(status_of(trap.rule, &trap.what))
            }
            Some(stop) => {
                self.results.drop_launch();
                // What the launch violated before it stopped is reported too.
                self.results.violated(violations);
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
        self.results.launched(&function.name, instructions);
        self.results.violated(violations);
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
        shape: &Shape,
        params: &[u8],
        (progress, heard): (Option<&Arc<Progress>>, &mut Heard),
    ) -> Result<u64, Stop> {
        let usual = Options::default();
        let options = Options {
            judge: Judge::Values,
            poison: self.limits.poison,
            fuel: self.limits.fuel.unwrap_or(usual.fuel),
            progress: progress.cloned(),
            threads: self.threads,
            shift_shared: false,
            model: Some(self.model),
            ..usual
        };
        let gone = || Stop::Launch("the module is unloaded".to_owned());
        let module = self.modules.get_mut(function.module).ok_or_else(gone)?;
        module.take_constants(&mut self.memory, &function.name);
        let constants = if self.recorder.is_some() { module.constants(&self.memory) } else { Vec::default() };
        let program = module.program(&function.name)?;
        let kernel = program.kernel(&function.name).ok_or_else(gone)?;
        let Shape { grid, block, shared_bytes, cluster, cooperative } = shape.clone();
        let mut params = params.to_vec();
        params.resize(kernel.param_bytes, 0);
        let launch = Launch { grid, block, shared_bytes, params };
        let step = InStream { cluster, cooperative, ..InStream::new(program, kernel, &launch) };
        let begun = match &mut self.recorder {
            Some(recorder) => {
                // Place the variables before recording; otherwise the launch would place them.
                program.place_variables(&mut self.memory);
                let launched = (shape, launch.params.as_slice());
                match recorder.begin((program, kernel), &constants, launched, &self.memory) {
                    Ok(begun) => Some(begun),
                    Err(error) => {
                        self.results.unchecked(format!("launches are no longer recorded: {error}"));
                        self.recorder = None;
                        None
                    }
                }
            }
            None => None,
        };
        let before = (self.schedules > 1).then(|| Before::viewed_by(&mut self.memory));
        let counts = emulator::launch_with(&step, &mut self.memory, &options, heard);
        if let (Some(recorder), Some(begun)) = (&self.recorder, begun) {
            let trap = match &counts {
                Err(Stop::Trap(trap)) => Some(&**trap),
                _ => None,
            };
            if counts.is_err() && trap.is_none() {
                Recorder::drop(&begun);
            } else if let Err(error) = recorder.end(begun, &self.memory, trap) {
                self.results.unchecked(format!("launches are no longer recorded: {error}"));
                self.recorder = None;
            }
        }
        let mut result = counts.map(|counts| counts.warp_instructions);
        if let Some(before) = before {
            for seed in 1..self.schedules {
                if result.is_err() {
                    break;
                }
                let mut again = before.memory();
                let options = Options { seed, ..options.clone() };
                let mut other = Heard::default();
                let ended = emulator::launch_with(&step, &mut again, &options, &mut other);
                heard.violations.append(&mut other.violations);
                if let Err(stop) = ended {
                    result = Err(stop);
                } else if let Some((at, byte)) = self.memory.first_difference_between(&again) {
                    let what = format!(
                        "schedules 0 and {seed} leave different values at byte {byte} of the allocation at {at:#x}"
                    );
                    let place = emulator::Place { kernel: function.name.to_string(), ..Default::default() };
                    let trap = emulator::Trap { rule: Rule::Race, what, place };
                    heard.violations.push(ViolationRecord::of(&trap, 1));
                }
            }
            before.end(&mut self.memory);
        }
        result
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

/// The memory before a launch, which each of its runs sees through a view: a run copies the pages that it writes.
struct Before {
    memory: GlobalMemory,
    view: GlobalMemory,
}

impl Before {
    /// Replaces the memory by a view of it.
    fn viewed_by(memory: &mut GlobalMemory) -> Self {
        let view = memory.view();
        Self { memory: std::mem::replace(memory, view.clone()), view }
    }

    /// The memory for another run.
    fn memory(&self) -> GlobalMemory {
        self.view.clone()
    }

    /// Keeps what the first run has written.
    fn end(self, memory: &mut GlobalMemory) {
        let Self { memory: mut all, view } = self;
        // Now the first run's view is the only one, so that only its pages are copied.
        drop(view);
        all.settle(std::mem::take(memory));
        *memory = all;
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
