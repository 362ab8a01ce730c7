//! Execution profile of a launch: instructions by opcode, sectors of global memory, bank conflicts of shared memory.

use std::collections::BTreeMap;

use crate::api::observe::{Executed, Listed, Observer, Pointed};
use crate::run::machine::lanes;

/// Size in bytes of a sector, the unit of global memory traffic.
const SECTOR: u64 = 32;

/// Number of shared memory banks, and bytes of each.
const BANKS: u64 = 32;
const BANK_BYTES: u64 = 4;

/// Traffic of one kind of access to one state space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpaceTraffic {
    /// Warp-level instructions.
    pub accesses: u64,
    /// Bytes requested by lanes.
    pub bytes: u64,
    /// 32-byte sectors (global), or passes over the banks (shared).
    pub transactions: u64,
    /// Transactions in excess of a conflict-free or fully used access.
    pub excess: u64,
}

/// A memory access, derived from the instruction's text.
#[derive(Debug, Clone, Copy)]
struct Access {
    /// Index of the address operand.
    operand: usize,
    named: Option<Pointed>,
    bytes: u64,
    write: bool,
}

/// Execution counts of a launch, collected as an [`Observer`].
#[derive(Debug, Clone)]
pub struct Profile {
    /// Warp executions, per row.
    executed: Vec<u64>,
    /// Active lanes, per row.
    lanes: Vec<u64>,
    listing: Vec<Listed>,
    accesses: Vec<Vec<Access>>,
    /// Loads from global memory.
    pub global_loads: SpaceTraffic,
    /// Stores to global memory.
    pub global_stores: SpaceTraffic,
    /// Loads from shared memory.
    pub shared_loads: SpaceTraffic,
    /// Stores to shared memory.
    pub shared_stores: SpaceTraffic,
    /// Excess passes of shared memory accesses, per row.
    conflicts: Vec<u64>,
}

impl Profile {
    /// An empty profile for a kernel with this listing.
    #[must_use]
    pub fn new(listing: Vec<Listed>) -> Self {
        let n = listing.len();
        Self {
            executed: vec![0; n],
            lanes: vec![0; n],
            accesses: listing.iter().map(|row| accesses(&row.text)).collect(),
            conflicts: vec![0; n],
            listing,
            global_loads: SpaceTraffic::default(),
            global_stores: SpaceTraffic::default(),
            shared_loads: SpaceTraffic::default(),
            shared_stores: SpaceTraffic::default(),
        }
    }

    /// Warp executions and active lanes per opcode with its modifiers, most frequent first.
    #[must_use]
    pub fn histogram(&self) -> Vec<(String, u64, u64)> {
        let mut by_opcode: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for ((row, n), lanes) in self.listing.iter().zip(&self.executed).zip(&self.lanes) {
            if row.first && *n > 0 {
                let sum = by_opcode.entry(opcode(&row.text)).or_default();
                sum.0 += n;
                sum.1 += lanes;
            }
        }
        let mut rows: Vec<(String, u64, u64)> =
            by_opcode.into_iter().map(|(name, (n, lanes))| (name.to_owned(), n, lanes)).collect();
        rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rows
    }

    /// Instructions whose shared memory accesses conflict, with the number of excess passes, worst first.
    #[must_use]
    pub fn conflicts(&self) -> Vec<(&Listed, u64)> {
        let rows = self.listing.iter().zip(self.conflicts.iter().copied());
        let mut rows: Vec<(&Listed, u64)> = rows.filter(|(_, n)| *n > 0).collect();
        rows.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        rows
    }
}

impl Observer for Profile {
    fn row(&mut self, executed: &Executed<'_>) {
        let row = executed.row;
        if row >= self.executed.len() {
            return;
        }
        self.executed[row] += 1;
        self.lanes[row] += u64::from(executed.mask.count_ones());
        for n in 0..self.accesses[row].len() {
            let access = self.accesses[row][n];
            let Some((place, addresses)) = executed.addresses(access.operand, access.named) else { continue };
            let lanes: Vec<u64> = lanes(executed.mask).map(|lane| addresses[lane]).collect();
            let bytes = access.bytes * lanes.len() as u64;
            let (traffic, transactions, least) = match (place, access.write) {
                (Pointed::Global, write) => {
                    let traffic = if write { &mut self.global_stores } else { &mut self.global_loads };
                    let (sectors, used) = sectors(&lanes, access.bytes);
                    (traffic, sectors, used)
                }
                (Pointed::Shared, write) => {
                    let traffic = if write { &mut self.shared_stores } else { &mut self.shared_loads };
                    let (passes, least) = passes(&lanes, access.bytes);
                    self.conflicts[row] += passes - least;
                    (traffic, passes, least)
                }
                (Pointed::Other, _) => continue,
            };
            traffic.accesses += 1;
            traffic.bytes += bytes;
            traffic.transactions += transactions;
            traffic.excess += transactions - least;
        }
    }
}

