//! Accesses of a warp at any addresses, in global and in shared memory: what is read and written, for whole warps and for some lanes.

use std::array::from_fn;

use emulator::{GlobalMemory, Launch, Options, Stop, launch, load};

/// Numbers by a linear congruential generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// The bytes of the buffer that is read and of the one that is written: many lines.
const BYTES: usize = 16 << 10;

/// Each active lane reads `width` bytes at its place of the first buffer and writes them at its place of the second, which is returned
/// with nothing for each byte that is not marked as written; `None` if the kernel does not run.
fn copied(
    space: &str,
    width: usize,
    mask: u32,
    [from, to]: [[u32; 32]; 2],
    input: &[u8],
) -> Option<Vec<Option<u8>>> {
    let registers: Vec<String> = (0..width.div_ceil(4)).map(|n| format!("%r{n}")).collect();
    let bits = 8 * width.min(4);
    let (vector, list) = match registers.len() {
        1 => (String::new(), registers.concat()),
        n => (format!(".v{n}"), format!("{{{}}}", registers.join(", "))),
    };
    // In shared memory, a copy of the first buffer lies where the second one begins.
    let around = |inside: &str| match space {
        "global" => inside.to_owned(),
        _ => format!(
            "mov.u32 %i, %t;\nIN: mul.wide.u32 %q, %i, 4;\nadd.u64 %q, %q, %in;\nld.global.u32 %r0, [%q];\n\
             mad.lo.u32 %s, %i, 4, %tile;\nst.shared.u32 [%s], %r0;\nst.shared.u32 [%s+{BYTES}], 0;\nadd.u32 %i, %i, 32;\n\
             setp.lt.u32 %more, %i, {words};\n@%more bra IN;\nbar.sync 0;\ncvt.u64.u32 %from, %from32;\ncvt.u64.u32 %base, %tile;\n\
             add.u64 %from, %from, %base;\ncvt.u64.u32 %to, %to32;\nadd.u64 %to, %to, %base;\nadd.u64 %to, %to, {BYTES};\n{inside}\n\
             bar.sync 0;\nmov.u32 %i, %t;\nOUT: mul.wide.u32 %q, %i, 4;\nadd.u64 %q, %q, %out;\nmad.lo.u32 %s, %i, 4, %tile;\n\
             ld.shared.u32 %r0, [%s+{BYTES}];\nst.global.u32 [%q], %r0;\nadd.u32 %i, %i, 32;\nsetp.lt.u32 %more, %i, {words};\n\
             @%more bra OUT;",
            words = BYTES / 4,
        ),
    };
    let inside = format!(
        "@%p ld.{space}{vector}.b{bits} {list}, [%from+32];\n@%p st.{space}{vector}.b{bits} [%to+32], {list};"
    );
    let text = format!(
        ".version 8.8\n.target sm_120a\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out, .param .u64 places, .param .u32 mask) {{\n\
         .reg .pred %p, %more;\n.reg .b32 %r<8>;\n.reg .b32 %t, %i, %s, %tile, %mask, %from32, %to32;\n\
         .reg .b64 %in, %out, %places, %q, %from, %to, %base;\n.shared .align 16 .b8 tile[{both}];\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %places, [places];\nld.param.u32 %mask, [mask];\n\
         mov.u32 %t, %tid.x;\nmov.u32 %tile, tile;\nshr.u32 %i, %mask, %t;\nand.b32 %i, %i, 1;\nsetp.ne.u32 %p, %i, 0;\n\
         mul.wide.u32 %q, %t, 4;\nadd.u64 %q, %q, %places;\nld.global.u32 %from32, [%q];\nld.global.u32 %to32, [%q+128];\n\
         cvt.u64.u32 %from, %from32;\nadd.u64 %from, %from, %in;\ncvt.u64.u32 %to, %to32;\nadd.u64 %to, %to, %out;\n{body}\nret;\n}}",
        both = 2 * BYTES,
        body = around(&inside),
    );
    let program = load(&text).ok()?;
    let mut memory = GlobalMemory::default();
    let places: Vec<u8> = from.iter().chain(&to).flat_map(|place| place.to_le_bytes()).collect();
    let (source, places) = (memory.allocate_with(input.to_vec()), memory.allocate_with(places));
    let target = memory.allocate(BYTES);
    let mut params: Vec<u8> = [source, target, places].iter().flat_map(|at| at.to_le_bytes()).collect();
    params.extend(mask.to_le_bytes());
    let how = Launch { grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, params };
    launch(&program, program.kernel("k")?, &how, &mut memory, &Options::default()).ok()?;
    let mut left: Vec<Option<u8>> = memory.bytes(target)?.iter().copied().map(Some).collect();
    memory.unwritten_runs(target).into_iter().for_each(|run| left[run].fill(None));
    Some(left)
}

