//! Launches: converts arguments, runs all trials without the GIL, updates arrays in place and returns a report.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use emulator::trials::{ContractedPrograms, Launched, Launching, Notices, Plan, Rules};
use emulator::{
    Conflicts, Executed, GlobalMemory, Nobody, Observer, Options, Profile, Progress, Remark, Violation,
};
use numerics::tensor_core::Model;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sm121probe::event::Silent;
use sm121probe::job::Context;
use sm121probe::job::launch::{Given, Initial, Judged, LaunchError, Session, Step};
use sm121probe::toolkit::FpContract;

use crate::argument::{Arguments, arguments};
use crate::history::{self, Ended};
use crate::memory::Memory;
use crate::program::{Program, kernel};
use crate::{report, worker};

/// Interval at which a launch checks for interrupts.
const PATIENCE: Duration = Duration::from_millis(50);

/// The configuration of a launch and of its checks.
#[derive(FromPyObject)]
pub(crate) struct Call {
    #[pyo3(item)]
    entry: String,
    #[pyo3(item)]
    grid: [u32; 3],
    #[pyo3(item)]
    block: Option<[u32; 3]>,
    #[pyo3(item)]
    cluster: Option<[u32; 3]>,
    #[pyo3(item)]
    cooperative: bool,
    #[pyo3(item)]
    smem: Option<u32>,
    /// `all`, `values` or `none`; `strict` is an older word for `all`.
    #[pyo3(item)]
    rules: String,
    #[pyo3(item)]
    strict: bool,
    #[pyo3(item)]
    require_equal: bool,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    schedules: Option<u64>,
    #[pyo3(item)]
    poisons: Option<u8>,
    #[pyo3(item)]
    fuel: Option<u64>,
    /// The time limit of all trials.
    #[pyo3(item)]
    seconds: Option<f64>,
    #[pyo3(item)]
    profile: bool,
    /// The architecture whose arithmetic is modelled, such as `sm_90`.
    #[pyo3(item)]
    model: Option<String>,
    /// Which products and sums are contracted: `off`, `on` or `as-ptxas`.
    #[pyo3(item)]
    contract: String,
    /// The metadata of the kernel from Triton's compiler, as JSON.
    #[pyo3(item)]
    triton: Option<String>,
}

/// Collects the output of a launch, and profiles it on request.
#[derive(Default)]
struct Ear {
    notices: Notices,
    printed: String,
    profile: Option<Profile>,
}

impl Observer for Ear {
    fn row(&mut self, executed: &Executed<'_>) {
        match &mut self.profile {
            Some(profile) => profile.row(executed),
            None => Nobody.row(executed),
        }
    }

    fn printed(&mut self, text: &str) {
        self.printed.push_str(text);
    }

    fn violation(&mut self, violation: &Violation) {
        self.notices.violation(violation);
    }

    fn remark(&mut self, remark: &Remark) {
        self.notices.remark(remark);
    }

    fn undetermined_store(&mut self, store: &Remark) {
        self.notices.undetermined_store(store);
    }

    fn conflicts(&mut self, conflicts: &Conflicts) {
        self.notices.conflicts(conflicts);
    }
}

/// An [`Ear`] that does not observe rows, which makes a launch several times faster.
struct Deaf<'a>(&'a mut Ear);

impl Observer for Deaf<'_> {
    const WATCHES: bool = false;

    fn row(&mut self, _: &Executed<'_>) {}

    fn printed(&mut self, text: &str) {
        self.0.printed(text);
    }

    fn violation(&mut self, violation: &Violation) {
        self.0.violation(violation);
    }

    fn remark(&mut self, remark: &Remark) {
        self.0.remark(remark);
    }

    fn undetermined_store(&mut self, store: &Remark) {
        self.0.undetermined_store(store);
    }

    fn conflicts(&mut self, conflicts: &Conflicts) {
        self.0.conflicts(conflicts);
    }
}

