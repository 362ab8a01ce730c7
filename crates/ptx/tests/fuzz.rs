//! The parser and the scanner on damaged files: no panic, and what parses reads back. `SM121PROBE_FUZZ_SECONDS` says for how long.

#![expect(clippy::panic, reason = "a test that panics has failed")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ptx::scan::{self, CodeLines};

/// Words that open, close or turn something.
const WORDS: [&str; 22] = [
    "{",
    "}",
    "(",
    ")",
    ";",
    ",",
    "\"",
    "/*",
    "*/",
    "//",
    "\n",
    ".version 9.0",
    ".target sm_120a",
    ".entry k",
    ".func",
    ".reg .b32 %r<9>;",
    "@!%p1 ",
    "$L:",
    "0x",
    "1e",
    "\0",
    "\u{e9}",
];

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) as usize % limit.max(1)
    }
}

/// Cuts, doubles, overwrites and splices.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(40)).min(bytes.len());
        let from = random.below(other.len());
        let new = match random.below(5) {
            0 => Vec::new(),
            1 => bytes[at..end].repeat(2),
            2 => vec![random.below(256) as u8],
            3 => other[from..(from + random.below(80)).min(other.len())].to_vec(),
            _ => WORDS[random.below(WORDS.len())].as_bytes().to_vec(),
        };
        bytes.splice(at..end, new);
    }
}

/// Whether a text parses; then it must read back.
fn fuzz(data: &[u8]) -> bool {
    let mut cursor = scan::Cursor::new(data);
    while !cursor.rest().is_empty() {
        if cursor.word().is_empty() {
            cursor.at += 1;
        }
    }
    let text = String::from_utf8_lossy(data);
    let outline = scan::outline(&text);
    for range in outline.version.iter().chain(&outline.target).chain(&outline.directives) {
        assert!(text.get(range.clone()).is_some(), "{range:?} is no part of the text");
    }
    let mut code = CodeLines::default();
    text.lines().for_each(|line| assert!(code.code(line).len() <= line.len() + 1, "{line}"));
    let (_, _) = (scan::target(&text), scan::instructions(&text));
    let Ok(module) = ptx::parse(&text) else { return false };
    let printed = module.to_string();
    let again = ptx::parse(&printed).unwrap_or_else(|e| panic!("printed: {e}\n{printed}"));
    assert!(ptx::same_meaning(&module, &again), "reads back otherwise:\n{printed}");
    true
}

#[test]
fn damaged_files_are_survived() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files = ["corpus", "nvrtc"].iter().flat_map(|folder| fs::read_dir(tests.join(folder)).unwrap());
    let mut corpus: Vec<Vec<u8>> = files.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    corpus.sort();
    corpus.iter().for_each(|file| _ = fuzz(file));
    let seconds = std::env::var("SM121PROBE_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut random = Random(0x5EED_0011);
    let (mut rounds, mut parsed) = (0_usize, 0_usize);
    while rounds < 200 || Instant::now() < end {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        let other = corpus[random.below(corpus.len())].clone();
        mutate(&mut bytes, &other, &mut random);
        parsed += usize::from(fuzz(&bytes));
        rounds += 1;
    }
    println!("{rounds} rounds, {parsed} parse");
    // The damage is real, and not all of it is refused at the first word.
    assert!(parsed > 0 && parsed < rounds, "{parsed} of {rounds}");
}
