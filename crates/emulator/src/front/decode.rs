//! Translates the syntax tree of a kernel into rows: names to slots, labels to row numbers, calls to functions that are decoded once.

mod bases;
mod calls;
mod declarations;
mod effects;
mod names;
mod operands;
mod units;
mod unknown;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use crate::api::trap::{Lack, Unsupported};
use crate::front::availability::{self, Arch};
use crate::front::calls::{Actual, CallSite, Formal, Target};
use crate::front::directives;
use crate::front::liveness::Slots;
use crate::front::program::{Attempts, Constant, GlobalUse, Kernel, Origin, Parameter, Row, Special};
use crate::front::registers::{Bank, Step};
use crate::front::words::Refusal;
use crate::front::{rows, syntax};
use crate::isa::operations::Operations;
use crate::rules::drafts::Watch;
use crate::rules::undefined::effect::Effect;
use crate::rules::undefined::hammock;
use crate::work;
use bases::Bases;
pub(crate) use declarations::{MOST_SHARED, TOO_MUCH_SHARED};
pub(crate) use operands::immediate_bits;
use ptx::{Function, Instruction, Span, Statement, Type, Variable};

/// A register: its bank, slot and declared type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Register {
    pub(crate) bank: Bank,
    pub(crate) slot: u32,
    pub(crate) ty: Type,
}

/// The meaning of a name that is not a register.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Symbol {
    Global(usize),
    Const(u64),
    /// Static shared memory, as a shared address.
    Shared(u32),
    /// A variable of the module in shared memory, by its number. It has an address in the kernels that use it.
    SharedOfModule(usize),
    /// Dynamic shared memory, with the alignment of its declaration.
    DynamicShared(u32),
    /// An offset in the thread's local frame.
    Local(u32),
    /// A kernel parameter, by its offset.
    Param(u64),
}

/// How registers are assigned to slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registers {
    /// Registers that are never live together share a slot.
    #[default]
    Shared,
    /// Each register has its own slot: slower; the reference against which sharing is checked.
    Own,
}

/// Why an instruction cannot be decoded.
#[derive(Debug)]
pub(crate) enum Refused {
    /// ptxas refuses it, too: PTX has no such form, or the module's version or target lacks it.
    ByPtx(Refusal),
    /// The emulator does not support it.
    ByEmulator(Refusal),
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Self::ByEmulator(why)
    }
}

/// What the decoder needs of the instruction table, whose rows push rows onto the decoder.
pub(crate) struct Table {
    /// Decodes an instruction.
    pub(crate) decode: fn(&mut Decoder<'_>, &Instruction) -> Result<(), Refused>,
    /// Decodes a call of a function that the driver links.
    pub(crate) decode_system_call: fn(&mut Decoder<'_>, &Instruction) -> Result<(), Refusal>,
    /// Whether there is such a function.
    pub(crate) is_system_call: fn(&str) -> bool,
    /// Marks atomics and waits of which nobody uses the result.
    pub(crate) mark_unused_results: fn(&mut [Row], &[Step]),
}

/// Module-level names that are visible in its functions.
pub(crate) struct Scope<'a> {
    pub(crate) symbols: HashMap<String, Symbol>,
    pub(crate) functions: HashMap<&'a str, &'a Function>,
    /// Variables that the module declares `.extern` and does not define.
    pub(crate) imports: HashSet<&'a str>,
    /// Variables that cannot be initialised, with the reason: an instruction that uses one is refused.
    pub(crate) refused: HashMap<&'a str, String>,
    /// The target of the module.
    pub(crate) arch: Arch,
    /// The `.version` of the module.
    pub(crate) version: (u32, u32),
    /// Where the lines of the text begin.
    pub(crate) lines: Vec<usize>,
    pub(crate) table: &'static Table,
    pub(crate) code: Code<'a>,
    /// The variables of the module in shared memory.
    pub(crate) shared: Vec<&'a Variable>,
}

/// The functions that have an address.
#[derive(Default)]
pub(crate) struct Code<'a> {
    /// Their addresses.
    pub(crate) addresses: HashMap<&'a str, u64>,
    /// Those whose address the module takes: an indirect call may reach them.
    pub(crate) taken: Vec<&'a str>,
    /// The addresses of kernels, which other kernels may launch.
    pub(crate) entries: HashMap<&'a str, u64>,
}

impl Code<'_> {
    /// The address of a function or a kernel.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.addresses.get(name).or_else(|| self.entries.get(name)).copied()
    }
}

