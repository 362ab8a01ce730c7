//! Conversion (PTX ISA 9.7.10): `cvt` between scalars. Packed and narrow formats are in `convert_packed.rs`.
//!
//! A source register may be wider than the source type, a destination register wider than the destination type: a signed
//! result is then extended by its sign, any other by zeros.

use numerics::Rounding;
use ptx::{Instruction, Operand, Type};

use super::lanewise::operands;
use super::operations::Operation;
use super::{FormRow, Words, convert_fixed, convert_float, convert_packed};
use crate::front::decode::Decoder;
use crate::front::program::{Exec, Row};
use crate::front::registers::Bank;
use crate::front::words::Refusal;
use crate::front::words::scalar;
use crate::run::machine::Flow;

const CHAPTER: &str = "Data Movement and Conversion: cvt";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(
        CHAPTER,
        "cvt",
        "cvt{.irnd,.frnd}{.ftz}{.sat}.dtype.atype of 8- to 64-bit integers, f16, bf16, f32, f64; \
         cvt.frnd{.relu}{.satfinite} to tf32, f16x2, bf16x2, e4m3x2, e5m2x2, e2m3x2, e3m2x2, e2m1x2, ue8m0x2 and back; \
         cvt.rs of x2 and x4; .scaled::n2::ue8m0; cvt.rn of f32 and bf16x2 to s2f6x2, and back to bf16x2",
        cvt,
    ),
    FormRow::new(
        CHAPTER,
        "cvt.pack",
        "cvt.pack.sat.{u16,s16,u8,s8,u4,s4,u2,s2}.s32{.b32}",
        convert_packed::pack,
    ),
];

/// Takes an integer rounding modifier.
pub(super) fn whole_rounding(words: &mut Words<'_>) -> Option<Rounding> {
    Some(match words.one_of(&["rni", "rzi", "rmi", "rpi"])? {
        "rzi" => Rounding::Zero,
        "rmi" => Rounding::Down,
        "rpi" => Rounding::Up,
        _ => Rounding::NearestEven,
    })
}

pub(super) fn is_float(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::Bf16 | Type::F32 | Type::F64)
}

fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64)
}

fn is_integer(ty: Type) -> bool {
    is_signed(ty) || matches!(ty, Type::U8 | Type::U16 | Type::U32 | Type::U64)
}

fn cvt(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let [.., to, from] = i.modifiers.as_slice() else { return Err("cvt requires two types".to_owned()) };
    match (scalar(to), scalar(from)) {
        (Some(to), Some(from))
            if (is_integer(to) || is_float(to)) && (is_integer(from) || is_float(from)) =>
        {
            if is_integer(to) && is_integer(from) {
                integers(d, i, to, from)
            } else {
                convert_float::decode(d, i, to, from)
            }
        }
        _ if to == "s2f6x2" || from == "s2f6x2" => convert_fixed::decode(d, i, to, from),
        _ => convert_packed::decode(d, i, to, from),
    }
}

/// The destination of a result: the slot, whether it is in the 64-bit bank, and the bits of the register.
pub(super) struct Target {
    pub(super) slot: u32,
    pub(super) wide: bool,
    pub(super) mask: u64,
}

/// The destination of a conversion to `ty`.
pub(super) fn target(d: &mut Decoder<'_>, operand: &Operand, ty: Type) -> Result<Target, Refusal> {
    let register = match operand {
        Operand::Name(name) => d.register(name),
        _ => None,
    };
    let bits = register.map_or(ty, |r| r.ty).bytes() * 8;
    if bits < ty.bytes() * 8 {
        return Err(format!("a result of {ty} in a register of {bits} bits"));
    }
    let mask = if bits >= 64 { !0 } else { (1 << bits) - 1 };
    let wide = register.map_or(ty.bytes() == 8, |r| matches!(r.bank, Bank::D | Bank::Q));
    let slot = if wide { d.dst_d(operand)? } else { d.dst_as(operand, ty)? };
    Ok(Target { slot, wide, mask })
}

/// The source of a conversion from `ty`: its slot, and whether it is in the 64-bit bank.
pub(super) fn origin(d: &mut Decoder<'_>, operand: &Operand, ty: Type) -> Result<(u32, bool), Refusal> {
    let wide = match operand {
        Operand::Name(name) => match d.register(name) {
            Some(register) => matches!(register.bank, Bank::D | Bank::Q),
            None => ty.bytes() == 8,
        },
        _ => ty.bytes() == 8,
    };
    Ok((if wide { d.src_d(operand, ty)? } else { d.src(operand, ty)? }, wide))
}

