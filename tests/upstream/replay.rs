//! Runs a recording on the emulator, under all rules.

use std::collections::{BTreeSet, HashMap};

use emulator::{Executed, GlobalMemory, InStream, Kernel, Observer, Options, Program, Stop, Violation};
use numerics::Format;

use super::recording::{Recording, Step};

/// Contents of unwritten memory for the second run of each kernel.
const OTHER_POISON: u8 = 0x36;

/// How a run fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The kernel violates a rule: the rule's name and the message.
    Rule(String, String),
    /// The emulator lacks something.
    Unsupported(String),
    /// The launch is invalid, or the emulator failed.
    Broken(String),
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        let what = stop.to_string();
        match stop {
            Stop::Trap(trap) => Self::Rule(trap.rule.word().to_owned(), what),
            Stop::Unsupported(_) => Self::Unsupported(what),
            Stop::Launch(_) | Stop::Bug(_) => Self::Broken(what),
        }
    }
}

/// The contents of the named buffers before the first launch and after the last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Buffers {
    before: HashMap<String, Vec<u8>>,
    after: HashMap<String, Vec<u8>>,
    /// Warp instructions of all launches.
    pub(crate) instructions: u64,
}

/// How an element is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    I32,
    I8,
    U8,
    F32,
    F16,
    Bf16,
    E4m3,
}

impl Element {
    fn decode(self, bytes: &[u8]) -> Vec<f64> {
        let two = |format: Format| {
            bytes
                .chunks_exact(2)
                .map(|b| f64::from(format.decode(u32::from(u16::from_le_bytes([b[0], b[1]])))))
                .collect()
        };
        match self {
            Self::I8 => bytes.iter().map(|b| f64::from(*b as i8)).collect(),
            Self::U8 => bytes.iter().map(|b| f64::from(*b)).collect(),
            Self::E4m3 => bytes.iter().map(|b| f64::from(Format::E4m3.decode(u32::from(*b)))).collect(),
            Self::I32 => bytes
                .chunks_exact(4)
                .map(|b| f64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                .collect(),
            Self::F32 => bytes
                .chunks_exact(4)
                .map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                .collect(),
            Self::F16 => two(Format::F16),
            Self::Bf16 => two(Format::Bf16),
        }
    }
}

impl Buffers {
    /// The contents of a buffer after the last launch; empty if there is no such buffer.
    pub(crate) fn after(&self, name: &str, element: Element) -> Vec<f64> {
        self.after.get(name).map(|bytes| element.decode(bytes)).unwrap_or_default()
    }

    /// A buffer's contents before the first launch.
    pub(crate) fn before(&self, name: &str, element: Element) -> Vec<f64> {
        self.before.get(name).map(|bytes| element.decode(bytes)).unwrap_or_default()
    }

