//! The output of the recording runtime: buffers, copies, tensor maps and launches, in order.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use emulator::{Interleave, L2Promotion, OobFill, Swizzle, TensorMap, TensorType};
use ptx::{Immediate, Init, Item, Variable};
use sm121probe::store::Store;
use sm121probe::worker::{self, Ended};

use super::compile::Built;

/// Time limit of a host program.
const LIMIT: Duration = Duration::from_secs(60);

/// The mark of a tensor map in the recorded bytes, followed by its number.
const MAP_MARK: &[u8] = b"recorded tensor map ";

/// A launch.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) entry: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) cluster: [u32; 3],
    pub(crate) programmatic: bool,
    pub(crate) cooperative: bool,
    /// The arguments, concatenated.
    pub(crate) arguments: Vec<u8>,
}

/// An event on the device.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Bytes are written to an address.
    Write(u64, Vec<u8>),
    /// A kernel runs.
    Launch(Launch),
}

/// A buffer.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    /// The program's name for it.
    pub(crate) name: Option<String>,
}

/// The events of a host program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording {
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) steps: Vec<Step>,
    /// Whether dynamic shared memory is aligned as on a GPU, which the kernels rely on, instead of being shifted by schedules.
    pub(crate) fixed_shared: bool,
}

impl Recording {
    /// Runs a case of a host program.
    ///
    /// # Errors
    /// The failure, as text.
    pub(crate) fn of(store: &Store, built: &Built, case: &str) -> Result<Self, String> {
        let scratch = store.scratch().map_err(|error| error.to_string())?;
        let path = |name: &str| scratch.path().join(name);
        for (name, text) in [("parameters", parameters(&built.ptx)?), ("variables", variables(&built.ptx)?)] {
            fs::write(path(name), text).map_err(|error| error.to_string())?;
        }
        let mut command = Command::new(&built.host);
        command.arg(case);
        for (variable, name) in [
            ("RECORD_PARAMETERS", "parameters"),
            ("RECORD_VARIABLES", "variables"),
            ("RECORD_STEPS", "steps"),
            ("RECORD_BYTES", "bytes"),
        ] {
            command.env(variable, path(name));
        }
        let output = worker::run(&mut command, LIMIT).map_err(|error| error.to_string())?;
        if !matches!(output.ended, Ended::Exited(0)) {
            return Err(format!("the host program failed: {}", output.text()));
        }
        let read = |name: &str| fs::read(path(name)).map_err(|error| error.to_string());
        let steps = String::from_utf8(read("steps")?).map_err(|error| error.to_string())?;
        Self::parse(&steps, &read("bytes")?)
    }

