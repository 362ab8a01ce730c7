//! Variants on devices: what the emulator runs, and devices that fail one check.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::sync::Arc;

use emulator::device::{Buffer, Device, Failure, Graph, Launch, LaunchFailure, Module};
use emulator::{EmulatorDevice, Options, Programs};
use rayon::prelude::*;
use sm121probe::execute::{self, Asked};
use sm121probe::record::{Check, CodeBy, VariantRun, Verdict};
use sm121probe::selftest::{self, Answerer, Ask};
use sm121probe::snippet::{Library, Variant};
use vectors::Source;

fn asked(target: &str) -> Asked {
    Asked { target: target.parse().unwrap(), isa: "9.5".parse().unwrap(), seed: 1 }
}

fn variants() -> Vec<Variant> {
    Library::embedded().variants.into_iter().filter(|v| v.execute.is_some()).collect()
}

#[test]
fn the_emulator_runs_every_variant_that_says_how() {
    let variants = variants();
    let runs: Vec<VariantRun> =
        variants.par_iter().map(|v| execute::on_emulator(v, asked("sm_121a"))).collect();
    let wrong: Vec<String> = runs
        .iter()
        .filter_map(|run| {
            let wrong = run.first_wrong()?;
            Some(format!("{} {}: {} {}", run.variant, wrong.check.word(), wrong.verdict.word(), wrong.note))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Forms that PTX or the target does not have are refused; all others pass every check.
    let whole = runs.iter().filter(|run| run.checks.iter().all(|r| r.verdict == Verdict::Pass)).count();
    assert!(whole >= 300 && runs.len() - whole < 100, "{whole} of {}", runs.len());
}

/// The fault of a device.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Load,
    Run,
    Bit,
    Later,
    Graph,
}

/// The emulator with a fault.
struct Faulty {
    inner: EmulatorDevice,
    fault: Fault,
    replays: u32,
    first: Option<Vec<u8>>,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        let inner = EmulatorDevice::new(Arc::new(Programs::default()), Options::default());
        Self { inner, fault, replays: 0, first: None }
    }

    /// Changes one bit of the outputs, which are the second buffer.
    fn flip(&mut self) {
        let mut bytes = self.inner.read(Buffer(1)).unwrap();
        bytes[5] ^= 1;
        self.inner.write(Buffer(1), &bytes).unwrap();
    }
}

impl Device for Faulty {
    fn name(&self) -> String {
        "faulty".to_owned()
    }
    fn reset(&mut self) -> Result<(), Failure> {
        self.first = None;
        self.inner.reset()
    }
    fn allocate(&mut self, bytes: Vec<u8>) -> Result<Buffer, Failure> {
        self.inner.allocate(bytes)
    }
    fn allocate_unwritten(&mut self, len: usize) -> Result<Buffer, Failure> {
        self.inner.allocate_unwritten(len)
    }
    fn read(&self, buffer: Buffer) -> Result<Vec<u8>, Failure> {
        self.inner.read(buffer)
    }
    fn write_at(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.inner.write_at(buffer, at, bytes)
    }
    fn differs(&self, buffer: Buffer, at: usize, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        self.inner.differs(buffer, at, bytes)
    }
    fn forget(&mut self, buffer: Buffer) -> Result<(), Failure> {
        self.inner.forget(buffer)
    }
    fn load(&mut self, ptx: &str) -> Result<Module, Failure> {
        if self.fault == Fault::Load {
            return Err(Failure::Unsupported("not on this one".to_owned()));
        }
        self.inner.load(ptx)
    }
    fn parameters(&self, module: Module, entry: &str) -> Option<Vec<(String, usize)>> {
        self.inner.parameters(module, entry)
    }
    fn run(&mut self, launches: &[Launch]) -> Result<(), LaunchFailure> {
        if self.fault == Fault::Run {
            return Err(Failure::Crashed("illegal address".to_owned()).into());
        }
        self.inner.run(launches)?;
        if self.fault == Fault::Bit {
            self.flip();
        }
        Ok(())
    }
    fn capture(&mut self, launches: &[Launch]) -> Result<Graph, LaunchFailure> {
        self.inner.capture(launches)
    }
    fn replay(&mut self, graph: Graph) -> Result<(), LaunchFailure> {
        self.replays += 1;
        self.inner.replay(graph)?;
        if self.fault == Fault::Later && self.replays == 70 {
            self.flip();
        }
        if self.fault == Fault::Graph {
            // The data at the time of capture, whatever was written since.
            let now = self.inner.read(Buffer(1)).unwrap();
            let first = self.first.get_or_insert(now).clone();
            if self.replays == 101 {
                self.inner.write(Buffer(1), &vec![0; first.len()]).unwrap();
            }
        }
        Ok(())
    }
}

