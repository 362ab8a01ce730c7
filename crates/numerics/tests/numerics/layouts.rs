//! Fragments, selectors, metadata and scale layouts: each place used once, and as the manual's formulas say.

use std::collections::HashSet;

use numerics::Format;
use numerics::fragment::{
    LANES, Operand, a_index, b_index, c_index, from_container, gather, gather_metadata, gather_scales,
    metadata_source, quad_pair, registers, scatter, selectors, to_container,
};
use numerics::scale_layout::ScaleLayout;
use numerics::tensor_core::{MmaShape, Sparsity, sparse_expand};

fn shape(m: usize, n: usize, k: usize) -> MmaShape {
    MmaShape { m, n, k }
}

/// Every dense shape of PTX ISA "Multiply-and-Accumulate Instruction: mma", with bits of A, B and of C.
const DENSE: [(usize, usize, usize, u32, u32); 22] = [
    (16, 8, 8, 16, 32),
    (16, 8, 8, 16, 16),
    (16, 8, 16, 16, 32),
    (16, 8, 16, 16, 16),
    (16, 8, 4, 32, 32),
    (16, 8, 8, 32, 32),
    (16, 8, 16, 8, 32),
    (16, 8, 16, 8, 16),
    (16, 8, 32, 8, 32),
    (16, 8, 32, 8, 16),
    (8, 8, 16, 8, 32),
    (8, 8, 32, 4, 32),
    (16, 8, 32, 4, 32),
    (16, 8, 64, 4, 32),
    (8, 8, 128, 1, 32),
    (16, 8, 128, 1, 32),
    (16, 8, 256, 1, 32),
    (8, 8, 4, 64, 64),
    (16, 8, 4, 64, 64),
    (16, 8, 8, 64, 64),
    (16, 8, 16, 64, 64),
    // B of a sparse m16n8k128.
    (16, 8, 128, 4, 32),
];

#[test]
fn every_element_of_every_shape_has_one_place() {
    for (m, n, k, bits, c_bits) in DENSE {
        let shape = shape(m, n, k);
        type Index = fn(MmaShape, u32, usize, usize, usize) -> (usize, usize);
        let operands: [(Operand, Index, u32, usize, usize); 3] = [
            (Operand::A, a_index, bits, m, k),
            (Operand::B, b_index, bits, n, k),
            (Operand::C, c_index, c_bits, m, n),
        ];
        for (operand, index, bits, rows, columns) in operands {
            let mut seen = HashSet::new();
            for lane in 0..LANES {
                for reg in 0..registers(operand, shape, bits) {
                    for sub in 0..(32 / bits).max(1) as usize {
                        let (row, column) = index(shape, bits, lane, reg, sub);
                        assert!(row < rows && column < columns, "{shape:?} {operand:?} {bits}");
                        assert!(
                            seen.insert((row, column)),
                            "{shape:?} {operand:?} {bits}: ({row}, {column}) twice"
                        );
                    }
                }
            }
            assert_eq!(seen.len(), rows * columns, "{shape:?} {operand:?} {bits}");
        }
    }
}

#[test]
fn fragments_follow_the_manuals_formulas() {
    for lane in 0..LANES {
        let (g, t) = (lane >> 2, lane & 3);
        for i in 0..8 {
            let want = (g + 8 * (i >> 1 & 1), 2 * t + (i & 1) + 8 * (i >> 2));
            assert_eq!(a_index(shape(16, 8, 16), 16, lane, i / 2, i % 2), want);
        }
        for i in 0..16 {
            let want = (g + 8 * (i >> 2 & 1), 4 * t + (i & 3) + 16 * (i >> 3));
            assert_eq!(a_index(shape(16, 8, 32), 8, lane, i / 4, i % 4), want);
            assert_eq!(
                b_index(shape(16, 8, 64), 4, lane, i / 8, i % 8),
                (g, 8 * t + (i & 7) + 32 * (i >> 3))
            );
        }
        for i in 0..32 {
            let want = (g + 8 * (i >> 3 & 1), 8 * t + (i & 7) + 32 * (i >> 4));
            assert_eq!(a_index(shape(16, 8, 64), 4, lane, i / 8, i % 8), want);
        }
        for i in 0..4 {
            let want = (g + 8 * (i >> 1), 2 * t + (i & 1));
            assert_eq!(c_index(shape(16, 8, 32), 32, lane, i, 0), want);
            assert_eq!(c_index(shape(16, 8, 32), 16, lane, i / 2, i % 2), want);
            assert_eq!(a_index(shape(16, 8, 8), 32, lane, i, 0), (g + 8 * (i & 1), t + 4 * (i >> 1)));
        }
    }
}

