//! Runs an `mma`: registers to matrices of codes, the arithmetic of [`numerics::tensor_core`], and back.

use numerics::Format;
use numerics::fragment::{Operand, gather_metadata, quad_pair, scale_a_source, scale_b_source};
use numerics::tensor_core::{self, MmaForm, MmaShape, Sparsity, mma_b1, mma_f64, mma_integer, mma_quad};

use super::form::{Form, Numbers};
use super::fragments::Fragment;
use super::whole_warp;
use crate::api::trap::{Fault, Rule};
use crate::front::program::Row;
use crate::front::registers::Bank;
use crate::rules::undefined::Shadow;
use crate::rules::undefined::shadow::Bits;
use crate::run::machine::{Flow, LANES, Machine};
use crate::run::scratch::Scratch;

/// The extra of an `mma` row.
#[derive(Debug)]
pub(super) struct Mma {
    pub(super) form: Form,
    pub(super) a: Fragment,
    pub(super) b: Fragment,
    pub(super) c: Fragment,
    pub(super) d: Fragment,
    pub(super) metadata: Option<Metadata>,
    /// For A and B.
    pub(super) scales: Option<[Scale; 2]>,
}

/// The positions of the kept elements of a sparse A.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) sparsity: Sparsity,
    pub(super) slot: u32,
    pub(super) selector: usize,
    pub(super) ordered: bool,
}

/// A scale register and its selector.
#[derive(Debug)]
pub(super) struct Scale {
    pub(super) slot: u32,
    pub(super) selector: Selector,
}

/// Slots of byte-id and thread-id.
#[derive(Debug)]
pub(super) struct Selector {
    pub(super) byte: u32,
    pub(super) thread: u32,
    pub(super) chunks: usize,
    /// The number of thread-ids.
    pub(super) lanes: u32,
}

impl Selector {
    /// Whether byte-id and thread-id are in range (PTX ISA, table of "Block scaling for mma").
    pub(super) fn check(&self, byte: u32, thread: u32) -> Result<(), String> {
        let (bytes, names): (&[u32], _) = match self.chunks {
            1 => (&[0, 1, 2, 3], "0 to 3"),
            2 => (&[0, 2], "0 or 2"),
            _ => (&[0], "0"),
        };
        if !bytes.contains(&byte) {
            return Err(format!("byte-id {byte}; with scale_vec::{}X it is {names}", self.chunks));
        }
        if thread >= self.lanes {
            return Err(format!("thread-id {thread}; it is 0 to {}", self.lanes - 1));
        }
        Ok(())
    }

    /// Byte-id and thread-id, the same in all lanes.
    fn read(&self, m: &mut Machine<'_>) -> Result<(usize, usize), Flow> {
        let (bytes, threads) = (&m.r.w[self.byte as usize], &m.r.w[self.thread as usize]);
        let (byte, thread) = (bytes[0], threads[0]);
        if bytes.iter().any(|b| *b != byte) || threads.iter().any(|t| *t != thread) {
            return Err(
                m.fail(Fault::new(Rule::Operand, "a scale selector that is not the same in all lanes"))
            );
        }
        match self.check(byte, thread) {
            Ok(()) => Ok((byte as usize, thread as usize)),
            Err(what) => Err(m.fail(Fault::new(Rule::Operand, what))),
        }
    }
}

impl Scale {
    /// Scale codes of 16 rows of A or 8 columns of B.
    fn gather(&self, m: &mut Machine<'_>, operand: Operand, out: &mut Vec<u32>) -> Result<(), Flow> {
        let chosen = self.selector.read(m)?;
        self.codes(&m.r.w[self.slot as usize], chosen, operand, out);
        Ok(())
    }

