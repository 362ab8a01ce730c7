//! One variant on one device.

use std::sync::Arc;

use emulator::device::{Argument, Buffer, Device, Failure, Launch, Module};
use emulator::{EmulatorDevice, Options, Programs};
use numerics::OperandKind;
use ptx::arch::{PtxIsa, Target};
use vectors::LANES;

use super::data::{BYTES, POISON, WARPS, inputs};
use crate::record::{Rung, RungResult, VariantRun, Verdict};
use crate::snippet::{LANE_BYTES, Variant};

/// Replays that have to store the same bits.
const REPLAYS: usize = 100;

/// The rungs of a variant, from the lowest.
const RUNGS: [Rung; 5] = [Rung::Loads, Rung::Runs, Rung::Correct, Rung::Deterministic, Rung::Graph];

/// How variants are asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// What the device's code is compiled for.
    pub target: Target,
    /// The PTX version of the text.
    pub isa: PtxIsa,
    /// Decides the inputs.
    pub seed: u64,
}

/// Why a rung does not stand.
type Fell = (Verdict, String);

/// What the emulator stores for two sets of inputs.
///
/// # Errors
/// What it lacks, or which law the body breaks.
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

/// The seed of the second set.
const fn other(seed: u64) -> u64 {
    !seed
}

/// A variant on the emulator: whether it runs there, and gives the same bits again and with other data.
#[must_use]
pub fn on_emulator(variant: &Variant, asked: Asked) -> VariantRun {
    let mut device = EmulatorDevice::new(Arc::new(Programs::default()), Options::default());
    run(&mut device, "", variant, asked, emulated(variant, asked))
}

/// Climbs until a rung does not stand; those above are skipped, and say why. `want` is what the emulator stores.
pub fn run(
    device: &mut dyn Device,
    code: &str,
    variant: &Variant,
    asked: Asked,
    want: Result<[Vec<u8>; 2], Failure>,
) -> VariantRun {
    let name = device.name();
    let mut rungs = Vec::new();
    let climber = Climber { variant, asked, want };
    let mut fallen: Option<Rung> = None;
    for rung in RUNGS {
        let (verdict, note) = match fallen {
            Some(lower) => (Verdict::Skipped, format!("`{}` did not pass", lower.word())),
            None => match climber.rung(rung, device) {
                Ok(note) => (Verdict::Pass, note),
                Err((verdict, note)) => {
                    fallen = Some(rung);
                    (verdict, note)
                }
            },
        };
        rungs.push(RungResult { rung, verdict, note });
    }
    let (variant, target) = (variant.id.clone(), asked.target.to_string());
    VariantRun { variant, target, device: name, code: code.to_owned(), rungs }
}

struct Climber<'a> {
    variant: &'a Variant,
    asked: Asked,
    want: Result<[Vec<u8>; 2], Failure>,
}

impl Climber<'_> {
    fn rung(&self, rung: Rung, device: &mut dyn Device) -> Result<String, Fell> {
        let asked = self.asked;
        let kinds: &[OperandKind] = self.variant.execute.as_deref().unwrap_or_default();
        let text = self.variant.code.per_lane(asked.isa, asked.target);
        let (false, Some(text)) = (kinds.is_empty(), text) else {
            return Err((Verdict::Skipped, "its snippet does not say how to run it".to_owned()));
        };
        let data = |seed| inputs(&self.variant.id, kinds, seed);
        device.reset().map_err(fell)?;
        if rung == Rung::Loads {
            return device.load(&text).map(|_| String::new()).map_err(|failure| match failure {
                // Whoever refuses the code says so: the device has no such instruction, and nobody promised it.
                Failure::Unsupported(words) => (Verdict::Blocked, words),
                failure => fell(failure),
            });
        }
        let mut on = On::new(device, &text).map_err(fell)?;
        on.fill(&data(asked.seed)).map_err(fell)?;
        if rung == Rung::Runs {
            return on.eager().map(|()| String::new()).map_err(fell);
        }
        let [want, want_other] = self.want.as_ref().map_err(|failure| {
            let lacks = matches!(failure, Failure::Unsupported(_));
            let verdict = if lacks { Verdict::Unsupported } else { Verdict::Broken };
            (verdict, format!("the emulator has no answer: {failure}"))
        })?;
        if rung == Rung::Correct {
            on.eager().map_err(fell)?;
            on.compare(want)?;
            return Ok(format!("{} lanes agree with the emulator", WARPS * LANES));
        }
        let graph = on.device.capture(&[on.launch()]).map_err(|(_, failure)| fell(failure))?;
        let replay = |on: &mut On<'_>, want: &[u8]| -> Result<(), Fell> {
            on.device.write(on.output, &[POISON; BYTES]).map_err(fell)?;
            on.device.replay(graph).map_err(|(_, failure)| fell(failure))?;
            on.compare(want)
        };
        if rung == Rung::Deterministic {
            for n in 0..REPLAYS {
                replay(&mut on, want)
                    .map_err(|(verdict, note)| (verdict, format!("replay {}: {note}", n + 1)))?;
            }
            return Ok(format!("{REPLAYS} replays"));
        }
        on.fill(&data(other(asked.seed))).map_err(fell)?;
        replay(&mut on, want_other).map(|()| "data that differ from those at its capture".to_owned())
    }
}

/// The verdict of a failure.
fn fell(failure: Failure) -> Fell {
    (crate::failure::verdict(&failure), failure.to_string())
}

/// A body on a device, with its buffers.
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
            block: LANES as u32,
            shared_bytes: 0,
            arguments: vec![Argument::Address(self.input), Argument::Address(self.output)],
            programmatic: false,
            cluster: [1; 3],
            cooperative: false,
        }
    }

    fn eager(&mut self) -> Result<(), Failure> {
        let launch = self.launch();
        self.device.run(&[launch]).map_err(|(_, failure)| failure)
    }

    /// Whether all outputs are those bits; else the first place where they are not.
    fn compare(&self, want: &[u8]) -> Result<(), Fell> {
        let got = self.device.read(self.output).map_err(fell)?;
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
        Err((
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
