//! Plans that a program has made, what it sets for them, and how one runs.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::plan::{Elements, Kind, Plan, Side};
use super::transform::transformed;
use super::{Answer, Failure};
use crate::device::state::device;
use crate::device::submit::submit;
use crate::device::work::{CopyWork, LibraryWork, Memory, Work};
use crate::libraries::answer::refused;
use crate::libraries::kernels::{Arguments, Kernels, ctas};
use crate::program::caller::{called_function, set_called_function};
use crate::program::pointers::Out;
use crate::status;

static KERNELS: Kernels = Kernels::new(include_str!("kernels.ptx"));

/// What a program sets for a plan.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// The plan, once it is made.
    pub(super) plan: Option<Arc<Plan>>,
    pub(super) stream: u64,
    /// Whether the program provides the work area.
    pub(super) has_own_area: bool,
    /// The work area; 0 if there is none yet.
    pub(super) area: u64,
    /// Whether the work area was allocated here.
    is_allocated: bool,
    /// Its properties (`cufftProperty`) that have no effect here.
    pub(super) properties: [i64; 2],
}

#[derive(Debug, Default)]
struct Handles {
    made: c_int,
    live: HashMap<c_int, Settings>,
}

static HANDLES: LazyLock<Mutex<Handles>> = LazyLock::new(Mutex::default);

fn handles() -> MutexGuard<'static, Handles> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" {
    fn cudaMalloc(at: *mut u64, len: usize) -> c_int;
    fn cudaFree(at: u64) -> c_int;
}

/// Makes a handle without a plan.
pub(super) fn create(handle: Out<c_int>) -> Result<c_int, Failure> {
    let mut handles = handles();
    handles.made += 1;
    let new = handles.made;
    handle.set(new)?;
    handles.live.insert(new, Settings::default());
    Ok(new)
}

/// Destroys a handle.
pub(super) fn destroy(handle: c_int) -> Answer {
    let gone = handles().live.remove(&handle).ok_or(Failure::INVALID_PLAN)?;
    release(&gone);
    Ok(())
}

fn release(settings: &Settings) {
    if settings.is_allocated {
        let name = called_function();
        // SAFETY: the memory was allocated for this handle alone.
        unsafe { cudaFree(settings.area) };
        set_called_function(name);
    }
}

/// What a program has set for a handle.
pub(super) fn settings(handle: c_int) -> Result<Settings, Failure> {
    handles().live.get(&handle).cloned().ok_or(Failure::INVALID_PLAN)
}

/// Changes what a program sets for a handle.
pub(super) fn set(handle: c_int, change: impl FnOnce(&mut Settings)) -> Answer {
    handles().live.get_mut(&handle).map(change).ok_or(Failure::INVALID_PLAN)
}

/// Gives a handle its plan, once, and returns the bytes of the work area.
pub(super) fn make(handle: c_int, plan: Plan) -> Result<u64, Failure> {
    let before = settings(handle)?;
    if before.plan.is_some() {
        return Err(Failure::INVALID_PLAN);
    }
    let size = plan.work_size();
    if !before.has_own_area {
        allocate(handle, size)?;
    }
    set(handle, |settings| settings.plan = Some(Arc::new(plan)))?;
    Ok(size)
}

/// Allocates the work area of a handle.
fn allocate(handle: c_int, size: u64) -> Result<u64, Failure> {
    let (mut area, name) = (0, called_function());
    // SAFETY: the place is a local variable.
    let status = unsafe { cudaMalloc(&raw mut area, size as usize) };
    set_called_function(name);
    if status != 0 {
        return Err(Failure::ALLOC_FAILED);
    }
    set(handle, |settings| (settings.area, settings.is_allocated) = (area, true))?;
    Ok(area)
}

/// Uses a work area of the program.
pub(super) fn use_area(handle: c_int, area: u64) -> Answer {
    release(&settings(handle)?);
    set(handle, |settings| (settings.area, settings.is_allocated) = (area, false))
}

