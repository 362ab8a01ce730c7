//! Runs a test under one schedule.

use emulator::argument::{self, Content};
use emulator::{
    Contraction, GlobalMemory, InStream, Kernel, Launch, Options, Program, Registers, Stop, TensorMap,
    launch_stream, load_with,
};

use super::header::Test;
use super::section::{Given, Run};

/// The buffers at the end, in the test's order.
pub(crate) type Buffers = Vec<Vec<u8>>;

/// Runs all launches of a test, in order, on one memory.
pub(crate) fn run(test: &Test, seed: u64, registers: Registers, threads: usize) -> Result<Buffers, Stop> {
    let mut program = load_with(&test.ptx, registers)?;
    if test.contract {
        program = program.contracted(&Contraction::Every)?;
    }
    let mut memory = GlobalMemory::default();
    let mut addresses = Vec::new();
    for (name, content) in &test.buffers {
        let address = match content {
            Content::Zeros(shape) => memory.allocate_with(vec![0; shape.bytes]),
            Content::Iota(shape) => memory.allocate_with(argument::iota(shape)),
            Content::Random(seed, shape) => memory.allocate_with(argument::random(*seed, shape)),
            Content::Unwritten(shape) => memory.allocate(shape.bytes),
            Content::File { .. } => {
                return Err(Stop::Launch(format!("`{name}`: a test reads no safetensors file")));
            }
        };
        addresses.push((name.as_str(), address));
    }
    let mut launches = Vec::new();
    for run in &test.runs {
        launches.push((run, entry(&program, run)?));
    }
    let prepared: Vec<Launch> = launches
        .iter()
        .map(|(run, kernel)| {
            Ok(Launch {
                grid: run.grid,
                block: run.block,
                shared_bytes: run.shared_bytes,
                params: parameters(run, kernel, &addresses)?,
            })
        })
        .collect::<Result<_, Stop>>()?;
    let stream: Vec<InStream<'_>> = launches
        .iter()
        .zip(&prepared)
        .map(|((run, kernel), launch)| InStream {
            programmatic: run.programmatic,
            cooperative: run.cooperative,
            ..InStream::new(&program, kernel, launch)
        })
        .collect();
    let options = Options {
        check_widths: true,
        seed,
        fuel: test.fuel,
        check_init: test.checks.initialisation,
        check_races: test.checks.races,
        check_fences: test.checks.fences,
        threads,
        ..Options::default()
    };
    launch_stream(&stream, &mut memory, &options)?;
    // A test's buffers are its results.
    if let Some(trap) = addresses.iter().find_map(|(_, at)| memory.undefined(*at)) {
        return Err(Stop::Trap(Box::new(trap.clone())));
    }
    Ok(addresses.iter().map(|(_, at)| memory.bytes(*at).unwrap_or_default().to_vec()).collect())
}

fn entry<'a>(program: &'a Program, run: &Run) -> Result<&'a Kernel, Stop> {
    let found = match (&run.entry, program.kernels.as_slice()) {
        (Some(name), _) => program.kernel(name),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        Stop::Launch(format!("`--entry` must be one of {}", names.join(", ")))
    })
}

fn parameters(run: &Run, kernel: &Kernel, addresses: &[(&str, u64)]) -> Result<Vec<u8>, Stop> {
    if run.args.len() != kernel.params.len() {
        let (given, wanted) = (run.args.len(), kernel.params.len());
        return Err(Stop::Launch(format!("{} takes {wanted} arguments, not {given}", kernel.name)));
    }
    let address = |name: &str| addresses.iter().find(|(known, _)| *known == name).map_or(0, |(_, at)| *at);
    let mut params = vec![0; kernel.param_bytes];
    for (given, param) in run.args.iter().zip(&kernel.params) {
        let bytes = match given {
            Given::Value(bytes) => bytes.clone(),
            Given::Buffer(name) => address(name).to_le_bytes().to_vec(),
            Given::Map(map) => TensorMap { address: address(&map.of), ..map.map }
                .encode()
                .map_err(|error| Stop::Launch(error.to_string()))?
                .to_vec(),
        };
        if bytes.len() != param.size {
            let (given, wanted) = (bytes.len(), param.size);
            return Err(Stop::Launch(format!("`{}` has {wanted} bytes, not {given}", param.name)));
        }
        params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
    }
    Ok(params)
}