#[test]
fn gathering_undoes_scattering() {
    for (m, n, k, bits, _) in DENSE.into_iter().filter(|d| d.3 <= 32) {
        let shape = shape(m, n, k);
        let mask = u32::MAX >> (32 - bits);
        let codes: Vec<u32> = (0..m * k).map(|i| (i as u32).wrapping_mul(0x9E37_79B9) >> 7 & mask).collect();
        let mut words = vec![[0; LANES]; registers(Operand::A, shape, bits)];
        scatter(Operand::A, shape, bits, &codes, &mut words);
        assert_eq!(gather(Operand::A, shape, bits, &words), codes, "{shape:?} {bits}");
    }
}

#[test]
fn volta_quad_pairs_cover_four_products() {
    for by_rows in [false, true] {
        let mut seen = HashSet::new();
        for lane in 0..LANES {
            for i in 0..4 {
                assert!(seen.insert((quad_pair::product(lane), quad_pair::a_index(by_rows, lane, i))));
                let (column, k) = quad_pair::b_index(by_rows, lane, i);
                assert!(column < 8 && k < 4);
            }
        }
        assert_eq!(seen.len(), 4 * 32);
    }
    for bits in [16, 32] {
        let places: HashSet<_> = (0..LANES)
            .flat_map(|lane| {
                (0..8).map(move |i| (quad_pair::product(lane), quad_pair::c_index(bits, lane, i)))
            })
            .collect();
        assert_eq!(places.len(), 4 * 64);
    }
}

#[test]
fn scales_come_from_the_selected_lanes_and_bytes() {
    let lanes: [u32; LANES] =
        std::array::from_fn(|lane| u32::from_le_bytes(std::array::from_fn(|byte| (lane * 4 + byte) as u8)));
    for thread in 0..2 {
        for byte in 0..4 {
            let codes = gather_scales(Operand::A, 16, 1, byte, thread, &lanes);
            for (row, code) in codes.iter().enumerate() {
                let lane = 4 * (row % 8) + 2 * thread + row / 8;
                assert_eq!(*code as usize, lane * 4 + byte);
            }
        }
    }
    let codes = gather_scales(Operand::B, 8, 2, 2, 3, &lanes);
    for (at, code) in codes.iter().enumerate() {
        assert_eq!(*code as usize, (at / 2 * 4 + 3) * 4 + 2 + at % 2);
    }
}

#[test]
fn containers_hold_codes_where_the_hardware_reads_them() {
    assert_eq!(to_container(Format::E2m1, 0xF), 0b0011_1100);
    assert_eq!(to_container(Format::E3m2, 0x3F), 0b0011_1111);
    assert_eq!(from_container(Format::E2m1, 0b1110_1011), 0b1010);
    for format in [Format::E4m3, Format::E5m2, Format::E3m2, Format::E2m3, Format::E2m1] {
        for code in 0..1 << format.bits() {
            assert_eq!(from_container(format, to_container(format, code)), code);
        }
    }
}

