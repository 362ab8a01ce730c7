//! Whole programs under `exec`: judged by their own check and, where an H200 has run the same program, by the bytes that it computed.

mod backend_ops;
mod build;
mod own;
mod packages;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use sm121probe::store::Store;
use sm121probe::toolkit::PipSource;
use sm121probe::worker::{self, Ended};

use super::judge::Why;
use super::packages::{Package, TRITON, TRITON_PYTHON, executable, unpacked};
use build::Built;

/// Time limit of a program.
const LIMIT: Duration = Duration::from_secs(600);

/// An H200's output: program and case, then its lines.
const H200: &str = include_str!("../h200.txt");

/// A program.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    run: fn(&Store) -> Result<(), Why>,
}

/// All programs.
pub(crate) const ALL: [Program; 16] = [
    Program { name: "own", run: own::run },
    Program {
        name: "cutlass_79a",
        run: |store| cutlass(store, "79a_blackwell_geforce_nvfp4_bf16_gemm", CUBE),
    },
    Program {
        name: "cutlass_79b",
        run: |store| cutlass(store, "79b_blackwell_geforce_nvfp4_nvfp4_gemm", CUBE),
    },
    Program {
        name: "cutlass_79c",
        run: |store| cutlass(store, "79c_blackwell_geforce_mixed_mxfp8_mxfp6_bf16_gemm", CUBE),
    },
    Program {
        name: "cutlass_79d",
        run: |store| cutlass(store, "79d_blackwell_geforce_nvfp4_grouped_gemm", GROUPS),
    },
    Program { name: "cub", run: |store| as_an_h200("h100", "cub", &build::whole(store, "cub", None, &[])?) },
    Program { name: "cub_3.5", run: |store| as_an_h200("gb10", "cub", &build::cub_for_gb10(store, "cub")?) },
    Program { name: "cub_sizes", run: sizes },
    Program {
        name: "flashinfer",
        run: |store| {
            let package = Some((&super::packages::FLASHINFER, "flashinfer"));
            let built = build::whole(store, "flashinfer", package, &["flashinfer/data/include"])?;
            as_an_h200("h100", "flashinfer", &built)
        },
    },
    Program {
        name: "llama.cpp",
        run: |store| {
            let package = Some((&super::packages::LLAMA, "llama"));
            let built = build::whole(store, "llama", package, super::kernels::LLAMA_INCLUDES)?;
            as_an_h200("h100", "llama", &built)
        },
    },
    Program { name: "llama.cpp_backend_ops", run: backend_ops::run },
    Program { name: "triton", run: triton },
    Program { name: "cuda_python", run: cuda_python },
    Program {
        name: "cupy",
        run: |store| packaged(store, "cupy", &packages::CUPY, "CuPy is right", "twice: 1 launch,"),
    },
    Program {
        name: "numba",
        run: |store| packaged(store, "numba", &packages::NUMBA, "numba is right", "saxpy: 1 launch,"),
    },
    Program { name: "cute_dsl", run: cute_dsl },
];

/// A problem of two tiles in each dimension.
const CUBE: &[&str] = &["--m=256", "--n=256", "--k=256", "--iterations=0"];
const GROUPS: &[&str] = &["--groups=2", "--m=128", "--n=128", "--k=256", "--iterations=0"];

impl Program {
    /// Builds and runs the program.
    ///
    /// # Errors
    /// [`Why`].
    pub(crate) fn run(&self, store: &Store) -> Result<(), Why> {
        (self.run)(store)
    }
}

/// Runs a command under `exec`; its report goes to standard error.
fn exec(gpu: &str) -> Command {
    recording(gpu, None)
}

/// Runs a command under `exec` that records each launch in a folder.
fn recording(gpu: &str, folder: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sm121probe"));
    command.args(["exec", "--gpu", gpu]);
    command
        .args(folder.map(|folder| [OsStr::new("--record"), folder.as_os_str()]).iter().flatten())
        .arg("--");
    command
}

/// Runs `command`, which must end with the exit code and print these words.
fn expect(command: &mut Command, conforms: bool, words: &[&str]) -> Result<String, Why> {
    let output = worker::run(command, LIMIT).map_err(|error| Why::Failed(error.to_string()))?;
    let text = output.text();
    let ended_well = matches!(output.ended, Ended::Exited(0));
    match words.iter().find(|word| !text.contains(**word)) {
        None if ended_well == conforms => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Some(word) => Err(Why::Failed(format!("`{word}` is missing in: {text}"))),
        None => Err(Why::Failed(format!("it ended with {:?}: {text}", output.ended))),
    }
}

/// An example of CUTLASS, judged by its own check: once unchanged, once with a byte of the scale factors changed on the host only.
fn cutlass(store: &Store, example: &str, arguments: &[&str]) -> Result<(), Why> {
    let program = build::cutlass(store, example)?;
    expect(exec("gb10").arg(&program).args(arguments), true, &["Disposition: Passed", "no violation"])?;
    let broken = &mut exec("gb10");
    broken.arg(&program).args(arguments).env(build::BREAK_SCALES, "1");
    expect(broken, false, &["Disposition: Failed"]).map(|_| ())
}

/// The cases of a program that an H200 has run, with the lines that it printed.
fn recorded(program: &str) -> Vec<(&'static str, String)> {
    let cases = H200.split("== ").skip(1).filter_map(|part| part.split_once('\n'));
    let of_program = cases.filter_map(|(head, lines)| Some((head.split_once(' ')?, lines)));
    of_program
        .filter(|((name, _), _)| *name == program)
        .map(|((_, case), lines)| (case, lines.to_owned()))
        .collect()
}

