//! Programs that people write first for a GPU, on one thread: CPU seconds with every rule and with none.
//!
//! `kernels/programs.cu` is the source. `cargo bench -p sm121probe-emulator --bench programs -- [NAME...]` measures all of them or those
//! named; without `--bench`, each runs once and briefly, for `cargo test`.

#[path = "kernels/work.rs"]
mod work;

use emulator::Options;
use work::{Given, Numbers, Work};

/// CPU time of this thread in seconds, independent of the load of the machine.
fn seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The shortest time of three runs, with the instructions of one.
fn measured(work: &Work, options: &Options) -> (f64, u64) {
    let mut best = (f64::INFINITY, 0);
    for _ in 0..3 {
        let mut memory = work.memory.clone();
        let before = seconds();
        let instructions = work.run_with(&mut memory, options);
        best = (best.0.min(seconds() - before), instructions);
    }
    best
}

/// A kernel of `programs.cu`.
struct Program {
    name: &'static str,
    block: [u32; 2],
    /// The grid and the arguments for its measured size and for a brief run.
    sized: fn(bool) -> ([u32; 2], Vec<Given>),
}

fn floats(count: u32, seed: u64) -> Given {
    let mut numbers = Numbers::new(seed);
    Given::Bytes((0..count).flat_map(|_| numbers.normal().to_le_bytes()).collect())
}

fn words(count: u32, seed: u64) -> Given {
    let mut numbers = Numbers::new(seed);
    Given::Bytes((0..count).flat_map(|_| numbers.word().to_le_bytes()).collect())
}

fn square_product(measured: bool) -> ([u32; 2], Vec<Given>) {
    let n = if measured { 256 } else { 32 };
    let given =
        vec![floats(n * n, 1), floats(n * n, 2), Given::Output(4 * (n * n) as usize), Given::Number(n)];
    ([n / 16; 2], given)
}

/// Every kernel of `programs.cu`.
const PROGRAMS: &[Program] = &[
    Program {
        name: "vecadd",
        block: [256, 1],
        sized: |measured| {
            let n = if measured { 1 << 20 } else { 1 << 10 };
            let given = vec![floats(n, 1), floats(n, 2), Given::Output(4 * n as usize), Given::Number(n)];
            ([n / 256, 1], given)
        },
    },
    Program {
        name: "reduce",
        block: [256, 1],
        sized: |measured| {
            let n = if measured { 1 << 20 } else { 1 << 10 };
            ([n / 256, 1], vec![floats(n, 1), Given::Output(n as usize / 64), Given::Number(n)])
        },
    },
    Program { name: "gemm_naive", block: [16, 16], sized: square_product },
    Program { name: "gemm_tiled", block: [16, 16], sized: square_product },
    Program {
        name: "softmax",
        block: [256, 1],
        sized: |measured| {
            let rows = if measured { 256 } else { 2 };
            let n = rows * 1024;
            ([rows, 1], vec![floats(n, 1), Given::Output(4 * n as usize), Given::Number(1024)])
        },
    },
    Program {
        name: "bitonic",
        block: [512, 1],
        sized: |measured| {
            let runs = if measured { 64 } else { 1 };
            ([runs, 1], vec![words(runs * 1024, 1)])
        },
    },
    Program {
        name: "histogram",
        block: [256, 1],
        sized: |measured| {
            let n = if measured { 1 << 20 } else { 1 << 11 };
            ([n / 1024, 1], vec![words(n, 1), Given::Bytes(vec![0; 1024]), Given::Number(n)])
        },
    },
    Program {
        name: "mandelbrot",
        block: [16, 16],
        sized: |measured| {
            let width = if measured { 512 } else { 32 };
            let pixels = (width * width) as usize;
            let given = vec![Given::Output(4 * pixels), Given::Number(width), Given::Number(256)];
            ([width / 16; 2], given)
        },
    },
    Program {
        name: "nbody",
        block: [256, 1],
        sized: |measured| {
            let n = if measured { 4096 } else { 256 };
            let mut given: Vec<Given> = (1..5).map(|seed| floats(n, seed)).collect();
            given.extend([Given::Output(12 * n as usize), Given::Number(n)]);
            ([n / 256, 1], given)
        },
    },
];

/// A launch of a kernel of `programs.cu`.
fn launch_of(of: &Program, measured: bool) -> Work {
    let (grid, given) = (of.sized)(measured);
    Work { entry: of.name, ..Work::new(include_str!("kernels/programs.ptx"), [grid, of.block], 0, given) }
}

fn main() {
    let bench = std::env::args().any(|arg| arg == "--bench");
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!("{:12} {:>10} {:>10} {:>12} {:>6}", "program", "all rules", "no rules", "M warp ins/s", "none");
    let chosen =
        PROGRAMS.iter().filter(|program| named.is_empty() || named.iter().any(|n| n == program.name));
    for program in chosen {
        let work = launch_of(program, bench);
        let unchecked = Options { check_init: false, check_races: false, ..Options::default() };
        if !bench {
            let [mut checked, mut plain] = [work.memory.clone(), work.memory.clone()];
            assert_eq!(work.run(&mut checked, 1), work.run_with(&mut plain, &unchecked));
            assert!(work.contents(&checked) == work.contents(&plain), "{}", program.name);
            continue;
        }
        let (all, instructions) = measured(&work, &Options::default());
        let (none, _) = measured(&work, &unchecked);
        println!(
            "{:12} {all:>8.4} s {none:>8.4} s {:>12.1} {:>6.2}",
            program.name,
            instructions as f64 / all / 1e6,
            none / all
        );
    }
}
