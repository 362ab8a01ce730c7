//! Calls: the frames of functions, and what a call passes.
//!
//! Each fragment of a warp has a stack of frames, the innermost first; fragments that diverge in a function share what is below. A
//! frame knows where its lanes return to, and the group in which they reconverge there: lanes may return at different instructions,
//! and lanes of one call may have called different functions. Lanes of different calls that meet at a row, as at `bar.warp.sync`, run
//! together with one stack for each part of them.
//!
//! A function has its own register slots, and a lane writes its own part of a slot only. A call therefore has nothing to save unless
//! the function may already be active in the lane; then its slots are saved here, for the lanes that call it, and each lane gets its
//! values back when it returns. A function that is called anew has written none of its registers and none of its frame.

use std::cell::Cell;
use std::rc::Rc;

use crate::api::trap::{Fault, Rule};
use crate::front::calls::{Actual, CallSite, Formal, Function as CalledFunction, Target};
use crate::front::program::Row;
use crate::front::registers::{Bank, Place};
use crate::memory::window::is_code;
use crate::rules::undefined::{put, shadow, value};
use crate::run::launch::Launch;
use crate::run::machine::{LANES, Machine, Registers, lanes};

/// Local memory of a thread at most (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
const MOST_LOCAL: u64 = 512 << 10;
/// The least limit of local memory, and the local memory of all resident threads together: a grid whose threads all recurse without
/// end must not take all memory.
const LEAST_LOCAL: u64 = 16 << 10;
const ALL_LOCAL: u64 = 4 << 30;

/// The limit of local memory of one thread of a launch.
pub(crate) fn most_local(launch: &Launch) -> usize {
    let product = |sides: [u32; 3]| sides.iter().map(|n| u64::from(*n)).product::<u64>();
    let threads =
        product(launch.block).saturating_mul(product(launch.grid).min(crate::run::schedule::RESIDENT as u64));
    (ALL_LOCAL / threads.max(1)).clamp(LEAST_LOCAL, MOST_LOCAL) as usize
}

/// The calls that a fragment is in; `None` in the entry.
pub(crate) type Stack = Option<Rc<Level>>;

/// The innermost call of a fragment.
pub(crate) enum Level {
    Call(Frame),
    /// Lanes of different calls, each with its own stack.
    Mixed(Vec<(u32, Stack)>),
}

/// The call of a function.
pub(crate) struct Frame {
    /// The function by its number in the kernel.
    pub(crate) function: u32,
    /// The row of the call.
    pub(crate) site: u32,
    /// The lanes that call it.
    pub(crate) mask: u32,
    /// The group in which its lanes reconverge behind the call; [`NEVER`](crate::front::flow::NEVER) until some of them return without the others.
    pub(crate) group: Cell<u32>,
    /// The groups of the caller.
    pub(crate) groups: Vec<u32>,
    /// Bytes of stack in use, this frame included ([`Options::stack_bytes`](crate::Options)).
    used: u64,
    saved: Option<Saved>,
    pub(crate) below: Stack,
}

/// The registers of a function that is active once more.
#[derive(PartialEq)]
struct Saved {
    w: Vec<[u32; LANES]>,
    d: Vec<[u64; LANES]>,
    p: Vec<u32>,
    /// Tracked registers.
    written: Vec<u32>,
    /// Undefined bits, with the row that they come from.
    undefined: Vec<(Place, shadow::Bits, u32)>,
}

impl Drop for Level {
    /// Drops a deep stack without recursion.
    fn drop(&mut self) {
        if let Self::Call(frame) = self
            && frame.below.as_ref().is_none_or(|below| Rc::strong_count(below) > 1)
        {
            return;
        }
        let mut rest: Vec<Stack> = self.take_below();
        while let Some(stack) = rest.pop() {
            if let Some(mut level) = stack.and_then(Rc::into_inner) {
                rest.append(&mut level.take_below());
            }
        }
    }
}

