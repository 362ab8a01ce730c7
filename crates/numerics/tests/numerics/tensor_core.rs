//! Tensor-core sums against the recorded answers of MMA-Sim (sm_120) and of an H100 (sm_90).

use numerics::fragment::{self, LANES, Operand, a_index, b_index, c_index, gather};
use numerics::tensor_core::{
    BitOp, Integer, MmaForm, MmaShape, Model, Sparsity, mma, mma_b1, mma_exact, mma_f64, mma_integer,
    mma_sparse,
};
use numerics::{Format, Rounding};
use vectors::{MatrixOp, Op, Recording, WarpOp, builtin};

pub(crate) fn recordings() -> [Recording; 2] {
    builtin().unwrap().try_into().unwrap()
}

fn matrix_ops() -> Vec<MatrixOp> {
    let [_, model] = recordings();
    model.ops.into_iter().filter_map(|op| if let Op::Matrix(op) = op { Some(op) } else { None }).collect()
}

pub(crate) fn warp_ops() -> Vec<WarpOp> {
    let [device, _] = recordings();
    device.ops.into_iter().filter_map(|op| if let Op::Warp(op) = op { Some(op) } else { None }).collect()
}

#[test]
fn every_sm120_form_is_answered_bit_for_bit() {
    let ops = matrix_ops();
    assert_eq!(ops.len(), 70);
    let mut outputs = 0;
    for op in &ops {
        assert_eq!(op.cases.len(), 8, "{}", op.name);
        for (number, case) in op.cases.iter().enumerate() {
            for compute in [mma, mma_exact] {
                let mut d = vec![0; case.d.len()];
                compute(Model::Sm120, &op.form, &case.a, &case.b, &case.c, &case.sfa, &case.sfb, &mut d);
                let wrong = (0..d.len()).find(|i| d[*i] != case.d[*i]);
                assert_eq!(wrong, None, "{} case {number}: {:x?} not {:x?}", op.name, d, case.d);
            }
            outputs += case.d.len();
        }
    }
    assert_eq!(outputs, 70 * 8 * 128);
}

fn split(input: &[[u32; LANES]], form: MmaForm) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let count = |operand, bits| fragment::registers(operand, form.shape, bits);
    let (a, rest) = input.split_at(count(Operand::A, form.a.bits()));
    let (b, rest) = rest.split_at(count(Operand::B, form.b.bits()));
    let c = &rest[..count(Operand::C, form.accumulator.bits())];
    (
        gather(Operand::A, form.shape, form.a.bits(), a),
        gather(Operand::B, form.shape, form.b.bits(), b),
        gather(Operand::C, form.shape, form.accumulator.bits(), c),
    )
}

fn registers_of(form: MmaForm, d: &[u32], count: usize) -> Vec<[u32; LANES]> {
    let mut out = vec![[0; LANES]; count];
    fragment::scatter(Operand::C, form.shape, form.accumulator.bits(), d, &mut out);
    out
}

fn shape(name: &str) -> MmaShape {
    let part = name.split('.').find(|p| p.starts_with('m') && p.contains('n') && p.contains('k')).unwrap();
    let mut numbers = part.split(['m', 'n', 'k']).skip(1).map(|n| n.parse().unwrap());
    MmaShape { m: numbers.next().unwrap(), n: numbers.next().unwrap(), k: numbers.next().unwrap() }
}

/// Formats that a name such as `mma.m16n8k32.f32.e4m3.e5m2` gives after its shape.
fn form(name: &str) -> Option<MmaForm> {
    let formats: Vec<Format> = name.split('.').filter_map(Format::parse).collect();
    let (accumulator, a) = (*formats.first()?, *formats.get(1)?);
    Some(MmaForm { shape: shape(name), a, b: *formats.get(2).unwrap_or(&a), accumulator, scale: None })
}

