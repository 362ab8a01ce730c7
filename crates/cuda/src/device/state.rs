//! The simulated GPUs of the process: memory, modules and functions, behind one lock. All GPUs are of one kind and share the address
//! space; every allocation and every module belongs to one.
#![expect(unsafe_code, reason = "memory that the program shares")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use emulator::GlobalMemory;
use emulator::events::{self, Event, MOST_GPUS};
use emulator::trials::{ContractedPrograms, Plan};

use crate::device::advice::Advices;
use crate::device::allocations::{Allocation, Copied, Kind};
use crate::device::arrays::Arrays;
use crate::device::contexts;
use crate::device::graphs::{Graphs, Unlaunched};
use crate::device::handles::Handle;
use crate::device::limits::{Limits, plan};
use crate::device::links::Links;
use crate::device::mappings::Mappings;
use crate::device::module::Module;
use crate::device::peers::Peers;
use crate::device::pools::Pools;
use crate::device::record::Recorder;
use crate::device::results::{REPORTED, Results, Unwritten, say};
use crate::device::streams::Streams;
use crate::device::user_objects::Gone;
use crate::device::work::Function;
use crate::program::host_memory;
use crate::program::host_memory::WINDOW_END;
use crate::program::image::Image;
use crate::status::{Answer, Status};
use emulator::gpus::{GPUS, Gpu};

/// The simulated GPUs.
pub(crate) struct Device {
    pub(crate) gpu: &'static Gpu,
    pub(crate) memory: GlobalMemory,
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    /// Addresses and sizes of the allocations that the CPU accesses at the same address.
    pub(crate) shared: BTreeMap<u64, usize>,
    /// Loaded modules by number. Numbers are never used again, so that a handle of an unloaded module is invalid.
    pub(crate) modules: HashMap<usize, Module>,
    modules_loaded: usize,
    /// The GPU for which a module was loaded; those of libraries are for every GPU.
    gpu_of_module: HashMap<usize, u8>,
    /// Kernels to which the program has handles, by number.
    pub(crate) functions: HashMap<usize, Function>,
    functions_named: usize,
    /// The numbers of a module's kernels, by name.
    by_name: HashMap<usize, HashMap<Arc<str>, usize>>,
    /// The error left by a launch; every later call returns it, as in CUDA.
    pub(crate) sticky: Option<Status>,
    pub(crate) keep_going: bool,
    pub(crate) limits: Limits,
    /// The stack of a thread that the program has set.
    pub(crate) stack_bytes: Option<usize>,
    /// The other limits that the program has set, by number (`cudaLimit`).
    pub(crate) limits_set: HashMap<c_int, usize>,
    /// The most bytes of dynamic shared memory that kernels may use, where the program has set them.
    pub(crate) dynamic_shared: HashMap<Function, u32>,
    /// The number of launches that ran.
    pub(crate) launches: u64,
    /// The number of warp instructions that they executed.
    pub(crate) executed: u64,
    /// The trials of each launch.
    pub(crate) plan: Plan,
    /// Programs of each module with every product and sum contracted.
    pub(crate) contracted: HashMap<usize, ContractedPrograms>,
    /// For each kernel that was launched, the number of launches in which lanes of a store wrote different values to one address.
    pub(crate) lane_trials: HashMap<Arc<str>, Option<u32>>,
    /// Whether an unqualified product and the sum that uses it are rounded once.
    contracts: bool,
    pub(crate) streams: Streams,
    pub(crate) graphs: Graphs,
    /// The addresses of the values of conditional nodes, by GPU and number.
    pub(crate) condition_blocks: BTreeMap<(u8, usize), u64>,
    pub(crate) pools: Pools,
    pub(crate) peers: Peers,
    pub(crate) mappings: Mappings,
    pub(crate) advices: Advices,
    pub(crate) arrays: Arrays,
    pub(crate) links: Links,
    /// The number of textures and surfaces made; handles are never used again.
    pub(crate) textures_made: usize,
    pub(crate) results: Results,
    pub(crate) recorder: Option<Recorder>,
    /// Bytes in use of each GPU.
    used: [u64; MOST_GPUS as usize],
    missing: HashSet<String>,
    /// Copies to the host that are not judged yet.
    pub(crate) unwritten: Vec<Unwritten>,
    /// Names to which the program has pointers.
    texts: HashMap<Arc<str>, CString>,
    pid: u32,
}

