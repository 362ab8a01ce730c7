//! Fragments: the mapping from registers of a warp to a matrix of codes and back, by tables built during decoding.

use numerics::dispatch;
use numerics::fragment::{self, Operand};
use numerics::tensor_core::MmaShape;
use pulp::NullaryFnOnce;

use crate::run::machine::{LANES, Registers};

/// One operand: its registers, and the places of their elements in the row-major matrix.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) slots: Box<[u32]>,
    /// By register and lane: the place of the first element. The others of a register follow it.
    places: Box<[u16]>,
    /// Bits of an element's container in the register.
    bits: u32,
    /// The bits below the code in the container.
    shift: u32,
    mask: u32,
    /// Elements of the matrix.
    pub(super) len: usize,
    order: Order,
}

/// The arrangement of the elements of four consecutive lanes in the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Any,
    /// Neighbours: A and B.
    Neighbours,
    /// Neighbours alternating with those of the next register: C.
    Pairs,
}

/// Lanes of a quad.
const QUAD: usize = 4;

impl Order {
    /// The arrangement of `places`, a lane's first place for each lane of each register, with this many elements each.
    fn from_places(places: &[u16], elements: usize) -> Self {
        let steps_by = |step: usize| {
            places.chunks(QUAD).all(|quad| {
                (0..).zip(quad).all(|(lane, place)| usize::from(*place) == usize::from(quad[0]) + lane * step)
            })
        };
        let (registers, rest) = places.as_chunks::<{ 2 * LANES }>();
        let in_turn = |both: &[u16; 2 * LANES]| {
            both[..LANES].iter().zip(&both[LANES..]).all(|(first, second)| *second == first + 1)
        };
        if steps_by(elements) {
            Self::Neighbours
        } else if elements == 1 && steps_by(2) && rest.is_empty() && registers.iter().all(in_turn) {
            Self::Pairs
        } else {
            Self::Any
        }
    }
}

/// [`Fragment::gather`], compiled once per set of vector instructions.
struct Gather<'a> {
    fragment: &'a Fragment,
    r: &'a Registers,
    out: &'a mut [u32],
}

impl NullaryFnOnce for Gather<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { fragment, r, out } = self;
        let (shift, mask) = (fragment.shift, fragment.mask);
        match (fragment.bits, shift) {
            (1, _) => fragment.gather_by::<32, 128>(r, out, shift, mask),
            (4, _) => fragment.gather_by::<8, 32>(r, out, shift, mask),
            (8, _) => fragment.gather_by::<4, 16>(r, out, shift, mask),
            // Constants turn the shifts into one vector instruction.
            (16, 0) if mask == 0xFFFF => fragment.gather_by::<2, 8>(r, out, 0, 0xFFFF),
            (16, _) => fragment.gather_by::<2, 8>(r, out, shift, mask),
            _ => fragment.gather_by::<1, 4>(r, out, shift, mask),
        }
    }
}

impl Fragment {
    /// Returns `operand` of `shape` in registers `slots`, elements of `bits` bits (32 for `f64` too).
    pub(super) fn new(operand: Operand, shape: MmaShape, bits: u32, slots: Vec<u32>) -> Self {
        let place = |reg: usize, lane: usize| {
            let ((row, column), width) = match operand {
                Operand::A => (fragment::a_index(shape, bits, lane, reg, 0), shape.k),
                Operand::B => (fragment::b_index(shape, bits, lane, reg, 0), shape.k),
                Operand::C => (fragment::c_index(shape, bits, lane, reg, 0), shape.n),
            };
            (row * width + column) as u16
        };
        let places = (0..slots.len()).flat_map(|reg| (0..LANES).map(move |lane| place(reg, lane)));
        let places: Box<[u16]> = places.collect();
        let elements = fragment::per_register(bits);
        let len = slots.len() * LANES * elements;
        Self {
            order: Order::from_places(&places, elements),
            places,
            slots: slots.into(),
            bits,
            shift: 0,
            mask: u32::MAX >> (32 - bits.min(32)),
            len,
        }
    }

    /// Elements are in a container with `shift` bits below them and are `bits` wide.
    pub(super) fn contained(mut self, shift: u32, bits: u32) -> Self {
        self.shift = shift;
        self.mask = u32::MAX >> (32 - bits);
        self
    }

    /// The matrix of codes.
    pub(super) fn gather(&self, r: &Registers, out: &mut Vec<u32>) {
        out.resize(self.len, 0);
        dispatch(Gather { fragment: self, r, out });
    }