/// The transform between the two kernels, in the work area.
#[derive(Debug)]
struct Transform {
    plan: Arc<Plan>,
    is_forward: bool,
    area: u64,
    /// The function that the program called.
    name: &'static str,
}

impl LibraryWork for Transform {
    fn run(&self) -> status::Answer {
        let before = called_function();
        set_called_function(self.name);
        let done = self.transform();
        set_called_function(before);
        done
    }
}

impl Transform {
    fn transform(&self) -> status::Answer {
        let Self { plan, is_forward, area, .. } = self;
        let elements = plan.elements(Side::Input, false);
        let mut numbers = vec![0f64; (elements.of_one() * elements.parts * plan.batch) as usize];
        let host = numbers.as_mut_ptr() as u64;
        let copy = CopyWork::plain(host, *area, numbers.len() * 8).between(Memory::Any, Memory::Device);
        // SAFETY: the numbers have room for the copy.
        unsafe { device()?.copy_box(&copy) }?;
        let results = transformed(plan, &numbers, *is_forward);
        let host = results.as_ptr() as u64;
        let copy = CopyWork::plain(*area, host, results.len() * 8).between(Memory::Device, Memory::Any);
        // SAFETY: the results are there during the copy.
        unsafe { device()?.copy_box(&copy) }
    }
}

/// The arguments of a kernel: from where to where, and the elements of the program's side.
fn arguments([from, to]: [u64; 2], elements: &Elements, batch: i64) -> Arguments {
    let of_one = elements.of_one();
    let [_, middle, fast] = elements.size;
    let counts = [of_one * batch, of_one, middle, fast];
    let arguments = Arguments::default().address(from).address(to);
    let arguments = counts.into_iter().fold(arguments, |all, count| all.word(count as i32));
    let arguments = elements.step.into_iter().fold(arguments, Arguments::long).long(elements.distance);
    arguments.word(elements.parts as i32).word(i32::from(elements.are_dense()))
}

/// Runs the plan of a handle.
pub(super) fn execute(handle: c_int, input: u64, output: u64, direction: c_int) -> Answer {
    let Settings { plan, stream, mut area, has_own_area, .. } = settings(handle)?;
    let plan = plan.ok_or(Failure::INVALID_PLAN)?;
    let is_forward = match (plan.ty.kind, direction) {
        (Kind::RealToComplex, _) | (Kind::Complex, -1) => true,
        (Kind::ComplexToReal, _) | (Kind::Complex, 1) => false,
        _ => return Err(Failure::INVALID_VALUE),
    };
    let size = plan.ty.number.size();
    let sides = [(Side::Input, input), (Side::Output, output)];
    let sides = sides.map(|(side, at)| (plan.elements(side, input == output), at));
    if sides.iter().any(|(elements, at)| at % (size * elements.parts as u64) != 0) {
        return Err(Failure::INVALID_VALUE);
    }
    if area == 0 {
        if has_own_area {
            let what = "it runs without a work area; the program wanted to provide one (`cufftSetAutoAllocation`), and has not \
                        (`cufftSetWorkArea`)";
            device()?.results.remark(format!("{}: {what}", called_function()));
        }
        area = allocate(handle, plan.work_size())?;
    }
    let word = plan.ty.number.word();
    let [of_input, of_output] = &sides;
    let launch = |kernel: &str, places: [u64; 2], elements: &Elements| {
        let count = elements.of_one() * plan.batch;
        let name = format!("cufft_{kernel}_{word}");
        let grid = [ctas(count, 256, 4096), 1, 1];
        KERNELS.launch(stream, &name, grid, [256, 1], arguments(places, elements, plan.batch))
    };
    launch("gather", [of_input.1, area], &of_input.0)?;
    let work = Transform { plan: Arc::clone(&plan), is_forward, area, name: called_function() };
    // SAFETY: the transform accesses memory of the device by itself.
    unsafe { submit(stream, Work::Library(Arc::new(work))) }?;
    Ok(launch("scatter", [area, of_output.1], &of_output.0)?)
}

/// What a plan does not support, by name.
pub(super) fn unsupported(what: &str) -> Failure {
    refused(called_function(), what)
}
