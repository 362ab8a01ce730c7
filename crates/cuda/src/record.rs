//! Launches as cases that `sm121probe emulate` replays: a launch file with the module, the arguments, and the memory before and after.
//!
//! Memory is what the launch can reach: the buffers that its arguments and the module's variables point at, those that words in them
//! point at, and so on. Buffers keep their addresses, so that pointers mean the same. Contents are files by their hash: what many launches
//! read is kept once.

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

use crate::launch::Shape;

/// The folder of contents.
const DATA: &str = "data";
/// Bytes that are looked at together: pieces of zeros are holes of a file.
const PIECE: usize = 1 << 16;

/// Where launches go.
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

/// A launch that has been recorded up to its beginning.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The folder, until all is in it.
    folder: PathBuf,
    name: String,
    buffers: Vec<Before>,
    /// Modules, variables and launches of the file.
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

/// Writes a file of contents, if it is not there. Zeros take no place.
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

/// An argument of the launch file: an address by its buffer, a number, or the bytes of anything else.
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

/// The buffers that bytes point at, and those that these point at.
fn reach(memory: &GlobalMemory, roots: &[u8]) -> BTreeMap<u64, usize> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(u64, usize)> = Vec::new();
    let mut look = |bytes: &[u8], open: &mut Vec<(u64, usize)>| {
        // Also halves of eight bytes: structs are packed as their authors like.
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
        if let Some(bytes) = memory.range(base, len) {
            look(bytes, &mut open);
        }
    }
    found
}

impl Recorder {
    /// That of [`RECORD`].
    pub(crate) fn of_environment() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os(RECORD)?);
        Some(Self { folder, launches: 0 })
    }

    /// Records what a launch finds.
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
            let bytes = memory.range(base, len).unwrap_or_default();
            let before = Before { base, len, hash: hash(bytes), unwritten: memory.unwritten_runs(base) };
            if !is_whole(&before.unwritten, len) {
                keep(&data, &format!("{}.bin", before.hash), bytes)?;
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

    /// Records what it left, or the violation that ended it, and gives the folder its name.
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
                // Values that nobody defined are no result here; to use them is what the rules forbid.
                entry["scratch"] = json!(true);
            }
            let bytes = memory.range(before.base, before.len);
            if let (None, Some(bytes)) = (trap, bytes) {
                let (after, unwritten) = (hash(bytes), memory.unwritten_runs(before.base));
                if !is_whole(&unwritten, before.len) {
                    keep(&data, &format!("{after}.bin"), bytes)?;
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

    /// Forgets a launch that did not run.
    pub(crate) fn drop(begun: &Begun) {
        let _ = fs::remove_dir_all(&begun.folder);
    }
}

/// Whether these runs are all of so many bytes.
fn is_whole(runs: &[Range<usize>], len: usize) -> bool {
    matches!(runs, [all] if *all == (0..len))
}
