//! Tests whether code loads on a GPU and whether its kernel stores the right value.

use std::time::Duration;

use emulator::device::{Argument, Device as _, Failure, Launch};
use ptx::arch::{PtxIsa, Suffix, Target};
use serde::Serialize;

use crate::gpu::GpuDevice;
use crate::store::Store;
use crate::toolkit::{self, Toolkit};

/// The value that the probe kernel stores.
const ANSWER: u32 = 0x1CED_C0DE;
/// The time limit for ptxas to compile it.
const LIMIT: Duration = Duration::from_secs(60);

/// The PTX versions of CUDA 11.8 to 13.5 (PTX ISA, release history) and the next one, ascending.
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

/// The form of device code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// PTX, compiled by the driver.
    Ptx,
    /// A cubin compiled by ptxas of this version.
    Cubin(String),
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ptx => f.write_str("PTX"),
            Self::Cubin(version) => write!(f, "a cubin of ptxas {version}"),
        }
    }
}

/// The result of running code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The code loads, and its kernel stores the right value.
    Runs,
    /// The code loads, but its kernel stores another value.
    Wrong(String),
    /// The driver rejects the code, with this message.
    Refused(String),
    /// The kernel failed, or its worker process died.
    Died(String),
    /// There is no code to run, since ptxas rejects it.
    NoCode(String),
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Runs => f.write_str("it runs"),
            Self::Wrong(what) => write!(f, "it computes a wrong result: {what}"),
            Self::Refused(message) => write!(f, "the driver refuses it: {message}"),
            Self::Died(what) => write!(f, "it fails: {what}"),
            Self::NoCode(message) => write!(f, "ptxas refuses it: {message}"),
        }
    }
}

/// A test on a GPU, and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The target of the code, such as `sm_121a`.
    pub target: String,
    /// The PTX version.
    pub isa: String,
    /// The form of the code.
    pub form: Form,
    /// The result.
    pub answer: Answer,
    /// Whether the code should run by the documented rule; `None` if no rule applies.
    pub rule: Option<bool>,
}

impl Asked {
    /// Whether the result agrees with the rule.
    #[must_use]
    pub fn as_ruled(&self) -> bool {
        match (self.rule, &self.answer) {
            (None, _) | (_, Answer::NoCode(_)) => true,
            (Some(rule), answer) => rule == (*answer == Answer::Runs),
        }
    }
}

/// Returns a PTX module whose only kernel stores [`ANSWER`].
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
        block: [1, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Address(out)],
        programmatic: false,
        cluster: [1; 3],
        cooperative: false,
    };
    gpu.run(&[launch])?;
    gpu.read(out)
}

/// Tests every PTX version with a module for sm_80, which every later GPU can run.
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

/// Returns the highest PTX version that ran.
pub(super) fn highest(asked: &[Asked]) -> Option<PtxIsa> {
    asked.iter().rev().find(|a| a.answer == Answer::Runs).and_then(|a| a.isa.parse().ok())
}

/// Tests PTX for every target, compiled by the driver.
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

/// Tests cubins of one ptxas for every target that it supports, in the highest PTX version that it accepts.
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
