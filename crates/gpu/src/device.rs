//! A GPU as a [`Device`]: its worker process makes every CUDA call.

use std::cell::RefCell;
use std::time::Duration;

use emulator::device::{Buffer, Device, Failure, Graph, Launch, LaunchFailure, Module, Timer};

use super::describe::Description;
use super::link::{Launcher, Link};
use super::wire::{Entry, Reply, Request};
use record::CodeBy;
use toolchain::store::Store;
use toolchain::toolkit::{self, Toolkit};

/// The time limit of ptxas for one module.
const ASSEMBLY_LIMIT: Duration = Duration::from_secs(300);

/// The tool that assembles PTX, and its cache.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    /// The toolkit whose ptxas is used; the driver's JIT compiler if `None`.
    pub toolkit: Option<Toolkit>,
    /// Caches assembled code.
    pub store: Option<Store>,
}

impl Chain {
    /// Returns the tool as the record names it.
    #[must_use]
    pub fn code_by(&self) -> CodeBy {
        self.toolkit.as_ref().map_or(CodeBy::Jit, |toolkit| CodeBy::Ptxas(toolkit.version))
    }

    /// Returns the image that the driver loads for this PTX: a cubin, or the PTX itself if the driver compiles it.
    ///
    /// # Errors
    /// [`Failure::Unsupported`] if ptxas rejects it, or if it names no target.
    pub fn image(&self, ptx: &str) -> Result<Vec<u8>, Failure> {
        let Some(toolkit) = &self.toolkit else { return Ok(ptx.as_bytes().to_vec()) };
        let target = ptx::scan::target(ptx)
            .ok_or_else(|| Failure::Unsupported("the PTX names no known target".to_owned()))?;
        toolkit::cubin(toolkit, target, ptx, self.store.as_ref(), ASSEMBLY_LIMIT)
            .map(|code| code.image)
            .map_err(|error| Failure::Unsupported(error.to_string()))
    }
}

/// A GPU in a worker process. A kernel that corrupts its context ends only the worker; [`Device::reset`] starts a new one.
pub struct GpuDevice {
    link: RefCell<Link>,
    about: Description,
    chain: Chain,
    modules: Vec<Vec<Entry>>,
    /// Duration of the last run or replay in milliseconds, measured with CUDA events.
    pub milliseconds: f32,
}

impl GpuDevice {
    /// Opens the GPU that `launcher` names.
    ///
    /// # Errors
    /// [`Failure::DeviceLost`] with the reason if there is no driver or no such GPU, or if the GPU may not be used.
    pub fn open(launcher: Launcher, chain: Chain) -> Result<Self, Failure> {
        let mut link = Link::new(launcher);
        let about = describe(&mut link)?;
        Ok(Self::on_link(link, about, chain))
    }

    /// Opens every GPU of this machine, one after the other; `launcher` names the GPU of an ordinal. A GPU that cannot be opened
    /// hides no other. Without a driver, the only item is the reason.
    pub fn each(
        launcher: impl Fn(usize) -> Launcher,
    ) -> impl Iterator<Item = (usize, Result<Self, Failure>)> {
        // One is tried before the number is known.
        let mut gpus = 1;
        let mut next = 0;
        std::iter::from_fn(move || {
            let ordinal = next;
            if ordinal >= gpus {
                return None;
            }
            next += 1;
            let mut link = Link::new(launcher(ordinal));
            let about = describe(&mut link);
            gpus = gpus.max(about.as_ref().map_or(link.others, |about| about.gpus));
            Some((ordinal, about.map(|about| Self::on_link(link, about, Chain::default()))))
        })
    }

    fn on_link(link: Link, about: Description, chain: Chain) -> Self {
        Self { link: RefCell::new(link), about, chain, modules: Vec::new(), milliseconds: 0.0 }
    }

    /// Returns this device with `chain` assembling its code; a simulated GPU always loads the PTX itself.
    #[must_use]
    pub fn with_chain(self, chain: Chain) -> Self {
        let chain = if self.about.is_simulated() { Chain { toolkit: None, ..chain } } else { chain };
        Self { chain, ..self }
    }

    /// Returns the description of the GPU.
    #[must_use]
    pub const fn about(&self) -> &Description {
        &self.about
    }

    /// Returns the tool that assembles its code.
    #[must_use]
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Returns the number of worker processes started so far.
    #[must_use]
    pub fn workers(&self) -> u64 {
        self.link.borrow().started
    }