/// The results of all trials, with the printed text and the profiles of the first.
struct Ran {
    judged: Result<Judged, LaunchError>,
    session: Session,
    printed: String,
    profiles: Vec<Profile>,
}

/// Receives the time since a launch began, and the warp instructions executed since.
type Notify = Box<dyn Fn(Duration, u64) + Send + Sync>;

/// What can end a launch before its kernel does.
struct Ends {
    cancel: Arc<AtomicBool>,
    /// The time limit of all trials.
    limit: Option<Duration>,
    /// Called from time to time by a launch that takes seconds.
    notify: Option<Notify>,
}

fn run(mut session: Session, plan: &Plan, profile: bool, ends: Ends) -> Ran {
    let Ends { cancel, limit, notify } = ends;
    let watched = limit.is_some() || notify.is_some();
    let progress = watched.then(|| Arc::new(Progress::new(limit, notify)));
    let (mut printed, mut profiles) = (String::new(), Vec::new());
    let judged = session.judge(plan, |launching: &Launching<'_>, memory| {
        let Launching { step, is_first, .. } = *launching;
        let options = Options {
            cancel: Some(Arc::clone(&cancel)),
            progress: progress.clone(),
            ..launching.options.clone()
        };
        let mut ear = Ear::default();
        let counts = if profile && is_first {
            ear.profile = Some(Profile::new(step.program.listing(step.kernel)));
            emulator::launch_with(step, memory, &options, &mut ear)
        } else {
            emulator::launch_with(step, memory, &options, &mut Deaf(&mut ear))
        };
        if is_first {
            printed.push_str(&ear.printed);
            profiles.extend(ear.profile);
        }
        Ok::<_, LaunchError>(Launched { counts, notices: ear.notices })
    });
    Ran { judged, session, printed, profiles }
}

/// Runs the trials on another thread, while this one checks for signals.
fn run_interruptibly(
    py: Python<'_>,
    session: Session,
    plan: &Plan,
    (profile, limit): (bool, Option<Duration>),
) -> PyResult<Ran> {
    let cancel = Arc::new(AtomicBool::new(false));
    let ends = Ends { cancel: Arc::clone(&cancel), limit, notify: None };
    let theirs = plan.clone();
    // Only for `Sync`: no other thread locks it.
    let receiver = Mutex::new(worker::run(move || run(session, &theirs, profile, ends)));
    let next = |within: Duration| match receiver.lock() {
        Ok(receiver) => receiver.recv_timeout(within),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    };
    loop {
        match py.detach(|| next(PATIENCE)) {
            Ok(ran) => return Ok(ran),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(interrupt) = py.check_signals() {
                    cancel.store(true, Ordering::Relaxed);
                    // The launch ends soon and does not need the interpreter.
                    py.detach(|| next(Duration::MAX).is_ok());
                    return Err(interrupt);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the emulator failed; please report it"));
            }
        }
    }
}

/// Runs the trials on this thread, since to wake another one takes longer than a small launch. Should it take seconds after all, it checks for
/// signals once a second.
fn run_here(
    py: Python<'_>,
    session: Session,
    plan: &Plan,
    (profile, limit): (bool, Option<Duration>),
) -> PyResult<Ran> {
    let cancel = Arc::new(AtomicBool::new(false));
    let interrupt: Arc<Mutex<Option<PyErr>>> = Arc::default();
    let (theirs, found) = (Arc::clone(&cancel), Arc::clone(&interrupt));
    let notify: Notify = Box::new(move |_, _| {
        if let Err(error) = Python::attach(|py| py.check_signals()) {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            theirs.store(true, Ordering::Relaxed);
        }
    });
    // Only the main thread handles signals, so that the launch must not move to others.
    let plan = Plan { threads: 1, ..plan.clone() };
    let ends = Ends { cancel, limit, notify: Some(notify) };
    let ran = py.detach(|| catch_unwind(AssertUnwindSafe(|| run(session, &plan, profile, ends))));
    if let Some(error) = interrupt.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    // A panic has been printed.
    ran.map_err(|_| PyRuntimeError::new_err("the emulator failed; please report it"))
}

