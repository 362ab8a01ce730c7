//! Programs that people write first for a GPU, on one thread: CPU seconds with every rule and with none.
//!
//! `kernels/programs.cu` is the source. `cargo bench -p sm121probe-emulator --bench programs -- [NAME...]` measures all of them or those
//! named; without `--bench`, each runs once and briefly, for `cargo test`.

#[path = "kernels/setup.rs"]
mod setup;

use setup::{PROGRAMS, Rules, Work};

/// CPU time of this thread in seconds, independent of the load of the machine.
fn seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The shortest time of three runs, with the instructions of one.
fn measured(work: &Work, rules: Rules) -> (f64, u64) {
    let mut best = (f64::INFINITY, 0);
    for _ in 0..3 {
        let mut memory = work.memory.clone();
        let before = seconds();
        let instructions = work.run_with(&mut memory, 1, rules);
        best = (best.0.min(seconds() - before), instructions);
    }
    best
}

fn main() {
    let bench = std::env::args().any(|arg| arg == "--bench");
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!("{:12} {:>10} {:>10} {:>12} {:>6}", "program", "all rules", "no rules", "M warp ins/s", "none");
    let chosen =
        PROGRAMS.iter().filter(|program| named.is_empty() || named.iter().any(|n| n == program.name));
    for program in chosen {
        let work = setup::program(program, bench);
        if !bench {
            work.run(&mut work.memory.clone(), 1);
            continue;
        }
        let (all, instructions) = measured(&work, Rules::All);
        let (none, _) = measured(&work, Rules::None);
        println!(
            "{:12} {all:>8.4} s {none:>8.4} s {:>12.1} {:>6.2}",
            program.name,
            instructions as f64 / all / 1e6,
            none / all
        );
    }
}
