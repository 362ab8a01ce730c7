//! Control flow instructions (PTX ISA 9.7.12): `bra`, `brx.idx`, `exit`, `trap`; `call` and `ret` are decoded by
//! `front/decode/calls.rs`.

use ptx::{Instruction, Operand, Type};

use super::{FormRow, Words};
use crate::api::trap::{Fault, Rule};
use crate::front::decode::Decoder;
use crate::front::program::Row;
use crate::front::rows::ending;
use crate::front::words::Refusal;
use crate::run::grid_workspace;
use crate::run::machine::{Flow, Machine};

const CHAPTER: &str = "Control Flow";

pub(crate) const ROWS: &[FormRow] = &[
    FormRow::new(CHAPTER, "bra", "bra{.uni} label", decode_bra),
    FormRow::new(CHAPTER, "brx", "brx.idx{.uni} index, table", decode_brx),
    FormRow::new(CHAPTER, "exit", "exit", |d, _| {
        d.push(ending());
        Ok(())
    }),
    FormRow::new(CHAPTER, "trap", "trap", |d, _| {
        d.push(Row::new(trap));
        Ok(())
    }),
    FormRow::new(CHAPTER, "brkpt", "brkpt", |d, _| {
        d.push(Row::new(trap));
        Ok(())
    }),
];

fn decode_bra(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let mut words = Words::from_instruction(i);
    words.take("uni");
    words.done()?;
    match i.operands.as_slice() {
        [Operand::Name(label)] => {
            d.branch(label);
            Ok(())
        }
        _ => Err("bra takes one label".to_owned()),
    }
}

/// A table is tested entry by entry: the lanes whose index is `k` leave at the `k`-th row.
fn decode_brx(d: &mut Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let [index, Operand::Name(table)] = i.operands.as_slice() else {
        return Err("brx.idx takes an index and a table".to_owned());
    };
    let a = d.src(index, Type::U32)?;
    let labels = d.targets(table).ok_or_else(|| format!("`{table}` is not a .branchtargets table"))?;
    for (k, label) in labels.iter().enumerate() {
        d.branch_full(Row { a, imm: 1 + k as u64, ..Row::new(branch_index) }, label);
    }
    d.push(Row { a, imm: labels.len() as u64, ..Row::new(index_outside) });
    Ok(())
}

fn branch_index(m: &mut Machine<'_>, row: &Row) -> Flow {
    let a = &m.r.w[row.a as usize];
    let taken = (0..32).filter(|i| u64::from(a[*i]) == row.imm - 1).fold(0u32, |t, i| t | 1 << i) & m.mask;
    match taken {
        0 => Flow::Next,
        t if t == m.fragment => Flow::Jump(row.c),
        taken => Flow::Split { taken, target: row.c },
    }
}

fn index_outside(m: &mut Machine<'_>, row: &Row) -> Flow {
    let what = format!("an index is outside the table of {} targets", row.imm);
    m.fail(Fault::new(Rule::Operand, what))
}

fn trap(m: &mut Machine<'_>, _: &Row) -> Flow {
    let lane = m.mask.trailing_zeros() as usize;
    // Cooperative groups end this way without a workspace.
    let lacks = m.world.stream.grids[m.cta.grid].workspace == 0 && grid_workspace::used_by(m.kernel);
    let hint = if lacks {
        ": it reads `%envreg1` or `%envreg2`, and grid.sync() needs a cooperative launch (cudaLaunchCooperativeKernel; for `emulate` --cooperative)"
    } else {
        ""
    };
    m.fail(Fault::new(Rule::Explicit, format!("the kernel executed `trap`{hint}")).at(lane))
}