static DEVICE: OnceLock<Mutex<Device>> = OnceLock::new();

/// Returns the device, created on first use.
///
/// # Errors
/// [`Status::NOT_INITIALIZED`] in a process forked from one that uses the device; CUDA does not survive a fork either.
pub(crate) fn device() -> Result<MutexGuard<'static, Device>, Status> {
    let device = DEVICE.get_or_init(|| Mutex::new(Device::new()));
    // The lock may be held by a thread that does not exist in the forked process.
    let device = match device.try_lock() {
        Ok(device) => device,
        Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(std::sync::TryLockError::WouldBlock) if forked() => return Err(Status::NOT_INITIALIZED),
        Err(std::sync::TryLockError::WouldBlock) => device.lock().unwrap_or_else(PoisonError::into_inner),
    };
    if device.pid == std::process::id() { Ok(device) } else { Err(Status::NOT_INITIALIZED) }
}

static PID: OnceLock<u32> = OnceLock::new();

fn forked() -> bool {
    PID.get().is_some_and(|pid| *pid != std::process::id())
}

/// Reports the end of the process if it used the device.
pub(crate) fn end() {
    if forked() {
        return;
    }
    let Some(Ok(mut device)) = DEVICE.get().map(Mutex::try_lock) else { return };
    device.report_unwritten();
    let bases: Vec<u64> = device.allocations.keys().copied().collect();
    bases.into_iter().for_each(|base| device.remark_unread(base));
    let unlaunched = device.graphs.unlaunched();
    unlaunched.into_iter().for_each(|of| device.remark_unlaunched(Some(of)));
    let owned = device.allocations.values().filter(|a| a.kind.is_owned());
    let unreleased = device.mappings.unreleased();
    let (leaks, leaked) = owned.fold(unreleased, |(n, bytes), a| (n + 1, bytes + a.len as u64));
    device.results.end(leaks, leaked);
}

impl Device {
    fn new() -> Self {
        let key = std::env::var(events::GPU).unwrap_or_default();
        let gpu = Gpu::with_key(&key).unwrap_or(&GPUS[0]);
        let pid = *PID.get_or_init(std::process::id);
        end_with_parent();
        host_memory::reserve_window();
        let results = Results::of_environment(gpu.key);
        let limits = Limits::of_environment();
        Self {
            gpu,
            // Zeros, the default, cost nothing until they are overwritten.
            memory: GlobalMemory::filled_with(limits.poison).bounded(WINDOW_END),
            allocations: BTreeMap::new(),
            shared: BTreeMap::new(),
            modules: HashMap::new(),
            modules_loaded: 0,
            gpu_of_module: HashMap::new(),
            functions: HashMap::new(),
            functions_named: 0,
            by_name: HashMap::new(),
            sticky: None,
            keep_going: std::env::var_os(events::KEEP_GOING).is_some(),
            plan: plan(gpu, &limits),
            limits,
            stack_bytes: None,
            limits_set: HashMap::new(),
            dynamic_shared: HashMap::new(),
            launches: 0,
            executed: 0,
            contracted: HashMap::new(),
            lane_trials: HashMap::new(),
            contracts: std::env::var_os(events::CONTRACT).is_some(),
            streams: Streams::default(),
            graphs: Graphs::default(),
            condition_blocks: BTreeMap::new(),
            pools: Pools::default(),
            peers: Peers::default(),
            mappings: Mappings::default(),
            advices: Advices::default(),
            arrays: Arrays::default(),
            links: Links::default(),
            textures_made: 0,
            results,
            recorder: Recorder::of_environment(),
            used: [0; MOST_GPUS as usize],
            unwritten: Vec::new(),
            missing: HashSet::new(),
            texts: HashMap::new(),
            pid,
        }
    }

    /// Reports an API function that is not supported, once; the text may go on with the cause.
    pub(crate) fn miss(&mut self, function: &str) {
        REPORTED.set(true);
        if self.missing.insert(function.to_owned()) {
            let (name, cause) = function.split_once(": ").unwrap_or((function, ""));
            let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
            say(&format!("{name} is not supported; it returns CUDA_ERROR_NOT_SUPPORTED{cause}"));
            self.results.tell(&Event::Missing { function: function.to_owned() });
        }
    }

