//! Executes loads and stores of whole elements: at once if the lanes access one contiguous range, otherwise lane by lane.

use crate::front::program::Row;
use crate::front::registers::Bank;
use crate::memory::global_words::LoadGlobalByPattern;
use crate::memory::shared_words::{LoadByPattern, LoadWords, StoreWords};
use crate::memory::spans::Reach;
use crate::rules::order::Touch;
use crate::rules::shadow::WORD;
use crate::run::machine::{Flow, LANES, Machine, Space, each, lanes};

/// A register of one of the two banks, for loads and stores.
pub(super) trait Register: Copy + Into<u64> {
    const BANK: Bank;

    /// Selects this bank from the 32-bit and the 64-bit registers.
    fn bank<'a>(w: &'a [[u32; LANES]], d: &'a [[u64; LANES]]) -> &'a [[Self; LANES]];

    /// Like [`Register::bank`], for writing.
    fn bank_mut<'a>(w: &'a mut [[u32; LANES]], d: &'a mut [[u64; LANES]]) -> &'a mut [[Self; LANES]];

    /// Element `n` of `N` bytes in `bytes`, zero-extended, or sign-extended to a register of `signed` bits if that is not 0.
    fn element<const N: usize>(bytes: &[u8], n: usize, signed: u32) -> Self;

    /// Writes the low `N` bytes as element `n` of `bytes`.
    fn put<const N: usize>(self, bytes: &mut [u8], n: usize);
}

macro_rules! register {
    ($ty:ident, $bank:ident, |$w:pat_param, $d:pat_param| $registers:ident) => {
        impl Register for $ty {
            const BANK: Bank = Bank::$bank;

            #[inline(always)]
            fn bank<'a>($w: &'a [[u32; LANES]], $d: &'a [[u64; LANES]]) -> &'a [[Self; LANES]] {
                $registers
            }

            #[inline(always)]
            fn bank_mut<'a>(
                $w: &'a mut [[u32; LANES]],
                $d: &'a mut [[u64; LANES]],
            ) -> &'a mut [[Self; LANES]] {
                $registers
            }

            #[inline(always)]
            fn element<const N: usize>(bytes: &[u8], n: usize, signed: u32) -> Self {
                let mut word = [0; size_of::<Self>()];
                word[..N].copy_from_slice(&bytes[n * N..(n + 1) * N]);
                let value = Self::from_le_bytes(word);
                if signed != 0 && N < size_of::<Self>() {
                    let (shift, above) = (Self::BITS - 8 * N as u32, Self::BITS - signed);
                    return ((value << shift).cast_signed() >> shift).cast_unsigned() << above >> above;
                }
                value
            }

            #[inline(always)]
            fn put<const N: usize>(self, bytes: &mut [u8], n: usize) {
                bytes[n * N..(n + 1) * N].copy_from_slice(&self.to_le_bytes()[..N]);
            }
        }
    };
}

register!(u32, W, |w, _| w);
register!(u64, D, |_, d| d);

/// Loads `T / N` elements of `N` bytes into registers.
pub(super) fn load<R: Register, const N: usize, const T: usize>(m: &mut Machine<'_>, row: &Row) -> Flow {
    let space = Space::numbered(row.b);
    let reach = m.reach_again::<T>(row.a, row.d);
    m.log_reach(row, space, (reach, T), Touch::Load);
    let flow = load_elements::<R, N, T>(m, row, space, reach);
    m.compare_lanes();
    flow
}

/// Loads elements of a parameter of the entry, which is named: its address is the same in all lanes, and all of its bytes are defined.
pub(super) fn load_parameter<R: Register, const N: usize, const T: usize>(
    m: &mut Machine<'_>,
    row: &Row,
) -> Flow {
    let at = m.r.d[row.a as usize][0].wrapping_add(row.imm) as usize;
    let bytes = m.world.params.get(at..).and_then(|from| from.first_chunk::<T>());
    let Some(bytes) = bytes.filter(|_| at.is_multiple_of(T)) else { return load::<R, N, T>(m, row) };
    let bank = R::bank_mut(&mut m.r.w, &mut m.r.d);
    for (n, slot) in row.list.iter().enumerate().take(T / N) {
        let (to, element) = (&mut bank[*slot as usize], R::element::<N>(bytes, n, row.c));
        for (lane, to) in to.iter_mut().enumerate() {
            *to = if m.mask >> lane & 1 == 1 { element } else { *to };
        }
    }
    Flow::Next
}

