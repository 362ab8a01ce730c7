//! The bench without a GPU: the emulator runs every launch that would be timed, with a simulated clock.

use std::sync::Arc;

use emulator::device::{Buffer, Device, Failure, Graph, Launch, LaunchFailure, Module, Timer};
use emulator::{EmulatorDevice, Options, Programs};
use libtest_mimic::{Failed, Trial};
use numerics::random;
use ptx::arch::{PtxIsa, Target};
use sm121probe::attention::timing::steps;
use sm121probe::bench::{self, Bench, Decodes, Effort, Measured, TimingError};
use sm121probe::frame::compile::Compiler;
use sm121probe::kernel::{Load, MmaPath};
use sm121probe::moe::case::Routing;
use sm121probe::moe::configuration::Configuration;
use sm121probe::moe::{Stage, plan};

use super::{Shared, tool};

const CASE: &str = "tiny-exact";
const ISA: PtxIsa = PtxIsa { major: 9, minor: 0 };
const EFFORT: Effort = Effort { bytes: 1 << 16, rounds: 2, ctas: 2, warm_up: 1, samples: 3 };

/// The emulator with a clock that counts CTAs: one millisecond each.
struct Clock {
    inner: EmulatorDevice,
    /// Index of the timed launch that fails.
    broken: Option<usize>,
}

impl Clock {
    fn new(broken: Option<usize>) -> Self {
        Self { inner: EmulatorDevice::new(Arc::new(Programs::default()), Options::default()), broken }
    }
}

impl Device for Clock {
    fn name(&self) -> String {
        self.inner.name()
    }
    fn reset(&mut self) -> Result<(), Failure> {
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
        self.inner.load(ptx)
    }
    fn parameters(&self, module: Module, entry: &str) -> Option<Vec<(String, usize)>> {
        self.inner.parameters(module, entry)
    }
    fn run(&mut self, launches: &[Launch]) -> Result<(), LaunchFailure> {
        // One after the other, like a stream without overlap.
        launches.iter().enumerate().try_for_each(|(n, launch)| {
            self.inner.run(std::slice::from_ref(launch)).map_err(|f| LaunchFailure { launch: n, ..f })
        })
    }
    fn capture(&mut self, launches: &[Launch]) -> Result<Graph, LaunchFailure> {
        self.inner.capture(launches)
    }
    fn replay(&mut self, graph: Graph) -> Result<(), LaunchFailure> {
        self.inner.replay(graph)
    }
}

impl Timer for Clock {
    fn time(
        &mut self,
        launches: &[Launch],
        before: &Launch,
        warm_up: usize,
        samples: usize,
    ) -> Result<Vec<Vec<f32>>, LaunchFailure> {
        self.run(std::slice::from_ref(before))?;
        if let Some(n) = self.broken.filter(|n| *n < launches.len()) {
            return Err(LaunchFailure { launch: n, failure: Failure::Crashed("planted".to_owned()) });
        }
        for _ in 0..warm_up.max(1) {
            self.run(launches)?;
        }
        let ctas = |launch: &Launch| launch.grid.iter().product::<u32>() as f32;
        Ok(launches.iter().map(|launch| vec![ctas(launch); samples]).collect())
    }
}

pub(super) fn trials(shared: &Arc<Shared>) -> Vec<Trial> {
    let of = |name: &str, run: fn(&Shared) -> Result<(), Failed>| {
        let shared = Arc::clone(shared);
        Trial::test(format!("timing.{name}/emulator"), move || run(&shared))
    };
    vec![
        of("every_stage_of_every_kernel", every_stage),
        of("a_kernel_that_fails_is_named", a_failure),
        of("the_reader_reads_every_byte_once", |_| reader()),
        of("products_are_finite", |_| products()),
        of("decode_steps", decode_steps),
    ]
}

