//! Sums over the keys of a row, for each element of the output: its value, and what the bound is made of.

use numerics::Path;
use pulp::NullaryFnOnce;

/// A key as it enters the sums.
pub(super) struct Term<'a> {
    /// The elements of its value, before `factor`.
    pub row: &'a [f32],
    pub factor: f64,
    /// Its weight relative to the largest.
    pub weight: f64,
    /// Its share in the sum of weights, and that multiplied by the errors of the weight.
    pub share: f64,
    pub eta: f64,
    pub rho: f64,
    pub later: f64,
    /// What may be lost of its weight, over the sum of weights.
    pub absolute: f64,
    /// What of its value counts as that of others than the key with the largest weight.
    pub others: f64,
}

/// Sums over the keys for an element, each weighted by share and error: of the distances from the result, of the sizes, and of the distances
/// from the value of the key with the largest weight; what additions to a short sum lose; and how far that value, weighted, is from itself,
/// plus the sizes of the others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub eta: f64,
    pub rho_off: f64,
    pub rho: f64,
    pub later: f64,
    pub absolute: f64,
    pub size: f64,
    pub off_hot: f64,
    pub short: f64,
    pub others: f64,
}

/// Elements that are summed at a time: all sums of them stay in registers.
const TOGETHER: usize = 4;

/// Returns the elements, divided by `total`, and their sums. `hot` has the value of the key with the largest weight.
///
/// Every element is summed over the keys in order, whatever the vector instructions are.
pub(super) fn by_element(terms: &[Term<'_>], hot: &[f64], total: f64) -> (Vec<f64>, Vec<Sums>) {
    let mut elements = Elements { out: vec![0.0; hot.len()], sums: vec![Sums::default(); hot.len()] };
    Path::current().run(Summed { terms, hot, total, elements: &mut elements });
    (elements.out, elements.sums)
}

/// The results of [`by_element`].
struct Elements {
    out: Vec<f64>,
    sums: Vec<Sums>,
}

/// [`by_element`], compiled once per vector instruction set.
struct Summed<'a> {
    terms: &'a [Term<'a>],
    hot: &'a [f64],
    total: f64,
    elements: &'a mut Elements,
}

impl NullaryFnOnce for Summed<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let whole = self.hot.len() / TOGETHER * TOGETHER;
        for first in (0..whole).step_by(TOGETHER) {
            block::<TOGETHER>(self.terms, self.hot, self.total, first, self.elements);
        }
        for first in whole..self.hot.len() {
            block::<1>(self.terms, self.hot, self.total, first, self.elements);
        }
    }
}

/// The values of `N` elements from `first`; zeros beyond the end.
#[inline(always)]
fn values<const N: usize>(row: &[f32], first: usize) -> [f64; N] {
    let row: &[f32; N] = row.get(first..).and_then(<[f32]>::first_chunk).unwrap_or(&[0.0; N]);
    let mut out = [0.0; N];
    for i in 0..N {
        out[i] = f64::from(row[i]);
    }
    out
}

#[inline(always)]
fn block<const N: usize>(terms: &[Term<'_>], hot: &[f64], total: f64, first: usize, into: &mut Elements) {
    let mut out = [0.0; N];
    // Divided once at the end, so that sums that are exact in binary32 are exact here, too.
    for term in terms {
        let (weight, v) = (term.weight * term.factor, values::<N>(term.row, first));
        for i in 0..N {
            out[i] += weight * v[i];
        }
    }
    let hot: [f64; N] = hot.get(first..).and_then(<[f64]>::first_chunk).copied().unwrap_or([0.0; N]);
    for o in &mut out {
        *o /= total;
    }
    // One array for each sum, so that they are vectors.
    let [mut eta, mut rho_off, mut rho, mut later] = [[0.0; N]; 4];
    let [mut absolute, mut size, mut off_hot, mut others] = [[0.0; N]; 4];
    for term in terms {
        let v = values::<N>(term.row, first);
        for i in 0..N {
            let v = v[i] * term.factor;
            let (off, magnitude) = ((v - out[i]).abs(), v.abs());
            eta[i] += term.eta * off;
            rho_off[i] += term.rho * off;
            rho[i] += term.rho * magnitude;
            later[i] += term.later * magnitude;
            absolute[i] += term.absolute * (magnitude + out[i].abs());
            size[i] += term.share * magnitude;
            off_hot[i] += term.share * (v - hot[i]).abs();
            others[i] += term.others * magnitude;
        }
    }
    for i in 0..N {
        into.out[first + i] = out[i];
        into.sums[first + i] = Sums {
            eta: eta[i],
            rho_off: rho_off[i],
            rho: rho[i],
            later: later[i],
            absolute: absolute[i],
            size: size[i],
            off_hot: off_hot[i],
            short: 0.0,
            others: others[i],
        };
    }
}