    fn codes(
        &self,
        words: &[u32; LANES],
        (byte, thread): (usize, usize),
        operand: Operand,
        out: &mut Vec<u32>,
    ) {
        out.clear();
        let rows = if operand == Operand::A { 16 } else { 8 };
        for row in 0..rows {
            for chunk in 0..self.selector.chunks {
                let (lane, at) = match operand {
                    Operand::A => scale_a_source(byte, thread, row, chunk),
                    _ => scale_b_source(byte, thread, row, chunk),
                };
                out.push(words[lane % LANES] >> (8 * (at % 4)) & 0xFF);
            }
        }
    }
}

/// The undefined bits of D, by register: a row of A affects its row of D, a column of B its column, an element of C its own. `None`
/// if that is unknown for the instruction.
pub(crate) fn undefined(m: &mut Machine<'_>, row: &Row, shadow: &mut Shadow) -> Option<Vec<Bits>> {
    let mma = row.extra::<Mma>().filter(|mma| !matches!(mma.form.numbers, Numbers::Double(_)))?;
    let chosen = match &mma.scales {
        Some(both) => Some([both[0].selector.read(m).ok()?, both[1].selector.read(m).ok()?]),
        None => None,
    };
    let of_metadata = mma.metadata.as_ref().is_some_and(|x| shadow.is_undefined((Bank::W, x.slot)));
    let of_selectors = mma.scales.iter().flatten().any(|scale| {
        [scale.selector.byte, scale.selector.thread].iter().any(|s| shadow.is_undefined((Bank::W, *s)))
    });
    if of_metadata || of_selectors {
        return None;
    }
    let mut s = Scratch::default();
    std::mem::swap(&mut m.r.w, &mut shadow.w);
    mma.a.gather(m.r, &mut s.a);
    mma.b.gather(m.r, &mut s.b);
    mma.c.gather(m.r, &mut s.c);
    if let (Some([a, b]), Some([of_a, of_b])) = (&mma.scales, chosen) {
        a.codes(&m.r.w[a.slot as usize], of_a, Operand::A, &mut s.a_scales);
        b.codes(&m.r.w[b.slot as usize], of_b, Operand::B, &mut s.b_scales);
    }
    let MmaShape { m: rows, n, .. } = mma.form.shape;
    // Whether part `i` of this many has an undefined element.
    let part = |codes: &[u32], count: usize, i: usize| {
        let each = codes.len() / count.max(1);
        codes.iter().skip(i * each).take(each).any(|code| *code != 0)
    };
    let of_rows: Vec<bool> = (0..rows).map(|r| part(&s.a, rows, r) || part(&s.a_scales, 16, r)).collect();
    let of_columns: Vec<bool> = (0..n).map(|c| part(&s.b, n, c) || part(&s.b_scales, 8, c)).collect();
    let element = |(i, c): (usize, &u32)| {
        let any =
            *c != 0 || of_rows.get(i / n).is_some_and(|u| *u) || of_columns.get(i % n).is_some_and(|u| *u);
        if any { !0 } else { 0 }
    };
    s.d = s.c.iter().enumerate().map(element).collect();
    let slots = mma.d.slots.iter().map(|slot| *slot as usize);
    let held: Vec<[u32; LANES]> = slots.clone().map(|slot| m.r.w[slot]).collect();
    mma.d.scatter(m.r, &s.d);
    let bits = slots.clone().map(|slot| m.r.w[slot].map(u64::from)).collect();
    slots.zip(held).for_each(|(slot, held)| m.r.w[slot] = held);
    std::mem::swap(&mut m.r.w, &mut shadow.w);
    Some(bits)
}

/// The first steps of every form.
fn prepare(m: &mut Machine<'_>, mma: &Mma, s: &mut Scratch) -> Result<(), Flow> {
    mma.a.gather(m.r, &mut s.a);
    mma.b.gather(m.r, &mut s.b);
    mma.c.gather(m.r, &mut s.c);
    s.d.resize(s.c.len(), 0);
    s.a_scales.clear();
    s.b_scales.clear();
    if let Some([a, b]) = &mma.scales {
        a.gather(m, Operand::A, &mut s.a_scales)?;
        b.gather(m, Operand::B, &mut s.b_scales)?;
    }
    Ok(())
}

