//! Miscellaneous instructions (PTX ISA 9.7.21 and neighbours): `nanosleep`, `setmaxnreg`, `griddepcontrol`, `pmevent`.

use ptx::{Immediate, Instruction, Operand, Type};

use super::{FormRow, Words};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::words::Refusal;
use crate::run::machine::{Flow, Machine, lanes};

const CHAPTER: &str = "Miscellaneous";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "nanosleep", "nanosleep.u32 t", decode_nanosleep),
    FormRow::new(CHAPTER, "setmaxnreg", "setmaxnreg.{inc,dec}.sync.aligned.u32 n", decode_setmaxnreg),
    FormRow::new(CHAPTER, "griddepcontrol", "griddepcontrol.{launch_dependents,wait}", decode_griddepcontrol),
    FormRow::new(CHAPTER, "pmevent", "pmevent{.mask} a", decode_pmevent),
    FormRow::planned("Integer Arithmetic", "clmad", "clmad{.hi,.lo}.u64"),
    FormRow::out_of_scope(
        CHAPTER,
        "istypep",
        "istypep.type: a handle of a texture does not tell its type here",
    ),
    FormRow::out_of_scope(CHAPTER, "alloca", "alloca.type: a stack that grows is not emulated"),
    FormRow::out_of_scope(CHAPTER, "stacksave", "stacksave.type: a stack that grows is not emulated"),
    FormRow::out_of_scope(CHAPTER, "stackrestore", "stackrestore.type: a stack that grows is not emulated"),
];

fn decode_nanosleep(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.ty()?;
    words.done()?;
    let [time] = i.operands.as_slice() else { return Err("nanosleep takes a time".to_owned()) };
    let a = d.src(time, Type::U32)?;
    d.push(Row { a, ..Row::new(sleep) });
    Ok(())
}

/// Clocks count instructions; one nanosecond is one instruction.
fn sleep(m: &mut Machine<'_>, row: &Row) -> Flow {
    let a = &m.r.w[row.a as usize];
    // PTX limits a sleep to a millisecond.
    m.world.clock += u64::from(lanes(m.mask).map(|i| a[i]).max().unwrap_or(0).min(1_000_000));
    Flow::Yield
}

fn decode_setmaxnreg(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.one_of(&["inc", "dec"]).ok_or("setmaxnreg requires .inc or .dec")?;
    if !words.take("sync") || !words.take("aligned") || words.ty()? != Type::U32 {
        return Err("setmaxnreg is .sync.aligned.u32".to_owned());
    }
    words.done()?;
    match i.operands.as_slice() {
        [Operand::Immediate(Immediate::Integer { bits: 24..=256, .. })] => {}
        _ => return Err("setmaxnreg takes a number from 24 to 256".to_owned()),
    }
    if !matches!(i.operands[0], Operand::Immediate(Immediate::Integer { bits, .. }) if bits % 8 == 0) {
        return Err("setmaxnreg takes a multiple of 8".to_owned());
    }
    d.push(Row::new(|m, _| m.all_together().map_or_else(|flow| flow, |()| Flow::Next)));
    Ok(())
}

fn decode_griddepcontrol(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    let action = words.one_of(&["launch_dependents", "wait"]);
    words.done()?;
    d.push(match action {
        Some("launch_dependents") => Row::new(launch_dependents),
        Some(_) => Row::new(wait_for_primary),
        None => return Err("griddepcontrol requires .launch_dependents or .wait".to_owned()),
    });
    Ok(())
}

/// The first thread of a CTA that executes it acts for all.
fn launch_dependents(m: &mut Machine<'_>, _: &Row) -> Flow {
    if !m.cta.released {
        m.cta.released = true;
        let waited = m.cta.races.as_ref().is_some_and(|races| races.has_waited(m.warp));
        m.world.stream.release(m.cta.grid, waited);
        m.world.events += 1;
    }
    Flow::Next
}

fn wait_for_primary(m: &mut Machine<'_>, _: &Row) -> Flow {
    let Some(known) = m.world.stream.wait(m.cta.grid) else { return Flow::Retry };
    if let Some(races) = &mut m.cta.races {
        races.waited(m.warp, known, &mut m.world.races);
    }
    Flow::Next
}

fn decode_pmevent(d: &mut Decoder<'_>, _: &Instruction) -> Result<(), Refusal> {
    d.push(Row::new(|_, _| Flow::Next));
    Ok(())
}
