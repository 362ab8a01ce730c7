//! Records launches as cases for `sm121probe emulate`: a launch file with the module, the arguments, and the memory before and after.
//!
//! The memory of a case is what the launch can reach: the buffers to which its arguments and the module's variables point, the buffers to
//! which words in those point, and so on. Buffers keep their addresses, so pointers stay valid. Contents are stored in files named by
//! their hash, so data that many launches read are stored once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use emulator::events::{INCOMPLETE, RECORD};
use emulator::{GlobalMemory, Kernel, Program, Trap};
use ptx::Type;
use serde_json::{Value, json};

use crate::device::work::Shape;

/// The folder of buffer contents.
const DATA: &str = "data";
/// Number of bytes inspected at a time; blocks of zeros become holes of a sparse file.
const PIECE: usize = 1 << 16;

/// Writes launches to a folder.
#[derive(Debug)]
pub(crate) struct Recorder {
    folder: PathBuf,
    launches: usize,
}

/// A buffer before its launch.
#[derive(Debug)]
struct Before {
    base: u64,
    len: usize,
    hash: String,
    unwritten: Vec<Range<usize>>,
}

/// A launch recorded up to its start.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The temporary folder, renamed when the recording is complete.
    folder: PathBuf,
    name: String,
    buffers: Vec<Before>,
    /// The parts of the launch file before its buffers (modules, variables) and after them (launches).
    head: String,
    tail: String,
}

/// The hash of a buffer, which names its file.
fn hash(bytes: &[u8]) -> String {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(seed);
        hasher.write(bytes);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

/// Writes a content file unless it exists. Zeros occupy no space.
fn keep(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(());
    }
    let part = folder.join(format!("{INCOMPLETE}{}-{name}", std::process::id()));
    let file = File::create(&part)?;
    file.set_len(bytes.len() as u64)?;
    for (n, piece) in bytes.chunks(PIECE).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            file.write_all_at(piece, (n * PIECE) as u64)?;
        }
    }
    fs::rename(part, path)
}

/// An argument of the launch file: a buffer with an offset for an address, a number, or the bytes of anything else.
fn argument(bytes: &[u8], ty: Type, buffers: &[Before]) -> Value {
    let float = matches!(ty, Type::F32 | Type::F64);
    if let (Ok(word), false) = (<[u8; 8]>::try_from(bytes), float) {
        let word = u64::from_le_bytes(word);
        let inside = |b: &&Before| b.base <= word && word < b.base + b.len as u64;
        return match buffers.iter().find(inside) {
            Some(b) => json!({"buffer": name_of(b.base), "offset": word - b.base}),
            None => json!({"u64": word}),
        };
    }
    match (<[u8; 4]>::try_from(bytes), float) {
        (Ok(word), false) => json!({"u32": u32::from_le_bytes(word)}),
        _ => json!({"struct": [{"u8": bytes}], "size": bytes.len()}),
    }
}

fn name_of(base: u64) -> String {
    format!("b{base:x}")
}

fn pairs(runs: &[Range<usize>]) -> Vec<[usize; 2]> {
    runs.iter().map(|run| [run.start, run.len()]).collect()
}

/// The buffers that are reachable from pointers in `roots`.
fn reach(memory: &GlobalMemory, roots: &[u8]) -> BTreeMap<u64, usize> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(u64, usize)> = Vec::new();
    let mut look = |bytes: &[u8], open: &mut Vec<(u64, usize)>| {
        // At 4-byte steps, because packed structs may contain misaligned pointers.
        for word in bytes.windows(8).step_by(4) {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if word >> 32 != 0
                && let Some((base, len)) = memory.buffer_around(word)
                && found.insert(base, len).is_none()
            {
                open.push((base, len));
            }
        }
    };
    look(roots, &mut open);
    while let Some((base, len)) = open.pop() {
        // Not contiguous if kernels have written some pages of the host.
        if let Some(bytes) = memory.contents(base).filter(|bytes| bytes.len() == len) {
            look(&bytes, &mut open);
        }
    }
    found
}