#[test]
fn a_device_that_is_wrong_fails_its_check() {
    let variant = variants().into_iter().find(|v| v.id.starts_with("arith.f32x2")).unwrap();
    let run = |fault| -> VariantRun {
        let asked = asked("sm_121a");
        execute::run(
            &mut Faulty::new(fault),
            &CodeBy::Jit,
            &variant,
            asked,
            execute::emulated(&variant, asked),
        )
    };
    assert_eq!(run(Fault::None).first_wrong(), None);
    let blocked = run(Fault::Load);
    assert_eq!(blocked.checks[0].verdict, Verdict::Blocked);
    assert!(blocked.checks[1..].iter().all(|r| r.verdict == Verdict::Skipped));
    for (fault, check, verdict, says) in [
        (Fault::Run, Check::Runs, Verdict::Crashed, "illegal address"),
        (Fault::Bit, Check::Correct, Verdict::Fail, "warp 0, lane 0, byte 4"),
        (Fault::Later, Check::Deterministic, Verdict::Fail, "replay 70"),
        (Fault::Graph, Check::Graph, Verdict::Fail, "words differ"),
    ] {
        let run = run(fault);
        let wrong = run.first_wrong().unwrap();
        assert_eq!((wrong.check, wrong.verdict), (check, verdict), "{wrong:?}");
        assert!(wrong.note.contains(says), "{}", wrong.note);
    }
}

#[test]
fn fresh_answers_are_a_recording_that_the_selftest_reads() {
    let mut forms = selftest::forms(&vectors::builtin().unwrap());
    assert!(forms.len() > 390, "{}", forms.len());
    forms.retain(|form| {
        ["add.rn.f32", "shfl", "mma.m16n8k16.f32.f16"].iter().any(|n| form.name.starts_with(n))
    });
    let ask = Ask { target: "sm_90a".parse().unwrap(), isa: "9.0".parse().unwrap(), cases: 16, seed: 5 };
    let who = Answerer { device: "a device".to_owned(), capability: "9.0".to_owned(), driver: 13000 };
    let record = |fault| selftest::record(&mut Faulty::new(fault), &forms, &ask, &who).unwrap();
    let fresh = record(Fault::None);
    assert_eq!((fresh.recording.ops.len(), fresh.lacking.len(), fresh.failed.len()), (forms.len(), 0, 0));
    assert!(matches!(&fresh.recording.source, Source::Device { capability, .. } if capability == "9.0"));
    let folder = tempfile::tempdir().unwrap();
    fresh.recording.write(folder.path(), |path, bytes| fs::write(path, bytes)).unwrap();
    let read = vectors::Recording::load(folder.path()).unwrap();
    assert_eq!(read, fresh.recording);
    assert!(selftest::run(&[read], None).iter().all(|r| r.verdict.passes()));
    // One wrong bit in any answer is detected.
    let wrong = selftest::run(&[record(Fault::Bit).recording], None);
    assert!(wrong.iter().all(|r| !r.verdict.passes() && r.mismatches == 1), "{wrong:?}");
    assert_eq!(record(Fault::Load).lacking.len(), forms.len());
    assert_eq!(record(Fault::Run).failed.len(), forms.len());
}
