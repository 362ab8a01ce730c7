//! Functions: each is decoded once, after the entry, whoever calls it.
//!
//! A function has slots of its own, so a call saves nothing; one that can be active twice in a thread (recursion, function
//! pointers) saves its slots when it is called and restores them when it returns (`run/frames.rs`). Parameters and variables lie in
//! a frame in local memory, which begins where the caller's ends. Nothing is inlined: the decoded kernel is as long as its text, and
//! an instruction of a function is one row for all callers, so lanes that come from different calls can meet at it.

use ptx::{Function as Syntax, Space as AstSpace, Variable};

use super::declarations::{MOST_LOCAL, Scope as Registers};
use super::{Bank, Decoded, Decoder, Refusal, Step, Symbol, alignment, directives, placed, size_of};
use crate::api::trap::Unsupported;
use crate::front::calls::{Formal, Function};
use crate::front::liveness::Life;
use crate::front::program::Row;
use crate::front::rows;

/// The parameters of a function or of a prototype.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signature<'a> {
    pub(super) returns: &'a [Variable],
    pub(super) params: &'a [Variable],
    pub(super) never_returns: bool,
}

impl<'a> Signature<'a> {
    pub(super) fn from_function(function: &'a Syntax) -> Self {
        let never_returns = directives::never_returns(function);
        Self { returns: &function.returns, params: &function.params, never_returns }
    }
}

/// What an indirect call may reach.
#[derive(Debug, Clone)]
pub(super) struct Prototype<'a> {
    pub(super) signature: Signature<'a>,
    /// The addresses of the functions of `.calltargets`.
    pub(super) targets: Option<Vec<u64>>,
}

/// A function during decoding.
pub(super) struct Unit<'a> {
    function: &'a Syntax,
    pub(super) frame: u32,
    params: Vec<Formal>,
    returns: Vec<Formal>,
    /// Bytes of the frame: parameters, then variables.
    bytes: u32,
    /// Bytes of `.local` variables.
    variables: u32,
    /// The alignment of the frame.
    align: u32,
    entry: usize,
    refused: Option<Unsupported>,
    calls: Vec<u32>,
    calls_pointers: bool,
}

impl<'a> Decoder<'a> {
    /// The address of a function with a body.
    pub(super) fn code_address(&self, name: &str) -> Option<u64> {
        self.scope.code.addresses.get(name).copied()
    }

    /// The address of a kernel.
    pub(super) fn entry_address(&self, name: &str) -> Option<u64> {
        self.scope.code.entries.get(name).copied()
    }

    /// `name: .calltargets f, g;`
    pub(super) fn call_targets(&mut self, name: &str, functions: &'a [String]) {
        let known = |name: &String| self.scope.functions.get(name.as_str()).copied();
        let Some(first) = functions.first().and_then(known) else { return };
        let targets = functions.iter().filter_map(|f| self.code_address(f));
        let prototype =
            Prototype { signature: Signature::from_function(first), targets: Some(targets.collect()) };
        self.prototypes.insert(format!("{}{name}", self.prefix), prototype);
    }

    /// The number of a function in the kernel; it is decoded later if it is new.
    pub(super) fn unit_number(&mut self, function: &'a Syntax) -> Result<u32, Refusal> {
        if let Some(known) = self.unit_numbers.get(function.name.as_str()) {
            return Ok(*known);
        }
        let number = u32::try_from(self.units.len()).unwrap_or(u32::MAX);
        let outer = std::mem::replace(&mut self.slots.unit, number + 1);
        let frame = self.slots.take(Bank::D, Life::Always);
        let (mut bytes, mut align) = (0, FRAME_ALIGN);
        let mut formal = |this: &mut Self, variable: &Variable| {
            if variable.space == AstSpace::Reg {
                let register = this.slot(variable.ty, Life::Register);
                return Ok(Formal::Register((register.bank, register.slot)));
            }
            let (at, end) = placed(bytes, variable, MOST_LOCAL)
                .ok_or_else(|| format!("the parameters of `{}` are too large", function.name))?;
            bytes = end;
            align = align.max(alignment(variable));
            Ok(Formal::Frame { at, bytes: end - at })
        };
        let returns = function.returns.iter().map(|v| formal(self, v)).collect::<Result<_, Refusal>>();
        let params = function.params.iter().map(|v| formal(self, v)).collect::<Result<_, Refusal>>();
        self.slots.unit = outer;
        let (params, returns) = (params?, returns?);
        self.unit_numbers.insert(&function.name, number);
        self.units.push(Unit {
            function,
            frame,
            params,
            returns,
            bytes,
            variables: 0,
            align,
            entry: 0,
            refused: None,
            calls: Vec::new(),
            calls_pointers: false,
        });
        Ok(number)
    }