    /// Returns the error left by a launch, if any.
    pub(crate) fn healthy(&self) -> Result<(), Status> {
        self.sticky.map_or(Ok(()), Err)
    }

    /// The number of free bytes of a GPU.
    pub(crate) fn free_bytes(&self, gpu: u8) -> u64 {
        self.gpu.memory.saturating_sub(self.used(gpu))
    }

    /// Takes bytes of a GPU's memory into use.
    pub(crate) fn use_bytes(&mut self, gpu: u8, len: u64) -> Answer {
        if len > self.free_bytes(gpu) {
            return Err(Status::OUT_OF_MEMORY);
        }
        self.used[usize::from(gpu)] += len;
        Ok(())
    }

    /// Bytes of a GPU's memory are no longer in use.
    pub(crate) fn give_back_bytes(&mut self, gpu: u8, len: u64) {
        let used = &mut self.used[usize::from(gpu)];
        *used = used.saturating_sub(len);
    }

    /// Allocates memory of a pool of a GPU and returns its address.
    pub(crate) fn allocate_from(
        &mut self,
        pool: u64,
        gpu: u8,
        len: usize,
        kind: Kind,
    ) -> Result<u64, Status> {
        let base = self.allocate_on(gpu, len, kind)?;
        if let Some(made) = self.allocations.get_mut(&base) {
            made.pool = pool;
            self.pools.take(pool, made.len as u64);
        }
        Ok(base)
    }

    /// Allocates memory of the current GPU and returns its address.
    pub(crate) fn allocate(&mut self, len: usize, kind: Kind) -> Result<u64, Status> {
        self.allocate_on(contexts::current_gpu(), len, kind)
    }

    fn allocate_on(&mut self, gpu: u8, len: usize, kind: Kind) -> Result<u64, Status> {
        self.healthy()?;
        if kind.counts() && len as u64 > self.free_bytes(gpu) {
            return Err(Status::OUT_OF_MEMORY);
        }
        let len = len.max(1);
        if kind.on_host() {
            return self.allocate_shared(gpu, len, kind);
        }
        self.host_can_hold(len)?;
        match self.memory.allocate(len) {
            0 => Err(Status::OUT_OF_MEMORY),
            address => Ok(self.insert(address, gpu, len, kind)),
        }
    }

    /// The host may have less memory than the device; a failed reservation here is not an abort. Bytes other than zeros are written, so
    /// that they take memory of the host.
    pub(crate) fn host_can_hold(&self, len: usize) -> Answer {
        let fits = match self.limits.poison {
            0 => Vec::<u8>::new().try_reserve_exact(len).is_ok(),
            _ => host_has(len),
        };
        if len > 1 << 28 && !fits { Err(Status::OUT_OF_MEMORY) } else { Ok(()) }
    }

    /// Allocates memory whose pages the CPU accesses at the same address.
    fn allocate_shared(&mut self, gpu: u8, len: usize, kind: Kind) -> Result<u64, Status> {
        let address = self.memory.reserve_next(len as u64).ok_or(Status::OUT_OF_MEMORY)?;
        // SAFETY: the addresses are new.
        if !unsafe { host_memory::map(address, len) } {
            return Err(Status::OUT_OF_MEMORY);
        }
        // SAFETY: the pages were mapped here, and stay until `free` removes the allocation.
        if !self.memory.place_lent(address, unsafe { host_memory::lent(address, len) }) {
            return Err(Status::OUT_OF_MEMORY);
        }
        if self.limits.poison != 0 && kind != Kind::Pinned && host_has(len) {
            // SAFETY: as above.
            unsafe { std::ptr::write_bytes(address as *mut u8, self.limits.poison, len) };
        }
        self.shared.insert(address, len);
        Ok(self.insert(address, gpu, len, kind))
    }

    fn insert(&mut self, address: u64, gpu: u8, len: usize, kind: Kind) -> u64 {
        if kind.counts() {
            self.used[usize::from(gpu)] += len as u64;
        }
        self.allocations.insert(address, Allocation::new(len, kind, gpu));
        address
    }