impl Level {
    fn take_below(&mut self) -> Vec<Stack> {
        match self {
            Self::Call(frame) => vec![frame.below.take()],
            Self::Mixed(parts) => parts.drain(..).map(|(_, stack)| stack).collect(),
        }
    }
}

/// Whether two fragments are in the same call.
pub(crate) fn is_same(one: &Stack, other: &Stack) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Rc::ptr_eq(one, other),
        _ => false,
    }
}

/// Whether two stacks are the same calls with the same saved registers.
pub(crate) fn are_equal(one: &Stack, other: &Stack) -> bool {
    let mut pairs = vec![(one, other)];
    while let Some((one, other)) = pairs.pop() {
        if is_same(one, other) {
            continue;
        }
        match (one.as_deref(), other.as_deref()) {
            (Some(Level::Call(a)), Some(Level::Call(b)))
                if (a.function, a.site) == (b.function, b.site) && a.saved == b.saved =>
            {
                pairs.push((&a.below, &b.below));
            }
            (Some(Level::Mixed(a)), Some(Level::Mixed(b)))
                if a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| a == b) =>
            {
                pairs.extend(a.iter().zip(b).map(|((_, a), (_, b))| (a, b)));
            }
            _ => return false,
        }
    }
    true
}

/// The stack of lanes that meet: those of `one` and those of `other`.
pub(crate) fn mixed((mask, one): (u32, Stack), (others, other): (u32, Stack)) -> Stack {
    if is_same(&one, &other) {
        return one;
    }
    Some(Rc::new(Level::Mixed(vec![(mask, one), (others, other)])))
}

/// The rows of the calls that a lane is in, the innermost first.
pub(crate) fn calls(stack: &Stack, lane: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut at = stack.as_ref();
    while let Some(level) = at {
        at = match &**level {
            Level::Call(frame) => {
                found.push(frame.site);
                frame.below.as_ref()
            }
            Level::Mixed(parts) => {
                let part = parts.iter().find(|(mask, _)| mask >> lane & 1 == 1).or(parts.first());
                part.and_then(|(_, stack)| stack.as_ref())
            }
        };
    }
    found
}

/// Bytes of stack that masked lanes use at most.
fn used(stack: &Stack, mask: u32) -> u64 {
    let mut most = 0;
    let mut left = vec![stack];
    while let Some(stack) = left.pop() {
        match stack.as_deref() {
            Some(Level::Call(frame)) => most = most.max(frame.used),
            Some(Level::Mixed(parts)) => {
                left.extend(parts.iter().filter(|(part, _)| part & mask != 0).map(|(_, stack)| stack));
            }
            None => {}
        }
    }
    most
}

/// The functions that the masked lanes call, each with its lanes.
pub(crate) fn targets(m: &Machine<'_>, site: &CallSite) -> Result<Vec<(u32, u32)>, Fault> {
    let Target::Pointer { slot, params, returns, among } = &site.target else {
        return Ok(match site.target {
            Target::Function(function) => vec![(function, m.mask)],
            Target::Pointer { .. } => Vec::new(),
        });
    };
    let address = &m.r.d[*slot as usize];
    let mut found: Vec<(u32, u32)> = Vec::new();
    let mut left = m.mask;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        let alike = lanes(left).filter(|other| address[*other] == address[lane]);
        let mask = alike.fold(0, |mask, lane| mask | 1 << lane);
        left &= !mask;
        let fault = |what: &str| {
            let what = format!("a call through {:#x}, {what}", address[lane]);
            Fault::new(Rule::Operand, what).at(lane)
        };
        let code = address[lane];
        if !is_code(code) {
            return Err(fault("which is not the address of a function"));
        }
        let number = m.kernel.functions.iter().position(|function| function.address == Some(code));
        let number =
            number.ok_or_else(|| fault("which is not the address of a function that the module takes"))?;
        let function = &m.kernel.functions[number];
        let alike = |one: &[Formal], other: &[Formal]| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_like(*other))
        };
        if !alike(params, &function.params) || !alike(returns, &function.returns) {
            return Err(fault(&format!(
                "that is `{}`, whose parameters differ from the prototype's",
                function.name
            )));
        }
        if among.as_ref().is_some_and(|among| !among.contains(&code)) {
            return Err(fault(&format!(
                "that is `{}`, which is not among the call's targets",
                function.name
            )));
        }
        found.push((number as u32, mask));
    }
    Ok(found)
}