    /// Loads a cubin or PTX unchanged and returns the module and its kernels.
    ///
    /// # Errors
    /// [`Failure::Unsupported`] with the driver's message if it rejects the image.
    pub fn load_image(&mut self, image: &[u8]) -> Result<(Module, Vec<Entry>), Failure> {
        match self.ask(&Request::Load, image).map_err(|refused| refused.failure)? {
            (Reply::Loaded { module, entries }, _) => {
                self.modules.truncate(module);
                self.modules.push(entries.clone());
                Ok((Module(module), entries))
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Allocates a buffer that holds `bytes` at a certain address, without guard zones.
    ///
    /// # Errors
    /// [`Failure`] if the address cannot be had.
    pub fn place(&mut self, address: u64, bytes: &[u8]) -> Result<Buffer, Failure> {
        let request = Request::Place { address, len: bytes.len() as u64 };
        self.made(&request, bytes).map(Buffer).map_err(|refused| refused.failure)
    }

    /// Returns the address of a buffer.
    ///
    /// # Errors
    /// [`Failure`] if there is no such buffer, or the device is lost.
    pub fn address(&self, buffer: Buffer) -> Result<u64, Failure> {
        match self.ask(&Request::Address { buffer: buffer.0 }, &[]).map_err(|refused| refused.failure)? {
            (Reply::At(address), _) => Ok(address),
            (other, _) => Err(unexpected(&other)),
        }
    }

    fn ask(&self, request: &Request, payload: &[u8]) -> Result<(Reply, Vec<u8>), LaunchFailure> {
        self.link.borrow_mut().ask(request, payload)
    }

    fn done(&self, request: &Request, payload: &[u8]) -> Result<(), Failure> {
        match self.ask(request, payload).map_err(|refused| refused.failure)? {
            (Reply::Done, _) => Ok(()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    fn made(&self, request: &Request, payload: &[u8]) -> Result<usize, LaunchFailure> {
        match self.ask(request, payload)? {
            (Reply::Made(number), _) => Ok(number),
            (other, _) => Err(unexpected(&other).into()),
        }
    }

    fn ran(&mut self, request: &Request) -> Result<(), LaunchFailure> {
        match self.ask(request, &[]) {
            Ok((Reply::Ran { milliseconds }, _)) => {
                self.milliseconds = milliseconds;
                Ok(())
            }
            Ok((other, _)) => Err(unexpected(&other).into()),
            Err(failed) => Err(failed),
        }
    }
}

fn unexpected(reply: &Reply) -> Failure {
    Failure::Broken(format!("the GPU's worker process sent an unexpected reply: {reply:?}"))
}

fn describe(link: &mut Link) -> Result<Description, Failure> {
    match link.ask(&Request::Describe, &[]).map_err(|refused| refused.failure)? {
        (Reply::Described(about), _) => Ok(*about),
        (other, _) => Err(unexpected(&other)),
    }
}

impl Device for GpuDevice {
    fn name(&self) -> String {
        format!("gpu:{}", self.about.ordinal)
    }

    fn reset(&mut self) -> Result<(), Failure> {
        self.modules.clear();
        self.link.borrow_mut().renew();
        self.done(&Request::Reset, &[])
    }

    fn allocate(&mut self, bytes: Vec<u8>) -> Result<Buffer, Failure> {
        let request = Request::Allocate { len: bytes.len() as u64 };
        self.made(&request, &bytes).map(Buffer).map_err(|refused| refused.failure)
    }

    fn allocate_unwritten(&mut self, len: usize) -> Result<Buffer, Failure> {
        self.made(&Request::Allocate { len: len as u64 }, &[]).map(Buffer).map_err(|refused| refused.failure)
    }

    fn allocate_random(&mut self, len: usize, seed: u64, least: u8, most: u8) -> Result<Buffer, Failure> {
        let request = Request::Random { len: len as u64, seed, least, most };
        self.made(&request, &[]).map(Buffer).map_err(|refused| refused.failure)
    }

    fn read(&self, buffer: Buffer) -> Result<Vec<u8>, Failure> {
        match self.ask(&Request::Read { buffer: buffer.0 }, &[]).map_err(|refused| refused.failure)? {
            (Reply::Bytes, bytes) => Ok(bytes),
            (other, _) => Err(unexpected(&other)),
        }
    }

    fn write_at(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.done(&Request::Write { buffer: buffer.0, at }, bytes)
    }

    fn differs(&self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let request = Request::Differs { buffer: buffer.0, at };
        match self.ask(&request, bytes).map_err(|refused| refused.failure)? {
            (Reply::Compared { differs }, _) => Ok(differs),
            (other, _) => Err(unexpected(&other)),
        }
    }

    fn forget(&mut self, buffer: Buffer) -> Result<(), Failure> {
        self.done(&Request::Forget { buffer: buffer.0 }, &[])
    }

    fn load(&mut self, ptx: &str) -> Result<Module, Failure> {
        let image = self.chain.image(ptx)?;
        self.load_image(&image).map(|(module, _)| module)
    }

    fn parameters(&self, module: Module, entry: &str) -> Option<Vec<(String, usize)>> {
        let entry = self.modules.get(module.0)?.iter().find(|e| e.name == entry)?;
        // A cubin does not store parameter names.
        let named = |(n, (_, size)): (usize, &(usize, usize))| (format!("{n}"), *size);
        Some(entry.parameters.iter().enumerate().map(named).collect())
    }

    fn run(&mut self, launches: &[Launch]) -> Result<(), LaunchFailure> {
        self.ran(&Request::Run { launches: launches.to_vec() })
    }

    fn capture(&mut self, launches: &[Launch]) -> Result<Graph, LaunchFailure> {
        let request = Request::Capture { launches: launches.to_vec() };
        self.made(&request, &[]).map(Graph)
    }

    fn replay(&mut self, graph: Graph) -> Result<(), LaunchFailure> {
        self.ran(&Request::Replay { graph: graph.0 })
    }

    fn replay_often(
        &mut self,
        graph: Graph,
        times: usize,
        fresh: &[Buffer],
    ) -> Result<Option<usize>, LaunchFailure> {
        let request = Request::Often { graph: graph.0, times, fresh: fresh.iter().map(|b| b.0).collect() };
        match self.ask(&request, &[]) {
            Ok((Reply::Compared { differs }, _)) => Ok(differs),
            Ok((other, _)) => Err(unexpected(&other).into()),
            Err(failed) => Err(failed),
        }
    }
}

impl Timer for GpuDevice {
    fn time(
        &mut self,
        launches: &[Launch],
        before: &Launch,
        warm_up: usize,
        samples: usize,
    ) -> Result<Vec<Vec<f32>>, LaunchFailure> {
        let (launches, before) = (launches.to_vec(), before.clone());
        match self.ask(&Request::Time { launches, before, warm_up, samples }, &[]) {
            Ok((Reply::Timed(times), _)) => Ok(times),
            Ok((other, _)) => Err(unexpected(&other).into()),
            Err(failed) => Err(failed),
        }
    }
}
