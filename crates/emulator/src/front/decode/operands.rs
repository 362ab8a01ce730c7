//! Maps operands to slots: registers, immediates, special registers, the addresses of variables.

use ptx::{AddressBase, Immediate, Operand, Type};

use super::{Bank, Decoder, MOST_SHARED, Refusal, Register, Symbol};
use crate::front::liveness::Life;
use crate::front::program::{Constant, Row, Special};
use crate::front::rows;
use crate::memory::spans::{KEEPS, TAKES};
use crate::run::machine::{Machine, Space};

impl Decoder<'_> {
    /// A temporary register for a type: only the rows of this instruction use it.
    pub(crate) fn fresh(&mut self, ty: Type) -> Register {
        self.slot(ty, Life::Step(self.steps.len()))
    }

    /// A new register for a type.
    pub(super) fn slot(&mut self, ty: Type, life: Life) -> Register {
        let bank = Bank::holding(ty);
        let slot = self.slots.take(bank, life);
        if bank == Bank::D {
            self.bases.overwrite(slot);
        }
        Register { bank, slot, ty }
    }

    pub(crate) fn register(&self, name: &str) -> Option<Register> {
        self.registers.iter().rev().find_map(|scope| scope.get(name))
    }

    /// Returns the register of this name, which the instruction reads.
    pub(super) fn read(&mut self, name: &str) -> Option<Register> {
        let register = self.register(name)?;
        self.step.reads.push((register.bank, register.slot));
        if register.bank == Bank::W && register.ty.bytes() < 4 {
            self.step.narrow_sources.push((register.slot, register.ty.bytes() as u32 * 8));
        }
        Some(register)
    }

    pub(crate) fn symbol(&self, name: &str) -> Option<Symbol> {
        let local = self.locals.iter().rev().find_map(|scope| scope.get(name));
        match local.or_else(|| self.scope.symbols.get(name)).copied() {
            // As nvlink does, and ptxas: a kernel has those that it, or a function that it may call, names.
            Some(Symbol::SharedOfModule(number)) => {
                let variable = self.scope.shared.get(number)?;
                let too_large = || {
                    self.shared_bytes.set(MOST_SHARED);
                    Symbol::Shared(crate::memory::window::SHARED_START)
                };
                Some(self.in_shared(variable).unwrap_or_else(too_large))
            }
            other => other,
        }
    }

    fn constant_w(&mut self, constant: Constant) -> u32 {
        let slots = &mut self.slots;
        *self.constants_w.entry(constant).or_insert_with(|| slots.take(Bank::W, Life::Always))
    }

    fn constant_d(&mut self, constant: Constant) -> u32 {
        let slots = &mut self.slots;
        *self.constants_d.entry(constant).or_insert_with(|| slots.take(Bank::D, Life::Always))
    }

    /// A slot of the 32-bit bank that holds `bits` in every lane.
    pub(crate) fn bits_w(&mut self, bits: u32) -> u32 {
        self.constant_w(Constant::Bits(u64::from(bits)))
    }

    /// A slot of the 64-bit bank that holds `bits` in every lane.
    pub(crate) fn bits_d(&mut self, bits: u64) -> u32 {
        self.constant_d(Constant::Bits(bits))
    }

    /// The special register of this name as a slot of the 32-bit bank.
    pub(crate) fn special_w(&mut self, special: Special) -> u32 {
        let slots = &mut self.slots;
        *self.specials_w.entry(special).or_insert_with(|| slots.take(Bank::W, Life::Always))
    }

    pub(crate) fn special_d(&mut self, special: Special) -> u32 {
        let slots = &mut self.slots;
        *self.specials_d.entry(special).or_insert_with(|| slots.take(Bank::D, Life::Always))
    }

    /// A source of up to 32 bits. `ty` determines how a number is read.
    pub(crate) fn src(&mut self, operand: &Operand, ty: Type) -> Result<u32, Refusal> {
        match operand {
            Operand::Name(name) => {
                if let Some(register) = self.read(name) {
                    return match register.bank {
                        Bank::W => Ok(register.slot),
                        bank => Err(format!("`{name}` holds {bank}, but a register of {ty} is required")),
                    };
                }
                if let Some(special) = Special::named(name) {
                    let slot = self.special_w(special);
                    return Ok(self.low_part(slot, ty));
                }
                if name == "WARP_SZ" {
                    return Ok(self.bits_w(32));
                }
                if let Some((a, at)) = self.in_frame(name, 0) {
                    return Ok(self.frame_low(a, at, ty));
                }
                let slot = match self.address_of(name, 0, false)? {
                    Constant::Bits(bits) => self.bits_w(bits as u32),
                    other => self.constant_w(other),
                };
                Ok(self.low_part(slot, ty))
            }
            Operand::Offset(name, offset) => {
                if let Some((a, at)) = self.in_frame(name, *offset) {
                    return Ok(self.frame_low(a, at, ty));
                }
                let constant = self.address_of(name, *offset, false)?;
                let slot = self.constant_w(constant);
                Ok(self.low_part(slot, ty))
            }
            Operand::Immediate(immediate) => Ok(self.bits_w(immediate_bits(*immediate, ty) as u32)),
            other => Err(format!("`{other}` is not an operand of {ty}")),
        }
    }

    /// The low bits of a 32-bit slot as a value of `ty`, in a separate row if `ty` is narrower: `mov.u16 %rs1, %ctaid.x`.
    fn low_part(&mut self, slot: u32, ty: Type) -> u32 {
        match ty.bytes() {
            bytes @ (1 | 2) => {
                let part = self.fresh(ty).slot;
                self.push(Row { d: part, a: slot, ..rows::part(0, 8 * bytes as u32) });
                part
            }
            _ => slot,
        }
    }

    /// A source of 64 bits.
    pub(crate) fn src_d(&mut self, operand: &Operand, ty: Type) -> Result<u32, Refusal> {
        match operand {
            Operand::Name(name) => {
                if let Some(register) = self.read(name) {
                    return match register.bank {
                        Bank::D | Bank::Q => Ok(register.slot),
                        bank => Err(format!("`{name}` holds {bank}, but a 64-bit register is required")),
                    };
                }
                if let Some(special) = Special::named(name) {
                    return Ok(self.special_d(special));
                }
                if name == "WARP_SZ" {
                    return Ok(self.bits_d(32));
                }
                if let Some((a, at)) = self.in_frame(name, 0) {
                    return Ok(self.frame_whole(a, at));
                }
                let constant = self.address_of(name, 0, false)?;
                Ok(self.constant_d(constant))
            }
            Operand::Offset(name, offset) => {
                if let Some((a, at)) = self.in_frame(name, *offset) {
                    return Ok(self.frame_whole(a, at));
                }
                let constant = self.address_of(name, *offset, false)?;
                Ok(self.constant_d(constant))
            }
            Operand::Immediate(immediate) => Ok(self.bits_d(immediate_bits(*immediate, ty))),
            other => Err(format!("`{other}` is not an operand of {ty}")),
        }
    }

    /// The slot that holds the start of the function's frame in local memory; `None` in an entry, whose frame starts at 0.
    pub(crate) fn frame(&self) -> Option<u32> {
        self.unit.and_then(|unit| self.units.get(unit as usize)).map(|unit| unit.frame)
    }

    /// A place behind a variable in the frame of a function: the slot of the frame's start, and the offset.
    fn in_frame(&self, name: &str, offset: i64) -> Option<(u32, i64)> {
        match (self.symbol(name), self.frame()) {
            (Some(Symbol::Local(at)), Some(frame)) => Some((frame, i64::from(at).wrapping_add(offset))),
            _ => None,
        }
    }

    fn frame_whole(&mut self, a: u32, at: i64) -> u32 {
        let d = self.fresh(Type::B64).slot;
        self.push(Row { d, a, imm: at as u64, ..Row::new(rows::frame_address) });
        d
    }

    fn frame_low(&mut self, a: u32, at: i64, ty: Type) -> u32 {
        let d = self.fresh(Type::B32).slot;
        self.push(Row { d, a, imm: at as u64, ..Row::new(rows::frame_address_low) });
        self.low_part(d, ty)
    }

    /// Whether the kernel uses reserved shared memory.
    pub(super) fn uses_reserved(&self) -> bool {
        let all = self.specials_w.keys().chain(self.specials_d.keys());
        all.into_iter().any(|special| matches!(special, Special::Reserved(_) | Special::ReservedAddress(_)))
    }

    /// The address of a variable.
    pub(crate) fn address_of(&mut self, name: &str, offset: i64, generic: bool) -> Result<Constant, Refusal> {
        let Some(symbol) = self.symbol(name) else {
            let function = self.code_address(name).or_else(|| self.entry_address(name));
            let function = function.ok_or_else(|| self.unknown(name))?;
            return Ok(Constant::Bits(function.wrapping_add_signed(offset)));
        };
        let own = self.locals.iter().any(|scope| scope.contains_key(name));
        if let Some(why) = self.scope.refused.get(name).filter(|_| !own) {
            return Err(why.clone());
        }
        let in_space = |space: Space, at: u64| {
            let at = at.wrapping_add_signed(offset);
            Constant::Bits(if generic { Machine::generic(space, at) } else { at })
        };
        Ok(match symbol {
            Symbol::Global(index) => Constant::Global { index, offset },
            Symbol::DynamicShared(align) => {
                self.dynamic_align = self.dynamic_align.max(align);
                Constant::DynamicShared { generic, offset }
            }
            // `symbol` has placed it.
            Symbol::SharedOfModule(_) => Constant::Shared { generic, at: 0 },
            Symbol::Shared(at) => {
                Constant::Shared { generic, at: u64::from(at).wrapping_add_signed(offset) as u32 }
            }
            Symbol::Local(at) => in_space(Space::Local, u64::from(at)),
            Symbol::Const(at) => in_space(Space::Const, at),
            Symbol::Param(at) => in_space(Space::Param, at),
        })
    }

    /// A destination of 32 bits; `_` is a slot that nothing reads.
    pub(crate) fn dst(&mut self, operand: &Operand) -> Result<u32, Refusal> {
        self.dst_as(operand, Type::B32)
    }

    /// A destination of 64 bits.
    pub(crate) fn dst_d(&mut self, operand: &Operand) -> Result<u32, Refusal> {
        self.dst_as(operand, Type::B64)
    }

    /// A destination predicate.
    pub(crate) fn dst_p(&mut self, operand: &Operand) -> Result<u32, Refusal> {
        self.dst_as(operand, Type::Pred)
    }

    /// A destination for a value of this type. A register of the same bank may be wider: the row then extends the value. A narrower
    /// one is refused, since it would hold bits above its width.
    pub(crate) fn dst_as(&mut self, operand: &Operand, ty: Type) -> Result<u32, Refusal> {
        match operand {
            Operand::Sink => Ok(self.fresh(ty).slot),
            Operand::Name(name) => {
                let register = self.register(name).ok_or_else(|| format!("`{name}` is not a register"))?;
                if register.bank != Bank::holding(ty) || register.ty.bytes() < ty.bytes() {
                    let [has, written] = [register.ty, ty].map(described);
                    return Err(format!("`{name}` is {has}, but the instruction writes {written}"));
                }
                self.step.writes.push((register.bank, register.slot));
                if register.bank == Bank::W && register.ty.bytes() < 4 {
                    self.step.narrow.push((register.slot, register.ty.bytes() as u32 * 8));
                }
                Ok(register.slot)
            }
            other => Err(format!("`{other}` cannot be written")),
        }
    }

    /// A predicate by name: its slot, and whether the name has a `!`.
    pub(crate) fn predicate(&mut self, name: &str) -> Result<(u32, bool), Refusal> {
        match self.read(name) {
            Some(Register { bank: Bank::P, slot, .. }) => Ok((slot, false)),
            _ => Err(format!("`{name}` is not a predicate")),
        }
    }

    /// A predicate operand: `p`, `!p`, or a number.
    pub(crate) fn src_p(&mut self, operand: &Operand) -> Result<(u32, bool), Refusal> {
        match operand {
            Operand::Name(name) => self.predicate(name),
            Operand::Not(name) => self.predicate(name).map(|(slot, negated)| (slot, !negated)),
            Operand::Immediate(Immediate::Integer { bits, .. }) => {
                // A slot that nothing writes is false in every lane.
                Ok((self.slot(Type::Pred, Life::Always).slot, *bits != 0))
            }
            other => Err(format!("`{other}` is not a predicate")),
        }
    }

    /// The elements of a vector operand; a single operand is a vector of one.
    pub(crate) fn elements(operand: &Operand) -> &[Operand] {
        match operand {
            Operand::Vector(list) => list,
            other => std::slice::from_ref(other),
        }
    }

    /// An address operand: the slot of the base in the 64-bit bank, and the offset. Bases in 32-bit registers are widened by
    /// a separate row after adding their offset: the sum has 32 bits, like the base.
    pub(crate) fn address(&mut self, operand: &Operand) -> Result<(u32, i64), Refusal> {
        let address = match operand {
            Operand::Address(address) | Operand::Qualified(address, _) | Operand::Composite(address, _) => {
                address
            }
            other => return Err(format!("`{other}` is not an address")),
        };
        let base = match &address.base {
            AddressBase::Name(name) => self.read(name),
            AddressBase::Absolute(_) => None,
        };
        self.step.bases.extend(base.map(|r| (r.bank, r.slot)));
        let mut offset = address.offset;
        let slot = match &address.base {
            AddressBase::Absolute(at) => self.bits_d(*at),
            AddressBase::Name(name) => match base {
                Some(Register { bank: Bank::D, slot, .. }) => slot,
                Some(Register { bank: Bank::W, slot, .. }) => match self.bases.widened(name, offset) {
                    Some((wide, behind)) => {
                        self.step.reuses.push((Bank::D, wide));
                        offset = behind;
                        wide
                    }
                    None => {
                        let wide = self.fresh(Type::B64).slot;
                        self.bases.widens(name, (wide, offset), slot);
                        let imm = std::mem::take(&mut offset) as u64;
                        self.push(Row { d: wide, a: slot, imm, ..Row::new(rows::widen()) });
                        wide
                    }
                },
                Some(_) => return Err(format!("`{name}` cannot hold an address")),
                None => match self.in_frame(name, offset) {
                    Some((frame, at)) => {
                        offset = at;
                        frame
                    }
                    None => {
                        let constant = self.address_of(name, 0, false)?;
                        self.constant_d(constant)
                    }
                },
            },
        };
        self.step.addresses.push((slot, offset));
        Ok((slot, offset))
    }

    /// What the next row, a load or a store, does with the pattern of the addresses in a slot: it takes the one that an earlier row has found,
    /// if the slot has kept its value. The earlier one then keeps it.
    pub(crate) fn finding(&mut self, slot: u32) -> u32 {
        match self.bases.looks(slot, self.rows.len()) {
            Some(earlier) => {
                self.rows[earlier].d |= KEEPS;
                TAKES
            }
            None => 0,
        }
    }

    /// Whether an address operand names a variable of this kind: `ld` and `st` of parameters require it.
    pub(crate) fn address_symbol(&self, operand: &Operand) -> Option<Symbol> {
        match operand {
            Operand::Address(address) | Operand::Qualified(address, _) => match &address.base {
                AddressBase::Name(name) if self.register(name).is_none() => self.symbol(name),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A register of a type, for messages.
fn described(ty: Type) -> String {
    match ty {
        Type::Pred => "a predicate".to_owned(),
        ty => format!("a register of {} bits", 8 * ty.bytes()),
    }
}

/// The bits of a number for a value of type `ty`; none are above its width.
pub(crate) fn immediate_bits(immediate: Immediate, ty: Type) -> u64 {
    let bits = match (immediate, ty) {
        (Immediate::Integer { bits, .. }, Type::F32) => u64::from((bits as i64 as f32).to_bits()),
        (Immediate::Integer { bits, .. }, Type::F64) => (bits as i64 as f64).to_bits(),
        (Immediate::Integer { bits, .. }, _) => bits,
        (Immediate::F32(x), Type::F64) => f64::from(x).to_bits(),
        (Immediate::F32(x), _) => u64::from(x.to_bits()),
        (Immediate::F64(x), Type::F32 | Type::B32) => u64::from((x as f32).to_bits()),
        (Immediate::F64(x), _) => x.to_bits(),
    };
    match ty.bytes() {
        width @ (1 | 2) => bits & ((1 << (8 * width)) - 1),
        _ => bits,
    }
}
