//! The emulator as a [`Device`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::device::{
    Argument, Buffer, Device, Failure, Graph, Launch, LaunchFailure, MapElement, MapSwizzle, Module,
    TensorMapSpec, first_difference,
};
use crate::api::observe::{Conflicts, Executed, Observer};
use crate::api::trap::{Place, Stop, StreamStop, Trap};
use crate::copies::tensor_map::{TENSOR_MAP_BYTES, TensorMap};
use crate::copies::tensor_type::{Swizzle, TensorType};
use crate::front::program::Program;
use crate::memory::global::GlobalMemory;
use crate::run::directed::{Directed, MOST_APART};
use crate::run::launch::{self, Options};
use crate::run::stream::InStream;
use crate::run::turns::Turns;
use crate::run::watchpoint::{LastWrite, Watchpoints};

/// Cache of decoded modules, keyed by their text and shared by the devices of a run.
#[derive(Default)]
pub struct Programs(Mutex<HashMap<Arc<str>, Arc<Program>>>);

impl Programs {
    fn load(&self, ptx: &str) -> Result<Arc<Program>, Stop> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(ptx).cloned();
        if let Some(program) = known {
            return Ok(program);
        }
        let program = Arc::new(crate::load(ptx)?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(ptx.into(), Arc::clone(&program));
        Ok(program)
    }

    /// Makes `program` the result of loading `ptx` on a device: the same kernels with another contraction.
    pub fn set(&self, ptx: &str, program: Program) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(ptx.into(), Arc::new(program));
    }
}

/// A device that emulates kernels on the CPU.
pub struct EmulatorDevice {
    programs: Arc<Programs>,
    memory: GlobalMemory,
    buffers: Vec<u64>,
    modules: Vec<Arc<Program>>,
    graphs: Vec<Vec<Launch>>,
    options: Options,
    /// Conflicts of lanes in the launches so far, without those of directed schedules.
    conflicts: Conflicts,
    /// The last write to the watched bytes.
    last_write: Option<Place>,
    /// Rows that warps executed in all launches.
    pub warp_instructions: u64,
}

/// Collects the conflicts of a stream, and the last write to bytes that are watched.
#[derive(Default)]
struct Conflicting(Conflicts, Option<Place>);

impl Observer for Conflicting {
    const WATCHES: bool = false;

    fn row(&mut self, _: &Executed<'_>) {}

    fn conflicts(&mut self, conflicts: &Conflicts) {
        self.0 = conflicts.clone();
    }

    fn written(&mut self, write: &LastWrite) {
        self.1.clone_from(&write.place);
    }
}

impl EmulatorDevice {
    /// A device without buffers. Its kernels must not load unwritten bytes or leave undefined results, and every fence is required.
    #[must_use]
    pub fn new(programs: Arc<Programs>, options: Options) -> Self {
        Self {
            programs,
            memory: GlobalMemory::default(),
            buffers: Vec::new(),
            modules: Vec::new(),
            graphs: Vec::new(),
            options: Options { check_loads: true, check_fences: true, ..options },
            conflicts: Conflicts::default(),
            last_write: None,
            warp_instructions: 0,
        }
    }

    fn address(&self, buffer: Buffer) -> Result<u64, Failure> {
        let address = self.buffers.get(buffer.0).copied();
        address.ok_or_else(|| Failure::Launch(format!("there is no buffer {}", buffer.0)))
    }

    fn map(&self, spec: &TensorMapSpec) -> Result<[u8; TENSOR_MAP_BYTES], Failure> {
        let element = match spec.element {
            MapElement::U8 => TensorType::U8,
            MapElement::U4Unpacked => TensorType::U4Align16,
        };
        let mut map = TensorMap::dense(element, self.address(spec.buffer)?, &spec.dims, &spec.box_dims);
        for (to, from) in map.strides.iter_mut().zip(&spec.strides) {
            *to = *from;
        }
        map.swizzle = match spec.swizzle {
            MapSwizzle::None => Swizzle::None,
            MapSwizzle::B32 => Swizzle::B32,
            MapSwizzle::B64 => Swizzle::B64,
            MapSwizzle::B128 => Swizzle::B128,
            MapSwizzle::B128Atom32 => Swizzle::B128Atom32,
        };
        map.encode().map_err(|error| Failure::Launch(format!("the tensor map is illegal: {error}")))
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        let what = stop.to_string();
        match stop {
            Stop::Trap(trap) => Self::Trap { rule: trap.rule.word().to_owned(), what },
            Stop::Unsupported(_) => Self::Unsupported(what),
            Stop::Launch(_) => Self::Launch(what),
            Stop::Bug(_) => Self::Broken(what),
        }
    }
}

impl Device for EmulatorDevice {
    fn name(&self) -> String {
        "emulator".to_owned()
    }