#[test]
fn every_bit_of_sparse_metadata_is_read_once() {
    let shapes =
        [(16, 16, 4), (32, 16, 2), (8, 32, 4), (16, 32, 2), (32, 8, 2), (64, 8, 1), (64, 4, 2), (128, 4, 1)];
    for (k, bits, count) in shapes {
        let shape = shape(16, 8, k);
        assert_eq!(selectors(shape, bits), count, "k{k} of {bits} bits");
        let sparsity = match bits {
            32 => Sparsity::OneOfTwo,
            4 => Sparsity::PairsOfEight,
            _ => Sparsity::TwoOfFour,
        };
        let mut seen = HashSet::new();
        for selector in 0..count {
            for row in 0..16 {
                for field in 0..k / 2 / sparsity.elements_per_index() {
                    let (lane, bit) = metadata_source(shape, bits, selector, row, field);
                    for offset in 0..sparsity.index_bits() {
                        assert!(lane < LANES && bit + offset < 32);
                        assert!(seen.insert((lane, bit + offset)), "k{k} of {bits} bits");
                    }
                }
            }
        }
        assert_eq!(seen.len(), LANES * 32, "k{k} of {bits} bits");
    }
}

#[test]
fn metadata_of_narrow_elements_matches_cutlass() {
    // `ELayout` of SM120_SPARSE_16x8x64: lane mod 2 is the half of the rows, the next bit the half of K.
    let wide = shape(16, 8, 64);
    assert_eq!(metadata_source(wide, 8, 0, 3, 0), (12, 0));
    assert_eq!(metadata_source(wide, 8, 0, 11, 15), (13, 30));
    assert_eq!(metadata_source(wide, 8, 0, 3, 16), (14, 0));
    assert_eq!(metadata_source(wide, 8, 0, 11, 31), (15, 30));
}

#[test]
fn kept_elements_go_to_their_places() {
    let mut lanes = [0x4444_4444; LANES];
    // Row 0, first group of four: elements 1 and 3.
    lanes[0] = 0x4444_444D;
    let shape = shape(16, 8, 16);
    let index = gather_metadata(Sparsity::TwoOfFour, shape, 16, 0, &lanes);
    let kept: Vec<u32> = (1..=128).collect();
    let full = sparse_expand(Sparsity::TwoOfFour, 16, 16, &kept, &index);
    assert_eq!(full[..8], [0, 1, 0, 2, 3, 4, 0, 0]);
    assert_eq!(full[16..20], [9, 10, 0, 0]);
    // 0b1110 keeps the second element of two, 0b0100 the first.
    assert_eq!(sparse_expand(Sparsity::OneOfTwo, 1, 4, &[5, 6], &[0b1110, 0b0100]), [0, 5, 6, 0]);
    assert_eq!(sparse_expand(Sparsity::PairsOfEight, 1, 8, &[1, 2, 3, 4], &[1, 3]), [0, 0, 1, 2, 0, 0, 3, 4]);
}

#[test]
fn scale_layouts_are_permutations_of_the_padded_matrix() {
    for layout in [ScaleLayout::Linear, ScaleLayout::Tile128x4, ScaleLayout::Tile8x4] {
        for (rows, columns) in [(1, 1), (8, 4), (128, 4), (130, 90), (300, 5)] {
            let (padded_rows, padded_columns) = layout.padded(rows, columns);
            let places: HashSet<usize> = (0..padded_rows)
                .flat_map(|r| (0..padded_columns).map(move |c| layout.offset(r, c, columns)))
                .collect();
            assert_eq!(places.len(), layout.size(rows, columns));
            assert_eq!(places.into_iter().max(), Some(layout.size(rows, columns) - 1));
        }
    }
}

#[test]
fn scale_layouts_place_known_scales() {
    let large = ScaleLayout::Tile128x4;
    assert_eq!(large.offset(0, 3, 90), 3);
    assert_eq!(large.offset(1, 0, 90), 16);
    assert_eq!(large.offset(32, 0, 90), 4);
    assert_eq!(large.offset(127, 3, 90), 511);
    assert_eq!(large.offset(0, 4, 90), 512);
    // gpt-oss: K = 2880 has 90 scales, stored as 92; the second tile of rows follows 23 tiles of columns.
    assert_eq!(large.offset(128, 0, 90), 23 * 512);
    assert_eq!(large.size(2880, 90), 2944 * 92);
    assert_eq!(large.batched_offset(2, 1, 1, 2880, 90), 2 * 2944 * 92 + 17);
    let small = ScaleLayout::Tile8x4;
    assert_eq!(small.offset(9, 5, 8), (2 + 1) * 32 + 4 + 1);
}
