//! Emulated instructions per second on one core: loops of arithmetic and of memory accesses compared with `ptoxide`, in one
//! process and with the same instruction count; block-scaled `mma`; a block-scaled matrix product.
//!
//! Targets: twenty times `ptoxide` with observers off and eight times with them on; half a million m16n8k32, a million
//! to aim at.

#![expect(clippy::unwrap_used, reason = "a measurement that fails has no result")]

use emulator::{GlobalMemory, Launch, Options, launch, load};
use ptoxide::{Argument, Context, LaunchParams};

/// Threads per CTA, and CTAs, of the loops.
const BLOCK: u32 = 128;
const GRID: u32 = 2;

const HEAD: &str = "
.version 8.3
.target sm_80
.address_size 64

.visible .entry kernel(
	.param .u64 kernel_param_0,
	.param .u32 kernel_param_1
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<16>;
	.reg .b64 	%rd<10>;
	.shared .align 4 .b8 tile[512];

	ld.param.u64 	%rd1, [kernel_param_0];
	ld.param.u32 	%r1, [kernel_param_1];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r2, %tid.x;
	mov.u32 	%r3, %ctaid.x;
	mov.u32 	%r4, %ntid.x;
	mad.lo.s32 	%r5, %r3, %r4, %r2;
	mul.wide.u32 	%rd3, %r5, 4;
	add.s64 	%rd4, %rd2, %rd3;
	mul.wide.u32 	%rd5, %r2, 4;
	mov.u64 	%rd6, tile;
	add.s64 	%rd7, %rd6, %rd5;
	mov.u32 	%r6, 0;
	mov.u32 	%r7, %r5;
	mov.u32 	%r8, 1664525;
	mov.u32 	%r9, 1013904223;
	st.global.u32 	[%rd4], %r7;

$L__BB0_1:
";

const TAIL: &str = "
	add.s32 	%r6, %r6, 1;
	setp.lt.s32 	%p1, %r6, %r1;
	@%p1 bra 	$L__BB0_1;

	st.global.u32 	[%rd4], %r7;
	ret;

}
";

/// Loop bodies, with their number of instructions.
const LOOPS: [(&str, &str, u64); 3] = [
    (
        "integer",
        "
	mad.lo.s32 	%r7, %r7, %r8, %r9;
	shl.b32 	%r10, %r7, 5;
	add.s32 	%r11, %r10, %r6;
	and.b32 	%r12, %r11, %r8;
	or.b32  	%r13, %r12, %r5;
	sub.s32 	%r7, %r13, %r7;",
        6,
    ),
    (
        "memory",
        "
	ld.global.u32 	%r10, [%rd4];
	add.s32 	%r11, %r10, %r6;
	st.shared.u32 	[%rd7], %r11;
	ld.shared.u32 	%r12, [%rd7];
	mad.lo.s32 	%r7, %r12, %r8, %r9;
	st.global.u32 	[%rd4], %r7;",
        6,
    ),
    (
        "pointers",
        "
	cvt.u64.u32 	%rd8, %r6;
	add.s64 	%rd9, %rd8, %rd3;
	cvt.u32.u64 	%r10, %rd9;
	add.s32 	%r7, %r7, %r10;",
        4,
    ),
];

/// Instructions after the loop body.
const TAIL_COUNT: u64 = 3;

fn options(observers: bool) -> Options {
    Options { check_init: observers, check_races: observers, fuel: u64::MAX, ..Options::default() }
}

/// CPU time of this thread in seconds, independent of the load of the machine.
fn seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The shortest time of several runs of `f`, in seconds.
fn best(runs: usize, mut f: impl FnMut()) -> f64 {
    let one = |f: &mut dyn FnMut()| {
        let before = seconds();
        f();
        seconds() - before
    };
    (0..runs).map(|_| one(&mut f)).fold(f64::INFINITY, f64::min)
}

/// The final buffer of this emulator, and its seconds.
fn ours(ptx: &str, loops: u32, runs: usize, observers: bool) -> (Vec<u8>, f64) {
    let program = load(ptx).unwrap();
    let kernel = program.kernel("kernel").unwrap();
    let mut memory = GlobalMemory::default();
    let buffer = memory.allocate(4 * (BLOCK * GRID) as usize);
    let mut params = buffer.to_le_bytes().to_vec();
    params.extend(loops.to_le_bytes());
    let how = Launch { grid: [GRID, 1, 1], block: [BLOCK, 1, 1], shared_bytes: 0, params };
    let time = best(runs, || {
        launch(&program, kernel, &how, &mut memory, &options(observers)).unwrap();
    });
    (memory.bytes(buffer).unwrap().to_vec(), time)
}

/// The final buffer of `ptoxide`, and its seconds.
fn theirs(ptx: &str, loops: u32, runs: usize) -> (Vec<u8>, f64) {
    let mut context = Context::new_with_module(ptx).unwrap();
    let buffer = context.alloc::<u32>((BLOCK * GRID) as usize);
    let time = best(runs, || {
        let how = LaunchParams::func("kernel").grid1d(GRID).block1d(BLOCK);
        context.run(how, &[Argument::ptr(buffer), Argument::U32(loops)]).unwrap();
    });
    let mut words = vec![0u32; (BLOCK * GRID) as usize];
    context.read(buffer, &mut words);
    (words.iter().flat_map(|w| w.to_le_bytes()).collect(), time)
}