/// Calls a function for the lanes of `mask`: passes the arguments, and returns its frame on top of `below`.
pub(crate) fn enter(
    m: &mut Machine<'_>,
    row: &CallSite,
    (function, mask): (u32, u32),
    (site, group): (u32, u32),
    (groups, below): (Vec<u32>, Stack),
) -> Result<Stack, Fault> {
    let kernel = m.kernel;
    let called = &kernel.functions[function as usize];
    let caller = row.caller.map(|caller| &kernel.functions[caller as usize]);
    let frame: [u64; LANES] = match caller {
        Some(caller) => m.r.d[caller.frame as usize].map(|at| at + caller.frame_bytes as u64),
        None => [kernel.local_bytes as u64; LANES],
    };
    let frame = frame.map(|at| at.next_multiple_of(called.align));
    let used = used(&below, mask) + called.stack_bytes;
    if let Some(limit) = m.world.stack_bytes.filter(|limit| used > *limit) {
        let what = format!(
            "stack overflow: `{}` is called with {used} bytes of frames, and a thread has {limit} (cudaLimitStackSize)",
            called.name
        );
        return Err(Fault::new(Rule::OutOfBounds, what).at(mask.trailing_zeros() as usize));
    }
    reserve(m, called, mask, &frame)?;
    let poison = m.world.poison;
    if called.frame_bytes > 0 {
        for lane in lanes(mask) {
            let at = lane * m.r.local_bytes + frame[lane] as usize;
            m.r.local.forget(at, called.frame_bytes, poison);
        }
    }
    // Arguments of a function that calls itself may be registers that are saved next; others have no register in common with their
    // callers.
    let mut passed = Vec::new();
    for (formal, actual) in called.params.iter().zip(&row.arguments) {
        match (*formal, *actual) {
            (Formal::Register(to), Actual::Register(from)) if called.saved.is_none() => {
                pass(m.r, from, to, mask);
            }
            (Formal::Register(to), Actual::Register(from)) => passed.push((to, read(m.r, from, to.0))),
            (Formal::Frame { at, bytes }, Actual::Frame(from)) => {
                for lane in lanes(mask) {
                    let base = lane * m.r.local_bytes;
                    let own = caller.map_or(0, |caller| m.r.d[caller.frame as usize][lane] as usize);
                    let (from, to) = (base + own + from as usize, base + frame[lane] as usize + at as usize);
                    m.r.local.copy_within(from, to, bytes as usize);
                }
            }
            (Formal::Frame { at, bytes }, Actual::Param(from)) => {
                let all = m.world.params.get(from as usize..).unwrap_or_default();
                let given = &all[..all.len().min(bytes as usize)];
                for lane in lanes(mask) {
                    m.r.local.put(lane * m.r.local_bytes + frame[lane] as usize + at as usize, given);
                }
            }
            _ => {}
        }
    }
    let saved = called.saved.as_ref().map(|slots| save(m.r, called, slots));
    for register in &called.watched {
        m.r.written[*register as usize] &= !mask;
    }
    let start = &mut m.r.d[called.frame as usize];
    lanes(mask).for_each(|lane| start[lane] = frame[lane]);
    for (to, passed) in passed {
        write(m.r, to, mask, &passed);
    }
    Ok(Some(Rc::new(Level::Call(Frame {
        function,
        mask,
        site,
        group: Cell::new(group),
        groups,
        used,
        saved,
        below,
    }))))
}

