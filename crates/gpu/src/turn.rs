//! Shares one GPU between several users: each holds it from the first use after a reset until it rests.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use emulator::device::{Buffer, Device, Failure, Graph, Launch, LaunchFailure, Module};

use super::device::{Chain, GpuDevice};

/// A share of a GPU that other users need too.
pub struct Turn<'a> {
    gpu: &'a Mutex<GpuDevice>,
    name: &'a str,
    chain: &'a Chain,
    state: State<'a>,
    /// Images assembled so far, by their PTX.
    images: HashMap<String, Vec<u8>>,
}

/// Who holds the GPU.
enum State<'a> {
    /// Another user, or nobody.
    Rests,
    /// Nobody through this share yet: it takes the GPU on first use, so that code is assembled while others have it.
    Waits,
    /// This share.
    Has(MutexGuard<'a, GpuDevice>),
}

impl<'a> Turn<'a> {
    /// Creates a share of the GPU called `name`, whose code `chain` assembles.
    #[must_use]
    pub fn on_gpu(gpu: &'a Mutex<GpuDevice>, name: &'a str, chain: &'a Chain) -> Self {
        Self { gpu, name, chain, state: State::Rests, images: HashMap::new() }
    }

    fn held(&mut self) -> Result<&mut GpuDevice, Failure> {
        if matches!(self.state, State::Waits) {
            let mut gpu = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
            gpu.reset()?;
            self.state = State::Has(gpu);
        }
        match &mut self.state {
            State::Has(gpu) => Ok(gpu),
            State::Rests | State::Waits => Err(not_held()),
        }
    }
}

/// Buffers, modules and graphs do not survive a rest.
fn not_held() -> Failure {
    Failure::Broken("the GPU was released and has not been reset since".to_owned())
}

impl Device for Turn<'_> {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn reset(&mut self) -> Result<(), Failure> {
        match &mut self.state {
            State::Has(gpu) => gpu.reset(),
            State::Rests | State::Waits => {
                self.state = State::Waits;
                Ok(())
            }
        }
    }

    fn rest(&mut self) {
        self.state = State::Rests;
    }

    fn allocate(&mut self, bytes: Vec<u8>) -> Result<Buffer, Failure> {
        self.held()?.allocate(bytes)
    }

    fn allocate_unwritten(&mut self, len: usize) -> Result<Buffer, Failure> {
        self.held()?.allocate_unwritten(len)
    }

    fn allocate_random(&mut self, len: usize, seed: u64, least: u8, most: u8) -> Result<Buffer, Failure> {
        self.held()?.allocate_random(len, seed, least, most)
    }

    fn read(&self, buffer: Buffer) -> Result<Vec<u8>, Failure> {
        match &self.state {
            State::Has(gpu) => gpu.read(buffer),
            State::Rests | State::Waits => Err(not_held()),
        }
    }

    fn write_at(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.held()?.write_at(buffer, at, bytes)
    }

    fn differs(&self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        match &self.state {
            State::Has(gpu) => gpu.differs(buffer, at, bytes),
            State::Rests | State::Waits => Err(not_held()),
        }
    }

    fn forget(&mut self, buffer: Buffer) -> Result<(), Failure> {
        self.held()?.forget(buffer)
    }

    fn load(&mut self, ptx: &str) -> Result<Module, Failure> {
        let image = match self.images.remove(ptx) {
            Some(image) => image,
            None => self.chain.image(ptx)?,
        };
        let loaded = self.held()?.load_image(&image);
        self.images.insert(ptx.to_owned(), image);
        loaded.map(|(module, _)| module)
    }

    fn parameters(&self, module: Module, entry: &str) -> Option<Vec<(String, usize)>> {
        match &self.state {
            State::Has(gpu) => gpu.parameters(module, entry),
            State::Rests | State::Waits => None,
        }
    }

    fn run(&mut self, launches: &[Launch]) -> Result<(), LaunchFailure> {
        self.held()?.run(launches)
    }

    fn capture(&mut self, launches: &[Launch]) -> Result<Graph, LaunchFailure> {
        self.held()?.capture(launches)
    }

    fn replay(&mut self, graph: Graph) -> Result<(), LaunchFailure> {
        self.held()?.replay(graph)
    }

    fn replay_often(
        &mut self,
        graph: Graph,
        times: usize,
        fresh: &[Buffer],
    ) -> Result<Option<usize>, LaunchFailure> {
        self.held()?.replay_often(graph, times, fresh)
    }
}
