//! Runs a session on a GPU, with machine code of any compiler.

use emulator::device::{Argument, Buffer, Device as _, Failure, Graph, Launch};

use super::run::Outcome;
use super::session::{Initial, Session, Value};
use crate::gpu::GpuDevice;
use crate::record::counted;

/// The launches of a session on a GPU: what is loaded, and where its buffers are.
pub struct OnGpu<'a> {
    session: &'a Session,
    gpu: &'a mut GpuDevice,
    buffers: Vec<Buffer>,
    addresses: Vec<u64>,
    launches: Vec<Launch>,
}

impl OnGpu<'_> {
    /// Gives each buffer its contents before the first launch; what the session leaves unwritten is zero.
    fn fill(&mut self) -> Result<(), Failure> {
        for (buffer, made) in self.session.buffers.iter().zip(&self.buffers) {
            match &buffer.initial {
                Initial::Bytes(bytes) => self.gpu.write_at(*made, 0, bytes)?,
                Initial::Lent(host) => self.gpu.write_at(*made, 0, host.bytes())?,
                // Contents may be addresses of any buffer.
                Initial::Value(value) => {
                    self.gpu.write_at(*made, 0, &value.bytes(&self.addresses).map_err(Failure::Launch)?)?;
                }
                Initial::Unwritten | Initial::There(_) => {
                    self.gpu.write_at(*made, 0, &vec![0; buffer.shape.bytes])?;
                }
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<Vec<Vec<u8>>, Failure> {
        self.buffers.iter().map(|buffer| self.gpu.read(*buffer)).collect()
    }

    /// Runs the launches and returns the bytes of each buffer.
    ///
    /// # Errors
    /// [`Failure`] of the GPU.
    pub fn run(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        self.fill()?;
        self.gpu.run(&self.launches)?;
        self.read()
    }

    /// Captures the launches as a graph.
    ///
    /// # Errors
    /// [`Failure`] of the GPU.
    pub fn capture(&mut self) -> Result<Graph, Failure> {
        Ok(self.gpu.capture(&self.launches)?)
    }

    /// Replays the graph from the memory before the first launch, and returns the bytes of each buffer.
    ///
    /// # Errors
    /// [`Failure`] of the GPU.
    pub fn replay(&mut self, graph: Graph) -> Result<Vec<Vec<u8>>, Failure> {
        self.fill()?;
        self.gpu.replay(graph)?;
        self.read()
    }
}

impl Session {
    /// Loads `images`, one for each module, and the buffers on a GPU. Buffers with a fixed address get it.
    ///
    /// # Errors
    /// [`Failure`] of the GPU; [`Failure::Unsupported`] if the session has what cannot be carried over: module variables that are set,
    /// tensor maps, and memory of a caller.
    pub fn on_gpu<'a>(&'a self, gpu: &'a mut GpuDevice, images: &[Vec<u8>]) -> Result<OnGpu<'a>, Failure> {
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
        Ok(OnGpu { session: self, gpu, buffers, addresses, launches })
    }

    /// Compares the bytes of each buffer that is a result with those of `outcome`, without those that it leaves unwritten. Returns the
    /// number of elements that differ and the first one, in words.
    #[must_use]
    pub fn difference(&self, results: &[Vec<u8>], outcome: &Outcome) -> Option<String> {
        let (mut differing, mut first) = (0usize, None);
        for (n, (buffer, got)) in self.buffers.iter().zip(results).enumerate() {
            if buffer.scratch {
                continue;
            }
            let wanted = outcome.bytes(n);
            let unwritten = outcome.memory.unwritten_runs(outcome.addresses[n]);
            let size = buffer.shape.element.bits().div_ceil(8).max(1);
            for (word, (a, b)) in got.chunks(size).zip(wanted.chunks(size)).enumerate() {
                let bytes = word * size..word * size + a.len();
                if a == b || unwritten.iter().any(|run| run.start < bytes.end && bytes.start < run.end) {
                    continue;
                }
                differing += 1;
                first.get_or_insert_with(|| {
                    format!("{}[{word}]: {}, and {} by PTX", buffer.name, hex(a), hex(b))
                });
            }
        }
        let differ = if differing == 1 { "differs" } else { "differ" };
        first.map(|first| format!("{} {differ}, first {first}", counted(differing, "element")))
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

/// The bits of an element, the most significant first.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().fold("0x".to_owned(), |out, byte| out + &format!("{byte:02x}"))
}

fn has_map(value: &Value) -> bool {
    match value {
        Value::Map { .. } => true,
        Value::Fields { fields, .. } => fields.iter().any(|(_, field)| has_map(field)),
        Value::Bytes(_) | Value::Address { .. } => false,
    }
}