fn bench(shared: &Shared, broken: Option<usize>) -> Result<Measured, Failed> {
    let case = shared.cases.iter().find(|c| c.name == CASE).ok_or("there is no such case")?;
    let target: Target = "sm_121a".parse().map_err(|e| format!("{e}"))?;
    let mut trials = Vec::new();
    for (tile, load, path) in [
        ("8x64x128", Load::CpAsync, MmaPath::Native),
        ("16x64x128", Load::Tma, MmaPath::Portable),
        ("8x64x128", Load::Direct, MmaPath::Gemv),
        // Blocked, so it is left out.
        ("256x256x128", Load::Tma, MmaPath::Portable),
    ] {
        let tile = tile.parse().map_err(|e| format!("{e}"))?;
        trials.extend(plan::trials(case, &[tile], &[load], &[path]).into_iter().take(1));
    }
    let compiler =
        Compiler { nvrtc: &shared.nvrtc, store: shared.store.as_ref(), program: tool().to_owned(), target };
    let asked = Bench {
        case,
        tokens: &[1, 5],
        routing: Routing::Random,
        trials: &trials,
        library: &shared.library,
        compiler: &compiler,
        code: (ISA, target),
        flush: 4096,
        effort: EFFORT,
    };
    asked.on(&mut Clock::new(broken)).map_err(|error| match error {
        TimingError::Stage { .. } => Failed::from(format!("stage: {error}")),
        other => Failed::from(other.to_string()),
    })
}

fn every_stage(shared: &Shared) -> Result<(), Failed> {
    let got = bench(shared, None)?;
    let kernels: std::collections::BTreeSet<String> =
        got.rows.iter().map(|r| r.configuration.to_string()).collect();
    let want = ["16x64x128 swap_ab portable tma", "8x64x128 gemv direct", "8x64x128 swap_ab native cp_async"];
    if kernels.iter().map(String::as_str).ne(want) || got.rows.len() != 3 * 2 * 7 {
        return Err(format!("{kernels:?}, {} rows", got.rows.len()).into());
    }
    let rates: Vec<String> = got.rates.iter().map(|r| r.path.clone()).collect();
    if rates != ["native", "portable"] || got.flushed < 4096 || got.bandwidth <= 0.0 {
        return Err(format!("{rates:?} {} {}", got.flushed, got.bandwidth).into());
    }
    for row in &got.rows {
        let gemm = matches!(Stage::from_name(&row.stage), Some(Stage::Fc1 | Stage::Fc2));
        let of = Configuration::from_name(&row.configuration).ok_or("no configuration")?;
        let sane = row.microseconds >= 1000.0
            && row.range == [row.microseconds; 2]
            && row.bytes > row.weights
            && row.of_bandwidth > 0.0
            && (row.operations > 0) == gemm
            && (row.weights > 0) == gemm
            && row.of_rate.is_some() == (gemm && of.path != MmaPath::Gemv);
        if !sane {
            return Err(format!("{row:?}").into());
        }
    }
    let regrets = bench::regrets(&got.rows, &got.counts, 2);
    // Two paths, two batches, every policy; the tile of 8 rows is timed for the native path only.
    let known = regrets.iter().filter(|r| r.m == 8 && r.microseconds.is_some());
    if regrets.len() != 2 * 2 * 9
        || !known.clone().all(|r| r.path == MmaPath::Native.word() && r.regret() == Some(0.0))
    {
        return Err(format!("{regrets:?}").into());
    }
    if known.count() == 0 { Err("no policy chose the tile that was timed".into()) } else { Ok(()) }
}

fn a_failure(shared: &Shared) -> Result<(), Failed> {
    let Err(failed) = bench(shared, Some(3)) else { return Err("nobody noticed".into()) };
    let text = failed.message().unwrap_or_default().to_owned();
    let words = "stage: 8x64x128 native cp_async with 1 tokens: fc1: planted";
    if text == words { Ok(()) } else { Err(text.into()) }
}