/// Places of 32 lanes in units of an access, so that no two lanes write the same one.
fn pattern(n: usize, units: usize, random: &mut Random) -> [u32; 32] {
    let spread = |step: usize| from_fn(|lane| (lane * step % units) as u32);
    match n {
        0 => spread(1),
        1 => spread(2),
        2 => from_fn(|lane| 31 - lane as u32),
        3 => from_fn(|lane| 3 * (31 - lane) as u32 + 1),
        // The first line of two, and one far away: lines without an access lie between.
        4 => from_fn(|lane| if lane < 16 { lane as u32 } else { (units - 32 + lane) as u32 }),
        // Two rows of a tile, exchanged.
        5 => from_fn(|lane| (lane as u32 & 15) + if lane < 16 { 40 } else { 8 }),
        6 => from_fn(|lane| lane as u32 ^ 5),
        _ => {
            let mut all: Vec<u32> = (0..units.min(100 * n) as u32).collect();
            from_fn(|_| all.swap_remove(random.below(all.len())))
        }
    }
}

#[test]
fn lanes_read_and_write_at_any_addresses() {
    let mut random = Random(3);
    let input: Vec<u8> = (0..BYTES).map(|_| random.below(256) as u8).collect();
    for space in ["global", "shared"] {
        for width in [1, 2, 4, 8, 16] {
            // Behind the offset of the instructions.
            let units = (BYTES - 32) / width;
            for n in 0..11 {
                let mask = [!0, 0xFFFF_FF00, 0x8001_0420, 1 << 13, !1][n % 5];
                let to = pattern(n, units, &mut random);
                // Reads may share bytes.
                let from = match n % 3 {
                    0 => pattern((n + 4) % 11, units, &mut random),
                    1 => [random.below(units) as u32; 32],
                    _ => from_fn(|_| random.below(units) as u32),
                };
                let places = [from, to].map(|units| units.map(|unit| unit * width as u32));
                // Shared memory is written as a whole before and copied as a whole behind.
                let mut wanted = vec![if space == "global" { None } else { Some(0) }; BYTES];
                for lane in (0..32).filter(|lane| mask >> lane & 1 == 1) {
                    let [from, to] = places.map(|all| all[lane] as usize + 32);
                    for n in 0..width {
                        wanted[to + n] = Some(input[from + n]);
                    }
                }
                let got = copied(space, width, mask, places, &input).unwrap();
                let different: Vec<usize> = (0..BYTES).filter(|at| got[*at] != wanted[*at]).collect();
                assert_eq!(
                    different,
                    Vec::<usize>::new(),
                    "{space}, {width} bytes, pattern {n}, mask {mask:#x}"
                );
            }
        }
    }
}

/// The places, in units of an access, of a warp that reads a run, one place, or such in each half, at any distance from the start of a line.
fn even(n: usize, units: usize, random: &mut Random) -> [u32; 32] {
    let mut start = || random.below(units - 32) as u32;
    let (one, two) = (start(), start());
    from_fn(|lane| match (n % 5, lane as u32) {
        (0, lane) => one + lane,
        (1, _) => one,
        (2, lane) => lane % 16 + if lane < 16 { one } else { two },
        (3, lane) if lane < 16 => one,
        (3, _) => two,
        (_, lane) => one + lane % 16,
    })
}

