//! Memory before the launches, and what they leave.

use std::borrow::Cow;
use std::sync::Arc;

use emulator::{GlobalMemory, Launch, Stop};

use super::error::LaunchError;
use super::session::{Initial, Session, Step};

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

/// The memory that the launches of the first trial leave.
pub struct Outcome {
    /// The memory.
    pub memory: GlobalMemory,
    /// The addresses of the buffers.
    pub addresses: Vec<u64>,
}

impl Outcome {
    /// Returns the bytes of a buffer. They are copied only if some are lent by the host and kernels have written others.
    #[must_use]
    pub fn bytes(&self, buffer: usize) -> Cow<'_, [u8]> {
        self.addresses.get(buffer).and_then(|at| self.memory.contents(*at)).unwrap_or_default()
    }

    /// Returns the number of unwritten bytes in a buffer.
    #[must_use]
    pub fn unwritten(&self, buffer: usize) -> usize {
        self.addresses.get(buffer).map_or(0, |at| self.memory.unwritten(*at))
    }
}

impl Session {
    /// Returns the memory before the first launch, with the buffers and the variables of the modules.
    pub(super) fn memory_before(&mut self) -> Result<Outcome, LaunchError> {
        let mut memory = self.base.clone();
        let addresses = self.place(&mut memory)?;
        for module in &self.modules {
            let Some(variables) = &module.variables else { continue };
            let at: Vec<u64> = variables.iter().map(|n| addresses[*n]).collect();
            if !module.program.adopt_variables(&mut memory, &at) {
                let what = format!("{} does not have {} variables in global memory", module.name, at.len());
                return Err(LaunchError::Fit(what));
            }
        }
        for variable in &self.variables {
            let bytes = variable.value.bytes(&addresses).map_err(LaunchError::Fit)?;
            let module = &mut self.modules[variable.module];
            let program = Arc::get_mut(&mut module.program)
                .ok_or_else(|| LaunchError::Fit(format!("{} is in use elsewhere", module.name)))?;
            program.set_variable(&mut memory, &variable.name, variable.at, &bytes)?;
        }
        Ok(Outcome { memory, addresses })
    }

    /// Returns the grid, the block and the parameters of a launch.
    pub(super) fn launch(&self, step: &Step, addresses: &[u64]) -> Result<Launch, LaunchError> {
        let Some(kernel) = self.kernel(step) else {
            let what = format!("the module has no entry `{}`", step.entry);
            return Err(self.stopped(step, Stop::Launch(what)));
        };
        let mut params = vec![0; kernel.param_bytes];
        for (value, param) in step.args.iter().zip(&kernel.params) {
            let bytes = value.bytes(addresses).map_err(|why| self.stopped(step, Stop::Launch(why)))?;
            params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
        }
        Ok(Launch { grid: step.grid, block: step.block, shared_bytes: step.shared_bytes, params })
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

    pub(super) fn stopped(&self, step: &Step, stop: Stop) -> LaunchError {
        let module = &self.modules[step.module];
        Stopped { name: module.name.clone(), text: module.text.clone(), stop }.into()
    }
}