/// Every decode step runs, and reads the bytes of its cache.
fn decode_steps(shared: &Shared) -> Result<(), Failed> {
    let target: Target = "sm_121a".parse().map_err(|e| format!("{e}"))?;
    let compiler =
        Compiler { nvrtc: &shared.nvrtc, store: shared.store.as_ref(), program: tool().to_owned(), target };
    // Ten splits for 20 multiprocessors, of which each has 640 keys.
    let (few, steps) = (steps(2, 5200, 20), steps(2, 6400, 20));
    let asked = Decodes {
        steps: &steps,
        library: &shared.library,
        compiler: &compiler,
        code: (ISA, target),
        flush: 4096,
        effort: EFFORT,
    };
    let bandwidth = 1e9;
    let rows = asked.on(&mut Clock::new(None), bandwidth).map_err(|e| e.to_string())?;
    if rows.len() != 2 * 4 {
        return Err(format!("{rows:?}").into());
    }
    for row in &rows {
        // Keys and values of eight heads; codes of NVFP4 with a byte of scale for 16.
        let elements = 2 * 2 * 6400 * 8 * if row.configuration.has("d64") { 64 } else { 128 };
        let bytes = match row.configuration.to_string() {
            name if name.ends_with("e4m3") => elements,
            name if name.ends_with("nvfp4") => elements / 2 + elements / 16,
            _ => elements * 2,
        };
        // The clock counts CTAs, a millisecond each.
        let (microseconds, splits) = (1e3 * 2.0 * 8.0 * 10.0, 10);
        let share = bytes as f64 / (microseconds / 1e6) / bandwidth;
        let is_right = row.bytes == bytes
            && (row.batch, row.keys, row.splits) == (2, 6400, splits)
            && (row.microseconds - microseconds).abs() < 1e-6
            && (row.of_bandwidth / share - 1.0).abs() < 1e-9
            // Threads of a CTA read 64 bytes in each of four rounds.
            && row.plain_read == Some(1e3 * bytes.div_ceil(256 * 64 * 4) as f64);
        if !is_right {
            return Err(format!("{row:?}").into());
        }
    }
    // Seven and eight CTAs for each of 20 multiprocessors would need less than 640 keys each; six are 120 of 7 splits of 16 lines and 8 CTAs.
    if few.iter().any(|step| step.keys() != [5200, 7]) {
        return Err(format!("{few:?}").into());
    }
    match asked.on(&mut Clock::new(Some(0)), bandwidth) {
        Err(TimingError::Decode { kernel, batch: 2, .. }) if kernel == "decode d64 bf16" => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn reader() -> Result<(), Failed> {
    let target = "sm_90".parse().map_err(|e| format!("{e}"))?;
    let mut clock = Clock::new(None);
    let (launch, bytes) =
        bench::reader(&mut clock, (ISA, target), 100_000, 3).map_err(|failure| failure.to_string())?;
    clock.run(std::slice::from_ref(&launch)).map_err(|f| f.failure.to_string())?;
    let words = |bytes: &[u8]| -> u32 {
        bytes.as_chunks::<4>().0.iter().fold(0, |sum, word| sum ^ u32::from_le_bytes(*word))
    };
    // Buffers count from 0: first what is read, then what is stored.
    let (from, out) = (clock.read(Buffer(0)), clock.read(Buffer(1)));
    let (from, out) = (from.map_err(|f| f.to_string())?, out.map_err(|f| f.to_string())?);
    if bytes != from.len() || bytes < 100_000 || from != random::bytes(1, 0, 255, bytes) {
        return Err(format!("{bytes} bytes of {}", from.len()).into());
    }
    // A byte that is read twice or not at all would change the sum.
    if words(&from) == words(&out) { Ok(()) } else { Err("not every byte is read once".into()) }
}

fn products() -> Result<(), Failed> {
    for (path, target) in [(MmaPath::Portable, "sm_90"), (MmaPath::Native, "sm_121a")] {
        let target = target.parse().map_err(|e| format!("{e}"))?;
        let mut clock = Clock::new(None);
        let rate =
            bench::rate(&mut clock, (ISA, target), path, EFFORT).map_err(|failure| failure.to_string())?;
        let out = clock.read(Buffer(0)).map_err(|failure| failure.to_string())?;
        let sums: Vec<f32> = out.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        if rate.is_none() || !sums.iter().all(|sum| sum.is_finite()) || sums.iter().all(|sum| *sum == 0.0) {
            return Err(format!("{path:?}: {:?}", &sums[..8]).into());
        }
    }
    Ok(())
}
