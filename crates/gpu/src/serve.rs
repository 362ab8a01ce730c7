//! The worker: serves requests from its socket one at a time, with buffers between guard zones, until the parent closes it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use emulator::device::{Argument, Launch, first_difference};
use numerics::random;

use super::backend::{Backend, Prepared, Value};
use super::driver::Driver;
use super::gather::Gather;
use super::status::CudaError;
use super::wire::{self, Entry, Kind, Refusal, Reply, Request};

/// Bytes before and after every buffer that no kernel may write.
const GUARD: usize = 4096;
/// The byte that fills guard zones. It differs from the poison and from the values that kernels store.
const GUARD_BYTE: u8 = 0xA9;
/// The byte that fills unwritten memory: a NaN in bf16, f32, e4m3 and ue8m0.
const POISON: u8 = 0xFF;

/// The most bytes kept for later buffers.
const SPARE: usize = 1 << 30;

/// A buffer: its first byte or that of its leading guard, and its length without guards.
struct Held {
    base: u64,
    len: usize,
    /// Whether guard zones surround it.
    guarded: bool,
}

impl Held {
    const fn address(&self) -> u64 {
        if self.guarded { self.base + GUARD as u64 } else { self.base }
    }

    /// Returns the start of the trailing guard. It follows the last byte directly, so that no write can hide in a gap.
    const fn after(&self) -> u64 {
        self.address() + self.len as u64
    }
}

/// The state of a worker.
struct Session<B> {
    backend: B,
    buffers: Vec<Held>,
    /// Freed memory by its size in bytes, guards included: freeing and allocating it costs more than a small kernel.
    spare: BTreeMap<usize, Vec<u64>>,
    /// Total bytes in `spare`.
    spared: usize,
    modules: Vec<(usize, Vec<Entry>)>,
    gather: Gather,
}

/// Serves the GPU `word` on standard input, which is a socket, and returns the exit code of the process.
#[must_use]
pub fn serve_gpu(word: &str) -> u8 {
    let Ok(Some(mut socket)) = socket() else { return 2 };
    #[cfg(debug_assertions)]
    if let Some(plan) = word.strip_prefix("fake:") {
        if let Some((error, gpus)) = super::fake::unusable(plan) {
            return finished(refuse_all(&absent(&error, gpus), &mut socket));
        }
        return finished(super::fake::open(plan, &mut socket).and_then(|fake| serve(fake, &mut socket)));
    }
    let Ok(ordinal) = word.parse() else { return 2 };
    let gpus = match Driver::count() {
        Ok(gpus) => gpus,
        Err(error) => return finished(refuse_all(&absent(&error, 0), &mut socket)),
    };
    match Driver::open(ordinal, gpus) {
        Ok(driver) => finished(serve(driver, &mut socket)),
        Err(error) => finished(refuse_all(&absent(&error, gpus), &mut socket)),
    }
}

/// Returns standard input as a socket if it is one.
fn socket() -> io::Result<Option<UnixStream>> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Only a socket has a local address.
    Ok(socket.local_addr().is_ok().then_some(socket))
}

fn finished(served: io::Result<()>) -> u8 {
    match served {
        Ok(()) => 0,
        Err(error) => {
            // The parent captures standard error and shows it.
            let _ = io::Write::write_all(&mut io::stderr(), format!("{error}\n").as_bytes());
            1
        }
    }
}

/// Returns the reason why one of `gpus` devices cannot be opened, with a hint.
fn absent(error: &CudaError, gpus: usize) -> Refusal {
    let hint = match error.code {
        2 => "; the GPU has no memory left for a context: end other processes on it",
        46 => "; another process uses the GPU in exclusive mode, or its use is prohibited",
        100 | 101 => "",
        803 => "; the driver's library and its kernel module have different versions: restart the machine",
        804 => "; the driver's compatibility package does not fit this GPU",
        _ => "; `nvidia-smi` says more",
    };
    Refusal { kind: Kind::Absent, what: format!("{error}{hint}"), launch: 0, gpus }
}

