//! Runs a kernel in several ways that must agree.

use emulator::{GlobalMemory, Launch, Options, Stop, launch, load};
use numerics::Path;

use super::kernel::{BULK, CTAS, ENTRY, INPUT, OUTPUT, SCRATCH, THREADS};
use super::random::Random;

/// The limit on executed warp instructions: random kernels have thousands.
const FUEL: u64 = 2_000_000;

/// What a kernel leaves in global memory: its results, its own bytes, those of bulk copies.
pub type Outputs = Vec<u8>;

/// A way that disagrees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// The emulator refuses the kernel, finds a violation, or fails.
    #[error("{way}: {why}")]
    Stopped {
        /// The way it was run.
        way: &'static str,
        /// The reason.
        why: String,
    },
    /// The printed tree is refused or has another tree.
    #[error("the printed syntax tree parses to another one: {0}")]
    Text(String),
    /// A way gives other results than the first.
    #[error(
        "{way}: byte {at} of the results is {got:#04x}, and {wanted:#04x} with every rule and schedule 0"
    )]
    Results {
        /// The way it was run.
        way: &'static str,
        /// The first byte that differs.
        at: usize,
        /// Its value.
        got: u8,
        /// Its value in the first way.
        wanted: u8,
    },
}

/// Runs a kernel with every rule and schedule 0.
///
/// # Errors
/// [`Stop`] if the emulator refuses it or finds a violation.
pub fn outputs(text: &str, seed: u64) -> Result<Outputs, Stop> {
    run(text, seed, &base())
}

fn base() -> Options {
    Options { fuel: FUEL, threads: 1, ..Options::default() }
}

/// Checks a kernel in every way that needs no GPU.
///
/// # Errors
/// [`Difference`]: the first way that disagrees.
pub fn check(text: &str, seed: u64) -> Result<Outputs, Difference> {
    let stopped = |way: &'static str| move |stop: Stop| Difference::Stopped { way, why: stop.to_string() };
    let first = run(text, seed, &base()).map_err(stopped("every rule, schedule 0"))?;
    let tree = ptx::parse(text).map_err(|error| Difference::Text(error.to_string()))?;
    let printed = tree.to_string();
    let again = ptx::parse(&printed).map_err(|error| Difference::Text(error.to_string()))?;
    if !ptx::same_meaning(&tree, &again) {
        return Err(Difference::Text("the trees differ".to_owned()));
    }
    let lax = Options { check_init: false, check_races: false, ..base() };
    let agree = |way: &'static str, got: Result<Outputs, Stop>| {
        let got = got.map_err(stopped(way))?;
        match emulator::device::first_difference(&got, &first) {
            None => Ok(()),
            Some(at) => Err(Difference::Results { way, at, got: got[at], wanted: first[at] }),
        }
    };
    agree("the printed text", run(&printed, seed, &lax))?;
    agree("schedule 1", run(text, seed, &Options { seed: 1, ..base() }))?;
    agree(
        "no rules, schedule 2, four threads",
        run(text, seed, &Options { seed: 2, threads: 4, ..lax.clone() }),
    )?;
    agree("other contents of unwritten memory", run(text, seed, &Options { poison: 0, ..base() }))?;
    if let Some(scalar) = Path::available().first() {
        agree("scalar rows", scalar.force(|| run(text, seed, &lax)))?;
    }
    Ok(first)
}

fn run(text: &str, seed: u64, options: &Options) -> Result<Outputs, Stop> {
    let program = load(text)?;
    let kernel = program.kernel(ENTRY).ok_or_else(|| Stop::Launch(format!("there is no entry {ENTRY}")))?;
    let all = THREADS * CTAS;
    let mut memory = GlobalMemory::default();
    let input = memory.allocate_with(input(seed, (all * INPUT) as usize));
    let results = [all * OUTPUT, all * SCRATCH, CTAS * BULK];
    let mut addresses = vec![input];
    for (n, bytes) in results.iter().enumerate() {
        let filling =
            if n == 0 { vec![0; *bytes as usize] } else { self::input(seed ^ 0xA5, *bytes as usize) };
        addresses.push(memory.allocate_with(filling));
    }
    let params = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
    let how = Launch { grid: [CTAS, 1, 1], block: [THREADS, 1, 1], shared_bytes: 0, params };
    launch(&program, kernel, &how, &mut memory, options)?;
    let of = |address: &u64| memory.bytes(*address).unwrap_or_default().to_vec();
    Ok(addresses[1..].iter().flat_map(of).collect())
}

/// The input of a seed: numbers at which instructions change, small ones and random ones.
fn input(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(!seed);
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        let x = random.number();
        match random.below(3) {
            0 => out.extend(x.to_le_bytes()),
            1 => out.extend([x as u32, random.number() as u32].into_iter().flat_map(u32::to_le_bytes)),
            _ => out.extend((0..4).flat_map(|_| (random.number() as u16).to_le_bytes())),
        }
    }
    out.truncate(bytes);
    out
}
