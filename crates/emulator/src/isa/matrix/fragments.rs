//! Fragments: how registers of a warp become a matrix of codes and back, by tables made at decode time.

use numerics::dispatch;
use numerics::fragment::{self, Operand};
use numerics::tensor_core::MmaShape;
use pulp::NullaryFnOnce;

use crate::machine::{LANES, Registers};

/// Buffers of matrix instructions, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) a: Vec<u32>,
    pub(super) b: Vec<u32>,
    pub(super) c: Vec<u32>,
    pub(super) d: Vec<u32>,
    pub(super) a_scales: Vec<u32>,
    pub(super) b_scales: Vec<u32>,
    /// The columns of B that one row of a sparse A meets.
    pub(super) chosen: Vec<u32>,
}

/// One operand: its registers, and where their elements lie in the row-major matrix.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) slots: Box<[u32]>,
    /// Of register and lane: the place of the first element. The others of a register follow it.
    places: Box<[u16]>,
    /// Bits of an element's place in the register.
    bits: u32,
    /// What lies below the code there.
    shift: u32,
    mask: u32,
    /// Elements of the matrix.
    pub(super) len: usize,
}

/// [`Fragment::gather`], compiled once for each set of vector instructions.
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
        match fragment.bits {
            1 => fragment.gather_by::<32>(r, out),
            4 => fragment.gather_by::<8>(r, out),
            8 => fragment.gather_by::<4>(r, out),
            16 => fragment.gather_by::<2>(r, out),
            _ => fragment.gather_by::<1>(r, out),
        }
    }
}

impl Fragment {
    /// `operand` of `shape` in registers `slots`, elements of `bits` bits (32 for `f64` too).
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
        let len = slots.len() * LANES * fragment::per_register(bits);
        Self {
            places: places.collect(),
            slots: slots.into(),
            bits,
            shift: 0,
            mask: u32::MAX >> (32 - bits.min(32)),
            len,
        }
    }

    /// Elements stand in a container with `shift` bits below them and are `bits` wide.
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

    #[inline(always)]
    fn gather_by<const N: usize>(&self, r: &Registers, out: &mut [u32]) {
        let (shift, mask) = (self.shift, self.mask);
        for (slot, places) in self.slots.iter().zip(self.places.chunks_exact(LANES)) {
            let words = &r.w[*slot as usize];
            for (word, place) in words.iter().zip(places) {
                let place = usize::from(*place);
                let Some(to) = out.get_mut(place..place + N) else { continue };
                let word = *word >> shift;
                // No closure: it would be compiled apart, as a loop.
                for n in 0..N {
                    to[n] = word >> (n * 32 / N) & mask;
                }
            }
        }
    }

    /// Writes the matrix of codes to the registers.
    pub(super) fn scatter(&self, r: &mut Registers, from: &[u32]) {
        match self.bits {
            16 => self.scatter_by::<2>(r, from),
            _ => self.scatter_by::<1>(r, from),
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