    /// Records a variable of the function being decoded.
    pub(super) fn in_frame_of_function(&mut self, variable: &Variable) {
        let unit = self.unit.and_then(|unit| self.units.get_mut(unit as usize));
        let Some(unit) = unit else { return };
        unit.align = unit.align.max(alignment(variable));
        if variable.space == AstSpace::Local {
            unit.variables =
                unit.variables.saturating_add(u32::try_from(size_of(variable)).unwrap_or(u32::MAX));
        }
    }

    /// Records that the function being decoded calls another one, or any whose address is taken.
    pub(super) fn calls(&mut self, callee: Option<u32>) {
        let unit = self.unit.and_then(|unit| self.units.get_mut(unit as usize));
        match (callee, unit) {
            (Some(callee), Some(unit)) => unit.calls.push(callee),
            (None, Some(unit)) => unit.calls_pointers = true,
            (_, None) => {}
        }
        self.calls_pointers |= callee.is_none();
    }

    /// Decodes all functions that may run.
    pub(super) fn functions(&mut self) -> Decoded<()> {
        let (mut next, mut has_pointed) = (0, false);
        loop {
            while next < self.units.len() {
                // A function that only pointers reach may never be called: it stops the launch if it is.
                if let Err(why) = self.function(next) {
                    if !has_pointed {
                        return Err(why);
                    }
                    self.units[next].refused = Some(why);
                }
                next += 1;
            }
            if !self.calls_pointers || has_pointed {
                return Ok(());
            }
            has_pointed = true;
            for name in &self.scope.code.taken {
                if let Some(function) = self.scope.functions.get(name).copied() {
                    // One with parameters that do not fit cannot be called.
                    let _ = self.unit_number(function);
                }
            }
        }
    }

    fn function(&mut self, number: usize) -> Decoded<()> {
        let Unit { function, bytes, ref params, ref returns, .. } = self.units[number];
        let mut registers = Registers::default();
        let mut locals = std::collections::HashMap::new();
        let mut step = Step::default();
        let formals = function.returns.iter().zip(returns).map(|pair| (pair, false));
        for ((variable, formal), is_given) in
            formals.chain(function.params.iter().zip(params).map(|pair| (pair, true)))
        {
            match *formal {
                Formal::Frame { at, .. } => {
                    locals.insert(variable.name.clone(), Symbol::Local(at));
                }
                Formal::Register((bank, slot)) => {
                    registers.insert(&variable.name, super::Register { bank, slot, ty: variable.ty });
                    if is_given {
                        step.writes.push((bank, slot));
                    }
                }
            }
        }
        let rows = self.rows.len();
        let (steps, effects, fixups) = (self.steps.len(), self.effects.len(), self.fixups.len());
        self.unit = u32::try_from(number).ok();
        self.slots.unit = number as u32 + 1;
        self.prefix = format!("{number}/");
        self.registers = vec![registers];
        self.locals = vec![locals];
        self.label_names.clear();
        self.local_bytes = bytes;
        self.used_bytes = None;
        self.at = function.span;
        self.loc = (0, 0);
        self.units[number].entry = rows;
        self.push(Row::new(rows::entered));
        step.rows = rows..rows + 1;
        self.steps.push(step);
        let names: Vec<&str> =
            function.returns.iter().chain(&function.params).map(|v| v.name.as_str()).collect();
        let body = function.body.as_deref().unwrap_or_default();
        let decoded = match directives::of_function(function) {
            Some((directive, why)) => Err(Unsupported { form: directive, ..self.unsupported("", why) }),
            None => self.statements(&names, body).and_then(|()| self.labelled(fixups)),
        };
        if decoded.is_err() {
            self.rows.truncate(rows + 1);
            self.origins.truncate(rows + 1);
            self.steps.truncate(steps + 1);
            self.effects.truncate(effects);
            self.fixups.truncate(fixups);
        }
        self.step = Step::default();
        self.returns();
        let first = self.rows.len() - 1;
        let mut step = std::mem::take(&mut self.step);
        step.rows = first..first + 1;
        self.steps.push(step);
        self.units[number].bytes = self.local_bytes;
        self.unit = None;
        self.slots.unit = 0;
        decoded.map_err(|why| Unsupported { why: format!("in `{}`: {}", function.name, why.why), ..why })
    }

    /// Whether the jumps from this one on have labels.
    fn labelled(&self, from: usize) -> Decoded<()> {
        match self.fixups[from..].iter().find(|fixup| !self.labels.contains_key(&fixup.label)) {
            None => Ok(()),
            Some(fixup) => Err(super::missing_label(self.text, fixup)),
        }
    }

    /// A row that returns from the function being decoded.
    pub(super) fn returns(&mut self) {
        let unit = self.unit.and_then(|unit| self.units.get(unit as usize));
        let results = unit.map_or(&[][..], |unit| &unit.returns);
        let registers = results.iter().filter_map(|formal| match formal {
            Formal::Register(place) => Some(*place),
            Formal::Frame { .. } => None,
        });
        self.step.reads.extend(registers);
        self.push(rows::returning());
    }