#[test]
fn h100_floating_point_mma_is_answered_bit_for_bit() {
    let mut seen = 0;
    for op in warp_ops().iter().filter(|op| op.name.starts_with("mma.m16")) {
        let Some(form) = form(&op.name) else { continue };
        for case in 0..op.cases {
            let (a, b, c) = split(op.input(case), form);
            for compute in [mma, mma_exact] {
                let mut d = vec![0; form.shape.m * form.shape.n];
                compute(Model::Sm90, &form, &a, &b, &c, &[], &[], &mut d);
                assert_eq!(registers_of(form, &d, op.n_out), op.output(case), "{} case {case}", op.name);
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 20);
}

#[test]
fn h100_integer_mma_is_answered_bit_for_bit() {
    let mut seen = 0;
    for op in warp_ops().iter().filter(|op| op.name.starts_with("mma.m16")) {
        let types: Vec<Integer> = op.name.split('.').filter_map(Integer::parse).collect();
        let bits = if op.name.contains(".b1.") { 1 } else { types.first().map_or(0, |t| t.bits()) };
        if bits == 0 {
            continue;
        }
        let shape = shape(&op.name);
        for case in 0..op.cases {
            let count = |operand, bits| fragment::registers(operand, shape, bits);
            let (a, rest) = op.input(case).split_at(count(Operand::A, bits));
            let (b, c) = rest.split_at(count(Operand::B, bits));
            let a = gather(Operand::A, shape, bits, a);
            let b = gather(Operand::B, shape, bits, b);
            let c = gather(Operand::C, shape, 32, c);
            let mut d = vec![0; shape.m * shape.n];
            if bits == 1 {
                let how = if op.name.ends_with("and") { BitOp::And } else { BitOp::Xor };
                mma_b1(shape, how, &a, &b, &c, &mut d);
            } else {
                let satfinite = op.name.ends_with("satfinite");
                mma_integer(shape, types[0], types[1], &a, &b, &c, satfinite, &mut d);
            }
            let mut out = vec![[0; LANES]; op.n_out];
            fragment::scatter(Operand::C, shape, 32, &d, &mut out);
            assert_eq!(out, op.output(case), "{} case {case}", op.name);
        }
        seen += 1;
    }
    assert_eq!(seen, 11);
}

#[test]
fn h100_double_mma_is_answered_bit_for_bit() {
    let ops = warp_ops();
    let op = ops.iter().find(|op| op.name == "mma.m8n8k4.f64").unwrap();
    let shape = MmaShape { m: 8, n: 8, k: 4 };
    for case in 0..op.cases {
        let (input, output) = (op.input(case), op.output(case));
        let wide = |registers: &[[u32; LANES]], reg: usize, lane: usize| {
            u64::from(registers[2 * reg][lane]) | u64::from(registers[2 * reg + 1][lane]) << 32
        };
        let (mut a, mut b, mut c, mut d) = (vec![0; 32], vec![0; 32], vec![0; 64], vec![0; 64]);
        for lane in 0..LANES {
            let (row, k) = a_index(shape, 64, lane, 0, 0);
            a[row * 4 + k] = wide(input, 0, lane);
            let (column, k) = b_index(shape, 64, lane, 0, 0);
            b[column * 4 + k] = wide(input, 1, lane);
            for reg in 0..2 {
                let (row, column) = c_index(shape, 64, lane, reg, 0);
                c[row * 8 + column] = wide(input, 2 + reg, lane);
            }
        }
        mma_f64(shape, &a, &b, &c, &mut d, Rounding::NearestEven);
        for lane in 0..LANES {
            for reg in 0..2 {
                let (row, column) = c_index(shape, 64, lane, reg, 0);
                assert_eq!(d[row * 8 + column], wide(output, reg, lane), "case {case} lane {lane}");
            }
        }
    }
}

#[test]
fn h100_sparse_mma_is_answered_bit_for_bit() {
    let mut seen = 0;
    for op in warp_ops().iter().filter(|op| op.name.starts_with("mma.sp.")) {
        let selector = usize::from(op.name.ends_with("sel1"));
        let form = form(&op.name).unwrap();
        let kept = MmaShape { k: form.shape.k / 2, ..form.shape };
        // The text of the instruction sets every lane's metadata to this word.
        assert!(op.ptx.contains("mov.b32 m0,0x44444444"));
        let metadata = [0x4444_4444; LANES];
        for case in 0..op.cases {
            let input = op.input(case);
            let index = fragment::gather_metadata(Sparsity::TwoOfFour, form.shape, 16, selector, &metadata);
            let a = gather(Operand::A, kept, 16, &input[..4]);
            let b = gather(Operand::B, form.shape, 16, &input[4..8]);
            let c = gather(Operand::C, form.shape, 32, &input[8..12]);
            let mut d = vec![0; 128];
            mma_sparse(Model::Sm90, &form, Sparsity::TwoOfFour, &a, &index, &b, &c, &[], &[], &mut d);
            assert_eq!(registers_of(form, &d, op.n_out), op.output(case), "{} case {case}", op.name);
        }
        seen += 1;
    }
    assert_eq!(seen, 2);
}

#[test]
fn a_widened_subnormal_has_the_exponent_of_binary16() {
    let shape = MmaShape { m: 16, n: 8, k: 16 };
    let form = MmaForm { shape, a: Format::E4m3, b: Format::E5m2, accumulator: Format::F32, scale: None };
    let (mut a, mut b) = (vec![0; 16 * 16], vec![0; 8 * 16]);
    // 2^-9 · 2^15 = 2^6, and twice 2^-6 · 2^-12 = 2^-18: 24 bits below it, which e4m3's own exponent of 2^-9, 2^-6, would cut.
    for (k, x, y) in [(0, 0x01, 0x78), (1, 0x08, 0x0C), (4, 0x08, 0x0C)] {
        (a[k], b[k]) = (x, y);
    }
    for compute in [mma, mma_exact] {
        let mut d = vec![0; 16 * 8];
        compute(Model::Sm90, &form, &a, &b, &[0; 16 * 8], &[], &[], &mut d);
        assert_eq!(f32::from_bits(d[0]), 64.0 + 2f32.powi(-17));
    }
}