    /// `N` elements a register, `ALL` in those of a quad.
    #[inline(always)]
    fn gather_by<const N: usize, const ALL: usize>(
        &self,
        r: &Registers,
        out: &mut [u32],
        shift: u32,
        mask: u32,
    ) {
        match self.order {
            Order::Neighbours => return self.gather_neighbours::<N, ALL>(r, out, shift, mask),
            Order::Pairs => return self.gather_pairs(r, out),
            Order::Any => {}
        }
        for (slot, places) in self.slots.iter().zip(self.places.chunks_exact(LANES)) {
            let words = &r.w[*slot as usize];
            for (word, place) in words.iter().zip(places) {
                let place = usize::from(*place);
                let Some(to) = out.get_mut(place..place + N) else { continue };
                let word = *word >> shift;
                // Not a closure: it would be compiled separately, as a loop.
                for n in 0..N {
                    to[n] = word >> (n * 32 / N) & mask;
                }
            }
        }
    }

    /// The words of each quad of register `at`, and its first place.
    #[inline(always)]
    fn quads<'a>(&'a self, r: &'a Registers, at: usize) -> impl Iterator<Item = (&'a [u32; QUAD], usize)> {
        let (words, _) = r.w[self.slots[at] as usize].as_chunks::<QUAD>();
        let places = self.places[at * LANES..].iter().step_by(QUAD);
        words.iter().zip(places).map(|(words, place)| (words, usize::from(*place)))
    }

    #[inline(always)]
    fn gather_neighbours<const N: usize, const ALL: usize>(
        &self,
        r: &Registers,
        out: &mut [u32],
        shift: u32,
        mask: u32,
    ) {
        for at in 0..self.slots.len() {
            for (words, place) in self.quads(r, at) {
                let Some(to) = out.get_mut(place..).and_then(|to| to.first_chunk_mut::<ALL>()) else {
                    continue;
                };
                let mut codes = [0; ALL];
                for i in 0..ALL {
                    codes[i] = words[i / N] >> shift >> (i % N * 32 / N) & mask;
                }
                *to = codes;
            }
        }
    }

    #[inline(always)]
    fn gather_pairs(&self, r: &Registers, out: &mut [u32]) {
        for at in (1..self.slots.len()).step_by(2) {
            for ((first, place), (second, _)) in self.quads(r, at - 1).zip(self.quads(r, at)) {
                let Some(to) = out.get_mut(place..).and_then(|to| to.first_chunk_mut()) else { continue };
                let mut codes = [0; 2 * QUAD];
                for lane in 0..QUAD {
                    codes[2 * lane] = first[lane] >> self.shift & self.mask;
                    codes[2 * lane + 1] = second[lane] >> self.shift & self.mask;
                }
                *to = codes;
            }
        }
    }

    /// Writes the matrix of codes to the registers.
    pub(super) fn scatter(&self, r: &mut Registers, from: &[u32]) {
        match (self.bits, self.order) {
            (16, _) => self.scatter_by::<2>(r, from),
            (_, Order::Pairs) => self.scatter_pairs(r, from),
            _ => self.scatter_by::<1>(r, from),
        }
    }

    fn scatter_pairs(&self, r: &mut Registers, from: &[u32]) {
        for (at, slot) in self.slots.iter().enumerate() {
            let (words, _) = r.w[*slot as usize].as_chunks_mut::<QUAD>();
            // Every other element from here: the places of the second of two registers are one higher.
            let places = self.places[at * LANES..].iter().step_by(QUAD);
            for (words, place) in words.iter_mut().zip(places) {
                let place = usize::from(*place);
                let Some(codes) = from.get(place..place + 2 * QUAD - 1) else { continue };
                for lane in 0..QUAD {
                    words[lane] = codes[2 * lane] & self.mask;
                }
            }
        }
    }

    #[inline(always)]
    fn scatter_by<const N: usize>(&self, r: &mut Registers, from: &[u32]) {
        for (slot, places) in self.slots.iter().zip(self.places.chunks_exact(LANES)) {
            let words = &mut r.w[*slot as usize];
            for (word, place) in words.iter_mut().zip(places) {
                let place = usize::from(*place);
                let Some(codes) = from.get(place..place + N) else { continue };
                let mut all = 0;
                for n in 0..N {
                    all |= (codes[n] & self.mask) << (n * 32 / N);
                }
                *word = all;
            }
        }
    }

    /// The matrix of doubles.
    pub(super) fn gather_doubles(&self, r: &Registers) -> Vec<u64> {
        let mut out = vec![0; self.len];
        for (slot, places) in self.slots.iter().zip(self.places.chunks_exact(LANES)) {
            for (value, place) in r.d[*slot as usize].iter().zip(places) {
                if let Some(to) = out.get_mut(usize::from(*place)) {
                    *to = *value;
                }
            }
        }
        out
    }

    /// Writes the matrix of doubles to the registers.
    pub(super) fn scatter_doubles(&self, r: &mut Registers, from: &[u64]) {
        for (slot, places) in self.slots.iter().zip(self.places.chunks_exact(LANES)) {
            for (value, place) in r.d[*slot as usize].iter_mut().zip(places) {
                *value = from.get(usize::from(*place)).copied().unwrap_or(0);
            }
        }
    }
}
