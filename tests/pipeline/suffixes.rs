//! PTX of `sm_121a` and `sm_121f`: one NVRTC program serves both, because they differ in `.target` alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use sm121probe::frame::compile::Compiler;
use sm121probe::frame::family::Trial as _;
use sm121probe::kernel::{Library, Load, MmaPath};
use sm121probe::moe::case::Case;
use sm121probe::moe::plan;

use super::{Shared, tool};

/// Cases of different formats, activations and routers.
const CASES: [&str; 3] = ["tiny-exact", "router-sigmoid-groups", "shared-experts"];

pub(crate) fn trials(shared: &Arc<Shared>) -> Vec<Trial> {
    let shared = Arc::clone(shared);
    vec![Trial::test("suffixes.one_program_serves_both", move || one_program_serves_both(&shared))]
}

/// The PTX of the six kernels of each configuration, by file and macros.
fn compiled(shared: &Shared, library: &Library, case: &Case) -> Result<BTreeMap<String, String>, Failed> {
    let target = "sm_121f".parse().map_err(|e| format!("{e}"))?;
    let compiler =
        Compiler { nvrtc: &shared.nvrtc, store: shared.store.as_ref(), program: tool().to_owned(), target };
    let tile = "16x64x128".parse().map_err(|e| format!("{e}"))?;
    let mut all = BTreeMap::new();
    for (load, path) in
        [(Load::CpAsync, MmaPath::Native), (Load::Tma, MmaPath::Native), (Load::Tma, MmaPath::Portable)]
    {
        let Some(trial) =
            plan::trials(case, &[tile], &[load], &[path]).into_iter().find(|t| t.config.is_ok())
        else {
            continue;
        };
        let sources = trial.sources(library).map_err(|e| e.to_string())?;
        let made = compiler.compiled(library, &sources).map_err(|e| e.to_string())?;
        for (kernel, ptx) in made.kernels {
            all.insert(format!("{} {load:?} {path:?}", kernel.file), ptx);
        }
    }
    Ok(all)
}

fn one_program_serves_both(shared: &Shared) -> Result<(), Failed> {
    // A source that names such a macro is compiled for its own target.
    let mut own = shared.library.clone();
    for kernel in &mut own.kernels {
        kernel.text.push_str("\n// __CUDA_ARCH_FAMILY_SPECIFIC__\n");
    }
    let mut compared = 0;
    for name in CASES {
        let case = shared.cases.iter().find(|case| case.name == name).ok_or("there is no such case")?;
        let (derived, direct) = (compiled(shared, &shared.library, case)?, compiled(shared, &own, case)?);
        for (kernel, ptx) in &derived {
            if !ptx.contains("\n.target sm_121f") {
                return Err(format!("{name}, {kernel}: not for sm_121f").into());
            }
            if direct.get(kernel) != Some(ptx) {
                return Err(format!("{name}, {kernel}: NVRTC's PTX for sm_121f is another").into());
            }
            compared += 1;
        }
    }
    if compared < 24 { Err(format!("only {compared} kernels were compared").into()) } else { Ok(()) }
}
