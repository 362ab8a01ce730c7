//! Undefined values: they propagate through registers and memory, and are a violation where they decide something.
//!
//! A load of unwritten bytes, or a read of an unwritten register, yields undefined bits. A warp that holds any executes its rows
//! through [`run_row`], which keeps a mask for each register; all other warps run without this cost. Guards, addresses, and
//! operands of barriers and asynchronous instructions must be defined. A store of undefined bytes marks memory as unwritten. The
//! rules per instruction are in `effect.rs`; they follow Valgrind's memcheck (Seward and Nethercote, "Using Valgrind to Detect
//! Undefined Value Errors with Bit-Precision", USENIX 2005).

pub(crate) mod effect;
pub(crate) mod hammock;
mod propagate;
pub(crate) mod report;
pub(crate) mod shadow;
pub(crate) mod stores;

use crate::api::trap::{Cause, Fault, Rule, Source};
use crate::copies::cp_async::lanes_without_source;
use crate::front::program::{NO_STEP, Row};
use crate::front::registers::{Bank, Place};
use crate::run::machine::{Flow, LANES, Machine, Registers, lanes};
use effect::{Propagation, Role};
pub(crate) use shadow::Shadow;
use shadow::Unsure;

/// Per lane, the loaded bytes that are undefined: 0xFF for each.
pub(crate) type Loaded = [[u8; MOST]; LANES];

/// Maximum number of bytes that a lane loads.
pub(crate) const MOST: usize = 32;

impl Registers {
    /// The masks of undefined bits, allocated on first use.
    pub(crate) fn shadow(&mut self) -> &mut Shadow {
        let slots = [self.w.len(), self.d.len(), self.p.len()];
        self.shadow.get_or_insert_with(|| Box::new(Shadow::new(slots)))
    }

    /// Whether any register has undefined bits.
    pub(crate) fn holds_undefined(&self) -> bool {
        self.shadow.as_ref().is_some_and(|shadow| shadow.any())
    }
}

impl Machine<'_> {
    /// Records that bytes read by a lane were never written: bit n is byte n.
    #[cold]
    pub(crate) fn reads_unwritten(&mut self, lane: usize, unwritten: u32) {
        let loaded = self.loaded.get_or_insert_with(|| Box::new([[0; MOST]; LANES]));
        for n in (0..MOST).filter(|n| unwritten >> n & 1 == 1) {
            loaded[lane][n] = 0xFF;
        }
    }

    /// Sets the undefined bits of what the masked lanes loaded: `bits` returns those of destination `n` in a lane.
    #[cold]
    pub(crate) fn loads_undefined(
        &mut self,
        list: &[u32],
        bank: Bank,
        bits: impl Fn(usize, usize) -> u64,
    ) -> Flow {
        let mask = self.mask;
        let shadow = self.r.shadow();
        for (n, slot) in list.iter().enumerate() {
            let mask_of = std::array::from_fn(|lane| bits(n, lane));
            shadow.set_pending((bank, *slot), mask, &mask_of);
        }
        Flow::Undefined
    }

    /// Marks a result that PTX leaves open in these lanes as undefined: of a division by zero, or of a lane that takes no part.
    #[cold]
    pub(crate) fn leaves_open(&mut self, place: Place, lanes: u32) -> Flow {
        if !self.world.check_init {
            return Flow::Next;
        }
        let mask = self.mask;
        self.r.shadow().set_pending(place, mask, &shadow::whole(lanes));
        Flow::Undefined
    }

    /// The fault of an operand that must be defined, in the first lane of `wrong`.
    #[cold]
    fn undefined(&self, place: Place, wrong: u32, what: &str) -> Fault {
        let from = self.r.shadow.as_ref().and_then(|s| s.from(place));
        let lane = wrong.trailing_zeros() as usize;
        Fault { cause: from.map(|pc| self.cause(pc)), ..Fault::new(Rule::Uninitialised, what) }.at(lane)
    }

    /// The cause of undefined bits, given the row that they come from.
    pub(crate) fn cause(&self, pc: u32) -> Cause {
        let step = self.kernel.origins.get(pc as usize).map_or(NO_STEP, |origin| origin.step);
        let rule = self.kernel.effects.get(step as usize).map(|effect| &effect.rule);
        let source = match rule {
            // Rows that belong to no instruction check for unwritten registers.
            None => Source::Register,
            Some(Propagation::Quotient) => Source::Quotient,
            // Of the rows that move bits, only a shuffle has none to move.
            Some(Propagation::Moves { .. }) => Source::Lane,
            Some(_) => Source::Memory,
        };
        Cause { pc, source }
    }
}

/// Checks whether a guard depends on undefined bits in any lane of `fragment`.
#[cold]
pub(crate) fn of_guard(m: &mut Machine<'_>, row: &Row, fragment: u32) -> Result<(), Fault> {
    let place = (Bank::P, row.guard);
    match m.r.shadow.as_ref().map_or(0, |shadow| shadow.lanes(place) & fragment) {
        0 => Ok(()),
        wrong if m.kernel.hammocks.contains_key(&m.pc) => {
            let branch = m.pc;
            let shadow = m.r.shadow();
            let from = shadow.from(place).unwrap_or(branch);
            shadow.unsure.push(Unsure { branch, lanes: wrong, from });
            Ok(())
        }
        wrong => m.tolerate(m.undefined(place, wrong, "a guard depends on undefined bits")),
    }
}