/// A fixed sequence of numbers (xorshift).
fn numbers(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    }
}

/// The distribution of the codes of a block-scaled product.
#[derive(Clone, Copy)]
enum Data {
    /// Zeros, halves, ones and twos: no sum is ever rounded.
    Exact,
    /// As of quantized weights and activations.
    Real,
    /// Any code except NaN: the alignment window truncates products.
    Any,
}

/// A normally distributed number, in standard deviations.
fn normal(next: &mut impl FnMut() -> u32) -> f64 {
    (0..12).map(|_| f64::from(next()) / 4_294_967_296.0).sum::<f64>() - 6.0
}

impl Data {
    fn e4m3(self, next: &mut impl FnMut() -> u32) -> u8 {
        match self {
            Self::Exact => [0x00, 0x30, 0x38, 0x40, 0xB0, 0xB8, 0xC0, 0x00][next() as usize % 8],
            Self::Real => {
                let x = normal(next) * 112.0;
                let codes = 0..0x7Fu8;
                let value = |c: u8| {
                    let (e, m) = (i32::from(c >> 3), f64::from(c & 7));
                    if e == 0 { m * 2f64.powi(-9) } else { (8.0 + m) * 2f64.powi(e - 10) }
                };
                let near =
                    |a: &u8, b: &u8| (value(*a) - x.abs()).abs().total_cmp(&(value(*b) - x.abs()).abs());
                codes.min_by(near).unwrap() | if x < 0.0 { 0x80 } else { 0 }
            }
            Self::Any => loop {
                let code = next() as u8;
                if code & 0x7F != 0x7F {
                    break code;
                }
            },
        }
    }

    /// A code of e2m1 at its position in a byte for `mma`.
    fn e2m1(self, next: &mut impl FnMut() -> u32) -> u8 {
        let code = match self {
            Self::Exact => [0, 1, 2, 4, 9, 10, 12, 0][next() as usize % 8],
            Self::Real => {
                let x = normal(next) * 2.0;
                let at = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0].iter().filter(|t| x.abs() > **t).count();
                at as u8 | if x < 0.0 { 8 } else { 0 }
            }
            Self::Any => next() as u8 & 15,
        };
        code << 2
    }

    fn scale(self, next: &mut impl FnMut() -> u32) -> u8 {
        match self {
            Self::Exact => 127,
            Self::Real => 118 + (next() % 3) as u8,
            Self::Any => 120 + (next() % 16) as u8,
        }
    }
}

/// Fragments that an `mma` loop cycles through.
const SETS: usize = 8;

/// A kernel that issues `mma` from registers; the accumulator is reset after every four rounds of the fragments.
fn mma_kernel() -> String {
    let mut text = String::from(
        ".version 9.0\n.target sm_121a\n.address_size 64\n.visible .entry kernel(.param .u64 p0, .param .u32 p1)\n{\n\
         .reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b32 %x<80>;\n.reg .f32 %f<4>;\n.reg .b64 %rd<4>;\n\
         ld.param.u64 %rd1, [p0];\nld.param.u32 %r1, [p1];\nmov.u32 %r2, %laneid;\n\
         mul.wide.u32 %rd2, %r2, 4;\nadd.s64 %rd3, %rd1, %rd2;\nmov.u32 %r3, 0;\n",
    );
    for i in 0..SETS * 8 {
        text += &format!("ld.global.u32 %x{i}, [%rd3+{}];\n", i * 128);
    }
    text += "LOOP:\n";
    for i in 0..4 {
        text += &format!("mov.f32 %f{i}, 0f00000000;\n");
    }
    for set in (0..4).flat_map(|_| 0..SETS) {
        let x = |i: usize| format!("%x{}", set * 8 + i);
        text += &format!(
            "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0 \
             {{%f0,%f1,%f2,%f3}}, {{{},{},{},{}}}, {{{},{}}}, {{%f0,%f1,%f2,%f3}}, {{{}}}, {{0,0}}, {{{}}}, {{0,0}};\n",
            x(0),
            x(1),
            x(2),
            x(3),
            x(4),
            x(5),
            x(6),
            x(7)
        );
    }
    for i in 0..4 {
        text += &format!("st.global.f32 [%rd3+{}], %f{i};\n", SETS * 1024 + i * 128);
    }
    text + "add.s32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, %r1;\n@%p1 bra LOOP;\nret;\n}\n"
}

