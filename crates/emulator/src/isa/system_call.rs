//! Functions that the driver links (CUDA C++ Programming Guide, "Assertion", "Formatted Output", "Dynamic Global Memory Allocation"):
//! `__assertfail`, `vprintf`, `malloc`, `free`.

use ptx::{Instruction, Operand};

use super::device_runtime;
use crate::api::printf::{Values, format};
use crate::api::trap::{Fault, Rule};
use crate::front::decode::{Decoder, Symbol};
use crate::front::program::{Exec, GlobalUse, NO_SLOT, Row};
use crate::front::words::Refusal;
use crate::memory::window::Window;
use crate::run::machine::{Flow, Machine, Space, lanes};

/// A function, the number of its arguments, and whether it has a result.
pub(super) struct System {
    pub(super) name: &'static str,
    pub(super) arguments: usize,
    pub(super) result: bool,
    pub(super) exec: Exec,
}

const SYSTEM: [System; 4] = [
    System { name: "__assertfail", arguments: 5, result: false, exec: assert_fail },
    System { name: "vprintf", arguments: 2, result: true, exec: vprintf },
    System { name: "malloc", arguments: 1, result: true, exec: malloc },
    System { name: "free", arguments: 1, result: false, exec: free },
];

/// Bytes of the heap for `malloc`: the default limit.
const HEAP: u64 = 8 << 20;

/// The maximum length of a string.
const LONGEST: u64 = 1 << 16;

/// The function of a name, of those that the driver links and those of the device runtime.
fn named(name: &str) -> Option<&'static System> {
    SYSTEM.iter().chain(&device_runtime::FUNCTIONS).find(|system| system.name == name)
}

/// Whether a function without a body is one that the driver links.
pub(crate) fn is_known(name: &str) -> bool {
    named(name).is_some()
}

/// A call of such a function.
pub(crate) fn decode(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let none = &Vec::new();
    let (name, arguments, results) = match i.operands.as_slice() {
        [Operand::Group(results), Operand::Name(name), Operand::Group(arguments)] => {
            (name, arguments, results)
        }
        [Operand::Name(name), Operand::Group(arguments)] => (name, arguments, none),
        [Operand::Group(results), Operand::Name(name)] => (name, none, results),
        [Operand::Name(name)] => (name, none, none),
        _ => return Err("a call of a system function names it and its arguments".to_owned()),
    };
    let system = named(name).ok_or("no such system function")?;
    if arguments.len() != system.arguments || results.len() != usize::from(system.result) {
        return Err(format!("`{name}` takes {} arguments", system.arguments));
    }
    if !matches!(name.as_str(), "vprintf" | "__assertfail") {
        d.global_use = GlobalUse::Allocates;
    }
    let place = |operand: &Operand| match operand {
        Operand::Name(name) => match d.symbol(name) {
            Some(Symbol::Local(at)) => Ok(at),
            _ => Err(format!("`{name}` is not a parameter variable")),
        },
        _ => Err("a call argument that is not a variable".to_owned()),
    };
    let list: Vec<u32> = arguments.iter().chain(results).map(place).collect::<Result<_, _>>()?;
    // The frame of a function has a slot, and that of an entry starts at 0.
    d.push(Row { list: list.into(), a: d.frame().unwrap_or(NO_SLOT), ..Row::new(system.exec) });
    Ok(())
}

/// Where argument `n` of a call lies in local memory.
fn place(m: &Machine<'_>, row: &Row, n: usize, lane: usize) -> usize {
    let frame = m.r.d.get(row.a as usize).map_or(0, |frame| frame[lane] as usize);
    lane * m.r.local_bytes + frame + row.list.get(n).map_or(0, |at| *at as usize)
}

/// Argument `n` of a call, in the frame of a lane.
pub(super) fn argument<const N: usize>(m: &Machine<'_>, row: &Row, n: usize, lane: usize) -> [u8; N] {
    m.r.local.get::<N>(place(m, row, n, lane)).unwrap_or([0; N])
}

pub(super) fn address(m: &Machine<'_>, row: &Row, n: usize, lane: usize) -> u64 {
    u64::from_le_bytes(argument(m, row, n, lane))
}

