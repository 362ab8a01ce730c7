//! Runs a session on a GPU, with machine code of any compiler.

use emulator::device::{Argument, Device as _, Failure, Launch};

use super::session::{Initial, Session, Value};
use crate::gpu::GpuDevice;

impl Session {
    /// Runs the launches on a GPU, which loads `images`, one for each module, and returns the bytes of each buffer. Buffers with a fixed
    /// address get it.
    ///
    /// # Errors
    /// [`Failure`] of the GPU; [`Failure::Unsupported`] if the session has what cannot be carried over: module variables that are set,
    /// tensor maps, and memory of a caller.
    pub fn on_gpu(&self, gpu: &mut GpuDevice, images: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Failure> {
        if let Some(what) = self.stays_behind(gpu.about().is_simulated()) {
            return Err(Failure::Unsupported(format!("{what}: the emulator alone runs such a launch")));
        }
        gpu.reset()?;
        let mut modules = Vec::new();
        for image in images {
            modules.push(gpu.load_image(image)?.0);
        }
        let (mut buffers, mut addresses) = (Vec::new(), Vec::new());
        for buffer in &self.buffers {
            let made = match buffer.address {
                Some(address) => gpu.place(address, &vec![0; buffer.shape.bytes])?,
                None => gpu.allocate(vec![0; buffer.shape.bytes])?,
            };
            addresses.push(gpu.address(made)?);
            buffers.push(made);
        }
        // Contents may be addresses of any buffer.
        for (buffer, made) in self.buffers.iter().zip(&buffers) {
            match &buffer.initial {
                Initial::Bytes(bytes) => gpu.write_at(*made, 0, bytes)?,
                Initial::Lent(host) => gpu.write_at(*made, 0, host.bytes())?,
                Initial::Value(value) => {
                    gpu.write_at(*made, 0, &value.bytes(&addresses).map_err(Failure::Launch)?)?;
                }
                Initial::Unwritten | Initial::There(_) => {}
            }
        }
        let mut launches = Vec::new();
        for step in &self.steps {
            let arguments = step.args.iter().map(|value| value.bytes(&addresses).map(Argument::Value));
            launches.push(Launch {
                module: modules[step.module],
                entry: step.entry.clone(),
                grid: step.grid,
                block: step.block,
                shared_bytes: step.shared_bytes,
                arguments: arguments.collect::<Result<_, String>>().map_err(Failure::Launch)?,
                programmatic: false,
                cluster: step.cluster.unwrap_or([1; 3]),
                cooperative: step.cooperative,
            });
        }
        gpu.run(&launches)?;
        buffers.into_iter().map(|buffer| gpu.read(buffer)).collect()
    }

    /// What cannot be carried over to a GPU.
    fn stays_behind(&self, simulated: bool) -> Option<String> {
        let sets = self.modules.iter().find(|m| m.variables.as_ref().is_some_and(|v| !v.is_empty()));
        if let Some(module) = sets {
            return Some(format!("{} has variables that buffers hold", module.name));
        }
        if let Some(variable) = self.variables.first() {
            return Some(format!("the variable `{}` is set", variable.name));
        }
        if let Some(buffer) = self.buffers.iter().find(|b| matches!(b.initial, Initial::There(_))) {
            return Some(format!("`{}` is memory of the caller", buffer.name));
        }
        let in_buffers = self.buffers.iter().filter_map(|b| match &b.initial {
            Initial::Value(value) => Some(value),
            _ => None,
        });
        // The driver alone encodes a tensor map for hardware.
        let mut values = in_buffers.chain(self.steps.iter().flat_map(|step| &step.args));
        (!simulated && values.any(has_map)).then(|| "a tensor map is an argument".to_owned())
    }
}

fn has_map(value: &Value) -> bool {
    match value {
        Value::Map { .. } => true,
        Value::Fields { fields, .. } => fields.iter().any(|(_, field)| has_map(field)),
        Value::Bytes(_) | Value::Address { .. } => false,
    }
}