#[test]
fn whole_warps_read_evenly_spaced_places() {
    let mut random = Random(4);
    let input: Vec<u8> = (0..BYTES).map(|_| random.below(256) as u8).collect();
    for space in ["global", "shared"] {
        for (width, n) in [4, 8, 16].into_iter().flat_map(|width| (0..20).map(move |n| (width, n))) {
            let units = (BYTES - 32) / width;
            let from = even(n, units, &mut random).map(|unit| unit * width as u32);
            let to = from_fn(|lane| (lane * width) as u32);
            let got = copied(space, width, !0, [from, to], &input).unwrap();
            for lane in 0..32 {
                let at = from[lane] as usize + 32;
                let wanted: Vec<Option<u8>> = input[at..at + width].iter().copied().map(Some).collect();
                let own = to[lane] as usize + 32;
                assert_eq!(got[own..own + width], wanted, "{space}, {width} bytes, {n}, lane {lane}");
            }
        }
    }
}

/// Two warps read and write their parts of words in shared memory, at any places, with a barrier after half of the rounds; `places` by round and
/// thread, in units of `width` bytes.
fn exchanged(width: usize, places: &[[u32; 64]]) -> Result<(), Stop> {
    let bits = 8 * width;
    let text = format!(
        ".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 places) {{\n.reg .pred %more, %odd;\n\
         .reg .b32 %r<3>, %t, %i, %s, %tile;\n.reg .b64 %places, %q;\n.shared .align 16 .b8 tile[{BYTES}];\n\
         ld.param.u64 %places, [places];\nmov.u32 %t, %tid.x;\nmov.u32 %tile, tile;\nmul.wide.u32 %q, %t, 4;\nadd.u64 %q, %q, %places;\n\
         mad.lo.u32 %s, %t, 4, %tile;\nmov.u32 %i, 0;\nFILL: st.shared.u32 [%s], 0;\nadd.u32 %s, %s, 256;\nadd.u32 %i, %i, 256;\n\
         setp.lt.u32 %more, %i, {BYTES};\n@%more bra FILL;\nbar.sync 0;\nmov.u32 %i, 0;\nROUND: ld.global.u32 %s, [%q];\n\
         mad.lo.u32 %s, %s, {width}, %tile;\nld.shared.b{bits} %r0, [%s];\nadd.u32 %r0, %r0, 1;\nst.shared.b{bits} [%s], %r0;\n\
         and.b32 %r1, %i, 1;\nsetp.ne.u32 %odd, %r1, 0;\n@%odd bra NEXT;\nbar.sync 0;\nNEXT: add.u64 %q, %q, 256;\n\
         add.u32 %i, %i, 1;\nsetp.lt.u32 %more, %i, {rounds};\n@%more bra ROUND;\nret;\n}}",
        rounds = places.len(),
    );
    let program = load(&text)?;
    let mut memory = GlobalMemory::default();
    let bytes: Vec<u8> = places.iter().flatten().flat_map(|place| place.to_le_bytes()).collect();
    let params = memory.allocate_with(bytes).to_le_bytes().to_vec();
    let how = Launch { grid: [1; 3], block: [64, 1, 1], shared_bytes: 0, params };
    let kernel = program.kernel("k").ok_or_else(|| Stop::Launch("there is no kernel `k`".to_owned()))?;
    launch(&program, kernel, &how, &mut memory, &Options::default()).map(|_| ())
}

/// Neighbouring bytes of one word are no race, whoever accesses them; one byte is, if both warps access it between two barriers.
#[test]
fn parts_of_words_race_by_byte() {
    let mut random = Random(5);
    for width in [1, 2] {
        for dense in [64, 200, BYTES / width] {
            // Each thread has places of its own in two rounds, as no barrier stands between these.
            let pair = |random: &mut Random| {
                let mut all: Vec<u32> = (0..dense as u32).collect();
                let one: [u32; 64] = from_fn(|_| all.swap_remove(random.below(all.len())));
                [one, one]
            };
            let mut places: Vec<[u32; 64]> = (0..6).flat_map(|_| pair(&mut random)).collect();
            // Rounds 0, 2, … end with a barrier: 1 and 2 are a pair.
            places.rotate_left(1);
            exchanged(width, &places).unwrap_or_else(|stop| panic!("{width} bytes of {dense}: {stop}"));
            let (round, thread) = (1 + 2 * random.below(4), random.below(32));
            places[round + 1][32 + random.below(32)] = places[round][thread];
            let stop = exchanged(width, &places).expect_err("a race");
            assert!(stop.to_string().contains("race"), "{stop}");
        }
    }
}