/// A jump whose label is still to be resolved.
struct Fixup {
    row: usize,
    label: String,
    span: Span,
}

/// Instructions that only compute registers from registers, by which a result that a program ignores reaches a variable of it.
const FORWARDING: [&str; 8] = ["and", "cvt", "mov", "not", "or", "selp", "setp", "xor"];

/// Decodes one kernel.
pub(crate) struct Decoder<'a> {
    scope: &'a Scope<'a>,
    pub(crate) rows: Vec<Row>,
    origins: Vec<Origin>,
    /// Register names in scope, innermost last. A call pushes its own scope.
    registers: Vec<declarations::Scope>,
    locals: Vec<HashMap<String, Symbol>>,
    labels: HashMap<String, usize>,
    /// Unique names of the visible labels, innermost last: nested blocks may reuse a name.
    label_names: Vec<HashMap<String, String>>,
    blocks: u32,
    tables: HashMap<String, Vec<String>>,
    fixups: Vec<Fixup>,
    slots: Slots,
    /// The bytes of the next load that the program uses, if a `.pragma "used_bytes_mask"` states them.
    pub(crate) used_bytes: Option<u32>,
    constants_w: HashMap<Constant, u32>,
    constants_d: HashMap<Constant, u32>,
    specials_w: HashMap<Special, u32>,
    specials_d: HashMap<Special, u32>,
    /// Bytes of the frame of the function being decoded.
    local_bytes: u32,
    pub(crate) shared_bytes: Cell<u32>,
    /// Shared variables of functions, and those of the module that the kernel uses, by their position in the text.
    statics: RefCell<HashMap<u32, Symbol>>,
    /// Prefix of the labels of the function being decoded.
    prefix: String,
    /// The functions that may run, in the order in which they are decoded.
    units: Vec<units::Unit<'a>>,
    /// The units by name.
    unit_numbers: HashMap<&'a str, u32>,
    /// The unit being decoded; `None` for the entry.
    unit: Option<u32>,
    /// Whether a call reaches any function whose address is taken.
    pub(crate) calls_pointers: bool,
    /// Prototypes and targets of indirect calls, by unique name.
    prototypes: HashMap<String, units::Prototype<'a>>,
    /// Registers that the current instruction reads and writes.
    step: Step,
    steps: Vec<Step>,
    /// Bases of addresses that keep their values.
    bases: Bases,
    effects: Vec<Effect>,
    at: Span,
    loc: (u32, u32),
    text: &'a str,
    /// Whether a copy accesses shared memory through the async proxy.
    pub(crate) async_copies: bool,
    /// Whether it requests the work of CTAs that have not begun.
    pub(crate) takes_work: bool,
    /// How it uses global memory.
    pub(crate) global_use: GlobalUse,
    /// The state spaces in which tensor maps are modified.
    pub(crate) map_edits: Watch,
    /// The largest declared alignment of the dynamic shared memory in use.
    pub(crate) dynamic_align: u32,
}

pub(crate) type Decoded<T> = Result<T, Unsupported>;

impl<'a> Decoder<'a> {
    fn new(scope: &'a Scope<'a>, text: &'a str, slots: Slots) -> Self {
        Self {
            scope,
            rows: Vec::new(),
            origins: Vec::new(),
            registers: vec![declarations::Scope::default()],
            locals: vec![HashMap::new()],
            labels: HashMap::new(),
            label_names: Vec::new(),
            blocks: 0,
            tables: HashMap::new(),
            fixups: Vec::new(),
            slots,
            used_bytes: None,
            constants_w: HashMap::new(),
            constants_d: HashMap::new(),
            specials_w: HashMap::new(),
            specials_d: HashMap::new(),
            local_bytes: 0,
            shared_bytes: Cell::new(0),
            statics: RefCell::default(),
            prefix: String::new(),
            units: Vec::new(),
            unit_numbers: HashMap::new(),
            unit: None,
            calls_pointers: false,
            prototypes: HashMap::new(),
            step: Step::default(),
            steps: Vec::new(),
            bases: Bases::default(),
            effects: Vec::new(),
            at: Span::default(),
            loc: (0, 0),
            text,
            async_copies: false,
            takes_work: false,
            global_use: GlobalUse::Plain,
            map_edits: Watch::Nothing,
            dynamic_align: 1,
        }
    }

    /// The target of the module.
    pub(crate) fn arch(&self) -> Arch {
        self.scope.arch
    }

