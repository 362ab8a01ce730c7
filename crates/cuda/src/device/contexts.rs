//! Contexts: which one is current in a thread, and what a call requires of it. What each entry point requires, in its row of the table, was
//! measured call by call on an H200 with driver 580. Each GPU has a primary context; a thread's current GPU is that of its current context.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use emulator::events::{self, MOST_GPUS};

use crate::device::results::say;
use crate::device::visible::selected;
use crate::status::{Answer, Status};

/// What an entry point requires of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Driver: `cuInit`.
    Init,
    /// Driver: a current context.
    Current,
    /// Runtime: nothing; it creates no context.
    Runtime,
    /// Runtime: makes the primary context current if there is none.
    Primary,
}

impl Needs {
    /// Whether an error of the function becomes the runtime's last error.
    pub(crate) const fn is_runtime(self) -> bool {
        matches!(self, Self::Runtime | Self::Primary)
    }
}

/// The handle of the first GPU's primary context; those of the other GPUs and of created contexts follow at multiples of `STEP`.
const PRIMARY: u64 = 0x0059_0000_0000_0010;
const STEP: u64 = 16;

static INITIALIZED: AtomicBool = AtomicBool::new(false);
/// One bit per live context; the first [`MOST_GPUS`] bits are the primary contexts of the GPUs.
static LIVE: AtomicU64 = AtomicU64::new(0);
/// How often the program has retained the primary context of a GPU through the driver.
static RETAINED: [AtomicU32; MOST_GPUS as usize] = [const { AtomicU32::new(0) }; MOST_GPUS as usize];
/// Whether the runtime holds the primary context of a GPU.
static HELD_BY_RUNTIME: [AtomicBool; MOST_GPUS as usize] =
    [const { AtomicBool::new(false) }; MOST_GPUS as usize];
/// The GPU of each context.
static GPU_OF: [AtomicU8; 64] = [const { AtomicU8::new(0) }; 64];

/// The UUID of a GPU of the machine: that of the first one is known to this project's other programs.
fn uuid_of_physical(number: u8) -> [u8; 16] {
    let mut uuid = *events::UUID;
    uuid[15] = number;
    uuid
}

/// The GPUs that the program sees, as numbers of the machine's GPUs.
fn visible() -> &'static Result<Vec<u8>, Status> {
    static VISIBLE: OnceLock<Result<Vec<u8>, Status>> = OnceLock::new();
    VISIBLE.get_or_init(|| {
        let text = std::env::var(events::GPUS).unwrap_or_default();
        let all = 0..text.parse().unwrap_or(1).clamp(1, MOST_GPUS);
        match std::env::var_os("CUDA_VISIBLE_DEVICES") {
            None => Ok(all.collect()),
            Some(value) => {
                let uuids: Vec<[u8; 16]> = all.map(uuid_of_physical).collect();
                let shown = selected(&value.to_string_lossy(), &uuids);
                if shown.is_err() {
                    say(&format!(
                        "CUDA_VISIBLE_DEVICES={} shows the program no GPU, or one twice",
                        value.display()
                    ));
                }
                shown
            }
        }
    })
}

/// The number of GPUs that the program sees.
pub(crate) fn gpus() -> u8 {
    visible().as_ref().map_or(0, |all| all.len() as u8)
}

/// Checks that the program sees a GPU.
pub(crate) fn present() -> Answer {
    visible().as_ref().map(drop).map_err(|status| *status)
}

/// The GPU with this number.
pub(crate) fn gpu(number: c_int) -> Result<u8, Status> {
    present()?;
    u8::try_from(number).ok().filter(|number| *number < gpus()).ok_or(Status::INVALID_DEVICE)
}

/// The number that a GPU has in the machine.
fn physical_of(gpu: u8) -> u8 {
    visible().as_ref().ok().and_then(|all| all.get(usize::from(gpu)).copied()).unwrap_or(gpu)
}

/// The UUID of a GPU.
pub(crate) fn uuid_of(gpu: u8) -> [u8; 16] {
    uuid_of_physical(physical_of(gpu))
}

/// The PCI bus of a GPU.
pub(crate) fn bus_of(gpu: u8) -> u8 {
    physical_of(gpu) + 1
}

/// The GPU at a PCI bus.
pub(crate) fn gpu_at_bus(bus: u8) -> Result<u8, Status> {
    present()?;
    (0..gpus()).find(|gpu| bus_of(*gpu) == bus).ok_or(Status::INVALID_DEVICE)
}

/// The context stack of a thread, as bit numbers. It has no destructor, because programs make calls from their exit handlers.
#[derive(Clone, Copy)]
struct Stack {
    len: usize,
    bits: [u8; 32],
}

