//! A launch ends the same whether its clusters run apart or not, and whatever the number of threads: memory, counts, remarks, violations,
//! what is printed. If rows are observed, the scheduler runs them all, and the race detector sees every access.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use emulator::{
    Counts, Executed, GlobalMemory, InStream, Judge, Launch, Observer, Options, Remark, Stop, Violation,
    launch_with, load,
};

use crate::lines::Random;

/// What a launch tells of.
#[derive(Debug, Default, PartialEq)]
struct Told {
    remarks: Vec<Remark>,
    violations: Vec<Violation>,
    printed: Vec<String>,
}

/// Receives what is told, and rows, too, if it watches.
#[derive(Default)]
struct Listener<const WATCHES: bool>(Told);

impl<const WATCHES: bool> Observer for Listener<WATCHES> {
    const WATCHES: bool = WATCHES;

    fn row(&mut self, _: &Executed<'_>) {}

    fn printed(&mut self, text: &str) {
        self.0.printed.push(text.to_owned());
    }

    fn violation(&mut self, violation: &Violation) {
        self.0.violations.push(violation.clone());
    }

    fn remark(&mut self, remark: &Remark) {
        self.0.remarks.push(remark.clone());
    }
}

/// CTAs and threads of each.
const GRID: u32 = 24;
const BLOCK: u32 = 64;

/// A kernel of this body. `%out` is 64 Ki zeros, `%new` as many bytes that nobody has written; `%i` numbers the thread in the grid,
/// `%a` is its word of `%out`, and `%c` the CTA.
fn kernel(directives: &str, body: &str) -> String {
    format!(
        ".version 8.8
.target sm_120
.address_size 64
.global .align 4 .u32 lock;
.visible .entry k(.param .u64 p0, .param .u64 p1) {directives}
{{
.reg .pred %p<4>;
.reg .b32 %r<16>, %i, %c, %t;
.reg .b64 %rd<8>, %out, %new, %a;
.shared .align 8 .b8 tile[512];
ld.param.u64 %out, [p0];
ld.param.u64 %new, [p1];
mov.u32 %t, %tid.x;
mov.u32 %c, %ctaid.x;
mad.lo.u32 %i, %c, {BLOCK}, %t;
mul.wide.u32 %a, %i, 4;
add.u64 %a, %a, %out;
{body}
ret;
}}"
    )
}

type End = (Result<Counts, Stop>, Vec<u8>, Option<String>, Told);

/// How a launch ends, with a number of threads; with none, the scheduler runs all of it.
fn end(ptx: &str, seed: u64, judge: Judge, threads: usize) -> End {
    let program = load(ptx).unwrap();
    let kernel = program.kernel("k").unwrap();
    let mut memory = GlobalMemory::default();
    let out = memory.allocate_with(vec![0; 1 << 16]);
    let new = memory.allocate(1 << 16);
    let params = [out.to_le_bytes(), new.to_le_bytes()].concat();
    let launch = Launch { grid: [GRID, 1, 1], block: [BLOCK, 1, 1], shared_bytes: 0, params };
    let fuel = 3_000_000;
    let options = Options {
        seed,
        judge,
        threads: threads.max(1),
        alone: 600,
        fuel,
        check_widths: true,
        ..Options::default()
    };
    let step = InStream::new(&program, kernel, &launch);
    let (counts, told) = if threads == 0 {
        let mut told = Listener::<true>::default();
        (launch_with(&step, &mut memory, &options, &mut told), told.0)
    } else {
        let mut told = Listener::<false>::default();
        (launch_with(&step, &mut memory, &options, &mut told), told.0)
    };
    let bytes = [out, new].into_iter().flat_map(|at| memory.bytes(at).unwrap().to_vec()).collect();
    (counts, bytes, memory.any_undefined().map(ToString::to_string), told)
}

/// The end under the scheduler, which that on one thread and on several must be.
fn alike(directives: &str, body: &str) -> End {
    let ptx = kernel(directives, body);
    for (seed, judge) in [(5, Judge::Strict), (0, Judge::Values), (2, Judge::Values)] {
        let scheduled = end(&ptx, seed, judge, 0);
        for threads in [1, 2, 4] {
            assert_eq!(end(&ptx, seed, judge, threads), scheduled, "seed {seed}, {threads} threads: {body}");
        }
    }
    let scheduled = end(&ptx, 0, Judge::Strict, 0);
    for threads in [1, 4] {
        assert_eq!(end(&ptx, 0, Judge::Strict, threads), scheduled, "{threads} threads: {body}");
    }
    scheduled
}

/// An access, or a barrier, of a random body.
fn random_step(random: &mut Random, n: usize, atomics: bool) -> String {
    if random.below(4) == 0 {
        return "bar.sync 0;\n".to_owned();
    }
    let size = [1, 2, 4, 8, 16][random.below(5)];
    let (word, ty, registers) = match size {
        1 => ("", "u8", format!("%r{}", 8 + n % 8)),
        2 => ("", "u16", format!("%r{}", 8 + n % 8)),
        4 => ("", "u32", format!("%r{}", 8 + n % 8)),
        8 => (".v2", "u32", "{%r8, %r9}".to_owned()),
        _ => (".v4", "u32", "{%r8, %r9, %r10, %r11}".to_owned()),
    };
    // The element: of the thread, of one beside it in the CTA, one for each warp or CTA, or anywhere; rarely of another CTA.
    let place = match random.below(10) {
        0..4 => "mov.u32 %r1, %i;\n".to_owned(),
        4 => format!(
            "add.u32 %r2, %t, {};\nand.b32 %r2, %r2, {};\nmad.lo.u32 %r1, %c, {BLOCK}, %r2;\n",
            random.below(64),
            BLOCK - 1
        ),
        5 => "shr.u32 %r1, %i, 5;\n".to_owned(),
        6 => "mov.u32 %r1, %c;\n".to_owned(),
        7 => "and.b32 %r1, %t, 7;\n".to_owned(),
        8 => "mul.lo.u32 %r1, %i, 5;\nand.b32 %r1, %r1, 1023;\n".to_owned(),
        _ => format!("add.u32 %r1, %i, {};\n", random.below(3) * 32),
    };
    if size == 4 && atomics {
        let place = format!("{place}mul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd1, %rd1, %out;\n");
        let at = format!("[%rd1+{}]", if random.below(8) == 0 { 0 } else { 49152 });
        let register = 8 + n % 8;
        return place
            + &match random.below(6) {
                0 => format!("red.global.add.u32 {at}, %r{register};\n"),
                1 => format!("red.global.max.s32 {at}, %r{register};\n"),
                2 => format!("atom.global.add.u32 %r{register}, {at}, %i;\n"),
                3 => format!("cvt.rn.f32.u32 %r7, %i;\nred.global.add.f32 {at}, %r7;\n"),
                4 if n.is_multiple_of(2) => format!("atom.global.exch.b32 %r{register}, {at}, %i;\n"),
                4 => format!("atom.global.cas.b32 %r{register}, {at}, 0, %i;\n"),
                _ => format!("atom.cta.global.add.u32 %r{register}, {at}, 1;\n"),
            };
    }
    // Most bodies read one buffer and write the other.
    let writes = random.below(3) == 0;
    let buffer = if writes != (random.below(6) == 0) { 32768 } else { 0 };
    let place = format!("{place}mul.wide.u32 %rd1, %r1, {size};\nadd.u64 %rd1, %rd1, %out;\n");
    let at = format!("[%rd1+{}]", buffer + 64 * random.below(2));
    if writes {
        format!("{place}st.global{word}.{ty} {at}, {registers};\n")
    } else {
        let coherent = if random.below(3) == 0 { ".nc" } else { "" };
        format!("{place}ld.global{coherent}{word}.{ty} {registers}, {at};\n")
    }
}

#[test]
fn random_loads_stores_atomics_and_barriers() {
    let mut random = Random(11);
    let (mut fine, mut wrong) = (0, 0);
    for round in 0..500 {
        let start: String = (8..16).map(|n| format!("add.u32 %r{n}, %i, {n};\n")).collect();
        let steps = 2 + random.below(5);
        let body =
            start + &(0..steps).map(|n| random_step(&mut random, n, round % 2 == 0)).collect::<String>();
        let ptx = kernel("", &body);
        let scheduled = end(&ptx, 0, Judge::Strict, 0);
        for threads in [1, 3] {
            assert_eq!(end(&ptx, 0, Judge::Strict, threads), scheduled, "{threads} threads: {body}");
        }
        *if scheduled.0.is_ok() { &mut fine } else { &mut wrong } += 1;
    }
    assert!(fine > 100 && wrong > 50, "{fine} fine, {wrong} wrong");
}

#[test]
fn warps_that_share_global_memory() {
    let beside = "xor.b32 %r2, %t, 32;\nmad.lo.u32 %r2, %c, 64, %r2;\nmul.wide.u32 %rd1, %r2, 4;\nadd.u64 %rd1, %rd1, %out;\n";
    for (barrier, ends) in [("bar.sync 0;", true), ("", false)] {
        let body = format!(
            "{beside}st.global.u32 [%a], %i;\n{barrier}\nld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd1+16384], %r3;"
        );
        assert_eq!(alike("", &body).0.is_ok(), ends, "{body}");
    }
    // Bytes of one word, and one word by all warps, of which each writes the same.
    for body in [
        "mul.wide.u32 %rd1, %i, 1;\nadd.u64 %rd1, %rd1, %out;\nld.global.u8 %r3, [%rd1];\nst.global.u8 [%rd1], %r3;",
        "mul.wide.u32 %rd1, %c, 4;\nadd.u64 %rd1, %rd1, %out;\nst.global.u32 [%rd1], %c;",
        "st.global.u32 [%out], 7;",
    ] {
        assert!(alike("", body).0.is_ok(), "{body}");
    }
}

#[test]
fn ctas_that_have_nothing_to_do_with_each_other() {
    let (counts, bytes, ..) = alike(
        "",
        "and.b32 %r1, %i, 15;
LOOP: add.u32 %r2, %i, %i;
sub.u32 %r1, %r1, 1;
setp.ge.s32 %p1, %r1, 0;
@%p1 bra LOOP;
st.global.u32 [%a], %i;",
    );
    assert!(counts.is_ok());
    assert!((0..GRID * BLOCK).all(|i| bytes[4 * i as usize..][..4] == i.to_le_bytes()));
}

#[test]
fn clusters_meet_among_themselves() {
    let body = "mov.u32 %r1, tile;
mov.u32 %r2, %cluster_ctarank;
xor.b32 %r2, %r2, 1;
mapa.shared::cluster.u32 %r3, %r1, %r2;
shl.b32 %r4, %t, 2;
add.u32 %r3, %r3, %r4;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
st.shared::cluster.u32 [%r3], %i;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
add.u32 %r1, %r1, %r4;
ld.shared.u32 %r5, [%r1];
st.global.u32 [%a], %r5;";
    let (counts, bytes, ..) = alike(".reqnctapercluster 2", body);
    counts.unwrap();
    let of = |i: u32| ((i / BLOCK) ^ 1) * BLOCK + i % BLOCK;
    assert!((0..GRID * BLOCK).all(|i| bytes[4 * i as usize..][..4] == of(i).to_le_bytes()));
}

/// One thread of a CTA, `%p1`.
const ONE: &str = "setp.eq.u32 %p1, %t, 0;\n";

#[test]
fn ctas_under_a_lock() {
    let body = format!(
        "{ONE}@!%p1 bra END;
LOCK: atom.acquire.gpu.global.cas.b32 %r1, [lock], 0, 1;
setp.ne.u32 %p2, %r1, 0;
@%p2 bra LOCK;
ld.global.u32 %r2, [%out];
add.u32 %r2, %r2, 1;
st.global.u32 [%out], %r2;
atom.release.gpu.global.exch.b32 %r3, [lock], 0;
END:"
    );
    let (counts, bytes, ..) = alike("", &body);
    counts.unwrap();
    assert_eq!(bytes[..4], GRID.to_le_bytes());
}

#[test]
fn a_barrier_of_the_grid() {
    let body = format!(
        "st.global.u32 [%a+16384], %i;
bar.sync 0;
{ONE}@!%p1 bra MEET;
atom.acq_rel.gpu.global.add.u32 %r1, [lock], 1;
WAIT: ld.acquire.gpu.global.u32 %r1, [lock];
setp.ne.u32 %p2, %r1, {GRID};
@%p2 bra WAIT;
MEET: bar.sync 0;
xor.b32 %r2, %i, 64;
mul.wide.u32 %rd1, %r2, 4;
add.u64 %rd1, %rd1, %out;
ld.global.u32 %r3, [%rd1+16384];
st.global.u32 [%a], %r3;"
    );
    let (counts, bytes, ..) = alike("", &body);
    counts.unwrap();
    assert!((0..GRID * BLOCK).all(|i| bytes[4 * i as usize..][..4] == (i ^ 64).to_le_bytes()));
}

#[test]
fn the_last_cta_of_an_arrival_counter() {
    let body = format!(
        "st.global.u32 [%a+16384], %i;
bar.sync 0;
{ONE}@!%p1 bra END;
atom.acq_rel.gpu.global.add.u32 %r1, [lock], 1;
setp.ne.u32 %p2, %r1, {};
@%p2 bra END;
ld.global.u32 %r2, [%out+16384];
ld.global.u32 %r3, [%out+16640];
add.u32 %r2, %r2, %r3;
st.global.u32 [%out], %r2;
END:",
        GRID - 1
    );
    let (counts, bytes, ..) = alike("", &body);
    counts.unwrap();
    assert_eq!(bytes[..4], BLOCK.to_le_bytes());
}

#[test]
fn places_taken_by_an_atomic() {
    let body = "atom.global.add.u32 %r1, [lock], 1;
mul.wide.u32 %rd1, %r1, 4;
add.u64 %rd1, %rd1, %out;
st.global.u32 [%rd1], %i;";
    let (counts, bytes, ..) = alike("", body);
    counts.unwrap();
    let mut all: Vec<u32> = bytes.chunks(4).take((GRID * BLOCK) as usize).map(|b| b[0].into()).collect();
    all.sort_unstable();
    assert!(all.iter().zip(0..).all(|(low, n): (&u32, u32)| *low == n / 6 || *low < 256));
}

#[test]
fn a_race_between_ctas_is_found_at_the_same_place() {
    let (counts, ..) = alike("", "st.global.u32 [%out], %c;");
    let Err(Stop::Trap(trap)) = counts else { panic!("{counts:?}") };
    assert_eq!(trap.rule.word(), "race");
    // One that is only a read of what another CTA writes.
    let _ = alike("", "ld.global.u32 %r1, [%out+128];\nst.global.u32 [%a], %r1;");
    // A poll of what another CTA writes, which nothing orders.
    let body = format!(
        "{ONE}setp.ne.u32 %p2, %c, 1;
@%p2 bra WRITE;
WAIT: ld.global.u32 %r1, [%out];
setp.eq.u32 %p3, %r1, 7;
@!%p3 bra WAIT;
bra END;
WRITE: setp.ne.u32 %p2, %c, 0;
@%p2 bra END;
@%p1 st.global.u32 [%out], 7;
END:"
    );
    let _ = alike("", &body);
}

#[test]
fn a_violation_in_some_ctas_is_that_of_one_thread() {
    let body = "setp.lt.u32 %p1, %c, 9;
@%p1 bra FINE;
add.u64 %a, %a, 1;
FINE: st.global.u32 [%a], %i;";
    let (counts, ..) = alike("", body);
    let Err(Stop::Trap(trap)) = counts else { panic!("{counts:?}") };
    assert_eq!((trap.rule.word(), trap.place.cta), ("misaligned", [9, 0, 0]));
}

#[test]
fn remarks_and_undefined_values_name_the_first_cta() {
    let same = "mov.u32 %r1, tile;\nst.shared.u32 [%r1], %c;\nbar.sync 0;\nld.shared.u32 %r2, [%r1];\n\
                st.global.u32 [%a], %r2;";
    let (counts, _, _, told) = alike("", same);
    counts.unwrap();
    let [remark] = told.remarks.as_slice() else { panic!("{told:?}") };
    assert_eq!((remark.place.cta, remark.times), ([0; 3], u64::from(GRID)));
    let undefined = "ld.global.u32 %r1, [%new];\nsetp.lt.u32 %p1, %c, 3;\n@!%p1 st.global.u32 [%a], %r1;";
    let (counts, _, undefined, _) = alike("", undefined);
    counts.unwrap();
    assert!(undefined.is_some_and(|what| what.contains("CTA (3,0,0)")));
}

#[test]
fn clocks_and_fuel() {
    let _ = alike("", "mov.u32 %r1, %clock;\nst.global.u32 [%a], %r1;");
    for (body, rule) in [("LOOP: bra LOOP;", "deadlock"), ("LOOP: add.u32 %r1, %c, %r1;\nbra LOOP;", "fuel")]
    {
        let (counts, ..) = alike("", &format!("mov.u32 %r1, 0;\nadd.u32 %c, %c, 1;\n{body}"));
        let Err(Stop::Trap(trap)) = counts else { panic!("{counts:?}") };
        assert_eq!(trap.rule.word(), rule);
    }
}
