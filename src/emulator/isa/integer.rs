//! Integer arithmetic (PTX ISA 9.7.1).

use super::{FormRow, Words};
use crate::emulator::decode::{Decoder, Refusal};
use crate::emulator::machine::{Flow, Machine};
use crate::emulator::program::{Exec, Row};
use crate::ptx::{Instruction, Type};

const CHAPTER: &str = "Integer Arithmetic";

pub(in crate::emulator) const ROWS: &[FormRow] =
    &[FormRow::new(CHAPTER, "add", "add{.sat}.{u16,u32,u64,s16,s32,s64}", decode_add)];

/// Names a function that maps two 32-bit registers to one.
macro_rules! two {
    ($name:ident, |$a:ident, $b:ident| $value:expr) => {
        fn $name(m: &mut Machine<'_>, row: &Row) -> Flow {
            m.map2(row, |$a, $b| $value)
        }
    };
}

two!(add_32, |a, b| a.wrapping_add(b));
two!(add_16, |a, b| a.wrapping_add(b) & 0xFFFF);
two!(add_sat_s32, |a, b| (a as i32).saturating_add(b as i32) as u32);

fn add_64(m: &mut Machine<'_>, row: &Row) -> Flow {
    m.wide2(row, |a, b| a.wrapping_add(b))
}

fn decode_add(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::of(i);
    let sat = words.take("sat");
    let ty = words.ty()?;
    words.done()?;
    let exec: Exec = match (ty, sat) {
        (Type::S32, true) => add_sat_s32,
        (_, true) => return Err("add.sat is for .s32".to_owned()),
        (Type::U16 | Type::S16, _) => add_16,
        (Type::U32 | Type::S32, _) => add_32,
        (Type::U64 | Type::S64, _) => add_64,
        _ => return Err(format!("add on {ty:?}")),
    };
    binary(d, i, ty, exec)
}

/// Pushes a row `d = a op b` whose operands all have the width of `ty`.
fn binary(d: &mut Decoder<'_>, i: &Instruction, ty: Type, exec: Exec) -> Result<(), Refusal> {
    let [to, a, b] = i.operands.as_slice() else { return Err("three operands are wanted".to_owned()) };
    let row = if ty.bytes() == 8 {
        Row { d: d.dst_d(to)?, a: d.src_d(a, ty)?, b: d.src_d(b, ty)?, ..Row::new(exec) }
    } else {
        Row { d: d.dst(to)?, a: d.src(a, ty)?, b: d.src(b, ty)?, ..Row::new(exec) }
    };
    d.push(row);
    Ok(())
}