/// Loads a word of shared memory into a 32-bit register.
pub(super) fn load_shared_word(m: &mut Machine<'_>, row: &Row) -> Flow {
    let reach = m.reach_again::<WORD>(row.a, row.d);
    let (path, slot, offset) = (m.world.path, row.a, row.imm);
    let to = row.list.first().copied().unwrap_or_default();
    if path.run(LoadByPattern { m, reach, offset, to }).is_some() {
        m.compare_lanes();
        return Flow::Next;
    }
    m.log_reach(row, Space::Shared, (reach, WORD), Touch::Load);
    let flow = if !is_run(reach) && path.run(LoadWords { m, slot, offset, to }).is_some() {
        Flow::Next
    } else {
        load_elements::<u32, WORD, WORD>(m, row, Space::Shared, reach)
    };
    m.compare_lanes();
    flow
}

/// Loads a word of global memory, by a generic address or one of its own, into a 32-bit register.
pub(super) fn load_global_word(m: &mut Machine<'_>, row: &Row) -> Flow {
    let reach = m.reach_again::<WORD>(row.a, row.d);
    let to = row.list.first().copied().unwrap_or_default();
    if m.world.path.run(LoadGlobalByPattern { m, reach, offset: row.imm, to }).is_none() {
        return load::<u32, WORD, WORD>(m, row);
    }
    m.compare_lanes();
    Flow::Next
}

/// Whether lanes access a run of words, a run in each half, or one word: lines are found without a look at each lane.
fn is_run(reach: Reach) -> bool {
    match reach {
        Reach::Run(_) | Reach::Same(_) => true,
        Reach::Halves(_, step) => step == WORD as u64,
        Reach::Apart => false,
    }
}

/// Stores a 32-bit register to a word of shared memory.
pub(super) fn store_shared_word(m: &mut Machine<'_>, row: &Row) -> Flow {
    let reach = m.reach_again::<WORD>(row.a, row.d);
    m.log_reach(row, Space::Shared, (reach, WORD), Touch::Store);
    let (path, slot, offset) = (m.world.path, row.a, row.imm);
    let from = row.list.first().copied().unwrap_or_default();
    let flow = if !is_run(reach) && path.run(StoreWords { m, slot, offset, from }).is_some() {
        stored(m, Space::Shared)
    } else {
        store_elements::<u32, WORD, WORD>(m, row, Space::Shared, reach)
    };
    m.compare_lanes();
    flow
}

#[inline(always)]
fn load_elements<R: Register, const N: usize, const T: usize>(
    m: &mut Machine<'_>,
    row: &Row,
    space: Space,
    reach: Reach,
) -> Flow {
    let signed = row.c;
    let together = m.read_together::<T>(space, reach, row.imm, |lanes, w, d| {
        let bank = R::bank_mut(w, d);
        for (n, slot) in row.list.iter().enumerate().take(T / N) {
            let to = &mut bank[*slot as usize];
            for i in 0..LANES {
                to[i] = R::element::<N>(&lanes[i], n, signed);
            }
        }
    });
    if together.is_some() {
        return Flow::Next;
    }
    let pieces = if m.mask == !0 && matches!(reach, Reach::Apart | Reach::Halves(..)) {
        m.read_pieces::<T>(space, row.a, row.imm)
    } else {
        None
    };
    let apart = pieces
        .or_else(|| m.read_local::<T>(space, row.a, row.imm))
        .or_else(|| m.read_lines::<T>(space, (row.a, reach), row.imm))
        .or_else(|| m.read_parts::<T>(space, row.a, row.imm))
        .or_else(|| m.read_runs::<T>(space, row.a, row.imm));
    if let Some(lanes) = apart {
        let bank = R::bank_mut(&mut m.r.w, &mut m.r.d);
        for (n, slot) in row.list.iter().enumerate().take(T / N) {
            let to = &mut bank[*slot as usize];
            each(m.mask, |i| to[i] = R::element::<N>(&lanes[i], n, signed));
        }
        return Flow::Next;
    }
    let address = m.r.d[row.a as usize];
    for i in lanes(m.mask) {
        let bytes = match m.load::<T>(space, address[i].wrapping_add(row.imm), i) {
            Ok(bytes) => bytes,
            Err(fault) => return m.fail(fault.at(i)),
        };
        let bank = R::bank_mut(&mut m.r.w, &mut m.r.d);
        for (n, slot) in row.list.iter().enumerate() {
            bank[*slot as usize][i] = R::element::<N>(&bytes, n, signed);
        }
    }
    match m.loaded.take() {
        None => Flow::Next,
        Some(loaded) => {
            let bits = |n, lane: usize| R::element::<N>(&loaded[lane], n, signed).into();
            m.loads_undefined(&row.list, R::BANK, bits)
        }
    }
}