impl Stack {
    fn top(&self) -> Option<u8> {
        self.bits.get(self.len.checked_sub(1)?).copied()
    }

    fn push(&mut self, bit: u8) -> Answer {
        *self.bits.get_mut(self.len).ok_or(Status::OUT_OF_MEMORY)? = bit;
        self.len += 1;
        Ok(())
    }

    fn pop(&mut self) -> Option<u8> {
        let top = self.top();
        self.len = self.len.saturating_sub(1);
        top
    }
}

thread_local! {
    static STACK: Cell<Stack> = const { Cell::new(Stack { len: 0, bits: [0; 32] }) };
    /// The GPU that the thread has selected with the runtime.
    static SELECTED: Cell<u8> = const { Cell::new(0) };
    static CALLED_AS: Cell<Option<(Needs, &'static str)>> = const { Cell::new(None) };
}

fn change<T>(by: impl FnOnce(&mut Stack) -> T) -> T {
    let mut stack = STACK.get();
    let result = by(&mut stack);
    STACK.set(stack);
    result
}

fn lives(bit: u8) -> bool {
    LIVE.load(Ordering::SeqCst) >> bit & 1 != 0
}

fn handle(bit: u8) -> u64 {
    PRIMARY + u64::from(bit) * STEP
}

fn bit(context: u64) -> Result<u8, Status> {
    let distance = context.checked_sub(PRIMARY).filter(|d| d.is_multiple_of(STEP) && d / STEP < 64);
    distance.map(|d| (d / STEP) as u8).ok_or(Status::INVALID_CONTEXT)
}

fn end(bit: u8) {
    LIVE.fetch_and(!(1 << bit), Ordering::SeqCst);
}

/// Records that an entry point was called under another name, with the requirements of that name.
pub(crate) fn called_as(needs: Needs, name: &'static str) {
    CALLED_AS.set(Some((needs, name)));
}

/// Prepares the thread for an entry point, by the name that was called; `stream` is the stream it works in.
///
/// # Errors
/// [`Status::NOT_INITIALIZED`], [`Status::INVALID_CONTEXT`] without a current context, [`Status::CONTEXT_IS_DESTROYED`].
pub(crate) fn enter(needs: Needs, stream: Option<u64>) -> Result<(), Status> {
    match needs {
        Needs::Nothing => return Ok(()),
        Needs::Runtime => INITIALIZED.store(present().is_ok(), Ordering::SeqCst),
        Needs::Primary => return enter_primary(),
        Needs::Init | Needs::Current => {}
    }
    if needs == Needs::Runtime {
        return Ok(());
    }
    if !INITIALIZED.load(Ordering::SeqCst) {
        return Err(Status::NOT_INITIALIZED);
    }
    if needs == Needs::Current { current().map(drop) } else { stream.map_or(Ok(()), stream_has_context) }
}

/// A created stream belongs to a context; the default streams (0 to 2) belong to the current one.
pub(crate) fn stream_has_context(stream: u64) -> Answer {
    if stream <= 2 { current().map(drop) } else { Ok(()) }
}

fn enter_primary() -> Answer {
    present()?;
    INITIALIZED.store(true, Ordering::SeqCst);
    match STACK.get().top() {
        Some(bit) if lives(bit) => Ok(()),
        Some(bit) if bit >= MOST_GPUS => Err(Status::CONTEXT_IS_DESTROYED),
        top => {
            let gpu = top.unwrap_or(SELECTED.get());
            hold(gpu);
            if top.is_none() { change(|stack| stack.push(gpu)) } else { Ok(()) }
        }
    }
}

/// The runtime holds the primary context of a GPU.
fn hold(gpu: u8) {
    HELD_BY_RUNTIME[usize::from(gpu)].store(true, Ordering::SeqCst);
    LIVE.fetch_or(1 << gpu, Ordering::SeqCst);
}

/// Makes the primary context of a GPU the thread's current one (`cudaSetDevice`).
pub(crate) fn select(gpu: u8) -> Answer {
    SELECTED.set(gpu);
    hold(gpu);
    change(|stack| {
        stack.pop();
        stack.push(gpu)
    })
}

fn gpu_of_bit(bit: u8) -> u8 {
    if bit < MOST_GPUS { bit } else { GPU_OF[usize::from(bit)].load(Ordering::SeqCst) }
}

/// The thread's current GPU.
pub(crate) fn current_gpu() -> u8 {
    STACK.get().top().map_or_else(|| SELECTED.get(), gpu_of_bit)
}

/// The GPU of a live context.
pub(crate) fn gpu_of(context: u64) -> Result<u8, Status> {
    known(context).map(gpu_of_bit)
}

/// The primary context of a GPU, live or not.
pub(crate) fn primary_of(gpu: u8) -> u64 {
    handle(gpu)
}

/// `cuInit`.
pub(crate) fn initialize() -> Answer {
    present()?;
    INITIALIZED.store(true, Ordering::SeqCst);
    Ok(())
}

/// Returns the current context.
pub(crate) fn current() -> Result<u64, Status> {
    match STACK.get().top() {
        None => Err(Status::INVALID_CONTEXT),
        Some(bit) if lives(bit) => Ok(handle(bit)),
        Some(_) => Err(Status::CONTEXT_IS_DESTROYED),
    }
}

/// Returns a live context; 0 denotes the current one.
pub(crate) fn current_or(context: u64) -> Result<u64, Status> {
    if context == 0 { current() } else { known(context).map(handle) }
}

/// The handle of the thread's current context, live or destroyed; 0 without one.
pub(crate) fn current_handle() -> u64 {
    STACK.get().top().map_or(0, handle)
}

/// The context that owns what the program creates: the current one, or the primary one in a thread without a context.
pub(crate) fn owner() -> u64 {
    STACK.get().top().map_or_else(|| handle(SELECTED.get()), handle)
}

/// Replaces the thread's current context; 0 pops it.
pub(crate) fn set_current(context: u64) -> Answer {
    if context == 0 {
        change(Stack::pop);
        return Ok(());
    }
    let bit = known(context)?;
    change(|stack| {
        stack.pop();
        stack.push(bit)
    })
}

fn known(context: u64) -> Result<u8, Status> {
    let bit = bit(context)?;
    if lives(bit) { Ok(bit) } else { Err(Status::CONTEXT_IS_DESTROYED) }
}

/// Makes a context current until it is popped.
pub(crate) fn push(context: u64) -> Answer {
    if context == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let bit = known(context)?;
    change(|stack| stack.push(bit))
}

/// Pops the current context and makes the one below it current.
pub(crate) fn pop() -> Result<u64, Status> {
    change(Stack::pop).map(handle).ok_or(Status::INVALID_CONTEXT)
}

/// Creates a context of a GPU and makes it current.
pub(crate) fn create(gpu: u8) -> Result<u64, Status> {
    let mut live = LIVE.load(Ordering::SeqCst);
    loop {
        let bit = (MOST_GPUS..64).find(|bit| live >> bit & 1 == 0).ok_or(Status::OUT_OF_MEMORY)?;
        match LIVE.compare_exchange(live, live | 1 << bit, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                GPU_OF[usize::from(bit)].store(gpu, Ordering::SeqCst);
                change(|stack| stack.push(bit))?;
                return Ok(handle(bit));
            }
            Err(now) => live = now,
        }
    }
}

