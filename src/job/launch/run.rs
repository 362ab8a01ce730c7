//! Runs a trial on the emulator: all launches in order, on fresh memory.

use std::borrow::Cow;
use std::sync::Arc;

use emulator::{Counts, GlobalMemory, InStream, Judge, Launch, Options, Remark, Stop, Trap, Violation};

use super::error::LaunchError;
use super::session::{Initial, Session, Step};
use super::trials::{Findings, JudgeBy, Trial, Trials};

/// A module that cannot be loaded or a launch that failed, with the PTX.
#[derive(Debug, thiserror::Error)]
#[error("{stop}")]
pub struct Stopped {
    /// The name of the module in messages.
    pub name: String,
    /// Its PTX.
    pub text: String,
    /// The cause.
    pub stop: Stop,
}

/// Remarks and violations that the observer of a launch collected.
#[derive(Debug, Default)]
pub struct Heard {
    /// Remarks.
    pub remarks: Vec<Remark>,
    /// Violations after which the launch continued.
    pub violations: Vec<Violation>,
}

/// The results of a trial.
pub struct Outcome {
    /// The trial.
    pub trial: Trial,
    /// Warp instructions executed, by launch.
    pub instructions: Vec<u64>,
    /// The memory after the last launch.
    pub memory: GlobalMemory,
    /// The addresses of the buffers.
    pub addresses: Vec<u64>,
    /// Remarks.
    pub remarks: Vec<Remark>,
    /// Violations after which launches continued.
    pub violations: Vec<Violation>,
}

impl Outcome {
    /// Returns the bytes of a buffer. They are copied only if some are lent by the host and kernels have written others.
    #[must_use]
    pub fn bytes(&self, buffer: usize) -> Cow<'_, [u8]> {
        self.addresses.get(buffer).and_then(|at| self.memory.contents(*at)).unwrap_or_default()
    }

    /// Whether a buffer has the same bytes in another outcome of the same session.
    #[must_use]
    pub fn agrees(&self, other: &Self, buffer: usize) -> bool {
        let address = self.addresses.get(buffer);
        address.is_none_or(|at| self.memory.first_difference_of(*at, &other.memory).is_none())
    }

    /// Returns the number of unwritten bytes in a buffer.
    #[must_use]
    pub fn unwritten(&self, buffer: usize) -> usize {
        self.addresses.get(buffer).map_or(0, |at| self.memory.unwritten(*at))
    }
}

impl Session {
    /// Runs all launches on fresh memory. `launch` performs one launch, given its index, and returns its counts and what its observer
    /// collected.
    ///
    /// # Errors
    /// The errors of `launch`; [`LaunchError::Stopped`]; other errors if the session is invalid.
    pub fn run<E: From<LaunchError>>(
        &mut self,
        trial: Trial,
        trials: &Trials,
        mut launch: impl FnMut(
            usize,
            &InStream<'_>,
            &mut GlobalMemory,
            &Options,
        ) -> Result<(Result<Counts, Stop>, Heard), E>,
    ) -> Result<Outcome, E> {
        let judge = match trials.judge {
            JudgeBy::Strict => Judge::Strict,
            JudgeBy::Values => Judge::Values,
        };
        let Trial { seed, poison } = trial;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let Trials { fuel, model, .. } = *trials;
        let options = Options { seed, poison, judge, threads, fuel, model, ..Options::default() };
        let mut memory = self.base.clone();
        if trials.are_several() {
            memory.track_float_sums();
        }
        let addresses = self.place(&mut memory)?;
        for module in &self.modules {
            let Some(variables) = &module.variables else { continue };
            let at: Vec<u64> = variables.iter().map(|n| addresses[*n]).collect();
            if !module.program.adopt_variables(&mut memory, &at) {
                let what = format!("{} does not have {} variables in global memory", module.name, at.len());
                return Err(LaunchError::Fit(what).into());
            }
        }
        for variable in &self.variables {
            let bytes = variable.value.bytes(&addresses).map_err(LaunchError::Fit)?;
            let module = &mut self.modules[variable.module];
            let program = Arc::get_mut(&mut module.program)
                .ok_or_else(|| LaunchError::Fit(format!("{} is in use elsewhere", module.name)))?;
            program
                .set_variable(&mut memory, &variable.name, variable.at, &bytes)
                .map_err(LaunchError::from)?;
        }
        let mut findings = Findings::default();
        let mut remarks: Vec<Remark> = Vec::new();
        let mut instructions = Vec::new();
        // For each buffer, the launch that left undefined bytes in it.
        let mut blame: Vec<Option<(Trap, usize)>> = vec![None; self.buffers.len()];
        for (n, step) in self.steps.iter().enumerate() {
            let stopped = |stop: Stop, memory: &GlobalMemory| {
                let stop = match stop {
                    Stop::Trap(trap) => Stop::Trap(Box::new(named(memory, *trap))),
                    other => other,
                };
                self.stopped(step, stop)
            };
            let module = &self.modules[step.module];
            let Some(kernel) = self.kernel(step) else {
                let what = format!("the module has no entry `{}`", step.entry);
                return Err(stopped(Stop::Launch(what), &memory).into());
            };
            let mut params = vec![0; kernel.param_bytes];
            for (value, param) in step.args.iter().zip(&kernel.params) {
                let bytes = value.bytes(&addresses).map_err(|why| stopped(Stop::Launch(why), &memory))?;
                params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
            }
            let launched =
                Launch { grid: step.grid, block: step.block, shared_bytes: step.shared_bytes, params };
            let in_stream = InStream {
                cluster: step.cluster,
                cooperative: step.cooperative,
                ..InStream::new(&module.program, kernel, &launched)
            };
            // Shifting tests whether a kernel relies on more than its declared alignment: only under strict judging. Otherwise results are
            // as on a GPU.
            let shift_shared = step.shift_shared && judge == Judge::Strict;
            let options = Options { shift_shared, ..options.clone() };
            let (counts, heard) = launch(n, &in_stream, &mut memory, &options)?;
            findings.gather(heard.violations);
            remarks.extend(heard.remarks);
            instructions.push(counts.map_err(|stop| stopped(stop, &memory))?.warp_instructions);
            for (blame, at) in blame.iter_mut().zip(&addresses) {
                let trap = memory.undefined(*at);
                if blame.as_ref().map(|(known, _)| known) != trap {
                    *blame = trap.map(|trap| (trap.clone(), n));
                }
            }
        }
        for ((trap, n), _) in blame
            .into_iter()
            .zip(&self.buffers)
            .filter_map(|(b, buffer)| b.filter(|_| !buffer.scratch).map(|b| (b, buffer)))
        {
            if judge == Judge::Strict {
                return Err(self.stopped(&self.steps[n], Stop::Trap(Box::new(named(&memory, trap)))).into());
            }
            findings.gather(vec![Violation { trap, times: 1 }]);
        }
        for violation in &mut findings.0 {
            violation.trap = named(&memory, violation.trap.clone());
        }
        for remark in &mut remarks {
            remark.what = memory.name_addresses(&remark.what);
        }
        Ok(Outcome { trial, instructions, memory, addresses, remarks, violations: findings.0 })
    }

