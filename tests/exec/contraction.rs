//! A program whose kernel leaves the contraction of a product and a sum to the assembler.

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::{exec, told};

/// Multiplies the first two of three numbers and adds the third.
const OPEN: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .entry open(.param .u64 buffer)
{
    .reg .b64 p; .reg .f32 a, b, c;
    ld.param.u64 p, [buffer];
    ld.global.f32 a, [p];
    ld.global.f32 b, [p+4];
    ld.global.f32 c, [p+8];
    mul.f32 a, a, b;
    add.f32 a, a, c;
    st.global.f32 [p], a;
    ret;
}";

/// (1 + 2^-12)^2 - (1 + 2^-11), which is 2^-24 if nothing is rounded in between.
fn open() -> f32 {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let kernel = context.load_module(Ptx::from_src(OPEN)).unwrap().load_function("open").unwrap();
    let x = 1.0 + 1.0 / 4096.0;
    let mut numbers = stream.clone_htod(&[x, x, -(1.0 + 1.0 / 2048.0)]).unwrap();
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut numbers);
    // SAFETY: the kernel takes one pointer to three numbers.
    unsafe { launch.launch(config) }.unwrap();
    stream.clone_dtoh(&numbers).unwrap()[0]
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_rounds_twice() {
    assert_eq!(open().to_bits(), 0);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_rounds_once() {
    assert_eq!(open().to_bits(), (1.0_f32 / 16_777_216.0).to_bits());
}

#[test]
fn exec_runs_both_readings_and_says_which() {
    for (options, program) in [
        (&[][..], "program_that_rounds_twice"),
        (&["--contract", "off"], "program_that_rounds_twice"),
        (&["--contract", "on", "--model", "sm_90"], "program_that_rounds_once"),
    ] {
        let output = exec(options, &format!("contraction::{program}"));
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let contracts = program == "program_that_rounds_once";
        assert_eq!(told(&output).contains("rounded once (--contract on)"), contracts, "{}", told(&output));
        assert_eq!(told(&output).contains("those of sm_90 (--model)"), contracts, "{}", told(&output));
    }
}