    /// The `.version` of the module.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.scope.version
    }

    /// Line of the PTX text that is being decoded.
    pub(crate) fn line(&self) -> u32 {
        let lines = self.scope.lines.partition_point(|start| *start <= self.at.start as usize);
        u32::try_from(lines).unwrap_or(0)
    }

    fn unsupported(&self, form: &str, why: impl Into<String>) -> Unsupported {
        let line = ptx::line_column(self.text, self.at.start as usize).line;
        Unsupported { form: form.to_owned(), line, why: why.into(), lack: Lack::Emulator }
    }

    /// Checks that an instruction is a form of PTX, and that the version and the target of the module have it.
    pub(crate) fn check(&self, i: &Instruction) -> Result<(), Refused> {
        let since = syntax::check(self, i).map_err(Refused::ByPtx)?;
        availability::check_version(self.version(), i, since).map_err(Refused::ByPtx)?;
        availability::check(self, i).map_err(Refused::ByPtx)
    }

    fn refused(&self, i: &Instruction, why: Refused) -> Unsupported {
        match why {
            Refused::ByEmulator(why) => self.unsupported(&i.form(), why),
            Refused::ByPtx(why) => Unsupported { lack: Lack::Ptx, ..self.unsupported(&i.form(), why) },
        }
    }

    // ---- statements

    /// Decodes a block; `formals` are the parameters that belong to it.
    fn statements(&mut self, formals: &[&str], body: &'a [Statement]) -> Decoded<()> {
        // A label may be used before its definition.
        self.blocks += 1;
        self.declared_once(formals, body)?;
        let names = body.iter().filter_map(|statement| match statement {
            Statement::Label { name, .. } => {
                Some((name.clone(), format!("{}{}/{name}", self.prefix, self.blocks)))
            }
            _ => None,
        });
        let names = names.collect();
        self.label_names.push(names);
        self.bases.forget();
        let result = self.statements_in_sight(body);
        self.bases.forget();
        self.label_names.pop();
        result
    }

    fn statements_in_sight(&mut self, body: &'a [Statement]) -> Decoded<()> {
        for statement in body {
            match statement {
                Statement::Variable(variable) => {
                    self.declare(variable)?;
                    self.bases.forget();
                }
                Statement::Label { name, .. } => {
                    self.labels.insert(self.label(name), self.rows.len());
                    self.bases.forget();
                }
                Statement::Block(inner) => {
                    self.registers.push(declarations::Scope::default());
                    self.locals.push(HashMap::new());
                    self.statements(&[], inner)?;
                    self.registers.pop();
                    self.locals.pop();
                }
                Statement::Loc { file, line, .. } => self.loc = (*file, *line),
                Statement::BranchTargets { name, labels } => {
                    let full = labels.iter().map(|l| self.label(l)).collect();
                    self.tables.insert(format!("{}{name}", self.prefix), full);
                }
                Statement::Instruction(instruction) => self.instruction(instruction)?,
                Statement::Pragma(words) => self.used_bytes = used_bytes_mask(words),
                Statement::CallTargets { name, functions } => self.call_targets(name, functions),
                Statement::CallPrototype { name, returns, params, directives } => {
                    let never_returns = directives.iter().any(|directive| directive.name == "noreturn");
                    let signature = units::Signature { returns, params, never_returns };
                    let prototype = units::Prototype { signature, targets: None };
                    self.prototypes.insert(format!("{}{name}", self.prefix), prototype);
                }
            }
        }
        Ok(())
    }

    fn instruction(&mut self, i: &Instruction) -> Decoded<()> {
        work::count(1);
        self.at = i.span;
        self.global_use = self.global_use.max(GlobalUse::of_instruction(i));
        i.each_name(|name| self.take_numbered(name));
        // The mask applies to loads only.
        self.used_bytes = self.used_bytes.filter(|_| matches!(i.opcode.as_str(), "ld" | "ldu"));
        let first = self.rows.len();
        self.step = Step::default();
        self.bases.begin(i, self.used_bytes.is_some());
        let made = match i.opcode.as_str() {
            "call" if self.calls_system(i) => {
                (self.scope.table.decode_system_call)(self, i).map_err(Into::into)
            }
            "call" => self.call(i),
            "ret" => self.check(i).and_then(|()| Ok(self.ret(i)?)),
            _ => (self.scope.table.decode)(self, i),
        };
        made.map_err(|why| self.refused(i, why))?;
        let reads = self.step.reads.len();
        let mut guarded = None;
        if let Some(guard) = &i.guard {
            let (slot, _) =
                self.predicate(&guard.register).map_err(|why| self.unsupported(&i.form(), why))?;
            guarded = Some(slot);
            for row in &mut self.rows[first..] {
                row.guard = slot;
                row.negate = if guard.negated { !0 } else { 0 };
            }
        }
        let mut step = std::mem::take(&mut self.step);
        self.bases.end(i, &step.writes);
        if let Some(origin) = self.origins.get_mut(first) {
            origin.first = true;
        }
        if let Some(origin) = self.origins[first..].last_mut() {
            for (place, address) in origin.addresses.iter_mut().zip(&step.addresses) {
                *place = *address;
            }
        }
        match i.opcode.as_str() {
            "call" if !self.calls_system(i) => self.effect_of_call(first),
            "ret" => self.effect_of_call(first),
            _ => self.effect(i, &step, reads, first),
        }
        step.rows = first..self.rows.len();
        step.copies = i.opcode == "mov" && step.reads.len() == 1 && step.writes.len() == 1;
        step.guard = guarded;
        step.forwards = FORWARDING.contains(&i.opcode.as_str());
        self.steps.push(step);
        Ok(())
    }

    // ---- rows

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
        self.origins.push(Origin {
            start: self.at.start,
            end: self.at.end,
            file: self.loc.0,
            line: self.loc.1,
            ..Origin::default()
        });
    }

    /// A jump to a unique label, with its prefix.
    fn jump(&mut self, label: &str) {
        self.fixups.push(Fixup { row: self.rows.len(), label: label.to_owned(), span: self.at });
        self.push(Row::new(rows::branch));
    }

    /// The unique name of a visible label; an unknown one keeps its name and is refused at the end.
    fn label(&self, name: &str) -> String {
        let known = self.label_names.iter().rev().find_map(|names| names.get(name));
        known.cloned().unwrap_or_else(|| name.to_owned())
    }

    /// A jump to a label as the function spells it.
    pub(crate) fn branch(&mut self, label: &str) {
        self.jump(&self.label(label));
    }

    /// The labels of a `.branchtargets` table.
    pub(crate) fn targets(&self, table: &str) -> Option<Vec<String>> {
        self.tables.get(&format!("{}{table}", self.prefix)).cloned()
    }

    /// A jump to a unique label with a row of the caller's making, such as one per target of a branch table.
    pub(crate) fn branch_full(&mut self, row: Row, label: &str) {
        self.fixups.push(Fixup { row: self.rows.len(), label: label.to_owned(), span: self.at });
        self.push(row);
    }
}