/// Gathers, computes into `s.d`, scatters.
#[inline(always)]
fn with(
    m: &mut Machine<'_>,
    row: &Row,
    compute: impl FnOnce(&mut Machine<'_>, &Mma, &mut Scratch) -> Result<(), Flow>,
) -> Flow {
    if let Err(flow) = whole_warp(m) {
        return flow;
    }
    let Some(mma) = row.extra::<Mma>() else { return Flow::Next };
    let mut s = std::mem::take(&mut m.world.scratch);
    let done = prepare(m, mma, &mut s).and_then(|()| compute(m, mma, &mut s));
    if done.is_ok() {
        mma.d.scatter(m.r, &s.d);
    }
    m.world.scratch = s;
    done.map_or_else(|flow| flow, |()| Flow::Next)
}

pub(super) fn float(m: &mut Machine<'_>, row: &Row) -> Flow {
    with(m, row, |m, mma, s| {
        if let Numbers::Float(form) = &mma.form.numbers {
            tensor_core::mma(m.world.model, form, &s.a, &s.b, &s.c, &s.a_scales, &s.b_scales, &mut s.d);
        }
        Ok(())
    })
}

pub(super) fn integer(m: &mut Machine<'_>, row: &Row) -> Flow {
    with(m, row, |_, mma, s| {
        match mma.form.numbers {
            Numbers::Integer { a, b, satfinite } => {
                mma_integer(mma.form.shape, a, b, &s.a, &s.b, &s.c, satfinite, &mut s.d);
            }
            Numbers::Bits(op) => mma_b1(mma.form.shape, op, &s.a, &s.b, &s.c, &mut s.d),
            _ => {}
        }
        Ok(())
    })
}

/// Each row of a sparse A is multiplied with the rows of B that its metadata name: a dense product of one row and half the depth.
pub(super) fn sparse(m: &mut Machine<'_>, row: &Row) -> Flow {
    with(m, row, |m, mma, s| {
        let Some(metadata) = &mma.metadata else { return Ok(()) };
        let shape = mma.form.shape;
        let (n, k, kept) = (shape.n, shape.k, shape.k / 2);
        let sparsity = metadata.sparsity;
        let lanes = &m.r.w[metadata.slot as usize];
        let fields = gather_metadata(sparsity, shape, mma.form.bits, metadata.selector, lanes);
        let per_row = kept / sparsity.elements_per_index();
        let chunks = mma.form.chunks();
        let one = MmaShape { m: 1, n, k: kept };
        for r in 0..shape.m {
            let fields = &fields[r * per_row..(r + 1) * per_row];
            check(sparsity, fields, metadata.ordered).map_err(|what| {
                m.fail(Fault::new(Rule::Operand, format!("the metadata of row {r}: {what}")))
            })?;
            s.chosen.clear();
            for column in 0..n {
                let full = &s.b[column * k..(column + 1) * k];
                let at = |e: usize| sparsity.position(e, fields[e / sparsity.elements_per_index()]);
                s.chosen.extend((0..kept).map(|e| full.get(at(e)).copied().unwrap_or(0)));
            }
            let a = &s.a[r * kept..(r + 1) * kept];
            let (c, d) = (&s.c[r * n..(r + 1) * n], &mut s.d[r * n..(r + 1) * n]);
            match mma.form.numbers {
                Numbers::Float(form) => {
                    let scales = s.a_scales.get(r * chunks..(r + 1) * chunks).unwrap_or_default();
                    let form = MmaForm { shape: one, ..form };
                    tensor_core::mma(m.world.model, &form, a, &s.chosen, c, scales, &s.b_scales, d);
                }
                Numbers::Integer { a: a_type, b: b_type, satfinite } => {
                    mma_integer(one, a_type, b_type, a, &s.chosen, c, satfinite, d);
                }
                _ => {}
            }
        }
        Ok(())
    })
}

/// Whether metadata fields are valid (PTX ISA, "Sparse matrix storage").
fn check(sparsity: Sparsity, fields: &[u32], ordered: bool) -> Result<(), String> {
    if sparsity == Sparsity::OneOfTwo {
        return match fields.iter().find(|f| **f != 0b0100 && **f != 0b1110) {
            Some(field) => Err(format!("{field:#06b}, which is neither 0b0100 nor 0b1110")),
            None => Ok(()),
        };
    }
    match fields.chunks_exact(2).find(|pair| pair[0] == pair[1] || ordered && pair[0] > pair[1]) {
        Some(pair) if pair[0] == pair[1] => Err(format!("index {} twice", pair[0])),
        Some(pair) => Err(format!("index {} before {}, which is not ordered", pair[0], pair[1])),
        None => Ok(()),
    }
}

pub(super) fn double(m: &mut Machine<'_>, row: &Row) -> Flow {
    if let Err(flow) = whole_warp(m) {
        return flow;
    }
    let Some(mma) = row.extra::<Mma>() else { return Flow::Next };
    let [a, b, c] = [&mma.a, &mma.b, &mma.c].map(|f| f.gather_doubles(m.r));
    let mut out = vec![0; c.len()];
    if let Numbers::Double(rounding) = mma.form.numbers {
        mma_f64(mma.form.shape, &a, &b, &c, &mut out, rounding);
    }
    mma.d.scatter_doubles(m.r, &out);
    Flow::Next
}

/// The extra of Volta's `mma.m8n8k4`: registers of D, A, B and C.
pub(super) struct Quads {
    pub(super) numbers: Numbers,
    pub(super) d_bits: u32,
    pub(super) slots: [Vec<u32>; 4],
}

pub(super) fn quads(m: &mut Machine<'_>, row: &Row) -> Flow {
    if let Err(flow) = whole_warp(m) {
        return flow;
    }
    let Some(quads) = row.extra::<Quads>() else { return Flow::Next };
    let Numbers::Quads { form, c: c_format, a_rows, b_rows } = quads.numbers else { return Flow::Next };
    let [to, a_slots, b_slots, c_slots] = &quads.slots;
    let halves = |slots: &[u32], lane: usize, i: usize| {
        slots.get(i / 2).map_or(0, |slot| m.r.w[*slot as usize][lane] >> (16 * (i % 2)) & 0xFFFF)
    };
    let mut results = [[0u32; 64]; 4];
    for (product, d) in results.iter_mut().enumerate() {
        let (mut a, mut b, mut c) = ([0u32; 32], [0u32; 32], [0u32; 64]);
        for lane in (0..LANES).filter(|l| quad_pair::product(*l) == product) {
            for i in 0..4 {
                let (row, k) = quad_pair::a_index(a_rows, lane, i);
                a[row * 4 + k] = halves(a_slots, lane, i);
                let (column, k) = quad_pair::b_index(b_rows, lane, i);
                b[column * 4 + k] = halves(b_slots, lane, i);
            }
            for i in 0..8 {
                let (row, column) = quad_pair::c_index(c_format.bits(), lane, i);
                let code = match c_format {
                    Format::F16 => halves(c_slots, lane, i),
                    _ => c_slots.get(i).map_or(0, |slot| m.r.w[*slot as usize][lane]),
                };
                // A half added in single precision is widened first, which is exact.
                c[row * 8 + column] =
                    if c_format == form.accumulator { code } else { c_format.decode(code).to_bits() };
            }
        }
        mma_quad(&form, &a, &b, &c, d);
    }
    for lane in 0..LANES {
        let d = &results[quad_pair::product(lane)];
        for (n, slot) in to.iter().enumerate() {
            let value = |i: usize| {
                let (row, column) = quad_pair::c_index(quads.d_bits, lane, i);
                d[row * 8 + column]
            };
            m.r.w[*slot as usize][lane] = match quads.d_bits {
                16 => value(2 * n) & 0xFFFF | value(2 * n + 1) << 16,
                _ => value(n),
            };
        }
    }
    Flow::Next
}
