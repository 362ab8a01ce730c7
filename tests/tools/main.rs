//! Tests that need what not every machine has: a ptxas, NVRTC, a C compiler, Python, git; one that needs a machine without a driver.
//!
//! Without it, a test is ignored with the reason, also while listing, so that no runner counts it as passed; `SM121PROBE_REQUIRE` with `nvrtc`, or
//! with a toolkit such as `toolkit:13.5` (comma-separated), makes that a failure.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

mod attention;
mod attention_fp4;
mod compiler;
mod cubins;
mod desk;
mod driver;
mod emulated_cuda;
mod explained;
mod families;
mod forms;
mod kernel_sources;
mod kernels;
mod known;
mod mutants;
mod need;
mod nvrtc;
mod predicates;
mod public_suite;
mod tiles;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use need::Machine;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let machine = Machine::look();
    let tests = [
        ("attention", attention::TESTS),
        ("attention_fp4", attention_fp4::TESTS),
        ("compiler", compiler::TESTS),
        ("cubins", cubins::TESTS),
        ("driver", driver::TESTS),
        ("emulated_cuda", emulated_cuda::TESTS),
        ("explained", explained::TESTS),
        ("families", families::TESTS),
        ("forms", forms::TESTS),
        ("kernel_sources", kernel_sources::TESTS),
        ("kernels", kernels::TESTS),
        ("known", known::TESTS),
        ("mutants", mutants::TESTS),
        ("nvrtc", nvrtc::TESTS),
        ("predicates", predicates::TESTS),
        ("public_suite", public_suite::TESTS),
        ("tiles", tiles::TESTS),
    ];
    let each = tests.into_iter().flat_map(|(module, tests)| tests.iter().map(move |test| (module, test)));
    let mut trials: Vec<Trial> = each.map(|(module, test)| machine.trial(module, test)).collect();
    trials.extend(machine.missing());
    libtest_mimic::run(&arguments, trials).exit_code()
}