/// Executes a row of a warp that holds undefined bits.
#[cold]
pub(crate) fn run_row(m: &mut Machine<'_>, row: &Row) -> Flow {
    let kernel = m.kernel;
    if m.r.shadow.as_ref().is_some_and(|shadow| !shadow.unsure.is_empty()) {
        meet(m);
    }
    let Some(origin) = kernel.origins.get(m.pc as usize) else { return (row.exec)(m, row) };
    let Some(effect) = kernel.effects.get(origin.step as usize) else { return (row.exec)(m, row) };
    if origin.first {
        for (place, role) in &effect.decides {
            let mut wrong = m.r.shadow.as_ref().map_or(0, |shadow| shadow.lanes(*place)) & m.mask;
            if wrong != 0 && *role == Role::Address {
                wrong &= !lanes_without_source(m, *place);
            }
            if wrong != 0 {
                let what = match role {
                    Role::Address => "an address depends on undefined bits",
                    Role::Operand => "an operand that must be defined depends on undefined bits",
                };
                if let Err(fault) = m.tolerate(m.undefined(*place, wrong, what)) {
                    return m.fail(fault);
                }
            }
        }
    }
    let Some(shadow) = &mut m.r.shadow else { return (row.exec)(m, row) };
    let mut undefined = effect.reads.iter().any(|place| shadow.is_undefined(*place));
    match &effect.rule {
        Propagation::Moves { by } => undefined |= by.iter().any(|place| shadow.is_undefined(*place)),
        Propagation::Compare { with: Some((_, c, _)), .. } => undefined |= shadow.is_undefined(*c),
        Propagation::Chain { .. } => undefined |= shadow.carry != 0,
        // The row determines this itself.
        Propagation::Load => undefined = false,
        _ => {}
    }
    if undefined {
        // Bits above the width of a register are zeros.
        effect.narrow_sources.iter().for_each(|(slot, bits)| shadow.narrow(*slot, *bits));
        return propagate::run(m, row, effect, origin.last);
    }
    if origin.last {
        for place in &effect.writes {
            shadow.define(*place, m.mask);
        }
    }
    (row.exec)(m, row)
}

/// Handles the reconvergence after a branch that undefined bits decided: what depends on the path, of the registers written on
/// either, is undefined in the lanes concerned.
#[cold]
fn meet(m: &mut Machine<'_>) {
    let (kernel, pc, mask) = (m.kernel, m.pc, m.mask);
    let shadow = m.r.shadow();
    for mut unsure in std::mem::take(&mut shadow.unsure) {
        let hammock = kernel.hammocks.get(&unsure.branch).filter(|hammock| hammock.join == pc);
        let here = unsure.lanes & mask;
        for (place, bits) in hammock.filter(|_| here != 0).map_or(&[][..], |hammock| &hammock.writes) {
            let undefined = shadow.bits(*place).map(|before| before | bits);
            shadow.set(*place, here, &undefined, unsure.from);
        }
        if hammock.is_some() {
            unsure.lanes &= !mask;
        }
        if unsure.lanes != 0 {
            shadow.unsure.push(unsure);
        }
    }
}

/// A row before a read of the register in slot `d` (bank number `b`) that some path does not write: in lanes that took such a path,
/// its bits become undefined. `a` is the index of the tracked register.
pub(crate) fn note_unwritten(m: &mut Machine<'_>, row: &Row) -> Flow {
    let missing = m.mask & !m.r.written[row.a as usize];
    if missing == 0 { Flow::Next } else { note(m, row, missing) }
}

#[cold]
fn note(m: &mut Machine<'_>, row: &Row, missing: u32) -> Flow {
    let places: &[Place] = match row.b {
        0 => &[(Bank::W, row.d)],
        1 => &[(Bank::D, row.d)],
        2 => &[(Bank::P, row.d)],
        _ => &[(Bank::D, row.d), (Bank::D, row.d + 1)],
    };
    // A value that no program can rely on, of the register's width.
    let poison = u64::from_ne_bytes([m.world.poison; 8]) & row.imm;
    for place in places {
        let held = value(m.r, *place);
        put(m.r, *place, &std::array::from_fn(|i| if missing >> i & 1 == 1 { poison } else { held[i] }));
        if m.world.check_init {
            let undefined = shadow::whole(missing).map(|bits| bits & row.imm);
            m.r.shadow().set_pending(*place, missing, &undefined);
        }
    }
    if m.world.check_init { Flow::Undefined } else { Flow::Next }
}

/// The number of a bank in rows of [`note_unwritten`].
pub(crate) fn bank_number(bank: Bank) -> u32 {
    match bank {
        Bank::W => 0,
        Bank::D => 1,
        Bank::P => 2,
        Bank::Q => 3,
    }
}

/// Whether a row with this outcome is complete.
fn is_done(flow: &Flow) -> bool {
    matches!(flow, Flow::Next | Flow::Undefined | Flow::Yield | Flow::Barrier(_))
}

/// The value of a register in every lane.
pub(crate) fn value(r: &Registers, (bank, slot): Place) -> shadow::Bits {
    let slot = slot as usize;
    match bank {
        Bank::W => r.w[slot].map(u64::from),
        Bank::D | Bank::Q => r.d[slot],
        Bank::P => std::array::from_fn(|i| u64::from(r.p[slot] >> i & 1)),
    }
}

/// Sets the value of a register in every lane.
pub(crate) fn put(r: &mut Registers, (bank, slot): Place, value: &shadow::Bits) {
    let slot = slot as usize;
    match bank {
        Bank::W => r.w[slot] = value.map(|v| v as u32),
        Bank::D | Bank::Q => r.d[slot] = *value,
        Bank::P => r.p[slot] = lanes(!0).fold(0, |bits, i| bits | ((value[i] & 1) as u32) << i),
    }
}