/// Number of threads that a launch may use. To ask takes longer than a small launch, since the system's limits are in files.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Number of CTAs of all launches of a session.
fn ctas_of(session: &Session) -> u64 {
    let ctas = |step: &Step| step.grid.iter().map(|n| u64::from(*n)).fold(1, u64::saturating_mul);
    session.steps.iter().map(ctas).fold(0, u64::saturating_add)
}

impl Call {
    /// Returns the time limit.
    fn limit(&self) -> PyResult<Option<Duration>> {
        let Some(seconds) = self.seconds else { return Ok(None) };
        let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
        let limit = limit.ok_or_else(|| {
            PyValueError::new_err(format!(
                "seconds={seconds} is no time limit; pass a positive number or None"
            ))
        })?;
        Ok(Some(limit))
    }

    /// Returns the trials that it asks for.
    fn plan(&self) -> PyResult<Plan> {
        let rules = Rules::parse(&self.rules).ok_or_else(|| {
            let words = Rules::ALL.map(Rules::word).join(", ");
            PyValueError::new_err(format!("rules={:?} is none of {words}", self.rules))
        })?;
        let model = match &self.model {
            Some(name) => Some(Model::parse(name).ok_or_else(|| {
                let names = Model::ALL.map(Model::name).join(", ");
                PyValueError::new_err(format!("model={name:?} is none of {names}"))
            })?),
            None => None,
        };
        Ok(Plan {
            rules,
            strict: self.strict,
            require_equal: self.require_equal,
            seed: self.seed,
            schedules: self.schedules,
            fillings: self.poisons,
            fuel: self.fuel.unwrap_or(Options::default().fuel),
            model,
            threads: threads(),
            ..Plan::default()
        })
    }
}

