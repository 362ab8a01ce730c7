//! `wmma` from memory to memory against plain products of small whole numbers.

use emulator::{GlobalMemory, Launch, Options, Stop, launch, load};

use super::harness::{LANES, Random};

struct Case {
    shape: [usize; 3],
    ty: &'static str,
    c: &'static str,
    /// Registers of A, B and C.
    registers: [usize; 3],
    rows: [bool; 3],
    /// `.rn` and the like, or nothing.
    rounding: &'static str,
}

fn group(letter: char, count: usize) -> String {
    format!("{{{}}}", (0..count).map(|i| format!("{letter}{i}")).collect::<Vec<_>>().join(","))
}

/// A whole number in `ty`.
fn encode(ty: &str, value: i32) -> Vec<u8> {
    match ty {
        "f16" => {
            // Whole numbers below 2048 in magnitude.
            let magnitude = value.unsigned_abs();
            let e = if magnitude == 0 { 0 } else { magnitude.ilog2() };
            let code = if magnitude == 0 { 0 } else { (e + 15) << 10 | (magnitude << (10 - e)) & 0x3FF };
            ((if value < 0 { 0x8000 } else { 0 } | code) as u16).to_le_bytes().to_vec()
        }
        "bf16" => (((value as f32).to_bits() >> 16) as u16).to_le_bytes().to_vec(),
        "s8" | "u8" => vec![value as u8],
        "s32" => value.to_le_bytes().to_vec(),
        "f64" => f64::from(value).to_le_bytes().to_vec(),
        _ => (value as f32).to_le_bytes().to_vec(),
    }
}

/// Places a matrix with a stride; `at(row, column)` gives its elements. What lies between is noise.
fn place(
    ty: &str,
    [rows, columns]: [usize; 2],
    by_rows: bool,
    stride: usize,
    at: impl Fn(usize, usize) -> i32,
) -> Vec<u8> {
    let size = encode(ty, 0).len();
    let mut out = vec![0xEE; size * stride * if by_rows { rows } else { columns }];
    for r in 0..rows {
        for c in 0..columns {
            let place = if by_rows { r * stride + c } else { c * stride + r };
            out[place * size..(place + 1) * size].copy_from_slice(&encode(ty, at(r, c)));
        }
    }
    out
}

fn run(case: &Case, padded: bool) -> Result<(), Stop> {
    let [m, n, k] = case.shape;
    let [na, nb, nc] = case.registers;
    let layout = |i: usize| if case.rows[i] { "row" } else { "col" };
    let mut random = Random(m as u64);
    let signed = case.ty != "u8";
    let mut number = || (random.word() % 13) as i32 - if signed { 6 } else { 0 };
    let a: Vec<i32> = (0..m * k).map(|_| number()).collect();
    let b: Vec<i32> = (0..k * n).map(|_| number()).collect();
    let c: Vec<i32> = (0..m * n).map(|_| number()).collect();
    let pad = if padded { 8 } else { 0 };
    let stride = |by_rows: bool, rows: usize, columns: usize| if by_rows { columns } else { rows } + pad;
    let strides = [stride(case.rows[0], m, k), stride(case.rows[1], k, n), stride(case.rows[2], m, n)];
    let shape = format!("m{m}n{n}k{k}");
    let tail = |i: usize| if padded { format!(", {}", strides[i]) } else { String::new() };
    let types = if case.ty == "f16" {
        format!("{0}.{0}", case.c)
    } else {
        format!("{0}.{1}.{1}.{0}", case.c, case.ty)
    };
    let text = format!(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc)\n{{\n\
         .reg .b64 x,y,z;\n.reg .{} a<8>,b<8>,c<8>;\nld.param.u64 x,[pa];\nld.param.u64 y,[pb];\nld.param.u64 z,[pc];\n\
         wmma.load.a.sync.aligned.{}.{shape}.global.{} {},[x]{};\nwmma.load.b.sync.aligned.{}.{shape}.global.{} {},[y]{};\n\
         wmma.load.c.sync.aligned.{}.{shape}.{} {},[z]{};\n\
         wmma.mma.sync.aligned.{}.{}.{shape}{}.{types} {},{},{},{};\n\
         wmma.store.d.sync.aligned.{}.{shape}.global.{} [z],{}{};\nret;\n}}\n",
        if case.ty == "f64" { "f64" } else { "b32" },
        layout(0),
        case.ty,
        group('a', na),
        tail(0),
        layout(1),
        case.ty,
        group('b', nb),
        tail(1),
        layout(2),
        case.c,
        group('c', nc),
        tail(2),
        layout(0),
        layout(1),
        case.rounding,
        group('c', nc),
        group('a', na),
        group('b', nb),
        group('c', nc),
        layout(2),
        case.c,
        group('c', nc),
        tail(2),
    );
    let program = load(&text)?;
    let mut memory = GlobalMemory::default();
    let pa = memory.allocate_with(place(case.ty, [m, k], case.rows[0], strides[0], |r, c| a[r * k + c]));
    let pb = memory.allocate_with(place(case.ty, [k, n], case.rows[1], strides[1], |r, c| b[r * n + c]));
    let pc = memory.allocate_with(place(case.c, [m, n], case.rows[2], strides[2], |r, col| c[r * n + col]));
    let params = [pa, pb, pc].map(u64::to_le_bytes).concat();
    let how = Launch { grid: [1, 1, 1], block: [LANES as u32, 1, 1], shared_bytes: 0, params };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default())?;
    let want = place(case.c, [m, n], case.rows[2], strides[2], |r, col| {
        c[r * n + col] + (0..k).map(|i| a[r * k + i] * b[i * n + col]).sum::<i32>()
    });
    assert_eq!(memory.bytes(pc).unwrap(), want, "{text}");
    Ok(())
}

#[test]
fn products_from_memory_to_memory() {
    let mut cases = Vec::new();
    for shape in [[16, 16, 16], [8, 32, 16], [32, 8, 16]] {
        let [m, n, k] = shape;
        let halves = [m * k / 64, n * k / 64, 8];
        let bytes = [m * k / 128, n * k / 128, 8];
        cases.extend([
            ("f16", "f32", shape, [8, 8, 8]),
            ("f16", "f16", shape, [8, 8, 4]),
            ("bf16", "f32", shape, halves),
            ("s8", "s32", shape, bytes),
            ("u8", "s32", shape, bytes),
        ]);
    }
    cases.push(("tf32", "f32", [16, 16, 8], [4, 4, 8]));
    for (n, (ty, c, shape, registers)) in cases.into_iter().enumerate() {
        for rows in [[true, false, true], [false, true, false], [true, true, true]] {
            let case = Case { shape, ty, c, registers, rows, rounding: "" };
            run(&case, n % 2 == 1).unwrap_or_else(|e| panic!("{ty} {shape:?}: {e}"));
        }
    }
}

#[test]
fn products_of_doubles() {
    for layouts in 0..8 {
        let rows = [0, 1, 2].map(|bit| layouts >> bit & 1 == 1);
        for (n, rounding) in ["", ".rn", ".rz", ".rm", ".rp"].into_iter().enumerate() {
            let case = Case { shape: [8, 8, 4], ty: "f64", c: "f64", registers: [1, 1, 2], rows, rounding };
            run(&case, n % 2 == 1).unwrap_or_else(|e| panic!("{rounding} {rows:?}: {e}"));
        }
    }
}