/// Size of a variable in bytes; `u64::MAX` if it overflows.
pub(crate) fn size_of(variable: &Variable) -> u64 {
    let unit = u64::from(variable.vector) * variable.ty.bytes() as u64;
    variable.dims.iter().fold(unit, |size, dim| size.saturating_mul(dim.unwrap_or(0)))
}

/// Start and end of a variable placed after others of its state space that end at `at`; `None` beyond `limit`.
pub(crate) fn placed(at: u32, variable: &Variable, limit: u32) -> Option<(u32, u32)> {
    let start = at.checked_next_multiple_of(alignment(variable))?;
    let end = start.checked_add(u32::try_from(size_of(variable)).ok()?)?;
    (end <= limit).then_some((start, end))
}

/// Alignment of a variable.
pub(crate) fn alignment(variable: &Variable) -> u32 {
    let natural = u32::try_from(variable.ty.bytes()).unwrap_or(1).max(1) * u32::from(variable.vector);
    variable.align.unwrap_or(1).max(natural)
}

/// A decoded entry whose jump targets are still row numbers.
struct Entry<'a> {
    decoder: Decoder<'a>,
    params: Vec<Parameter>,
    param_bytes: usize,
    /// Branch targets, by row.
    targets: Vec<Option<usize>>,
}

