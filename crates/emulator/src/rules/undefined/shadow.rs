//! The undefined bits of a warp's registers, and their origins.

use crate::front::registers::{Bank, Place};
use crate::run::machine::LANES;

/// The mask of bits of one register, by lane; a predicate has one bit.
pub(crate) type Bits = [u64; LANES];

/// The row of a register that is entirely defined, and of one whose row is not yet known.
const DEFINED: u32 = u32::MAX;
const PENDING: u32 = u32::MAX - 1;

/// A mask for every register of a warp: 1 for each undefined bit.
#[derive(Debug, Clone)]
pub(crate) struct Shadow {
    pub(crate) w: Vec<[u32; LANES]>,
    pub(crate) d: Vec<[u64; LANES]>,
    pub(crate) p: Vec<u32>,
    /// For the carry, one bit per lane.
    pub(crate) carry: u32,
    /// By bank (W, D, P) and slot: the row that caused the undefined bits, or [`DEFINED`].
    from: [Vec<u32>; 3],
    /// Registers with undefined bits.
    count: usize,
    /// Registers whose row is not yet known.
    pending: Vec<Place>,
    /// Branches that undefined bits decided, and whose paths have not met since.
    pub(crate) unsure: Vec<Unsure>,
}

/// A branch that undefined bits decided in these lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsure {
    pub(crate) branch: u32,
    pub(crate) lanes: u32,
    /// The row that caused the bits.
    pub(crate) from: u32,
}

fn bank_number(bank: Bank) -> usize {
    match bank {
        Bank::W => 0,
        Bank::D | Bank::Q => 1,
        Bank::P => 2,
    }
}

/// The lanes of a mask as masks with all bits set.
pub(crate) fn whole(lanes: u32) -> Bits {
    std::array::from_fn(|i| 0u64.wrapping_sub(u64::from(lanes >> i & 1)))
}

/// The lanes that have a bit.
pub(crate) fn lanes_with(bits: &Bits) -> u32 {
    bits.iter().enumerate().fold(0, |lanes, (i, b)| lanes | u32::from(*b != 0) << i)
}

impl Shadow {
    /// Returns the shadow of entirely defined registers: this many slots of banks W, D and P.
    pub(crate) fn new([w, d, p]: [usize; 3]) -> Self {
        Self {
            w: vec![[0; LANES]; w],
            d: vec![[0; LANES]; d],
            p: vec![0; p],
            carry: 0,
            from: [w, d, p].map(|n| vec![DEFINED; n]),
            count: 0,
            pending: Vec::new(),
            unsure: Vec::new(),
        }
    }

    /// Whether any register has undefined bits.
    pub(crate) fn any(&self) -> bool {
        self.count > 0 || self.carry != 0 || !self.unsure.is_empty()
    }

    /// Whether a register has undefined bits in some lane.
    pub(crate) fn is_undefined(&self, (bank, slot): Place) -> bool {
        self.from[bank_number(bank)].get(slot as usize).is_some_and(|from| *from != DEFINED)
    }

    /// The row that caused a register's undefined bits.
    pub(crate) fn from(&self, (bank, slot): Place) -> Option<u32> {
        self.from[bank_number(bank)].get(slot as usize).copied().filter(|from| *from < PENDING)
    }

    /// The undefined bits of a register.
    pub(crate) fn bits(&self, place: Place) -> Bits {
        let (bank, slot) = (place.0, place.1 as usize);
        match bank {
            Bank::W => self.w[slot].map(u64::from),
            Bank::D | Bank::Q => self.d[slot],
            Bank::P => std::array::from_fn(|i| u64::from(self.p[slot] >> i & 1)),
        }
    }

    /// The lanes in which a register has undefined bits.
    pub(crate) fn lanes(&self, place: Place) -> u32 {
        if self.is_undefined(place) { lanes_with(&self.bits(place)) } else { 0 }
    }

    /// Sets the undefined bits of a register in the lanes of `mask`; `from` is the row that caused them.
    pub(crate) fn set(&mut self, place: Place, mask: u32, bits: &Bits, from: u32) {
        let (bank, slot) = (place.0, place.1 as usize);
        for i in crate::run::machine::lanes(mask) {
            match bank {
                Bank::W => self.w[slot][i] = bits[i] as u32,
                Bank::D | Bank::Q => self.d[slot][i] = bits[i],
                Bank::P => self.p[slot] = self.p[slot] & !(1 << i) | u32::from(bits[i] & 1 == 1) << i,
            }
        }
        self.recount(place, from);
    }

    /// Like [`Shadow::set`]; the row is the running one.
    pub(crate) fn set_pending(&mut self, place: Place, mask: u32, bits: &Bits) {
        self.set(place, mask, bits, PENDING);
        self.pending.push(place);
    }

    /// Sets this row as the cause for the registers of [`Shadow::set_pending`].
    pub(crate) fn came_from(&mut self, row: u32) {
        for (bank, slot) in self.pending.drain(..) {
            if let Some(from) = self.from[bank_number(bank)].get_mut(slot as usize)
                && *from == PENDING
            {
                *from = row;
            }
        }
    }

    /// Makes the bits of a slot of the 32-bit bank defined that are above a register's width.
    pub(crate) fn narrow(&mut self, slot: u32, bits: u32) {
        if self.is_undefined((Bank::W, slot)) {
            let from = self.from((Bank::W, slot)).unwrap_or(PENDING);
            self.w[slot as usize].iter_mut().for_each(|undefined| *undefined &= u32::MAX >> (32 - bits));
            self.recount((Bank::W, slot), from);
        }
    }

    /// Makes a register defined in the lanes of `mask`.
    pub(crate) fn define(&mut self, place: Place, mask: u32) {
        if self.is_undefined(place) {
            let from = self.from(place).unwrap_or(PENDING);
            self.set(place, mask, &[0; LANES], from);
        }
    }

    /// [`Shadow::recount`] for a slot of either bank of values.
    pub(crate) fn recount_moved(&mut self, slot: u32, from: u32) {
        for (bank, len) in [(Bank::W, self.w.len()), (Bank::D, self.d.len())] {
            if (slot as usize) < len {
                self.recount((bank, slot), from);
            }
        }
    }

    /// Recomputes whether a register has undefined bits after its mask was changed.
    pub(crate) fn recount(&mut self, place: Place, from: u32) {
        let (bank, slot) = (place.0, place.1 as usize);
        let any = match bank {
            Bank::W => self.w[slot].iter().any(|b| *b != 0),
            Bank::D | Bank::Q => self.d[slot].iter().any(|b| *b != 0),
            Bank::P => self.p[slot] != 0,
        };
        let held = &mut self.from[bank_number(bank)][slot];
        match (*held == DEFINED, any) {
            (true, true) => self.count += 1,
            (false, false) => self.count -= 1,
            _ => {}
        }
        *held = if any { from } else { DEFINED };
    }
}
