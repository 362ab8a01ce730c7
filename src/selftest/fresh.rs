//! Records new answers: a device executes the recorded instructions on new inputs.

use emulator::device::{Argument, Device, Failure, Launch};
use numerics::random::{GOLDEN, at, mix};
use numerics::{OperandKind, Regime, UnknownKind};
use ptx::arch::{PtxIsa, Target};
use vectors::{LANES, Op, Recording, Source, WarpOp};

use super::{kernel, matrices};

/// The layout of the words of a recording.
const LAYOUT: &str = "per op at offset: inputs u32[cases][n_in][32 lanes], then outputs u32[cases][n_out][32 lanes], little-endian";

/// The initial value of output bytes.
const POISON: u8 = 0xA5;

/// The parameters of a recording.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The target that code is compiled for.
    pub target: Target,
    /// The PTX version, which the assembler must support.
    pub isa: PtxIsa,
    /// Warps that execute each instruction.
    pub cases: usize,
    /// The seed of the inputs.
    pub seed: u64,
}

/// The device that is recorded.
#[derive(Debug, Clone)]
pub struct Answerer {
    /// The name of the device.
    pub device: String,
    /// Its compute capability, such as `9.0`.
    pub capability: String,
    /// The CUDA version of its driver, such as 13000.
    pub driver: u64,
}

/// The answers of a device.
#[derive(Debug, Clone)]
pub struct Fresh {
    /// The recorded answers.
    pub recording: Recording,
    /// Instructions that the device lacks, each with the message that rejects it.
    pub lacking: Vec<(String, String)>,
    /// Instructions that failed, each with its failure.
    pub failed: Vec<(String, Failure)>,
}

/// Returns each instruction of the recordings once, identified by name. Matrix operations are converted to
/// warp operations.
#[must_use]
pub fn forms(recordings: &[Recording]) -> Vec<WarpOp> {
    let mut forms: Vec<WarpOp> = Vec::new();
    for op in recordings.iter().flat_map(|recording| &recording.ops) {
        if !forms.iter().any(|form| form.name == op.name()) {
            forms.push(match op {
                Op::Warp(warp) => warp.clone(),
                Op::Matrix(matrix) => matrices::warps(matrix),
            });
        }
    }
    forms
}

/// Runs every form on `device`.
///
/// # Errors
/// [`UnknownKind`] if a form has an input of an unknown kind. Failures of the device are part of the result.
pub fn record(
    device: &mut dyn Device,
    forms: &[WarpOp],
    ask: &Ask,
    who: &Answerer,
) -> Result<Fresh, UnknownKind> {
    let (mut ops, mut lacking, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for form in forms {
        let op = asked(form, ask)?;
        match answer(device, &op, ask) {
            Ok(outputs) => ops.push(Op::Warp(WarpOp { outputs, ..op })),
            Err(Failure::Unsupported(words)) => lacking.push((op.name, words)),
            Err(failure) => failed.push((op.name, failure)),
        }
    }
    let recording = Recording {
        device: who.device.clone(),
        source: Source::Device { capability: who.capability.clone(), driver: who.driver },
        seed: ask.seed,
        layout: LAYOUT.to_owned(),
        ops,
    };
    Ok(Fresh { recording, lacking, failed })
}

/// Returns the form with new inputs and without answers.
fn asked(form: &WarpOp, ask: &Ask) -> Result<WarpOp, UnknownKind> {
    let kinds: Vec<OperandKind> = form.kinds.iter().map(|kind| kind.parse()).collect::<Result<_, _>>()?;
    let key = form.name.bytes().fold(mix(ask.seed.wrapping_add(GOLDEN)), |key, b| mix(key ^ u64::from(b)));
    let mut inputs = Vec::with_capacity(ask.cases * form.n_in * LANES);
    for case in 0..ask.cases {
        let regime = Regime::ALL[case % Regime::ALL.len()];
        let mut halves = 0;
        for (register, kind) in kinds.iter().enumerate() {
            let high = *kind == OperandKind::F64 && halves % 2 == 1;
            halves += usize::from(*kind == OperandKind::F64);
            // Both halves of an `f64` come from the same random bits.
            let of = register - usize::from(high);
            for lane in 0..LANES {
                let index = (case * form.n_in + of) * LANES + lane;
                inputs.push(kind.word(regime, at(key, index as u64), high));
            }
        }
    }
    Ok(WarpOp { cases: ask.cases, inputs, outputs: Vec::new(), ..form.clone() })
}

fn answer(device: &mut dyn Device, op: &WarpOp, ask: &Ask) -> Result<Vec<u32>, Failure> {
    device.reset()?;
    let module = device.load(&kernel::text(op, &ask.target.to_string(), ask.isa))?;
    let input = device.allocate(op.inputs.iter().flat_map(|word| word.to_le_bytes()).collect())?;
    let output = device.allocate(vec![POISON; op.cases * op.n_out * LANES * 4])?;
    let launch = Launch {
        module,
        entry: kernel::NAME.to_owned(),
        grid: [u32::try_from(op.cases).unwrap_or(u32::MAX), 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Address(input), Argument::Address(output)],
        programmatic: false,
        cluster: [1; 3],
        cooperative: false,
    };
    device.run(&[launch])?;
    let bytes = device.read(output)?;
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|b| u32::from_le_bytes(*b)).collect())
}
