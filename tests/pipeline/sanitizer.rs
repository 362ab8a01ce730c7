//! A second opinion: what `compute-sanitizer` reports on a GPU for kernels with a planted memory fault or race, compared with
//! what the emulator reports for the same kernel; and for kernels without a fault, for which both must report nothing.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Failed, Trial};
use sm121probe::frame::runner::Runner;
use sm121probe::kernel::{Library, Load, MmaPath};
use sm121probe::moe::{family, plan};

use super::{Shared, tool};

const CASE: &str = "tiny-exact";
/// A configuration whose pipeline holds several K tiles at once.
const TILE: &str = "8x64x64";

/// A tool of compute-sanitizer, and how its log shows a finding.
struct Tool {
    name: &'static str,
    finds: &'static str,
    /// The last line of its log without findings.
    clean: &'static str,
}

const MEMCHECK: Tool =
    Tool { name: "memcheck", finds: "Invalid __global__ read", clean: "ERROR SUMMARY: 0 errors" };
const RACECHECK: Tool = Tool {
    name: "racecheck",
    finds: "Race reported between",
    clean: "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
};
const SYNCCHECK: Tool = Tool { name: "synccheck", finds: "Barrier error", clean: "ERROR SUMMARY: 0 errors" };

/// A change of one kernel, the rule that the emulator must name, and the sanitizer's tool.
struct Planted {
    name: &'static str,
    change: (&'static str, &'static str),
    rule: &'static str,
    tool: Tool,
}

/// The changed kernel; the sanitizer's log contains its file and line.
const FILE: &str = "gemm_cp_async.cu";

const PLANTED: [Planted; 3] = [
    Planted {
        name: "k_counted_in_bytes_of_weights",
        change: ("* p.k_padded + at) / 2 :", "* p.k_padded + at) :"),
        rule: "out_of_bounds",
        tool: MEMCHECK,
    },
    Planted {
        name: "a_stage_refilled_while_others_read_it",
        change: ("        __syncthreads();\n        u32 next", "        u32 next"),
        rule: "race",
        tool: RACECHECK,
    },
    Planted {
        name: "a_wait_for_one_group_too_few",
        change: ("\"n\"(STAGES - 2)", "\"n\"(STAGES - 1)"),
        rule: "race",
        tool: RACECHECK,
    },
];

/// The trials; the lock of the GPU serializes them with its other users.
pub(super) fn trials<T: Send + 'static>(shared: &Arc<Shared>, gpu: &Arc<Mutex<T>>) -> Vec<Trial> {
    let Ok(program) = which::which("compute-sanitizer") else {
        let ignored = |name: &str| {
            Trial::test(format!("sanitizer.{name}/gpu:0"), || Ok(()))
                .with_kind("no compute-sanitizer on PATH")
                .with_ignored_flag(true)
        };
        return PLANTED.iter().map(|p| ignored(p.name)).chain([ignored("without_a_fault")]).collect();
    };
    let mut out = Vec::new();
    for planted in PLANTED {
        let (shared, gpu, program) = (Arc::clone(shared), Arc::clone(gpu), program.clone());
        out.push(Trial::test(format!("sanitizer.{}/gpu:0", planted.name), move || {
            let mut library = shared.library.clone();
            plant(&mut library, planted.change)?;
            let said = on_emulator(&shared, &library)?.ok_or("the emulator noticed nothing")?;
            if !said.contains(planted.rule) {
                return Err(format!("the emulator says: {said}").into());
            }
            let _held = gpu.lock().unwrap_or_else(PoisonError::into_inner);
            let log = sanitize(&program, &planted.tool, &library, Load::CpAsync)?;
            let found = log.lines().any(|line| line.contains(planted.tool.finds)) && log.contains(FILE);
            if found { Ok(()) } else { Err(format!("{} found nothing:\n{log}", planted.tool.name).into()) }
        }));
    }
    let (shared, gpu) = (Arc::clone(shared), Arc::clone(gpu));
    out.push(Trial::test("sanitizer.without_a_fault/gpu:0", move || {
        if let Some(said) = on_emulator(&shared, &shared.library)? {
            return Err(said.into());
        }
        let _held = gpu.lock().unwrap_or_else(PoisonError::into_inner);
        for load in [Load::CpAsync, Load::Tma] {
            for tool in [MEMCHECK, RACECHECK, SYNCCHECK] {
                let log = sanitize(&program, &tool, &shared.library, load)?;
                if log.contains(tool.finds) || !log.contains(tool.clean) {
                    return Err(format!("{}, {}:\n{log}", tool.name, load.word()).into());
                }
            }
        }
        Ok(())
    }));
    out
}

fn plant(library: &mut Library, (from, to): (&str, &str)) -> Result<(), Failed> {
    let kernel = library.kernels.iter_mut().find(|k| k.file == FILE).ok_or("there is no such file")?;
    if !kernel.text.contains(from) {
        return Err(format!("`{from}` does not occur in {FILE}").into());
    }
    kernel.text = kernel.text.replace(from, to);
    Ok(())
}

/// What the emulator reports.
fn on_emulator(shared: &Shared, library: &Library) -> Result<Option<String>, Failed> {
    let case = shared.cases.iter().find(|c| c.name == CASE).ok_or("there is no such case")?;
    let tile = TILE.parse().map_err(|e| format!("{e}"))?;
    let trials = plan::trials(case, &[tile], &[Load::CpAsync], &[MmaPath::Portable]);
    let trial = trials.first().ok_or("there is no trial")?;
    trial.config.clone().map_err(|blocked| blocked.0)?;
    let runner = Runner::new(library, &shared.nvrtc, shared.store.as_ref(), tool().to_owned());
    let outcome = family::outcome(&runner, trial, shared.target).map_err(|e| e.to_string())?;
    Ok(outcome.first_wrong().map(|wrong| wrong.note.clone()))
}

/// The log of a tool that watches the kernels of this library on the GPU.
fn sanitize(program: &Path, sanitizer: &Tool, library: &Library, load: Load) -> Result<String, Failed> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let texts = library.kernels.iter().map(|k| (&k.file, &k.text)).chain(&library.includes);
    for (file, text) in texts {
        std::fs::write(folder.path().join(file), text).map_err(|e| e.to_string())?;
    }
    let log = folder.path().join("log");
    let output = Command::new(program)
        .args(["--tool", sanitizer.name, "--target-processes", "all", "--report-api-errors", "no"])
        .arg("--log-file")
        .arg(&log)
        .arg(tool())
        .args(["moe", "--case", CASE, "--tile", TILE, "--kernel-path", "portable", "--load", load.word()])
        .args(["--device", "gpu:0", "--launch-limit", "300", "--format", "csv", "--kernels"])
        .arg(folder.path())
        .output()
        .map_err(|e| e.to_string())?;
    // A log of a run that launched nothing proves nothing.
    let stdout = String::from_utf8_lossy(&output.stdout);
    if !stdout.contains("fc1,") {
        return Err(format!("{}: {stdout}{}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    std::fs::read_to_string(&log).map_err(|e| format!("{}: {e}", log.display()).into())
}