    fn reset(&mut self) -> Result<(), Failure> {
        self.memory = GlobalMemory::default();
        self.conflicts = Conflicts::default();
        self.options.directed = None;
        self.buffers.clear();
        self.modules.clear();
        self.graphs.clear();
        Ok(())
    }

    fn allocate(&mut self, bytes: Vec<u8>) -> Result<Buffer, Failure> {
        self.buffers.push(self.memory.allocate_with(bytes));
        Ok(Buffer(self.buffers.len() - 1))
    }

    fn allocate_unwritten(&mut self, len: usize) -> Result<Buffer, Failure> {
        self.buffers.push(self.memory.allocate(len));
        Ok(Buffer(self.buffers.len() - 1))
    }

    fn allocate_sparse(&mut self, len: usize) -> Result<Buffer, Failure> {
        let address = self.memory.reserve(len as u64);
        self.buffers
            .push(address.ok_or_else(|| Failure::Launch(format!("no address space for {len} bytes")))?);
        Ok(Buffer(self.buffers.len() - 1))
    }

    fn write_at(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<(), Failure> {
        let (address, held) = (self.address(buffer)?, self.len(buffer)?);
        let end = at.checked_add(bytes.len());
        if end.is_none_or(|end| end > held) || !self.memory.write_at(address + at as u64, bytes) {
            return Err(outside(buffer, held, at, bytes.len()));
        }
        Ok(())
    }

    fn differs(&self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let (address, held) = (self.address(buffer)?, self.len(buffer)?);
        let stored = self.memory.range(address + at as u64, bytes.len());
        let stored = stored.ok_or_else(|| outside(buffer, held, at, bytes.len()))?;
        Ok(first_difference(stored, bytes).map(|byte| at + byte))
    }

    fn watch(&mut self, bytes: Option<(Buffer, Range<usize>)>) {
        self.last_write = None;
        let watched = bytes.and_then(|(buffer, bytes)| {
            let base = self.address(buffer).ok()?;
            let range = base + bytes.start as u64..base + bytes.end as u64;
            Some(Arc::new(Watchpoints::of_results(vec![range])))
        });
        self.options.watchpoints = watched;
    }

    fn last_write(&self) -> Option<String> {
        self.last_write.as_ref().map(ToString::to_string)
    }

    fn is_read(&self, buffer: Buffer) -> Option<bool> {
        Some(self.memory.uses(self.address(buffer).ok()?).read)
    }

    fn reschedule(&mut self, seed: u64) {
        self.options.seed = seed;
    }

    fn direct_lanes(&mut self, turns: Option<Turns>) -> Option<String> {
        self.options.directed = None;
        let first = self.conflicts.lanes.first()?;
        let what = format!("{}; {}", first.what, first.place);
        self.options.directed = turns.map(|turns| {
            let lanes_meet = self.warp_instructions > MOST_APART;
            Arc::new(Directed { turns, conflicts: self.conflicts.clone(), lanes_meet })
        });
        Some(what)
    }

    fn read(&self, buffer: Buffer) -> Result<Vec<u8>, Failure> {
        let bytes = self.memory.bytes(self.address(buffer)?).map(<[u8]>::to_vec);
        bytes.ok_or_else(|| {
            Failure::Launch(format!("buffer {} is sparse and has no bytes as a whole", buffer.0))
        })
    }

    fn forget(&mut self, buffer: Buffer) -> Result<(), Failure> {
        let address = self.address(buffer)?;
        self.memory.forget(address);
        Ok(())
    }

    fn load(&mut self, ptx: &str) -> Result<Module, Failure> {
        self.modules.push(self.programs.load(ptx)?);
        Ok(Module(self.modules.len() - 1))
    }

    fn parameters(&self, module: Module, entry: &str) -> Option<Vec<(String, usize)>> {
        let kernel = self.modules.get(module.0)?.kernel(entry)?;
        Some(kernel.params.iter().map(|p| (p.name.clone(), p.size)).collect())
    }

    fn capture(&mut self, launches: &[Launch]) -> Result<Graph, LaunchFailure> {
        for (n, launch) in launches.iter().enumerate() {
            self.made(launch).map_err(|failure| LaunchFailure { launch: n, failure })?;
        }
        self.graphs.push(launches.to_vec());
        Ok(Graph(self.graphs.len() - 1))
    }

    fn replay(&mut self, graph: Graph) -> Result<(), LaunchFailure> {
        let launches = self.graphs.get(graph.0).cloned();
        self.run(&launches.ok_or_else(|| Failure::Launch(format!("there is no graph {}", graph.0)))?)
    }

    fn run(&mut self, launches: &[Launch]) -> Result<(), LaunchFailure> {
        let mut made = Vec::new();
        for (n, launch) in launches.iter().enumerate() {
            made.push(self.made(launch).map_err(|failure| LaunchFailure { launch: n, failure })?);
        }
        let mut stream = Vec::new();
        for ((program, launch), requested) in made.iter().zip(launches) {
            // `made` checked that it exists.
            let Some(kernel) = program.kernel(&requested.entry) else { continue };
            stream.push(InStream {
                programmatic: requested.programmatic,
                cluster: Some(requested.cluster).filter(|cluster| *cluster != [1; 3]),
                cooperative: requested.cooperative,
                ..InStream::new(program, kernel, launch)
            });
        }
        let mut found = Conflicting::default();
        self.memory.share();
        let before = self.memory.clone();
        let mut ended = launch::run_stream(&stream, &mut self.memory, &self.options, &mut found);
        match &mut ended {
            Err(StreamStop { stop: Stop::Trap(trap), .. }) => {
                locate_other_access(trap, &stream, before, &self.options);
            }
            _ => drop(before),
        }
        self.memory.own_all();
        if let Some(mut place) = found.1 {
            place.read_source();
            self.last_write = Some(place);
        }
        if self.options.directed.is_none() {
            let Conflicts { lanes, lane_rows, .. } = found.0;
            self.conflicts.lanes.extend(lanes);
            self.conflicts.lane_rows.extend(lane_rows);
        }
        match ended {
            Ok(counts) => {
                self.warp_instructions += counts.warp_instructions;
                // Every stored result is read by a later stage or compared, so undefined bytes are a failure.
                self.memory.any_undefined().map_or(Ok(()), |trap| {
                    let failure = Stop::Trap(Box::new(trap.clone())).into();
                    Err(LaunchFailure { launch: trap.place.launch, failure })
                })
            }
            Err(StreamStop { launch, stop }) => Err(LaunchFailure { launch, failure: stop.into() }),
        }
    }
}

/// Runs launches that a race has ended again, to find the other access. What is not found there stays unnamed.
fn locate_other_access(
    trap: &mut Trap,
    stream: &[InStream<'_>],
    mut before: GlobalMemory,
    options: &Options,
) {
    let Some(other) = trap.other.as_deref().filter(|other| other.place.is_none()) else { return };
    let watchpoints = Some(Arc::new(Watchpoints::of_races(vec![other.clone()])));
    let options = Options { watchpoints, ..options.clone() };
    let again = launch::run_stream(stream, &mut before, &options, &mut Conflicting::default());
    if let Err(StreamStop { stop: Stop::Trap(found), .. }) = again
        && (found.rule, &found.place) == (trap.rule, &trap.place)
    {
        trap.other = found.other;
    }
}

/// The failure for a write or comparison beyond the end of a buffer.
fn outside(buffer: Buffer, held: usize, at: usize, len: usize) -> Failure {
    Failure::Launch(format!("buffer {} has {held} bytes, not {len} from byte {at} on", buffer.0))
}

impl EmulatorDevice {
    /// Length of a buffer in bytes; for a sparse one, including what is not stored.
    fn len(&self, buffer: Buffer) -> Result<usize, Failure> {
        let address = self.address(buffer)?;
        let sparse = self.memory.reserved(address).map(|len| len as usize);
        Ok(sparse.unwrap_or_else(|| self.memory.bytes(address).map_or(0, <[u8]>::len)))
    }

    /// Returns the module of a launch, and the launch with its parameter bytes.
    fn made(&self, launch: &Launch) -> Result<(Arc<Program>, launch::Launch), Failure> {
        let program = self.modules.get(launch.module.0).cloned();
        let program =
            program.ok_or_else(|| Failure::Launch(format!("there is no module {}", launch.module.0)))?;
        let kernel = program
            .kernel(&launch.entry)
            .ok_or_else(|| Failure::Launch(format!("the module has no entry `{}`", launch.entry)))?;
        if kernel.params.len() != launch.arguments.len() {
            return Err(Failure::Launch(format!(
                "`{}` has {} parameters, not {}",
                kernel.name,
                kernel.params.len(),
                launch.arguments.len()
            )));
        }
        let mut params = vec![0; kernel.param_bytes];
        for (parameter, argument) in kernel.params.iter().zip(&launch.arguments) {
            let bytes = match argument {
                Argument::Value(bytes) => bytes.clone(),
                Argument::Address(buffer) => self.address(*buffer)?.to_le_bytes().to_vec(),
                Argument::Map(spec) => self.map(spec)?.to_vec(),
            };
            if bytes.len() != parameter.size {
                return Err(Failure::Launch(format!(
                    "parameter `{}` of `{}` has {} bytes, its argument {}",
                    parameter.name,
                    kernel.name,
                    parameter.size,
                    bytes.len()
                )));
            }
            params[parameter.offset..parameter.offset + parameter.size].copy_from_slice(&bytes);
        }
        let launch = launch::Launch {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            params,
        };
        Ok((program, launch))
    }
}