/// Returns from a function in the lanes of `mask`: passes the results, and restores what the call saved.
pub(crate) fn leave(m: &mut Machine<'_>, frame: &Frame, mask: u32) {
    let kernel = m.kernel;
    let called = &kernel.functions[frame.function as usize];
    let Some(row) = kernel.rows.get(frame.site as usize).and_then(Row::extra::<CallSite>) else { return };
    let start = m.r.d[called.frame as usize];
    let mut passed = Vec::new();
    for (formal, actual) in called.returns.iter().zip(&row.results) {
        if let (Formal::Register(from), Actual::Register(to)) = (*formal, *actual) {
            match called.saved {
                None => pass(m.r, from, to, mask),
                Some(_) => passed.push((to, read(m.r, from, to.0))),
            }
        }
    }
    if let (Some(saved), Some(slots)) = (&frame.saved, &called.saved) {
        restore(m.r, called, slots, saved, mask);
        // The start of the frame is no register of the program, and belongs to the activation, too.
        let below = saved.d.last().copied().unwrap_or(start);
        let start = &mut m.r.d[called.frame as usize];
        lanes(mask).for_each(|lane| start[lane] = below[lane]);
    }
    for (formal, actual) in called.returns.iter().zip(&row.results) {
        if let (Formal::Frame { at, bytes }, Actual::Frame(to)) = (*formal, *actual) {
            for lane in lanes(mask) {
                let base = lane * m.r.local_bytes;
                let own = row.caller.map_or(0, |caller| {
                    m.r.d[kernel.functions[caller as usize].frame as usize][lane] as usize
                });
                let (from, to) = (base + start[lane] as usize + at as usize, base + own + to as usize);
                m.r.local.copy_within(from, to, bytes as usize);
            }
        }
    }
    for (to, passed) in passed {
        write(m.r, to, mask, &passed);
    }
}

/// Makes local memory large enough for a frame at these offsets.
fn reserve(
    m: &mut Machine<'_>,
    called: &CalledFunction,
    mask: u32,
    frame: &[u64; LANES],
) -> Result<(), Fault> {
    let deepest = lanes(mask).max_by_key(|lane| frame[*lane]).unwrap_or(0);
    let end = frame[deepest] as usize + called.frame_bytes;
    if end <= m.r.local_bytes {
        return Ok(());
    }
    if end > m.r.most_local {
        let what = format!(
            "stack overflow: `{}` is called with {} bytes of frames below it, and a thread has {}",
            called.name, frame[deepest], m.r.most_local
        );
        return Err(Fault::new(Rule::OutOfBounds, what).at(deepest));
    }
    let bytes = end.max(2 * m.r.local_bytes).min(m.r.most_local).next_multiple_of(64);
    m.r.local = m.r.local.resized(LANES, bytes, m.world.poison);
    m.r.local_bytes = bytes;
    Ok(())
}

/// A register's values, and its undefined bits with the row that they come from.
type Passed = Vec<(shadow::Bits, Option<(shadow::Bits, u32)>)>;

/// Reads a register, or both halves of one of 128 bits.
fn read(r: &Registers, (bank, slot): Place, as_bank: Bank) -> Passed {
    let halves = if as_bank == Bank::Q { 2 } else { 1 };
    let half = |n: u32| {
        let place = (bank, slot + n);
        let undefined = r.shadow.as_ref().filter(|shadow| shadow.is_undefined(place));
        (value(r, place), undefined.map(|shadow| (shadow.bits(place), shadow.from(place).unwrap_or(0))))
    };
    (0..halves).map(half).collect()
}