/// Runs the cases of a program; each must print the same as on an H200.
fn as_an_h200(gpu: &str, program: &str, built: &Built) -> Result<(), Why> {
    let cases = recorded(program);
    assert!(!cases.is_empty(), "an H200 has run cases of {program}");
    for (case, lines) in cases {
        let printed = expect(exec(gpu).arg(&built.program).arg(case), true, &["no violation"])?;
        if printed != lines {
            return Err(Why::Failed(format!("{case} prints\n{printed}and an H200\n{lines}")));
        }
    }
    Ok(())
}

/// CUB's and Thrust's algorithms on arrays of up to 1,025 elements, judged by the CPU's results.
fn sizes(store: &Store) -> Result<(), Why> {
    const SUITES: [&str; 16] = [
        "scan8", "scan16", "scan32", "scan64", "reduce8", "reduce32", "reduce64", "select8", "select32",
        "select64", "radix8", "radix32", "radix64", "merge16", "merge32", "merge64",
    ];
    let built = build::cub_for_gb10(store, "cub_sizes")?;
    for suite in SUITES {
        expect(exec("gb10").arg(&built.program).args([suite, "1025"]), true, &["no violation"])?;
    }
    Ok(())
}

/// The Python version of the wheels.
fn python() -> Result<Command, Why> {
    python_under(exec("gb10"))
}

fn python_under(mut command: Command) -> Result<Command, Why> {
    let python = PipSource::from_environment().python;
    let asked: Result<Output, _> =
        Command::new(&python).args(["-c", "import sys; print(sys.implementation.cache_tag)"]).output();
    let tag = asked.map_err(|error| Why::Missing(format!("{}: {error}", python.display())))?.stdout;
    if String::from_utf8_lossy(&tag).trim() != TRITON_PYTHON {
        return Err(Why::Missing(format!(
            "the wheels are for {TRITON_PYTHON}; SM121PROBE_PYTHON names another Python than {}",
            python.display()
        )));
    }
    command.arg(python).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/programs").join(name)
}

fn triton(store: &Store) -> Result<(), Why> {
    let package = unpacked(store, "triton", &[&TRITON]).map_err(Why::Missing)?;
    executable(&package.join("triton/backends/nvidia/bin")).map_err(Why::Missing)?;
    let command = &mut python()?;
    command.arg(script("triton_exec.py")).env("PYTHONPATH", package).env("TRITON_DEFAULT_FP_FUSION", "1");
    expect(command, true, &["doubled", "double: 1 launch,", "no violation"]).map(|_| ())
}

fn cuda_python(store: &Store) -> Result<(), Why> {
    let package = unpacked(store, "cuda-python", &packages::CUDA_PYTHON).map_err(Why::Missing)?;
    let command = &mut python()?;
    command
        .arg(script("saxpy.py"))
        .env("LD_LIBRARY_PATH", package.join("nvidia/cu13/lib"))
        .env("PYTHONPATH", package);
    expect(command, true, &["saxpy is right", "saxpy: 1 launch,", "no violation"]).map(|_| ())
}

/// A Python program of packages that need nothing else: it prints `right`, and the report contains `launched`.
fn packaged(
    store: &Store,
    name: &str,
    packages: &[&Package],
    right: &str,
    launched: &str,
) -> Result<(), Why> {
    let package = unpacked(store, name, packages).map_err(Why::Missing)?;
    let command = &mut python()?;
    command.arg(script(&format!("{name}_exec.py"))).env("PYTHONPATH", package);
    expect(command, true, &[right, launched, "no violation"]).map(|_| ())
}

/// Python's path to CuTe DSL, after these folders.
fn cute_dsl_path(store: &Store, mut folders: Vec<PathBuf>) -> Result<OsString, Why> {
    let bindings = unpacked(store, "cuda-python", &packages::CUDA_PYTHON).map_err(Why::Missing)?;
    let package = unpacked(store, "cute-dsl", &packages::CUTE_DSL).map_err(Why::Missing)?;
    folders.extend([package.join("nvidia_cutlass_dsl/dsl_packages"), package, bindings]);
    std::env::join_paths(folders).map_err(build::failed)
}

/// Runs a case of a CuTe DSL program, with its launches recorded in `folder` and `folders` in Python's path; returns its output.
///
/// # Errors
/// [`Why`].
pub(crate) fn cute_dsl_launches(
    store: &Store,
    program: &str,
    case: &str,
    folders: Vec<PathBuf>,
    folder: &Path,
) -> Result<String, Why> {
    let mut command = python_under(recording("gb10", Some(folder)))?;
    command.arg(script(program)).arg(case).env("PYTHONPATH", cute_dsl_path(store, folders)?);
    expect(&mut command, true, &["no violation"])
}

fn cute_dsl(store: &Store) -> Result<(), Why> {
    let path = cute_dsl_path(store, Vec::new())?;
    let run = |arguments: &[&str]| -> Result<Command, Why> {
        let mut command = python()?;
        command.arg(script("cute_dsl.py")).args(arguments).env("PYTHONPATH", &path);
        Ok(command)
    };
    expect(&mut run(&[])?, true, &["sums are right", ": 1 launch,", "no violation"])?;
    expect(&mut run(&["wide"])?, false, &["out_of_bounds", "cudaErrorIllegalAddress"]).map(|_| ())
}
