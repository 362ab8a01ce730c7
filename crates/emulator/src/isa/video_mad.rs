//! The video multiply and add (PTX ISA 9.7.18): `vmad`.

use ptx::{Instruction, Operand, Type};

use super::Words;
use super::lanewise::operands;
use super::video::{Op, Part, one, split, types};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};

struct Mad {
    a: Part,
    b: Part,
    signed: (bool, bool),
    /// The product, or C, is negated.
    minus_product: bool,
    minus_c: bool,
    plus_one: bool,
    sat: bool,
    shift: u32,
}

impl Mad {
    fn apply(&self, a: u32, b: u32, c: u32) -> u32 {
        let a = i128::from(self.a.take(u64::from(a), self.signed.0));
        let b = i128::from(self.b.take(u64::from(b), self.signed.1));
        let signed = self.signed.0 || self.signed.1 || self.minus_product || self.minus_c;
        let c = if signed { i128::from(c.cast_signed()) } else { i128::from(c) };
        let product = if self.minus_product { -(a * b) } else { a * b };
        let c = if self.minus_c { -c } else { c };
        let sum = (product + c + i128::from(self.plus_one)) >> self.shift;
        let (least, most) =
            if signed { (i128::from(i32::MIN), i128::from(i32::MAX)) } else { (0, i128::from(u32::MAX)) };
        (if self.sat { sum.clamp(least, most) } else { sum }) as u32
    }
}

pub(super) fn decode(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let (_, _, signed) = types(&mut words, Op::Add)?;
    let (plus_one, sat) = (words.take("po"), words.take("sat"));
    let shift = match words.one_of(&["shr7", "shr15"]) {
        None => 0,
        Some("shr7") => 7,
        Some(_) => 15,
    };
    words.done()?;
    let (out, sources) = operands(i, 3)?;
    let sign = |operand: &Operand| match operand {
        Operand::Negate(name) => (Operand::Name(name.clone()), true),
        other => (other.clone(), false),
    };
    let [(a, minus_a), (b, minus_b), (c, minus_c)] = [0, 1, 2].map(|n| sign(&sources[n]));
    let minus_product = minus_a != minus_b;
    if minus_product && minus_c || plus_one && (minus_a || minus_b || minus_c) {
        return Err("only one of product and addend may be negated, and neither with .po".to_owned());
    }
    let ((a, a_selector), (b, b_selector)) = (split(d, &a), split(d, &b));
    let part = |selector| Ok::<_, Refusal>(one(selector)?[0]);
    let mad = Mad {
        a: part(a_selector)?,
        b: part(b_selector)?,
        signed,
        minus_product,
        minus_c,
        plus_one,
        sat,
        shift,
    };
    let (a, b, c) = (d.src(&a, Type::U32)?, d.src(&b, Type::U32)?, d.src(&c, Type::U32)?);
    let row = Row { d: d.dst(out)?, a, b, c, extra: Some(Box::new(mad)), ..Row::new(run) };
    d.push(row);
    Ok(())
}

fn run(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(mad) = row.extra::<Mad>() else { return Flow::Next };
    m.map3(row, |a, b, c| mad.apply(a, b, c))
}