impl Recorder {
    /// Returns the recorder for the folder named by [`RECORD`].
    pub(crate) fn of_environment() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os(RECORD)?);
        Some(Self { folder, launches: 0 })
    }

    /// Records the state before a launch.
    pub(crate) fn begin(
        &mut self,
        (program, kernel): (&Program, &Kernel),
        constants: &[(String, Vec<u8>)],
        (shape, params): (&Shape, &[u8]),
        memory: &GlobalMemory,
    ) -> io::Result<Begun> {
        let data = self.folder.join(DATA);
        fs::create_dir_all(&data)?;
        let variables = program.variables_on(memory);
        let addresses = variables.iter().flat_map(|at| at.to_le_bytes());
        let roots: Vec<u8> = addresses.chain(params.iter().copied()).collect();
        let mut buffers = Vec::new();
        for (base, len) in reach(memory, &roots) {
            let bytes = memory.contents(base).unwrap_or_default();
            let before = Before { base, len, hash: hash(&bytes), unwritten: memory.unwritten_runs(base) };
            if !is_whole(&before.unwritten, len) {
                keep(&data, &format!("{}.bin", before.hash), &bytes)?;
            }
            buffers.push(before);
        }
        let module = format!("{}.ptx", hash(program.text().as_bytes()));
        keep(&data, &module, program.text().as_bytes())?;
        let names: Vec<String> = variables.iter().map(|at| name_of(*at)).collect();
        let mut head = format!(
            "modules:\n  module: {}\n",
            json!({"file": format!("../{DATA}/{module}"), "variables": names})
        );
        if !constants.is_empty() {
            head += "variables:\n";
            for (name, bytes) in constants {
                _ = writeln!(head, "- {}", json!({"name": name, "value": {"u8": bytes}}));
            }
        }
        let args: Vec<Value> = kernel
            .params
            .iter()
            .map(|p| argument(params.get(p.offset..p.offset + p.size).unwrap_or_default(), p.ty, &buffers))
            .collect();
        let mut launch = json!({
            "entry": kernel.name, "grid": shape.grid, "block": shape.block, "smem": shape.shared_bytes,
            "cooperative": shape.cooperative, "args": args,
        });
        if let Some(cluster) = shape.cluster {
            launch["cluster"] = json!(cluster);
        }
        let short: String =
            kernel.name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
        let name = format!("{}-{:06}-{short}", std::process::id(), self.launches);
        self.launches += 1;
        let folder = self.folder.join(format!("{INCOMPLETE}{name}"));
        fs::create_dir_all(&folder)?;
        Ok(Begun { folder, name, buffers, head, tail: format!("launches:\n- {launch}\n") })
    }

    /// Records the state after a launch, or the violation that ended it, and gives the folder its final name.
    pub(crate) fn end(&self, begun: Begun, memory: &GlobalMemory, trap: Option<&Trap>) -> io::Result<()> {
        let data = self.folder.join(DATA);
        let mut text = begun.head;
        if let Some(trap) = trap {
            text.insert_str(0, &format!("# The launch violates the rule {}.\n", trap.rule.word()));
        }
        text += "buffers:\n";
        for before in &begun.buffers {
            let mut entry = json!({"type": "u8", "shape": before.len, "address": before.base});
            if !is_whole(&before.unwritten, before.len) {
                entry["raw"] = json!(format!("../{DATA}/{}.bin", before.hash));
                if !before.unwritten.is_empty() {
                    entry["unwritten"] = json!(pairs(&before.unwritten));
                }
            }
            if memory.undefined(before.base).is_some() {
                // Undefined values are not results; the rules forbid their use.
                entry["scratch"] = json!(true);
            }
            let bytes = memory.contents(before.base);
            if let (None, Some(bytes)) = (trap, bytes) {
                let (after, unwritten) = (hash(&bytes), memory.unwritten_runs(before.base));
                if !is_whole(&unwritten, before.len) {
                    keep(&data, &format!("{after}.bin"), &bytes)?;
                    entry["expect"] =
                        json!({"raw": format!("../{DATA}/{after}.bin"), "unwritten": pairs(&unwritten)});
                }
            }
            _ = writeln!(text, "  {}: {entry}", name_of(before.base));
        }
        text += &begun.tail;
        let mut file = File::create(begun.folder.join("launch.yaml"))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&begun.folder, self.folder.join(begun.name))
    }

    /// Discards a launch that did not run.
    pub(crate) fn drop(begun: &Begun) {
        let _ = fs::remove_dir_all(&begun.folder);
    }
}

/// Whether these runs cover all `len` bytes.
fn is_whole(runs: &[Range<usize>], len: usize) -> bool {
    matches!(runs, [all] if *all == (0..len))
}