fn entry<'a>(
    scope: &'a Scope<'a>,
    text: &'a str,
    function: &'a Function,
    slots: Slots,
) -> Decoded<Entry<'a>> {
    let mut decoder = Decoder::new(scope, text, slots);
    if let Some((directive, why)) = directives::of_entry(function, scope.arch.number) {
        let line = ptx::line_column(text, function.span.start as usize).line;
        return Err(Unsupported { form: directive, line, why, lack: Lack::Emulator });
    }
    let mut params = Vec::new();
    let mut offset = 0usize;
    for param in &function.params {
        let size = usize::try_from(size_of(param)).unwrap_or(0);
        let at = offset.next_multiple_of(alignment(param) as usize);
        offset = at + size;
        decoder.name(&param.name, Symbol::Param(at as u64));
        let align = directives::pointer_alignment(param).unwrap_or(1);
        params.push(Parameter { name: param.name.clone(), offset: at, size, ty: param.ty, align });
    }
    let formals: Vec<&str> = function.params.iter().map(|v| v.name.as_str()).collect();
    decoder.statements(&formals, function.body.as_deref().unwrap_or_default())?;
    decoder.push(rows::ending());
    let frame_bytes = decoder.local_bytes;
    decoder.functions()?;
    decoder.local_bytes = frame_bytes;
    let target =
        |fixup: &Fixup| decoder.labels.get(&fixup.label).copied().ok_or_else(|| missing_label(text, fixup));
    let mut targets = vec![None; decoder.rows.len()];
    for fixup in &decoder.fixups {
        targets[fixup.row] = Some(target(fixup)?);
    }
    Ok(Entry { decoder, params, param_bytes: offset, targets })
}

/// The mask that a pragma sets for the next load.
fn used_bytes_mask(words: &[String]) -> Option<u32> {
    words.iter().find_map(|text| {
        let number = text.trim().strip_prefix("used_bytes_mask")?.trim();
        match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => number.parse().ok(),
        }
    })
}

fn missing_label(text: &str, fixup: &Fixup) -> Unsupported {
    let line = ptx::line_column(text, fixup.span.start as usize).line;
    let why = "there is no such label".to_owned();
    Unsupported { form: fixup.label.clone(), line, why, lack: Lack::Ptx }
}

/// Decodes an entry.
pub(crate) fn kernel<'a>(
    scope: &'a Scope<'a>,
    text: &'a str,
    function: &'a Function,
    registers: Registers,
) -> Decoded<Kernel> {
    let mut made = entry(scope, text, function, Slots::default())?;
    let successors = crate::front::flow::successors(&made.decoder.rows, &made.targets);
    let mut entries = made.decoder.entries();
    // Data flow identifies registers by their own slots, before slots are shared.
    let steps = std::mem::take(&mut made.decoder.steps);
    if registers == Registers::Shared {
        let slots = made.decoder.slots.shared(&successors, &steps, &entries);
        made = entry(scope, text, function, slots)?;
    }
    let Entry { mut decoder, params, param_bytes, targets } = made;
    (decoder.scope.table.mark_unused_results)(&mut decoder.rows, &steps);
    let shared = std::mem::take(&mut decoder.steps);
    let shared = if registers == Registers::Shared { &shared } else { &steps };
    let unit_rows = entries.clone();
    let (watched, branches) = crate::front::flow::finish(
        &mut decoder.rows,
        &mut decoder.origins,
        &targets,
        &successors,
        (&steps, shared),
        &mut entries,
    );
    let frame_bytes = decoder.local_bytes.next_multiple_of(16) as usize;
    let functions = decoder.called(&entries, &unit_rows, &watched);
    let hammocks = hammock::hammocks(&decoder.rows, &decoder.origins, &decoder.effects, &branches);
    let reserved = decoder.uses_reserved();
    let pairs = |map: HashMap<Constant, u32>| map.into_iter().map(|(c, slot)| (slot, c)).collect();
    let specials = |map: HashMap<Special, u32>| map.into_iter().map(|(s, slot)| (slot, s)).collect();
    let [w_slots, d_slots, p_slots] = decoder.slots.counts();
    Ok(Kernel {
        name: function.name.clone(),
        operations: Operations::of_rows(&decoder.rows),
        rows: decoder.rows,
        origins: decoder.origins,
        effects: decoder.effects,
        hammocks,
        w_slots,
        d_slots,
        p_slots,
        constants_w: pairs(decoder.constants_w),
        constants_d: pairs(decoder.constants_d),
        specials_w: specials(decoder.specials_w),
        specials_d: specials(decoder.specials_d),
        watched: watched.len(),
        stack_bytes: units::stack_bytes(frame_bytes, &functions),
        functions,
        async_copies: decoder.async_copies,
        takes_work: decoder.takes_work,
        global_use: decoder.global_use,
        attempts: Attempts::default(),
        reserved,
        map_edits: decoder.map_edits,
        dynamic_align: decoder.dynamic_align,
        params,
        param_bytes,
        shared_bytes: decoder.shared_bytes.get(),
        local_bytes: frame_bytes,
        required_threads: directives::required_threads(function),
        max_threads: directives::max_threads(function),
        cluster: directives::of_cluster(function),
    })
}