    /// Frees the allocation that begins at `address`; 0 is ignored.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), Status> {
        if address == 0 {
            return Ok(());
        }
        match self.allocations.get(&address) {
            Some(found) if found.kind.is_owned() => {}
            // Graph memory lives until the process ends.
            Some(found) if found.kind == Kind::Graph => return Ok(()),
            _ => return Err(Status::INVALID_VALUE),
        }
        self.report_unwritten();
        self.remark_unread(address);
        let gone = self.allocations.remove(&address).ok_or(Status::INVALID_VALUE)?;
        self.pools.give_back(gone.pool, gone.len as u64);
        self.memory.free(address);
        self.advices.forget(&(address..address + gone.len as u64));
        if self.shared.remove(&address).is_some() {
            // SAFETY: `allocate_shared` mapped the pages, and the emulator no longer has them.
            unsafe { host_memory::unmap(address, gone.len) };
        }
        if gone.kind.counts() {
            self.give_back_bytes(gone.gpu, gone.len as u64);
        }
        Ok(())
    }

    /// The number of bytes of a GPU in use.
    pub(crate) fn used(&self, gpu: u8) -> u64 {
        self.used.get(usize::from(gpu)).copied().unwrap_or_default()
    }

    /// Remarks that kernels were recorded and did not run; a violation may have kept them from running.
    fn remark_unlaunched(&mut self, of: Option<Unlaunched>) {
        if let Some(of) = of.filter(|_| self.sticky.is_none()) {
            self.results.remark(of.to_string());
        }
    }

    /// Destroys an instance of a graph.
    pub(crate) fn destroy_instance(&mut self, instance: u64) -> Result<Vec<Gone>, Status> {
        let of = self.graphs.unlaunched_instance(instance);
        self.graphs.destroy_instance(instance)?;
        self.remark_unlaunched(of);
        Ok(self.graphs.objects.forget(instance))
    }

    /// Destroys a graph.
    pub(crate) fn destroy_graph(&mut self, graph: u64) -> Result<Vec<Gone>, Status> {
        let of = self.graphs.unlaunched_graph(graph);
        self.graphs.destroy(graph)?;
        self.remark_unlaunched(of);
        Ok(self.graphs.objects.forget(graph))
    }

    /// Remarks that no kernel has used what the host has copied to an allocation.
    fn remark_unread(&mut self, base: u64) {
        let Some(Allocation { len, copied: Copied { filled_after, read }, .. }) = self.allocations.get(&base)
        else {
            return;
        };
        let (len, uses) = (*len, self.memory.uses(base));
        // Kernels that a violation kept from running might have read it.
        let may_be_input = filled_after.is_some_and(|before| before < self.launches) && self.sticky.is_none();
        if may_be_input && !read && !uses.read && !uses.written {
            self.results
                .remark(format!("no kernel has read an allocation of {len} bytes that the host had filled"));
        }
    }

    /// Registers host memory, so that kernels can access it at its own address.
    ///
    /// # Safety
    /// The host has `len` bytes at the address until they are unregistered.
    pub(crate) unsafe fn register(&mut self, address: u64, len: usize) -> Result<(), Status> {
        self.healthy()?;
        if address == 0 || len == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let end = address.checked_add(len as u64).ok_or(Status::INVALID_VALUE)?;
        let before = self.allocations.range(..end).next_back();
        if before.is_some_and(|(base, a)| base + a.len as u64 > address) {
            return Err(Status::ALREADY_REGISTERED);
        }
        // Kernels cannot access addresses that belong to another state space of the emulator.
        // SAFETY: as promised by the caller.
        if !self.memory.place_lent(address, unsafe { host_memory::lent(address, len) }) {
            return Err(Status::NOT_SUPPORTED);
        }
        self.shared.insert(address, len);
        self.allocations.insert(address, Allocation::new(len, Kind::Registered, contexts::current_gpu()));
        Ok(())
    }

    /// Ends the registration of host memory.
    pub(crate) fn unregister(&mut self, address: u64) -> Result<(), Status> {
        let found = self.allocations.get(&address);
        if found.is_none_or(|a| a.kind != Kind::Registered) {
            return Err(Status::NOT_REGISTERED);
        }
        self.allocations.remove(&address);
        self.shared.remove(&address);
        self.memory.remove(address);
        Ok(())
    }

    /// Maps a `__managed__` variable so that the CPU can access it at its address.
    pub(crate) fn share_variable(&mut self, address: u64, len: usize) -> Result<(), Status> {
        if self.allocations.contains_key(&address) {
            return Ok(());
        }
        let initial = self.memory.range(address, len).ok_or(Status::INVALID_VALUE)?.to_vec();
        // SAFETY: the emulator has placed the variable there, and it is not mapped yet.
        if !unsafe { host_memory::map(address, len) } {
            return Err(Status::OUT_OF_MEMORY);
        }
        // SAFETY: the pages were mapped here, and stay mapped.
        unsafe { std::ptr::copy_nonoverlapping(initial.as_ptr(), address as *mut u8, len) };
        // SAFETY: as above.
        self.memory.lend(address, unsafe { host_memory::lent(address, len) });
        self.shared.insert(address, len);
        self.allocations
            .insert(address, Allocation::new(len, Kind::ManagedVariable, contexts::current_gpu()));
        Ok(())
    }

    /// The allocation that contains an address.
    pub(crate) fn around(&self, address: u64) -> Option<(u64, Allocation)> {
        let (base, allocation) = self.allocations.range(..=address).next_back()?;
        (address - base < allocation.len as u64).then_some((*base, *allocation))
    }

    /// Loads a module for a GPU; for any GPU if `None`.
    pub(crate) fn load(&mut self, image: Image, gpu: Option<u8>) -> usize {
        let number = self.modules_loaded;
        self.modules_loaded += 1;
        self.modules.insert(number, Module::from_image(image, self.gpu, self.contracts));
        self.gpu_of_module.extend(gpu.map(|gpu| (number, gpu)));
        number
    }

    /// Unloads a module: its memory is freed, and its handles and those of its kernels become invalid.
    pub(crate) fn unload(&mut self, module: usize) -> Result<(), Status> {
        let gone = self.modules.remove(&module).ok_or(Status::INVALID_HANDLE)?;
        for number in self.by_name.remove(&module).into_iter().flat_map(HashMap::into_values) {
            self.functions.remove(&number);
        }
        self.contracted.remove(&module);
        self.gpu_of_module.remove(&module);
        for address in gone.free(&mut self.memory) {
            if let Some(variable) = self.allocations.remove(&address) {
                self.shared.remove(&address);
                // SAFETY: `share_variable` mapped the pages, and the emulator no longer has them.
                unsafe { host_memory::unmap(address, variable.len) };
            }
        }
        Ok(())
    }

    /// The GPU for which a module was loaded; `None` if it is for every GPU.
    pub(crate) fn gpu_of_module(&self, module: usize) -> Option<u8> {
        self.gpu_of_module.get(&module).copied()
    }

    /// Returns the handle of a kernel.
    pub(crate) fn function(&mut self, module: usize, name: &str) -> u64 {
        let (functions, count) = (&mut self.functions, &mut self.functions_named);
        let name = Arc::<str>::from(name);
        let number = *self.by_name.entry(module).or_default().entry(Arc::clone(&name)).or_insert_with(|| {
            let number = *count;
            *count += 1;
            functions.insert(number, Function { module, name });
            number
        });
        Handle::Function.make(number)
    }

    /// Returns a C string that stays at its address.
    pub(crate) fn text(&mut self, text: &Arc<str>) -> *const c_char {
        let made = || CString::new(&**text).unwrap_or_default();
        self.texts.entry(Arc::clone(text)).or_insert_with(made).as_ptr()
    }

    /// Returns address and size in bytes of a module's variable.
    pub(crate) fn variable(&mut self, module: usize, name: &str) -> Result<(u64, usize), Status> {
        let found = self.modules.get_mut(&module).ok_or(Status::INVALID_HANDLE)?;
        found.variable(&mut self.memory, name)
    }
}

/// Ends the program when the process that runs it is killed, as it would end with it on a terminal.
fn end_with_parent() {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let parent: Option<i32> = std::env::var(events::PARENT).ok().and_then(|pid| pid.parse().ok());
    // The signal is that of the immediate parent, which may be a shell that goes on by itself.
    if parent.is_some() && getppid().map(|pid| pid.as_raw_nonzero().get()) == parent {
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
}

/// Whether the host has this much free memory, as far as is known.
fn host_has(len: usize) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<usize>().ok());
    kib.is_none_or(|kib| len / 1024 < kib)
}
