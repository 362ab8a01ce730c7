//! Converts matrices of a tensor-core instruction to warp fragments, and generates the instruction's PTX.

use numerics::Format;
use numerics::fragment::{self, LANES, Operand};
use vectors::{MatrixCase, MatrixOp, WarpOp};

/// The value of scale bytes that no selector reads: a NaN in both scale formats.
const POISON: u32 = 0xFFFF_FFFF;

/// The storage of the elements of A and B in registers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// Elements are packed without gaps.
    Packed,
    /// Each element has its own byte, as for `kind::f8f6f4` and `kind::mxf8f6f4`.
    Bytes,
}

/// Converts a recorded matrix operation to a warp operation.
pub(super) fn warps(op: &MatrixOp) -> WarpOp {
    let form = &op.form;
    let storage = if op.name.contains("f8f6f4") { Storage::Bytes } else { Storage::Packed };
    let bits = |format: Format| if storage == Storage::Bytes { 8 } else { format.bits() };
    let (bits_a, bits_b, bits_c) = (bits(form.a), bits(form.b), form.accumulator.bits());
    let registers = |operand, bits| fragment::registers(operand, form.shape, bits);
    let (n_a, n_b, n_c) =
        (registers(Operand::A, bits_a), registers(Operand::B, bits_b), registers(Operand::C, bits_c));
    let n_in = n_a + n_b + n_c + if form.scale.is_some() { 2 } else { 0 };
    let mut warps = WarpOp {
        name: op.name.clone(),
        ptx: text(op, n_a, n_b, n_c),
        n_in,
        n_out: n_c,
        kinds: kinds(op, [n_a, n_b, n_c]),
        cases: op.cases.len(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    for case in &op.cases {
        let stored = |format: Format, codes: &[u32]| -> Vec<u32> {
            match storage {
                Storage::Packed => codes.to_vec(),
                Storage::Bytes => codes.iter().map(|c| fragment::to_container(format, *c)).collect(),
            }
        };
        let laid = |operand, bits, codes: &[u32], count: usize| {
            let mut registers = vec![[0u32; LANES]; count];
            fragment::scatter(operand, form.shape, bits, codes, &mut registers);
            registers
        };
        warps.inputs.extend(laid(Operand::A, bits_a, &stored(form.a, &case.a), n_a).concat());
        warps.inputs.extend(laid(Operand::B, bits_b, &stored(form.b, &case.b), n_b).concat());
        warps.inputs.extend(laid(Operand::C, bits_c, &case.c, n_c).concat());
        if let Some((_, chunks)) = form.scale {
            for lanes in scales(case, chunks as usize) {
                warps.inputs.extend(lanes);
            }
        }
        warps.outputs.extend(laid(Operand::C, bits_c, &case.d, n_c).concat());
    }
    warps
}

/// Returns the kinds of the operand registers: A, B, C, and the scales.
fn kinds(op: &MatrixOp, counts: [usize; 3]) -> Vec<String> {
    let form = &op.form;
    let formats = [form.a, form.b, form.accumulator];
    // Packed sub-byte codes accept any bits.
    let packed = |format: Format| format.bits() < 8 && !op.name.contains("f8f6f4");
    let name = |format: Format| if packed(format) { "u32" } else { format.name() };
    let mut kinds: Vec<String> = formats
        .into_iter()
        .zip(counts)
        .flat_map(|(format, count)| std::iter::repeat_n(name(format).to_owned(), count))
        .collect();
    if let Some((scale, _)) = form.scale {
        kinds.extend([scale.name().to_owned(), scale.name().to_owned()]);
    }
    kinds
}

/// Returns the two scale registers, for zero selectors.
fn scales(case: &MatrixCase, chunks: usize) -> [[u32; LANES]; 2] {
    let mut out = [[POISON; LANES]; 2];
    let mut put = |which: usize, (lane, byte): (usize, usize), code: u32| {
        let word = &mut out[which][lane % LANES];
        *word = *word & !(0xFF << (8 * byte)) | (code & 0xFF) << (8 * byte);
    };
    for (n, code) in case.sfa.iter().enumerate() {
        put(0, fragment::scale_a_source(0, 0, n / chunks, n % chunks), *code);
    }
    for (n, code) in case.sfb.iter().enumerate() {
        put(1, fragment::scale_b_source(0, 0, n / chunks, n % chunks), *code);
    }
    out
}

/// Generates the instruction with operands `i0…` and `o0…`.
fn text(op: &MatrixOp, n_a: usize, n_b: usize, n_c: usize) -> String {
    let list = |letter: char, from: usize, count: usize| {
        let names: Vec<String> = (from..from + count).map(|n| format!("{letter}{n}")).collect();
        format!("{{{}}}", names.join(","))
    };
    let form = &op.form;
    let shape = form.shape;
    let kind = op.name.split('.').find(|word| word.starts_with("kind::"));
    let mut words = vec![format!("mma.sync.aligned.m{}n{}k{}.row.col", shape.m, shape.n, shape.k)];
    words.extend(kind.map(str::to_owned));
    if let Some((_, chunks)) = form.scale {
        words.push(format!("block_scale.scale_vec::{chunks}X"));
    }
    let accumulator = form.accumulator.name();
    words.push(format!("{accumulator}.{}.{}.{accumulator}", form.a.name(), form.b.name()));
    words.extend(form.scale.map(|(scale, _)| scale.name().to_owned()));
    let mut operands =
        vec![list('o', 0, n_c), list('i', 0, n_a), list('i', n_a, n_b), list('i', n_a + n_b, n_c)];
    if form.scale.is_some() {
        let first = n_a + n_b + n_c;
        for n in [first, first + 1] {
            operands.push(format!("{{i{n}}}"));
            operands.push("{0,0}".to_owned());
        }
    }
    format!("{} {};", words.join("."), operands.join(","))
}
