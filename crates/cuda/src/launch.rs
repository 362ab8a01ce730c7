//! Launches: arguments, the emulated grid, and the handling of violations.

use emulator::events::ViolationRecord;
use emulator::{InStream, Judge, Launch, Observer, Options, Rule, Stop};

use crate::device::{Device, Function};
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
        let shared: Vec<(u64, usize)> =
            self.allocations.iter().filter(|(_, a)| a.kind.on_host()).map(|(at, a)| (*at, a.len)).collect();
        shared.iter().for_each(|(at, len)| host_memory::take(&mut self.memory, *at, *len));
        let result = self.emulate(function, shape, params, heard);
        shared.iter().for_each(|(at, len)| host_memory::give(&self.memory, *at, *len));
        let mut violations = std::mem::take(&mut heard.violations);
        let (instructions, stop) = match result {
            Ok(instructions) => (instructions, None),
            Err(stop) => (0, Some(stop)),
        };
        // One microsecond per launch and one nanosecond per 16 warp instructions: a nonzero time to divide by, not a prediction.
        self.streams.now += 1000 + instructions / 16;
        let status = match &stop {
            None => Ok(()),
            Some(Stop::Trap(trap)) => {
                violations.push(ViolationRecord::of(trap, 1));
                Err(status_of(trap.rule, &trap.what))
            }
            Some(stop) => {
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

    fn emulate(
        &mut self,
        function: &Function,
        shape: &Shape,
        params: &[u8],
        heard: &mut Heard,
    ) -> Result<u64, Stop> {
        let options = Options {
            judge: Judge::Values,
            poison: 0,
            threads: self.threads,
            shift_shared: false,
            model: Some(self.model),
            ..Options::default()
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
        let before = (self.schedules > 1).then(|| {
            self.memory.share();
            self.memory.clone()
        });
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
        let counts = counts?;
        if let Some(before) = before {
            for seed in 1..self.schedules {
                let mut again = before.clone();
                let options = Options { seed, ..options.clone() };
                let mut other = Heard::default();
                let ended = emulator::launch_with(&step, &mut again, &options, &mut other);
                heard.violations.append(&mut other.violations);
                ended?;
                let differs = self.allocations.iter().find_map(|(at, a)| {
                    let (one, two) = (self.memory.range(*at, a.len)?, again.range(*at, a.len)?);
                    let byte = emulator::device::first_difference(one, two)?;
                    Some((*at, byte))
                });
                if let Some((at, byte)) = differs {
                    let what = format!(
                        "schedules 0 and {seed} leave different values at byte {byte} of the allocation at {at:#x}"
                    );
                    let place = emulator::Place { kernel: function.name.to_string(), ..Default::default() };
                    let trap = emulator::Trap { rule: Rule::Race, what, place };
                    heard.violations.push(ViolationRecord::of(&trap, 1));
                }
            }
        }
        Ok(counts.warp_instructions)
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