/// Instructions of [`mma_kernel`] per second.
fn mma_rate(data: Data, loops: u32, runs: usize, observers: bool) -> f64 {
    let mut next = numbers(77);
    let mut bytes = Vec::new();
    for _ in 0..SETS {
        bytes.extend((0..4 * 128).map(|_| data.e4m3(&mut next)));
        bytes.extend((0..2 * 128).map(|_| data.e2m1(&mut next)));
        bytes.extend((0..2 * 128).map(|_| data.scale(&mut next)));
    }
    bytes.resize(SETS * 1024 + 512, 0);
    let text = mma_kernel();
    let program = load(&text).unwrap();
    let kernel = program.kernel("kernel").unwrap();
    let mut memory = GlobalMemory::default();
    let mut params = memory.allocate_with(bytes).to_le_bytes().to_vec();
    params.extend(loops.to_le_bytes());
    let how = Launch { grid: [1, 1, 1], block: [32, 1, 1], shared_bytes: 0, params };
    let time = best(runs, || {
        launch(&program, kernel, &how, &mut memory, &options(observers)).unwrap();
    });
    f64::from(loops) * 4.0 * SETS as f64 / time
}

/// `mma` and warp instructions per second of the block-scaled matrix product in `tests/kernels`.
fn product_rates(data: Data, k: u32, runs: usize, observers: bool) -> (f64, f64) {
    let (m, n) = (32u32, 64u32);
    let program = load(include_str!("../tests/kernels/gemm_mx.ptx")).unwrap();
    let kernel = program.kernel("gemm_mx").unwrap();
    let mut next = numbers(9);
    let a = (0..m * k).map(|_| data.e4m3(&mut next)).collect();
    let b = (0..n * k / 2).map(|_| data.e2m1(&mut next) >> 2 | data.e2m1(&mut next) << 2).collect();
    let mut scales = |rows: u32| (0..rows * k / 32).map(|_| data.scale(&mut next)).collect::<Vec<u8>>();
    let (scales_a, scales_b) = (scales(m), scales(n));
    let mut memory = GlobalMemory::default();
    let mut params = Vec::new();
    for bytes in [a, b, scales_a, scales_b] {
        params.extend(memory.allocate_with(bytes).to_le_bytes());
    }
    params.extend(memory.allocate(4 * (m * n) as usize).to_le_bytes());
    params.extend(n.to_le_bytes());
    params.extend(k.to_le_bytes());
    let how = Launch { grid: [n / 32, m / 32, 1], block: [128, 1, 1], shared_bytes: 0, params };
    let mut counts = 0;
    // CPU time is counted in ticks, so a run must be long.
    let launches = if runs > 1 { 50 } else { 1 };
    let time = best(runs, || {
        for _ in 0..launches {
            let done = launch(&program, kernel, &how, &mut memory, &options(observers)).unwrap();
            counts = done.warp_instructions;
        }
    });
    let time = time / f64::from(launches);
    (f64::from(m / 16 * (n / 8) * (k / 32)) / time, counts as f64 / time)
}

fn main() {
    // Without `--bench`, everything runs once and briefly, for `cargo test`.
    let measured = std::env::args().any(|a| a == "--bench");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str()));
    let (size, runs) = if measured { (100, 5) } else { (1, 1) };
    println!(
        "{:10} {:>12} {:>12} {:>7} {:>12} {:>7}",
        "", "ptoxide", "unobserved", "ratio", "observed", "ratio"
    );
    for (name, body, count) in LOOPS.into_iter().filter(|l| wanted(l.0)) {
        let ptx = format!("{HEAD}{body}{TAIL}");
        let (loops, our_loops) = (100 * size, 1000 * size);
        let rate = |loops: u32, time: f64| {
            ((count + TAIL_COUNT) * u64::from(BLOCK * GRID)) as f64 * f64::from(loops) / time / 1e6
        };
        assert_eq!(theirs(&ptx, 100, 1).0, ours(&ptx, 100, 1, true).0, "{name}");
        let slow = rate(loops, theirs(&ptx, loops, runs).1);
        let off = rate(our_loops, ours(&ptx, our_loops, runs, false).1);
        let on = rate(our_loops, ours(&ptx, our_loops, runs, true).1);
        println!(
            "{name:10} {slow:>8.0} M/s {off:>8.0} M/s {:>7.1} {on:>8.0} M/s {:>7.1}",
            off / slow,
            on / slow
        );
    }
    println!("\n{:10} {:>12} {:>12}", "mma", "unobserved", "observed");
    for (name, data) in [("exact", Data::Exact), ("real", Data::Real), ("any", Data::Any)] {
        if !wanted("mma") {
            continue;
        }
        let rate = |observers| mma_rate(data, 50 * size, runs, observers) / 1e3;
        println!("{name:10} {:>8.0} k/s {:>8.0} k/s", rate(false), rate(true));
    }
    println!("\n{:10} {:>12} {:>12}   (and warp instructions)", "gemm_mx", "unobserved", "observed");
    for (name, data) in [("exact", Data::Exact), ("real", Data::Real)] {
        if !wanted("gemm_mx") {
            continue;
        }
        let rates = [false, true].map(|observers| product_rates(data, 128 * size.min(32), runs, observers));
        let [(off, off_all), (on, on_all)] = rates;
        println!(
            "{name:10} {:>8.0} k/s {:>8.0} k/s   {:.1} M/s {:.1} M/s",
            off / 1e3,
            on / 1e3,
            off_all / 1e6,
            on_all / 1e6
        );
    }
}