    /// Allocates the buffers in order and returns their addresses.
    fn place(&self, memory: &mut GlobalMemory) -> Result<Vec<u64>, LaunchError> {
        // A value may contain addresses of later buffers, so all addresses are determined first, with a layout copy of the memory.
        let mut layout = memory.layout();
        let reserved = self.buffers.iter().map(|b| match (&b.initial, b.address) {
            (Initial::There(address), _) => Some(*address),
            (_, Some(address)) => Some(address),
            _ => layout.reserve(b.shape.bytes as u64),
        });
        let addresses: Option<Vec<u64>> = reserved.collect();
        let addresses = addresses
            .ok_or_else(|| LaunchError::Fit("the buffers need more addresses than there are".to_owned()))?;
        for (buffer, address) in self.buffers.iter().zip(&addresses) {
            let (bytes, len) = match &buffer.initial {
                Initial::Bytes(bytes) => (Some(bytes.clone()), bytes.len()),
                // Bytes at a fixed address are copied.
                Initial::Lent(host) => (buffer.address.map(|_| host.bytes().to_vec()), host.bytes().len()),
                Initial::Value(value) => {
                    let bytes = value.bytes(&addresses).map_err(LaunchError::Fit)?;
                    let len = bytes.len();
                    (Some(bytes), len)
                }
                Initial::Unwritten => (None, buffer.shape.bytes),
                Initial::There(_) => (None, 0),
            };
            let there = matches!(buffer.initial, Initial::There(_));
            let at = match (buffer.address, bytes) {
                _ if there => *address,
                (None, Some(bytes)) => memory.allocate_with(bytes),
                (None, None) => match &buffer.initial {
                    Initial::Lent(host) => memory.allocate_lent(host.clone()),
                    _ => memory.allocate(len),
                },
                (Some(wanted), bytes) => {
                    let unwritten = bytes.is_none();
                    if !memory.place_at(wanted, bytes.unwrap_or_else(|| vec![0; len])) {
                        let what = format!(
                            "buffer `{}` cannot be placed at {wanted:#x}: the address range is in use",
                            buffer.name
                        );
                        return Err(LaunchError::Fit(what));
                    }
                    if unwritten {
                        memory.unwrite(wanted, len);
                    }
                    wanted
                }
            };
            for run in &buffer.unwritten {
                memory.unwrite(at + run.start as u64, run.len());
            }
            debug_assert_eq!(at, *address);
            memory.name(at, &buffer.name);
        }
        Ok(addresses)
    }

    fn stopped(&self, step: &Step, stop: Stop) -> LaunchError {
        let module = &self.modules[step.module];
        Stopped { name: module.name.clone(), text: module.text.clone(), stop }.into()
    }
}

/// Replaces addresses in a violation by names of buffers.
fn named(memory: &GlobalMemory, trap: Trap) -> Trap {
    Trap { what: memory.name_addresses(&trap.what), ..trap }
}