    fn parse(text: &str, bytes: &[u8]) -> Result<Self, String> {
        let mut all = Self::default();
        let mut maps: Vec<[u8; 128]> = Vec::new();
        for line in text.lines() {
            let wrong = || format!("the recording has the line `{line}`");
            let (word, rest) = line.split_once(' ').ok_or_else(wrong)?;
            let numbers = |text: &str| -> Result<Vec<u64>, String> {
                text.split_whitespace().map(|n| n.parse().map_err(|_| wrong())).collect()
            };
            let piece = |at: u64, len: u64| {
                bytes.get(at as usize..(at + len) as usize).map(<[u8]>::to_vec).ok_or_else(wrong)
            };
            match word {
                "allocate" => {
                    let [address, len] = numbers(rest)?[..] else { return Err(wrong()) };
                    all.buffers.push(Buffer { address, bytes: len as usize, name: None });
                }
                "name" => {
                    let (address, name) = rest.split_once(' ').ok_or_else(wrong)?;
                    let address: u64 = address.parse().map_err(|_| wrong())?;
                    let buffer = all.buffers.iter_mut().find(|b| b.address == address).ok_or_else(wrong)?;
                    buffer.name = Some(name.to_owned());
                }
                "write" => {
                    let [to, at, len] = numbers(rest)?[..] else { return Err(wrong()) };
                    all.steps.push(Step::Write(to, with_maps(piece(at, len)?, &maps)));
                }
                "map" => maps.push(map(&numbers(rest)?).ok_or_else(wrong)??),
                "launch" => {
                    let (entry, rest) = rest.split_once(' ').ok_or_else(wrong)?;
                    let n = numbers(rest)?;
                    if n.len() != 14 {
                        return Err(wrong());
                    }
                    let three = |at: usize| [n[at] as u32, n[at + 1] as u32, n[at + 2] as u32];
                    all.steps.push(Step::Launch(Launch {
                        entry: entry.to_owned(),
                        grid: three(0),
                        block: three(3),
                        shared_bytes: n[6] as u32,
                        cluster: three(7),
                        programmatic: n[10] != 0,
                        cooperative: n[11] != 0,
                        arguments: with_maps(piece(n[12], n[13])?, &maps),
                    }));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(all)
    }

    /// The launches, in order.
    pub(crate) fn launches(&self) -> impl Iterator<Item = &Launch> {
        self.steps.iter().filter_map(|step| match step {
            Step::Launch(launch) => Some(launch),
            Step::Write(..) => None,
        })
    }

    /// Whether a launch may begin before its predecessor has ended.
    pub(crate) fn overlaps(&self) -> bool {
        self.steps
            .windows(2)
            .any(|two| matches!(two, [Step::Launch(_), Step::Launch(next)] if next.programmatic))
    }

    /// The named buffers, by name.
    pub(crate) fn named(&self) -> HashMap<&str, usize> {
        self.buffers.iter().enumerate().filter_map(|(n, b)| Some((b.name.as_deref()?, n))).collect()
    }
}

/// The PTX without the entries that a recording does not launch.
pub(crate) fn launched_only(ptx: &str, recording: &Recording) -> String {
    let launched: HashSet<&str> = recording.launches().map(|launch| launch.entry.as_str()).collect();
    let mut out = String::new();
    // Open braces of an entry that is left out; `None` outside such an entry.
    let mut open: Option<usize> = None;
    for line in ptx.lines() {
        if let Some((_, rest)) = line.split_once(".entry ")
            && !launched.contains(rest.split('(').next().unwrap_or(rest).trim())
        {
            open = Some(0);
        }
        let Some(before) = open else {
            out += line;
            out.push('\n');
            continue;
        };
        let code = line.split("//").next().unwrap_or(line);
        let after = before + code.matches('{').count() - code.matches('}').count();
        open = (after > 0 || before == 0).then_some(after);
    }
    out
}

/// Bytes of each parameter, one line per entry: the host program does not know them.
fn parameters(ptx: &str) -> Result<String, String> {
    let module = ptx::parse(ptx).map_err(|error| error.to_string())?;
    let mut out = String::new();
    let size = |v: &Variable| {
        v.ty.bytes()
            * usize::from(v.vector.max(1))
            * v.dims.iter().map(|d| d.unwrap_or(1) as usize).product::<usize>()
    };
    for item in &module.items {
        if let Item::Function(function) = item
            && function.entry
        {
            let _ = write!(out, "{}", function.name);
            for parameter in &function.params {
                let _ = write!(out, " {}", size(parameter));
            }
            out.push('\n');
        }
    }
    Ok(out)
}

/// Initial values of the integer variables, one line each: host code may ask for them.
fn variables(ptx: &str) -> Result<String, String> {
    let module = ptx::parse(ptx).map_err(|error| error.to_string())?;
    let mut out = String::new();
    for item in &module.items {
        if let Item::Variable(Variable {
            name,
            init: Some(Init::Number(Immediate::Integer { bits, .. })),
            ..
        }) = item
        {
            let _ = writeln!(out, "{name} {bits}");
        }
    }
    Ok(out)
}

/// A tensor map from the arguments of `cuTensorMapEncodeTiled`.
fn map(n: &[u64]) -> Option<Result<[u8; 128], String>> {
    let rank = *n.get(2)? as usize;
    let lists = n.get(8..)?;
    if !(1..=5).contains(&rank) || lists.len() != 4 * rank - 1 {
        return None;
    }
    let (dims, rest) = lists.split_at(rank);
    let (strides, rest) = rest.split_at(rank - 1);
    let (boxes, steps) = rest.split_at(rank);
    let small = |list: &[u64]| list.iter().map(|n| *n as u32).collect::<Vec<_>>();
    let mut map = TensorMap::dense(TensorType::from_code(n[1])?, n[3], dims, &small(boxes));
    map.strides[..rank - 1].copy_from_slice(strides);
    map.element_strides[..rank].copy_from_slice(&small(steps));
    map.interleave = Interleave::from_code(n[4])?;
    map.swizzle = Swizzle::from_code(n[5])?;
    map.l2_promotion = L2Promotion::from_code(n[6])?;
    map.oob_fill = OobFill::from_code(n[7])?;
    Some(map.encode().map_err(|error| error.to_string()))
}

/// The bytes with tensor maps in place of their marks.
fn with_maps(mut bytes: Vec<u8>, maps: &[[u8; 128]]) -> Vec<u8> {
    let marks: Vec<usize> = bytes
        .windows(MAP_MARK.len())
        .enumerate()
        .filter(|(_, window)| *window == MAP_MARK)
        .map(|(at, _)| at)
        .collect();
    for at in marks {
        let number: String = bytes[at + MAP_MARK.len()..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .map(|b| char::from(*b))
            .collect();
        if let (Some(map), Some(place)) =
            (number.parse().ok().and_then(|n: usize| maps.get(n)), bytes.get_mut(at..at + 128))
        {
            place.copy_from_slice(map);
        }
    }
    bytes
}
