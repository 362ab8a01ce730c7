//! Measures a GPU's peak rates: bytes per second from memory, operations per second of its tensor cores.

use emulator::device::{Argument, Failure, Launch, Timer};
use ptx::arch::{PtxIsa, Target};

use crate::kernel::MmaPath;

const READ: &str = include_str!("read_all.ptx");
const BF16: &str = include_str!("multiply_bf16.ptx");
const MX: &str = include_str!("multiply_mx.ptx");

/// Threads of a CTA.
const BLOCK: u32 = 256;
/// Bytes that a thread of the reader kernel reads per round.
const PER_ROUND: usize = 64;
/// Rounds of a short read.
const FEW_ROUNDS: usize = 4;
/// Matrix instructions that one warp issues per round.
const PRODUCTS: u64 = 8;

/// How much work a measurement does.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Bytes to read.
    pub bytes: usize,
    /// Rounds of matrix instructions per launch.
    pub rounds: u32,
    /// CTAs per launch.
    pub ctas: u32,
    /// Warm-up runs, which are not timed.
    pub warm_up: usize,
    /// Timed runs, of which the median is taken.
    pub samples: usize,
}

/// Returns the PTX of a kernel for a PTX version and target.
fn text(source: &str, isa: PtxIsa, target: Target) -> String {
    source.replace("${isa}", &isa.to_string()).replace("${target}", &target.to_string())
}

/// Returns the median of `times`; infinity if there are none.
#[must_use]
pub fn median(times: &[f32]) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(|t| f64::from(*t)).collect();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(half)) {
        (_, None) => f64::INFINITY,
        (0, Some(upper)) => f64::midpoint(*upper, sorted[half - 1]),
        (_, Some(middle)) => *middle,
    }
}

fn launch(entry: &str, module: emulator::device::Module, ctas: u32, arguments: Vec<Argument>) -> Launch {
    Launch {
        module,
        entry: entry.to_owned(),
        grid: [ctas, 1, 1],
        block: [BLOCK, 1, 1],
        shared_bytes: 0,
        arguments,
        programmatic: false,
        cluster: [1; 3],
        cooperative: false,
    }
}

/// Creates a launch that reads a new buffer of at least `bytes` bytes. Returns it with the number of bytes that it reads.
///
/// # Errors
/// [`Failure`] if the device cannot load the kernel or allocate the buffer.
pub fn reader(
    device: &mut dyn Timer,
    (isa, target): (PtxIsa, Target),
    bytes: usize,
    ctas: u32,
) -> Result<(Launch, usize), Failure> {
    let threads = (ctas * BLOCK) as usize;
    let rounds = bytes.div_ceil(threads * PER_ROUND).max(1);
    let bytes = rounds * threads * PER_ROUND;
    let module = device.load(&text(READ, isa, target))?;
    let from = device.allocate_random(bytes, 1, 0, 255)?;
    let out = device.allocate_unwritten(4 * threads)?;
    let rounds = u32::try_from(rounds).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    let arguments = vec![Argument::Address(from), Argument::Address(out), Argument::Value(rounds)];
    Ok((launch("read_all", module, ctas, arguments), bytes))
}

/// Creates a launch that reads a new buffer of at least `bytes` bytes in a few rounds: as many CTAs as that takes. Returns it with the number
/// of bytes that it reads, which exceeds `bytes` by less than those of a CTA.
///
/// # Errors
/// [`Failure`] if the device cannot load the kernel or allocate the buffer.
pub(super) fn short_reader(
    device: &mut dyn Timer,
    code: (PtxIsa, Target),
    bytes: usize,
) -> Result<(Launch, usize), Failure> {
    let of_cta = BLOCK as usize * PER_ROUND * FEW_ROUNDS;
    let ctas = u32::try_from(bytes.div_ceil(of_cta).max(1)).unwrap_or(u32::MAX);
    reader(device, code, ctas as usize * of_cta, ctas)
}

/// Measures the read bandwidth of device memory, in bytes per second.
///
/// # Errors
/// [`Failure`] if the device cannot run the kernel.
pub fn bandwidth(device: &mut dyn Timer, code: (PtxIsa, Target), effort: Effort) -> Result<f64, Failure> {
    device.reset()?;
    let (launch, bytes) = reader(device, code, effort.bytes, effort.ctas)?;
    let times = timed(device, &launch, &launch, effort)?;
    Ok(bytes as f64 / (median(&times) / 1e3))
}

/// Times a launch with another one before each sample, in milliseconds.
///
/// # Errors
/// [`Failure`] if the device cannot run them.
pub(super) fn timed(
    device: &mut dyn Timer,
    launch: &Launch,
    before: &Launch,
    effort: Effort,
) -> Result<Vec<f32>, Failure> {
    let one = std::slice::from_ref(launch);
    let times = device.time(one, before, effort.warm_up, effort.samples)?;
    Ok(times.into_iter().next().unwrap_or_default())
}

/// Returns the MMA instruction of a path, the source and entry of the kernel that measures it, and the operations per
/// instruction; `None` for a path without tensor cores.
fn product(path: MmaPath) -> Option<(&'static str, &'static str, &'static str, u64)> {
    let operations = |k: u64| 2 * 16 * 8 * k;
    match path {
        MmaPath::Portable => Some(("mma.sync m16n8k16 bf16", BF16, "multiply_bf16", operations(16))),
        MmaPath::Native => {
            Some(("mma.sync m16n8k32 mxf8f6f4 e4m3 e2m1 block_scale", MX, "multiply_mx", operations(32)))
        }
        MmaPath::Gemv => None,
    }
}

/// Measures the throughput of a path's MMA instruction. Returns its name and operations per second; `None` for a path
/// without tensor cores.
///
/// # Errors
/// [`Failure`] if the device cannot run the kernel.
pub fn rate(
    device: &mut dyn Timer,
    (isa, target): (PtxIsa, Target),
    path: MmaPath,
    effort: Effort,
) -> Result<Option<(&'static str, f64)>, Failure> {
    let Some((name, source, entry, each)) = product(path) else { return Ok(None) };
    device.reset()?;
    let module = device.load(&text(source, isa, target))?;
    let out = device.allocate_unwritten(4 * (effort.ctas * BLOCK) as usize)?;
    let rounds = effort.rounds.to_le_bytes().to_vec();
    let launch = launch(entry, module, effort.ctas, vec![Argument::Address(out), Argument::Value(rounds)]);
    let warps = u64::from(effort.ctas * BLOCK / 32);
    let times = timed(device, &launch, &launch, effort)?;
    let operations = warps * PRODUCTS * each * u64::from(effort.rounds);
    Ok(Some((name, operations as f64 / (median(&times) / 1e3))))
}
