//! `ldmatrix`, `stmatrix`, `movmatrix` against plain loops.

use super::harness::{Inputs, LANES, Random, warp};

/// Stores the lane's `i0…i3` at its own 16 bytes of the buffer.
const FILL: &str = "st.shared.v4.b32 [sa],{i0,i1,i2,i3};\nbar.warp.sync 0xffffffff;\n";

/// Bytes of the row that lane `row` filled.
fn rows(inputs: &[[u32; LANES]]) -> Vec<[u8; 16]> {
    (0..LANES)
        .map(|lane| {
            let mut bytes = [0; 16];
            for (i, register) in inputs[..4].iter().enumerate() {
                bytes[4 * i..4 * i + 4].copy_from_slice(&register[lane].to_le_bytes());
            }
            bytes
        })
        .collect()
}

/// Elements of a row, one to a byte.
fn expand(row: [u8; 16], bits: usize) -> [u8; 16] {
    let mut out = [0; 16];
    for (i, to) in out.iter_mut().enumerate() {
        for bit in 0..bits {
            let at = i * bits + bit;
            *to |= (row[at / 8] >> (at % 8) & 1) << bit;
        }
    }
    out
}

fn registers(count: usize) -> String {
    (0..count).map(|i| format!("o{i}")).collect::<Vec<_>>().join(",")
}

fn filled(seed: u64) -> Inputs {
    let mut random = Random(seed);
    (0..4).map(|_| random.register()).collect()
}

#[test]
fn expanding_loads() {
    for (format, bits) in [("b4x16_p64", 4), ("b6x16_p32", 6)] {
        for count in [1usize, 2, 4] {
            let inputs = filled(count as u64);
            let text = format!(
                "{FILL}ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.{format} {{{}}},[sa];",
                registers(count)
            );
            let got = warp(&text, &inputs, count);
            let rows = rows(&inputs);
            for (q, register) in got.iter().enumerate() {
                for (lane, word) in register.iter().enumerate() {
                    let row = expand(rows[8 * q + lane / 4], bits);
                    let want: Vec<u8> = (0..4).map(|b| row[4 * (lane % 4) + b]).collect();
                    assert_eq!(
                        word.to_le_bytes().as_slice(),
                        want,
                        "{format} x{count} register {q} lane {lane}"
                    );
                }
            }
        }
    }
}

#[test]
fn transposing_square_loads() {
    for (ty, bits) in [("b8", 8), ("b8x16.b4x16_p64", 4), ("b8x16.b6x16_p32", 6)] {
        for count in [1usize, 2] {
            let inputs = filled(10 + count as u64);
            let text = format!(
                "{FILL}ldmatrix.sync.aligned.m16n16.x{count}.trans.shared::cta.{ty} {{{}}},[sa];",
                registers(2 * count)
            );
            let got = warp(&text, &inputs, 2 * count);
            let rows: Vec<_> = rows(&inputs).into_iter().map(|r| expand(r, bits)).collect();
            for (n, register) in got.iter().enumerate() {
                for (lane, word) in register.iter().enumerate() {
                    let column = lane / 4 + 8 * (n % 2);
                    let want: Vec<u8> =
                        (0..4).map(|b| rows[n / 2 * 16 + 4 * (lane % 4) + b][column]).collect();
                    assert_eq!(word.to_le_bytes().as_slice(), want, "{ty} x{count} register {n} lane {lane}");
                }
            }
        }
    }
}

/// What `stmatrix.m16n8.trans.b8` stores is the accumulator's transpose: row `n` has `D[m][n]` for 16 m.
#[test]
fn byte_stores() {
    for count in [1usize, 2, 4] {
        let mut random = Random(count as u64);
        let inputs: Inputs = (0..count).map(|_| random.register()).collect();
        let from: Vec<String> = (0..count).map(|i| format!("i{i}")).collect();
        let zero = "mov.b32 t0,0;\nst.shared.v4.b32 [sa],{t0,t0,t0,t0};\nbar.warp.sync -1;\n";
        let text = format!(
            "{zero}stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [sa],{{{}}};\nbar.warp.sync -1;\n\
             ld.shared.v4.b32 {{o0,o1,o2,o3}},[sa];",
            from.join(",")
        );
        let got = rows(&warp(&text, &inputs, 4));
        let mut want = vec![[0u8; 16]; LANES];
        for (q, register) in inputs.iter().enumerate() {
            for (lane, word) in register.iter().enumerate() {
                for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
                    let (m, n) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
                    want[8 * q + n][m] = byte;
                }
            }
        }
        assert_eq!(got, want, "x{count}");
    }
}

#[test]
fn generic_addresses_are_shared_addresses() {
    let wide = "cvt.u64.u32 a0, sa;\ncvta.shared.u64 a0, a0;\n";
    let load = "ldmatrix.sync.aligned.m8n8.x4.b16 {o0,o1,o2,o3},[a0];";
    let inputs = filled(3);
    let generic = warp(&format!("{FILL}{wide}{load}"), &inputs, 4);
    let shared =
        warp(&format!("{FILL}{}", load.replace("x4.b16", "x4.shared.b16").replace("a0", "sa")), &inputs, 4);
    assert_eq!(generic, shared);
}