/// Destroys a context that the program created.
pub(crate) fn destroy(context: u64) -> Answer {
    let bit = known(context)?;
    if bit < MOST_GPUS {
        return Err(Status::INVALID_CONTEXT);
    }
    end(bit);
    change(|stack| {
        if stack.top() == Some(bit) {
            stack.pop();
        }
    });
    Ok(())
}

/// Retains the primary context of a GPU.
pub(crate) fn retain_primary(gpu: u8) -> u64 {
    RETAINED[usize::from(gpu)].fetch_add(1, Ordering::SeqCst);
    LIVE.fetch_or(1 << gpu, Ordering::SeqCst);
    handle(gpu)
}

/// Releases the primary context of a GPU; it is destroyed with its last holder.
pub(crate) fn release_primary(gpu: u8) -> Answer {
    let before = RETAINED[usize::from(gpu)]
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |retained| retained.checked_sub(1));
    match before {
        Err(_) => Err(Status::INVALID_CONTEXT),
        Ok(1) if !HELD_BY_RUNTIME[usize::from(gpu)].load(Ordering::SeqCst) => {
            end(gpu);
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Destroys the primary context of a GPU, regardless of its holders.
pub(crate) fn reset_primary(gpu: u8) {
    RETAINED[usize::from(gpu)].store(0, Ordering::SeqCst);
    HELD_BY_RUNTIME[usize::from(gpu)].store(false, Ordering::SeqCst);
    end(gpu);
}

/// Whether the primary context of a GPU is live.
pub(crate) fn primary_is_active(gpu: u8) -> bool {
    lives(gpu)
}

/// The requirements and the name of this call: those of the name it was called by, if recorded.
pub(crate) fn name_of_call(needs: Needs, name: &'static str) -> (Needs, &'static str) {
    CALLED_AS.take().unwrap_or((needs, name))
}