/// Stores the result of a call in the frame of a lane.
pub(super) fn put_result(m: &mut Machine<'_>, row: &Row, n: usize, lane: usize, bytes: &[u8]) {
    let at = place(m, row, n, lane);
    m.r.local.put(at, bytes);
}

/// The string at a generic address.
fn string(m: &mut Machine<'_>, address: u64, lane: usize) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    for at in 0..LONGEST {
        match m.read::<1>(Space::Generic, address.wrapping_add(at), lane)? {
            [0] => break,
            [byte] => bytes.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn assert_fail(m: &mut Machine<'_>, row: &Row) -> Flow {
    let lane = m.mask.trailing_zeros() as usize % 32;
    let texts: Result<Vec<String>, Fault> =
        [0, 1, 3].into_iter().map(|n| string(m, address(m, row, n, lane), lane)).collect();
    let line = u32::from_le_bytes(argument(m, row, 2, lane));
    match texts {
        Ok(texts) => {
            let thread = m.warp * 32 + lane as u32;
            let what = format!(
                "the assertion `{}` failed in thread {thread} of its CTA: {}:{line}, in {}",
                texts[0], texts[1], texts[2]
            );
            m.fail(Fault::new(Rule::Explicit, what).at(lane))
        }
        Err(fault) => m.fail(fault.at(lane)),
    }
}

/// The values that a call of `vprintf` has packed, each aligned to its size.
struct Packed<'a, 'b> {
    machine: &'a mut Machine<'b>,
    at: u64,
    lane: usize,
}

impl Values for Packed<'_, '_> {
    type Error = Fault;

    fn word(&mut self) -> Result<u32, Fault> {
        self.at = self.at.next_multiple_of(4);
        let bytes = self.machine.read::<4>(Space::Generic, self.at, self.lane)?;
        self.at += 4;
        Ok(u32::from_le_bytes(bytes))
    }

    fn long(&mut self) -> Result<u64, Fault> {
        self.at = self.at.next_multiple_of(8);
        let bytes = self.machine.read::<8>(Space::Generic, self.at, self.lane)?;
        self.at += 8;
        Ok(u64::from_le_bytes(bytes))
    }

    fn string(&mut self, address: u64) -> Result<String, Fault> {
        string(self.machine, address, self.lane)
    }
}

fn vprintf(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let (pattern, at) = (address(m, row, 0, lane), address(m, row, 1, lane));
        let printed = string(m, pattern, lane)
            .and_then(|pattern| format(&pattern, &mut Packed { machine: &mut *m, at, lane }));
        match printed {
            Ok((text, values)) => {
                m.world.printed.push(text);
                put_result(m, row, 2, lane, &values.to_le_bytes());
            }
            Err(fault) => return m.fail(fault.at(lane)),
        }
    }
    Flow::Next
}

/// Allocates bytes of the heap; returns 0 if they do not fit.
pub(super) fn allocate(m: &mut Machine<'_>, size: u64) -> u64 {
    let used: u64 = m.world.global.heap.values().sum();
    let limit = m.world.global.heap_limit.unwrap_or(HEAP);
    if size == 0 || used.checked_add(size).is_none_or(|used| used > limit) {
        return 0;
    }
    let base = m.world.global.allocate(size as usize);
    m.world.global.heap.insert(base, size);
    base
}

fn malloc(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let size = address(m, row, 0, lane);
        let base = allocate(m, size);
        put_result(m, row, 1, lane, &base.to_le_bytes());
    }
    Flow::Next
}

pub(super) fn free(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.world.communicate();
    for lane in lanes(m.mask) {
        let base = address(m, row, 0, lane);
        if base == 0 {
            continue;
        }
        if m.world.global.heap.remove(&base).is_none() || !m.world.global.free(base) {
            let freed = matches!(m.split(Space::Generic, base), Ok((Window::Global, _)));
            let what = format!("free of {base:#x}, which `malloc` did not return or which was already freed");
            let rule = if freed { Rule::UseAfterFree } else { Rule::WrongSpace };
            return m.fail(Fault::new(rule, what).at(lane));
        }
    }
    Flow::Next
}
