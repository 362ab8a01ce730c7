//! Video instructions (PTX ISA 9.7.18): scalar ones on a byte, halfword or word of each source, SIMD ones on all halfwords or
//! bytes.
//!
//! Current chips run most of them as sequences; the manual's formula still defines the result.

use ptx::{Instruction, Operand, Type};

use super::lanewise::operands;
use super::{FormRow, Words, video_mad};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine};

const CHAPTER: &str = "Video";
const SIMD: &str = "v….dtype.atype.btype{.sat,.add} d{.mask}, a{.asel}, b{.bsel}, c";
const SCALAR: &str = "v….dtype.atype.btype{.sat}{.op2} d{.dsel}, a{.asel}, b{.bsel}{, c}";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "vadd2", SIMD, |d, i| simd(d, i, Op::Add, 16)),
    FormRow::new(CHAPTER, "vsub2", SIMD, |d, i| simd(d, i, Op::Sub, 16)),
    FormRow::new(CHAPTER, "vavrg2", SIMD, |d, i| simd(d, i, Op::Average, 16)),
    FormRow::new(CHAPTER, "vabsdiff2", SIMD, |d, i| simd(d, i, Op::Distance, 16)),
    FormRow::new(CHAPTER, "vmin2", SIMD, |d, i| simd(d, i, Op::Min, 16)),
    FormRow::new(CHAPTER, "vmax2", SIMD, |d, i| simd(d, i, Op::Max, 16)),
    FormRow::new(CHAPTER, "vset2", SIMD, |d, i| simd(d, i, Op::Compare(Cmp::Eq), 16)),
    FormRow::new(CHAPTER, "vadd4", SIMD, |d, i| simd(d, i, Op::Add, 8)),
    FormRow::new(CHAPTER, "vsub4", SIMD, |d, i| simd(d, i, Op::Sub, 8)),
    FormRow::new(CHAPTER, "vavrg4", SIMD, |d, i| simd(d, i, Op::Average, 8)),
    FormRow::new(CHAPTER, "vabsdiff4", SIMD, |d, i| simd(d, i, Op::Distance, 8)),
    FormRow::new(CHAPTER, "vmin4", SIMD, |d, i| simd(d, i, Op::Min, 8)),
    FormRow::new(CHAPTER, "vmax4", SIMD, |d, i| simd(d, i, Op::Max, 8)),
    FormRow::new(CHAPTER, "vset4", SIMD, |d, i| simd(d, i, Op::Compare(Cmp::Eq), 8)),
    FormRow::new(CHAPTER, "vadd", SCALAR, |d, i| scalar(d, i, Op::Add)),
    FormRow::new(CHAPTER, "vsub", SCALAR, |d, i| scalar(d, i, Op::Sub)),
    FormRow::new(CHAPTER, "vabsdiff", SCALAR, |d, i| scalar(d, i, Op::Distance)),
    FormRow::new(CHAPTER, "vmin", SCALAR, |d, i| scalar(d, i, Op::Min)),
    FormRow::new(CHAPTER, "vmax", SCALAR, |d, i| scalar(d, i, Op::Max)),
    FormRow::new(CHAPTER, "vset", SCALAR, |d, i| scalar(d, i, Op::Compare(Cmp::Eq))),
    FormRow::new(
        CHAPTER,
        "vshl",
        "vshl.dtype.atype.u32.mode{.add} d{.dsel}, a{.asel}, b{.bsel}{, c}",
        |d, i| scalar(d, i, Op::Shift { left: true, wrap: false }),
    ),
    FormRow::new(
        CHAPTER,
        "vshr",
        "vshr.dtype.atype.u32{.sat}.mode{.add} d{.dsel}, a{.asel}, b{.bsel}{, c}",
        |d, i| scalar(d, i, Op::Shift { left: false, wrap: false }),
    ),
    FormRow::new(
        CHAPTER,
        "vmad",
        "vmad.dtype.atype.btype{.po}{.sat}{.shr7,.shr15} d, {-}a{.asel}, {-}b{.bsel}, {-}c",
        video_mad::decode,
    ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    /// Rounded away from zero when positive, up when negative.
    Average,
    Distance,
    Min,
    Max,
    Compare(Cmp),
    /// By at most 32 positions, or by the last five bits of the count.
    Shift {
        left: bool,
        wrap: bool,
    },
}