/// The width of an integer's value and how it is extended.
#[derive(Clone, Copy)]
pub(super) struct Integer {
    bits: u32,
    signed: bool,
}

impl Integer {
    pub(super) fn from_type(ty: Type) -> Self {
        Self { bits: ty.bytes() as u32 * 8, signed: is_signed(ty) }
    }

    pub(super) fn bits(self) -> u32 {
        self.bits
    }

    pub(super) fn signed(self) -> bool {
        self.signed
    }

    /// The low bits of `x`, extended to 64.
    #[inline(always)]
    pub(super) fn extend(self, x: u64) -> u64 {
        let shift = 64 - self.bits;
        if self.signed { ((x << shift) as i64 >> shift) as u64 } else { x << shift >> shift }
    }

    /// The value.
    #[inline(always)]
    pub(super) fn value(self, x: u64) -> i128 {
        let x = self.extend(x);
        if self.signed { i128::from(x as i64) } else { i128::from(x) }
    }

    fn saturate(self, x: i128) -> u64 {
        let (least, most) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        };
        x.clamp(least, most) as u64
    }
}

/// The operation of a row of integers.
struct Integers {
    from: Integer,
    to: Integer,
    mask: u64,
}

/// The four combinations of banks for a row with its `Extra`.
macro_rules! by_bank {
    ($from_wide:expr, $to_wide:expr, $extra:ty, $f:expr) => {
        match ($from_wide, $to_wide) {
            (false, false) => |m, row| match row.extra::<$extra>() {
                Some(x) => m.map1(row, |a| $f(x, u64::from(a)) as u32),
                None => Flow::Next,
            },
            (false, true) => |m, row| match row.extra::<$extra>() {
                Some(x) => super::lanewise::widen1(m, row, |a| $f(x, u64::from(a))),
                None => Flow::Next,
            },
            (true, false) => |m, row| match row.extra::<$extra>() {
                Some(x) => super::lanewise::narrow1(m, row, |a| $f(x, a) as u32),
                None => Flow::Next,
            },
            (true, true) => |m, row| match row.extra::<$extra>() {
                Some(x) => m.wide1(row, |a| $f(x, a)),
                None => Flow::Next,
            },
        }
    };
}
pub(super) use by_bank;

fn integers(d: &mut Decoder<'_>, i: &Instruction, to: Type, from: Type) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let sat = words.take("sat");
    words.ty()?;
    words.ty()?;
    words.done()?;
    let (out, sources) = operands(i, 1)?;
    let (a, wide) = origin(d, &sources[0], from)?;
    let target = target(d, out, to)?;
    let copy = Operation::MoveW.exec();
    let row = Row { d: target.slot, a, ..Row::new(copy) };
    let full = to.bytes() >= 4 && target.mask.count_ones() as usize == to.bytes() * 8;
    // The most frequent conversions.
    let plain: Option<Exec> = match (from, to, wide, target.wide) {
        _ if sat || !full => None,
        (Type::U32, Type::U64 | Type::S64, false, true) => Some(Operation::Widen.exec()),
        (Type::S32, Type::U64 | Type::S64, false, true) => Some(Operation::SignExtend.exec()),
        (Type::U64 | Type::S64, Type::U32 | Type::S32, true, false) => Some(Operation::LowWord.exec()),
        (Type::U32 | Type::S32, Type::U32 | Type::S32, false, false) => Some(copy),
        _ => None,
    };
    if let Some(exec) = plain {
        d.push(Row { exec, ..row });
        return Ok(());
    }
    let extra = Integers { from: Integer::from_type(from), to: Integer::from_type(to), mask: target.mask };
    let exec: Exec = if sat {
        by_bank!(wide, target.wide, Integers, |x: &Integers, a| x.to.saturate(x.from.value(a)) & x.mask)
    } else {
        by_bank!(wide, target.wide, Integers, |x: &Integers, a| x.to.extend(x.from.extend(a)) & x.mask)
    };
    d.push(Row { exec, extra: Some(Box::new(extra)), ..row });
    Ok(())
}