/// Stores `T / N` elements of `N` bytes from registers.
pub(super) fn store<R: Register, const N: usize, const T: usize>(m: &mut Machine<'_>, row: &Row) -> Flow {
    let space = Space::numbered(row.b);
    let reach = m.reach_again::<T>(row.a, row.d);
    m.log_reach(row, space, (reach, T), Touch::Store);
    let flow = store_elements::<R, N, T>(m, row, space, reach);
    m.compare_lanes();
    flow
}

#[inline(always)]
fn store_elements<R: Register, const N: usize, const T: usize>(
    m: &mut Machine<'_>,
    row: &Row,
    space: Space,
    reach: Reach,
) -> Flow {
    let together = m.write_together::<T>(space, reach, row.imm, |lanes, w, d| {
        let bank = R::bank(w, d);
        for (n, slot) in row.list.iter().enumerate().take(T / N) {
            let from = &bank[*slot as usize];
            for i in 0..LANES {
                from[i].put::<N>(&mut lanes[i], n);
            }
        }
    });
    if together.is_some() {
        return stored(m, space);
    }
    let mut bytes = [[0; T]; LANES];
    let bank = R::bank(&m.r.w, &m.r.d);
    // Those of inactive lanes are not stored.
    for (n, slot) in row.list.iter().enumerate().take(T / N) {
        let from = &bank[*slot as usize];
        for i in 0..LANES {
            from[i].put::<N>(&mut bytes[i], n);
        }
    }
    store_apart(m, row, (space, reach), &bytes)
}

/// Stores lane by lane.
fn store_apart<const T: usize>(
    m: &mut Machine<'_>,
    row: &Row,
    (space, reach): (Space, Reach),
    bytes: &[[u8; T]; LANES],
) -> Flow {
    let address = m.r.d[row.a as usize];
    if m.write_local(space, row.a, row.imm, bytes).is_some() {
        return stored(m, space);
    }
    let kept = m.keep_lanes(row, space, &address, bytes);
    let bytes = kept.as_ref().unwrap_or(bytes);
    let pieces = if m.mask == !0 { m.write_pieces(space, row.a, row.imm, bytes) } else { None };
    let written = pieces
        .or_else(|| m.write_lines(space, (row.a, reach), row.imm, bytes))
        .or_else(|| m.write_parts(space, row.a, row.imm, bytes))
        .or_else(|| m.write_runs(space, row.a, row.imm, bytes));
    if written.is_none() {
        for i in lanes(m.mask) {
            if let Err(fault) = m.write::<T>(space, address[i].wrapping_add(row.imm), i, bytes[i]) {
                return m.fail(fault.at(i));
            }
        }
    }
    m.record_remarks();
    stored(m, space)
}

/// A waiting warp may poll for the store.
pub(super) fn stored(m: &mut Machine<'_>, space: Space) -> Flow {
    match space {
        Space::Shared => m.cta.events += 1,
        Space::Global | Space::Generic | Space::Cluster => m.world.events += 1,
        _ => {}
    }
    Flow::Next
}
