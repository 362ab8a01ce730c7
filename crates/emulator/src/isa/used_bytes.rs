//! Loads of which the program uses only some bytes, according to `.pragma "used_bytes_mask"`: the others are undefined and may be owned by others.

use crate::api::trap::Fault;
use crate::front::program::{Exec, Row};
use crate::front::registers::Bank;
use crate::rules::undefined::{Loaded, MOST};
use crate::run::machine::{Flow, LANES, Machine, Space, each, lanes};

/// What a load reads for a lane, and how.
pub(super) struct Reads {
    pub(super) exec: Exec,
    /// Bytes of the whole, and of an element.
    pub(super) len: usize,
    pub(super) element: usize,
    /// Whether the registers have 64 bits.
    pub(super) wide: bool,
    /// The used parts: offsets and sizes, aligned powers of two.
    pub(super) pieces: Box<[(usize, usize)]>,
}

/// The bytes that `mask` names, of `len`.
pub(super) fn pieces(mask: u32, len: usize) -> Box<[(usize, usize)]> {
    let used = |at: usize, size: usize| (at..at + size).all(|n| n >= 32 || mask >> n & 1 == 1);
    let mut out = Vec::new();
    let mut at = 0;
    while at < len {
        let sizes = [16, 8, 4, 2, 1].into_iter();
        let whole = sizes.clone().find(|n| at.is_multiple_of(*n) && at + n <= len && used(at, *n));
        out.extend(whole.map(|size| (at, size)));
        at += whole.unwrap_or(1);
    }
    out.into()
}

/// Loads the used bytes, part by part.
pub(super) fn load_used(m: &mut Machine<'_>, row: &Row) -> Flow {
    let Some(reads) = row.extra::<Reads>() else { return Flow::Next };
    let space = Space::numbered(row.b);
    let address = m.r.d[row.a as usize];
    let mut bytes = [[0; MOST]; LANES];
    let mut undefined: Box<Loaded> = Box::new([[0xFF; MOST]; LANES]);
    for lane in lanes(m.mask) {
        let from = address[lane].wrapping_add(row.imm);
        if let Err(fault) = m.lane_reads(space, from, lane, reads, &mut bytes[lane], &mut undefined[lane]) {
            m.loaded = None;
            return m.fail(fault.at(lane));
        }
    }
    let element = |bytes: &[u8; MOST], n: usize| {
        let mut word = [0; 8];
        word[..reads.element].copy_from_slice(&bytes[n * reads.element..(n + 1) * reads.element]);
        let value = u64::from_le_bytes(word);
        let (shift, above) = (64 - 8 * reads.element as u32, 64 - row.c);
        // Sign-extended to registers of `row.c` bits, if that is not 0.
        if row.c == 0 {
            value
        } else {
            ((value << shift).cast_signed() >> shift).cast_unsigned() << above >> above
        }
    };
    for (n, slot) in row.list.iter().enumerate() {
        if reads.wide {
            let to = &mut m.r.d[*slot as usize];
            each(m.mask, |lane| to[lane] = element(&bytes[lane], n));
        } else {
            let to = &mut m.r.w[*slot as usize];
            each(m.mask, |lane| to[lane] = element(&bytes[lane], n) as u32);
        }
    }
    let bank = if reads.wide { Bank::D } else { Bank::W };
    m.loads_undefined(&row.list, bank, |n, lane| element(&undefined[lane], n))
}

impl Machine<'_> {
    /// The used bytes of a lane, and 0xFF in `undefined` for all others.
    fn lane_reads(
        &mut self,
        space: Space,
        from: u64,
        lane: usize,
        reads: &Reads,
        bytes: &mut [u8; MOST],
        undefined: &mut [u8; MOST],
    ) -> Result<(), Fault> {
        // The hardware accesses all bytes. Those that are not used may lie behind the memory, which ends no earlier than the next multiple of
        // their number: compilers widen a load of three elements to one of four where its address is known to be a multiple of 16.
        Self::aligned(from, reads.len)?;
        for (at, size) in &reads.pieces {
            let (at, place) = (*at, from + *at as u64);
            match size {
                16 => bytes[at..at + 16].copy_from_slice(&self.load::<16>(space, place, lane)?),
                8 => bytes[at..at + 8].copy_from_slice(&self.load::<8>(space, place, lane)?),
                4 => bytes[at..at + 4].copy_from_slice(&self.load::<4>(space, place, lane)?),
                2 => bytes[at..at + 2].copy_from_slice(&self.load::<2>(space, place, lane)?),
                _ => bytes[at..=at].copy_from_slice(&self.load::<1>(space, place, lane)?),
            }
            match self.loaded.take() {
                None => undefined[at..at + size].fill(0),
                Some(loaded) => undefined[at..at + size].copy_from_slice(&loaded[lane][..*size]),
            }
        }
        Ok(())
    }
}