impl Op {
    fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Average => (a + b + i64::from(a + b >= 0)) >> 1,
            Self::Distance => (a - b).abs(),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::Shift { left, wrap } => {
                let count = if wrap { b & 31 } else { b.min(32) };
                // Only the low 32 bits of a value shifted left are ever used.
                if left { a << count } else { a >> count }
            }
            Self::Compare(cmp) => i64::from(match cmp {
                Cmp::Eq => a == b,
                Cmp::Ne => a != b,
                Cmp::Lt => a < b,
                Cmp::Le => a <= b,
                Cmp::Gt => a > b,
                Cmp::Ge => a >= b,
            }),
        }
    }
}

/// The use of `c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    /// It supplies the parts that the result lacks.
    Merge,
    Add,
}

/// A part of a register: its first bit and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    from: u32,
    bits: u32,
}

impl Part {
    const WORD: Self = Self { from: 0, bits: 32 };

    pub(super) fn take(self, x: u64, signed: bool) -> i64 {
        let x = x >> self.from << (64 - self.bits);
        if signed { x as i64 >> (64 - self.bits) } else { (x >> (64 - self.bits)) as i64 }
    }
}

struct Video {
    op: Op,
    /// Parts of `b:a`, one for each part of the result.
    a: Vec<Part>,
    b: Vec<Part>,
    /// Parts of the result that are written.
    to: Vec<Part>,
    signed: (bool, bool),
    to_signed: bool,
    sat: bool,
    second: Second,
}

/// Takes the three types, of which a comparison lacks the first, and the comparison.
pub(super) fn types(words: &mut Words<'_>, op: Op) -> Result<(Op, bool, (bool, bool)), Refusal> {
    let op = match op {
        Op::Compare(_) => {
            let cmp = words.one_of(&["eq", "ne", "lt", "le", "gt", "ge"]).ok_or("no comparison operator")?;
            Op::Compare(match cmp {
                "eq" => Cmp::Eq,
                "ne" => Cmp::Ne,
                "lt" => Cmp::Lt,
                "le" => Cmp::Le,
                "gt" => Cmp::Gt,
                _ => Cmp::Ge,
            })
        }
        op => op,
    };
    let mut signed = || match words.ty()? {
        Type::U32 => Ok(false),
        Type::S32 => Ok(true),
        other => Err(format!("a video instruction on {other}")),
    };
    let to = if matches!(op, Op::Compare(_)) { false } else { signed()? };
    Ok((op, to, (signed()?, signed()?)))
}

/// An operand without its part selector, and the selector.
pub(super) fn split<'a>(d: &Decoder<'_>, operand: &'a Operand) -> (Operand, Option<&'a str>) {
    if let Operand::Name(name) = operand
        && d.register(name).is_none()
        && let Some((register, part)) = name.rsplit_once('.')
    {
        return (Operand::Name(register.to_owned()), Some(part));
    }
    (operand.clone(), None)
}

/// The parts that digits such as `h10` name, the last digit first.
fn parts(selector: &str, bits: u32) -> Result<Vec<Part>, Refusal> {
    let letter = if bits == 16 { 'h' } else { 'b' };
    let digits =
        selector.strip_prefix(letter).ok_or_else(|| format!("`.{selector}` is not a selector here"))?;
    let one = |c: char| c.to_digit(10).filter(|n| n * bits < 64).map(|n| Part { from: n * bits, bits });
    digits
        .chars()
        .rev()
        .map(|c| one(c).ok_or_else(|| format!("`.{selector}` is not a selector here")))
        .collect()
}

fn simd(d: &mut Decoder<'_>, i: &Instruction, op: Op, bits: u32) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let (op, to_signed, signed) = types(&mut words, op)?;
    let (sat, add) = (words.take("sat"), words.take("add"));
    words.done()?;
    let (out, sources) = operands(i, 3)?;
    let defaults = if bits == 16 { ["h10", "h10", "h32"] } else { ["b3210", "b3210", "b7654"] };
    let (out, mask) = split(d, out);
    let (a, a_selector) = split(d, &sources[0]);
    let (b, b_selector) = split(d, &sources[1]);
    let video = Video {
        op,
        a: parts(a_selector.unwrap_or(defaults[1]), bits)?,
        b: parts(b_selector.unwrap_or(defaults[2]), bits)?,
        to: parts(mask.unwrap_or(defaults[0]), bits)?,
        signed,
        to_signed,
        sat,
        second: if add { Second::Add } else { Second::Merge },
    };
    if video.a.len() != 32 / bits as usize || video.b.len() != video.a.len() {
        return Err("a selector of the wrong length".to_owned());
    }
    push(d, video, &out, [&a, &b, &sources[2]], simd_row)
}