fn write(r: &mut Registers, (bank, slot): Place, mask: u32, passed: &Passed) {
    for ((bits, undefined), n) in passed.iter().zip(0..) {
        let place = (bank, slot + n);
        let held = value(r, place);
        put(
            r,
            place,
            &std::array::from_fn(|lane| if mask >> lane & 1 == 1 { bits[lane] } else { held[lane] }),
        );
        match (undefined, &mut r.shadow) {
            (Some((bits, from)), _) => r.shadow().set(place, mask, bits, *from),
            (None, Some(shadow)) => shadow.define(place, mask),
            (None, None) => {}
        }
    }
}

/// Copies a register, or both halves of one of 128 bits.
fn pass(r: &mut Registers, from: Place, to: Place, mask: u32) {
    if r.shadow.as_ref().is_some_and(|shadow| shadow.any()) || to.0 == Bank::Q {
        let passed = read(r, from, to.0);
        return write(r, to, mask, &passed);
    }
    fn copy<T: Copy>(all: &mut [[T; LANES]], from: u32, to: u32, mask: u32) {
        let values = all[from as usize];
        let to = &mut all[to as usize];
        match mask {
            u32::MAX => *to = values,
            _ => lanes(mask).for_each(|lane| to[lane] = values[lane]),
        }
    }
    match to.0 {
        Bank::W => copy(&mut r.w, from.1, to.1, mask),
        Bank::D | Bank::Q => copy(&mut r.d, from.1, to.1, mask),
        Bank::P => {
            let value = r.p[from.1 as usize];
            let to = &mut r.p[to.1 as usize];
            *to = *to & !mask | value & mask;
        }
    }
}

/// The slots of a function as registers.
fn places([w, d, p]: &[Vec<u32>; 3]) -> impl Iterator<Item = Place> {
    let all = [(Bank::W, w), (Bank::D, d), (Bank::P, p)];
    all.into_iter().flat_map(|(bank, slots)| slots.iter().map(move |slot| (bank, *slot)))
}

fn save(r: &Registers, called: &CalledFunction, slots: &[Vec<u32>; 3]) -> Saved {
    let [w, d, p] = slots;
    let undefined = r.shadow.as_ref().filter(|shadow| shadow.any()).map_or_else(Vec::new, |shadow| {
        let undefined = places(slots).filter(|place| shadow.is_undefined(*place));
        undefined.map(|place| (place, shadow.bits(place), shadow.from(place).unwrap_or(0))).collect()
    });
    Saved {
        w: w.iter().map(|slot| r.w[*slot as usize]).collect(),
        // The start of the frame comes last.
        d: d.iter().chain([&called.frame]).map(|slot| r.d[*slot as usize]).collect(),
        p: p.iter().map(|slot| r.p[*slot as usize]).collect(),
        written: called.watched.iter().map(|register| r.written[*register as usize]).collect(),
        undefined,
    }
}

fn restore(r: &mut Registers, called: &CalledFunction, slots: &[Vec<u32>; 3], saved: &Saved, mask: u32) {
    let [w, d, p] = slots;
    for (slot, values) in w.iter().zip(&saved.w) {
        let to = &mut r.w[*slot as usize];
        lanes(mask).for_each(|lane| to[lane] = values[lane]);
    }
    for (slot, values) in d.iter().zip(&saved.d) {
        let to = &mut r.d[*slot as usize];
        lanes(mask).for_each(|lane| to[lane] = values[lane]);
    }
    let mixed = |now: u32, then: u32| now & !mask | then & mask;
    for (slot, then) in p.iter().zip(&saved.p) {
        r.p[*slot as usize] = mixed(r.p[*slot as usize], *then);
    }
    for (register, then) in called.watched.iter().zip(&saved.written) {
        r.written[*register as usize] = mixed(r.written[*register as usize], *then);
    }
    if let Some(shadow) = &mut r.shadow {
        places(slots).for_each(|place| shadow.define(place, mask));
        for (place, bits, from) in &saved.undefined {
            shadow.set(*place, mask, bits, *from);
        }
    }
}