    /// The rows where execution begins: of the entry, and of the functions.
    pub(super) fn entries(&self) -> Vec<usize> {
        std::iter::once(0).chain(self.units.iter().map(|unit| unit.entry)).collect()
    }

    /// The decoded functions. `entries` are their first rows, `begin` the same before rows were inserted, and `watched` has a row, as
    /// in `begin`, for each tracked register.
    pub(super) fn called(&mut self, entries: &[usize], begin: &[usize], watched: &[usize]) -> Vec<Function> {
        let mut slots = self.slots.by_unit(self.units.len() + 1);
        let recursive = self.recursive();
        let mut tracked: Vec<Vec<u32>> = vec![Vec::new(); self.units.len() + 1];
        for (row, register) in watched.iter().zip(0..) {
            tracked[begin.partition_point(|first| first <= row) - 1].push(register);
        }
        let units = std::mem::take(&mut self.units);
        let function = |(number, unit): (usize, Unit<'a>)| {
            let saved = recursive[number].then(|| std::mem::take(&mut slots[number + 1]));
            Function {
                name: unit.function.name.clone(),
                address: self.code_address(&unit.function.name),
                entry: u32::try_from(entries[number + 1]).unwrap_or(u32::MAX),
                frame: unit.frame,
                // A recursion without end must come to an end of the stack.
                frame_bytes: (unit.bytes as usize).next_multiple_of(16).max(if saved.is_some() {
                    16
                } else {
                    0
                }),
                align: u64::from(unit.align),
                stack_bytes: u64::from(unit.variables).next_multiple_of(8) + RETURN_ADDRESS,
                params: unit.params,
                returns: unit.returns,
                saved,
                watched: std::mem::take(&mut tracked[number + 1]),
                refused: unit.refused,
            }
        };
        units.into_iter().enumerate().map(function).collect()
    }

    /// Which functions can be active twice in a thread: those in a cycle of calls. One more node stands for calls through pointers,
    /// which may reach any function whose address is taken.
    ///
    /// Tarjan, "Depth-First Search and Linear Graph Algorithms", without recursion.
    fn recursive(&self) -> Vec<bool> {
        let pointer = self.units.len();
        let pointed: Vec<u32> = match self.calls_pointers {
            true => self.scope.code.taken.iter().filter_map(|f| self.unit_numbers.get(f).copied()).collect(),
            false => Vec::new(),
        };
        let edge = |node: usize, n: usize| match self.units.get(node) {
            Some(unit) if n < unit.calls.len() => Some(unit.calls[n] as usize),
            Some(unit) => (unit.calls_pointers && n == unit.calls.len()).then_some(pointer),
            None => pointed.get(n).map(|unit| *unit as usize),
        };
        let count = pointer + 1;
        let mut found = vec![false; count];
        // Numbers in depth-first order from 1, and the least number that a node reaches.
        let (mut number, mut least, mut next) = (vec![0usize; count], vec![0usize; count], 1);
        let (mut open, mut is_open) = (Vec::new(), vec![false; count]);
        for root in 0..count {
            let mut stack = vec![(root, 0)];
            while let Some((node, n)) = stack.pop() {
                if n == 0 {
                    if number[node] != 0 {
                        continue;
                    }
                    (number[node], least[node]) = (next, next);
                    next += 1;
                    open.push(node);
                    is_open[node] = true;
                }
                crate::work::count(1);
                if let Some(to) = edge(node, n) {
                    found[node] |= to == node;
                    stack.push((node, n + 1));
                    if number[to] == 0 {
                        stack.push((to, 0));
                    } else if is_open[to] {
                        least[node] = least[node].min(number[to]);
                    }
                    continue;
                }
                if let Some((above, _)) = stack.last() {
                    least[*above] = least[*above].min(least[node]);
                }
                if least[node] == number[node] {
                    let at = open.iter().rposition(|n| *n == node).unwrap_or(0);
                    let cycle = open.len() - at > 1;
                    for member in open.drain(at..) {
                        is_open[member] = false;
                        found[member] |= cycle;
                    }
                }
            }
        }
        found.truncate(pointer);
        found
    }
}

/// Local memory with which a thread begins: enough for a few frames of every function; it grows if that is not enough.
pub(super) fn stack_bytes(frame_bytes: usize, functions: &[Function]) -> usize {
    let all: usize = functions.iter().map(|function| function.frame_bytes).sum();
    frame_bytes + all.min(FIRST_STACK)
}

/// The least alignment of a frame.
const FRAME_ALIGN: u32 = 16;

const RETURN_ADDRESS: u64 = 8;

/// Local memory of the functions with which a thread begins at most.
const FIRST_STACK: usize = 1 << 10;