fn push(
    d: &mut Decoder<'_>,
    video: Video,
    out: &Operand,
    sources: [&Operand; 3],
    exec: crate::front::program::Exec,
) -> Result<(), Refusal> {
    let [a, b, c] = sources;
    let (a, b, c) = (d.src(a, Type::U32)?, d.src(b, Type::U32)?, d.src(c, Type::U32)?);
    let row = Row { d: d.dst(out)?, a, b, c, extra: Some(Box::new(video)), ..Row::new(exec) };
    d.push(row);
    Ok(())
}

fn limits(bits: u32, signed: bool) -> (i64, i64) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn simd_row(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(v) = row.extra::<Video>() else { return Flow::Next };
    m.map3(row, |a, b, c| {
        let both = u64::from(b) << 32 | u64::from(a);
        let mut sum = c;
        let mut merged = c;
        for (n, (a, b)) in v.a.iter().zip(&v.b).enumerate() {
            let place = Part { from: n as u32 * a.bits, bits: a.bits };
            if !v.to.contains(&place) {
                continue;
            }
            let mut t = v.op.apply(a.take(both, v.signed.0), b.take(both, v.signed.1));
            if v.sat {
                let (least, most) = limits(a.bits, v.to_signed);
                t = t.clamp(least, most);
            }
            sum = sum.wrapping_add(t as u32);
            let mask = ((1u64 << a.bits) - 1) as u32;
            merged = merged & !(mask << place.from) | (t as u32 & mask) << place.from;
        }
        if v.second == Second::Add { sum } else { merged }
    })
}

/// The one part that a selector names; the whole register without one.
pub(super) fn one(selector: Option<&str>) -> Result<Vec<Part>, Refusal> {
    match selector {
        None => Ok(vec![Part::WORD]),
        Some(s) => parts(s, if s.starts_with('h') { 16 } else { 8 }),
    }
}

fn scalar(d: &mut Decoder<'_>, i: &Instruction, op: Op) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let (op, to_signed, signed) = types(&mut words, op)?;
    let sat = words.take("sat");
    let op = match op {
        Op::Shift { left, .. } => {
            let mode = words.one_of(&["clamp", "wrap"]).ok_or("a shift is .clamp or .wrap")?;
            if signed.1 {
                return Err("a shift by a signed count".to_owned());
            }
            if left && sat {
                return Err(
                    "`.sat` of a left shift: the manual does not say whether bits beyond 34 count".to_owned()
                );
            }
            Op::Shift { left, wrap: mode == "wrap" }
        }
        op => op,
    };
    let second = words.one_of(&["add", "min", "max"]);
    words.done()?;
    let Some((out, sources)) = i.operands.split_first() else { return Err("no operands".to_owned()) };
    let (out, to) = split(d, out);
    // The behaviour of devices differs from the manual's formula.
    if matches!(second, Some("min" | "max")) || sat && !to_signed && to.is_none() {
        return Err("a second minimum or maximum, or a saturated .u32".to_owned());
    }
    if second.is_some() && to.is_some() {
        return Err("a second operation and a selected destination, of which there is only one".to_owned());
    }
    if sources.len() != if second.is_some() || to.is_some() { 3 } else { 2 } {
        return Err("a third source goes with a second operation or a selected destination".to_owned());
    }
    let (a, a_selector) = split(d, &sources[0]);
    let (b, b_selector) = split(d, &sources[1]);
    let video = Video {
        op,
        a: one(a_selector)?,
        b: one(b_selector)?,
        to: one(to)?,
        signed,
        to_signed,
        sat,
        second: match second {
            None => Second::Merge,
            Some(_) => Second::Add,
        },
    };
    let c = sources.get(2).unwrap_or(&a);
    push(d, video, &out, [&a, &b, c], scalar_row)
}

fn scalar_row(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(v) = row.extra::<Video>() else { return Flow::Next };
    let first = |parts: &[Part]| parts.first().copied().unwrap_or(Part::WORD);
    let (part_a, part_b, to) = (first(&v.a), first(&v.b), first(&v.to));
    m.map3(row, |a, b, c| {
        let mut t = v.op.apply(part_a.take(u64::from(a), v.signed.0), part_b.take(u64::from(b), v.signed.1));
        if v.sat {
            let (least, most) = limits(to.bits, v.to_signed);
            t = t.clamp(least, most);
        }
        let word = t as u32;
        match v.second {
            Second::Add => word.wrapping_add(c),
            Second::Merge => {
                let mask = (((1u64 << to.bits) - 1) as u32) << to.from;
                c & !mask | word << to.from & mask
            }
        }
    })
}
