//! `mma` (PTX ISA 9.7.16.5): operands into tables.

use numerics::fragment::{Operand as Place, registers, selectors};
use numerics::tensor_core::MmaShape;
use ptx::{Immediate, Instruction, Operand, Type};

use super::super::{FormRow, Words};
use super::aligned;
use super::form::{Form, Numbers};
use super::fragments::Fragment;
use super::run::{self, Metadata, Mma, Scale, Selector};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;

const CHAPTER: &str = "Warp-level matrix: mma";

pub(crate) const ROWS: &[FormRow] = &[FormRow::new(
    CHAPTER,
    "mma",
    "mma{.sp,.sp::ordered_metadata}.sync.aligned.shape.row.col{.kind::k{.block_scale{.scale_vec::nX}}}\
     .{f16,bf16,tf32,f64,fp8,fp6,fp4,s8,u8,s4,u4,b1}",
    decode_mma,
)];

fn decode_mma(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    aligned(&mut words)?;
    let form = Form::read(words)?;
    let mut operands = i.operands.iter();
    let mut next = || operands.next().ok_or("too few operands");
    let (to, a, b, c) = (next()?, next()?, next()?, next()?);
    let kept =
        MmaShape { k: if form.sparse.is_some() { form.shape.k / 2 } else { form.shape.k }, ..form.shape };
    let metadata = match form.sparse {
        None => None,
        Some(sparsity) => {
            let slot = one(d, next()?)?;
            let most = selectors(form.shape, form.bits);
            let selector = match next()? {
                Operand::Immediate(Immediate::Integer { bits, .. }) if *bits < most as u64 => *bits as usize,
                other => {
                    return Err(format!(
                        "the sparsity selector is a number from 0 to {}, not {other}",
                        most - 1
                    ));
                }
            };
            Some(Metadata { sparsity, slot, selector, ordered: form.ordered })
        }
    };
    let scales = match form.chunks() {
        0 => None,
        chunks => {
            let a = Scale { slot: one(d, next()?)?, selector: selector(d, next()?, chunks, 2)? };
            let b = Scale { slot: one(d, next()?)?, selector: selector(d, next()?, chunks, 4)? };
            Some([a, b])
        }
    };
    if operands.next().is_some() {
        return Err("too many operands".to_owned());
    }
    let wide = matches!(form.numbers, Numbers::Double(_));
    if let Numbers::Quads { c: c_format, .. } = form.numbers {
        let slots = [
            list(d, to, form.c_bits as usize / 4, false, true)?,
            list(d, a, 2, false, false)?,
            list(d, b, 2, false, false)?,
            list(d, c, c_format.bits() as usize / 4, false, false)?,
        ];
        d.push(Row {
            extra: Some(Box::new(run::Quads { numbers: form.numbers, d_bits: form.c_bits, slots })),
            ..Row::new(run::quads)
        });
        return Ok(());
    }
    let count = |place: Place, shape: MmaShape, bits: u32| registers(place, shape, bits);
    let (a_count, b_count) = (count(Place::A, kept, form.bits), count(Place::B, form.shape, form.bits));
    let c_count = count(Place::C, form.shape, form.c_bits);
    let [(a_shift, a_bits), (b_shift, b_bits)] = form.containers;
    let mma = Mma {
        d: Fragment::new(Place::C, form.shape, form.c_bits, list(d, to, c_count, wide, true)?),
        a: Fragment::new(Place::A, kept, form.bits, list(d, a, a_count, wide, false)?)
            .contained(a_shift, a_bits),
        b: Fragment::new(Place::B, form.shape, form.bits, list(d, b, b_count, wide, false)?)
            .contained(b_shift, b_bits),
        c: Fragment::new(Place::C, form.shape, form.c_bits, list(d, c, c_count, wide, false)?),
        form,
        metadata,
        scales,
    };
    let exec = match (form.numbers, form.sparse) {
        (Numbers::Float(_), None) => run::float,
        (Numbers::Double(_), _) => run::double,
        (_, None) => run::integer,
        (_, Some(_)) => run::sparse,
    };
    d.push(Row { extra: Some(Box::new(mma)), ..Row::new(exec) });
    Ok(())
}

fn list(
    d: &mut Decoder<'_>,
    operand: &Operand,
    count: usize,
    wide: bool,
    to: bool,
) -> Result<Vec<u32>, Refusal> {
    let elements = Decoder::elements(operand);
    if elements.len() != count {
        return Err(format!("{} registers, but {count} are required", elements.len()));
    }
    elements
        .iter()
        .map(|e| match (wide, to) {
            (false, false) => d.src(e, Type::B32),
            (false, true) => d.dst(e),
            (true, false) => d.src_d(e, Type::F64),
            (true, true) => d.dst_d(e),
        })
        .collect()
}

/// A register, alone or in braces.
fn one(d: &mut Decoder<'_>, operand: &Operand) -> Result<u32, Refusal> {
    match Decoder::elements(operand) {
        [register] => d.src(register, Type::B32),
        _ => Err("one register is required".to_owned()),
    }
}

/// `{byte-id, thread-id}`: which bytes of which lanes hold the scales. `lanes` is the number of thread-ids.
fn selector(d: &mut Decoder<'_>, operand: &Operand, chunks: usize, lanes: u32) -> Result<Selector, Refusal> {
    let Operand::Vector(both) = operand else {
        return Err("a scale selector is {byte-id, thread-id}".to_owned());
    };
    let [byte, thread] = both.as_slice() else {
        return Err("a scale selector is {byte-id, thread-id}".to_owned());
    };
    let selector =
        Selector { byte: d.src(byte, Type::U16)?, thread: d.src(thread, Type::U16)?, chunks, lanes };
    let number = |operand: &Operand| match operand {
        Operand::Immediate(Immediate::Integer { bits, .. }) => Some(*bits as u32),
        _ => None,
    };
    // Registers are checked when the instruction runs.
    selector.check(number(byte).unwrap_or(0), number(thread).unwrap_or(0))?;
    Ok(selector)
}
