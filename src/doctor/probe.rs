//! One question to a GPU: does this code load, and does its kernel do what it says.

use std::time::Duration;

use emulator::device::{Argument, Device as _, Failure, Launch};
use ptx::arch::{PtxIsa, Suffix, Target};
use serde::Serialize;

use crate::gpu::GpuDevice;
use crate::store::Store;
use crate::toolkit::{self, Toolkit};

/// What the probe's kernel stores.
const ANSWER: u32 = 0x1CED_C0DE;
/// How long ptxas may take for it.
const LIMIT: Duration = Duration::from_secs(60);

/// PTX versions of CUDA 11.8 to 13.5, ascending (PTX ISA, release history), and one that is still to come.
const ISAS: [(u16, u16); 17] = [
    (7, 8),
    (8, 0),
    (8, 1),
    (8, 2),
    (8, 3),
    (8, 4),
    (8, 5),
    (8, 6),
    (8, 7),
    (8, 8),
    (9, 0),
    (9, 1),
    (9, 2),
    (9, 3),
    (9, 4),
    (9, 5),
    (9, 6),
];

/// In which form code comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// PTX that the driver compiles.
    Ptx,
    /// A cubin by the ptxas of this version.
    Cubin(String),
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It loads, and its kernel stores what it should.
    Runs,
    /// It loads, and its kernel stores something else.
    Wrong(String),
    /// The driver does not take it, in its words.
    Refused(String),
    /// The kernel, or its worker, did not come to an end.
    Died(String),
    /// There is no code to try: the ptxas makes none.
    NoCode(String),
}

/// A question, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// What the code is for, as `sm_121a`.
    pub target: String,
    /// The PTX version.
    pub isa: String,
    /// Its form.
    pub form: Form,
    /// What became of it.
    pub answer: Answer,
    /// Whether it should run by the documented rule; none where no rule says it.
    pub rule: Option<bool>,
}

impl Asked {
    /// Whether the answer is what the rule says.
    #[must_use]
    pub fn as_ruled(&self) -> bool {
        match (self.rule, &self.answer) {
            (None, _) | (_, Answer::NoCode(_)) => true,
            (Some(rule), answer) => rule == (*answer == Answer::Runs),
        }
    }
}

/// A module whose one kernel stores [`ANSWER`].
fn module(isa: PtxIsa, target: Target) -> String {
    format!(
        ".version {isa}\n.target {target}\n.address_size 64\n\
         .visible .entry answer(.param .u64 out)\n{{\n\
         .reg .b64 p;\nld.param.u64 p, [out];\ncvta.to.global.u64 p, p;\nst.global.u32 [p], {ANSWER};\nret;\n}}\n"
    )
}

/// Loads an image and runs its kernel.
fn run(gpu: &mut GpuDevice, image: &[u8]) -> Answer {
    match tried(gpu, image) {
        Ok(stored) if stored == ANSWER.to_le_bytes() => Answer::Runs,
        Ok(stored) => Answer::Wrong(format!("it stores {stored:02x?}")),
        Err(Failure::Unsupported(what)) => Answer::Refused(what),
        Err(failure) => Answer::Died(failure.to_string()),
    }
}

fn tried(gpu: &mut GpuDevice, image: &[u8]) -> Result<Vec<u8>, Failure> {
    gpu.reset()?;
    let out = gpu.allocate_unwritten(4)?;
    let (module, _) = gpu.load_image(image)?;
    let launch = Launch {
        module,
        entry: "answer".to_owned(),
        grid: [1; 3],
        block: 1,
        shared_bytes: 0,
        arguments: vec![Argument::Address(out)],
        programmatic: false,
        cluster: [1; 3],
        cooperative: false,
    };
    gpu.run(&[launch])?;
    gpu.read(out)
}

/// Every PTX version, in a module that every GPU since sm_80 compiles.
pub(super) fn versions(gpu: &mut GpuDevice) -> Vec<Asked> {
    let target = Target { number: 80, suffix: Suffix::Base };
    let mut out = Vec::new();
    for (major, minor) in ISAS {
        let isa = PtxIsa { major, minor };
        let answer = run(gpu, module(isa, target).as_bytes());
        out.push(Asked {
            target: target.to_string(),
            isa: isa.to_string(),
            form: Form::Ptx,
            answer,
            rule: None,
        });
    }
    out
}

/// The highest PTX version that ran.
pub(super) fn highest(asked: &[Asked]) -> Option<PtxIsa> {
    asked.iter().rev().find(|a| a.answer == Answer::Runs).and_then(|a| a.isa.parse().ok())
}

/// PTX for every target, compiled by the driver.
pub(super) fn targets(gpu: &mut GpuDevice, isa: PtxIsa) -> Vec<Asked> {
    let own = gpu.about().target();
    let ask = |target: Target| Asked {
        target: target.to_string(),
        isa: isa.to_string(),
        form: Form::Ptx,
        answer: run(gpu, module(isa, target).as_bytes()),
        rule: Some(target.ptx_runs_on(own)),
    };
    Target::known_set().into_iter().map(ask).collect()
}

/// Code by one ptxas for every target that it knows, in the highest PTX version that it accepts.
pub(super) fn cubins(gpu: &mut GpuDevice, toolkit: &Toolkit, store: Option<&Store>) -> Vec<Asked> {
    let own = gpu.about().target();
    let mut out = Vec::new();
    for name in &toolkit.targets {
        let Ok(target) = name.parse::<Target>() else { continue };
        let text = module(toolkit.isa, target);
        let answer = match toolkit::cubin(toolkit, target, &text, store, LIMIT) {
            Ok(code) => run(gpu, &code.image),
            Err(error) => Answer::NoCode(error.to_string()),
        };
        out.push(Asked {
            target: target.to_string(),
            isa: toolkit.isa.to_string(),
            form: Form::Cubin(toolkit.version.to_string()),
            answer,
            rule: Some(target.cubin_runs_on(own)),
        });
    }
    out
}