    /// The bytes of a buffer before the first launch.
    pub(crate) fn bytes_before(&self, name: &str) -> &[u8] {
        self.before.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The bytes of a buffer after the last launch.
    pub(crate) fn bytes_after(&self, name: &str) -> &[u8] {
        self.after.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// A buffer whose bytes depend on the contents of unwritten memory; bytes that nothing has written are no result.
    pub(crate) fn depends(&self, other: &Self) -> Option<&str> {
        let same = |(a, b): (&u8, &u8)| a == b || (*a, *b) == (Options::default().poison, OTHER_POISON);
        let differs = |(name, bytes): &(&String, &Vec<u8>)| {
            other.after.get(*name).is_none_or(|others| !bytes.iter().zip(others).all(same))
        };
        self.after.iter().find(differs).map(|(name, _)| name.as_str())
    }

    /// Finds a buffer whose bytes differ.
    pub(crate) fn differs(&self, other: &Self) -> Option<&str> {
        self.after
            .iter()
            .find(|(name, bytes)| other.after.get(*name) != Some(*bytes))
            .map(|(name, _)| name.as_str())
    }
}

/// Options of the schedule `seed`; `fuel` limits the warp instructions of a launch.
pub(crate) fn schedule(seed: u64, fuel: u64) -> Options {
    Options { seed, fuel, ..Options::default() }
}

/// Options with other contents of unwritten memory.
pub(crate) fn poisoned(fuel: u64) -> Options {
    Options { poison: OTHER_POISON, ..schedule(0, fuel) }
}

/// The entries that a recording launches, decoded.
///
/// # Errors
/// What the emulator lacks.
pub(crate) fn program(ptx: &str, recording: &Recording) -> Result<Program, Ended> {
    let mut names: Vec<&str> = recording.launches().map(|l| l.entry.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(emulator::load_only(ptx, &names)?)
}

/// Runs all steps.
///
/// # Errors
/// The first violation, or the missing feature.
pub(crate) fn run(program: &Program, recording: &Recording, options: &Options) -> Result<Buffers, Ended> {
    let options = &Options { shift_shared: !recording.fixed_shared, ..options.clone() };
    steps(program, recording, &mut |stream, memory| {
        Ok(emulator::launch_stream(stream, memory, options).map_err(Stop::from)?.warp_instructions)
    })
}

/// What an observer sees of a run.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The lines of the PTX text, from 1, that are executed.
    pub(crate) lines: BTreeSet<usize>,
    /// Violations that did not end a launch: the names of their rules, and messages.
    pub(crate) violations: Vec<(String, String)>,
}

/// Runs all steps, one launch after the other, and watches.
///
/// # Errors
/// As in [`run`].
pub(crate) fn observed(
    program: &Program,
    recording: &Recording,
    options: &Options,
) -> Result<(Buffers, Seen), Ended> {
    let options = &Options { shift_shared: !recording.fixed_shared, ..options.clone() };
    let mut watch = Watch { rows: Vec::new(), seen: Seen::default() };
    let buffers = steps(program, recording, &mut |stream, memory| {
        let mut all = 0;
        for each in stream {
            watch.rows = program.listing(each.kernel).iter().map(|row| row.line).collect();
            all += emulator::launch_with(each, memory, options, &mut watch)?.warp_instructions;
        }
        Ok(all)
    })?;
    Ok((buffers, watch.seen))
}

/// Collects what a launch does.
struct Watch {
    /// The lines of the launched kernel's rows.
    rows: Vec<usize>,
    seen: Seen,
}

impl Observer for Watch {
    fn row(&mut self, executed: &Executed<'_>) {
        self.seen.lines.extend(self.rows.get(executed.row));
    }

    fn violation(&mut self, violation: &Violation) {
        let trap = &violation.trap;
        self.seen.violations.push((trap.rule.word().to_owned(), trap.to_string()));
    }
}

/// Runs launches that overlap; returns their warp instructions.
type Run<'a> = &'a mut dyn FnMut(&[InStream<'_>], &mut GlobalMemory) -> Result<u64, Stop>;

fn steps(program: &Program, recording: &Recording, run: Run<'_>) -> Result<Buffers, Ended> {
    let mut memory = GlobalMemory::default();
    for buffer in &recording.buffers {
        let at = memory.allocate(buffer.bytes);
        if at != buffer.address {
            return Err(Ended::Broken(format!("a buffer lies at {at:#x}, not at {:#x}", buffer.address)));
        }
    }
    let kernel = |name: &str| {
        program.kernel(name).ok_or_else(|| Ended::Broken(format!("the PTX has no entry {name}")))
    };
    let mut before = None;
    let mut instructions = 0;
    let mut steps = recording.steps.iter().peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::Write(at, bytes) => {
                if !memory.write_at(*at, bytes) {
                    return Err(Ended::Broken(format!(
                        "a copy of {} bytes to {at:#x} leaves its buffer",
                        bytes.len()
                    )));
                }
            }
            Step::Launch(first) => {
                before.get_or_insert_with(|| contents(recording, &memory));
                // A programmatic launch overlaps with its predecessor.
                let mut together = vec![first];
                while let Some(Step::Launch(next)) = steps.peek()
                    && next.programmatic
                {
                    together.push(next);
                    steps.next();
                }
                let mut made = Vec::new();
                for launch in &together {
                    let kernel = kernel(&launch.entry)?;
                    made.push((
                        kernel,
                        emulator::Launch {
                            grid: launch.grid,
                            block: launch.block,
                            shared_bytes: launch.shared_bytes,
                            params: placed(kernel, &launch.arguments),
                        },
                    ));
                }
                let stream: Vec<InStream<'_>> = made
                    .iter()
                    .zip(&together)
                    .map(|((kernel, launch), asked)| InStream {
                        programmatic: asked.programmatic,
                        cluster: Some(asked.cluster).filter(|cluster| *cluster != [1; 3]),
                        cooperative: asked.cooperative,
                        ..InStream::new(program, kernel, launch)
                    })
                    .collect();
                instructions += run(&stream, &mut memory)?;
            }
        }
    }
    if let Some(trap) =
        recording.buffers.iter().filter(|b| b.name.is_some()).find_map(|b| memory.undefined(b.address))
    {
        return Err(Stop::Trap(Box::new(trap.clone())).into());
    }
    let before = before.unwrap_or_default();
    Ok(Buffers { before, after: contents(recording, &memory), instructions })
}

fn contents(recording: &Recording, memory: &GlobalMemory) -> HashMap<String, Vec<u8>> {
    let named = recording.named();
    let bytes = |n: usize| memory.bytes(recording.buffers[n].address).unwrap_or_default().to_vec();
    named.into_iter().map(|(name, n)| (name.to_owned(), bytes(n))).collect()
}

/// Arguments at the offsets of the kernel's parameters.
fn placed(kernel: &Kernel, arguments: &[u8]) -> Vec<u8> {
    let mut out = vec![0; kernel.param_bytes];
    let mut rest = arguments;
    for parameter in &kernel.params {
        let (bytes, behind) = rest.split_at(parameter.size.min(rest.len()));
        out[parameter.offset..parameter.offset + bytes.len()].copy_from_slice(bytes);
        rest = behind;
    }
    out
}