/// Sectors that the addresses touch, and the minimum for as many distinct bytes.
fn sectors(addresses: &[u64], bytes: u64) -> (u64, u64) {
    let mut touched: Vec<u64> =
        addresses.iter().flat_map(|a| a / SECTOR..=(a + bytes - 1) / SECTOR).collect();
    touched.sort_unstable();
    touched.dedup();
    let mut distinct = addresses.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let least = (distinct.len() as u64 * bytes).div_ceil(SECTOR).min(touched.len() as u64);
    (touched.len() as u64, least)
}

/// Passes over the banks that the addresses need, and the minimum. A warp's 8-byte accesses are processed by half-warps and its
/// 16-byte accesses by quarter-warps; lanes that access the same word share it.
fn passes(addresses: &[u64], bytes: u64) -> (u64, u64) {
    let together = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    let (mut passes, mut least) = (0, 0);
    for group in addresses.chunks(together) {
        let mut words: Vec<u64> =
            group.iter().flat_map(|a| a / BANK_BYTES..=(a + bytes - 1) / BANK_BYTES).collect();
        words.sort_unstable();
        words.dedup();
        let mut banks = [0u64; BANKS as usize];
        for word in &words {
            banks[(word % BANKS) as usize] += 1;
        }
        passes += banks.iter().copied().max().unwrap_or(0);
        least += (words.len() as u64).div_ceil(BANKS);
    }
    (passes, least)
}

/// The opcode with its modifiers.
fn opcode(text: &str) -> &str {
    let text = match text.strip_prefix('@') {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest),
        None => text,
    };
    text.split([' ', ';']).next().unwrap_or(text)
}

/// The memory accesses of an instruction with per-lane addresses. Bulk copies have none.
fn accesses(text: &str) -> Vec<Access> {
    let name = opcode(text);
    let mut words = name.split('.');
    let first = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    let named = if words.iter().any(|w| w.starts_with("shared")) {
        Some(Pointed::Shared)
    } else if words.contains(&"global") {
        Some(Pointed::Global)
    } else if words.iter().any(|w| ["local", "param", "const"].contains(w)) {
        Some(Pointed::Other)
    } else {
        None
    };
    let one = |write| Access { operand: 0, named, bytes: element_bytes(&words), write };
    match first {
        "ld" | "ldu" => vec![one(false)],
        "st" if !words.contains(&"async") && !words.contains(&"bulk") => vec![one(true)],
        "atom" => vec![one(true)],
        "red" if !words.contains(&"async") => vec![one(true)],
        "ldmatrix" => vec![Access { operand: 0, named: Some(Pointed::Shared), bytes: 16, write: false }],
        "stmatrix" => vec![Access { operand: 0, named: Some(Pointed::Shared), bytes: 16, write: true }],
        "cp" if words.contains(&"async") && words.contains(&"shared") && !words.contains(&"bulk") => {
            let bytes = text.rsplit(',').map(|w| w.trim_matches([' ', ';'])).find_map(|w| w.parse().ok());
            let bytes = bytes.unwrap_or(16);
            vec![
                Access { operand: 0, named: Some(Pointed::Shared), bytes, write: true },
                Access { operand: 1, named: Some(Pointed::Global), bytes, write: false },
            ]
        }
        _ => Vec::new(),
    }
}

/// Size of the element type times the vector length, in bytes.
fn element_bytes(words: &[&str]) -> u64 {
    let mut bytes = 1;
    for word in words {
        let (letters, digits) = word.split_at(word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len()));
        match (letters, digits.parse::<u64>()) {
            ("b" | "u" | "s" | "f", Ok(bits)) => bytes *= bits / 8,
            ("v", Ok(n)) => bytes *= n,
            ("f", Err(_)) if *word == "f16x2" => bytes *= 4,
            ("bf", Err(_)) if *word == "bf16x2" => bytes *= 4,
            ("bf", Ok(16)) => bytes *= 2,
            _ => {}
        }
    }
    bytes.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_words_conflict_and_shared_ones_do_not() {
        let addresses = |stride: u64| (0..32).map(|lane| lane * stride).collect::<Vec<u64>>();
        assert_eq!(passes(&addresses(4), 4), (1, 1));
        assert_eq!(passes(&addresses(8), 4), (2, 1));
        assert_eq!(passes(&addresses(128), 4), (32, 1));
        assert_eq!(passes(&addresses(0), 4), (1, 1));
        assert_eq!(passes(&addresses(16), 16), (4, 4));
        assert_eq!(sectors(&addresses(4), 4), (4, 4));
        assert_eq!(sectors(&addresses(32), 4), (32, 4));
    }

    #[test]
    fn accesses_are_read_from_the_text() {
        let bytes = |text: &str| accesses(text).iter().map(|a| a.bytes).collect::<Vec<_>>();
        assert_eq!(bytes("@%p1 ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];"), [16]);
        assert_eq!(bytes("st.shared.u8 [%r1], %rs1;"), [1]);
        assert_eq!(bytes("cp.async.cg.shared.global [%r1], [%rd1], 16;"), [16, 16]);
        assert_eq!(bytes("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];"), [16]);
        assert_eq!(bytes("add.s32 %r1, %r2, %r3;"), Vec::<u64>::new());
        assert_eq!(opcode("@!%p1 bra $L__BB0_2;"), "bra");
        assert_eq!(opcode("ret;"), "ret");
    }
}
