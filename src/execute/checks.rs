//! The checks of one variant on one device.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use emulator::device::{Argument, Buffer, Device, Failure, Launch, Module};
use emulator::{EmulatorDevice, Options, Programs};
use numerics::OperandKind;
use ptx::arch::{PtxIsa, Target};
use vectors::LANES;

use super::data::{BYTES, POISON, WARPS, inputs};
use crate::frame::checks::{self, NotPassed};
use crate::record::{Check, CodeBy, VariantRun, Verdict};
use crate::snippet::{LANE_BYTES, Variant};

/// The number of graph replays that must store the same bits.
const REPLAYS: usize = 100;

/// The checks of a variant.
const CHECKS: [Check; 5] = [Check::Loads, Check::Runs, Check::Correct, Check::Deterministic, Check::Graph];

/// The parameters of a run of variants.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The target that the code is compiled for.
    pub target: Target,
    /// The PTX version of the text.
    pub isa: PtxIsa,
    /// The seed of the inputs.
    pub seed: u64,
}

/// Returns the emulator's outputs for two sets of inputs.
///
/// # Errors
/// [`Failure`] if the variant cannot be executed, the emulator lacks an instruction, or the body violates a PTX
/// rule.
pub fn emulated(variant: &Variant, asked: Asked) -> Result<[Vec<u8>; 2], Failure> {
    let (Some(kinds), Some(text)) = (&variant.execute, variant.code.per_lane(asked.isa, asked.target)) else {
        return Err(Failure::Broken(format!("{} is only assembled", variant.id)));
    };
    let mut device = EmulatorDevice::new(Arc::new(Programs::default()), Options::default());
    let mut on = On::new(&mut device, &text)?;
    let mut answer = |seed| -> Result<Vec<u8>, Failure> {
        on.fill(&inputs(&variant.id, kinds, seed))?;
        on.eager()?;
        on.device.read(on.output)
    };
    Ok([answer(asked.seed)?, answer(other(asked.seed))?])
}

/// Returns the seed of the second set of inputs.
const fn other(seed: u64) -> u64 {
    !seed
}

/// Runs the checks of a variant on the emulator.
#[must_use]
pub fn on_emulator(variant: &Variant, asked: Asked) -> VariantRun {
    let mut device = EmulatorDevice::new(Arc::new(Programs::default()), Options::default());
    run(&mut device, &CodeBy::Nobody, variant, asked, emulated(variant, asked))
}

/// Runs the checks in order ([`checks::in_order`]). `want` holds the emulator's outputs.
pub fn run(
    device: &mut dyn Device,
    code: &CodeBy,
    variant: &Variant,
    asked: Asked,
    want: Result<[Vec<u8>; 2], Failure>,
) -> VariantRun {
    let (name, begun) = (device.name(), Instant::now());
    let of_variant = VariantChecks { variant, asked, want };
    let checks = checks::in_order(&CHECKS, |check| Ok(of_variant.check(check, device)))
        .unwrap_or_else(|never: Infallible| match never {});
    let (variant, target) = (variant.id.clone(), asked.target.into());
    VariantRun { variant, target, device: name, code: code.clone(), checks, seconds: begun.elapsed().into() }
}

struct VariantChecks<'a> {
    variant: &'a Variant,
    asked: Asked,
    want: Result<[Vec<u8>; 2], Failure>,
}

impl VariantChecks<'_> {
    fn check(&self, check: Check, device: &mut dyn Device) -> Result<String, NotPassed> {
        let asked = self.asked;
        let kinds: &[OperandKind] = self.variant.execute.as_deref().unwrap_or_default();
        let text = self.variant.code.per_lane(asked.isa, asked.target);
        let (false, Some(text)) = (kinds.is_empty(), text) else {
            return Err(NotPassed::new(Verdict::Skipped, "its snippet does not say how to run it"));
        };
        let data = |seed| inputs(&self.variant.id, kinds, seed);
        device.reset()?;
        if check == Check::Loads {
            return device.load(&text).map(|_| String::new()).map_err(|failure| match failure {
                // A rejection of the code is not a failure: the device lacks the instruction.
                Failure::Unsupported(words) => NotPassed::new(Verdict::Blocked, words),
                failure => failure.into(),
            });
        }
        let mut on = On::new(device, &text)?;
        on.fill(&data(asked.seed))?;
        if check == Check::Runs {
            on.eager()?;
            return Ok(String::new());
        }
        let [want, want_other] = self.want.as_ref().map_err(|failure| {
            let lacks = matches!(failure, Failure::Unsupported(_));
            let verdict = if lacks { Verdict::Unsupported } else { Verdict::Broken };
            NotPassed::new(verdict, format!("the emulator has no answer: {failure}"))
        })?;
        if check == Check::Correct {
            on.eager()?;
            on.compare(want)?;
            return Ok(format!("{} lanes agree with the emulator", WARPS * LANES));
        }
        let graph = on.device.capture(&[on.launch()])?;
        let replay = |on: &mut On<'_>, want: &[u8]| -> Result<(), NotPassed> {
            on.device.write(on.output, &[POISON; BYTES])?;
            on.device.replay(graph)?;
            on.compare(want)
        };
        if check == Check::Deterministic {
            for n in 0..REPLAYS {
                replay(&mut on, want).map_err(|not_passed| not_passed.at(format!("replay {}", n + 1)))?;
            }
            return Ok(format!("{REPLAYS} replays"));
        }
        on.fill(&data(other(asked.seed)))?;
        replay(&mut on, want_other).map(|()| "data that differ from those at its capture".to_owned())
    }
}

/// A loaded body and its buffers.
struct On<'d> {
    device: &'d mut dyn Device,
    module: Module,
    input: Buffer,
    output: Buffer,
}

impl<'d> On<'d> {
    fn new(device: &'d mut dyn Device, text: &str) -> Result<Self, Failure> {
        let module = device.load(text)?;
        let input = device.allocate(vec![0; BYTES])?;
        let output = device.allocate(vec![POISON; BYTES])?;
        Ok(Self { device, module, input, output })
    }

    fn fill(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.device.write(self.input, data)?;
        self.device.write(self.output, &[POISON; BYTES])
    }

    fn launch(&self) -> Launch {
        Launch {
            module: self.module,
            entry: "v0".to_owned(),
            grid: [WARPS as u32, 1, 1],
            block: [LANES as u32, 1, 1],
            shared_bytes: 0,
            arguments: vec![Argument::Address(self.input), Argument::Address(self.output)],
            programmatic: false,
            cluster: [1; 3],
            cooperative: false,
        }
    }

    fn eager(&mut self) -> Result<(), Failure> {
        let launch = self.launch();
        Ok(self.device.run(&[launch])?)
    }

    /// Compares the outputs bit by bit; the error names the first difference.
    fn compare(&self, want: &[u8]) -> Result<(), NotPassed> {
        let got = self.device.read(self.output)?;
        if got == want {
            return Ok(());
        }
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
        };
        let (got, want) = (words(&got), words(want));
        let differ: Vec<usize> = (0..want.len()).filter(|n| got.get(*n) != want.get(*n)).collect();
        let first = differ.first().copied().unwrap_or(0);
        let place = first * 4;
        let (thread, byte) = (place / LANE_BYTES, place % LANE_BYTES);
        Err(NotPassed::new(
            Verdict::Fail,
            format!(
                "warp {}, lane {}, byte {byte}: {:#010x} instead of {:#010x}; {} words differ",
                thread / LANES,
                thread % LANES,
                got.get(first).copied().unwrap_or(0),
                want.get(first).copied().unwrap_or(0),
                differ.len()
            ),
        ))
    }
}