/// Launches a kernel and returns a report as JSON; a failure is reported under `error`. The arrays `placed` are no arguments: the contents of
/// arguments point to them, so that they, and arguments that overlap them, are at their addresses in this process.
#[pyfunction]
pub(crate) fn launch(
    py: Python<'_>,
    program: &Program,
    memory: Option<Bound<'_, Memory>>,
    call: Call,
    given: Vec<Bound<'_, PyAny>>,
    placed: Vec<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let decoded = match program.decoded(&call.entry)? {
        Ok(decoded) => decoded,
        Err(stop) => {
            let error = report::stop_json(program.name(), &stop);
            return Ok(serde_json::json!({"error": error, "violations": []}).to_string());
        }
    };
    let kernel = kernel(&decoded, &call.entry)?;
    let metadata = call.triton.as_deref().map(|text| program.metadata(text)).transpose()?;
    let hidden = metadata.as_ref().map_or(0, |metadata| metadata.hidden());
    let params = &kernel.params[..kernel.params.len().saturating_sub(hidden)];
    let Arguments { values, mut buffers, arrays } =
        arguments(py, kernel, params, (&given, &placed), memory.as_ref(), metadata.is_some())?;
    let mut step = Step {
        module: 0,
        entry: call.entry.clone(),
        grid: call.grid,
        block: call.block.or(kernel.required_threads).unwrap_or([32, 1, 1]),
        cluster: call.cluster,
        cooperative: call.cooperative,
        shared_bytes: call.smem.unwrap_or(0),
        shift_shared: true,
        args: values,
    };
    if let Some(metadata) = &metadata {
        let given = Given { block: call.block, shared_bytes: call.smem };
        let hidden = metadata
            .complete(&mut step, given, &mut buffers)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        step.args.extend(hidden);
    }
    let (plan, limit) = (call.plan()?, call.limit()?);
    let contract = FpContract::parse(&call.contract).ok_or_else(|| {
        let words = FpContract::ALL.map(FpContract::word).join(", ");
        PyValueError::new_err(format!("contract={:?} is none of {words}", call.contract))
    })?;
    // Other programs have the same text, so that they must not be taken for this one.
    let is_as_written = contract == FpContract::Off;
    // The memory of a device stays locked, so that its launches run one after the other.
    let mut held = memory.as_ref().map(|memory| memory.get().lock(py));
    let base = held.as_mut().map_or_else(GlobalMemory::default, |memory| memory.view());
    let mut session = Session {
        modules: vec![program.module(decoded)],
        base,
        buffers,
        variables: Vec::new(),
        steps: vec![step],
        expectations: Vec::new(),
        contracted: if is_as_written { program.take_contracted() } else { ContractedPrograms::default() },
    };
    // ptxas takes a while and does not need the interpreter.
    let read = py.detach(|| {
        session.contract(contract, &Context { program: PathBuf::new(), libraries: None, sink: &Silent })
    });
    if let Err(error) = read {
        return Ok(report::failed(&error, None).to_string());
    }
    let (ctas, begun) = (ctas_of(&session), Instant::now());
    let run = if program.is_short(ctas) { run_here } else { run_interruptibly };
    let mut ran = run(py, session, &plan, (call.profile, limit))?;
    let elapsed = begun.elapsed();
    program.took(ctas, elapsed);
    if is_as_written {
        program.keep_contracted(std::mem::take(&mut ran.session.contracted));
    }
    let judged = match ran.judged {
        Ok(judged) => judged,
        Err(error) => return Ok(report::failed(&error, None).to_string()),
    };
    let verdict = &judged.verdict;
    let left = |outcome| (outcome, judged.omissions.as_slice());
    let report =
        |outcome| report::report((&ran.session, &plan), left(outcome), verdict, &ran.printed, &ran.profiles);
    let failure = ran.session.failure(verdict, &plan);
    let has_results = verdict.failure(&plan).is_none_or(|failure| failure.has_results());
    let outcome = judged.outcome.as_ref();
    let text = match (&failure, outcome) {
        (None, Some(outcome)) => report(outcome).to_string(),
        (None, None) => return Err(PyRuntimeError::new_err("the emulator failed; please report it")),
        (Some(error), outcome) => {
            let mut failed = report::failed(error, Some(verdict));
            failed["report"] = outcome.map(report).into();
            failed.to_string()
        }
    };
    let instructions = verdict.instructions.iter().sum();
    let Some(mut outcome) = judged.outcome.filter(|_| has_results) else { return Ok(text) };
    let mut session = ran.session;
    let cost = history::cost(&session, &outcome, instructions, elapsed);
    let obstacle = cost.obstacle();
    let lent = if obstacle.is_none() { history::lent_bytes(&session) } else { Vec::new() };
    // Read-only arrays first: if one was changed, no array is updated.
    for writable in [false, true] {
        for (n, buffer) in session.buffers.iter().take(arrays.count()).enumerate() {
            arrays.store(py, n, writable, &buffer.initial, &outcome)?;
        }
    }
    let ended = Ended {
        entry: call.entry,
        owner: memory.as_ref().map(|memory| memory.get().id()),
        arrays: arrays.ranges(),
        bytes: cost.bytes,
    };
    match obstacle {
        Some(why) => {
            // `settle` requires that no other view is alive.
            drop(session);
            history::keep(ended, Err(why));
        }
        None => {
            for (n, bytes) in lent {
                session.buffers[n].initial = Initial::Bytes(bytes);
            }
            history::keep(ended, Ok((session, plan)));
        }
    }
    if let Some(memory) = &mut held {
        let mut after = std::mem::take(&mut outcome.memory);
        for address in &outcome.addresses {
            after.remove(*address);
        }
        memory.settle(after);
    }
    Ok(text)
}