fn refuse_all(refusal: &Refusal, socket: &mut UnixStream) -> io::Result<()> {
    while let Some(_request) = next(socket)? {
        wire::send(socket, &Reply::Refused(refusal.clone()), &[])?;
    }
    Ok(())
}

/// Returns the next request, or `None` after the parent has closed its end.
fn next(socket: &mut UnixStream) -> io::Result<Option<(Request, Vec<u8>)>> {
    match wire::receive(socket) {
        Ok(request) => Ok(Some(request)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Answers requests until the parent closes its end.
fn serve<B: Backend>(backend: B, socket: &mut UnixStream) -> io::Result<()> {
    let mut session = Session {
        backend,
        buffers: Vec::new(),
        spare: BTreeMap::new(),
        spared: 0,
        modules: Vec::new(),
        gather: Gather::default(),
    };
    while let Some((request, payload)) = next(socket)? {
        match session.answer(request, &payload) {
            Ok((reply, bytes)) => wire::send(socket, &reply, &bytes)?,
            Err(refusal) => wire::send(socket, &Reply::Refused(refusal), &[])?,
        }
    }
    Ok(())
}

fn refused(launch: usize) -> impl Fn(CudaError) -> Refusal {
    move |error| Refusal { kind: error.kind(), what: error.to_string(), launch, gpus: 0 }
}

fn wrong(what: String) -> Refusal {
    Refusal { kind: Kind::Launch, what, launch: 0, gpus: 0 }
}

impl<B: Backend> Session<B> {
    fn answer(&mut self, request: Request, payload: &[u8]) -> Result<(Reply, Vec<u8>), Refusal> {
        let done = |()| (Reply::Done, Vec::new());
        match request {
            Request::Describe => {
                let about = self.backend.describe().map_err(refused(0))?;
                Ok((Reply::Described(Box::new(about)), Vec::new()))
            }
            Request::Reset => self.reset().map(done),
            Request::Allocate { len } => {
                let made = self.allocate(len, payload)?;
                Ok((Reply::Made(made), Vec::new()))
            }
            Request::Place { address, len } => {
                let made = self.place_at(address, len, payload)?;
                Ok((Reply::Made(made), Vec::new()))
            }
            Request::Address { buffer } => Ok((Reply::At(self.place(buffer)?.0), Vec::new())),
            Request::Write { buffer, at } => {
                let address = self.inside(buffer, at, payload.len())?;
                self.backend.write(address, payload).map_err(refused(0)).map(done)
            }
            Request::Differs { buffer, at } => {
                let address = self.inside(buffer, at, payload.len())?;
                let mut bytes = vec![0; payload.len()];
                self.backend.read(address, &mut bytes).map_err(refused(0))?;
                let differs = first_difference(&bytes, payload).map(|byte| at + byte);
                Ok((Reply::Compared { differs }, Vec::new()))
            }
            Request::Read { buffer } => {
                let (address, len) = self.place(buffer)?;
                let mut bytes = vec![0; len];
                self.backend.read(address, &mut bytes).map_err(refused(0))?;
                Ok((Reply::Bytes, bytes))
            }
            Request::Forget { buffer } => {
                let (address, len) = self.place(buffer)?;
                self.backend.fill(address, POISON, len).map_err(refused(0)).map(done)
            }
            Request::Load => {
                let (module, entries) = self.backend.load(payload).map_err(refused(0))?;
                self.modules.push((module, entries.clone()));
                Ok((Reply::Loaded { module: self.modules.len() - 1, entries }, Vec::new()))
            }
            Request::Run { launches } => {
                let milliseconds = self.run(&launches)?;
                Ok((Reply::Ran { milliseconds }, Vec::new()))
            }
            Request::Capture { launches } => {
                let prepared = self.prepared(&launches)?;
                let graph = self.backend.capture(&prepared).map_err(refused(0))?;
                Ok((Reply::Made(graph), Vec::new()))
            }
            Request::Replay { graph } => {
                self.backend.mark(0).map_err(refused(0))?;
                self.backend.replay(graph).map_err(refused(0))?;
                self.backend.mark(1).map_err(refused(0))?;
                let milliseconds = self.ended(0)?;
                self.guards()?;
                Ok((Reply::Ran { milliseconds }, Vec::new()))
            }
            Request::Random { len, seed, least, most } => {
                let made = self.random(len, seed, (least, most))?;
                Ok((Reply::Made(made), Vec::new()))
            }
            Request::Often { graph, times, fresh } => {
                let differs = self.often(graph, times, &fresh)?;
                Ok((Reply::Compared { differs }, Vec::new()))
            }
            Request::Time { launches, before, warm_up, samples } => {
                let times = self.times(&launches, &before, warm_up, samples)?;
                Ok((Reply::Timed(times), Vec::new()))
            }
        }
    }

    /// Allocates a buffer of random bytes: one period is generated on the host, the rest is copied on the device.
    fn random(&mut self, len: u64, seed: u64, (least, most): (u8, u8)) -> Result<usize, Refusal> {
        let made = self.allocate(len, &[])?;
        let (address, len) = self.place(made)?;
        let first = random::bytes(seed, least, most, len.min(random::PERIOD));
        self.backend.write(address, &first).map_err(refused(0))?;
        let mut written = first.len();
        while written < len {
            // The copied bytes continue the sequence: `written` is a multiple of the period until the last copy.
            let more = written.min(len - written);
            self.backend.copy(address, address + written as u64, more).map_err(refused(0))?;
            written += more;
        }
        Ok(made)
    }

    /// Replays a graph `times` times and returns the number of the first replay after which a buffer of `fresh` differs from its
    /// contents after the first replay. Guards are checked once, at the end.
    fn often(&mut self, graph: usize, times: usize, fresh: &[usize]) -> Result<Option<usize>, Refusal> {
        let places: Vec<(u64, usize)> = fresh.iter().map(|b| self.place(*b)).collect::<Result<_, _>>()?;
        let (mut first, mut bytes) = (Vec::new(), Vec::new());
        let mut differs = None;
        for n in 0..times {
            for (address, len) in &places {
                self.backend.fill(*address, POISON, *len).map_err(refused(0))?;
            }
            self.backend.replay(graph).map_err(refused(0))?;
            self.backend.synchronize().map_err(refused(0))?;
            self.gather.read(&mut self.backend, &places, &mut bytes).map_err(refused(0))?;
            if n == 0 {
                std::mem::swap(&mut first, &mut bytes);
            } else if first != bytes {
                differs = Some(n + 1);
                break;
            }
        }
        self.guards()?;
        Ok(differs)
    }

    /// Returns the milliseconds of each launch; `before` runs ahead of each, so that the stream is busy when a measurement starts.
    fn times(
        &mut self,
        launches: &[Launch],
        before: &Launch,
        warm_up: usize,
        samples: usize,
    ) -> Result<Vec<Vec<f32>>, Refusal> {
        let prepared = self.prepared(launches)?;
        let before = self.prepare(before)?;
        let mut times = vec![Vec::with_capacity(samples); prepared.len()];
        for round in 0..warm_up + samples {
            for (n, (launch, times)) in prepared.iter().zip(&mut times).enumerate() {
                let backend = &mut self.backend;
                backend.launch(&before).map_err(refused(n))?;
                backend.mark(0).map_err(refused(n))?;
                backend.launch(launch).map_err(refused(n))?;
                backend.mark(1).map_err(refused(n))?;
                backend.synchronize().map_err(refused(n))?;
                if round >= warm_up {
                    times.push(backend.elapsed().map_err(refused(n))?);
                }
            }
        }
        self.guards()?;
        Ok(times)
    }

    fn reset(&mut self) -> Result<(), Refusal> {
        self.backend.unload().map_err(refused(0))?;
        self.modules.clear();
        // What was placed, unloading has freed.
        for held in self.buffers.drain(..).filter(|held| held.guarded) {
            let bytes = held.len + 2 * GUARD;
            if self.spared + bytes > SPARE {
                self.backend.release(held.base).map_err(refused(0))?;
            } else {
                self.spared += bytes;
                self.spare.entry(bytes).or_default().push(held.base);
            }
        }
        Ok(())
    }

    /// Returns memory for a buffer and its guards: spare memory of this size if there is any, otherwise a new allocation. If that
    /// fails, all spare memory is freed first.
    fn memory(&mut self, bytes: usize) -> Result<u64, CudaError> {
        if let Some(base) = self.spare.get_mut(&bytes).and_then(Vec::pop) {
            self.spared -= bytes;
            return Ok(base);
        }
        match self.backend.allocate(bytes) {
            Err(_) if self.spared > 0 => {
                self.spared = 0;
                for base in std::mem::take(&mut self.spare).into_values().flatten() {
                    self.backend.release(base)?;
                }
                self.backend.allocate(bytes)
            }
            other => other,
        }
    }

    fn place(&self, buffer: usize) -> Result<(u64, usize), Refusal> {
        let held = self.buffers.get(buffer).ok_or_else(|| wrong(format!("there is no buffer {buffer}")))?;
        Ok((held.address(), held.len))
    }

    /// Returns the address of byte `at` of a buffer, after checking that `len` bytes follow it.
    fn inside(&self, buffer: usize, at: usize, len: usize) -> Result<u64, Refusal> {
        let (address, held) = self.place(buffer)?;
        if at.checked_add(len).is_none_or(|end| end > held) {
            let from = if at == 0 { String::new() } else { format!(" from byte {at} on") };
            return Err(wrong(format!("buffer {buffer} has {held} bytes, not {len}{from}")));
        }
        Ok(address + at as u64)
    }

    fn allocate(&mut self, len: u64, payload: &[u8]) -> Result<usize, Refusal> {
        let len = usize::try_from(len).map_err(|_| wrong(format!("a buffer of {len} bytes")))?;
        let base = self.memory(len + 2 * GUARD).map_err(|error| {
            let mut refusal = refused(0)(error);
            refusal.what.push_str(&format!("; a buffer of {len} bytes was requested"));
            refusal
        })?;
        let held = Held { base, len, guarded: true };
        self.backend.fill(base, GUARD_BYTE, len + 2 * GUARD).map_err(refused(0))?;
        self.hold(held, payload)
    }

    /// Places a buffer where the caller wants it.
    fn place_at(&mut self, address: u64, len: u64, payload: &[u8]) -> Result<usize, Refusal> {
        let len = usize::try_from(len).map_err(|_| wrong(format!("a buffer of {len} bytes")))?;
        self.backend.place(address, len).map_err(refused(0))?;
        self.hold(Held { base: address, len, guarded: false }, payload)
    }

    /// Fills a buffer with the payload, or with poison if there is none, and returns its number.
    fn hold(&mut self, held: Held, payload: &[u8]) -> Result<usize, Refusal> {
        if payload.is_empty() {
            self.backend.fill(held.address(), POISON, held.len).map_err(refused(0))?;
        } else {
            let bytes = &payload[..held.len.min(payload.len())];
            self.backend.write(held.address(), bytes).map_err(refused(0))?;
        }
        self.buffers.push(held);
        Ok(self.buffers.len() - 1)
    }

    /// Resolves launches and checks their arguments against the parameters of the kernels.
    fn prepared(&mut self, launches: &[Launch]) -> Result<Vec<Prepared>, Refusal> {
        let mut out = Vec::new();
        for (n, launch) in launches.iter().enumerate() {
            out.push(self.prepare(launch).map_err(|refusal| Refusal { launch: n, ..refusal })?);
        }
        Ok(out)
    }

    fn prepare(&mut self, launch: &Launch) -> Result<Prepared, Refusal> {
        let (module, entries) = self
            .modules
            .get(launch.module.0)
            .ok_or_else(|| wrong(format!("there is no module {}", launch.module.0)))?;
        let (module, found) = (*module, entries.iter().position(|e| e.name == launch.entry));
        let at = found.ok_or_else(|| wrong(format!("the module has no entry `{}`", launch.entry)))?;
        let sizes: Vec<usize> = entries[at].parameters.iter().map(|(_, size)| *size).collect();
        if sizes.len() != launch.arguments.len() {
            return Err(wrong(format!(
                "`{}` has {} parameters, not {}",
                launch.entry,
                sizes.len(),
                launch.arguments.len()
            )));
        }
        let mut values = Vec::new();
        for (n, (argument, size)) in launch.arguments.iter().zip(&sizes).enumerate() {
            let value = match argument {
                Argument::Value(bytes) => Value::Bytes(bytes.clone()),
                Argument::Address(buffer) => Value::Bytes(self.place(buffer.0)?.0.to_le_bytes().to_vec()),
                Argument::Map(spec) => {
                    let (address, _) = self.place(spec.buffer.0)?;
                    Value::Map(self.backend.tensor_map(address, spec).map_err(refused(0))?)
                }
            };
            let given = match &value {
                Value::Bytes(bytes) => bytes.len(),
                Value::Map(map) => size_of_val(map),
            };
            if given != *size {
                return Err(wrong(format!(
                    "parameter {n} of `{}` has {size} bytes, its argument {given}",
                    launch.entry
                )));
            }
            values.push(value);
        }
        Ok(Prepared {
            kernel: (module, at),
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared_bytes,
            values,
            programmatic: launch.programmatic,
            cluster: launch.cluster,
            cooperative: launch.cooperative,
        })
    }

    /// Runs launches to completion. It synchronizes between launches that do not overlap, so that a failure is attributed to its
    /// launch.
    fn run(&mut self, launches: &[Launch]) -> Result<f32, Refusal> {
        let prepared = self.prepared(launches)?;
        self.backend.mark(0).map_err(refused(0))?;
        let overlaps = prepared.iter().any(|p| p.programmatic);
        for (n, launch) in prepared.iter().enumerate() {
            self.backend.launch(launch).map_err(refused(n))?;
            if !overlaps && n + 1 < prepared.len() {
                self.backend.synchronize().map_err(refused(n))?;
            }
        }
        let last = prepared.len().saturating_sub(1);
        self.backend.mark(1).map_err(refused(last))?;
        let milliseconds = self.ended(last)?;
        self.guards().map_err(|refusal| Refusal { launch: last, ..refusal })?;
        Ok(milliseconds)
    }

    fn ended(&mut self, launch: usize) -> Result<f32, Refusal> {
        self.backend.synchronize().map_err(refused(launch))?;
        self.backend.elapsed().map_err(refused(launch))
    }

    /// Checks every guard zone, reports the first overwritten byte, and refills its zone so that it is reported once.
    fn guards(&mut self) -> Result<(), Refusal> {
        let guarded: Vec<usize> = (0..self.buffers.len()).filter(|n| self.buffers[*n].guarded).collect();
        let zones: Vec<(u64, usize)> = guarded
            .iter()
            .map(|n| &self.buffers[*n])
            .flat_map(|held| [(held.base, GUARD), (held.after(), GUARD)])
            .collect();
        let mut bytes = Vec::new();
        self.gather.read(&mut self.backend, &zones, &mut bytes).map_err(refused(0))?;
        let Some(at) = bytes.iter().position(|b| *b != GUARD_BYTE) else { return Ok(()) };
        let (zone, n) = (zones[at / GUARD].0, guarded[at / GUARD / 2]);
        let (address, found) = (zone + (at % GUARD) as u64, bytes[at]);
        self.backend.fill(zone, GUARD_BYTE, GUARD).map_err(refused(0))?;
        let held = &self.buffers[n];
        let offset = i128::from(address) - i128::from(held.address());
        let what = format!(
            "the guard of buffer {n} was overwritten: 0x{found:02X} at address 0x{address:x}, offset {offset} of a buffer of {} bytes",
            held.len
        );
        Err(Refusal { kind: Kind::Guard, what, launch: 0, gpus: 0 })
    }
}
