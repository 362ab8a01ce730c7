//! A program that runs ptxas, as JIT compilers do.

use std::process::{Command, Output};

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{DOUBLE, passes, passes_without_a_launch, told};

/// Assembles `text` with the `ptxas` in `PATH`; returns its output and the file that it wrote.
fn assembled(text: &str) -> (Output, Option<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
    std::fs::write(&input, text).unwrap();
    let mut ptxas = Command::new("ptxas");
    let said = ptxas.args(["-lineinfo", "--gpu-name=sm_121a"]).arg(&input).arg("-o").arg(&output).output();
    (said.unwrap(), std::fs::read(&output).ok())
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_calls_ptxas() {
    let ptxas = std::path::PathBuf::from(std::env::var_os("TRITON_PTXAS_PATH").unwrap());
    assert!(ptxas.is_file());
    let version = Command::new(&ptxas).arg("--version").output().unwrap();
    assert!(String::from_utf8(version.stdout).unwrap().contains("release"));
    let (said, code) = assembled(DOUBLE);
    assert!(said.status.success(), "{}", told(&said));
    let text = String::from_utf8(code.unwrap()).unwrap();
    let text = text.strip_suffix('\0').unwrap();
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let kernel = context.load_module(Ptx::from_src(text)).unwrap().load_function("double").unwrap();
    let mut words = stream.clone_htod(&[1u32, 2, 3, 4]).unwrap();
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (4, 1, 1), shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut words);
    // SAFETY: the kernel takes one pointer, to four words.
    unsafe { launch.launch(config) }.unwrap();
    assert_eq!(stream.clone_dtoh(&words).unwrap(), [2, 4, 6, 8]);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_text_a_real_ptxas_refuses() {
    let (said, code) = assembled(&DOUBLE.replace("add.u32", "add.u31"));
    assert!(!said.status.success() && code.is_none(), "{}", told(&said));
    assert!(told(&said).contains("ptxas"), "{}", told(&said));
}

#[test]
fn a_jit_compiler_finds_a_ptxas_that_passes_ptx_through() {
    passes("assembler::program_that_calls_ptxas");
    let toolkits = Command::new(env!("CARGO_BIN_EXE_sm121probe")).args(["toolkit", "list"]).output().unwrap();
    if !String::from_utf8_lossy(&toolkits.stdout).contains("no ptxas on this machine") {
        passes_without_a_launch("assembler::program_whose_text_a_real_ptxas_refuses");
    }
}
