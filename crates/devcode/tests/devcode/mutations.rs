//! Real files with random damage: no panic, no hang, no memory beyond what limits allow. The same damage every time.

use std::time::{Duration, Instant};

use crate::build::{ar, data, host, of_bytes, zip};

/// Rounds in every run, and with `SM121PROBE_ALL=1`.
const ROUNDS: u64 = 20_000;
const ALL_ROUNDS: u64 = 1_000_000;

/// Far above what a file of some KB takes, and below what a hang takes.
const LONGEST: Duration = Duration::from_secs(20);
/// A file of some KB may unpack to 256 MiB in steps of 24 MiB; several tests run at once.
const MEMORY_KB: u64 = 1 << 20;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }
}

/// Numbers at the edges of what fields hold.
const EDGES: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 32, u64::MAX / 2, u64::MAX];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let len = bytes.len();
        if len == 0 {
            return;
        }
        // Headers are at the start, tables of archives and ELF files at the end.
        let at = match random.below(4) {
            0 => random.below(len.min(256)),
            1 => len - 1 - random.below(len.min(512)),
            _ => random.below(len),
        };
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 | 3 => {
                let width = [1, 2, 4, 8][random.below(4)];
                let at = at / width * width;
                let value = EDGES[random.below(EDGES.len())].to_le_bytes();
                for (byte, value) in bytes[at..].iter_mut().zip(&value[..width]) {
                    *byte = *value;
                }
            }
            4 => bytes.truncate(at),
            5 => {
                let end = (at + random.below(64)).min(len);
                bytes.drain(at..end);
            }
            6 => {
                let end = (at + random.below(256)).min(len);
                let copy = bytes[at..end].to_vec();
                let to = random.below(len);
                bytes.splice(to..to, copy);
            }
            _ => {
                let from = random.below(len);
                let count = random.below(64).min(len - from).min(len - at);
                bytes.copy_within(from..from + count, at);
            }
        }
    }
}

fn originals() -> Vec<(&'static str, Vec<u8>)> {
    let held = [data("concat.fatbin"), data("sm_90a-12.9.cubin")].concat();
    let object = host(&[("__nv_relfatbin", &data("lz4.fatbin")), (".data", &held)]);
    vec![
        ("x.cubin", data("sm_121a-13.5.cubin")),
        ("x.cubin", data("sm_90a-12.9.cubin")),
        ("x.fatbin", data("lz4.fatbin")),
        ("x.fatbin", data("zstd.fatbin")),
        ("x.fatbin", data("concat.fatbin")),
        ("x.ptx", data("two.ptx")),
        ("x.a", ar(&[("x.cu.o", &object), ("k.cubin", &data("sm_90a-12.9.cubin"))])),
        ("x.whl", zip(&[("p/x.so", &object), ("k.cubin", &data("sm_90a-12.9.cubin"))], false)),
        ("x.whl", zip(&[("p/x.so", &object), ("k.ptx", &data("two.ptx"))], true)),
        ("x.so", object),
    ]
}

/// The largest memory of this process so far, KB; 0 where the system does not say.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
fn random_damage_neither_panics_nor_hangs_nor_takes_memory() {
    let all = std::env::var("SM121PROBE_ALL").is_ok_and(|v| v == "1");
    let rounds = if all { ALL_ROUNDS } else { ROUNDS };
    let originals = originals();
    let mut random = Random(0x5EED_0007);
    let (mut entries, mut problems, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
    for round in 0..rounds {
        let (name, original) = &originals[round as usize % originals.len()];
        let mut bytes = original.clone();
        mutate(&mut bytes, &mut random);
        let start = Instant::now();
        let answer = of_bytes(name, bytes);
        let took = start.elapsed();
        assert!(took < LONGEST, "round {round}, {name}: {took:?}");
        slowest = slowest.max(took);
        entries += answer.entries.len() as u64;
        problems += answer.problems.len() as u64;
    }
    let peak = peak();
    println!("{rounds} rounds, {entries} entries, {problems} problems, slowest {slowest:?}, peak {peak} KB");
    assert!(peak < MEMORY_KB, "{peak} KB");
    // The damage is real and is noticed, and most of what is beside it is still read.
    assert!(problems > rounds / 4 && entries > rounds, "{entries} entries, {problems} problems");
}
